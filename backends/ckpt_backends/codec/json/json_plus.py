"""Decodes JSON of LangGraph's serializer. Constructor envelopes become `Tagged` nodes.

No class that an envelope names is imported.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from ckpt_backends.codec.json import javascript
from ckpt_backends.codec.json.langchain_names import class_name
from ckpt_backends.codec.limits import PastLimit, Span, past_bytes, past_counts
from ckpt_backends.codec.values import Cut, Tagged, Value

if TYPE_CHECKING:
    from ckpt_backends.codec.limits import Limits

BOM = b"\xef\xbb\xbf"

_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{},]', re.DOTALL)
_SPACE = re.compile(r"[ \t\r\n]*")
_MAX_DIGITS = 4000
"""Integers with more digits are not parsed: Python's limit is 4300, as parsing is quadratic."""

_MARKS = ('"lc"', '"lg_name"', "\\")
"""One of these is in each text with an object that `revive` changes."""

_LISTS = frozenset({"re.compile", "datetime.timedelta", "datetime.date", "datetime.timezone"})
"""Types with a list as payload even if they have only one argument. `pathlib` types have too."""
_DATETIME = "datetime.datetime"
_TIME = ("hour", "minute", "second", "microsecond", "tzinfo")


def decode_json(data: bytes, limits: Limits, decoder: json.JSONDecoder | None = None) -> Value:
    """Decode a JSON text with `DECODER` or another decoder.

    Raises `PastLimit`, and ValueError if the text is not JSON.
    """
    if reason := past_bytes(len(data), limits):
        raise PastLimit(reason)
    text = data.removeprefix(BOM).decode("utf-8", "surrogatepass")
    check(text, limits)
    value: Value = (decoder or _decoder_of(text)).decode(text)
    return value


def cut_json(data: bytes, limits: Limits, reason: str) -> Cut:
    """The beginning of the JSON text, as much as the limits allow."""
    return Cut(data[: limits.value_bytes].decode(errors="ignore"), len(data), reason)


def check(text: str, limits: Limits) -> None:
    """Raise `PastLimit` if the text exceeds a limit. Each opening bracket and comma is a node."""
    opened = text.count("[") + text.count("{")
    if opened > limits.depth or opened + text.count(",") > limits.nodes:
        measure(text, len(text) - len(text.lstrip()), limits)


def measure(text: str, pos: int, limits: Limits | None = None) -> Span:
    """Find the end of the value at `pos`, in characters, and count its nodes.

    If brackets are not closed, the value ends with the text. Raises `PastLimit` if `limits` is
    given and exceeded, and ValueError for a scalar that is not JSON.
    """
    depth = deepest = 0
    nodes = 1
    if text[pos : pos + 1] not in ("[", "{"):
        return Span(DECODER.raw_decode(text, pos)[1], nodes, depth)
    for token in _TOKEN.finditer(text, pos):
        mark = token[0]
        if mark[0] == '"':
            continue
        if mark in ("]", "}"):
            depth -= 1
            if depth == 0:
                return Span(token.end(), nodes, deepest)
            continue
        nodes += 1
        if mark != ",":
            depth += 1
            deepest = max(deepest, depth)
        if limits and (nodes > limits.nodes or depth > limits.depth):
            raise PastLimit(past_counts(nodes, depth, limits))
    return Span(len(text), nodes, deepest)


def skip_space(text: str, pos: int) -> int:
    """The position of the next character that is not white space."""
    match = _SPACE.match(text, pos)
    return match.end() if match else pos


def integer(text: str) -> Value:
    return int(text) if len(text) <= _MAX_DIGITS else Tagged("builtins.int", text)


