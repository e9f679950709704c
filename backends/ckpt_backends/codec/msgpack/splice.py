"""Changes some entries of a stored map without changing any other byte.

A checkpoint body may contain types that ckpt does not know, so it is not decoded and encoded
again. Instead, the bytes of changed entries are replaced.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

from ckpt_backends.codec.bson import documents
from ckpt_backends.codec.json import json_plus
from ckpt_backends.codec.msgpack import scan
from ckpt_backends.codec.msgpack.lossless import encode_lossless
from ckpt_backends.codec.pickle.set_keys import overlay
from ckpt_backends.codec.values import JSON_TYPES
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import TypedBytes

_SPACE = re.compile(r"[ \t\r\n]*")
_DOCUMENT = 0x03
"""BSON's kind of a document."""


@dataclass(frozen=True, slots=True)
class Put:
    """A plain value to store under a key, new or not."""

    value: Any


Edit: TypeAlias = "Put | Callable[[bytes], bytes] | Mapping[str, Edit] | None"
"""The change of one entry: a new value, a function from the stored bytes to the new bytes, edits
inside the entry's map, or None to remove the entry."""


def splice(typed: TypedBytes, edits: Mapping[str, Edit]) -> TypedBytes:
    """The map with some entries changed, added at its end, or removed.

    In a pickle, entries can only be set (`Put`). Raises `Unsupported` if the value is not a map, or
    if its type is not `msgpack`, JSON, `bson` or `pickle`.
    """
    try:
        if typed.type == "bson":
            return TypedBytes("bson", _bson_map(typed.data, edits))
        if typed.type == "pickle":
            return TypedBytes("pickle", _pickled_map(typed.data, edits))
        if typed.type == "msgpack":
            data, end = _msgpack_map(typed.data, 0, edits)
            whole = end == len(typed.data)
        elif typed.type in JSON_TYPES:
            text = typed.data.decode("utf-8", "surrogatepass")
            start = 1 if text.startswith("\ufeff") else 0
            changed, end = _json_map(text, _skip(text, start), edits)
            data = changed.encode("utf-8", "surrogatepass")
            whole = _skip(text, end) == len(text)
        else:
            raise Unsupported(f"cannot change a value of type '{typed.type}'")
    except (ValueError, IndexError, TypeError, OverflowError) as error:
        raise Unsupported(f"cannot change a {typed.type} value: {error}") from error
    if not whole:
        raise Unsupported(f"cannot change a {typed.type} value: something follows it")
    return TypedBytes(typed.type, data)


def _bson_map(data: bytes, edits: Mapping[str, Edit]) -> bytes:
    """The changed document. New leaves get the same form as the existing ones."""
    tags = documents.leaf_tags(data)
    made: dict[str, bytes | None] = {}
    for name, edit in edits.items():
        if edit is not None and not isinstance(edit, Put):
            raise ValueError("its entries are replaced as a whole")
        made[name] = None if edit is None else _bson_leaf(tags, edit.value)
    return documents.splice_bson(data, made)


def _pickled_map(data: bytes, edits: Mapping[str, Edit]) -> bytes:
    items: dict[str, object] = {}
    for name, edit in edits.items():
        if not isinstance(edit, Put):
            raise ValueError("only whole entries of a pickle can be replaced")
        items[name] = edit.value
    return overlay(data, items)


def _bson_leaf(tags: frozenset[str], value: object) -> bytes:
    if isinstance(value, dict):
        inner = {str(name): _bson_leaf(tags, item) for name, item in value.items()}
        return bytes([_DOCUMENT]) + documents.document_of(inner)
    if "msgpack" in tags:
        return documents.typed(TypedBytes("msgpack", encode_lossless("msgpack", value)))
    if "json" in tags:
        return documents.binary(encode_lossless("json", value))
    if tags <= {""}:
        return documents.plain(value)
    raise ValueError(f"its leaves are of type {', '.join(sorted(tags))}")


