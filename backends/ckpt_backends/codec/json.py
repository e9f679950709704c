"""Decodes JSON of LangGraph's serializer. Constructor envelopes become `Tagged` nodes.

No class that an envelope names is imported.
"""

from __future__ import annotations

import json
import re
from binascii import a2b_base64
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ckpt_backends.codec.values import (
    CHANNELS,
    DELTA_SNAPSHOT,
    REDIS_JSON,
    UNDEFINED,
    Budget,
    Cut,
    PastLimit,
    Span,
    Tagged,
    Value,
    body_budgets,
    past_bytes,
    past_counts,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ckpt_backends.codec.values import Limits


# Decodes the `lc` 2 envelopes that only LangGraph.js writes.
#
# Source: `_default` in `@langchain/langgraph-checkpoint/dist/serde/jsonplus.js`, 0.0.18 and
# 1.2.2. The `id` of a constructor is a single name; in envelopes of Python, it begins with a
# module.


_PREFIX = "javascript"
_SET = "builtins.set"


def revive_javascript(fields: dict[Any, Any]) -> Value:
    """The value of an `lc` 2 envelope; None if LangGraph.js does not write such an envelope."""
    match fields:
        case {"type": "undefined"} if len(fields) == 2:
            return UNDEFINED
        case {"type": "delta_snapshot", "value": value} if len(fields) == 3:
            return Tagged(DELTA_SNAPSHOT, value)
        case {"type": "constructor", "id": [str(name)], "args": list(args)}:
            if not fields.get("kwargs"):
                return _javascript_object(name, fields.get("method"), args)
    return None


def revive_plain(fields: dict[Any, Any]) -> Value:
    """A DeltaSnapshot that was stored without the serializer, as on Redis; otherwise `fields`.

    LangGraph.js recognises it by `lg_name`: see `isDeltaSnapshot` in `serde/types.js`.
    """
    if fields.keys() == {"lg_name", "value"} and fields["lg_name"] == "DeltaSnapshot":
        return Tagged(DELTA_SNAPSHOT, fields["value"])
    return fields


def _javascript_object(name: str, method: Any, args: list[Any]) -> Value:
    match name, method, args:
        case "Set", None, [list(members)]:
            return Tagged(_SET, members)
        case "Map", None, [list(pairs)] if all(map(_is_pair, pairs)):
            return _map(pairs)
        case "RegExp", None, [str(), str()]:
            return Tagged(f"{_PREFIX}.RegExp", args)
        case "Uint8Array", "from" | None, [list(items)] if all(map(_is_byte, items)):
            return bytes(items)
        case _, None, [str(message)] if name.endswith("Error"):
            # Older versions store the class of an error, newer ones only `Error`.
            return Tagged(f"{_PREFIX}.{name}", message)
    return None


def _map(pairs: list[Any]) -> Value:
    """A Map as a dict, if its keys are plain and no two of them are equal in Python (1 and true).

    Otherwise a `Tagged` list of pairs.
    """
    if all(isinstance(key, str | int | float | None) for key, _ in pairs):
        found: dict[Value, Value] = dict(pairs)
        if len(found) == len(pairs):
            return found
    return Tagged(f"{_PREFIX}.Map", pairs)


def _is_pair(value: Value) -> bool:
    return isinstance(value, list) and len(value) == 2


def _is_byte(value: Value) -> bool:
    return type(value) is int and 0 <= value <= 255


# The classes of messages that LangChain's envelopes name by an older path.
#
# Source: `langchain_core/load/mapping.py` of langchain-core 1.7.


_OLD = "langchain.schema.messages."
_NEW = "langchain_core.messages."
_MODULES = {
    **dict.fromkeys(("AIMessage", "AIMessageChunk"), "ai"),
    **dict.fromkeys(("ChatMessage", "ChatMessageChunk"), "chat"),
    **dict.fromkeys(("FunctionMessage", "FunctionMessageChunk"), "function"),
    **dict.fromkeys(("HumanMessage", "HumanMessageChunk"), "human"),
    **dict.fromkeys(("SystemMessage", "SystemMessageChunk"), "system"),
    **dict.fromkeys(("ToolMessage", "ToolMessageChunk"), "tool"),
    "RemoveMessage": "modifier",
}


def class_name(path: str) -> str:
    """The module and the class that a path means: `langchain_core.messages.ai.AIMessage`."""
    name = path.removeprefix(_OLD)
    if name == path or name not in _MODULES:
        return path
    return f"{_NEW}{_MODULES[name]}.{name}"


BOM = b"\xef\xbb\xbf"

_TOKEN = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[\[\]{},]', re.DOTALL)
_SPACE = re.compile(r"[ \t\r\n]*")
_MAX_DIGITS = 4000
"""Integers with more digits are not parsed: Python's limit is 4300, as parsing is quadratic."""

_LISTS = frozenset({"re.compile", "datetime.timedelta", "datetime.date", "datetime.timezone"})
"""Types with a list as payload even if they have only one argument. `pathlib` types have too."""
_DATETIME = "datetime.datetime"
_TIME = ("hour", "minute", "second", "microsecond", "tzinfo")


def decode_json(data: bytes, limits: Limits, tag: str = "json") -> Value:
    """Decode a JSON text with this type tag.

    Raises `PastLimit`, and ValueError if the text is not JSON.
    """
    if reason := past_bytes(len(data), limits):
        raise PastLimit(reason)
    text = data.removeprefix(BOM).decode("utf-8", "surrogatepass")
    check(text, limits)
    value: Value = _DECODERS[tag].decode(text)
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


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON. Raises `ValueError` if a name appears twice: readers may differ then."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("duplicate key in a map")
    return found


def integer(text: str) -> Value:
    return int(text) if len(text) <= _MAX_DIGITS else Tagged("builtins.int", text)


def revive(fields: dict[Any, Any]) -> Value:
    """The node for an envelope of LangChain (`lc` 1) or LangGraph (`lc` 2); otherwise `fields`."""
    version = fields.get("lc")
    if version not in (1, 2) or type(version) is not int:
        return revive_plain(fields)
    if version == 2 and (found := revive_javascript(fields)) is not None:
        return found
    path = fields.get("id")
    if not isinstance(path, list) or not path:
        return fields
    names = [part for part in path if isinstance(part, str)]
    if len(names) != len(path):
        return fields
    name = ".".join(names)
    if version == 2:
        # Python's classes always have a module. `revive_javascript` knows all others.
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


# Reads a JSON checkpoint body entry by entry, so one huge channel does not hide the others.


def json_body(data: bytes, limits: Limits, tag: str) -> Value:
    """Decode a body, cutting each large entry separately. Raises ValueError if it is invalid."""
    text = data.removeprefix(BOM).decode("utf-8", "surrogatepass")
    top, channels = body_budgets(limits)
    body: dict[Value, Value] = {}
    values: dict[Value, Value] = {}

    def entry(found: dict[Value, Value], budget: Budget, key: str, pos: int) -> int:
        span = measure(text, pos)
        size = len(text[pos : span.end].encode(errors="surrogatepass"))
        if reason := budget.spend(span, size):
            found[key] = Cut(text[pos : min(span.end, pos + limits.value_bytes)], size, reason)
            return span.end
        found[key], end = _DECODERS[tag].raw_decode(text, pos)
        return end

    def top_entry(key: str, pos: int) -> int:
        if key == CHANNELS and text.startswith("{", pos):
            body[key] = values
            return members(text, pos, partial(entry, values, channels))[1]
        return entry(body, top, key, pos)

    members(text, skip_space(text, 0), top_entry)
    return body


def json_channel_sizes(data: bytes) -> dict[str, int]:
    """Stored bytes by channel. Raises ValueError if the body is not valid."""
    text = data.removeprefix(BOM).decode("utf-8", "surrogatepass")
    channels: list[Member] = []

    def end_of(name: str, pos: int) -> int:
        if name == CHANNELS and text.startswith("{", pos):
            found, end = members(text, pos)
            channels[:] = found
            return end
        return measure(text, pos).end

    members(text, skip_space(text, 0), end_of)
    return {
        one.key: len(text[one.value : one.end].encode(errors="surrogatepass")) for one in channels
    }


class Member(NamedTuple):
    """A member of a JSON object in a text."""

    key: str
    start: int
    """Where its key begins."""
    key_end: int
    value: int
    """Where its value begins."""
    end: int


def members(
    text: str, pos: int, end_of: Callable[[str, int], int] | None = None
) -> tuple[list[Member], int]:
    """The members of the object at `pos`, and its end. Raises ValueError if it is none.

    `end_of` returns the end of a value, by its key and where it begins; else it is measured.
    """
    found: list[Member] = []
    pos = _entered(text, pos, "{")
    while not text.startswith("}", pos):
        if not text.startswith('"', pos):
            raise ValueError(f"no key at character {pos}")
        key, key_end = DECODER.raw_decode(text, pos)
        colon = skip_space(text, key_end)
        if not text.startswith(":", colon):
            raise ValueError(f"no colon at character {colon}")
        value = skip_space(text, colon + 1)
        end = end_of(key, value) if end_of else measure(text, value).end
        found.append(Member(key, pos, key_end, value, end))
        pos = _behind_comma(text, end, "}")
    return found, pos + 1


def items(text: str, pos: int) -> tuple[list[tuple[int, int]], int]:
    """Where the items of the list at `pos` begin and end, and its end. Raises ValueError."""
    found: list[tuple[int, int]] = []
    pos = _entered(text, pos, "[")
    while not text.startswith("]", pos):
        found.append((pos, measure(text, pos).end))
        pos = _behind_comma(text, found[-1][1], "]")
    return found, pos + 1


def _entered(text: str, pos: int, mark: str) -> int:
    if not text.startswith(mark, pos):
        raise ValueError("not an object" if mark == "{" else "not a list")
    return skip_space(text, pos + 1)


def _behind_comma(text: str, pos: int, last: str) -> int:
    """Where the next entry begins, or the mark is that ends the list or object."""
    pos = skip_space(text, pos)
    if text.startswith(last, pos):
        return pos
    following = skip_space(text, pos + 1)
    if not text.startswith(",", pos) or text.startswith(last, following):
        raise ValueError(f"neither comma nor end at character {pos}")
    return following


# Decodes the JSON of langgraph-checkpoint-redis, with marker objects such as `__bytes__`.
#
# The markers represent types that JSON does not have. Source: `_preprocess_redis_json` and
# `_revive_if_needed` in `jsonplus_redis.py`, 0.1.0 to 0.5.2, and `_recursive_deserialize` in
# `base.py`. The saver, too, takes an application's dict of the same shape for a marker.


def _revive_redis(fields: dict[Any, Any]) -> Value:
    match fields:
        case {"__bytes__": str(data)} if len(fields) == 1:
            try:
                return a2b_base64(data, strict_mode=True)
            except ValueError:
                return fields
        case {"__delta_snapshot__": True, "value": value} if len(fields) == 2:
            return Tagged(DELTA_SNAPSHOT, value)
        case {"__send__": True, "node": node, "arg": arg} if len(fields) == 3:
            return Tagged("langgraph.types.Send", [node, arg])
        case {"__interrupt__": True, "value": _}:
            rest = {name: part for name, part in fields.items() if name != "__interrupt__"}
            return Tagged("langgraph.types.Interrupt", rest)
        case {"lc": 2, "id": ["builtins", "set"], "kwargs": {"__set_items__": list(items)}}:
            return Tagged("builtins.set", items)
    return revive(fields)


_DECODERS = {
    "json": DECODER,
    REDIS_JSON: json.JSONDecoder(object_hook=_revive_redis, parse_int=integer),
}
"""By type tag, what decodes one JSON text. The caller must check the nesting depth first."""


def looks_marked(fields: dict[Any, Any]) -> bool:
    """Whether a dict has the shape of a marker or an envelope of RedisSaver."""
    if "__bytes__" in fields and len(fields) == 1:
        return True
    if any(fields.get(f"__{one}__") is True for one in ("send", "interrupt", "delta_snapshot")):
        return True
    kinds = ("constructor", "secret", "not_implemented")
    return fields.get("lc") in (1, 2) and fields.get("type") in kinds
