"""What is to be erased, and what it becomes: the rules that all serializers share."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

from ckpt_backends.codec.values import CHANNELS

MARKER = "[erased]"
SHORTEST_PART = 8
"""Texts with at least so many characters are erased inside of longer texts, too."""

ANY_STEP = -1
"""In a path: any entry of a map or list."""

Step: TypeAlias = str | int
Steps: TypeAlias = tuple[Step, ...]
Scalar: TypeAlias = bool | int | float | str


@dataclass(frozen=True, slots=True)
class ScalarPlace:
    """A number, boolean or short text that is erased where it stands, and nowhere else."""

    steps: Steps
    """From the root of a value to it."""
    value: Scalar

    def is_at(self, found: object) -> bool:
        """Whether the value at the place is the one that is erased."""
        return type(found) is type(self.value) and found == self.value

    @property
    def marker(self) -> Scalar:
        """What the value becomes: 0, false or a text."""
        return MARKER if isinstance(self.value, str) else type(self.value)()


@dataclass(frozen=True)
class Erasure:
    """Texts to erase wherever they are, and values to erase at their places."""

    texts: frozenset[str]
    scalars: tuple[ScalarPlace, ...] = ()
    """Their steps begin with the channel."""

    @cached_property
    def needles(self) -> tuple[bytes, ...]:
        """What every value that has one of the texts contains, in UTF-8 or in escapes of JSON."""
        found = {_utf8(text) for text in self.texts}
        for text in self.texts:
            found |= {_utf8(one) for one in _escaped(text)}
        return tuple(sorted(found))

    @cached_property
    def _pattern(self) -> re.Pattern[str] | None:
        parts = sorted(self._parts, key=lambda one: (-len(one), one))
        return re.compile("|".join(map(re.escape, parts))) if parts else None

    @cached_property
    def _parts(self) -> frozenset[str]:
        """The texts that are erased inside of others."""
        parts = {one for one in self.texts if len(one) >= SHORTEST_PART}
        # A JSON text in a text, such as the arguments of a tool call, has escapes.
        return frozenset(parts.union(*map(_escaped, parts)))

    @cached_property
    def _bytes_pattern(self) -> re.Pattern[bytes] | None:
        """The same in UTF-8."""
        parts = sorted(map(_utf8, self._parts), key=lambda one: (-len(one), one))
        return re.compile(b"|".join(map(re.escape, parts))) if parts else None

    @cached_property
    def _whole_bytes(self) -> frozenset[bytes]:
        return frozenset(map(_utf8, self.texts))

    def replaced(self, text: str) -> str:
        """The text without what is erased; the same object if nothing is."""
        if text in self.texts:
            return MARKER
        if self._pattern is None:
            return text
        made, number = self._pattern.subn(MARKER, text)
        return made if number else text

    def replaced_key(self, text: str) -> str:
        """The key of a dict without what is erased. Short texts are kept: they may be names."""
        return text if len(text) < SHORTEST_PART else self.replaced(text)

    def replaced_bytes(self, data: bytes) -> bytes:
        """Bytes without the UTF-8 of what is erased, in the same length."""
        if data in self._whole_bytes:
            return filler(len(data))
        if self._bytes_pattern is None:
            return data
        return self._bytes_pattern.sub(lambda found: filler(len(found[0])), data)

    def has_part(self, data: bytes) -> bool:
        """Whether there is a text that is erased inside of others."""
        return self._bytes_pattern is not None and bool(self._bytes_pattern.search(data))

    def hits(self, data: bytes) -> list[int]:
        """Where the needles are, in order. Empty for almost all values."""
        return sorted(place for needle in self.needles for place in _places(data, needle))


def filler(size: int) -> bytes:
    """The marker, as long as what it replaces."""
    return MARKER.encode()[:size].ljust(size, b"*")


def _places(data: bytes, needle: bytes) -> Iterator[int]:
    at = data.find(needle)
    while at >= 0:
        yield at
        at = data.find(needle, at + 1)


def _escaped(text: str) -> Iterable[str]:
    """The text as JSON writes it, with and without non-ASCII characters, where that differs."""
    found = {json.dumps(text)[1:-1], json.dumps(text, ensure_ascii=False)[1:-1]}
    found |= {one.replace("/", "\\/") for one in tuple(found)}
    return found - {text}


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


# Which entries of a stored map hold what a user wrote, and which hold what savers need.


EDGES = ("branch:", "join:", "start:")
"""How the names of channels begin that LangGraph makes for the edges of a graph."""


@dataclass(frozen=True, slots=True)
class Treatment:
    """How the entries of a map or list are treated."""

    entries: Mapping[Step, Treatment | None] = field(default_factory=dict)
    """By key or index, the shape of an entry; None if it is kept."""
    others: Treatment | None = None
    """The shape of all other entries; None if they are kept."""
    keeps_keys: bool = True

    keeps_edges: bool = False
    """Whether entries are kept that are named as edges of a graph: their values name nodes."""

    def of(self, step: Step) -> Treatment | None:
        """The shape of an entry; None if it is kept."""
        if self.keeps_edges and isinstance(step, str) and step.startswith(EDGES):
            return None
        return self.entries.get(step, self.others)


ANY = Treatment()
"""A value of an application: everything in it may be erased."""
object.__setattr__(ANY, "others", ANY)
object.__setattr__(ANY, "keeps_keys", False)

NAMED = Treatment(others=ANY)
"""The values of an object's fields, whose names are kept."""
SENDS = Treatment(others=ANY)
"""Sends in a body: a list or, up to langgraph-checkpoint-postgres 1.0.4, a type and base64."""
BODY = Treatment({CHANNELS: Treatment(others=ANY, keeps_edges=True), "pending_sends": SENDS})
METADATA = Treatment(
    dict.fromkeys(
        (
            *("source", "step", "parents", "thread_id", "checkpoint_id", "checkpoint_ns", "run_id"),
            *("forked_from", "counters_since_delta_snapshot", "updated_channels"),
            *("langgraph_step", "langgraph_node", "langgraph_triggers", "langgraph_path"),
            *("langgraph_checkpoint_ns", "graph_id", "assistant_id", "langgraph_version"),
        )
    ),
    others=ANY,
)
ENVELOPE = Treatment({"kwargs": NAMED, "args": ANY, "value": ANY, "repr": ANY})
"""An object in JSON (`lc` 1 and 2). Without the names by which it is built."""
SEND = Treatment({1: ANY})
"""The node and the argument of a Send."""


