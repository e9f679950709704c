"""Changes, splits and joins stored maps and lists without changing the bytes of other entries."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from ckpt_backends.codec import bson as documents
from ckpt_backends.codec import decode
from ckpt_backends.codec.cursor import ARRAY, MAP, STR, Cursor, write_header
from ckpt_backends.codec.json import items, members, skip_space
from ckpt_backends.codec.lossless import encode_lossless, pack_lossless
from ckpt_backends.codec.pickle import Dict, Machine, Node
from ckpt_backends.codec.values import (
    DEFAULT_LIMITS,
    JSON_TYPES,
    Cut,
    Opaque,
    PastLimit,
    Tagged,
    Value,
)
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import TypedBytes


@dataclass(frozen=True, slots=True)
class Put:
    """A plain value to store under a key, new or not."""

    value: Any


@dataclass(frozen=True, slots=True)
class Take:
    """The bytes of another entry of the same map, to store under a key that the map has not."""

    key: str


Edit: TypeAlias = "Put | Take | Callable[[bytes], bytes] | Mapping[str, Edit] | None"
"""The change of one entry: a new value, that of another entry, a function from the stored bytes to
the new bytes, edits inside the entry's map, or None to remove the entry."""


def changed_value(
    tag: str, stored: bytes, edit: Put | Take | Callable[[bytes], bytes] | None
) -> bytes | None:
    """The new bytes of an entry that is stored as `stored`; None if the edit removes it."""
    if edit is None:
        return None
    if isinstance(edit, Take):
        raise ValueError("it has the key under which another entry is to be stored")
    if isinstance(edit, Put):
        return encode_lossless(tag, edit.value)
    return edit(stored)


def _taken(edits: Mapping[str, Edit]) -> frozenset[str]:
    """The keys of the entries that get other keys."""
    return frozenset(one.key for one in edits.values() if isinstance(one, Take))


def added_value(tag: str, edit: Edit, taken: Mapping[str, bytes]) -> bytes | None:
    """The bytes of a new entry; None if the edit adds nothing.

    `taken` are those of other entries.
    """
    if isinstance(edit, Take):
        if edit.key not in taken:
            raise ValueError("it lacks the entry that is to have another key")
        return taken[edit.key]
    if isinstance(edit, Mapping):
        new = {key: part.value for key, part in edit.items() if isinstance(part, Put)}
        return encode_lossless(tag, new) if new else None
    return changed_value(tag, b"", edit) if isinstance(edit, Put) else None


# Changes some entries of a JSON object without changing the spelling of the others.


def set_json_keys(data: bytes, edits: Mapping[str, Edit]) -> bytes:
    """The changed text. Raises ValueError if it is not an object, or if something follows it."""
    text = data.decode("utf-8", "surrogatepass")
    changed, end = _set_json_keys(text, skip_space(text, text.startswith("\ufeff")), edits)
    made = changed.encode("utf-8", "surrogatepass")
    if skip_space(text, end) != len(text):
        raise ValueError("something follows it")
    return made


def _comma(data: bytes) -> bytes:
    """The comma between the items of a list, with its spaces."""
    text = data.decode("utf-8", "surrogatepass")
    found, _ = items(text, skip_space(text, 0))
    if len(found) > 1:
        return text[found[-2][1] : found[-1][0]].encode()
    return b", " if ", " in text else b","


