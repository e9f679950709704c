"""Finds the pickles in the rows of an archive, in all layouts. Nothing is unpickled.

A pickle runs code in the process that loads it. A value is a pickle if its type tag says so, or if
its bytes are one, since a serializer of an application may unpickle whatever the tag says. The tag
of an encrypted value names its type (`pickle+aes`). Rows keep type tags here:

    columns         `type` and `metadata_type`; values are in the columns of LangGraph's savers, and
                    in all columns of bytes except hashes of keys
    Redis hashes    `.type` and `.metadata_type`, fields of the hash
    RedisJSON       `type` of the document and of its `checkpoint`
    Redis strings   `t` of a JSON object, with the bytes in base64 as `d`; or `type` of an object,
                    or of each object of a list, with the bytes in base64 as another field
    BSON            `type` of the document; in arrays, the text before the bytes; a field
                    `checkpoint_data` has no tag and is always a pickle

Items of long-term memory are JSON or BSON without type tags.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path
from pickletools import genops
from typing import Any

from ckpt_backends.changes.rows import Cell, Row
from ckpt_backends.codec.bson.documents import binaries, texts
from ckpt_backends.errors import Unreadable

_VALUES = frozenset({"checkpoint", "metadata", "value", "blob", "blob_data"})
"""Columns, and fields of Redis hashes, that hold serialised values."""
_ALWAYS_PICKLED = "checkpoint_data"
_NO_VALUES = ("_hash", "type")
"""Ends of the names of columns with bytes that are no values."""
_DOCUMENT, _STRING = "ReJSON-RL", "string"
_KNOWN = frozenset(
    {"", "msgpack", "json", "null", "empty", "bytes", "bytearray"}
    | {_STRING, "hash", "zset", "list", _DOCUMENT}
)
"""Tags of LangGraph's serializer, and types of Redis keys: values that nothing unpickles, though
they may look like pickles of protocol 0 or 1."""
_PROTOCOL = b"\x80"
"""Begins a pickle of protocol 2 or later. In msgpack it is an empty map, which has one byte."""
_IMPORTS = frozenset({"GLOBAL", "STACK_GLOBAL", "INST", "EXT1", "EXT2", "EXT4"})
"""Instructions that import something. A pickle without them can call nothing."""
_MOST_OPCODES = 10_000
_MOST_SHOWN, _LONGEST = 3, 80
_PLACES = {"checkpoint": "checkpoint_id", "channel": "channel", "key": "key"}


class Pickles:
    """Counts the pickles among the rows of an archive."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.count = 0
        self._first: list[str] = []

    def seen(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows, while their pickles are counted.

        Raises `Unreadable` if a row cannot be checked.
        """
        for row in rows:
            self._look(row)
            yield row

    def _look(self, row: Row) -> None:
        try:
            names = dict.fromkeys(_pickles(row))
        except ValueError as error:
            table = _short(row.table)
            raise Unreadable(
                f"cannot read the archive '{self._path}': a row of '{table}' is {error}",
                hint="nothing was restored; use another copy of the file",
            ) from error
        for name in names:
            self.count += 1
            if len(self._first) < _MOST_SHOWN:
                self._first.append(_place(row, name))

    def places(self) -> str:
        """Where the first ones are, and the number of the others."""
        more = self.count - len(self._first)
        return "; ".join([*self._first, *([f"{more} more"] if more else [])])


def is_pickle(tag: str, data: bytes) -> bool:
    """Whether a value is a pickle, by its type tag or its bytes."""
    if "pickle" in tag.lower():
        return True
    has_protocol = data.startswith(_PROTOCOL)
    if "+" in tag or (tag in _KNOWN and not has_protocol):
        return False
    read = 0
    # For bytes that are not a pickle, `pickletools` raises errors of many kinds.
    with suppress(Exception):
        for opcode, _, _ in islice(genops(data), _MOST_OPCODES):
            if opcode.name in _IMPORTS:
                return True
            read += 1
        return has_protocol or read == _MOST_OPCODES
    return False


def _pickles(row: Row) -> Iterator[str]:
    """The names of the cells or fields of a row that hold pickles.

    Raises ValueError if the row cannot be checked.
    """
    cells = row.cells
    if isinstance(document := cells.get("bson"), bytes):
        yield from _in_bson(document)
    is_sql = "key" not in cells and "bson" not in cells
    for name, cell in cells.items():
        dot, plain = "." * name.startswith("."), name.removeprefix(".")
        is_bytes = is_sql and isinstance(cell, bytes) and not name.endswith(_NO_VALUES)
        if plain in _VALUES or is_bytes:
            tag = f"{dot}metadata_type" if plain == "metadata" else f"{dot}type"
            data = cell if isinstance(cell, bytes) else b""
            if is_pickle(_text(cells.get(tag)), data):
                yield plain
    if "key" in cells and "type" in cells:
        yield from _in_redis(cells)


def _in_bson(document: bytes) -> Iterator[str]:
    try:
        for name, tag, data in binaries(document):
            if name == _ALWAYS_PICKLED or is_pickle(tag, data):
                yield name
    except (ValueError, IndexError) as error:
        raise ValueError("not a MongoDB document") from error


def _in_redis(cells: Mapping[str, Cell]) -> Iterator[str]:
    for name, cell in cells.items():
        if not isinstance(cell, str | bytes) or not (name == "value" or name.startswith(".")):
            continue
        try:
            # Numbers are kept as text: Python limits their length, and Redis does not.
            found = json.loads(cell, object_pairs_hook=_Pairs, parse_int=str, parse_float=str)
        except (ValueError, RecursionError) as error:
            if cells["type"] == _DOCUMENT:
                raise ValueError("not a JSON document") from error
            continue
        if cells["type"] == _STRING and any(map(_has_pickle, _objects(found))):
            yield name.removeprefix(".")
        if not isinstance(found, _Pairs):
            continue
        if name == "value":
            bodies = [one for one in found.all("checkpoint") if isinstance(one, _Pairs)]
            tags = [tag for one in (found, *bodies) for tag in one.all("type")]
            if any(is_pickle(_text(tag), b"") for tag in tags):
                yield name
        for tag in found.all("t"):
            if any(is_pickle(_text(tag), _decoded(data)) for data in found.all("d")):
                yield name.removeprefix(".")


def _objects(found: object) -> list[_Pairs]:
    """An object of JSON, or those of a list."""
    if isinstance(found, _Pairs):
        return [found]
    return [one for one in found if isinstance(one, _Pairs)] if isinstance(found, list) else []


def _has_pickle(found: _Pairs) -> bool:
    """Whether an object has a type and a field with the base64 of a pickle."""
    values = [_decoded(data) for name, data in found if name in _VALUES]
    return any(is_pickle(_text(tag), data) for tag in found.all("type") for data in values)


class _Pairs(list[tuple[str, Any]]):
    """A JSON object, with all values of a name that is given twice."""

    def all(self, name: str) -> list[Any]:
        return [value for key, value in self if key == name]


def _decoded(data: object) -> bytes:
    with suppress(ValueError):
        return b64decode(data) if isinstance(data, str) else b""
    return b""


def _text(found: object) -> str:
    if isinstance(found, bytes):
        return found.decode("utf-8", "replace")
    return found if isinstance(found, str) else ""


def _place(row: Row, name: str) -> str:
    """Where a value is, for a person."""
    document = row.cells.get("bson")
    cells = texts(document) if isinstance(document, bytes) else row.cells
    parts = [_short(row.table)]
    for what, column in _PLACES.items():
        if column in cells:
            parts.append(f"{what} '{_short(_text(cells[column]))}'")
    if "channel" not in cells:
        parts.append(_short(name))
    return ", ".join(parts)


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
