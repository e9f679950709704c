"""Converts a value from one serializer's form to another's. Never changes what it means.

A value that the other serializer cannot hold raises `CannotHold`.

RedisSaver reads writes of type `msgpack`, too, so these keep their bytes on the way to Redis. Only
the values in a document must become JSON, which `as_type` does.
"""

from __future__ import annotations

import json
import math
import re
import sys
from binascii import a2b_base64, b2a_base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from fractions import Fraction
from typing import Any, NoReturn, TypeAlias

from ckpt_backends.codec.cursor import READ_EXT, depth_bound, skip
from ckpt_backends.codec.json import BOM, looks_marked, measure
from ckpt_backends.codec.lossless import Ext, pack_lossless, unpack_lossless
from ckpt_backends.codec.pickle import (
    OLD_MODULES,
    OLD_NAMES,
    Dict,
    Global,
    Machine,
    Node,
    Object,
    Parts,
    Set,
    build,
)
from ckpt_backends.codec.values import (
    CHANNELS,
    REDIS_JSON,
    TUPLE,
    Limits,
    PastLimit,
    Tagged,
    Value,
    inner_values,
)
from ckpt_backends.model import TypedBytes
from ckpt_backends.transfer.form import CannotHold, NoEqualForm, Serializer

# The types that LangGraph's serializers revive without being told, and how they are called.
#
# `JsonPlusSerializer` calls what an ext type of msgpack names, and `JsonPlusRedisSerializer` what
# an `lc` envelope names. A value can be moved from one to the other if both make the same call.
# Source: `langgraph/checkpoint/serde` of langgraph-checkpoint 4.3, `SAFE_MSGPACK_TYPES`;
# `langchain_core/load/mapping.py` of langchain-core 1.7.


TypeName: TypeAlias = tuple[str, str]
"""Module and name of a class or function."""

DATETIME: TypeName = ("datetime", "datetime")
TIMEZONE: TypeName = ("datetime", "timezone")
TIMEDELTA: TypeName = ("datetime", "timedelta")
SET: TypeName = ("builtins", "set")
SEND: TypeName = ("langgraph.types", "Send")
SENDS = frozenset({SEND, ("langgraph.constants", "Send")})
INTERRUPT: TypeName = ("langgraph.types", "Interrupt")
LANGCHAIN_DOCUMENT: TypeName = ("langchain_core.documents.base", "Document")

COLLECTIONS = frozenset({SET, ("builtins", "frozenset"), ("collections", "deque")})
"""Called with one list."""
ONE_ARGUMENT = frozenset(
    {
        ("uuid", "UUID"),
        ("decimal", "Decimal"),
        ("zoneinfo", "ZoneInfo"),
        *(
            ("ipaddress", f"IPv{n}{kind}")
            for n in "46"
            for kind in ("Address", "Interface", "Network")
        ),
    }
)
"""Called with one text."""
_PATHS = frozenset(
    (module, name)
    for module in ("pathlib", "pathlib._local")
    for name in ("Path", "PosixPath", "WindowsPath")
)
ARGUMENTS = _PATHS | {("re", "compile"), TIMEDELTA, ("datetime", "date"), TIMEZONE}
"""Called with several arguments."""
FIELDS: Mapping[TypeName, tuple[str, ...]] = {
    ("datetime", "time"): ("hour", "minute", "second", "microsecond", "tzinfo", "fold"),
    ("langgraph.store.base", "Item"): ("value", "key", "namespace", "created_at", "updated_at"),
    ("langgraph.store.base", "GetOp"): ("namespace", "key", "refresh_ttl"),
    INTERRUPT: ("value", "id", "resumable", "ns", "when", "interrupt_id", "response_schema"),
    ("langgraph.types", "Command"): ("graph", "update", "resume", "goto"),
    ("langgraph.types", "Overwrite"): ("value", "type"),
    ("langgraph.types", "TimeoutPolicy"): ("run_timeout", "idle_timeout", "refresh_on"),
    ("langgraph.types", "StateSnapshot"): (
        *("values", "next", "config", "metadata", "created_at", "parent_config", "tasks"),
        "interrupts",
    ),
    ("langgraph.types", "PregelTask"): (
        *("id", "name", "path", "error", "interrupts", "state", "result"),
    ),
}
"""Called with these fields, some of which may be missing."""
_NEEDED: Mapping[str, frozenset[str]] = {
    "Item": frozenset(FIELDS["langgraph.store.base", "Item"]),
    "GetOp": frozenset({"namespace", "key"}),
    "Interrupt": frozenset({"value"}),
    "Overwrite": frozenset({"value"}),
    "StateSnapshot": frozenset(FIELDS["langgraph.types", "StateSnapshot"]),
    "PregelTask": frozenset({"id", "name", "path"}),
}
HASHABLE = ONE_ARGUMENT | ARGUMENTS | {DATETIME, ("datetime", "time"), ("builtins", "frozenset")}
"""Types whose objects can be items of a set."""

_KINDS = {
    **{"AI": "ai", "Chat": "chat", "Function": "function", "Human": "human", "System": "system"},
    **{"Tool": "tool", "Base": "base"},
}
MESSAGES: Mapping[TypeName, str] = {
    **{
        (f"langchain_core.messages.{module}", f"{kind}Message{chunk}"): f"{kind}Message{chunk}"
        for kind, module in _KINDS.items()
        for chunk in ("", "Chunk")
        if kind != "Base"
    },
    ("langchain_core.messages.modifier", "RemoveMessage"): "RemoveMessage",
}
"""The classes of messages, with their names."""

LANGCHAIN_IDS: Mapping[tuple[str, ...], TypeName] = {
    **{("langchain", "schema", "messages", name[1]): name for name in MESSAGES},
    **{(*name[0].split("."), name[1]): name for name in MESSAGES},
    ("langchain", "schema", "document", "Document"): LANGCHAIN_DOCUMENT,
}
"""By the id in an `lc` 1 envelope, the class that it revives as."""
IDS_OF_LANGCHAIN: Mapping[TypeName, tuple[str, ...]] = {
    **{name: ("langchain", "schema", "messages", name[1]) for name in MESSAGES},
    LANGCHAIN_DOCUMENT: ("langchain", "schema", "document", "Document"),
}