def _set_json_keys(text: str, pos: int, edits: Mapping[str, Edit]) -> tuple[str, int]:
    """The changed object at `pos`, and the end of the stored object."""
    found, end = members(text, pos)
    kept: list[tuple[str, str]] = []  # (text before a member, the member)
    comma, colon = ", ", ": "
    last = None
    for one in found:
        if last is not None:
            comma = text[last.end : one.start]
        colon = text[one.key_end : one.value]
        value: str | None = text[one.value : one.end]
        if one.key in edits:
            value = _changed(text, one.value, one.end, edits[one.key])
        if value is not None:
            kept.append((comma, text[one.start : one.value] + value))
        last = one
    if len(kept) < 2 and not colon.endswith(" "):
        comma = ","
    there, taken = {one.key for one in found}, _taken(edits)
    entries = {
        one.key: text[one.value : one.end].encode("utf-8", "surrogatepass")
        for one in found
        if one.key in taken
    }
    for key in [one for one in edits if one not in there]:
        if (added := added_value("json", edits[key], entries)) is not None:
            name = json.dumps(key, ensure_ascii=False)
            kept.append((comma, name + colon + added.decode("utf-8", "surrogatepass")))
    inner = "".join((gap if number else "") + one for number, (gap, one) in enumerate(kept))
    first, ended = (found[0].start, found[-1].end) if found else (end - 1, end - 1)
    return f"{text[pos:first]}{inner}{text[ended:end]}", end


def _changed(text: str, pos: int, end: int, edit: Edit) -> str | None:
    if isinstance(edit, Mapping):
        return _set_json_keys(text, pos, edit)[0]
    stored = text[pos:end].encode("utf-8", "surrogatepass")
    changed = changed_value("json", stored, edit)
    return None if changed is None else changed.decode("utf-8", "surrogatepass")


# Changes some entries of a msgpack map without changing any other byte.


def set_msgpack_keys(data: bytes, edits: Mapping[str, Edit]) -> bytes:
    """The changed map. Raises ValueError if it is not a map, or if something follows it."""
    cursor = Cursor(data)
    changed = _set_msgpack_keys(cursor, edits)
    if cursor.pos != len(data):
        raise ValueError("something follows it")
    return changed


def _set_msgpack_keys(cursor: Cursor, edits: Mapping[str, Edit]) -> bytes:
    """The changed map at the cursor, which moves behind the stored map."""
    data, map_at = cursor.data, cursor.pos
    pairs = cursor.enter(MAP)
    header, kept, found = data[map_at : cursor.pos], [], set()
    entries, taken = dict[str, bytes](), _taken(edits)
    for _ in range(pairs):
        key_at = cursor.pos
        key = cursor.text("replace") if cursor.kind() == STR else cursor.skip()
        value_at = cursor.pos
        end = cursor.skip().end
        if key in taken:
            entries[str(key)] = data[value_at:end]
        if not isinstance(key, str) or key not in edits:
            kept.append(data[key_at:end])
            continue
        found.add(key)
        edit = edits[key]
        if isinstance(edit, Mapping):
            value: bytes | None = _set_msgpack_keys(Cursor(data, value_at), edit)
        else:
            value = changed_value("msgpack", data[value_at:end], edit)
        if value is not None:
            kept.append(data[key_at:value_at] + value)
    for name, edit in edits.items():
        if name not in found and (added := added_value("msgpack", edit, entries)) is not None:
            kept.append(encode_lossless("msgpack", name) + added)
    if len(kept) != pairs:
        header = write_header(MAP, len(kept))
    return header + b"".join(kept)


# Replaces entries of a BSON document. New leaves get the same form as the existing ones.


_DOCUMENT = 0x03
"""BSON's kind of a document."""


def set_bson_keys(data: bytes, edits: Mapping[str, Edit]) -> bytes:
    """The changed document. Raises ValueError if an entry is not replaced as a whole."""
    tags = documents.leaf_tags(data)
    made: dict[str, bytes | None] = {}
    for name, edit in edits.items():
        if edit is not None and not isinstance(edit, Put):
            raise ValueError("its entries are replaced as a whole")
        made[name] = None if edit is None else _bson_leaf(tags, edit.value)
    return documents.splice_bson(data, made)


def _bson_leaf(tags: frozenset[str], value: object) -> bytes:
    if isinstance(value, dict):
        inner = {str(name): _bson_leaf(tags, item) for name, item in value.items()}
        return bytes([_DOCUMENT]) + documents.document_of(inner)
    if not tags.isdisjoint({"msgpack", "json"}):
        return documents.typed(TypedBytes("msgpack", encode_lossless("msgpack", value)))
    if documents.JSON_TEXT in tags:
        return documents.binary(encode_lossless("json", value))
    if tags <= {""}:
        return documents.plain(value)
    raise ValueError(f"its leaves are of type {', '.join(sorted(tags))}")


