"""Converts JSON with envelopes and markers to msgpack of LangGraph's serializer.

Each object becomes the ext type from which `JsonPlusSerializer` makes the same object as the reader
of the JSON. There are three readers, which differ:

* `DOCUMENT`: RedisSaver, for values in a document (`_recursive_deserialize`);
* `WRITE`: RedisSaver, for writes and for what is inside an envelope (`_revive_if_needed`);
* `TYPED`: `JsonPlusSerializer` (`_reviver`), for values of type `json` of old releases.

What the reader makes of an unknown class cannot be known, so that is refused.
"""

from __future__ import annotations

import json
from binascii import a2b_base64
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, NoReturn

from ckpt_backends.codec.json.json_plus import BOM
from ckpt_backends.codec.msgpack.cursor import READ_EXT
from ckpt_backends.codec.msgpack.lossless import Ext, pack_lossless
from ckpt_backends.transfer.official_types import (
    ARGUMENTS,
    COLLECTIONS,
    DATETIME,
    FIELDS,
    HASHABLE,
    INTERRUPT,
    LANGCHAIN_IDS,
    MESSAGES,
    ONE_ARGUMENT,
    SEND,
    SENDS,
    SET,
    TIMEZONE,
    TypeName,
    call_works,
    fits,
)
from ckpt_backends.transfer.unfit import NoEqualForm

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
    if name in MESSAGES or name == ("langchain_core.documents.base", "Document"):
        if not args:
            return _pydantic(name, kwargs)
    elif name in FIELDS:
        if not args and isinstance(kwargs, dict) and fits(name, kwargs):
            return _call(_FIELDS, name, kwargs)
    elif name in SENDS:
        return _send(args, kwargs)
    elif name in ONE_ARGUMENT:
        if len(args) == 1 and not kwargs and call_works(name, args[0]):
            return _call(_ONE, name, args[0])
    elif name in COLLECTIONS:
        few = (1,) if reader.is_redis and name == SET else (0, 1)
        if len(args) in few and not kwargs and all(isinstance(one, list) for one in args):
            return _collection(name, args[0] if args else [])
    elif name in ARGUMENTS:
        if not kwargs and isinstance(args, list) and _arguments_fit(name, args):
            return _call(_ARGUMENTS, name, args)
    else:
        why = "what RedisSaver makes of it depends on whether it is a dataclass"
        if not reader.is_redis:
            why = "LangGraph gives it back as a dict"
        raise NoEqualForm(f"holds an object of {_words(name)}: {why}")
    raise NoEqualForm(f"holds a {_words(name)} that {reader.name} does not give back")


def _send(args: list[Any], kwargs: dict[str, Any]) -> Ext:
    if not args and {"node", "arg"} <= {*kwargs} <= {"node", "arg", "timeout"}:
        args, kwargs = [kwargs["node"], kwargs["arg"], kwargs.get("timeout")], {}
    if kwargs or len(args) not in (2, 3) or not isinstance(args[0], str):
        raise NoEqualForm("holds a Send of an unknown form")
    return _call(_ARGUMENTS, SEND, args if args[2:] not in ([], [None]) else args[:2])


def _collection(name: TypeName, items: list[Any]) -> Ext:
    if name[0] == "builtins":
        for item in items:
            if isinstance(item, list | dict) or (isinstance(item, Ext) and not _is_hashable(item)):
                raise NoEqualForm(f"holds a {name[1]} with items that a {name[1]} cannot have")
    return _call(_ONE, name, items)


def _is_hashable(item: Ext) -> bool:
    from ckpt_backends.codec.msgpack.lossless import unpack_lossless

    found = unpack_lossless(item.data)
    return isinstance(found, list) and tuple(found[:2]) in HASHABLE


def _arguments_fit(name: TypeName, args: list[Any]) -> bool:
    if name == ("re", "compile"):
        return len(args) == 2 and isinstance(args[0], str) and type(args[1]) is int
    if name == TIMEZONE:
        return len(args) in (1, 2) and isinstance(args[0], Ext) and isinstance(args[-1], Ext | str)
    if name[0] == "datetime":
        return len(args) == 3 and all(type(one) is int for one in args)
    return all(isinstance(one, str) for one in args)


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
