"""The items of a thread without payloads, read from the partitions of that thread only."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TypeVar

from ckpt_backends.dynamodb.connect import DynamoConnection
from ckpt_backends.dynamodb.items import (
    CheckpointItem,
    WriteItem,
    checkpoint_item,
    checkpoint_place,
    is_partition,
    is_storable,
    partition_of,
    write_item,
    writes_partition,
)
from ckpt_backends.model import CheckpointKey

_REMEMBERED = 200
"""Number of threads whose items are cached. A command reads one thread after the other."""
_For = TypeVar("_For")


class DynamoIndex:
    """Reads items, and caches those of checkpoints until `forget`."""

    def __init__(self, connection: DynamoConnection) -> None:
        self._connection = connection
        self._known: dict[str, list[CheckpointItem]] = {}
        self.orphans: Mapping[str, Collection[CheckpointKey]] = {}
        """By thread, the missing checkpoints that have writes, as far as a scan has found some."""

    def forget(self) -> None:
        """Read everything again from now on."""
        self._known.clear()
        self.orphans = {}

    def thread(self, thread_id: str) -> list[CheckpointItem]:
        """The checkpoints of a thread by namespace, the newest id first."""
        found = self._known.get(thread_id)
        if found is None:
            found = read_thread(self._connection, thread_id)
            while len(self._known) >= _REMEMBERED:
                del self._known[next(iter(self._known))]
            self._known[thread_id] = found
        return found

    def at(self, keys: Iterable[CheckpointKey]) -> list[CheckpointItem]:
        """The checkpoints with these keys, of any threads; missing ones are left out."""
        wanted = dict.fromkeys(key for key in keys if is_storable(key))
        found = self._connection.get(map(checkpoint_place, wanted))
        return [
            checkpoint_item(found[checkpoint_place(key)])
            for key in wanted
            if checkpoint_place(key) in found
        ]

    def keys_with_orphans(self, thread_id: str) -> set[CheckpointKey]:
        """The keys of all checkpoints of a thread that may have writes."""
        there = {one.key for one in self.thread(thread_id)}
        return there | set(self.orphans.get(thread_id, ()))

    def writes(
        self, keys: Sequence[CheckpointKey], of: Sequence[_For]
    ) -> Iterator[tuple[_For, list[WriteItem]]]:
        """The writes of each of these checkpoints in the order of the protocol.

        `of` has what is returned with the writes, in the order of the keys.
        """
        found = self._connection.together(self._writes, keys)
        return zip(of, found, strict=True)

    def _writes(self, key: CheckpointKey) -> list[WriteItem]:
        return read_writes(self._connection, key)


def read_thread(connection: DynamoConnection, thread_id: str) -> list[CheckpointItem]:
    """The present checkpoints of a thread, in the order of `DynamoIndex.thread`."""
    partition = partition_of(thread_id)
    found = map(checkpoint_item, connection.query(partition)) if is_partition(partition) else ()
    ordered = sorted(found, key=lambda one: one.key.checkpoint_id, reverse=True)
    ordered.sort(key=lambda one: one.key.checkpoint_ns)
    return ordered


def heads_of(present: Iterable[CheckpointItem]) -> dict[str, str]:
    """By namespace, the greatest id."""
    found: dict[str, str] = {}
    for one in present:
        key = one.key
        found[key.checkpoint_ns] = max(found.get(key.checkpoint_ns, ""), key.checkpoint_id)
    return found


def read_writes(connection: DynamoConnection, key: CheckpointKey) -> list[WriteItem]:
    """The present writes of a checkpoint, in the order of the protocol."""
    partition = writes_partition(key)
    if not is_partition(partition):
        return []
    found = [write_item(key, one) for one in connection.query(partition)]
    return sorted(found, key=lambda one: (one.task_path, one.task_id, one.idx))