# Edits and splits pickles by appending opcodes: no stored byte changes but STOP.
#
# A pickle ends with its value on the stack and the opcode STOP. STOP is replaced by POP, the
# opcodes of the new value, and STOP: of a dict with other keys, or of one entry. What it keeps of
# the old value is fetched from the memo by GET. POP has the same length as STOP, so the length of
# the last frame stays correct. Stored objects and their classes stay as they are, and none is
# built here. The bytes of a removed entry stay in the pickle.


_POP, _GET, _STOP = b"0", b"j", b"."
_OPCODES = 16 * DEFAULT_LIMITS.nodes


def set_pickle_keys(data: bytes, edits: Mapping[str, Edit]) -> bytes:
    """The pickle with these keys set or removed. Raises ValueError if it is no dict of text keys.

    An edit may be a `Put`, None, or edits inside a dict, but no function of the stored bytes.
    """
    machine = _run(data)
    before = _dict_items(machine.root)
    if not any(key in before or edit for key, edit in edits.items()):
        return data
    return _ending(data, _edited(_fetcher(machine), before, edits))


def split_pickle(data: bytes) -> dict[str | int, bytes]:
    """The entries by key or index. Raises ValueError if it is neither a dict nor a list.

    Each entry is a copy of the whole pickle with a new end.
    """
    machine = _run(data)
    root, fetch = machine.root, _fetcher(machine)
    if not isinstance(root, Dict | list | tuple):
        raise ValueError("neither a map nor a list")
    return {
        name: _ending(data, fetch(node))
        for name, node in (root.pairs if isinstance(root, Dict) else enumerate(root))
        if isinstance(name, str | int)
    }


def _run(data: bytes) -> Machine:
    machine = Machine(_OPCODES)
    try:
        machine.run(data)
    except PastLimit as error:
        raise ValueError(f"not a pickle: {error}") from error
    return machine


def _dict_items(node: Node) -> dict[str, Node]:
    if not isinstance(node, Dict) or not all(isinstance(key, str) for key, _ in node.pairs):
        raise ValueError("a checkpoint has to be a map")
    return dict(node.pairs)


def _ending(data: bytes, opcodes: bytes) -> bytes:
    """The pickle with another value, which these opcodes push."""
    return data[: -len(_STOP)] + _POP + opcodes + _STOP


def _edited(
    fetch: Callable[[Node], bytes], items: Mapping[str, Node], edits: Mapping[str, Edit]
) -> bytes:
    """The opcodes that push a dict with these items, of which some are edited."""
    entries = []
    for key in {**items, **edits}:
        match edits[key] if key in edits else fetch(items[key]):
            case bytes(opcodes):
                entries.append(plain(key) + opcodes)
            case Put(value=value):
                entries.append(plain(key) + plain(value))
            case Take(key=other) if other in items and key not in items:
                entries.append(plain(key) + fetch(items[other]))
            case Mapping() as inside if key in items or any(inside.values()):
                stored = _dict_items(items.get(key, Dict()))
                entries.append(plain(key) + _edited(fetch, stored, inside))
            case Mapping() | None:
                pass
            case _:
                raise ValueError("an entry of a pickle can only be replaced as a whole")
    return b"}(" + b"".join(entries) + b"u"


def _fetcher(machine: Machine) -> Callable[[Node], bytes]:
    """A function that returns the opcodes which push a node of a pickle that was run."""
    places = machine.places()

    def fetch(node: Node) -> bytes:
        place = places.get(id(node))
        if place is not None:
            return _GET + place.to_bytes(4, "little")
        match node:
            case bytes():
                return b"B" + len(node).to_bytes(4, "little") + node
            case Dict(pairs=pairs):
                return b"}(" + b"".join(fetch(key) + fetch(one) for key, one in pairs) + b"u"
            case list():
                return b"](" + b"".join(map(fetch, node)) + b"e"
            case _:
                return plain(node)

    return fetch