def fits(name: TypeName, fields: Mapping[Any, Any]) -> bool:
    """Whether a call of a known class with these fields works.

    If a call fails, each serializer falls back to something else.
    """
    if name in FIELDS:
        known = {*fields} <= {*FIELDS[name]}
        return known and _NEEDED.get(name[1], frozenset()) <= {*fields}
    if name == LANGCHAIN_DOCUMENT:
        return isinstance(fields.get("page_content"), str) and _is_dict_or_missing(
            fields, "metadata"
        )
    return name in MESSAGES and _message_fits(name[1], fields)


def _message_fits(name: str, fields: Mapping[Any, Any]) -> bool:
    content = fields.get("content", "" if name == "RemoveMessage" else None)
    if name == "RemoveMessage" and (content != "" or not isinstance(fields.get("id"), str)):
        return False
    if not isinstance(content, str) and not (
        isinstance(content, list) and all(isinstance(one, str | dict) for one in content)
    ):
        return False
    if not all(_is_text_or_none(fields, one) for one in ("id", "name")):
        return False
    dicts = ("additional_kwargs", "response_metadata")
    if not all(_is_dict_or_missing(fields, one) for one in dicts):
        return False
    if name.startswith("AI"):
        return _has_tool_calls(fields)
    if name.startswith("Tool"):
        status = fields.get("status", "success")
        return isinstance(fields.get("tool_call_id"), str) and status in ("success", "error")
    if name.startswith("Chat"):
        return isinstance(fields.get("role"), str)
    return not name.startswith("Function") or isinstance(fields.get("name"), str)


def _has_tool_calls(fields: Mapping[Any, Any]) -> bool:
    calls, invalid = fields.get("tool_calls", []), fields.get("invalid_tool_calls", [])
    chunks, usage = fields.get("tool_call_chunks", []), fields.get("usage_metadata")
    for one in (calls, invalid, chunks):
        if not isinstance(one, list) or not all(isinstance(call, dict) for call in one):
            return False
    return (usage is None or _is_usage(usage)) and all(
        isinstance(call.get("name"), str)
        and isinstance(call.get("args"), dict)
        and _is_text_or_none(call, "id")
        for call in calls
    )


def _is_usage(usage: object) -> bool:
    names = ("input_tokens", "output_tokens", "total_tokens")
    return isinstance(usage, dict) and all(type(usage.get(one)) is int for one in names)


def _is_text_or_none(fields: Mapping[Any, Any], name: str) -> bool:
    return isinstance(fields.get(name, ""), str | None)


def _is_dict_or_missing(fields: Mapping[Any, Any], name: str) -> bool:
    return isinstance(fields.get(name, {}), dict)


def call_works(name: TypeName, argument: object) -> bool:
    """Whether a call of a class in `ONE_ARGUMENT` with this text works."""
    if not isinstance(argument, str):
        return False
    module, cls = name
    try:
        if module == "uuid":
            from uuid import UUID

            UUID(argument)
        elif module == "decimal":
            from decimal import Decimal

            Decimal(argument)
        elif module == "ipaddress":
            import ipaddress

            getattr(ipaddress, cls)(argument)
    except (ValueError, ArithmeticError):
        return False
    return True


_EXT = {bytes([0xD4 + n]): 1 for n in range(5)} | {b"\xc7": 2, b"\xc8": 3, b"\xc9": 5}
"""By first byte of msgpack's ext types, the place of the code."""
_ONE_ARGUMENT, _SNAPSHOT_CODE = 0, 7
_BYTEARRAY = "builtins", "bytearray"
_BYTEARRAY_CALL = b"\x00\x93\xa8builtins\xa9bytearray"
"""The beginning of the ext type that calls `bytearray`, which msgpack does not have."""
_BYTEARRAY_WITHIN = 8 + len(_BYTEARRAY_CALL)
_OF_BOTH = frozenset({"msgpack", "null", "bytes", "bytearray"})
"""Types that `JsonPlusSerializer` and `JsonPlusRedisSerializer` read alike."""
_UINT8_ARRAY = (
    b'{"lc":2,"type":"constructor","id":["Uint8Array"],"method":"from","args":[[%b]],"kwargs":{}}'
)
"""What LangGraph.js writes for bytes in a body: `_encodeConstructorArgs` in `serde/jsonplus.js`."""
_UINT8_NAME_WITHIN = 80
"""The name stands within so many bytes, also if the text has spaces."""
_MSGPACK_NONE = b"\xc0"


def converted_value(
    value: TypedBytes, source: Serializer, target: Serializer, where: str, *, in_body: bool = False
) -> TypedBytes:
    """A value in the form of another serializer.

    `where` names the value in messages. `in_body` says that the source stored it in a body, where
    RedisSaver reads some markers in another way. Raises `CannotHold`.
    """
    if source is target:
        return value
    if Serializer.JAVASCRIPT not in (source, target) and target is not Serializer.PICKLE:
        if value.type in _OF_BOTH:
            return value
        if value.type in ("json", "pickle", REDIS_JSON):
            return TypedBytes("msgpack", _msgpack(value, where, in_body=in_body))
    raise CannotHold(f"{where} has the type '{value.type}', which cannot be converted")


def as_type(
    value: TypedBytes, tag: str, where: str, serializer: Serializer = Serializer.TYPED
) -> TypedBytes:
    """A value of the same serializer with the type of the body that it becomes a part of.

    Raises `CannotHold` if this type has no equal value.
    """
    if value.type == tag:
        return value
    if tag == "json" and value.type == "null":
        return TypedBytes(tag, b"null")
    if tag == "json" and value.type == "bytes" and serializer is Serializer.JAVASCRIPT:
        return TypedBytes(tag, _UINT8_ARRAY % b",".join(b"%d" % byte for byte in value.data))
    if tag in ("msgpack", REDIS_JSON):
        data = _body_msgpack(value, where)
        if data is not None and tag == "msgpack":
            return TypedBytes(tag, data)
        if data is not None:
            return TypedBytes(tag, _redis_json(data, where))
    raise CannotHold(f"{where} has the type '{value.type}', which has no form in a {tag} body")


