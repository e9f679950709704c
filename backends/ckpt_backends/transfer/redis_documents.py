"""Converts msgpack of LangGraph's serializer to the JSON of RedisSaver's documents.

Each object becomes the envelope or marker from which RedisSaver makes the same object:

* its `_recursive_deserialize` knows `__bytes__`, `__send__`, `__delta_snapshot__` and envelopes;
* inside an envelope, `_revive_if_needed` knows `__interrupt__`, but not `__bytes__`;
* an `lc` 2 envelope calls dataclasses and the types that `official_types` lists. It ignores
  methods, so a datetime is written as its numbers.

What it would revive as something else is refused. Source: `jsonplus_redis.py` and `base.py` of
langgraph-checkpoint-redis 0.5.2.
"""

from __future__ import annotations

import json
import re
from binascii import b2a_base64
from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import accumulate
from typing import Any

from ckpt_backends.codec.limits import Limits, PastLimit
from ckpt_backends.codec.msgpack.cursor import READ_EXT, depth_bound, skip
from ckpt_backends.transfer.exact_floats import exact_floats
from ckpt_backends.transfer.official_types import (
    ARGUMENTS,
    COLLECTIONS,
    DATETIME,
    FIELDS,
    HASHABLE,
    IDS_OF_LANGCHAIN,
    ONE_ARGUMENT,
    SEND,
    SENDS,
    TIMEDELTA,
    TIMEZONE,
    TypeName,
    call_works,
    fits,
)
from ckpt_backends.transfer.unfit import NoEqualForm

_ONE, _ARGUMENTS, _FIELDS, _METHOD, _PYDANTIC_1, _PYDANTIC_2, _NUMPY, _SNAPSHOT = READ_EXT
_MARKS = re.compile(rb"\xa2lc|\x02lc|__(?:bytes|send|interrupt|delta_snapshot)__")
"""Found in each value with a dict that RedisSaver could take for an object, and in others."""
_BYTES = (b"\xc4", b"\xc5", b"\xc6")
_FLOAT = b"\xcb"
_DEEPEST = 200
_LEVELS = 120
"""RedisJSON reads 127 levels; three of them are above the values."""
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"')
_STEPS = dict.fromkeys(b"[{", 1) | dict.fromkeys(b"]}", -1)
_NOT_BRACKETS = bytes(byte for byte in range(256) if byte not in _STEPS)


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
    made = text.encode()
    _check_depth(made)
    return made


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
        if "__send__" not in made and any(one in data for one in _BYTES) and _has_bytes(made):
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
            return _datetime(content)
    elif code == _FIELDS:
        if name in FIELDS and isinstance(content, dict) and fits(name, content):
            return _called(name, kwargs=content)
        if name not in FIELDS:
            raise NoEqualForm(
                f"holds an object of {_words(name)}: if it is not a dataclass, RedisSaver gives it"
                " back as a dict"
            )
    elif code == _ONE:
        if name in ONE_ARGUMENT and call_works(name, content):
            return _called(name, args=[content])
        if name in COLLECTIONS and isinstance(content, list):
            if name[0] == "builtins":
                _check_hashable(name, content)
            return _called(name, args=[content])
    elif name in SENDS:
        return _send(content)
    elif name in ARGUMENTS and isinstance(content, list) and _arguments_fit(name, content):
        return _called(name, args=content)
    if name in ONE_ARGUMENT | ARGUMENTS | COLLECTIONS | FIELDS.keys() | {DATETIME}:
        raise NoEqualForm(f"holds a {_words(name)} of an unknown form")
    raise NoEqualForm(f"holds an object of {_words(name)}, which RedisSaver gives back as a dict")


def _called(name: TypeName, **arguments: Any) -> _Made:
    module, cls = name
    found = {"lc": 2, "type": "constructor", "id": [*module.split("."), cls]}
    return _Made(name, found | arguments)


def _send(content: Any) -> _Made:
    match content:
        case [str(node), arg] | [str(node), arg, None]:
            return _Made(SEND, {"__send__": True, "node": node, "arg": arg})
        case [str(node), arg, timeout]:
            return _called(SEND, kwargs={"node": node, "arg": arg, "timeout": timeout})
    raise NoEqualForm("holds a Send of an unknown form")


def _datetime(text: str) -> _Made:
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise NoEqualForm(f"holds a datetime of an unknown form: '{text}'") from None
    args: list[Any] = [at.year, at.month, at.day, at.hour, at.minute, at.second, at.microsecond]
    if (offset := at.utcoffset()) is not None:
        args.append(_called(TIMEZONE, args=[_timedelta(offset)]))
    return _called(DATETIME, args=args)


def _timedelta(given: timedelta) -> _Made:
    return _called(TIMEDELTA, args=[given.days, given.seconds, given.microseconds])


def _arguments_fit(name: TypeName, content: list[Any]) -> bool:
    if name == ("re", "compile"):
        return len(content) == 2 and isinstance(content[0], str) and type(content[1]) is int
    if name == TIMEZONE:
        given, *title = content or [None]
        known = isinstance(given, _Made) and given.type == TIMEDELTA
        return known and len(title) < 2 and _are_texts(title)
    if name[0] == "datetime":
        return len(content) == 3 and all(type(one) is int for one in content)
    return _are_texts(content)


def _check_hashable(name: TypeName, items: list[Any]) -> None:
    for item in items:
        if isinstance(item, list | dict) and getattr(item, "type", None) not in HASHABLE:
            raise NoEqualForm(f"holds a {name[1]} with items that a {name[1]} cannot have")


def _are_texts(items: Iterable[object]) -> bool:
    return all(isinstance(item, str) for item in items)


def _has_bytes(root: Any) -> bool:
    todo = [root]
    while todo:
        item = todo.pop()
        if isinstance(item, bytes):
            return True
        if isinstance(item, dict):
            todo.extend(item.values())
        elif isinstance(item, list):
            todo.extend(item)
    return False


def _check_dicts(root: Any) -> None:
    """Raise `NoEqualForm` if RedisSaver or ckpt would take a dict for an object."""
    todo = [root]
    while todo:
        item = todo.pop()
        if isinstance(item, list):
            todo.extend(item)
        elif isinstance(item, dict):
            todo.extend(item.values())
            if not isinstance(item, _Made) and looks_marked(item):
                names = ", ".join(f"'{key}'" for key in list(item)[:4])
                raise NoEqualForm(
                    f"holds a dict that RedisSaver would take for an object: its keys are {names}"
                )


def looks_marked(fields: dict[Any, Any]) -> bool:
    """Whether a dict has the shape of a marker or an envelope of RedisSaver."""
    if "__bytes__" in fields and len(fields) == 1:
        return True
    if any(fields.get(f"__{one}__") is True for one in ("send", "interrupt", "delta_snapshot")):
        return True
    kinds = ("constructor", "secret", "not_implemented")
    return fields.get("lc") in (1, 2) and fields.get("type") in kinds


def _check_depth(text: bytes) -> None:
    if text.count(b"[") + text.count(b"{") <= _LEVELS:
        return
    brackets = _TEXT.sub(b"", text).translate(None, _NOT_BRACKETS)
    deepest = max(accumulate(map(_STEPS.__getitem__, brackets)), default=0)
    if deepest > _LEVELS:
        raise NoEqualForm(f"is nested {deepest} levels deep, and RedisJSON reads only {_LEVELS}")


def _words(name: TypeName) -> str:
    return f"'{name[0]}.{name[1]}'"