def plain(value: object) -> bytes:
    """The opcodes that push a plain value. They are of protocol 1, which all later ones support.

    Raises ValueError for other types of values.
    """
    match value:
        case None:
            return b"N"
        case bool():
            return b"I01\n" if value else b"I00\n"
        case int() if -(1 << 31) <= value < 1 << 31:
            return b"J" + struct.pack("<i", value)
        case int() if -(1 << 63) <= value < 1 << 63:
            return b"L%dL\n" % value
        case float():
            return b"G" + struct.pack(">d", value)
        case str():
            text = value.encode("utf-8", "surrogatepass")
            return b"X" + struct.pack("<I", len(text)) + text
        case ():
            return b")"
        case list():
            return b"](" + b"".join(map(plain, value)) + b"e"
        case dict():
            items = (plain(key) + plain(item) for key, item in value.items())
            return b"}(" + b"".join(items) + b"u"
    raise ValueError(f"cannot store a {type(value).__name__}")


# Changes some entries of a stored map without changing any other byte.
#
# A checkpoint body may contain types that ckpt does not know, so it is not decoded and encoded
# again. Instead, the bytes of changed entries are replaced.


_SET_KEYS = {
    "bson": set_bson_keys,
    "msgpack": set_msgpack_keys,
    "pickle": set_pickle_keys,
    **dict.fromkeys(JSON_TYPES, set_json_keys),
}


def set_keys(typed: TypedBytes, edits: Mapping[str, Edit]) -> TypedBytes:
    """The map with some entries changed, added at its end, or removed.

    Keeps `encrypted` and `part`. A pickle keeps the bytes of entries that are removed. Raises
    `Unsupported` if it is not a map, or if its type is not `msgpack`, JSON, `bson` or `pickle`.
    """
    if typed.type not in _SET_KEYS:
        raise Unsupported(f"cannot change a value of type '{typed.type}'")
    try:
        data = _SET_KEYS[typed.type](typed.data, edits)
        return TypedBytes(typed.type, data, encrypted=typed.encrypted, part=typed.part)
    except (ValueError, IndexError, TypeError, OverflowError, RecursionError) as error:
        raise Unsupported(f"cannot change a {typed.type} value: {error}") from error


def append_item(stored: TypedBytes, item: bytes) -> TypedBytes:
    """The stored list with one more item; those that it has keep their bytes.

    Raises `Unsupported` if the value is not a list, or is stored with an unknown type.
    """
    return list_of([*stored_items(stored), TypedBytes(stored.type, item)], stored)


def stored_items(stored: TypedBytes) -> list[TypedBytes]:
    """The items of a stored list, as stored.

    Raises `Unsupported` if the value is not a list, or is stored with an unknown type.
    """
    if stored.type not in ("msgpack", *JSON_TYPES):
        raise Unsupported(f"cannot take apart a value of type '{stored.type}'")
    try:
        found = _entries(stored)
        if not isinstance(found, list):
            raise ValueError("not a list")
    except (ValueError, IndexError) as error:
        raise Unsupported(f"cannot take a {stored.type} list apart: {error}") from error
    return [TypedBytes(stored.type, one) for one in found]


def list_of(items: Sequence[TypedBytes], like: TypedBytes) -> TypedBytes:
    """A list of stored items, which keep their bytes, in the form of another list.

    Raises `Unsupported` if an item has another type.
    """
    if any(one.type != like.type for one in items):
        raise Unsupported("cannot store values of several types in one list")
    data = [one.data for one in items]
    if like.type == "msgpack":
        return TypedBytes(like.type, array_of(data))
    return TypedBytes(like.type, b"[" + _comma(like.data).join(data) + b"]")


# Splits a stored map or list into its entries, each as a separate stored value.
#
# Used for layouts that store a checkpoint together with its metadata, or a write with its channel.


Parts: TypeAlias = "Mapping[str | int, TypedBytes]"
"""By the key of a map, or by the index in a list."""


