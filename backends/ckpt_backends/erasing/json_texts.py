"""Erases in JSON texts. Only changed literals get other characters; spaces and order stay."""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from dataclasses import dataclass

from ckpt_backends.codec.json.json_plus import check
from ckpt_backends.codec.limits import DEFAULT_LIMITS
from ckpt_backends.erasing.changes import ChangedPlaces, Keys, Spot
from ckpt_backends.erasing.erasure import Erasure
from ckpt_backends.erasing.shapes import BODY, ENVELOPE, SENDS
from ckpt_backends.model import TypedBytes

_SPACE = re.compile(r"[ \t\r\n]*")
_TEXT = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"', re.DOTALL)
_SCALAR = re.compile(r"[^\s,\]}\"\[{]+")
_ENVELOPES = (1, 2)
_TYPED = 2
"""Items of a value that is stored as its type and base64."""


@dataclass(slots=True)
class _Node:
    """A value in the text."""

    start: int
    end: int
    entries: list[tuple[tuple[int, int], _Node]] | None = None
    """Of an object: the place of each key, and its value."""
    items: list[_Node] | None = None


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
    editor = _Editor(text, erasure, changed)
    root = _Reader(text).whole()
    editor.edit(root, spot)
    return editor.made().encode("utf-8", "surrogatepass") if editor.edits else data


class _Reader:
    """Finds the places of all values of a text."""

    def __init__(self, text: str) -> None:
        self._text = text

    def whole(self) -> _Node:
        found = self._value(self._space(1 if self._text.startswith("\ufeff") else 0))
        if self._space(found.end) != len(self._text):
            raise ValueError("characters behind the end")
        return found

    def _space(self, pos: int) -> int:
        found = _SPACE.match(self._text, pos)
        return pos if found is None else found.end()

    def _value(self, pos: int) -> _Node:
        mark = self._text[pos : pos + 1]
        if mark == "{":
            return self._object(pos)
        if mark == "[":
            return self._list(pos)
        found = (_TEXT if mark == '"' else _SCALAR).match(self._text, pos)
        if found is None:
            raise ValueError(f"no JSON at character {pos}")
        return _Node(pos, found.end())

    def _object(self, start: int) -> _Node:
        entries: list[tuple[tuple[int, int], _Node]] = []
        pos = self._space(start + 1)
        while not self._text.startswith("}", pos):
            pos = self._comma(pos) if entries else pos
            key = _TEXT.match(self._text, pos)
            if key is None:
                raise ValueError(f"no key at character {pos}")
            value = self._value(self._space(self._past(self._space(key.end()), ":")))
            entries.append((key.span(), value))
            pos = self._space(value.end)
        return _Node(start, pos + 1, entries=entries)

    def _list(self, start: int) -> _Node:
        items: list[_Node] = []
        pos = self._space(start + 1)
        while not self._text.startswith("]", pos):
            pos = self._comma(pos) if items else pos
            items.append(self._value(pos))
            pos = self._space(items[-1].end)
        return _Node(start, pos + 1, items=items)

    def _comma(self, pos: int) -> int:
        return self._space(self._past(pos, ","))

    def _past(self, pos: int, mark: str) -> int:
        if not self._text.startswith(mark, pos):
            raise ValueError(f"'{mark}' expected at character {pos}")
        return pos + 1


class _Editor:
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

    def edit(self, node: _Node, spot: Spot) -> None:
        if spot.shape is SENDS and self._typed_sends(node, spot):
            return
        if node.items is not None:
            for index, item in enumerate(node.items):
                if (shape := spot.shape.of(index)) is not None:
                    self.edit(item, spot.child(index, shape))
        elif node.entries is not None:
            self._object(node.entries, spot)
        elif self._text.startswith('"', node.start):
            stored = json.loads(self._text[node.start : node.end], strict=False)
            made = spot.replaced(stored, self._erasure)
            if made is not stored:
                self._put(node.start, node.end, made, spot)
        else:
            self._scalar(node, spot)

    def _typed_sends(self, node: _Node, spot: Spot) -> bool:
        """Erase in Sends that are stored as a type and base64. Returns whether they are."""
        if node.items is None or len(node.items) != _TYPED:
            return False
        tag, text = map(self._literal, node.items)
        if not (isinstance(tag, str) and isinstance(text, str)):
            return False
        from ckpt_backends.erasing.values import erased_value

        stored = TypedBytes(tag, b64decode(text, validate=True))
        made = erased_value(stored, self._erasure, Spot(), ChangedPlaces(), "a Send")
        if made is not stored:
            place = node.items[1]
            self._put(place.start, place.end, b64encode(made.data).decode(), spot)
        return True

    def _object(self, entries: list[tuple[tuple[int, int], _Node]], spot: Spot) -> None:
        named = [(json.loads(self._text[slice(*at)], strict=False), at, one) for at, one in entries]
        if self._is_envelope(named):
            for name, _, value in named:
                if (shape := ENVELOPE.of(name)) is not None:
                    self._content(value, spot.inside(shape), is_list=name == "args")
            return
        keys = Keys(self._erasure)
        for name, (start, end), value in named:
            new = keys.new(name, spot.shape)
            if new != name:
                self._put(start, end, new, Spot(steps=(*spot.steps, new)))
            if (shape := spot.shape.of(name)) is not None:
                self.edit(value, spot.child(name, shape, new))

    def _is_envelope(self, named: list[tuple[str, tuple[int, int], _Node]]) -> bool:
        """Whether an object is one of LangChain's or LangGraph's envelopes."""
        names = {name: value for name, _, value in named}
        return (
            "lc" in names
            and names.keys() & {"id"} != set()
            and names["id"].items is not None
            and self._literal(names["lc"]) in _ENVELOPES
        )

    def _content(self, value: _Node, spot: Spot, *, is_list: bool) -> None:
        """The arguments of an object. A single one has the object's path."""
        if is_list and value.items is not None and len(value.items) == 1:
            self.edit(value.items[0], spot)
        else:
            self.edit(value, spot)

    def _scalar(self, node: _Node, spot: Spot) -> None:
        for one in spot.scalars:
            if not one.steps and one.is_at(self._literal(node)):
                self._put(node.start, node.end, one.marker, spot)
                return

    def _literal(self, node: _Node) -> object:
        return json.loads(self._text[node.start : node.end])

    def _put(self, start: int, end: int, new: object, spot: Spot) -> None:
        is_escaped = self._text[start:end].isascii()
        self.edits.append((start, end, json.dumps(new, ensure_ascii=is_escaped)))
        self._changed.steps.append(spot.steps)