def _body_msgpack(value: TypedBytes, where: str) -> bytes | None:
    """The value as msgpack; None if it has no equal form."""
    match value.type:
        case "msgpack":
            return value.data
        case "null":
            return _MSGPACK_NONE
        case "bytes":
            return pack_lossless(value.data)
        case "bytearray":
            return pack_lossless(Ext(_ONE_ARGUMENT, pack_lossless([*_BYTEARRAY, value.data])))
        case "json" | "pickle":
            return _msgpack(value, where)
    return None


def _msgpack(value: TypedBytes, where: str, *, in_body: bool = False) -> bytes:
    try:
        if value.type == "pickle":
            return msgpack_of_pickle(value.data)

        reader = TYPED if value.type == "json" else DOCUMENT if in_body else WRITE
        return msgpack_of_json(value.data, reader)
    except NoEqualForm as problem:
        raise CannotHold(f"{where} {problem}") from None


def _redis_json(data: bytes, where: str) -> bytes:

    try:
        return redis_document(data)
    except NoEqualForm as problem:
        raise CannotHold(f"{where} {problem}") from None


def apart_type(value: TypedBytes) -> TypedBytes:
    """A value that was a part of a body, as its serializer stores it by itself.

    `JsonPlusSerializer` has types of its own for None and for bytes, LangGraph.js for bytes.
    """
    if value.type == "json" and b'"Uint8Array"' in value.data[:_UINT8_NAME_WITHIN]:
        match json.loads(value.data):
            case {"lc": 2, "id": ["Uint8Array"], "method": "from", "args": [[*items]]}:
                return TypedBytes("bytes", bytes(items))
    if value.type == "msgpack":
        if value.data == _MSGPACK_NONE:
            return TypedBytes("null", b"")
        if value.data[:1] in (b"\xc4", b"\xc5", b"\xc6"):
            width = 1 << (value.data[0] - 0xC4)
            return TypedBytes("bytes", value.data[1 + width :])
        if _BYTEARRAY_CALL in value.data[:_BYTEARRAY_WITHIN]:
            match unpack_lossless(value.data):
                case Ext(0, data):
                    return TypedBytes("bytearray", unpack_lossless(data)[2])
    return value


def is_snapshot(value: TypedBytes) -> bool:
    """Whether a value is the snapshot of a DeltaChannel: msgpack's ext type 7."""
    if value.type != "msgpack" or value.data[:1] not in _EXT:
        return False
    return value.data[_EXT[value.data[:1]]] == _SNAPSHOT_CODE


# Converts JSON with envelopes and markers to msgpack of LangGraph's serializer.
#
# Each object becomes the ext type from which `JsonPlusSerializer` makes the same object as the
# reader of the JSON. There are three readers, which differ:
#
# * `DOCUMENT`: RedisSaver, for values in a document (`_recursive_deserialize`);
# * `WRITE`: RedisSaver, for writes and for what is inside an envelope (`_revive_if_needed`);
# * `TYPED`: `JsonPlusSerializer` (`_reviver`), for values of type `json` of old releases.
#
# What the reader makes of an unknown class cannot be known, so that is refused.


_ONE, _ARGUMENTS, _FIELDS, _METHOD, _PYDANTIC_1, _PYDANTIC_2, _NUMPY, _SNAPSHOT = READ_EXT


@dataclass(frozen=True, slots=True)
class JsonReader:
    """What the reader of a JSON text makes objects from, besides envelopes."""

    name: str
    is_redis: bool = True
    has_bytes: bool = False
    has_interrupts: bool = False


DOCUMENT = JsonReader("RedisSaver", has_bytes=True)
WRITE = JsonReader("RedisSaver", has_interrupts=True)
TYPED = JsonReader("LangGraph", is_redis=False)
_SNAPSHOT_VALUE = JsonReader("RedisSaver", has_bytes=True, has_interrupts=True)


def msgpack_of_json(data: bytes, reader: JsonReader) -> bytes:
    """The msgpack of a JSON text. Raises `NoEqualForm`."""
    try:
        text = data.removeprefix(BOM).decode()
        found = json.loads(text, parse_constant=_refuse_constant)
        if b'"lc"' in data or b"__" in data or b"\\u" in data:
            found = _converted(found, reader)
        return pack_lossless(found)
    except NoEqualForm:
        raise
    except (ValueError, TypeError, RecursionError) as error:
        raise NoEqualForm(f"cannot become msgpack: {error}") from None


def _refuse_constant(name: str) -> NoReturn:
    raise NoEqualForm(f"holds {name}, which is not JSON")


def _converted(value: Any, reader: JsonReader) -> Any:
    """A value with an `Ext` for each object."""
    if isinstance(value, list):
        return [_converted(item, reader) for item in value]
    if not isinstance(value, dict):
        return value
    if reader.is_redis and (found := _of_marker(value, reader)) is not None:
        return found
    kind = value.get("type")
    if kind == "constructor" and value.get("lc") in (1, 2) and value.get("id") is not None:
        return _of_envelope(value, reader)
    if not reader.is_redis and value.get("lc") == 1 and kind in ("secret", "not_implemented"):
        raise NoEqualForm(f"holds an object that LangChain marked as {kind}")
    return {name: _converted(item, reader) for name, item in value.items()}


def _of_marker(fields: dict[str, Any], reader: JsonReader) -> Any:
    """The object or bytes of a marker of RedisSaver; None for any other dict."""
    if reader.has_bytes and "__bytes__" in fields and len(fields) == 1:
        try:
            return a2b_base64(fields["__bytes__"], strict_mode=True)
        except (ValueError, TypeError):
            raise NoEqualForm("holds bytes that are no valid base64") from None
    if fields.get("__delta_snapshot__") is True:
        if fields.keys() != {"__delta_snapshot__", "value"}:
            raise NoEqualForm("holds a snapshot of an unknown form")
        inner = _SNAPSHOT_VALUE if reader.has_bytes else reader
        return Ext(_SNAPSHOT, pack_lossless(_converted(fields["value"], inner)))
    if fields.get("__send__") is True and fields.keys() == {"__send__", "node", "arg"}:
        # The saver reads a snapshot twice; the second time, it does not look into objects.
        inner = DOCUMENT if reader is _SNAPSHOT_VALUE else reader
        return _call(_ARGUMENTS, SEND, [fields["node"], _converted(fields["arg"], inner)])
    if reader.has_interrupts and fields.get("__interrupt__") is True and "value" in fields:
        rest = {key: one for key, one in fields.items() if key != "__interrupt__"}
        return _interrupt(rest, reader)
    return None