def split(typed: TypedBytes) -> Parts:
    """The parts of a map or list. Raises ValueError for other values and unknown types."""
    try:
        found = split_pickle(typed.data) if typed.type == "pickle" else _entries(typed)
    except (IndexError, KeyError, TypeError, PastLimit, RecursionError) as error:
        raise ValueError(f"cut off or invalid: {error}") from error
    named = enumerate(found) if isinstance(found, list) else found.items()
    return {name: TypedBytes(typed.type, data) for name, data in named}


def _entries(typed: TypedBytes) -> dict[str, bytes] | list[bytes]:
    """The bytes of the entries of a map, by key, or of the items of a list."""
    if typed.type == "msgpack":
        return _msgpack_entries(typed.data)
    if typed.type not in JSON_TYPES:
        raise ValueError(f"values of type '{typed.type}' cannot be split")
    text = typed.data.decode("utf-8", "surrogatepass")
    at = skip_space(text, 0)
    found: dict[str, bytes] | list[bytes]
    if text.startswith("[", at):
        spans, end = items(text, at)
        found = [text[slice(*one)].encode("utf-8", "surrogatepass") for one in spans]
    else:
        fields, end = members(text, at)
        found = {
            one.key: text[one.value : one.end].encode("utf-8", "surrogatepass") for one in fields
        }
    if skip_space(text, end) != len(text):
        raise ValueError("trailing data")
    return found


def _msgpack_entries(data: bytes) -> dict[str, bytes] | list[bytes]:
    cursor = Cursor(data)
    kind = cursor.kind()
    if kind not in (ARRAY, MAP):
        raise ValueError("neither a map nor a list")
    number = range(cursor.enter(kind))
    found: dict[str, bytes] | list[bytes] = (
        [cursor.take() for _ in number]
        if kind == ARRAY
        else {cursor.text("surrogatepass"): cursor.take() for _ in number}
    )
    if cursor.pos != len(data):
        raise ValueError("trailing data")
    return found


def array_of(items: Sequence[bytes]) -> bytes:
    """A list of these items in msgpack."""
    return write_header(ARRAY, len(items)) + b"".join(items)


def msgpack_map(entries: Mapping[str, bytes]) -> bytes:
    """The map with these entries, whose values are msgpack."""
    packed = (pack_lossless(name) + one for name, one in entries.items())
    return write_header(MAP, len(entries)) + b"".join(packed)


def as_msgpack(value: TypedBytes) -> bytes:
    """A plain value as a part of a msgpack value. Raises `Unsupported` if it cannot be one."""
    if not value.problem and not value.part:
        match value.type:
            case "msgpack":
                return value.data
            case "json":
                return pack_lossless(json.loads(value.data))
            case "bytes":
                return pack_lossless(value.data)
            case "null":
                return pack_lossless(None)
    raise Unsupported(f"cannot write a value of type '{value.type}' into a msgpack value")


# Builds new values from parts of stored values, without changing the bytes of any part.
#
# For example, a merged list is built from the items of older lists. Because the bytes of each item
# are copied, LangGraph reads it exactly as before, whatever class it has.


_SET_CODE, _MESSAGE_CODE = 0, 5
"""Ext codes of objects made from one argument, and of objects of Pydantic 2
(`EXT_CONSTRUCTOR_SINGLE_ARG` and `EXT_PYDANTIC_V2` of JsonPlus)."""
_MESSAGES = "langchain_core.messages."
"""Start of the names of LangChain's messages."""


class Unbuildable(ValueError):
    """A value cannot be built from stored parts; the message says why."""


