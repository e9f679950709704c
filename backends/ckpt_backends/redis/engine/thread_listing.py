"""Lists the namespaces of a store by the names of keys, with their oldest and newest checkpoint.

The keys of a namespace's checkpoints differ only in the ids at their ends. So one SCAN over all
keys is enough to count them. Keys are not escaped and may be ambiguous, so thread and namespace are
read from the newest document of each namespace.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ckpt_backends.model import CheckpointKey, Thread
from ckpt_backends.redis.engine.keyspace import CheckpointEntry, ListedNamespace, raw, text

_AT_ONCE = 500
Names = Callable[[], Iterator[list[bytes]]]
Entries = Callable[[Sequence[bytes]], Iterator[CheckpointEntry]]
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


def namespaces_by_name(
    names: Names, entries: Entries, separator: bytes
) -> Iterator[ListedNamespace]:
    """The namespaces of a store. The keys of checkpoints end with a separator and an id.

    `names` scans all keys; `entries` returns the checkpoints among some keys. If the newest key of
    a namespace is no checkpoint (left by a crash, or of another layout), all its keys are read.
    Older keys that are not checkpoints are counted anyway. The memory does not depend on
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
        keys = {newest[place.name]: place.key for place in entries(list(newest))}
        for start, found in part:
            if start in keys:
                yield _listed(keys[start], found)
            else:
                unsure.add(start)
    if unsure:
        yield from namespaces_of(
            place
            for some in names()
            for place in entries([one for one in some if one.rpartition(separator)[0] in unsure])
        )


def namespaces_of(entries: Iterable[CheckpointEntry]) -> Iterator[ListedNamespace]:
    """The namespaces of these checkpoints."""
    sums: _Sums[CheckpointKey] = _Sums()
    heads: dict[CheckpointKey, CheckpointEntry] = {}
    for one in entries:
        group = one.key._replace(checkpoint_id="")
        sums.add(group, raw(one.key.checkpoint_id))
        head = heads.setdefault(group, one)
        if (head.rank, head.key) < (one.rank, one.key):
            heads[group] = one
    for group, found in sums.items():
        yield _listed(group, found, heads[group].key.checkpoint_id)


def _listed(key: CheckpointKey, found: _Sum, head: str | None = None) -> ListedNamespace:
    oldest, newest = text(found.oldest), text(found.newest)
    return ListedNamespace(key.thread_id, key.checkpoint_ns, oldest, newest, found.number, head)


@dataclass(slots=True)
class ThreadEntry:
    """A thread in a listing."""

    thread_id: str
    oldest: str
    newest: str
    head: str | None = None
    checkpoints: int = 0
    namespaces: int = 0

    def thread(self) -> Thread:
        return Thread(
            self.thread_id, self.head, self.oldest, self.newest, self.checkpoints, self.namespaces
        )


def threads_of(namespaces: Iterable[ListedNamespace]) -> list[ThreadEntry]:
    """The threads of these namespaces, the one with the newest checkpoint first."""
    known: dict[str, ThreadEntry] = {}
    for one in namespaces:
        found = known.get(one.thread_id)
        if found is None:
            found = known[one.thread_id] = ThreadEntry(one.thread_id, one.oldest, one.newest)
        found.oldest, found.newest = min(found.oldest, one.oldest), max(found.newest, one.newest)
        found.checkpoints += one.checkpoints
        found.namespaces += 1
        if one.checkpoint_ns == "":
            found.head = one.head or one.newest
    ordered = sorted(known.values(), key=lambda one: one.thread_id)
    ordered.sort(key=lambda one: one.newest, reverse=True)
    return ordered
