"""Count the writes of threads, by node and channel, without reading a value."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING

from ckpt_backends.codec import channel_sizes
from ckpt_backends.errors import NotFound
from ckpt_backends.model import NULL_TASK_ID, Checkpoint, Write
from ckpt_backends.protocol import Store
from ckpt_cli.core.channels import is_state
from ckpt_cli.core.diff.state_diff import json_size
from ckpt_cli.core.refs import just_made
from ckpt_cli.core.state import read_body
from ckpt_cli.core.tasks.task_ids import UPDATE_PATH, pulled_node
from ckpt_cli.core.tasks.writes import task_writes
from ckpt_cli.core.write_counts import CALLER, UNKNOWN, UPDATE, WriteCounts
from ckpt_cli.threads.executor.work import Each, each
from ckpt_cli.threads.thread import ThreadReader
from ckpt_cli.threads.trigger_inference import TriggerInference

if TYPE_CHECKING:
    from ckpt_backends.model import Thread
    from ckpt_cli.threads.executor.executor import Executor

_AT_ONCE = 200


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


def thread_stats(
    reader: ThreadReader, within: Range, checkpoint_ns: str | None = None
) -> WriteCounts:
    """Return the writes of one thread, and the size of its values."""
    found = WriteCounts(threads=1)
    for ns in reader.namespaces if checkpoint_ns is None else [checkpoint_ns]:
        ids = None
        if not within.is_all:
            times = reader.times(ns)
            ids = {one for one, at in times.items() if within.holds(at)}
            if within.until is not None:
                ids |= set(just_made(within.until, times, partial(reader.stored_time, ns)))
        _count_writes(reader, ns, ids, within, found)
        _count_values(reader, ns, ids, found)
    return found


def _count_own(reader: ThreadReader, ns: str, within: Range, found: WriteCounts) -> None:
    """Count writes that have their own node and time."""
    for write in reader.store.writes(reader.thread_id, checkpoint_ns=ns):
        if within.holds(write.at):
            found.write(write.node or UNKNOWN, write.channel, write.size)


def _count_writes(
    reader: ThreadReader, ns: str, ids: set[str] | None, within: Range, found: WriteCounts
) -> None:
    """Count writes by the node in their task path.

    For Sends and rows without a path, the node is found with the checkpoint's body.
    """
    open_ids: list[str] = []
    if reader.is_values_only:
        _count_own(reader, ns, within, found)
        return
    stream = reader.store.writes(reader.thread_id, checkpoint_ns=ns, checkpoint_ids=ids)
    for checkpoint_id, group in groupby(stream, lambda one: one.key.checkpoint_id):
        writes = list(group)
        nodes = [_node_in_path(write) for write in writes]
        if None in nodes:
            open_ids.append(checkpoint_id)
            continue
        for write, node in zip(writes, nodes, strict=True):
            found.write(node or UNKNOWN, write.channel, write.size)
    for start in range(0, len(open_ids), _AT_ONCE):
        for moment in reader.moments(ns, open_ids[start : start + _AT_ONCE]):
            for placed in task_writes(moment.writes, moment.step):
                node = placed.node or (UPDATE if placed.path.startswith(UPDATE_PATH) else UNKNOWN)
                if placed.write.task_id == NULL_TASK_ID:
                    node = CALLER
                found.write(node, placed.write.channel, placed.write.size)


def _node_in_path(write: Write) -> str | None:
    if write.task_id == NULL_TASK_ID:
        return CALLER
    if write.task_path.startswith(UPDATE_PATH):
        return UPDATE
    return pulled_node(write.task_path) if write.task_path else None


def _count_values(reader: ThreadReader, ns: str, ids: set[str] | None, found: WriteCounts) -> None:
    seen: set[tuple[str, object]] = set()
    for one in reader.store.checkpoints(
        reader.thread_id, checkpoint_ns=ns, checkpoint_ids=ids, body=True
    ):
        found.checkpoints += 1
        if one.blobs is not None:
            _count_blobs(one, seen, found)
        elif one.body is not None:
            for channel, size in (channel_sizes(one.body) or {}).items():
                found.value(channel, size)


def _count_blobs(one: Checkpoint, seen: set[tuple[str, object]], found: WriteCounts) -> None:
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


def _counting(within: Range, store: Store) -> Each[WriteCounts]:
    inference = TriggerInference(store)

    def count(thread_id: str) -> WriteCounts:
        try:
            return thread_stats(ThreadReader(store, thread_id, inference), within)
        except NotFound:  # deleted meanwhile, or an id that can only be listed
            return WriteCounts()

    return each(count)


def threads_stats(
    store: Store, executor: Executor, threads: Iterable[Thread], within: Range
) -> Iterator[WriteCounts]:
    """Yield the statistics of each thread, in the order given."""
    return executor.run(store, threads, partial(_counting, within))
