"""Erases in a typed value, by its type."""

from __future__ import annotations

import json
import re
import struct
from base64 import b64decode, b64encode
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import accumulate, pairwise
from pickletools import genops
from typing import Any, TypeAlias

from ckpt_backends.codec import decode
from ckpt_backends.codec.bson import (
    BsonElement,
    bson_element,
    bson_elements,
    joined_document,
    typed,
    typed_leaf,
)
from ckpt_backends.codec.cursor import (
    ARRAY,
    BIN,
    EXT,
    MAP,
    READ_EXT,
    SCALAR,
    STR,
    end_of,
    read_header,
)
from ckpt_backends.codec.json import Member, check, items, measure, members, skip_space
from ckpt_backends.codec.lossless import pack_lossless, unpack_lossless
from ckpt_backends.codec.values import (
    CHANNELS,
    DEFAULT_LIMITS,
    JSON_TYPES,
    PastLimit,
    Tagged,
    Value,
)
from ckpt_backends.encryption import is_encrypted
from ckpt_backends.model import TypedBytes
from ckpt_backends.transfer.form import CannotHold

# What is to be erased, and what it becomes: the rules that all serializers share.


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
        self._renamed: set[str] = set()

    def new(self, key: str, shape: Treatment) -> str:
        """The key that an entry gets."""
        made = key if shape.keeps_keys else self._erasure.replaced_key(key)
        # A key that stays may be what an earlier one became, if a secret was erased before.
        if made != key or made in self._renamed:
            first, number = made, 1
            while made in self._used:
                number += 1
                made = f"{first} {number}"
            self._renamed.add(made)
        self._used.add(made)
        return made


_PLAIN_BSON = "bson-plain"
_DOCUMENTS = frozenset({"bson", _PLAIN_BSON})


def erased_value(
    value: TypedBytes, erasure: Erasure, spot: Spot, changed: ChangedPlaces, where: str
) -> TypedBytes:
    """The value without what is erased; the same object if nothing is.

    Raises `CannotHold` for a value that is encrypted or that cannot be read; `where` names it.
    """
    if is_encrypted(value):
        raise CannotHold(f"{where} is encrypted")
    number = len(changed.steps)
    try:
        data = _erased(value, erasure, spot, changed)
    except (ValueError, IndexError, KeyError, TypeError, PastLimit, RecursionError) as error:
        del changed.steps[number:]
        data = _overwritten(value, erasure, spot, changed)
        if erasure.hits(data):
            raise CannotHold(f"{where} cannot be read: {_without_value(error)}") from None
    return value if data == value.data else value._replace(data=data)


def _overwritten(value: TypedBytes, erasure: Erasure, spot: Spot, changed: ChangedPlaces) -> bytes:
    """Bytes of an unknown form: what is erased becomes as many other bytes."""
    made = erasure.replaced_bytes(value.data)
    if made != value.data:
        changed.steps.append(spot.steps)
    return made


def _erased(value: TypedBytes, erasure: Erasure, spot: Spot, changed: ChangedPlaces) -> bytes:
    if value.type == "msgpack":
        return erased_msgpack(value.data, erasure, spot, changed)
    if value.type in JSON_TYPES:
        return erased_json(value.data, erasure, spot, changed)
    if value.type in _DOCUMENTS:

        def leaf(one: TypedBytes, at: Spot) -> TypedBytes:
            return erased_value(one, erasure, at, changed, "a leaf of metadata")

        return erased_document(value.data, erasure, spot, leaf, changed)
    if value.type == "pickle":
        if any(_is_there(decode(value), one) for one in spot.scalars):
            raise CannotHold("a number in a pickle cannot be erased")
        return erased_pickle(value.data, erasure, spot, changed)
    return _overwritten(value, erasure, spot, changed)


def _is_there(value: Value, place: ScalarPlace) -> bool:
    """Whether the value of a place is in a decoded value."""
    while isinstance(value, Tagged):
        value = value.payload
    if not place.steps:
        return place.is_at(value)
    step, left = place.steps[0], ScalarPlace(place.steps[1:], place.value)
    if isinstance(value, dict):
        inner = value.values() if step == ANY_STEP else [value.get(step)]
    else:
        at = isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value)
        inner = [value[step]] if at else []  # type: ignore[index]
    return any(_is_there(one, left) for one in inner)


