"""Helpers for the names of keys, and the interface of all Redis layouts."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from os.path import commonprefix
from typing import Any, Protocol

from ckpt_backends.model import BlobKey, Capability, Checkpoint, CheckpointKey, Usage, Write

UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
CALL = rf"[^:|]+:{UUID}(?:\|[^:|]+:{UUID})*"
"""A pattern for the namespace of a subgraph's call. Such a namespace contains colons."""
_SPECIAL = re.compile(rb"([*?\[\]\\])")


def text(name: bytes) -> str:
    """A key or field as text. Bytes that are not UTF-8 survive a round trip with `raw`."""
    return name.decode("utf-8", "surrogateescape")


def raw(name: str) -> bytes:
    """A text as the bytes of a key or field."""
    try:
        return name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate; no saver can store it, so it matches no key
        return name.encode("utf-8", "surrogatepass")


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON. Raises `ValueError` if a name appears twice: readers may differ then."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name appears twice")
    return found


def literally(name: str) -> bytes:
    """A part of a SCAN pattern that matches exactly this text."""
    return _SPECIAL.sub(rb"\\\1", raw(name))


def beginning(names: Collection[str]) -> bytes:
    """A part of a SCAN pattern for the common beginning of all names, to receive fewer keys."""
    return literally(commonprefix(list(names)))  # noqa: RUF071  (characters are meant)


@dataclass(frozen=True, slots=True)
class CheckpointEntry:
    """A stored checkpoint."""

    key: CheckpointKey
    name: bytes
    """The key in Redis."""
    parent: str | None = None
    rank: float = 0.0
    """The saver sorts the checkpoints of a namespace by this number, then by id."""


@dataclass(frozen=True, slots=True)
class ListedNamespace:
    """A namespace of a thread, as listed: its oldest, newest and number of checkpoints."""

    thread_id: str
    checkpoint_ns: str
    oldest: str
    newest: str
    checkpoints: int
    head: str | None = None
    """The checkpoint that the saver loads, if it may differ from the newest; otherwise None."""


@dataclass(frozen=True, slots=True)
class WriteEntry:
    """A stored write, known by its key only."""

    name: bytes
    checkpoint_id: str
    """The checkpoint id in the key. The document may contain another one, which counts."""


@dataclass(slots=True)
class ThreadKeys:
    """The keys of one thread, or some keys of all threads."""

    places: dict[tuple[str, str], CheckpointEntry] = field(default_factory=dict)
    """By namespace and checkpoint id."""
    writes: list[WriteEntry] = field(default_factory=list)
    mixed: list[CheckpointEntry] = field(default_factory=list)
    """Checkpoints of several threads."""
    blobs: list[bytes] = field(default_factory=list)
    """Keys of separate values. Their thread is in their contents."""

    @property
    def checkpoints(self) -> list[CheckpointEntry]:
        """All checkpoints."""
        return [*self.places.values(), *self.mixed]


@dataclass(frozen=True, slots=True)
class Added:
    """A write that a change adds."""

    name: bytes
    copied: bytes | None = None
    """The key of the original if it is a copy; otherwise None."""
    source: CheckpointKey | None = None
    """The checkpoint of the original."""


class Layout(Protocol):
    """A layout of checkpoints in Redis. Methods read the current data; there is no snapshot."""

    name: str
    saver: str
    capabilities: Capability
    tables: tuple[str, ...]
    is_by_arrival: bool
    """Whether the writes of a checkpoint are ordered by the time they were stored."""

    def lines(self) -> Iterator[ListedNamespace]:
        """All namespaces of the store, in undefined order."""
        ...

    def checkpoint_name(self, key: CheckpointKey) -> bytes:
        """The key of a checkpoint."""
        ...

    def told(self, names: Sequence[bytes]) -> Iterator[CheckpointEntry]:
        """The checkpoints among these keys, according to their contents, in the same order."""
        ...

    def find(self, thread_ids: Collection[str]) -> dict[str, ThreadKeys]:
        """The keys of some threads. Without an index, several threads cost as much as one."""
        ...

    def writes_at(self, keys: Collection[CheckpointKey]) -> list[WriteEntry]:
        """The writes of some checkpoints; may include others. Costs as much as `find`."""
        ...

    def is_indexed(self) -> bool:
        """Whether the keys of a thread are found without a SCAN over all keys."""
        ...

    def pages(self) -> Iterator[ThreadKeys]:
        """All keys of the store in batches, each key once."""
        ...

    def checkpoints(
        self,
        places: Sequence[CheckpointEntry],
        *,
        body: bool,
        metadata: bool,
        values: bool | Collection[str],
    ) -> Iterator[Checkpoint]:
        """The checkpoints in the order of `places`, without those removed meanwhile."""
        ...

    def blobs(self, found: ThreadKeys) -> Iterator[tuple[bytes, str, BlobKey, int]]:
        """The separate values, each as (key in Redis, thread id, blob key, size in bytes)."""
        ...

    def writes(
        self, places: Sequence[WriteEntry], values: bool | Collection[str]
    ) -> Iterator[Write]:
        """The writes, without those removed meanwhile.

        They are ordered by arrival if `is_by_arrival`; otherwise the order is undefined.
        """
        ...

    def written(self, names: Sequence[bytes]) -> Iterator[tuple[bytes, CheckpointKey, bool]]:
        """For each write that exists: (key in Redis, its checkpoint, whether it is complete)."""
        ...

    def usage(self, found: ThreadKeys) -> Iterator[tuple[str, Usage]]:
        """The size of each single value, with `rows` 1, in undefined order.

        Each comes with the id of its checkpoint, or `''` for a separate value.
        """
        ...

    def sources(self, key: CheckpointKey) -> list[str]:
        """Redis commands with which a person finds a checkpoint and its writes."""
        ...
