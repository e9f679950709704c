"""Read what a report about a thread shows: its checkpoints, each with what changed there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ckpt_backends.errors import NotFound, Unreadable
from ckpt_backends.model import StoreInfo
from ckpt_cli.core.diff import ChannelChange, diff_channels
from ckpt_cli.core.redact import redact_change
from ckpt_cli.core.state import given_input
from ckpt_cli.core.timeline import Timeline
from ckpt_cli.core.times import NEVER
from ckpt_cli.core.tree import Key
from ckpt_cli.queries.history import Entry, entry_of
from ckpt_cli.queries.messages import Conversation, conversation
from ckpt_cli.queries.show import Summary, summarize
from ckpt_cli.queries.thread_operations import ThreadOperations
from ckpt_cli.queries.timeline import timeline
from ckpt_cli.queries.tree import Tree
from ckpt_cli.reading.states import State, read_state
from ckpt_cli.reading.store import is_redacted, shown
from ckpt_cli.reading.target import Target
from ckpt_cli.reading.thread import Moment, ThreadReader


@dataclass(frozen=True, slots=True)
class ChosenCheckpoints:
    """The checkpoints of a report."""

    keys: Sequence[Key]
    """Oldest first."""
    older: int
    """Number of older checkpoints of these namespaces that are left out."""
    before_since: bool
    """Whether all of these are left out because they are older than `since`."""
    in_calls: int
    """Number of checkpoints in namespaces that are left out."""


@dataclass(frozen=True, slots=True)
class ReportedCheckpoint:
    """One checkpoint with its state."""

    entry: Entry
    state: State
    before: State | None
    """The parent's state; None if the parent is not stored."""
    changes: Mapping[str, ChannelChange]
    """What changed since the parent; empty if the parent is not stored."""


@dataclass(frozen=True, slots=True)
class Report:
    """A thread, shown at one of its checkpoints."""

    target: Target
    """The checkpoint that is shown first."""
    summary: Summary
    tree: Tree
    chosen: ChosenCheckpoints
    conversation: Conversation | None
    """At this checkpoint; None if no channel holds messages."""
    timeline: Timeline
    info: StoreInfo
    is_redacted: bool


def read_report(
    target: Target,
    tree: Tree,
    operations: ThreadOperations,
    now: datetime,
    *,
    all_ns: bool,
    since: datetime | None,
    last: int,
) -> Report:
    """Return all but the checkpoints: the newest `last`, also of subgraphs with `all_ns`."""
    reader, key = target.reader, (target.checkpoint_ns, target.checkpoint_id)
    namespaces = reader.namespaces if all_ns else [target.checkpoint_ns]
    try:
        found = conversation(target, None)
    except (NotFound, Unreadable):
        found = None
    return Report(
        target,
        summarize(reader, operations, now),
        tree,
        choose_checkpoints(reader, namespaces, since=since, last=last, keep=key),
        found,
        timeline(reader, *key, since=since, last=last),
        reader.store.describe(),
        is_redacted(reader.store),
    )


def choose_checkpoints(
    reader: ThreadReader,
    namespaces: Collection[str],
    *,
    since: datetime | None,
    last: int,
    keep: Key,
) -> ChosenCheckpoints:
    """Return the newest checkpoints of some namespaces, and `keep` even if it is older."""
    found: list[tuple[datetime, Key]] = []
    needs_times = since is not None or len(namespaces) > 1
    for ns in namespaces:
        times = reader.times(ns) if needs_times else {}
        for one in reversed(reader.index(ns)):
            checkpoint_id = one.key.checkpoint_id
            found.append((times.get(checkpoint_id) or NEVER, (ns, checkpoint_id)))
    if len(namespaces) > 1:
        found.sort(key=lambda one: (one[0], one[1][1]))
    recent = [key for at, key in found if since is None or at >= since]
    kept = recent[-last:]
    if keep not in kept:
        kept.insert(0, keep)
    return ChosenCheckpoints(
        kept,
        older=len(found) - len(kept),
        before_since=since is not None and len(recent) <= last,
        in_calls=reader.thread.checkpoints - len(found),
    )


def reported_checkpoints(
    report: Report, operations: ThreadOperations
) -> Iterator[ReportedCheckpoint]:
    """Yield the checkpoints of a report by namespace, about newest first."""
    by_ns: dict[str, list[str]] = {}
    for ns, checkpoint_id in report.chosen.keys:
        by_ns.setdefault(ns, []).append(checkpoint_id)
    for ns, ids in by_ns.items():
        yield from _of_namespace(report.target.reader, ns, ids, operations)


def _of_namespace(
    reader: ThreadReader, checkpoint_ns: str, ids: Collection[str], operations: ThreadOperations
) -> Iterator[ReportedCheckpoint]:
    """Yield checkpoints of a namespace; each is held in memory until its parent was read."""
    known = reader.parentage(checkpoint_ns)

    def reported(one: _Read, parent: _Read | None) -> ReportedCheckpoint:
        entry = entry_of(reader, one.moment, None if parent is None else parent.moment)
        entry = entry._replace(
            operation=operations.adding(one.moment),
            given=given_input(one.moment.body, one.moment.metadata),
        )
        before = None if parent is None else parent.state
        changes = {} if before is None else diff_channels(before.values, one.state.values)
        if is_redacted(reader.store):
            changes = {name: redact_change(change) for name, change in changes.items()}
        return ReportedCheckpoint(
            shown(reader.store, entry),
            shown(reader.store, one.state),
            None if before is None else shown(reader.store, before),
            changes,
        )

    wanted = set(ids)
    outside = {parent for one in wanted if (parent := known.parent(one)) is not None}
    waiting: dict[str, list[_Read]] = {}
    for moment in reader.moments(checkpoint_ns, wanted | outside, state=True):
        read = _Read(moment, read_state(reader, moment))
        checkpoint_id, parent_id = moment.key.checkpoint_id, moment.checkpoint.parent_checkpoint_id
        for child in waiting.pop(checkpoint_id, ()):
            yield reported(child, read)
        if checkpoint_id not in wanted:
            continue
        if parent_id is None or parent_id not in known:
            yield reported(read, None)
        else:
            waiting.setdefault(parent_id, []).append(read)
    # Only the parents of damaged threads are newer than their children.
    for left in waiting.values():
        yield from (reported(one, None) for one in left)


@dataclass(frozen=True, slots=True)
class _Read:
    moment: Moment
    state: State
