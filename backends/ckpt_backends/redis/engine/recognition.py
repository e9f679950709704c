"""How layouts find their stores in a database.

The declaration of a layout's package names a `Recogniser` in its field `recognise`. The engine
creates one of each for a database, and asks all of them; see `detect`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module

from ckpt_backends.declaration import Backend
from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.redis.engine.connection import RedisConnection
from ckpt_backends.redis.engine.document_fields import USUAL, fields_of, stored_id
from ckpt_backends.redis.engine.keyspace import DOCUMENT, HASH, STRING, literally, raw
from ckpt_backends.redis.engine.layout import RedisLayout

_TURNS, _SAMPLED = 10, 20
"""SCAN stops after this many batches if a layout was found; keys to examine in each batch."""


@dataclass(frozen=True, slots=True)
class RecognisedStore:
    """A store, identified by the values of URL parameters."""

    layout: str
    open: Callable[[], RedisLayout] = field(compare=False)
    prefix: str | None = None
    """None for a layout without prefixes."""
    write_prefix: str | None = None
    is_usual: bool = True
    """Whether its saver uses the default prefixes."""

    def params(self, stores: Sequence[RecognisedStore]) -> dict[str, str]:
        """The URL parameters that select this store and none of the others."""
        others = [one for one in stores if one != self]
        found = {"layout": self.layout} if any(one.layout != self.layout for one in others) else {}
        same = [one for one in others if one.layout == self.layout]
        named = {"prefix": self.prefix, "write_prefix": self.write_prefix}
        if not self.is_usual or same:
            found |= {name: one for name, one in named.items() if one is not None}
        return found

    def __str__(self) -> str:
        if self.is_usual:
            return self.layout
        writes = f", writes '{self.write_prefix}'" if self.write_prefix else ""
        return f"{self.layout} (prefix '{self.prefix}'{writes})"


@dataclass(frozen=True, slots=True)
class SampledDocument:
    """A JSON document that names its thread."""

    name: bytes
    has_writes: object
    """The value of this field; None if there is none."""
    has_text: bool
    """Whether the metadata is a text."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Some keys with one prefix, by their types."""

    documents: Sequence[SampledDocument]
    hashes: Sequence[bytes]
    strings: Sequence[bytes]