def _without_value(error: Exception) -> str:
    """What is wrong, without a word of the value."""
    return str(error) if isinstance(error, PastLimit) else type(error).__name__


# Erases in msgpack. Only changed texts, and the headers around them, get other bytes.


_FIELDS = frozenset({2, 4, 5})
"""Codes of objects whose content is a map of fields."""
_NUMPY, _SNAPSHOT = 6, 7
_CONTENT, _ARRAY_BYTES = 2, 3
"""The index of an object's content, and of an array's bytes."""
_FIXED = {1: 0xD4, 2: 0xD5, 4: 0xD6, 8: 0xD7, 16: 0xD8}
_SENDS = frozenset({"langgraph.types", "langgraph.constants"})


def erased_msgpack(data: bytes, erasure: Erasure, spot: Spot, changed: ChangedPlaces) -> bytes:
    """The value without what is erased; the same object if nothing is.

    Raises ValueError if it is damaged, and RecursionError if a hit is nested too deeply.
    """
    hits = erasure.hits(data)
    if not hits and not spot.scalars:
        return data
    made, end = _MsgpackEditor(data, erasure, hits, changed).value(0, spot)
    if end != len(data):
        raise ValueError("bytes behind the end")
    return data if made == data else made


class _MsgpackEditor:
    def __init__(
        self, data: bytes, erasure: Erasure, hits: list[int], changed: ChangedPlaces
    ) -> None:
        self._data = data
        self._erasure = erasure
        self._hits = hits
        self._changed = changed

    def value(self, pos: int, spot: Spot | None) -> tuple[bytes, int]:
        """The new bytes of the value at `pos`, and where the stored ones end. None keeps it."""
        data = self._data
        end = end_of(data, pos)
        if spot is None or not (spot.scalars or self._has_hit(pos, end)):
            return data[pos:end], end
        kind, start, length = read_header(data, pos)
        if kind == STR:
            return self._text(pos, start, end, spot), end
        if kind == BIN:
            return self._binary(pos, start, end, spot), end
        if kind == ARRAY:
            return data[pos:start] + self._items(start, length, spot), end
        if kind == MAP:
            return data[pos:start] + self._entries(start, length, spot), end
        if kind == EXT:
            return self._ext(pos, start, end, spot), end
        return self._scalar(pos, end, spot, is_scalar=kind == SCALAR), end

    def _has_hit(self, pos: int, end: int) -> bool:
        at = bisect_left(self._hits, pos)
        return at < len(self._hits) and self._hits[at] < end

    def _text(self, pos: int, start: int, end: int, spot: Spot) -> bytes:
        stored = self._data[start:end]
        try:
            text = stored.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return self._binary(pos, start, end, spot)
        made = spot.replaced(text, self._erasure)
        if made is text:
            return self._data[pos:end]
        self._changed.steps.append(spot.steps)
        return packed_text(made)

    def _binary(self, pos: int, start: int, end: int, spot: Spot) -> bytes:
        """Bytes of the same length."""
        stored = self._data[start:end]
        made = self._erasure.replaced_bytes(stored)
        if made == stored:
            return self._data[pos:end]
        self._changed.steps.append(spot.steps)
        return self._data[pos:start] + made

    def _items(self, pos: int, length: int, spot: Spot) -> bytes:
        made: list[bytes] = []
        for index in range(length):
            shape = spot.shape.of(index)
            one, pos = self.value(pos, None if shape is None else spot.child(index, shape))
            made.append(one)
        return b"".join(made)

    def _entries(self, pos: int, length: int, spot: Spot) -> bytes:
        made: list[bytes] = []
        keys = Keys(self._erasure)
        for _ in range(length):
            kind, start, size = read_header(self._data, pos)
            if kind == STR:
                end = start + size
                key = self._data[start:end].decode("utf-8", "surrogatepass")
                new = keys.new(key, spot.shape)
                shape = spot.shape.of(key)
                inner = None if shape is None else spot.child(key, shape, new)
                if new == key:
                    made.append(self._data[pos:end])
                else:
                    made.append(packed_text(new))
                    self._changed.steps.append((*spot.steps, new))
            else:
                stored, end = self.value(pos, Spot(steps=spot.steps))
                made.append(stored)
                name = _plain_key(self._data[pos:end])
                inner = None if spot.shape.others is None else spot.child(name, spot.shape.others)
            value, pos = self.value(end, inner)
            made.append(value)
        return b"".join(made)

    def _ext(self, pos: int, start: int, end: int, spot: Spot) -> bytes:
        code = self._data[start]
        if code not in READ_EXT or not self._is_value(start + 1, end):
            return self._binary(pos, start + 1, end, spot)
        if code == _SNAPSHOT:
            made, _ = self.value(start + 1, spot.inside(ANY))
        else:
            made = self._object(code, start + 1, end, spot)
        stored = self._data[start + 1 : end]
        return self._data[pos:end] if made == stored else packed_ext(code, made)

    def _is_value(self, pos: int, end: int) -> bool:
        """Whether the payload of an ext type is one value."""
        try:
            return end_of(self._data, pos) == end
        except ValueError:
            return False

    def _object(self, code: int, pos: int, end: int, spot: Spot) -> bytes:
        """The payload of an object: its names are kept, its content is not."""
        kind, start, length = read_header(self._data, pos)
        if kind != ARRAY or length <= _CONTENT:
            return self.value(pos, spot.inside(ANY))[0]
        made = [self._data[pos:start]]
        names: list[str] = []
        at = start
        for index in range(length):
            inner = None
            if code == _NUMPY:
                inner = spot.inside(ANY) if index == _ARRAY_BYTES else None
            elif index == _CONTENT:
                inner = spot.inside(_shape_of(code, names))
            value, after = self.value(at, inner)
            if index < _CONTENT:
                names.append(_name(self._data[at:after]))
            made.append(value)
            at = after
        if at != end:
            raise ValueError("bytes behind the end")
        return b"".join(made)

    def _scalar(self, pos: int, end: int, spot: Spot, *, is_scalar: bool) -> bytes:
        stored = self._data[pos:end]
        for one in spot.scalars:
            if is_scalar and not one.steps and one.is_at(unpack_lossless(stored)):
                self._changed.steps.append(spot.steps)
                return pack_lossless(one.marker)
        return stored