class Reassembly:
    """Decodes stored values part by part, and remembers the bytes of each part."""

    def __init__(self) -> None:
        self._whole: dict[int, tuple[Value, TypedBytes]] = {}
        self._parts: dict[int, tuple[Value, str, Any]] = {}
        # Keep a reference to each value, or Python could reuse its id() for another object.

    def read(self, typed: TypedBytes) -> Value:
        """Decode a stored value, and remember the bytes of its parts. Raises `Unbuildable`."""
        if typed.encrypted:
            raise Unbuildable("it is made of encrypted values")
        value = self._split(typed)
        self._whole[id(value)] = (value, typed)
        return value

    def write(self, value: Value, tag: str) -> TypedBytes:
        """Encode a value made of parts that were read, as msgpack or JSON. Raises `Unbuildable`."""
        if id(value) in self._whole:
            return self._whole[id(value)][1]
        if tag == "msgpack":
            return TypedBytes(tag, self._msgpack(value))
        if tag in JSON_TYPES:
            text = json.dumps(self._json(value, tag), ensure_ascii=False)
            return TypedBytes(tag, text.encode("utf-8", "surrogatepass"))
        raise Unbuildable(f"a value of type '{tag}' is not put together here")

    def _split(self, typed: TypedBytes) -> Value:
        whole = decode(typed)
        if isinstance(whole, Opaque | Cut):
            raise Unbuildable("it is made of values that cannot be read")
        if typed.type == "msgpack" and isinstance(whole, list | dict):
            return self._split_msgpack(typed.data)
        if typed.type in JSON_TYPES and isinstance(whole, list | dict):
            raw = json.loads(typed.data)
            if isinstance(raw, list):
                return [self._json_part(typed.type, item) for item in raw]
            if isinstance(whole, dict) and isinstance(raw, dict):
                return {key: self._json_part(typed.type, item) for key, item in raw.items()}
        return whole

    def _split_msgpack(self, data: bytes) -> Value:
        cursor = Cursor(data)
        is_map = cursor.kind() == MAP
        count = cursor.enter(MAP if is_map else ARRAY)
        taken = (cursor.take() for _ in range(count * 2 if is_map else count))
        parts = [self._part("msgpack", data, data) for data in taken]
        return dict(zip(parts[::2], parts[1::2], strict=True)) if is_map else parts

    def _json_part(self, tag: str, raw: Any) -> Value:
        return self._part(tag, json.dumps(raw).encode(), raw)

    def _part(self, tag: str, data: bytes, raw: Any) -> Value:
        value = decode(TypedBytes(tag, data))
        self._parts[id(value)] = (value, tag, raw)
        return value

    def _msgpack(self, value: Value) -> bytes:
        from ormsgpack import Ext, packb

        known = self._parts.get(id(value))
        if known is not None and known[1] == "msgpack":
            return bytes(known[2])
        whole = self._whole.get(id(value))
        if whole is not None and whole[1].type == "msgpack":
            return whole[1].data
        match value:
            case list():
                return write_header(ARRAY, len(value)) + b"".join(map(self._msgpack, value))
            case dict():
                pairs = [part for pair in value.items() for part in pair]
                return write_header(MAP, len(value)) + b"".join(map(self._msgpack, pairs))
            case Tagged(type="builtins.set" | "builtins.frozenset", payload=list(members)):
                name = [packb(part) for part in value.type.split(".")]
                inner = b"\x93" + b"".join(name) + self._msgpack(members)
                return packb(Ext(_SET_CODE, inner))
            case Tagged(type=name, payload=dict(fields)) if name.startswith(_MESSAGES):
                module, _, kind = name.rpartition(".")
                parts = [packb(module), packb(kind), self._msgpack(fields)]
                inner = b"\x94" + b"".join(parts) + packb("model_validate_json")
                return packb(Ext(_MESSAGE_CODE, inner))
            case str() | int() | float() | bool() | bytes() | None:
                return packb(value)
        raise Unbuildable("parts of it are of a kind that is not written here")

    def _json(self, value: Value, tag: str) -> Any:
        known = self._parts.get(id(value))
        if known is not None and known[1] == tag:
            return known[2]
        whole = self._whole.get(id(value))
        if whole is not None and whole[1].type in JSON_TYPES:
            return json.loads(whole[1].data)
        match value:
            case list():
                return [self._json(item, tag) for item in value]
            case dict() if all(isinstance(key, str) for key in value):
                return {key: self._json(item, tag) for key, item in value.items()}
            case str() | int() | float() | bool() | None:
                return value
        raise Unbuildable("parts of it are of a kind that is not written here")