class KeyDatabase:
    """A database, with the prefixes that the URL names."""

    def __init__(
        self,
        connection: RedisConnection,
        backends: Sequence[Backend],
        prefix: str | None,
        write_prefix: str | None,
    ) -> None:
        self.connection = connection
        self.prefix, self.write_prefix = prefix, write_prefix
        self._backends = backends
        self.recognisers = recognisers(backends, self)
        self._samples: dict[str, dict[str, list[bytes]]] = {}

    @property
    def kinds(self) -> set[str]:
        """The layouts of the sampled keys, including layouts that ckpt cannot read."""
        return {kind for found in self._samples.values() for kind in found}

    def stores(self) -> list[RecognisedStore]:
        """The stores that match the URL, in the order of listing."""
        found = [store for one in self.recognisers for store in one.stores()]
        if not found and not self.kinds:
            found = [store for one in self.recognisers for store in one.stores_if_alone()]
        order = [layout for one in self.recognisers for layout in one.layouts]
        return sorted(found, key=lambda one: (order.index(one.layout), str(one)))

    def elsewhere(self) -> list[RecognisedStore]:
        """The stores with any prefixes, if the URL has a prefix; otherwise empty."""
        if self.prefix is None and self.write_prefix is None:
            return []
        return self.at(self.connection).stores()

    def at(self, connection: RedisConnection) -> KeyDatabase:
        """Another database, or this one, with any prefixes."""
        return KeyDatabase(connection, self._backends, None, None)

    def sampled(self, prefix: str) -> Mapping[str, Sequence[bytes]]:
        """By layout, the keys of some checkpoints with this prefix.

        If keys cannot be read, they are ignored, unless the prefix is the default or in the URL:
        the user may have access to the keys of one store only.
        """
        if prefix not in self._samples:
            self._samples[prefix] = {}
            is_needed = prefix in {self.prefix, USUAL.checkpoint}
            with suppress(*(() if is_needed else (StoreUnavailable,))):
                self._sample(prefix, self._samples[prefix])
        return self._samples[prefix]

    def _sample(self, prefix: str, found: dict[str, list[bytes]]) -> None:
        marks = [":"]
        if prefix == USUAL.checkpoint:
            marks = sorted({mark for one in self.recognisers for mark in one.separators})
        pattern = literally(prefix) + f"[{''.join(one[0] for one in marks)}]*".encode()
        starts = [raw(prefix + mark) for mark in marks]
        for turn, names in enumerate(self.connection.scan(pattern)):
            for start in starts:
                some = [one for one in names if one.startswith(start)]
                sample = self._read(prefix, some[:: len(some) // _SAMPLED + 1])
                for recogniser in self.recognisers:
                    for name, layout in recogniser.recognise(sample):
                        found.setdefault(layout, []).append(name)
            if found and turn >= _TURNS:
                break

    def _read(self, prefix: str, names: Sequence[bytes]) -> Sample:
        types = list(self.connection.ask_all(("TYPE", name) for name in names))
        by_type = {
            kind: [one for one, found in zip(names, types, strict=True) if found == kind.encode()]
            for kind in (DOCUMENT, HASH, STRING)
        }
        documents = list(self._documents(prefix, by_type[DOCUMENT]))
        return Sample(documents, by_type[HASH], by_type[STRING])

    def _documents(self, prefix: str, names: Sequence[bytes]) -> Iterator[SampledDocument]:
        told = self.connection.ask_all(
            ("JSON.GET", one, "$.thread_id", "$.has_writes") for one in names
        )
        types = self.connection.ask_all([("JSON.TYPE", name, "$.metadata") for name in names])
        for name, answer, kind in zip(names, list(told), types, strict=True):
            fields = fields_of(answer)
            thread = fields.get("$.thread_id")
            starts = (f"{prefix}:{thread}:", f"{prefix}:{stored_id(str(thread))}:")
            # Without a type it was removed meanwhile, and nothing tells the layout.
            if None not in (kind, thread) and name.startswith(tuple(map(raw, starts))):
                yield SampledDocument(name, fields.get("$.has_writes"), kind == [b"string"])


class Recogniser(ABC):
    """Finds the stores of some layouts in a database."""

    layouts: Sequence[str]
    """The names of its layouts, in the order of listing."""
    rank = 100
    """Where its layouts are listed: those of lower numbers first."""
    separators: Sequence[str] = ":"
    """What may follow the default prefix in its keys. Keys with each of these are sampled."""

    def __init__(self, database: KeyDatabase) -> None:
        self.database = database
        self.connection = database.connection

    def recognise(self, sample: Sample) -> Iterator[tuple[bytes, str]]:  # noqa: ARG002
        """The checkpoints of its layouts among these keys, each with the layout.

        A layout that is not in `layouts` is one that ckpt can only tell apart.
        """
        yield from ()

    @abstractmethod
    def named(self, layout: str, prefix: str | None, write_prefix: str | None) -> RecognisedStore:
        """The store that these URL parameters name; it may not exist."""

    def is_certain(self, layout: str) -> bool:  # noqa: ARG002
        """Whether the URL names one store if it names this layout, so that no search is needed."""
        return True

    def stores(self) -> list[RecognisedStore]:
        """The stores that match the URL."""
        found = self.database.sampled(self.database.prefix or USUAL.checkpoint)
        return [self.named(one, None, None) for one in self.layouts if one in found]

    def stores_if_alone(self) -> list[RecognisedStore]:
        """The stores that match the URL, if no layout was found. This may search all keys."""
        return []

    def fallback(self) -> RedisLayout | None:
        """The layout to open if the database has no other store; None if there is none."""
        return None

    def unreadable(self) -> str:
        """What is in the database that ckpt cannot read; `''` if nothing was found."""
        return ""

    def expected(self, prefix: str | None) -> str:  # noqa: ARG002
        """The keys to look for, for a hint; `''` if another layout has the same."""
        return ""


def recognisers(backends: Iterable[Backend], database: KeyDatabase) -> list[Recogniser]:
    """The recognisers of those backends that the engine `redis` serves, in the order of listing."""
    found: list[Recogniser] = []
    for one in backends:
        if one.engine == "redis":
            module, _, name = one.recognise.partition(":")
            found.append(getattr(import_module(module), name)(database))
    return sorted(found, key=lambda one: one.rank)