def _shape_of(code: int, names: list[str]) -> Treatment:
    if code in _FIELDS:
        return NAMED
    if names[1:] == ["Send"] and names[0] in _SENDS:
        return SEND
    return ANY


def _name(packed: bytes) -> str:
    kind, start, length = read_header(packed, 0)
    return packed[start : start + length].decode("utf-8", "replace") if kind == STR else ""


def _plain_key(packed: bytes) -> str | int:
    """A key that is no text, as a step of a path."""
    key = unpack_lossless(packed)
    return key if type(key) is int else str(key)


def packed_text(text: str) -> bytes:
    """A text as msgpack, also with lone surrogates."""
    data = text.encode("utf-8", "surrogatepass")
    size = len(data)
    if size < 32:
        return bytes([0xA0 | size]) + data
    for first, width in ((0xD9, 1), (0xDA, 2), (0xDB, 4)):
        if size < 1 << (8 * width):
            return bytes([first]) + size.to_bytes(width, "big") + data
    raise ValueError("a text of 4 GB")


def packed_ext(code: int, data: bytes) -> bytes:
    """An ext type with its payload."""
    size = len(data)
    if size in _FIXED:
        return bytes([_FIXED[size], code]) + data
    for first, width in ((0xC7, 1), (0xC8, 2), (0xC9, 4)):
        if size < 1 << (8 * width):
            return bytes([first]) + size.to_bytes(width, "big") + bytes([code]) + data
    raise ValueError("an object of 4 GB")


# Erases in JSON texts. Only changed literals get other characters; spaces and order stay.


_ENVELOPES = (1, 2)
_TYPED = 2
"""Items of a value that is stored as its type and base64."""


def erased_json(data: bytes, erasure: Erasure, spot: Spot, changed: ChangedPlaces) -> bytes:
    """The text without what is erased; the same object if nothing is.

    Raises ValueError and `PastLimit` if it is damaged or nested too deeply.
    """
    # Any character may be an escape, so a text with escapes is always read.
    has_base64 = spot.shape is BODY and b'"pending_sends"' in data
    if not (spot.scalars or has_base64 or b"\\" in data or erasure.hits(data)):
        return data
    text = data.decode("utf-8", "surrogatepass")
    check(text, DEFAULT_LIMITS)
    editor = _JsonEditor(text, erasure, changed)
    end = editor.edit(skip_space(text, text.startswith("\ufeff")), spot)
    if skip_space(text, end) != len(text):
        raise ValueError("characters behind the end")
    return editor.made().encode("utf-8", "surrogatepass") if editor.edits else data