def revive(fields: dict[Any, Any]) -> Value:
    """The node for an envelope of LangChain (`lc` 1) or LangGraph (`lc` 2); otherwise `fields`."""
    version = fields.get("lc")
    if version not in (1, 2) or type(version) is not int:
        return javascript.revive_plain(fields)
    if version == 2 and (found := javascript.revive(fields)) is not None:
        return found
    path = fields.get("id")
    if not isinstance(path, list) or not path:
        return fields
    names = [part for part in path if isinstance(part, str)]
    if len(names) != len(path):
        return fields
    name = ".".join(names)
    if version == 2:
        # Python's classes always have a module. `javascript.revive` knows all others.
        return _constructor(name, fields) if len(names) > 1 else fields
    kwargs = fields.get("kwargs", {})
    match fields.get("type"):
        case "constructor" if isinstance(kwargs, dict):
            return Tagged(class_name(name), kwargs)
        case "secret":
            return Tagged("langchain.secret", name)
        case "not_implemented":
            rest = {key: part for key, part in fields.items() if key not in ("lc", "type", "id")}
            return Tagged(name, rest)
    return fields


def _constructor(name: str, fields: dict[Value, Value]) -> Value:
    """The node for an `lc` 2 envelope. It is the same as for the same object in msgpack."""
    args = fields.get("args") or []
    kwargs = fields.get("kwargs") or {}
    method = fields.get("method")
    if fields.get("type") != "constructor" or not isinstance(args, list):
        return fields
    if not isinstance(kwargs, dict):
        return fields
    if isinstance(method, list):
        # A Pydantic object: first the constructor, then a fallback method.
        method = None
    if method is not None and not isinstance(method, str):
        return fields
    if name == "datetime.time" and len(args) <= len(_TIME):
        return Tagged(name, {**dict(zip(_TIME, args, strict=False)), **kwargs})
    if name == _DATETIME and method is None and (found := _of_numbers(args)) is not None:
        return found
    if args and kwargs:
        return fields
    if kwargs:
        if name in ("langgraph.types.Send", "langgraph.constants.Send") and {*kwargs} == {
            "node",
            "arg",
        }:
            return Tagged(name, [kwargs["node"], kwargs["arg"]])
        return Tagged(name if method is None else f"{name}.{method}", kwargs)
    if method is not None and (name, method) != ("datetime.datetime", "fromisoformat"):
        if method == "fromhex" and len(args) == 1:
            return _from_hex(name, args[0], fields)
        name = f"{name}.{method}"
    if len(args) == 1 and name not in _LISTS and not name.startswith("pathlib."):
        return Tagged(name, args[0])
    return Tagged(name, args)


def _of_numbers(args: list[Any]) -> Tagged | None:
    """A datetime that is stored as its numbers, perhaps with a fixed offset from UTC."""
    from datetime import datetime, timedelta, timezone

    offset: list[Any] = []
    match args:
        case [*numbers, Tagged("datetime.timezone", [Tagged("datetime.timedelta", [*offset])])]:
            pass
        case [*numbers]:
            pass
    if not 3 <= len(numbers) <= 7 or not all(type(one) is int for one in (*numbers, *offset)):
        return None
    try:
        at = datetime(*numbers, tzinfo=timezone(timedelta(*offset)) if offset else None)  # type: ignore[misc]
        return Tagged(_DATETIME, at.isoformat())
    except (ValueError, TypeError, OverflowError):
        return None


def _from_hex(name: str, text: Value, fields: dict[Value, Value]) -> Value:
    if not isinstance(text, str) or name not in ("builtins.bytes", "builtins.bytearray"):
        return fields
    try:
        data = bytes.fromhex(text)
    except ValueError:
        return fields
    return data if name == "builtins.bytes" else Tagged(name, data)


DECODER = json.JSONDecoder(object_hook=revive, parse_int=integer)
"""Decodes one JSON text. The caller must check the nesting depth first."""
_PLAIN = json.JSONDecoder()


def _decoder_of(text: str) -> json.JSONDecoder:
    """`DECODER`, or the decoder that gives the same where it has nothing to revive, in half of the
    time: most bodies and metadata in JSON are short and hold no envelope.
    """
    if len(text) > _MAX_DIGITS or any(mark in text for mark in _MARKS):
        return DECODER
    return _PLAIN
