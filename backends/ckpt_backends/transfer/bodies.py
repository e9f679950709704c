"""Takes the body of a checkpoint apart into its fields and its values, and joins them again.

LangGraph writes the fields in the order of `_ORDER` (`langgraph/checkpoint/base`, `Checkpoint`).
RedisSaver adds two fields, which follow from the others (`_dump_checkpoint` in its `base.py`): the
type of its serializer, which no reader needs, and an empty `pending_sends`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from ckpt_backends.codec import bson as documents
from ckpt_backends.codec import decode
from ckpt_backends.codec.cursor import MAP, Cursor, end_of, write_header
from ckpt_backends.codec.json import looks_marked
from ckpt_backends.codec.json_form import to_json
from ckpt_backends.codec.lossless import Ext, pack_lossless, unpack_lossless
from ckpt_backends.codec.values import (
    CHANNELS,
    JSON_TYPES,
    REDIS_JSON,
    Limits,
    PastLimit,
    Tagged,
    Value,
    inner_values,
)
from ckpt_backends.model import TypedBytes
from ckpt_backends.transfer.form import CannotHold, Form, NoEqualForm

# Spells JSON as engines that store it parsed do, so that it comes back as it was sent.
#
# PostgreSQL (`jsonb`) and MySQL sort the names of an object by their length and then by their
# bytes: https://www.postgresql.org/docs/current/datatype-json.html. What they spell in yet
# another way, such as `1e9`, is left as it is; then only a comparison of the contents tells that
# nothing has changed.


_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)


def spelled(value: Any) -> bytes:
    """The JSON text of a value. Raises TypeError, ValueError and RecursionError."""
    return _ENCODER.encode(in_order(value)).encode("utf-8", "surrogatepass")


def respelled(text: bytes) -> bytes:
    """A JSON text with its objects in order; as it is if it has special numbers or is invalid."""
    try:
        return spelled(_DECODER.decode(text.decode()))
    except (ValueError, RecursionError):
        return text


def in_order(value: Any) -> Any:
    """A value with the names of all objects in order."""
    if isinstance(value, dict):
        return {name: in_order(value[name]) for name in sorted(value, key=by_length)}
    return [in_order(one) for one in value] if isinstance(value, list) else value


@lru_cache(maxsize=4096)
def by_length(name: str) -> tuple[int, bytes]:
    """What names are sorted by."""
    data = name.encode("utf-8", "surrogatepass")
    return len(data), data


def _float(text: str) -> float:
    number = float(text)
    if repr(number) != text or "e" in text or text == "-0.0":
        raise ValueError("engines spell this number differently")
    return number


def _constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


_DECODER = json.JSONDecoder(parse_float=_float, parse_constant=_constant)


_ORDER = (
    *("v", "ts", "id", CHANNELS, "channel_versions", "versions_seen"),
    *("pending_sends", "updated_channels"),
)
_TYPE, _SENDS = "type", "pending_sends"
_MARK = os.urandom(16).hex()
"""In place of the values while the fields around them are written. No store can hold this text."""
_SPELLED_MARK, _PACKED_MARK = f'"{_MARK}"'.encode(), b"\xd9\x20" + _MARK.encode()


@dataclass(slots=True)
class OpenBody:
    """A body that was taken apart."""

    fields: dict[str, Any]
    """All entries but the channel values, as `decode_lossless` gives them."""
    values: dict[str, TypedBytes]
    """The values in the body, each as stored."""

    def version_of(self, channel: str) -> str | None:
        """The version of a channel as a text; None if it has none."""
        versions = self.fields.get("channel_versions")
        found = versions.get(channel) if isinstance(versions, dict) else None
        return None if found is None else version_text(found)

    @property
    def versions(self) -> Mapping[str, str]:
        """The version of each channel, as a text."""
        versions = self.fields.get("channel_versions")
        if not isinstance(versions, dict):
            return {}
        if {*map(type, versions.values())} == {str}:
            return versions
        return {name: version_text(one) for name, one in versions.items() if one is not None}


def version_text(version: object) -> str:
    """A version as savers use it in keys: LangGraph.js has numbers, and Python had some, too."""
    if isinstance(version, float) and version.is_integer():
        return str(int(version))
    return str(version)


def open_body(
    body: TypedBytes, where: str, like: Mapping[str, TypedBytes] = MappingProxyType({})
) -> OpenBody:
    """Take a body apart. Raises `CannotHold`, with `where` in the message.

    `like` has values of an earlier body by channel. Equal values of this body are the same objects,
    and are found without a look at each of their parts.
    """
    try:
        if body.type == "msgpack":
            return _open_msgpack(body, like)
        if body.type in JSON_TYPES:
            return _open_json(body)
        if body.type == "pickle":
            return _open_pickle(body)
    except (ValueError, IndexError, KeyError, TypeError, PastLimit, RecursionError) as error:
        raise CannotHold(f"the body of {where} cannot be read: {error}") from None
    raise CannotHold(f"the body of {where} has the type '{body.type}', which cannot be taken apart")


def _open_msgpack(body: TypedBytes, like: Mapping[str, TypedBytes]) -> OpenBody:
    cursor = Cursor(body.data)
    number = cursor.enter(MAP)
    start = cursor.pos
    for _ in range(number):
        end = cursor.pos
        if cursor.text("surrogatepass") != CHANNELS:
            cursor.pos = end_of(body.data, cursor.pos)
            continue
        if cursor.kind() != MAP:
            raise ValueError("its channel values are no map")
        values = _channel_values(cursor, like)
        fields = _fields(body.data[start:end] + body.data[cursor.pos :], number - 1)
        return OpenBody(fields, values)
    return OpenBody(_fields(body.data[start:], number), {})


def _channel_values(cursor: Cursor, like: Mapping[str, TypedBytes]) -> dict[str, TypedBytes]:
    values: dict[str, TypedBytes] = {}
    for _ in range(cursor.enter(MAP)):
        channel = cursor.text("surrogatepass")
        known = like.get(channel)
        # Msgpack says at its beginning where it ends, so the value is the known one.
        if known is not None and known.data and cursor.data.startswith(known.data, cursor.pos):
            cursor.pos += len(known.data)
            values[channel] = known
        else:
            values[channel] = TypedBytes("msgpack", cursor.take())
    return values


def _fields(data: bytes, number: int) -> dict[str, Any]:
    """The fields in some bytes of a body."""
    if not number:
        return {}
    try:
        fields: dict[str, Any] = unpack_lossless(write_header(MAP, number) + data)
    except ValueError:
        # For example a lone surrogate in a name.
        cursor = Cursor(data)
        pairs = [
            (cursor.text("surrogatepass"), unpack_lossless(cursor.take())) for _ in range(number)
        ]
        return dict(pairs)
    return fields


def _open_pickle(body: TypedBytes) -> OpenBody:
    from ckpt_backends.transfer.values import open_pickle  # loads pickletools

    fields, values = open_pickle(body.data)
    return OpenBody(fields, {name: TypedBytes("msgpack", one) for name, one in values.items()})


def _open_json(body: TypedBytes) -> OpenBody:
    fields = json.loads(body.data.decode("utf-8", "surrogatepass"))
    if not isinstance(fields, dict):
        raise ValueError("it is no object")
    stored = fields.pop(CHANNELS, None) or {}
    if body.type == REDIS_JSON:
        fields.pop(_TYPE, None)
        if not fields.get(_SENDS):
            fields.pop(_SENDS, None)
    dump = _dump_like(body.data)
    return OpenBody(
        fields, {name: TypedBytes(body.type, dump(one)) for name, one in stored.items()}
    )


def _dump_like(data: bytes) -> Any:
    """A function that writes JSON with the separators of a text."""
    tight = b'":"' in data or b'":{' in data
    encode = _TIGHT if tight else _LOOSE

    def dump(value: Any) -> bytes:
        return encode(value).encode("utf-8", "surrogatepass")

    return dump


_TIGHT = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode
_LOOSE = json.JSONEncoder(ensure_ascii=False).encode


def close_body(
    found: OpenBody, tag: str, where: str, *, has_values: bool = True, in_order: bool = False
) -> TypedBytes:
    """Join a body of this type; each of its values has this type, too.

    Without `has_values`, the body has no entry for values. With `in_order`, its JSON has the order
    of engines that parse it. Raises `CannotHold` if a field has no
    such form.
    """
    for channel, value in found.values.items():
        if value.type != tag:
            raise CannotHold(f"channel '{channel}' of {where} has the type '{value.type}'")
    try:
        if in_order and tag != "msgpack":
            return TypedBytes(tag, _close_in_order(found, has_values=has_values))
        names = [one for one in _ORDER if one in found.fields or (one == CHANNELS and has_values)]
        names += [name for name in found.fields if name not in _ORDER]
        if tag == "msgpack":
            return TypedBytes(tag, _close_msgpack(found, names))
        if tag == REDIS_JSON:
            found = OpenBody({_TYPE: "json", _SENDS: []} | found.fields, found.values)
            names = [_TYPE, *(name for name in names if name not in {_TYPE, _SENDS}), _SENDS]
        return TypedBytes(tag, _close_json(found, names))
    except (TypeError, ValueError, RecursionError) as error:
        raise CannotHold(f"the body of {where} cannot be written as {tag}: {error}") from None


def _close_msgpack(found: OpenBody, names: list[str]) -> bytes:
    fields = {name: _MARK if name == CHANNELS else found.fields[name] for name in names}
    before, *after = pack_lossless(fields).split(_PACKED_MARK)
    out = [before]
    if after:
        out.append(write_header(MAP, len(found.values)))
        for channel, value in found.values.items():
            out += [pack_lossless(channel), value.data]
    return b"".join(out + after)


def _close_json(found: OpenBody, names: list[str]) -> bytes:
    out = []
    for name in names:
        if name == CHANNELS:
            inner = b", ".join(
                _json(channel) + b": " + value.data for channel, value in found.values.items()
            )
            out.append(_json(name) + b": {" + inner + b"}")
        else:
            out.append(_json(name) + b": " + _json(found.fields[name]))
    return b"{" + b", ".join(out) + b"}"


def _close_in_order(found: OpenBody, *, has_values: bool) -> bytes:
    if not has_values:
        return spelled({name: one for name, one in found.fields.items() if name != CHANNELS})
    values = found.values
    inner = b", ".join(
        [spelled(one) + b": " + values[one].data for one in sorted(values, key=by_length)]
    )
    before, after = spelled({**found.fields, CHANNELS: _MARK}).split(_SPELLED_MARK)
    return before + b"{" + inner + b"}" + after


def _json(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "surrogatepass")


# Converts the metadata of checkpoints between the types in which layouts store it.
#
# | type | stored as |
# |---|---|
# | `json` | a JSON text, which savers read without reviving objects |
# | `redis-json` | a JSON text in which RedisSaver revives envelopes and markers |
# | `msgpack` | msgpack of a dict |
# | `bson` | a document whose leaves are pairs of a type and bytes; in old releases, JSON in bytes |
# | `bson-plain` | plain values; only read |
# | `pickle` | by `langgraph dev`; only read |
#
# Objects of a pickle, such as the user of a request, become plain data that names their class:
# `{"$type": "module.Class"}`.


_ALL = Limits(value_bytes=1 << 40, nodes=1 << 40)
_MOST_INT, _LEAST_INT = (1 << 64) - 1, -(1 << 63)
"""RedisSaver reads larger integers as floats."""
_BSON_LEVELS = 90
"""Servers allow 100 levels in a document."""


def converted_metadata(metadata: TypedBytes, target: Form, where: str) -> TypedBytes:
    """Metadata in the form of another layout. Raises `CannotHold`."""
    tag = target.metadata_type
    if tag == metadata.type:
        return metadata
    try:
        entries = _load(metadata)
        if metadata.type == "json" and tag == REDIS_JSON:
            _check_redis(entries)
            return TypedBytes(tag, metadata.data)
        return TypedBytes(tag, _WRITERS[tag](entries))
    except (ValueError, TypeError, KeyError, RecursionError, PastLimit) as error:
        reason = str(error) if isinstance(error, NoEqualForm) else f"cannot be read: {error}"
        raise CannotHold(f"the metadata of {where} {reason}") from None


def without_objects(metadata: TypedBytes) -> TypedBytes:
    """Pickled metadata as msgpack of plain data, so that a saver needs no class to load it.

    Raises `CannotHold` if its keys are not texts, or if it is no pickle of a dict.
    """
    try:
        return TypedBytes("msgpack", _packed_entries(_load(metadata)))
    except (ValueError, TypeError, RecursionError, PastLimit) as error:
        raise CannotHold(f"the metadata cannot be read: {error}") from None


def _load(metadata: TypedBytes) -> dict[str, Any]:
    """The entries; msgpack's objects are `Ext`."""
    match metadata.type:
        case "json":
            found = json.loads(metadata.data)
        case "redis-json":
            found = json.loads(metadata.data)
            _check_redis(found)
        case "msgpack":
            found = unpack_lossless(metadata.data)
        case "bson":
            found = _plain_document(documents.decode_bson(metadata.data, _ALL, _leaf))
        case "bson-plain":
            found = _plain_document(documents.decode_bson(metadata.data, _ALL, None))
        case "pickle":
            found = _unpickled(metadata.data)
        case _:
            raise NoEqualForm(f"has the type '{metadata.type}', which cannot be converted")
    if not isinstance(found, dict):
        raise NoEqualForm("is not a dict")
    return found