class _JsonEditor:
    """Collects the literals that change."""

    def __init__(self, text: str, erasure: Erasure, changed: ChangedPlaces) -> None:
        self._text = text
        self._erasure = erasure
        self._changed = changed
        self.edits: list[tuple[int, int, str]] = []

    def made(self) -> str:
        """The text with all changes."""
        parts: list[str] = []
        at = 0
        for start, end, new in self.edits:
            parts += [self._text[at:start], new]
            at = end
        return "".join([*parts, self._text[at:]])

    def edit(self, pos: int, spot: Spot) -> int:
        """Erase in the value at `pos`. Returns its end."""
        if self._text.startswith("{", pos):
            return self._object(pos, spot)
        if self._text.startswith("[", pos):
            found, end = items(self._text, pos)
            if not (spot.shape is SENDS and self._typed_sends(found, spot)):
                for index, (start, _) in enumerate(found):
                    if (shape := spot.shape.of(index)) is not None:
                        self.edit(start, spot.child(index, shape))
            return end
        end = measure(self._text, pos).end
        stored = self._literal(pos, end)
        if isinstance(stored, str):
            made: object = spot.replaced(stored, self._erasure)
        else:
            scalars = (one for one in spot.scalars if not one.steps and one.is_at(stored))
            made = next((one.marker for one in scalars), stored)
        if made is not stored:
            self._put(pos, end, made, spot)
        return end

    def _typed_sends(self, found: list[tuple[int, int]], spot: Spot) -> bool:
        """Erase in Sends that are stored as a type and base64. Returns whether they are."""
        if len(found) != _TYPED:
            return False
        tag, text = (self._literal(*one) for one in found)
        if not (isinstance(tag, str) and isinstance(text, str)):
            return False

        stored = TypedBytes(tag, b64decode(text, validate=True))
        made = erased_value(stored, self._erasure, Spot(), ChangedPlaces(), "a Send")
        if made is not stored:
            self._put(*found[1], b64encode(made.data).decode(), spot)
        return True

    def _object(self, pos: int, spot: Spot) -> int:
        found, end = members(self._text, pos)
        values = {one.key: one for one in found}
        if self._is_envelope(values):
            for one in found:
                if (shape := ENVELOPE.of(one.key)) is not None:
                    self._content(one, spot.inside(shape))
            return end
        keys = Keys(self._erasure)
        for one in found:
            new = keys.new(one.key, spot.shape)
            if new != one.key:
                self._put(one.start, one.key_end, new, Spot(steps=(*spot.steps, new)))
            if (shape := spot.shape.of(one.key)) is not None:
                self.edit(one.value, spot.child(one.key, shape, new))
        return end

    def _is_envelope(self, values: Mapping[str, Member]) -> bool:
        """Whether an object is one of LangChain's or LangGraph's envelopes."""
        return (
            {"lc", "id"} <= values.keys()
            and self._text.startswith("[", values["id"].value)
            and self._literal(values["lc"].value, values["lc"].end) in _ENVELOPES
        )

    def _content(self, one: Member, spot: Spot) -> None:
        """The arguments of an object. A single one has the object's path."""
        if one.key == "args" and self._text.startswith("[", one.value):
            found, _ = items(self._text, one.value)
            if len(found) == 1:
                self.edit(found[0][0], spot)
                return
        self.edit(one.value, spot)

    def _literal(self, start: int, end: int) -> object:
        return json.loads(self._text[start:end])

    def _put(self, start: int, end: int, new: object, spot: Spot) -> None:
        is_escaped = self._text[start:end].isascii()
        self.edits.append((start, end, json.dumps(new, ensure_ascii=is_escaped)))
        self._changed.steps.append(spot.steps)


# Erases in BSON documents, such as the metadata of MongoDB's savers.


_DOUBLE, _STRING, _DOCUMENT, _ARRAY, _BINARY, _BOOL = 0x01, 0x02, 0x03, 0x04, 0x05, 0x08
_INTEGERS = frozenset({0x10, 0x12})
_BINARY_HEAD = 5
_DEEPEST = 100

