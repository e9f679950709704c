"""Count what threads wrote, how long their nodes took, and what their tokens cost.

Each thread is read once for all of these. Only counting tokens decodes values: those of messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, tzinfo
from functools import cached_property, partial
from itertools import groupby
from typing import TYPE_CHECKING

from ckpt_backends.codec import channel_sizes
from ckpt_backends.errors import NotFound
from ckpt_backends.model import NULL_TASK_ID, Checkpoint, Write
from ckpt_backends.protocol import Store
from ckpt_cli.core.channels import is_state
from ckpt_cli.core.diff.state_diff import json_size
from ckpt_cli.core.refs import just_made
from ckpt_cli.core.state import read_body, read_metadata
from ckpt_cli.core.stats import CALLER, UNKNOWN, UPDATE, Grouping, Stats, StatsPart
from ckpt_cli.core.tasks.step_nodes import node_path, path_text
from ckpt_cli.core.tasks.task_ids import UPDATE_PATH, pulled_node
from ckpt_cli.core.tasks.writes import task_writes
from ckpt_cli.core.timeline.assemble import NodeTime, node_times
from ckpt_cli.core.timeline.durations import Durations
from ckpt_cli.core.timeline.steps import TimedStep
from ckpt_cli.queries.step_times import read_steps
from ckpt_cli.queries.token_usage import messages_of, nodes_of
from ckpt_cli.threads import redaction
from ckpt_cli.threads.executor.work import Each, each
from ckpt_cli.threads.thread import ThreadReader
from ckpt_cli.threads.trigger_inference import TriggerInference

if TYPE_CHECKING:
    from ckpt_backends.model import Thread
    from ckpt_cli.threads.executor.executor import Executor

_AT_ONCE = 200
_USER_KEYS = ("user_id", "user", "userId", "username")
"""Keys of metadata that name the user of a thread."""
_LARGEST_ID = 2**63


@dataclass(frozen=True, slots=True)
class Range:
    """A time range of checkpoints; both bounds are inclusive."""

    since: datetime | None = None
    until: datetime | None = None

    @property
    def is_all(self) -> bool:
        return self.since is None and self.until is None

    def holds(self, at: datetime | None) -> bool:
        """Return whether a time is in the range; an unknown time is only in a range without
        bounds.
        """
        if at is None:
            return self.is_all
        return (self.since is None or self.since <= at) and (self.until is None or at <= self.until)


@dataclass(frozen=True, slots=True)
class StatsQuery:
    """What is counted, by which keys."""

    by: tuple[Grouping, ...]
    parts: StatsPart
    within: Range = Range()
    zone: tzinfo = UTC
    """The time zone of days."""


def thread_stats(
    reader: ThreadReader, wanted: StatsQuery, checkpoint_ns: str | None = None
) -> Stats:
    """Return what one thread wrote, how long it took, and what it cost, on all branches."""
    return _ThreadCount(reader, wanted, checkpoint_ns).stats()


def threads_stats(
    store: Store, executor: Executor, threads: Iterable[Thread], wanted: StatsQuery
) -> Iterator[Stats]:
    """Yield the statistics of each thread, in the order given."""
    return executor.run(store, threads, partial(_counting, wanted))


def _counting(wanted: StatsQuery, store: Store) -> Each[Stats]:
    inference = TriggerInference(store)

    def count(thread_id: str) -> Stats:
        try:
            return thread_stats(ThreadReader(store, thread_id, inference), wanted)
        except NotFound:  # deleted meanwhile, or an id that can only be listed
            return Stats(wanted.by, wanted.parts)

    return each(count)


def user_of(reader: ThreadReader) -> str | None:
    """Return the user of a thread: as the store records it, or as its newest checkpoint says."""
    if reader.thread.user is not None or redaction.is_redacted(reader.store):
        return reader.thread.user
    head = reader.head("")
    for one in reader.store.checkpoints(
        reader.thread_id, checkpoint_ns="", checkpoint_ids=[head] if head else [], metadata=True
    ):
        metadata = read_metadata(one)
        for user in map(metadata.get, _USER_KEYS):
            if isinstance(user, str) or (type(user) is int and abs(user) < _LARGEST_ID):
                return str(user)
    return None


class _ThreadCount:
    """Counts one thread."""

    def __init__(self, reader: ThreadReader, wanted: StatsQuery, only: str | None) -> None:
        """`only` is the namespace that is counted; None for all."""
        self.reader = reader
        self.wanted = wanted
        self.only = only
        self.found = Stats(wanted.by, wanted.parts, threads=1)
        self.said: dict[str, str | None] = {"thread": reader.thread_id}
        self._in_range: dict[str, set[str]] = {}
        if "user" in wanted.by:
            self.said["user"] = user_of(reader)

    @cached_property
    def _keys(self) -> list[Write]:
        """The writes of the thread, without their values."""
        return list(self.reader.store.writes(self.reader.thread_id, checkpoint_ns=self.only))

    def stats(self) -> Stats:
        """Return the sums."""
        parts = self.wanted.parts
        if self.only is None:
            # One query, where each namespace would need its own.
            self.reader.indexes()
        if StatsPart.WRITES in parts:
            by_namespace: dict[str, list[Write]] = {}
            for write in self._keys:
                by_namespace.setdefault(write.key.checkpoint_ns, []).append(write)
            for ns in self.reader.namespaces if self.only is None else [self.only]:
                self._count_namespace(ns, by_namespace.get(ns, []))
        if StatsPart.TIMES in parts:
            self._count_times()
        if StatsPart.TOKENS in parts:
            self._count_tokens()
        return self.found

    def _day(self, at: datetime | None) -> str | None:
        if at is None or "day" not in self.wanted.by or not 1 < at.year < 9999:
            return None
        return at.astimezone(self.wanted.zone).date().isoformat()

    def _ids(self, ns: str) -> set[str] | None:
        """Return the checkpoints of a namespace that were made in the range; None for all."""
        within = self.wanted.within
        if within.is_all:
            return None
        if ns not in self._in_range:
            times = self.reader.times(ns)
            ids = {one for one, at in times.items() if within.holds(at)}
            if within.until is not None:
                ids |= set(just_made(within.until, times, partial(self.reader.stored_time, ns)))
            self._in_range[ns] = ids
        return self._in_range[ns]

    def _is_counted(self, ns: str, checkpoint_id: str) -> bool:
        ids = self._ids(ns)
        return ids is None or checkpoint_id in ids

    def _count_namespace(self, ns: str, writes: Iterable[Write]) -> None:
        reader, ids = self.reader, self._ids(ns)
        times = reader.times(ns) if "day" in self.wanted.by else {}
        for write, node in self._named(ns, writes, ids):
            path = node
            if node not in {CALLER, UPDATE, UNKNOWN}:
                path = path_text(node_path(ns, [node]))
            day = self._day(write.at or times.get(write.key.checkpoint_id))
            amounts = self.found.of(node=path, channel=write.channel, day=day, **self.said)
            amounts.writes += 1
            amounts.bytes += write.size
        if StatsPart.STORED in self.wanted.parts:
            self._count_values(ns, ids)
        self.found.checkpoints += len(reader.index(ns) if ids is None else ids)

    def _named(
        self, ns: str, writes: Iterable[Write], ids: set[str] | None
    ) -> Iterator[tuple[Write, str]]:
        """Yield the writes of these checkpoints with the node in their task path.

        For Sends and rows without a path, the node is found with the checkpoint's body.
        """
        reader = self.reader
        if reader.is_values_only:
            # They have their own node and time.
            for write in writes:
                if self.wanted.within.holds(write.at):
                    yield write, write.node or UNKNOWN
            return
        open_ids: list[str] = []
        for checkpoint_id, group in groupby(writes, lambda one: one.key.checkpoint_id):
            if ids is not None and checkpoint_id not in ids:
                continue
            here = list(group)
            nodes = [_node_in_path(write) for write in here]
            if None in nodes:
                open_ids.append(checkpoint_id)
                continue
            yield from zip(here, (node or UNKNOWN for node in nodes), strict=True)
        for start in range(0, len(open_ids), _AT_ONCE):
            for moment in reader.moments(ns, open_ids[start : start + _AT_ONCE]):
                for placed in task_writes(moment.writes, moment.step):
                    by_hand = placed.path.startswith(UPDATE_PATH)
                    node = placed.node or (UPDATE if by_hand else UNKNOWN)
                    yield placed.write, CALLER if placed.write.task_id == NULL_TASK_ID else node

    def _count_values(self, ns: str, ids: set[str] | None) -> None:
        seen: set[tuple[str, object]] = set()
        for one in self.reader.store.checkpoints(
            self.reader.thread_id, checkpoint_ns=ns, checkpoint_ids=ids, body=True
        ):
            if one.blobs is not None:
                _count_blobs(one, seen, self.found)
            elif one.body is not None:
                for channel, size in (channel_sizes(one.body) or {}).items():
                    self.found.value(channel, size)

    def _count_times(self) -> None:
        """Add the times of steps that ended in the range."""
        keys = self._keys if self.only is None else None
        found = [
            one
            for one in read_steps(self.reader, whole=False, writes=keys).all_steps()
            if self._is_counted(one.checkpoint_ns, one.checkpoint_id)
            and (self.only is None or one.checkpoint_ns == self.only)
        ]
        root = [one for one in found if one.checkpoint_ns == (self.only or "")]
        self.found.steps = len(root)
        self.found.running_seconds = sum(filter(None, map(_running, root)))
        self.found.waiting_seconds = sum(one.waiting_seconds for one in root)
        self.found.idle_seconds = sum(one.seconds or 0.0 for one in root if one.kind == "idle")
        by_day: dict[str | None, list[TimedStep]] = {}
        for one in found:
            by_day.setdefault(self._day(one.ended_at), []).append(one)
        for day, steps in by_day.items():
            times = node_times(steps)
            if "node" not in self.wanted.by:
                # Of steps, since nodes inside others or beside them would count twice.
                whole = (one for one in steps if one.checkpoint_ns == (self.only or ""))
                took = (_running(one) for one in whole if not one.is_start)
                seconds = Durations(one for one in took if one is not None)
                times = {"": NodeTime(sum(one.runs for one in times.values()), seconds=seconds)}
            for node, time in times.items():
                self.found.of(node=node, day=day, **self.said).time.merge(time)

    def _count_tokens(self) -> None:
        """Add the tokens of messages that were written in the range."""
        messages = messages_of(self.reader, self.only)
        within = [
            one
            for one in messages.found
            if (
                self.wanted.within.holds(one.origin.at)
                if self.reader.is_values_only
                else self._is_counted(one.origin.checkpoint_ns, one.origin.checkpoint_id)
            )
        ]
        kept = [one for one in within if one.tokens.messages]
        self.found.unread = messages.unread
        self.found.without_usage = len(within) - len(kept)
        nodes = nodes_of(self.reader, kept) if "node" in self.wanted.by else {}
        hidden = redaction.is_redacted(self.reader.store)
        for one in kept:
            self.found.of(
                node=nodes.get(one.origin, UNKNOWN),
                model=None if hidden else one.model,
                day=self._day(one.origin.at),
                **self.said,
            ).spend(one.model, one.tokens)


def _running(step: TimedStep) -> float | None:
    """Return how long the nodes of a step ran; None if that is not known, or if it was idle."""
    if step.kind == "idle" or step.seconds is None:
        return None
    return step.seconds - step.waiting_seconds


def _node_in_path(write: Write) -> str | None:
    if write.task_id == NULL_TASK_ID:
        return CALLER
    if write.task_path.startswith(UPDATE_PATH):
        return UPDATE
    return pulled_node(write.task_path) if write.task_path else None


def _count_blobs(one: Checkpoint, seen: set[tuple[str, object]], found: Stats) -> None:
    """Count values that are stored apart, each version of a channel once."""
    body = read_body(one)
    for channel, blob in (one.blobs or {}).items():
        key = (channel, body.versions.get(channel))
        if key not in seen:
            seen.add(key)
            found.value(channel, blob.size)
    for channel, value in body.values.items():
        if channel not in (one.blobs or {}) and is_state(channel, body):
            found.value(channel, json_size(value))