def _interrupt(fields: dict[str, Any], reader: JsonReader) -> Ext:
    # `Interrupt` would compute an id from `ns`, which RedisSaver does not pass.
    if fields.get("id") in (None, "placeholder-id") and fields.get("ns") is not None:
        raise NoEqualForm("holds an interrupt of LangGraph before 0.6, which has no id")
    if not fits(INTERRUPT, fields):
        raise NoEqualForm("holds an interrupt with unknown fields")
    return _call(_FIELDS, INTERRUPT, _converted(fields, reader))


def _of_envelope(fields: dict[str, Any], reader: JsonReader) -> Any:
    path, version = fields["id"], fields["lc"]
    if type(version) is not int or not isinstance(path, list) or len(path) < 2:
        raise NoEqualForm("holds an envelope of an unknown form")
    if not all(isinstance(part, str) for part in path):
        raise NoEqualForm("holds an envelope of an unknown form")
    name = ".".join(path[:-1]), path[-1]
    # An old release added this to each object of Pydantic. Readers ignore it.
    method = fields.get("method")
    args, kwargs = fields.get("args"), fields.get("kwargs")
    if (
        method not in (None, [None, "construct"])
        or {*fields} - {"lc", "type", "id", "args", "kwargs", "method"}
        or not isinstance(args, list | None)
        or not isinstance(kwargs, dict | None)
    ):
        raise NoEqualForm(f"holds a {_words(name)} that {reader.name} does not give back")
    inner = WRITE if reader.is_redis else reader
    if version == 2 and reader.is_redis and _is_exception(name, kwargs):
        # RedisSaver makes an envelope of it, too, and gives the envelope back as a dict.
        return {key: _converted(item, inner) for key, item in fields.items()}
    if version == 1:
        return _of_langchain(path, _converted(kwargs or {}, inner), args, reader)
    if name == DATETIME:
        return _datetime(args, kwargs, reader)
    if reader.is_redis and name == SET and args is None and {*(kwargs or {})} == {"__set_items__"}:
        args, kwargs = [(kwargs or {})["__set_items__"]], None
    return _of_call(name, _converted(args or [], inner), _converted(kwargs or {}, inner), reader)


def _is_exception(name: TypeName, kwargs: Any) -> bool:
    """Whether an object is surely no dataclass: Python's exceptions, and those with notes."""
    if name[0] == "builtins":
        return name not in COLLECTIONS
    return isinstance(kwargs, dict) and "__notes__" in kwargs


def _of_langchain(path: list[str], kwargs: Any, args: Any, reader: JsonReader) -> Ext:
    name = LANGCHAIN_IDS.get(tuple(path))
    if name is None or args:
        raise NoEqualForm(f"holds an object of '{'.'.join(path)}' that {reader.name} refuses")
    return _pydantic(name, kwargs)


def _pydantic(name: TypeName, kwargs: Any) -> Ext:
    if not isinstance(kwargs, dict) or not fits(name, kwargs):
        raise NoEqualForm(f"holds a {_words(name)} with unusual fields")
    return Ext(_PYDANTIC_2, pack_lossless([*name, kwargs, "model_validate_json"]))


def _of_call(name: TypeName, args: Any, kwargs: Any, reader: JsonReader) -> Ext:
    """The ext type that calls a class in the same way."""
    if name in MESSAGES or name == LANGCHAIN_DOCUMENT:
        if not args:
            return _pydantic(name, kwargs)
    elif not _is_called(name):
        why = "what RedisSaver makes of it depends on whether it is a dataclass"
        if not reader.is_redis:
            why = "LangGraph gives it back as a dict"
        raise NoEqualForm(f"holds an object of {_words(name)}: {why}")
    elif name in COLLECTIONS and not (args or kwargs or (reader.is_redis and name == SET)):
        return _call(_ONE, name, [])
    elif (found := _as_call(name, args, kwargs)) is not None:
        return _call(found[0], SEND if name in SENDS else name, found[1])
    raise NoEqualForm(f"holds a {_words(name)} that {reader.name} does not give back")


def _is_called(name: TypeName) -> bool:
    """Whether it is known how a class is called."""
    return name in SENDS | ONE_ARGUMENT | ARGUMENTS | COLLECTIONS | FIELDS.keys()


def _as_call(name: TypeName, args: list[Any], kwargs: Any) -> tuple[int, Any] | None:
    """The ext type and its content that call a known class so; None if that does not work.

    The objects in the arguments are `Ext` or `_Made`.
    """
    if name in SENDS:
        return _ARGUMENTS, _send(args, kwargs)
    if name in FIELDS:
        works = not args and isinstance(kwargs, dict) and fits(name, kwargs)
        return (_FIELDS, kwargs) if works else None
    if kwargs:
        return None
    if name in ARGUMENTS:
        return (_ARGUMENTS, args) if _arguments_fit(name, args) else None
    if len(args) != 1:
        return None
    if name in ONE_ARGUMENT:
        return (_ONE, args[0]) if call_works(name, args[0]) else None
    if not isinstance(args[0], list):
        return None
    if name[0] == "builtins":
        for item in args[0]:
            kind = _type_of(item)
            is_object = kind is not None or isinstance(item, list | dict)
            if is_object and kind not in HASHABLE:
                raise NoEqualForm(f"holds a {name[1]} with items that a {name[1]} cannot have")
    return _ONE, args[0]


def _type_of(item: Any) -> TypeName | None:
    """The class of an object in an argument; None if it is none."""
    if isinstance(item, _Made):
        return item.type
    if not isinstance(item, Ext):
        return None
    found = unpack_lossless(item.data)
    return (found[0], found[1]) if isinstance(found, list) and len(found) > 1 else ("", "")


def _send(args: list[Any], kwargs: dict[str, Any]) -> list[Any]:
    if not args and {"node", "arg"} <= {*kwargs} <= {"node", "arg", "timeout"}:
        args, kwargs = [kwargs["node"], kwargs["arg"], kwargs.get("timeout")], {}
    if kwargs or len(args) not in (2, 3) or not isinstance(args[0], str):
        raise NoEqualForm("holds a Send of an unknown form")
    return args if args[2:] not in ([], [None]) else args[:2]


