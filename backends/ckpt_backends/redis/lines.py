"""Listing by the names of keys: which namespaces there are, and from when to when.

The names of a namespace's checkpoints differ only in the ids at their ends. So one pass over all
names counts them. The newest document of each namespace tells its thread: a name does not, since
nothing in it is escaped.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ckpt_backends.model import CheckpointKey
from ckpt_backends.redis.keyspace import Line, Place, raw, text

_AT_ONCE = 500
Names = Callable[[], Iterator[list[bytes]]]
Told = Callable[[Sequence[bytes]], Iterator[Place]]
_Group = TypeVar("_Group", bound=Hashable)


@dataclass(slots=True)
class _Sum:
    """The ids that have been seen of a namespace."""

    oldest: bytes
    newest: bytes
    number: int = 1


class _Sums(dict[_Group, _Sum], Generic[_Group]):
    """By namespace, or by what stands for it."""

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


def lines_by_name(names: Names, told: Told, separator: bytes) -> Iterator[Line]:
    """The namespaces of a store. The `names` of checkpoints end in a separator and an id.

    `told` says what a key holds, if it is a checkpoint. Where the newest of a namespace is none,
    such as what a crash left of one, or a key of another layout, all of its keys are asked; an
    older one of that kind is counted. What is held does not grow with the number of checkpoints. A
    name that SCAN gives twice counts twice: it does so where most keys of the server go away
    meanwhile.
    """
    sums: _Sums[bytes] = _Sums()
    for some in names():
        for name in some:
            start, _, own = name.rpartition(separator)
            sums.add(start, own)
    unsure: set[bytes] = set()
    while sums:
        # What is told is given up, so that it is not held twice.
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


def lines_of(keys: Iterable[CheckpointKey]) -> Iterator[Line]:
    """The namespaces of some checkpoints."""
    sums: _Sums[CheckpointKey] = _Sums()
    for key in keys:
        group = CheckpointKey(key.thread_id, key.checkpoint_ns, "")
        sums.add(group, raw(key.checkpoint_id))
    for group, found in sums.items():
        yield _line(group, found)


def _line(key: CheckpointKey, found: _Sum) -> Line:
    oldest, newest = text(found.oldest), text(found.newest)
    return Line(key.thread_id, key.checkpoint_ns, oldest, newest, found.number)