EraseLeaf = Callable[[TypedBytes, Spot], TypedBytes]
"""Erases in a value that the saver serialized before it put it into the document."""


def erased_document(
    data: bytes, erasure: Erasure, spot: Spot, leaf: EraseLeaf, changed: ChangedPlaces
) -> bytes:
    """The document without what is erased. Raises ValueError if it is damaged."""
    return _BsonEditor(data, erasure, leaf, changed).document(0, len(data), spot, is_list=False)


class _BsonEditor:
    def __init__(
        self, data: bytes, erasure: Erasure, leaf: EraseLeaf, changed: ChangedPlaces
    ) -> None:
        self._data = data
        self._erasure = erasure
        self._leaf = leaf
        self._changed = changed

    def document(self, start: int, end: int, spot: Spot, *, is_list: bool) -> bytes:
        """The new bytes of the document or array between these offsets."""
        if len(spot.steps) > _DEEPEST:
            raise ValueError(f"nested deeper than {_DEEPEST} levels")
        made: list[bytes] = []
        keys = Keys(self._erasure)
        for one in bson_elements(self._data, start, end):
            key = one.name.decode("utf-8", "surrogateescape")
            step = int(key) if is_list and key.isdecimal() else key
            new = key if is_list else keys.new(key, spot.shape)
            if new != key:
                self._changed.steps.append((*spot.steps, new))
            shape = spot.shape.of(step)
            value = self._data[one.value : one.end]
            if shape is not None:
                value = self._value(one, spot.child(step, shape, new if new != key else step))
            made.append(bson_element(one.kind, new.encode("utf-8", "surrogateescape"), value))
        return joined_document(made)

    def _value(self, one: BsonElement, spot: Spot) -> bytes:
        stored = self._data[one.value : one.end]
        if one.kind == _STRING:
            return self._text(stored, spot)
        if one.kind == _DOCUMENT:
            return self.document(one.value, one.end, spot, is_list=False)
        if one.kind == _ARRAY:
            leaf = typed_leaf(self._data, one)
            if leaf is None:
                return self.document(one.value, one.end, spot, is_list=True)
            made = self._leaf(leaf, spot)
            return stored if made == leaf else typed(made)[1:]
        if one.kind == _BINARY:
            return self._binary(stored, spot)
        return self._scalar(one.kind, stored, spot)

    def _text(self, stored: bytes, spot: Spot) -> bytes:
        text = stored[4:-1].decode("utf-8", "surrogatepass")
        made = spot.replaced(text, self._erasure)
        if made is text:
            return stored
        self._changed.steps.append(spot.steps)
        data = made.encode("utf-8", "surrogatepass") + b"\0"
        return struct.pack("<i", len(data)) + data

    def _binary(self, stored: bytes, spot: Spot) -> bytes:
        """The bytes of a JSON text, as old savers store a leaf, or of anything else."""
        made = self._leaf(TypedBytes("json", stored[_BINARY_HEAD:]), spot).data
        return struct.pack("<i", len(made)) + stored[4:_BINARY_HEAD] + made

    def _scalar(self, kind: int, stored: bytes, spot: Spot) -> bytes:
        found: Scalar
        if kind == _DOUBLE:
            (found,) = struct.unpack("<d", stored)
        elif kind in _INTEGERS:
            found = int.from_bytes(stored, "little", signed=True)
        elif kind == _BOOL:
            found = stored != b"\0"
        else:
            return stored
        if any(not one.steps and one.is_at(found) for one in spot.scalars):
            self._changed.steps.append(spot.steps)
            return bytes(len(stored))
        return stored


# Erases in pickles, which are parsed and never run.
#
# Texts and bytes are replaced opcode by opcode, and the lengths of frames follow. The names of
# classes are kept, also those that `STACK_GLOBAL` takes from the stack.