# The places of one stored value that an erasure changed.


@dataclass(slots=True)
class ChangedPlaces:
    """The places, as steps from the root of the value."""

    steps: list[Steps] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Spot:
    """A value inside another one: where it is, and what may be erased in it."""

    shape: Treatment = ANY
    steps: Steps = ()
    scalars: tuple[ScalarPlace, ...] = ()
    """With the steps that are left from here."""

    def child(self, step: Step, shape: Treatment, shown: Step | None = None) -> Spot:
        """An entry of a map or list. `shown` is the key that it will have."""
        left = tuple(
            ScalarPlace(one.steps[1:], one.value)
            for one in self.scalars
            if one.steps and one.steps[0] in (step, ANY_STEP)
        )
        return Spot(shape, (*self.steps, step if shown is None else shown), left)

    def replaced(self, text: str, erasure: Erasure) -> str:
        """A text at this place without what is erased; the same object if nothing is."""
        if any(not one.steps and one.is_at(text) for one in self.scalars):
            return MARKER
        return erasure.replaced(text)

    def inside(self, shape: Treatment) -> Spot:
        """The contents of an object, which have the same path."""
        return Spot(shape, self.steps, self.scalars)


class Keys:
    """The new keys of one map, all different."""

    def __init__(self, erasure: Erasure) -> None:
        self._erasure = erasure
        self._used: set[str] = set()

    def new(self, key: str, shape: Treatment) -> str:
        """The key that an entry gets."""
        made = key if shape.keeps_keys else self._erasure.replaced_key(key)
        if made != key:
            first, number = made, 1
            while made in self._used:
                number += 1
                made = f"{first} {number}"
        self._used.add(made)
        return made