def _arguments_fit(name: TypeName, args: Any) -> bool:
    if not isinstance(args, list):
        return False
    if name == ("re", "compile"):
        return len(args) == 2 and isinstance(args[0], str) and type(args[1]) is int
    if name == TIMEZONE:
        return len(args) in (1, 2) and _type_of(args[0]) == TIMEDELTA and _are_texts(args[1:])
    if name[0] == "datetime":
        return len(args) == 3 and all(type(one) is int for one in args)
    return _are_texts(args)


def _datetime(args: Any, kwargs: Any, reader: JsonReader) -> Ext:
    """A datetime that is stored as its numbers and, perhaps, a fixed offset from UTC."""
    zone = None
    match args or []:
        case [*numbers, {"id": ["datetime", "timezone"], "args": [offset]}]:
            zone = timezone(_timedelta(offset))
        case [*numbers]:
            pass
    if kwargs or not 3 <= len(numbers) <= 7 or not all(type(one) is int for one in numbers):
        raise NoEqualForm(f"holds a datetime that {reader.name} does not give back")
    at = datetime(*numbers, tzinfo=zone)  # type: ignore[misc]
    return Ext(_METHOD, pack_lossless([*DATETIME, at.isoformat(), "fromisoformat"]))


def _timedelta(found: Any) -> timedelta:
    match found:
        case {"id": ["datetime", "timedelta"], "args": [int(days), int(seconds), int(micro)]}:
            return timedelta(days, seconds, micro)
    raise NoEqualForm("holds a time zone of an unknown form")


def _call(code: int, name: TypeName, content: Any) -> Ext:
    return Ext(code, pack_lossless([*name, content]))


def _words(name: TypeName) -> str:
    return f"'{name[0]}.{name[1]}'"


# Spells floats so that RedisJSON reads them exactly.
#
# RedisJSON 2 parses numbers with serde_json without its feature `float_roundtrip`: it rounds the
# digits to a float and then divides or multiplies by a power of ten, which rounds again. About
# one of three floats with 17 digits comes out as its neighbour. For these, there are other digits
# that both this and an exact parser read as the same float.


_NUMBER = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|-?\d++(?:\.\d++)?(?:e[+-]?\d++)?', re.DOTALL)
_SURE_DIGITS = 15
_MOST = 1 << 64


def exact_floats(text: str) -> str:
    """A JSON text with other digits for floats that RedisJSON would not read exactly.

    Raises `NoEqualForm` if there are none for a float.
    """
    return _NUMBER.sub(_respelled, text)


def _respelled(match: re.Match[str]) -> str:
    token = match[0]
    is_short = len(token) <= _SURE_DIGITS and "e" not in token
    if is_short or token[0] == '"' or token.lstrip("-").isdecimal():
        return token
    number = abs(float(token))
    digits, power = _parts(token.lstrip("-"))
    if _read(digits, power) == number:
        return token
    sign = "-" if token[0] == "-" else ""
    return sign + _other_digits(number)


def _parts(token: str) -> tuple[int, int]:
    """The digits of a float as an integer, and the power of ten."""
    mantissa, _, exponent = token.partition("e")
    whole, _, fraction = mantissa.partition(".")
    return int(whole + fraction), int(exponent or 0) - len(fraction)


def _read(digits: int, power: int) -> float:
    """The float that serde_json reads."""
    return _scaled(float(digits), power)


def _scaled(found: float, power: int) -> float:
    while power < -308:
        found /= 1e308
        power += 308
    return found * float(f"1e{power}") if power >= 0 else found / float(f"1e{-power}")


def _other_digits(number: float) -> str:
    estimate = int(f"{number:e}".partition("e")[2])
    for count in (19, 18, 20, 17, 16):
        power = estimate - count + 1
        exact = Fraction(number) / Fraction(10) ** power
        near = float(exact)
        for rounded in (near, math.nextafter(near, 0), math.nextafter(near, math.inf)):
            if not 0 < rounded < _MOST or _scaled(rounded, power) != number:
                continue
            # All integers around the middle are rounded to it.
            room = int(math.ulp(rounded) / 2.5)
            middle = int(rounded)
            digits = min(max(round(exact), middle - room), middle + room)
            text = f"{digits}e{power}"
            if digits < _MOST and _read(digits, power) == number == float(text):
                return text
    raise NoEqualForm(f"holds the number {number!r}, which RedisJSON does not store exactly")


# Converts msgpack of LangGraph's serializer to the JSON of RedisSaver's documents.
#
# Each object becomes the envelope or marker from which RedisSaver makes the same object:
#
# * its `_recursive_deserialize` knows `__bytes__`, `__send__`, `__delta_snapshot__` and envelopes;
# * inside an envelope, `_revive_if_needed` knows `__interrupt__`, but not `__bytes__`;
# * an `lc` 2 envelope calls dataclasses and the types that `official_types` lists. It ignores
#   methods, so a datetime is written as its numbers.
#
# What it would revive as something else is refused. Source: `jsonplus_redis.py` and `base.py` of
# langgraph-checkpoint-redis 0.5.2.


_MARKS = re.compile(rb"\xa2lc|\x02lc|__(?:bytes|send|interrupt|delta_snapshot)__")
"""Found in each value with a dict that RedisSaver could take for an object, and in others."""
_BYTES = (b"\xc4", b"\xc5", b"\xc6")
_FLOAT = b"\xcb"
_DEEPEST = 200
_LEVELS = 120
"""RedisJSON reads 127 levels; three of them are above the values."""


class _Made(dict[str, Any]):
    """An envelope or marker, to distinguish it from a dict of the application."""

    __slots__ = ("type",)

    def __init__(self, name: TypeName, entries: dict[str, Any]) -> None:
        super().__init__(entries)
        self.type = name


