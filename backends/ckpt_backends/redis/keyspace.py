"""Names of keys, and what every layout in Redis tells of them."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from os.path import commonprefix
from typing import Protocol

from ckpt_backends.model import BlobKey, Capability, Checkpoint, CheckpointKey, Usage, Write

_UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
CALL = rf"[^:|]+:{_UUID}(?:\|[^:|]+:{_UUID})*"
"""A pattern for the namespace of a subgraph's call, which has colons itself."""
_SPECIAL = re.compile(rb"([*?\[\]\\])")


def text(name: bytes) -> str:
    """A key or a field as text; what is not UTF-8 survives a round trip."""
    return name.decode("utf-8", "surrogateescape")


def raw(name: str) -> bytes:
    """Text as a key or a field."""
    try:
        return name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate, which no saver can store: it names nothing
        return name.encode("utf-8", "surrogatepass")


def literally(name: str) -> bytes:
    """A part of a pattern of SCAN that matches only this text."""
    return _SPECIAL.sub(rb"\\\1", raw(name))


def beginning(names: Collection[str]) -> bytes:
    """A part of a pattern for what all of these begin with: the server sends that much less."""
    return literally(commonprefix(list(names)))  # noqa: RUF071  (characters are meant)


@dataclass(frozen=True, slots=True)
class Place:
    """A stored checkpoint."""

    key: CheckpointKey
    name: bytes
    """The key in Redis."""
    parent: str | None = None
    rank: float = 0.0
    """What the saver orders a namespace's checkpoints by, before their ids."""


@dataclass(frozen=True, slots=True)
class Line:
    """A namespace of a thread, as a listing tells of it."""

    thread_id: str
    checkpoint_ns: str
    oldest: str
    newest: str
    checkpoints: int
    head: str | None = None
    """The checkpoint that the saver loads, where that may be another one than the newest."""


@dataclass(frozen=True, slots=True)
class WritePlace:
    """A stored write, as far as it is known from the index of its thread."""

    name: bytes
    checkpoint_id: str
    """The checkpoint that its key names; the document has the last word."""


@dataclass(slots=True)
class Found:
    """The keys of one thread, or some of the keys of all."""

    places: dict[tuple[str, str], Place] = field(default_factory=dict)
    """By namespace and checkpoint id."""
    writes: list[WritePlace] = field(default_factory=list)
    mixed: list[Place] = field(default_factory=list)
    """Checkpoints of several threads."""
    blobs: list[bytes] = field(default_factory=list)
    """Values that are kept apart; their contents tell the thread."""

    @property
    def checkpoints(self) -> list[Place]:
        """All of its checkpoints."""
        return [*self.places.values(), *self.mixed]


@dataclass(frozen=True, slots=True)
class Added:
    """A write that a change adds."""

    name: bytes
    copied: bytes | None = None
    """The write that it is a copy of, and of which checkpoint that is."""
    source: CheckpointKey | None = None


class Layout(Protocol):
    """One way to keep checkpoints in Redis. Answers are of the moment they are given."""

    name: str
    saver: str
    capabilities: Capability
    tables: tuple[str, ...]
    is_by_arrival: bool
    """Whether the writes of a checkpoint are in the order in which they came."""

    def lines(self) -> Iterator[Line]:
        """Every namespace of the store, in no order."""
        ...

    def checkpoint_name(self, key: CheckpointKey) -> bytes:
        """The key of a checkpoint."""
        ...

    def told(self, names: Sequence[bytes]) -> Iterator[Place]:
        """Which of these keys are checkpoints, by what they hold; in the same order."""
        ...

    def find(self, thread_ids: Collection[str]) -> dict[str, Found]:
        """The keys of some threads, at the price of one where there is no index."""
        ...

    def writes_at(self, keys: Collection[CheckpointKey]) -> list[WritePlace]:
        """The writes of some checkpoints, at the price of `find`; perhaps with others."""
        ...

    def is_indexed(self) -> bool:
        """Whether one thread is found without a pass over all names."""
        ...

    def pages(self) -> Iterator[Found]:
        """All keys of the store, each once, some at a time."""
        ...

    def checkpoints(
        self,
        places: Sequence[Place],
        *,
        body: bool,
        metadata: bool,
        values: bool | Collection[str],
    ) -> Iterator[Checkpoint]:
        """Checkpoints in the order of their places, without those that are gone by now."""
        ...

    def blobs(self, found: Found) -> Iterator[tuple[bytes, str, BlobKey, int]]:
        """The values that are kept apart: key, thread, what they are of, and size."""
        ...

    def writes(
        self, places: Sequence[WritePlace], values: bool | Collection[str]
    ) -> Iterator[Write]:
        """Writes, without those that are gone by now; in no order, unless that is by arrival."""
        ...

    def written(self, names: Sequence[bytes]) -> Iterator[tuple[bytes, CheckpointKey, bool]]:
        """Which checkpoint each write is of, and whether it is whole; of those that are there."""
        ...

    def usage(self, found: Found) -> Iterator[tuple[str, Usage]]:
        """What each of these values takes, one by one and in no order; `rows` is 1.

        Each with the id of its checkpoint, `''` for a value that is kept apart.
        """
        ...

    def sources(self, key: CheckpointKey) -> list[str]:
        """Commands that show a checkpoint and its writes."""
        ...