def _unpickled(data: bytes) -> Any:
    # Late, because they load pickletools.
    from ckpt_backends.codec.edits import split_pickle
    from ckpt_backends.transfer.values import msgpack_of_pickle

    found: dict[str | int, Any] = {}
    for name, entry in split_pickle(data).items():
        try:
            value = unpack_lossless(msgpack_of_pickle(entry))
            _check_keys(value)
            found[name] = value
        except NoEqualForm:
            found[name] = to_json(decode(TypedBytes("pickle", entry), _ALL))
    return found


def _leaf(leaf: TypedBytes) -> Any:
    """The value of a leaf of a document. A binary value is a leaf of type `json`, too."""
    match leaf.type:
        case "msgpack":
            return unpack_lossless(leaf.data)
        case "json":
            found = json.loads(leaf.data)
            _check_redis(found)
            return found
        case "null":
            return None
        case "bytes":
            return leaf.data
    raise NoEqualForm(f"has a value of type '{leaf.type}', which cannot be converted")


def _plain_document(root: Value) -> Value:
    """A decoded document. Raises `NoEqualForm` if it has values that only BSON has."""
    for item in inner_values(root):
        if isinstance(item, Tagged):
            raise NoEqualForm(f"has a value of type '{item.type}', which cannot be converted")
    return root