def redis_document(data: bytes) -> bytes:
    """The JSON text of a msgpack value. Raises `NoEqualForm`."""
    from ormsgpack import MsgpackDecodeError, unpackb  # loaded when needed

    reader = _Reader()
    try:
        found = unpackb(data, ext_hook=reader.on_ext)
    except MsgpackDecodeError as error:
        if reader.problem is not None:
            raise reader.problem from None
        raise NoEqualForm(f"cannot become JSON: {error}") from None
    if _MARKS.search(data):
        _check_dicts(found)
    try:
        text = _dump(found)
    except (ValueError, TypeError, RecursionError) as error:
        raise NoEqualForm(f"cannot become JSON: {error}") from None
    if _FLOAT in data:
        text = exact_floats(text)
    opened = text.count("[") + text.count("{")
    if opened > _LEVELS and (deepest := measure(text, 0).depth) > _LEVELS:
        raise NoEqualForm(f"is nested {deepest} levels deep, and RedisJSON reads only {_LEVELS}")
    return text.encode()


def _on_bytes(value: object) -> dict[str, str]:
    if not isinstance(value, bytes):
        raise TypeError(f"a {type(value).__name__}")
    return {"__bytes__": b2a_base64(value, newline=False).decode()}


_dump = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), default=_on_bytes
).encode


class _Reader:
    """Makes the envelopes of one value."""

    def __init__(self) -> None:
        self.problem: NoEqualForm | None = None
        self._level = 0
        self._is_first = True

    def on_ext(self, code: int, data: bytes) -> _Made:
        # A snapshot may be large, so its parts are checked and not the whole.
        level = int(not (self._is_first and code == _SNAPSHOT))
        self._is_first = False
        if self._level == 0 and level and depth_bound(data) > _DEEPEST:
            # Each level takes C stack, and here it is not known how many levels there are.
            try:
                skip(data, 0, Limits(nodes=len(data) + 1, depth=_DEEPEST))
            except (PastLimit, ValueError) as error:
                raise self._noted(NoEqualForm(f"cannot become JSON: {error}")) from None
        self._level += level
        try:
            return self._made(code, data)
        except NoEqualForm as problem:
            raise self._noted(problem) from None
        finally:
            self._level -= level

    def _noted(self, problem: NoEqualForm) -> NoEqualForm:
        self.problem = self.problem or problem
        return self.problem

    def _made(self, code: int, data: bytes) -> _Made:
        from ormsgpack import unpackb

        if code == _NUMPY:
            raise NoEqualForm("holds an array of numpy, which RedisSaver cannot store")
        if code not in READ_EXT:
            raise NoEqualForm(f"holds the ext type {code}, which is not known")
        parts = unpackb(data, ext_hook=self.on_ext)
        if code == _SNAPSHOT:
            return _Made(("", ""), {"__delta_snapshot__": True, "value": parts})
        if not isinstance(parts, list) or len(parts) < 3 or not _are_texts(parts[:2]):
            raise NoEqualForm(f"holds an ext type {code} of an unknown form")
        name = parts[0], parts[1]
        made = _envelope(code, name, parts[2], parts[3:])
        if (
            "__send__" not in made
            and any(one in data for one in _BYTES)
            and any(isinstance(one, bytes) for one in inner_values(made))
        ):
            raise NoEqualForm(
                f"holds bytes inside a {_words(name)}, which RedisSaver gives back as a dict"
            )
        return made


def _envelope(code: int, name: TypeName, content: Any, rest: list[Any]) -> _Made:
    if code in (_PYDANTIC_1, _PYDANTIC_2):
        if name in IDS_OF_LANGCHAIN:
            if isinstance(content, dict) and fits(name, content):
                found = {"lc": 1, "type": "constructor", "id": IDS_OF_LANGCHAIN[name]}
                return _Made(name, {**found, "kwargs": content})
            raise NoEqualForm(f"holds a {_words(name)} with unusual fields")
        raise NoEqualForm(
            f"holds an object of {_words(name)}, which RedisSaver gives back as a dict"
        )
    if code == _METHOD:
        if name == DATETIME and rest == ["fromisoformat"] and isinstance(content, str):
            return _made_datetime(content)
    elif code == _FIELDS and name not in FIELDS:
        raise NoEqualForm(
            f"holds an object of {_words(name)}: if it is not a dataclass, RedisSaver gives it"
            " back as a dict"
        )
    elif code == _ARGUMENTS and name in SENDS:
        if not isinstance(content, list):
            raise NoEqualForm("holds a Send of an unknown form")
        node, arg, *timeout = _send(content, {})
        if timeout:
            return _called(SEND, kwargs={"node": node, "arg": arg, "timeout": timeout[0]})
        return _Made(SEND, {"__send__": True, "node": node, "arg": arg})
    elif _is_called(name) and name not in SENDS:
        args: list[Any] = [content] if code == _ONE else []
        if code == _ARGUMENTS and isinstance(content, list):
            args = content
        kwargs = content if code == _FIELDS else {}
        call = _as_call(name, args, kwargs)
        if call is not None and call[0] == code:
            return _called(name, **({"kwargs": kwargs} if code == _FIELDS else {"args": args}))
    if name == DATETIME or (_is_called(name) and name not in SENDS):
        raise NoEqualForm(f"holds a {_words(name)} of an unknown form")
    raise NoEqualForm(f"holds an object of {_words(name)}, which RedisSaver gives back as a dict")


def _called(name: TypeName, **arguments: Any) -> _Made:
    module, cls = name
    found = {"lc": 2, "type": "constructor", "id": [*module.split("."), cls]}
    return _Made(name, found | arguments)


def _made_datetime(text: str) -> _Made:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise NoEqualForm(f"holds a datetime of an unknown form: '{text}'") from None
    args: list[Any] = [at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond]
    if (offset := at.utcoffset()) is not None:
        args.append(_called(TIMEZONE, args=[_made_timedelta(offset)]))
    return _called(DATETIME, args=args)


def _made_timedelta(given: timedelta) -> _Made:
    return _called(TIMEDELTA, args=[given.days, given.seconds, given.microseconds])


def _are_texts(items: Iterable[object]) -> bool:
    return all(isinstance(item, str) for item in items)


def _check_dicts(root: Any) -> None:
    """Raise `NoEqualForm` if RedisSaver or ckpt would take a dict for an object."""
    for item in inner_values(root):
        if isinstance(item, dict) and not isinstance(item, _Made) and looks_marked(item):
            names = ", ".join(f"'{key}'" for key in list(item)[:4])
            raise NoEqualForm(
                f"holds a dict that RedisSaver would take for an object: its keys are {names}"
            )


