"""Find the names in msgpack: the ext types of LangGraph's serializer.

Source: `_create_msgpack_ext_hook` in `langgraph/checkpoint/serde/jsonplus.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ormsgpack import OPT_NON_STR_KEYS, unpackb

from ckpt_backends.codec.limits import WHOLE_LIMITS
from ckpt_backends.codec.msgpack.cursor import (
    ARRAY,
    MAP,
    READ_EXT,
    STR,
    Cursor,
    depth_bound,
    read_header,
    skip,
)
from ckpt_backends.codec.values import CHANNELS
from ckpt_cli.core.doctor.named_types import (
    KNOWN,
    NONE,
    NamedIn,
    Names,
    TypeName,
    check_length,
)

_METHOD, _NUMPY, _SNAPSHOT = 3, 6, 7
_EXT = re.compile(
    rb"[\xd4-\xd8][\x00-\x07]|\xc7.[\x00-\x07]|\xc8..[\x00-\x07]|\xc9....[\x00-\x07]", re.DOTALL
)
"""Matches the header of each ext type that is read, and now and then other bytes."""
_NOT_EXT = bytes({*range(256)} - {0xC7, 0xC8, 0xC9, *range(0xD4, 0xD9)})
_ARRAY_NAME = frozenset({TypeName("numpy", "ndarray", NamedIn.ARRAY)})
_COMPUTED = frozenset({TypeName("", "", NamedIn.MSGPACK)})
_RESULT = object()
"""Stands for what a saver gets from an inner ext type."""


def names_nothing(data: bytes) -> bool:
    """Return whether msgpack certainly names nothing, because it has no ext type."""
    # `translate` is ten times faster than the pattern, and most texts have none of these bytes.
    return not data.translate(None, _NOT_EXT) or _EXT.search(data) is None


def msgpack_names(data: bytes) -> Names:
    """Return what a value names. Raises `PastLimit`, and ValueError if it is not msgpack.

    A saver decodes damaged msgpack up to the damage, so what is named before it counts.
    """
    if names_nothing(data):
        return NONE
    check_length(data)
    if len(data) > WHOLE_LIMITS.nodes:
        skip(data, 0, WHOLE_LIMITS)
    reader = _ExtNames()
    try:
        unpackb(data, ext_hook=reader.on_ext, option=OPT_NON_STR_KEYS)
    except ValueError:
        if not reader.names:
            raise
    return frozenset(reader.names)


def body_parts(data: bytes) -> Iterator[tuple[str | None, bytes]]:
    """Yield the value of each channel in a checkpoint body, and all other entries as None.

    Raises ValueError if the body is not a map or is cut off.
    """
    cursor = Cursor(data)
    for _ in range(cursor.enter(MAP, "a checkpoint has to be a map")):
        if cursor.text("surrogateescape") != CHANNELS or cursor.kind() != MAP:
            yield None, cursor.take()
            continue
        for _ in range(cursor.enter(MAP)):
            channel = cursor.text("surrogateescape")
            yield channel, cursor.take()


class _ExtNames:
    """Gathers what the ext types of one value name."""

    def __init__(self, *, inside: bool = False) -> None:
        self.names: set[TypeName] = set()
        self._inside = inside

    def on_ext(self, code: int, data: bytes) -> object:
        if code in READ_EXT:
            found = KNOWN.get(code, data)
            if found is None:
                found = self._read(code, data)
                KNOWN.put(code, data, found)
            self.names |= found
        return _RESULT

    def _read(self, code: int, data: bytes) -> Names:
        names_more = not names_nothing(data)
        if code == _NUMPY and not names_more:
            return _ARRAY_NAME
        # Most ext types are flat: their name stands at the start, and nothing else is named.
        if code not in (_METHOD, _SNAPSHOT) and not names_more and (named := _first_two(data)):
            return frozenset({TypeName(*named, NamedIn.MSGPACK)})
        if not self._inside and depth_bound(data) > WHOLE_LIMITS.depth:
            skip(data, 0, WHOLE_LIMITS)  # deep nesting could overflow the stack
        inner = _ExtNames(inside=True)
        try:
            parts = unpackb(data, ext_hook=inner.on_ext, option=OPT_NON_STR_KEYS)
        except ValueError:
            return frozenset(inner.names)
        return frozenset(inner.names) | _named(code, parts)


def _named(code: int, parts: Any) -> Names:
    """Return what an ext type with this payload names. Savers take its parts by their index."""
    if code == _SNAPSHOT:
        return NONE
    if code == _NUMPY:
        return _ARRAY_NAME
    if parts is _RESULT:
        return _COMPUTED
    try:
        module, name = parts[0], parts[1]
        method = parts[3] if code == _METHOD else ""
    except (LookupError, TypeError):
        return NONE
    if _RESULT in (module, name, method):
        return _COMPUTED
    if not (module and all(isinstance(one, str) for one in (module, name, method))):
        return NONE
    form = NamedIn.METHOD if code == _METHOD else NamedIn.MSGPACK
    return frozenset({TypeName(module, name, form, method)})


def _first_two(data: bytes) -> tuple[str, str] | None:
    """Return the first two items of a list if they are texts."""
    try:
        kind, pos, count = read_header(data, 0)
        if kind != ARRAY or count < 3:
            return None
        texts = []
        for _ in range(2):
            kind, pos, length = read_header(data, pos)
            if kind != STR or pos + length > len(data):
                return None
            texts.append(data[pos : pos + length].decode())
            pos += length
    except (IndexError, UnicodeDecodeError):
        return None
    module, name = texts
    return (module, name) if module else None
