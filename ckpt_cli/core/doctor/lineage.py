"""Find contradictions in the keys of one namespace: ids, parents, times and orphaned writes."""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from ckpt_backends.checkpoint_ids import ticks_of, time_of
from ckpt_backends.model import Checkpoint
from ckpt_cli.core.doctor.codes import Severity
from ckpt_cli.core.doctor.finding import Finding

_DAY, _HOUR, _MINUTE = 86_400, 3_600, 60


@dataclass(slots=True)
class WritesOfOne:
    """The writes that name one checkpoint."""

    number: int = 0
    tasks: set[str] = field(default_factory=set)
    """At most two task ids: more are not needed."""
    at: datetime | None = None
    """When the last was stored, in layouts that store this time."""

    def add(self, task_id: str, at: datetime | None) -> None:
        """Count a write."""
        self.number += 1
        if len(self.tasks) < 2:
            self.tasks.add(task_id)
        if at is not None and (self.at is None or at > self.at):
            self.at = at


def lineage_findings(
    checkpoints: Sequence[Checkpoint],
    missing: Mapping[str, WritesOfOne],
    elsewhere: Container[str] = (),
) -> Iterator[Finding]:
    """Yield what is wrong with the parents in a namespace of a layout that keeps a history.

    `checkpoints` are all checkpoints of the namespace in the order of the store, the head first.
    `missing` are the checkpoints that are not stored although their writes are; `elsewhere` are the
    ids in all namespaces of the thread.
    """
    places = {one.key.checkpoint_id: place for place, one in enumerate(checkpoints)}
    for place, one in enumerate(checkpoints):
        own, parent = one.key.checkpoint_id, one.parent_checkpoint_id
        # Subgraphs of LangGraph 0.2 may be their own parent, or have one in another namespace.
        if parent is None or parent == own:
            continue
        if parent not in places:
            if parent not in elsewhere:
                yield _parent_missing(one, parent, missing.get(parent))
            continue
        if places[parent] == 0:
            yield _finding(
                "head-not-newest",
                checkpoints[0],
                f"the saver loads this checkpoint, and not {own}, which follows it",
            )
        # A layout that orders by the time of storing may list a smaller id as newer.
        if places[parent] < place and _is_smaller(own, parent):
            yield _finding("id-not-increasing", one, f"its id is smaller than that of {parent}")


def ahead_finding(head: Checkpoint, now: datetime, tolerance: timedelta) -> Finding | None:
    """Return the finding if the head of a namespace is dated after `now`, by more than
    `tolerance`.
    """
    at = head.at or time_of(head.key.checkpoint_id)
    if at is None or at - now <= tolerance:
        return None
    return _finding("clock-ahead", head, f"it is dated {_roughly(at - now)} after now")


def orphan_finding(
    thread_id: str,
    checkpoint_ns: str,
    checkpoint_id: str,
    writes: WritesOfOne,
) -> Finding:
    """Return the finding for the writes of a checkpoint that is not stored."""
    (task_id,) = writes.tasks if len(writes.tasks) == 1 else (None,)
    number = "1 write names" if writes.number == 1 else f"{writes.number} writes name"
    return Finding(
        code="write-orphaned",
        detail=f"{number} this checkpoint, which is not stored",
        thread_id=thread_id,
        checkpoint_ns=checkpoint_ns,
        checkpoint_id=checkpoint_id,
        task_id=task_id,
    )


def is_orphaned(
    checkpoint_id: str, writes: WritesOfOne, head: Checkpoint | None, before: datetime
) -> bool:
    """Return whether no running agent can still store the checkpoint of these writes.

    Savers commit the checkpoints of a namespace in order, so none that is older than the head will
    follow. Any other may follow until `before`.
    """
    if head is not None and _is_older(checkpoint_id, writes, head):
        return True
    at = writes.at or time_of(checkpoint_id)
    return at is not None and at < before


def _is_older(checkpoint_id: str, writes: WritesOfOne, head: Checkpoint) -> bool:
    if head.at is not None:
        return writes.at is not None and writes.at < head.at
    return _is_smaller(checkpoint_id, head.key.checkpoint_id, only_times=True)


def _is_smaller(one: str, other: str, *, only_times: bool = False) -> bool:
    """Return whether an id sorts before another, by the times in both if they have any.

    LangGraph.js counts milliseconds, so a checkpoint and its parent may have the same time.
    """
    ticks, others = ticks_of(one), ticks_of(other)
    if ticks is None or others is None:
        return not only_times and one < other
    return ticks < others


def _parent_missing(one: Checkpoint, parent: str, writes: WritesOfOne | None) -> Finding:
    if writes is None:
        # A prune leaves this.
        return _finding("parent-missing", one, f"its parent {parent} is not stored", Severity.INFO)
    left = "1 of its writes is" if writes.number == 1 else f"{writes.number} of its writes are"
    return _finding("parent-missing", one, f"its parent {parent} is not stored, but {left}")


def _finding(
    code: str, one: Checkpoint, detail: str, own_severity: Severity | None = None
) -> Finding:
    return Finding(
        code=code,
        detail=detail,
        thread_id=one.key.thread_id,
        checkpoint_ns=one.key.checkpoint_ns,
        checkpoint_id=one.key.checkpoint_id,
        own_severity=own_severity,
    )


def _roughly(span: timedelta) -> str:
    seconds = int(span.total_seconds())
    for unit, name in ((_DAY, "days"), (_HOUR, "hours"), (_MINUTE, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds // unit} {name}"
    return f"{seconds} seconds"