# Converts pickles to msgpack of LangGraph's serializer, without calling anything.
#
# Each object becomes the ext type from which `JsonPlusSerializer` makes an equal object. msgpack
# has neither tuples nor bytearrays: these become calls of `tuple` and `bytearray`, as if they were
# objects of the application. What would come back as something else is refused.


_OPCODES = 1 << 40
_NODES_PER_BYTE = 8
"""A pickle may refer to the same object often; each reference becomes a copy."""
_FEWEST_NODES = 1_000_000
_TIMES_AS_LONG, _FEWEST_BYTES = 4, 16 << 20
"""Texts and bytes, too, are copied for each reference."""
_DEEPEST_PICKLE = 200
_DELTA = "langgraph.checkpoint.serde.types", "_DeltaSnapshot"
_STANDARD = ONE_ARGUMENT | ARGUMENTS | {DATETIME, ("datetime", "time"), ("re", "_compile")}


def msgpack_of_pickle(data: bytes) -> bytes:
    """The msgpack of a pickled value. Raises `NoEqualForm`."""
    with _reasons():
        return pack_lossless(_Converter(data).value(_root(data)))


def open_pickle(data: bytes) -> tuple[dict[str, Any], dict[str, bytes]]:
    """The fields of a pickled checkpoint but its values, and its values, each as msgpack.

    Raises `NoEqualForm`, with the name of the channel.
    """
    with _reasons():
        root = _root(data)
        if not isinstance(root, Dict):
            raise NoEqualForm("is not a dict")
        converter = _Converter(data)
        fields: dict[str, Any] = {}
        values: dict[str, bytes] = {}
        for name, node in _texts(root):
            if name != CHANNELS or not isinstance(node, Dict):
                fields[name] = converter.value(node)
                continue
            for channel, inner in _texts(node):
                try:
                    values[channel] = pack_lossless(converter.value(inner))
                except NoEqualForm as problem:
                    raise NoEqualForm(f"channel '{channel}' {problem}") from None
        return fields, values


@contextmanager
def _reasons() -> Iterator[None]:
    try:
        yield
    except NoEqualForm:
        raise
    except (ValueError, TypeError, IndexError, KeyError, AttributeError, PastLimit) as error:
        raise NoEqualForm(f"cannot become msgpack: {error}") from None


def _root(data: bytes) -> Node:
    machine = Machine(_OPCODES)
    machine.run(data)
    return machine.root


def _texts(node: Dict) -> Iterator[tuple[str, Node]]:
    for key, value in node.pairs:
        if not isinstance(key, str):
            raise NoEqualForm("has a key that is not text")
        yield key, value


class _Converter:
    """Converts the nodes of one pickle to values with an `Ext` for each object."""

    def __init__(self, data: bytes) -> None:
        self._left = max(_FEWEST_NODES, _NODES_PER_BYTE * len(data))
        self._bytes_left = max(_FEWEST_BYTES, _TIMES_AS_LONG * len(data))
        self._depth = 0
        self._kinds: Mapping[type, Callable[[Any], Any]] = {
            list: self._items,
            tuple: lambda items: _call(_ONE, ("builtins", "tuple"), self._items(items)),
            bytearray: lambda data: _call(_ONE, _BYTEARRAY, bytes(data)),
            Dict: self._dict,
            Set: self._set,
            Object: self._object,
        }

    def value(self, node: Node) -> Any:
        self._left -= 1
        if self._left < 0:
            raise NoEqualForm("refers to the same objects too often")
        if isinstance(node, str | bytes):
            self._bytes_left -= len(node)
            if self._bytes_left < 0:
                raise NoEqualForm("refers to the same texts too often")
            return node
        if node is None or isinstance(node, bool | int | float):
            return node
        convert = self._kinds.get(type(node))
        if convert is None:
            words = "a class or function" if isinstance(node, Global) else "an unknown object"
            raise NoEqualForm(f"holds {words}")
        if self._depth >= _DEEPEST_PICKLE:
            raise NoEqualForm(f"is nested deeper than {_DEEPEST_PICKLE} levels, or contains itself")
        self._depth += 1
        try:
            return convert(node)
        finally:
            self._depth -= 1

    def _items(self, nodes: Iterable[Node]) -> list[Any]:
        return [self.value(node) for node in nodes]

    def _dict(self, node: Dict) -> dict[Any, Any]:
        made: dict[Any, Any] = {}
        for key, value in node.pairs:
            if not _is_plain(key):
                raise NoEqualForm("holds a dict with keys that msgpack does not have")
            made[key] = self.value(value)
        return made

    def _set(self, node: Set) -> Ext:
        return self._collection("frozenset" if node.frozen else "set", node.items)

    def _collection(self, name: str, nodes: list[Node]) -> Ext:
        return _call(_ONE, ("builtins", name), self._items(nodes))

    def _object(self, node: Object) -> Any:
        if isinstance(node.callee, Object):
            # `getattr(cls, "name")`: only that of `ZoneInfo` is known.
            match node.callee:
                case Object(Global(), (Global("zoneinfo", "ZoneInfo"), "_unpickle")):
                    return _call(_ONE, ("zoneinfo", "ZoneInfo"), node.args[0])
            raise NoEqualForm("holds an object that a method made")
        named = isinstance(node.kwargs, Dict) and node.kwargs.pairs
        if named or not isinstance(node.callee, Global):
            raise NoEqualForm("holds an object of an unknown form")
        name = _name(node.callee)
        if name == _DELTA:
            return Ext(_SNAPSHOT, pack_lossless(self.value(node.args[0])))
        if name in _STANDARD:
            return _standard(name, node)
        if name == _BYTEARRAY and node.args and isinstance(node.args[0], bytes):
            return _call(_ONE, name, node.args[0])
        if name == ("collections", "deque"):
            return self._deque(node)
        if node.states and not node.args and not node.items and not node.pairs:
            return self._with_state(name, node.states)
        return self._called(name, node)

    def _deque(self, node: Object) -> Ext:
        items = self._items(node.items)
        match node.args:
            case () | ((),):
                return _call(_ONE, ("collections", "deque"), items)
            case ((), int(most)):
                return _call(_ARGUMENTS, ("collections", "deque"), [items, most])
        raise NoEqualForm("holds a deque of an unknown form")

    def _with_state(self, name: TypeName, states: list[Node]) -> Ext:
        """The ext type of an object whose fields a state sets."""
        state = states[0] if len(states) == 1 else None
        match state:
            case (None | Dict() as own, Dict() as slots):
                state = Dict([*(own.pairs if own else []), *slots.pairs])
            case list() if name in FIELDS and len(state) == len(FIELDS[name]):
                state = Dict(list(zip(FIELDS[name], state, strict=True)))
        if not isinstance(state, Dict):
            raise NoEqualForm(f"holds an object of {_words(name)} of an unknown form")
        fields = dict(_texts(state))
        for mark, code in (
            ("__pydantic_fields_set__", _PYDANTIC_2),
            ("__fields_set__", _PYDANTIC_1),
        ):
            if mark in fields:
                return self._pydantic(name, code, fields)
        made = {key: self.value(one) for key, one in fields.items()}
        if name in SENDS and {*made} <= {"node", "arg", "timeout"}:
            timeout = [] if made.get("timeout") is None else [made["timeout"]]
            return _call(_ARGUMENTS, name, [made["node"], made["arg"], *timeout])
        if name in FIELDS and fits(name, made):
            return _call(_FIELDS, name, made)
        raise NoEqualForm(
            f"holds an object of {_words(name)}, which LangGraph's serializer may not give back"
        )

    def _pydantic(self, name: TypeName, code: int, fields: dict[str, Node]) -> Ext:
        inner, extra = fields.get("__dict__"), fields.get("__pydantic_extra__")
        private = fields.get("__pydantic_private__", fields.get("__private_attribute_values__"))
        if not isinstance(inner, Dict) or not isinstance(extra, Dict | None):
            raise NoEqualForm(f"holds an object of {_words(name)} of an unknown form")
        if private is not None and (not isinstance(private, Dict) or private.pairs):
            raise NoEqualForm(f"holds private fields of a {_words(name)}, which would be lost")
        made = self._dict(Dict([*inner.pairs, *(extra.pairs if extra else [])]))
        if (name in MESSAGES or name == LANGCHAIN_DOCUMENT) and not fits(name, made):
            raise NoEqualForm(f"holds a {_words(name)} with unusual fields")
        rest = ["model_validate_json"] if code == _PYDANTIC_2 else []
        return Ext(code, pack_lossless([*name, made, *rest]))

    def _called(self, name: TypeName, node: Object) -> Ext:
        """The ext type that makes the same call, such as that of an enum with its value."""
        if node.states or node.items or node.pairs or not node.args:
            raise NoEqualForm(f"holds an object of {_words(name)} of an unknown form")
        if name[0].partition(".")[0] in sys.stdlib_module_names or "." in name[1]:
            raise NoEqualForm(f"holds an object of {_words(name)}, which is not copied")
        args = self._items(node.args)
        if len(args) == 1:
            return _call(_ONE, name, args[0])
        return _call(_ARGUMENTS, name, args)