def _check_redis(root: Any) -> None:
    """Raise `NoEqualForm` if RedisSaver reads something else than `json.loads`."""
    for item in inner_values(root):
        if isinstance(item, dict):
            if looks_marked(item):
                raise NoEqualForm("has a dict from which RedisSaver makes an object")
            for name in item:
                name.encode()
        elif isinstance(item, int) and not _LEAST_INT <= item <= _MOST_INT:
            raise NoEqualForm(f"has the integer {item}, which RedisSaver reads as a float")
        elif isinstance(item, str):
            item.encode()
        elif isinstance(item, float) and item - item != 0:
            raise NoEqualForm(f"has the number {item}, which is not JSON")


def _json_entries(entries: dict[str, Any]) -> bytes:
    _check_keys(entries)
    try:
        text = json.dumps(entries, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):
        raise NoEqualForm("has a value that JSON cannot represent") from None
    return text.encode()


def _redis_json(entries: dict[str, Any]) -> bytes:
    made = _json_entries(entries)
    _check_redis(entries)
    return made


def _check_keys(root: Any) -> None:
    """Raise `NoEqualForm` for keys that are not texts, which `json` would convert to texts."""
    for item in inner_values(root):
        if isinstance(item, dict) and not all(isinstance(key, str) for key in item):
            raise NoEqualForm("has keys that are not texts, and JSON has only texts")
        if isinstance(item, Ext | bytes):
            raise NoEqualForm("has a value that JSON cannot represent")


