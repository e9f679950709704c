"""Lists the namespaces of a store by the names of keys, with their oldest and newest checkpoint.

The keys of a namespace's checkpoints differ only in the ids at their ends. So one SCAN over all
keys is enough to count them. Keys are not escaped and may be ambiguous, so thread and namespace are
read from the newest document of each namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ckpt_backends.model import CheckpointKey
from ckpt_backends.redis.engine.keyspace import CheckpointEntry, ListedNamespace, raw, text

_AT_ONCE = 500
Names = Callable[[], Iterator[list[bytes]]]
Told = Callable[[Sequence[bytes]], Iterator[CheckpointEntry]]
_Group = TypeVar("_Group", bound=Hashable)


@dataclass(slots=True)
class _Sum:
    """The oldest id, newest id and number of ids of a namespace so far."""

    oldest: bytes
    newest: bytes
    number: int = 1


class _Sums(dict[_Group, _Sum], Generic[_Group]):
    """Sums by namespace, or by the beginning of its keys."""

    def add(self, group: _Group, own: bytes) -> None:
        found = self.get(group)
        if found is None:
            self[group] = _Sum(own, own)
            return
        found.number += 1
        if own > found.newest:
            found.newest = own
        elif own < found.oldest:
            found.oldest = own


def lines_by_name(names: Names, told: Told, separator: bytes) -> Iterator[ListedNamespace]:
    """The namespaces of a store. The keys of checkpoints end with a separator and an id.

    `names` scans all keys; `told` returns the checkpoints among some keys. If the newest key of a
    namespace is not a checkpoint (left by a crash, or of another layout), all keys of the namespace
    are read. Older keys that are not checkpoints are counted anyway. The memory does not depend on
    the number of checkpoints. A key that SCAN returns twice is counted twice; that happens only if
    most keys of the server are removed during the scan.
    """
    sums: _Sums[bytes] = _Sums()
    for some in names():
        for name in some:
            start, _, own = name.rpartition(separator)
            sums.add(start, own)
    unsure: set[bytes] = set()
    while sums:
        # Remove the sums that are processed, to save memory.
        part = [sums.popitem() for _ in range(min(_AT_ONCE, len(sums)))]
        newest = {start + separator + found.newest: start for start, found in part}
        keys = {newest[place.name]: place.key for place in told(list(newest))}
        for start, found in part:
            if start in keys:
                yield _line(keys[start], found)
            else:
                unsure.add(start)
    if unsure:
        yield from lines_of(
            place.key
            for some in names()
            for place in told([one for one in some if one.rpartition(separator)[0] in unsure])
        )


def lines_of(keys: Iterable[CheckpointKey]) -> Iterator[ListedNamespace]:
    """The namespaces of these checkpoints."""
    sums: _Sums[CheckpointKey] = _Sums()
    for key in keys:
        group = CheckpointKey(key.thread_id, key.checkpoint_ns, "")
        sums.add(group, raw(key.checkpoint_id))
    for group, found in sums.items():
        yield _line(group, found)


def _line(key: CheckpointKey, found: _Sum) -> ListedNamespace:
    oldest, newest = text(found.oldest), text(found.newest)
    return ListedNamespace(key.thread_id, key.checkpoint_ns, oldest, newest, found.number)