def _is_plain(key: Node) -> bool:
    """Whether a key of a dict is the same in msgpack, which has tuples as keys."""
    if isinstance(key, tuple):
        return all(_is_plain(part) for part in key)
    return key is None or isinstance(key, bool | int | float | str)


def _name(node: Global) -> TypeName:
    module, name = OLD_MODULES.get(node.module, node.module), node.name
    if node.module == "__builtin__":
        name = OLD_NAMES.get(name, name)
    return module.replace("pathlib._local", "pathlib", 1), name


def _is_folded(args: tuple[Node, ...]) -> bool:
    return bool(args) and isinstance(args[0], bytes) and len(args[0]) == 10 and args[0][2] > 127


def _standard(name: TypeName, node: Object) -> Ext:
    """The ext type of an object of the standard library."""
    if name == DATETIME and _is_folded(node.args):
        raise NoEqualForm("holds a datetime with fold=1, which would be lost")
    return _ext_of(_inert(node))


def _inert(node: Node) -> Value:
    """The inert value of an argument of the standard library's classes."""
    if node is None or isinstance(node, bool | int | float | str | bytes):
        return node
    if isinstance(node, list):
        return [_inert(item) for item in node]
    if isinstance(node, tuple):
        return Tagged(TUPLE, [_inert(item) for item in node])
    if isinstance(node, Dict):
        return {key: _inert(one) for key, one in _texts(node)}
    if isinstance(node, Object) and isinstance(node.callee, Global):
        name = _name(node.callee)
        if name in _STANDARD:
            args = [_inert(one) for one in node.args]
            return build(
                ".".join(name), Parts(args, states=[_inert(one) for one in node.states]), 0
            )
    raise NoEqualForm("holds an object of an unknown form")


def _ext_of(found: Value) -> Ext:
    """The ext type for an inert object of the standard library."""
    if isinstance(found, Tagged):
        module, _, cls = found.type.rpartition(".")
        name, payload = (module, cls), found.payload
        if name == DATETIME and isinstance(payload, str):
            return Ext(_METHOD, pack_lossless([*name, payload, "fromisoformat"]))
        if name == ("datetime", "time") and isinstance(payload, dict):
            zone = payload.get("tzinfo")
            made = {**payload, "tzinfo": None if zone is None else _ext_of(zone)}
            return _call(_FIELDS, name, made)
        if name == TIMEZONE and isinstance(payload, list):
            return _call(_ARGUMENTS, name, [_ext_of(payload[0]), *payload[1:]])
        if module == "ipaddress" and isinstance(payload, int):
            payload = _address(cls, payload)
        if name in ONE_ARGUMENT and isinstance(payload, str):
            return _call(_ONE, name, payload)
        if name in ARGUMENTS and isinstance(payload, list):
            return _call(_ARGUMENTS, name, payload)
        raise NoEqualForm(f"holds a {_words(name)} of an unknown form")
    raise NoEqualForm("holds an object of an unknown form")


def _address(cls: str, number: int) -> str:
    """The text of an address that is pickled as a number."""
    import ipaddress  # loaded when needed

    kind = ipaddress.IPv4Address if cls == "IPv4Address" else ipaddress.IPv6Address
    return str(kind(number))