def _packed_entries(entries: dict[str, Any]) -> bytes:
    try:
        return pack_lossless(entries)
    except (TypeError, ValueError) as error:
        raise NoEqualForm(f"cannot become msgpack: {error}") from None


def _bson(entries: Mapping[Any, Any], level: int = 1) -> bytes:
    """A document as `dumps_metadata` of langgraph-checkpoint-mongodb 0.2.2 and later writes it."""
    if level > _BSON_LEVELS:
        raise NoEqualForm(f"is nested deeper than {_BSON_LEVELS} levels")
    made: dict[str, bytes] = {}
    for name, value in entries.items():
        if not isinstance(name, str) or "\0" in name:
            raise NoEqualForm(f"has the key {name!r}, which MongoDB cannot store")
        if isinstance(value, dict):
            made[name] = documents.subdocument(_bson(value, level + 1))
        elif value is None:
            made[name] = documents.typed(TypedBytes("null", b""))
        elif isinstance(value, bytes):
            made[name] = documents.typed(TypedBytes("bytes", value))
        else:
            made[name] = documents.typed(TypedBytes("msgpack", _packed_entries(value)))
    return documents.document_of(made)


_WRITERS: Mapping[str, Callable[[dict[str, Any]], bytes]] = {
    "json": _json_entries,
    REDIS_JSON: _redis_json,
    "msgpack": _packed_entries,
    "bson": _bson,
}


