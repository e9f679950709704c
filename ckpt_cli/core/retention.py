"""Which threads and checkpoints a purge removes, and which must stay."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from ckpt_backends.changes import Inside, Removal
from ckpt_backends.errors import CkptError
from ckpt_backends.model import BlobKey, Status, ThreadSize
from ckpt_cli.core.lineage import is_stateful

PROTECTED = {
    Status.ERROR: ("its last step failed", "--include-error"),
    Status.INTERRUPTED: ("a question waits for an answer", "--include-interrupted"),
    Status.PENDING: ("a step is pending", "--include-pending"),
    Status.UNKNOWN: ("what runs next is unknown", "--include-pending"),
}
"""Conditions that protect a thread: the words for it, and the option that removes it too."""


def why_protected(conditions: Collection[Status], included: Collection[Status]) -> str:
    """Return why a thread in these conditions is kept; `''` if it may be removed.

    One condition that is not in `included` is enough to keep it.
    """
    held = [one for one in PROTECTED if one in conditions and one not in included]
    if not held:
        return ""
    options = dict.fromkeys(PROTECTED[one][1] for one in held)
    said = " and ".join(PROTECTED[one][0] for one in held)
    return f"{said} (to remove: {' '.join(options)})"


@dataclass(frozen=True, slots=True)
class RetentionRules:
    """Which checkpoints of a thread are kept: those that any rule keeps, and always the newest."""

    last: int | None = None
    """Number of the newest checkpoints of the root namespace to keep."""
    within: timedelta | None = None
    """Keep checkpoints that are not older than this."""
    tips: bool = False
    """Keep the last checkpoint of each branch."""

    @property
    def is_empty(self) -> bool:
        return self.last is None and self.within is None and not self.tips


@dataclass(frozen=True, slots=True)
class RetentionCandidate:
    """What must be known about a checkpoint to decide whether it is kept."""

    checkpoint_ns: str
    checkpoint_id: str
    parent: str | None
    at: datetime | None
    root: str | None = None
    """The root checkpoint whose step called this subgraph; None if it is not stored."""
    unfinished: bool = False
    """Its tasks stored something, but no checkpoint follows it."""
    needs_sends: bool = False
    """Its Sends are stored among its parent's writes."""
    missing: frozenset[str] = frozenset()
    """DeltaChannels that have a version here but no stored value."""
    stored: frozenset[str] = frozenset()
    """Channels that have a stored value here."""
    inherited: frozenset[str] = frozenset()
    """Channels with a value that is stored, at least partly, at an ancestor."""


Key = tuple[str, str]
"""Namespace and checkpoint id."""


def choose_kept(
    items: Sequence[RetentionCandidate], keep: RetentionRules, now: datetime
) -> dict[Key, list[str]]:
    """Return the checkpoints that are kept, each with the reasons.

    `items` are all checkpoints of a thread, newest first within each namespace.
    """
    chosen = _Chosen({(one.checkpoint_ns, one.checkpoint_id): one for one in items})
    root = [one for one in items if one.checkpoint_ns == ""]
    for one, reason in _by_policy(root, keep, now):
        chosen.add(one, reason)
    for one in _by_root(items, root, {one.checkpoint_id for one in root if one in chosen}):
        chosen.add(one, "subgraph of a kept checkpoint")
    return chosen.reasons


@dataclass(slots=True)
class _Chosen:
    items: Mapping[Key, RetentionCandidate]
    reasons: dict[Key, list[str]] = field(default_factory=dict)

    def __contains__(self, one: RetentionCandidate) -> bool:
        return (one.checkpoint_ns, one.checkpoint_id) in self.reasons

    def add(self, one: RetentionCandidate, reason: str) -> None:
        """Keep a checkpoint and everything that is needed to read it."""
        waiting = [(one, reason)]
        while waiting:
            here, why = waiting.pop()
            known = self.reasons.setdefault((here.checkpoint_ns, here.checkpoint_id), [])
            if why not in known:
                known.append(why)
                waiting += self._needed(here)

    def _needed(self, one: RetentionCandidate) -> Iterator[tuple[RetentionCandidate, str]]:
        parent = self._parent(one)
        if one.needs_sends and parent is not None:
            yield parent, "holds the Sends of a kept checkpoint"
        if parent is not None and one.inherited:
            # The parent may inherit the value too; this is checked when it is added.
            yield parent, f"holds the value of {', '.join(sorted(one.inherited))}"
        missing, passed = set(one.missing), {one.checkpoint_id}
        while missing and parent is not None and parent.checkpoint_id not in passed:
            passed.add(parent.checkpoint_id)
            yield parent, f"needed for DeltaChannel {', '.join(sorted(missing))}"
            missing -= parent.stored
            parent = self._parent(parent)

    def _parent(self, one: RetentionCandidate) -> RetentionCandidate | None:
        return self.items.get((one.checkpoint_ns, one.parent)) if one.parent else None


def _by_policy(
    root: Sequence[RetentionCandidate], keep: RetentionRules, now: datetime
) -> Iterator[tuple[RetentionCandidate, str]]:
    parents = {one.parent for one in root}
    for place, one in enumerate(root):
        if keep.last is not None and place < keep.last:
            yield one, "newest"
        if one.at is None:
            yield one, "unknown age"
        elif keep.within is not None and now - one.at <= keep.within:
            yield one, "within --keep-within"
        if keep.tips and one.checkpoint_id not in parents:
            yield one, "branch tip"
        if one.unfinished:
            yield one, "unfinished step"
        if place == 0:
            yield one, "newest"


def _by_root(
    items: Iterable[RetentionCandidate], root: Collection[RetentionCandidate], kept: Collection[str]
) -> Iterator[RetentionCandidate]:
    """Yield subgraph checkpoints with a caller that is kept, or that does not exist (yet).

    A stateful subgraph continues, after a return to a checkpoint, from its newest checkpoint older
    than that one; this one is kept too.
    """
    there = {one.checkpoint_id for one in root}
    older: dict[str, list[RetentionCandidate]] = {}
    for one in items:
        if not one.checkpoint_ns:
            continue
        if one.root is None or one.root not in there or one.root in kept:
            yield one
        if is_stateful(one.checkpoint_ns):
            older.setdefault(one.checkpoint_ns, []).append(one)
    for known in older.values():
        for checkpoint_id in kept:
            found = next((one for one in known if one.checkpoint_id < checkpoint_id), None)
            if found is not None:
                yield found


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

    def add(self, one: PlannedRemoval | ThreadSize) -> None:
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

    @property
    def checkpoints(self) -> int:
        return self.removed.checkpoints + self.pruned.checkpoints

    @property
    def bytes(self) -> int:
        return self.removed.bytes + self.pruned.bytes


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


_TOLD = ("thread_id", "action", "reason", "checkpoints", "writes", "blobs", "bytes")
"""What a plan tells of a thread, without the fields that are only needed to apply it."""


def removal_record(one: PlannedRemoval) -> dict[str, Any]:
    """Return one thread of a plan as JSON."""
    return {name: getattr(one, name) for name in _TOLD}


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