def _msgpack_map(data: bytes, pos: int, edits: Mapping[str, Edit]) -> tuple[bytes, int]:
    """The changed map at `pos`, and the end of the stored map."""
    kind, at, pairs = scan.head(data, pos)
    if kind != scan.MAP:
        raise ValueError("not a map")
    header, kept, found = data[pos:at], [], set()
    for _ in range(pairs):
        value_at = scan.scan(data, at).end
        end = scan.scan(data, value_at).end
        key = _msgpack_text(data, at)
        if key is None or key not in edits:
            kept.append(data[at:end])
        else:
            found.add(key)
            value = _msgpack_value(data, value_at, end, edits[key])
            if value is not None:
                kept.append(data[at:value_at] + value)
        at = end
    for key, edit in edits.items():
        if key not in found and (added := _added("msgpack", edit)) is not None:
            kept.append(encode_lossless("msgpack", key) + added)
    if len(kept) != pairs:
        header = _map_header(len(kept))
    return header + b"".join(kept), at


def _msgpack_value(data: bytes, pos: int, end: int, edit: Edit) -> bytes | None:
    if isinstance(edit, Mapping):
        return _msgpack_map(data, pos, edit)[0]
    return _changed("msgpack", data[pos:end], edit)


def _msgpack_text(data: bytes, pos: int) -> str | None:
    kind, start, length = scan.head(data, pos)
    return data[start : start + length].decode(errors="replace") if kind == scan.STR else None


def _map_header(pairs: int) -> bytes:
    if pairs < 16:
        return bytes([0x80 | pairs])
    if pairs < 1 << 16:
        return b"\xde" + pairs.to_bytes(2, "big")
    return b"\xdf" + pairs.to_bytes(4, "big")


def _json_map(text: str, pos: int, edits: Mapping[str, Edit]) -> tuple[str, int]:
    """The changed object at `pos`, and the end of the stored object."""
    if text[pos : pos + 1] != "{":
        raise ValueError("not an object")
    first = at = ended = _skip(text, pos + 1)
    kept: list[tuple[str, str]] = []  # (text before a member, the member)
    found: set[str] = set()
    before, comma, colon = "", ", ", ": "
    while text[at : at + 1] != "}":
        key, after = json_plus.DECODER.raw_decode(text, at)
        at_colon = _skip(text, after)
        if not isinstance(key, str) or text[at_colon : at_colon + 1] != ":":
            raise ValueError(f"no key and colon at character {at}")
        value_at = _skip(text, at_colon + 1)
        colon = text[after:value_at]
        ended = json_plus.measure(text, value_at).end
        value: str | None = text[value_at:ended]
        if key in edits:
            found.add(key)
            value = _json_value(text, value_at, ended, edits[key])
        if value is not None:
            kept.append((before, text[at:value_at] + value))
        here = _skip(text, ended)
        if text[here : here + 1] == ",":
            at = _skip(text, here + 1)
            before = comma = text[ended:at]
        elif text[here : here + 1] == "}":
            at = here
        else:
            raise ValueError(f"neither comma nor end at character {here}")
    if len(kept) < 2 and not colon.endswith(" "):
        comma = ","
    for key, edit in edits.items():
        if key not in found and (added := _added("json", edit)) is not None:
            kept.append((comma, json.dumps(key, ensure_ascii=False) + colon + added.decode()))
    members = "".join((gap if number else "") + one for number, (gap, one) in enumerate(kept))
    return f"{text[pos:first]}{members}{text[ended:at]}}}", at + 1


def _json_value(text: str, pos: int, end: int, edit: Edit) -> str | None:
    if isinstance(edit, Mapping):
        return _json_map(text, pos, edit)[0]
    stored = text[pos:end].encode("utf-8", "surrogatepass")
    changed = _changed("json", stored, edit)
    return None if changed is None else changed.decode("utf-8", "surrogatepass")


def _changed(tag: str, stored: bytes, edit: Put | Callable[[bytes], bytes] | None) -> bytes | None:
    if edit is None:
        return None
    if isinstance(edit, Put):
        return encode_lossless(tag, edit.value)
    return edit(stored)


def _added(tag: str, edit: Edit) -> bytes | None:
    """The bytes of a new entry; None if the edit adds nothing."""
    if isinstance(edit, Mapping):
        new = {key: part.value for key, part in edit.items() if isinstance(part, Put)}
        return encode_lossless(tag, new) if new else None
    return _changed(tag, b"", edit) if isinstance(edit, Put) else None


def _skip(text: str, pos: int) -> int:
    match = _SPACE.match(text, pos)
    return match.end() if match else pos