# Plain values: null, texts, numbers and booleans, which SQL savers keep in the JSON of a body.


_CONTAINERS = (*range(0x80, 0xA0), *range(0xC4, 0xCA), *range(0xD4, 0xD9), *range(0xDC, 0xE0))
"""First bytes of msgpack's maps, arrays, bytes and ext types."""


_SURROGATE = re.compile("[\ud800-\udfff]")
_INTEGERS = range(-(1 << 63), 1 << 64)
"""MySQL stores larger integers as floats."""
_DIGITS = 15
"""MySQL may read floats with more digits as their neighbour."""
_ENCODE = json.JSONEncoder(ensure_ascii=False).encode
_LONGEST = 16 << 20
"""Bytes. PostgreSQL allows 256 MiB in a JSON document, and all values of a body share them."""


def plain_json(value: TypedBytes) -> TypedBytes | None:
    """A plain value as JSON text that any engine stores unchanged; None for any other value.

    PostgreSQL changes some numbers (https://www.postgresql.org/docs/current/datatype-json.html):
    it has no negative zero, and writes exponents out. It refuses the character NUL.
    """
    if value.type == "null":
        return TypedBytes("json", b"null")
    if len(value.data) > _LONGEST:
        return None
    try:
        if value.type == "msgpack":
            if not value.data or value.data[0] in _CONTAINERS:
                return None
            found = unpack_lossless(value.data)
        elif value.type in JSON_TYPES and value.data[:1] not in (b"{", b"["):
            found = json.loads(value.data)
        else:
            return None
    except ValueError:
        return None
    if not _is_kept(found):
        return None
    return TypedBytes("json", _ENCODE(found).encode())


def _is_kept(value: object) -> bool:
    """Whether any engine stores a value unchanged in JSON."""
    if isinstance(value, str):
        return "\0" not in value and not _SURROGATE.search(value)
    if isinstance(value, float):
        text = repr(value)
        sure = text.replace("-", "").replace(".", "")
        return sure.isdecimal() and len(sure.lstrip("0")) <= _DIGITS and text != "-0.0"
    return value is None or (isinstance(value, int) and value in _INTEGERS)


def from_plain_json(value: TypedBytes) -> TypedBytes | None:
    """A plain value of a JSON body as msgpack; None for any other value."""
    if value.type != "json" or value.data[:1] in (b"{", b"["):
        return None
    try:
        return TypedBytes("msgpack", pack_lossless(json.loads(value.data)))
    except (ValueError, TypeError):
        return None