_TEXTS = frozenset({"UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"})
_BYTES = frozenset({"SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "BYTEARRAY8"})
_OLD_STRINGS = frozenset({"STRING", "SHORT_BINSTRING", "BINSTRING"})
"""Texts of protocols 0 and 1 in Python 2."""
_PUTS = frozenset({"MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT"})
_GETS = frozenset({"GET", "BINGET", "LONG_BINGET"})
_FRAME = "FRAME"
_FRAME_HEAD = 9
_MOST_OPCODES = 16 * DEFAULT_LIMITS.nodes


@dataclass(slots=True)
class _Opcode:
    name: str
    argument: Any
    start: int
    end: int
    is_name: bool = False
    """Whether it is the name of a class or module."""


def erased_pickle(data: bytes, erasure: Erasure, spot: Spot, changed: ChangedPlaces) -> bytes:
    """The pickle without what is erased; the same object if nothing is. Raises ValueError."""
    if not erasure.hits(data) and b"\\" not in data:
        return data
    opcodes = _opcodes(data)
    _mark_names(opcodes)
    made: list[bytes] = []
    frames: list[tuple[int, int]] = []
    for one in opcodes:
        if one.name == _FRAME:
            frames.append((len(made), one.end + one.argument))
        made.append(_new(data[one.start : one.end], one, erasure))
    if b"".join(made) == data:
        return data
    changed.steps.append(spot.steps)
    starts = [one.start for one in opcodes]
    sizes = [0, *accumulate(map(len, made))]
    for index, end in frames:
        size = sizes[bisect_left(starts, end)] - sizes[index + 1]
        made[index] = made[index][: -(_FRAME_HEAD - 1)] + struct.pack("<Q", size)
    return b"".join(made)


def _opcodes(data: bytes) -> list[_Opcode]:
    """The opcodes with their places. Raises ValueError, and `PastLimit` if there are too many."""
    found: list[_Opcode] = []
    for opcode, argument, place in genops(data):
        if len(found) > _MOST_OPCODES:
            raise PastLimit(f"more than {_MOST_OPCODES} opcodes")
        found.append(_Opcode(opcode.name, argument, place or 0, 0))
    for one, after in pairwise(found):
        one.end = after.start
    found[-1].end = found[-1].start + 1
    if found[-1].end != len(data):
        raise ValueError("bytes behind the end of the pickle")
    return found


def _mark_names(opcodes: list[_Opcode]) -> None:
    """Mark the texts that are taken as names. Raises ValueError if they cannot be told."""
    memo: dict[int, _Opcode] = {}
    pushed: list[_Opcode] = []
    for one in opcodes:
        if one.name in _PUTS:
            number = len(memo) if one.name == "MEMOIZE" else int(one.argument)
            memo[number] = pushed[-1] if pushed else one
        elif one.name in _GETS:
            pushed.append(memo.get(int(one.argument), one))
        elif one.name == "STACK_GLOBAL":
            names = pushed[-2:]
            if len(names) != 2 or any(name.name not in _TEXTS for name in names):
                raise ValueError("a pickle with a class whose name is computed")
            for name in names:
                name.is_name = True
            pushed = [*pushed[:-2], one]
        elif one.name != _FRAME:
            pushed.append(one)


def _new(stored: bytes, one: _Opcode, erasure: Erasure) -> bytes:
    """The new bytes of one opcode."""
    if one.is_name:
        return stored
    if one.name in _TEXTS:
        made = erasure.replaced(one.argument)
        return stored if made is one.argument else _text(one.name, made)
    if one.name in _BYTES:
        data = bytes(one.argument)
        new = erasure.replaced_bytes(data)
        return stored if new == data else stored[: len(stored) - len(data)] + new
    if one.name in _OLD_STRINGS:
        # `genops` gives these as text of one byte per character.
        new = erasure.replaced_bytes(stored)
        return new if len(new) == len(stored) else stored
    return stored


def _text(name: str, text: str) -> bytes:
    """The opcode of a text; a short text may become longer than its opcode allows."""
    if name == "UNICODE":
        escaped = text.replace("\\", "\\u005c").replace("\0", "\\u0000").replace("\n", "\\u000a")
        escaped = escaped.replace("\r", "\\u000d").replace("\x1a", "\\u001a")
        return b"V" + escaped.encode("raw-unicode-escape") + b"\n"
    data = text.encode("utf-8", "surrogatepass")
    if name == "SHORT_BINUNICODE" and len(data) < 256:
        return b"\x8c" + bytes([len(data)]) + data
    if name == "BINUNICODE8":
        return b"\x8d" + struct.pack("<Q", len(data)) + data
    return b"X" + struct.pack("<I", len(data)) + data
