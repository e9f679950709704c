"""What a purge is about to do to a thread, its form in a plan file, and what it did."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from ckpt_backends.errors import CkptError
from ckpt_backends.model import BlobKey
from ckpt_backends.removal import Inside, Removal

Action = Literal["remove", "prune", "keep"]
"""The whole thread goes, some of its checkpoints go, or a rule keeps it."""


@dataclass(frozen=True, slots=True)
class Doomed:
    """One thread of a plan, with what goes of it."""

    action: Action
    reason: str
    checkpoints: int
    writes: int
    removal: Removal
    blobs: int = 0
    """Values kept apart that go."""
    bytes: int = 0
    keeps: Mapping[str, Mapping[str, tuple[str, ...]]] = field(default_factory=dict)
    """Of a thread that is pruned: by namespace, the checkpoints that stay, and why."""

    @property
    def thread_id(self) -> str:
        return self.removal.thread_id


@dataclass(slots=True)
class Report:
    """What a purge did."""

    done: int = 0
    """So many of the first threads of the plan were looked at."""
    left: int = 0
    """So many were left for the next run."""
    skipped: dict[str, str] = field(default_factory=dict)
    """Threads that were planned and stay, and why."""
    rows: Counter[str] = field(default_factory=Counter)
    """Rows that went, by table."""
    threads: int = 0
    pruned: int = 0
    """How many threads went whole, and how many in part."""
    bytes: int = 0
    stopped: str = ""
    """Why it stopped before the end; `''` if it did not."""
    signal: int | None = None
    vacuum: CkptError | None = None
    """Why the room was not given back, where it was to be."""


def doomed_record(one: Doomed) -> dict[str, Any]:
    """One thread of a plan, without what is needed to carry it out."""
    return {
        "thread_id": one.thread_id,
        "action": one.action,
        "reason": one.reason,
        "checkpoints": one.checkpoints,
        "writes": one.writes,
        "blobs": one.blobs,
        "bytes": one.bytes,
    }


def to_plan(one: Doomed) -> dict[str, Any]:
    """A line of a plan file."""
    removal = one.removal
    record = doomed_record(one)
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


def from_plan(record: Any) -> Doomed:
    """The thread of a line of a plan file. Raises `ValueError`, `KeyError` or `TypeError`."""
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
        raise ValueError("a thread that is pruned says what goes, and no other one")
    at = expects["last_at"]
    return Doomed(
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
        blobs=record.get("blobs", 0),
        bytes=int(record["bytes"]),
    )
