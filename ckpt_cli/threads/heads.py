"""Read the heads of many threads, a few hundred per query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import islice
from typing import TypeVar

from ckpt_backends.model import Checkpoint, CheckpointKey, Status, Thread, Write
from ckpt_backends.protocol import Store
from ckpt_cli.core.tasks.status import is_surely_done
from ckpt_cli.core.tasks.tasks import CONTROL
from ckpt_cli.threads.checkpoint import Moment
from ckpt_cli.threads.nested_nodes import locate
from ckpt_cli.threads.thread import ThreadReader
from ckpt_cli.threads.trigger_inference import TriggerInference

_AT_ONCE = 200
_Item = TypeVar("_Item")


def some_at_once(threads: Iterable[_Item]) -> Iterator[list[_Item]]:
    """Yield threads, or rows about threads, in groups, one group per query."""
    remaining = iter(threads)
    while some := list(islice(remaining, _AT_ONCE)):
        yield some


def head_keys(threads: Sequence[Thread]) -> list[CheckpointKey]:
    """Return the keys of the root heads, for threads that have one."""
    return [CheckpointKey(one.thread_id, "", one.head) for one in threads if one.head is not None]


def writes_of_heads(
    store: Store, keys: Sequence[CheckpointKey]
) -> dict[CheckpointKey, list[Write]]:
    """Return the writes of each of these heads; of those to LangGraph's control channels with their
    values.
    """
    writes: dict[CheckpointKey, list[Write]] = {key: [] for key in keys}
    for write in store.writes_at(keys, values=CONTROL) if keys else ():
        writes[write.key].append(write)
    return writes


def read_heads(
    store: Store,
    threads: Sequence[Thread],
    inference: TriggerInference,
    *,
    state: bool = False,
    having: str | None = None,
) -> Iterator[Moment]:
    """Yield the root heads of some threads, in any order; missing ones are left out.

    Only values of writes to LangGraph's control channels are read. If the layout stores the values
    of channels apart, they are read only with `state`. With `having`, only heads with a write to
    this channel are read.
    """
    writes = writes_of_heads(store, head_keys(threads))
    if having is not None:
        writes = {key: some for key, some in writes.items() if has_write(some, having)}
    return heads_with(store, threads, writes, inference, state=state)


def has_write(writes: Iterable[Write], channel: str) -> bool:
    """Return whether one of the writes is on a channel."""
    return any(one.channel == channel for one in writes)


def heads_with(
    store: Store,
    threads: Iterable[Thread],
    writes: Mapping[CheckpointKey, Sequence[Write]],
    inference: TriggerInference,
    *,
    state: bool = False,
) -> Iterator[Moment]:
    """Yield the heads whose writes are given, of these threads, as `read_heads` does."""
    if not writes:
        return
    listed = {one.thread_id: one for one in threads}
    for checkpoint in store.checkpoints_at([*writes], body=True, metadata=True, values=state):
        key = checkpoint.key
        reader = ThreadReader(store, listed[key.thread_id], inference)
        head = reader.with_step(checkpoint, writes[key])
        # Only a subgraph tells whether its question is the one that was answered before the error.
        is_mixed = any(task.error is not None and task.questions for task in head.step.tasks)
        yield locate(reader, head) if is_mixed and reader.thread.namespaces > 1 else head


def expiry_times(store: Store, keys: Sequence[CheckpointKey]) -> Mapping[CheckpointKey, datetime]:
    """Return when these checkpoints expire; those that do not are left out."""
    return store.expiry_times(keys) if store.keys_expire and keys else {}


def conditions_of_heads(
    store: Store, threads: Sequence[Thread], inference: TriggerInference
) -> Iterator[tuple[str, tuple[Status, ...]]]:
    """Yield the id and the conditions of some threads, in any order; those without a root head, or
    with a missing one, are left out.

    The tasks of a head are computed only if its body, and which channels have a value, do not show
    that nothing is left to run.
    """
    keys = head_keys(threads)
    if not keys:
        return
    writes: dict[CheckpointKey, list[Write]] = {}
    for write in store.writes_at(keys, values=CONTROL):
        writes.setdefault(write.key, []).append(write)
    listed = {one.thread_id: one for one in threads}

    def met(checkpoint: Checkpoint) -> tuple[str, tuple[Status, ...]]:
        key = checkpoint.key
        reader = ThreadReader(store, listed[key.thread_id], inference)
        return key.thread_id, reader.with_step(checkpoint, writes.get(key, ())).conditions

    to_read = [key for key in keys if key in writes]
    if quiet := [key for key in keys if key not in writes]:
        for outline, alike in store.outlines_at(quiet):
            if is_surely_done(outline):
                yield from ((key.thread_id, (Status.DONE,)) for key in alike)
            elif outline.blobs is None and len(alike) == 1:
                yield met(outline)
            else:
                to_read += alike
    if to_read:
        yield from map(met, store.checkpoints_at(to_read, body=True, metadata=True))
