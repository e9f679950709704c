"""What a purge does to a thread, its form in a plan file, and the result of a purge."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from ckpt_backends.changes.removal import Inside, Removal
from ckpt_backends.errors import CkptError
from ckpt_backends.model import BlobKey

Action = Literal["remove", "prune", "keep"]
"""Remove the whole thread, remove some of its checkpoints, or keep it because of a rule."""

NOT_FOUND = "not found"
"""The reason for a thread that was named but does not exist."""


@dataclass(frozen=True, slots=True)
class PlannedRemoval:
    """One thread of a plan, with the counts of what will be removed."""

    action: Action
    reason: str
    checkpoints: int
    writes: int
    removal: Removal
    blobs: int = 0
    """Channel values stored apart from checkpoints."""
    bytes: int = 0
    keeps: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    """For a pruned thread: the checkpoints that are kept, by namespace and id, with the reasons."""
    line: str = field(default="", repr=False, compare=False)
    """What `to_plan_line` makes of it, as JSON; `''` if that was not kept."""

    @property
    def thread_id(self) -> str:
        return self.removal.thread_id


@dataclass(slots=True)
class RemovalSum:
    """A number of threads, with the sums of what is removed from them."""

    threads: int = 0
    checkpoints: int = 0
    writes: int = 0
    blobs: int = 0
    bytes: int = 0

    def add(self, one: PlannedRemoval) -> None:
        self.threads += 1
        self.checkpoints += one.checkpoints
        self.writes += one.writes
        self.blobs += one.blobs
        self.bytes += one.bytes


@dataclass(slots=True)
class PurgeSums:
    """Sums for threads that are removed whole, and for threads that are pruned."""

    removed: RemovalSum = field(default_factory=RemovalSum)
    pruned: RemovalSum = field(default_factory=RemovalSum)

    def add(self, one: PlannedRemoval) -> None:
        (self.removed if one.action == "remove" else self.pruned).add(one)

    @property
    def threads(self) -> int:
        return self.removed.threads + self.pruned.threads


@dataclass(slots=True)
class PurgeReport:
    """What a purge has done."""

    done: int = 0
    """Number of threads that were processed, counted from the start of the plan."""
    left: int = 0
    """The number of threads left for the next run."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Planned threads that were kept, with the reason."""
    rows: Counter[str] = field(default_factory=Counter)
    """Removed rows by table."""
    sums: PurgeSums = field(default_factory=PurgeSums)
    stopped: str = ""
    """Why the purge stopped before the end; `''` if it did not."""
    signal: int | None = None
    vacuum: CkptError | None = None
    """Why the disk space was not reclaimed, if that was requested."""
    not_erased: str = ""
    """A note about removed data that could not be erased."""


def removal_record(one: PlannedRemoval) -> dict[str, Any]:
    """Return one thread of a plan as JSON, without the fields that are only needed to apply it."""
    return {
        "thread_id": one.thread_id,
        "action": one.action,
        "reason": one.reason,
        "checkpoints": one.checkpoints,
        "writes": one.writes,
        "blobs": one.blobs,
        "bytes": one.bytes,
    }


_TOLD = ("thread_id", "action", "reason", "checkpoints", "writes", "blobs", "bytes")
"""The fields of a `removal_record`, in its order."""


def record_in_line(line: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `removal_record` in what `to_plan_line` returned."""
    return {name: line[name] for name in _TOLD}


def to_plan_line(one: PlannedRemoval) -> dict[str, Any]:
    """Return one line of a plan file."""
    removal = one.removal
    record = removal_record(one)
    record["expects"] = {
        "last_at": None if removal.last_at is None else removal.last_at.isoformat(),
        "checkpoints": removal.checkpoints,
        "writes": removal.writes,
    }
    if removal.inside is not None:
        record["removes"] = {
            "checkpoints": {ns: list(ids) for ns, ids in removal.inside.checkpoints.items()},
            "blobs": [
                [blob.checkpoint_ns, blob.channel, blob.version] for blob in removal.inside.blobs
            ],
        }
        record["keeps"] = {
            ns: {one: list(reasons) for one, reasons in kept.items()}
            for ns, kept in one.keeps.items()
        }
    return record


def from_plan_line(record: Any, line: str = "") -> PlannedRemoval:
    """Parse one line of a plan file. Raises `ValueError`, `KeyError` or `TypeError`.

    `line` is its text if `to_plan_line` made it; that of a whole thread is kept.
    """
    expects, removes = record["expects"], record.get("removes")
    inside = None
    if removes is not None:
        inside = Inside(
            {str(ns): tuple(map(str, ids)) for ns, ids in removes["checkpoints"].items()},
            tuple(BlobKey(str(ns), str(name), str(at)) for ns, name, at in removes["blobs"]),
        )
    if record["action"] not in {"remove", "prune", "keep"}:
        raise ValueError(record["action"])
    if (record["action"] == "prune") != (inside is not None):
        raise ValueError("only a thread that is pruned lists what is removed")
    at = expects["last_at"]
    return PlannedRemoval(
        action=record["action"],
        reason=str(record["reason"]),
        checkpoints=int(record["checkpoints"]),
        writes=int(record["writes"]),
        removal=Removal(
            str(record["thread_id"]),
            None if at is None else datetime.fromisoformat(at),
            int(expects["checkpoints"]),
            int(expects["writes"]),
            inside,
        ),
        blobs=int(record.get("blobs", 0)),
        bytes=int(record["bytes"]),
        line=line if inside is None else "",
    )
