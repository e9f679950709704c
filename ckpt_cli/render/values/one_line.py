"""Print values on one line."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ckpt_backends.codec.values import TUPLE, Cut, Tagged, Value
from ckpt_cli.core.conversation.messages import Message, ToolCall, as_message, content_text
from ckpt_cli.core.values.equality import is_set
from ckpt_cli.render.terminal.cell_width import cell_len, fit
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.values.scalars import cut_note, leaf, short_class, string

NDARRAY = "numpy.ndarray"

_DTYPE = re.compile(r"[<>|=]([biufc])(\d{1,4})")
_KINDS = {"i": "int", "u": "uint", "f": "float", "c": "complex"}


def summary(value: Value, width: int, *, quote: bool = False) -> str:
    """Return a value on one line of at most `width` columns.

    Strings are quoted if they could be misread, or always with `quote`.
    """
    return fit(_inline(value, width, nested=False, quote=quote), width)


def message_label(message: Message) -> str:
    """Return the role of a message, and the name of its tool or agent."""
    return safe_text(f"{message.role} {message.name}" if message.name else message.role)


def call_text(call: ToolCall, width: int) -> str:
    """Return a tool call as a function call, at most `width` columns wide."""
    return fit(_call(call, width), width)


def key_text(key: Value, *, width: int = 1000) -> str:
    """Return a key of a dict as text."""
    return _inline(key, width)


def counted(n: int, noun: str) -> str:
    """Return a number and its noun: `1 item`, `2 items`, `2 branches`."""
    if n == 1:
        return f"1 {noun}"
    return f"{n} {noun}es" if noun.endswith("ch") else f"{n} {noun}s"


def noun_for(items: Iterable[Value]) -> str:
    """Return the noun for the items of a list: message or item."""
    return "message" if all(as_message(item) for item in items) else "item"


def _inline(value: Value, width: int, *, nested: bool = True, quote: bool = False) -> str:
    """Return a value of about `width` columns; the caller cuts what is too long."""
    if isinstance(value, str):
        return string(value, width, nested=nested, quote=quote)
    text = leaf(value, max(width, 0))
    if text is not None:
        return text
    message = as_message(value)
    if message is not None:
        return _message(message, width)
    match value:
        case list():
            return _list(value, width, quote=quote)
        case dict():
            return "{" + _fields(value, ": ", width - 2, quote=quote) + "}"
        case Cut():
            kept = _inline(value.kept, max(width // 2, 1), nested=nested, quote=quote)
            return f"{kept} {cut_note(value)}"
        case Tagged():
            return _object(value, width, quote=quote)
        case _:
            raise TypeError(type(value))


def _list(value: list[Value], width: int, *, quote: bool) -> str:
    noun = noun_for(value) if value else "item"
    whole = None if noun == "message" else _items(value, width - 2, quote=quote)
    return f"[{counted(len(value), noun) if whole is None else whole}]"


def _items(items: list[Value], width: int, *, quote: bool) -> str | None:
    """Return all items; None if they do not fit."""
    texts: list[str] = []
    room = width
    for item in items:
        text = _inline(item, room, quote=quote)
        room -= cell_len(text) + 2
        if room < -2:
            return None
        texts.append(text)
    return ", ".join(texts)


def _fields(fields: Mapping[Value, Value], separator: str, width: int, *, quote: bool) -> str:
    texts: list[str] = []
    room = width
    # One long field must not hide all others.
    share = max(width // 2, 24) if len(fields) > 1 else width
    for n, (key, value) in enumerate(fields.items(), 1):
        name = key_text(key, width=share) + separator
        free = room - cell_len(name) - (3 if n < len(fields) else 0)
        text = _inline(value, min(free, share), quote=quote) if free > 0 else "…"
        if cell_len(text) > max(free, 0):
            texts.append(f"{name}…" if free > 0 else "…")
            break
        texts.append(name + text)
        room -= cell_len(texts[-1]) + 2
    return ", ".join(texts)


def _object(value: Tagged, width: int, *, quote: bool) -> str:
    payload, name = value.payload, short_class(value.type)
    if value.type == NDARRAY and isinstance(payload, dict):
        return _array(payload, width)
    if isinstance(payload, dict):
        return f"{name}({_fields(payload, '=', width - len(name) - 2, quote=True)})"
    if not isinstance(payload, list):
        return f"{name}({_inline(payload, width - len(name) - 2, quote=True)})"
    noun = noun_for(payload) if payload else "item"
    plain = value.type == TUPLE or (is_set(value) and payload)
    room = width - (2 if plain else len(name) + 2)
    items = None if noun == "message" else _items(payload, room, quote=quote or not plain)
    content = counted(len(payload), noun) if items is None else items
    if not plain:
        return f"{name}({content})"
    return f"({content})" if value.type == TUPLE else "{" + content + "}"


def _array(fields: Mapping[Value, Value], width: int) -> str:
    dtype, shape, data = (fields.get(key) for key in ("dtype", "shape", "data"))
    kind = _dtype_name(dtype) if isinstance(dtype, str) else "?"
    lengths = "×".join(str(n) for n in shape) if isinstance(shape, list) else "?"
    start = " ".join(part for part in ("ndarray", kind, lengths) if part)
    return f"{start} {_beginning(data, width - cell_len(start) - 1)}"


def _beginning(data: Value, width: int) -> str:
    """Return as many items of nested lists as fit, and `…` for the others."""
    if not isinstance(data, list):
        return _inline(data, width, quote=True)
    texts: list[str] = []
    room = width - 2
    for n, item in enumerate(data, 1):
        text = _beginning(item, room)
        room -= cell_len(text) + 2
        if text == "[…]" or room < (1 if n < len(data) else -2):
            texts.append("…")
            break
        texts.append(text)
    return f"[{', '.join(texts)}]"


def _dtype_name(dtype: str) -> str:
    match = _DTYPE.fullmatch(dtype)
    if match is None:
        return safe_text(dtype)
    kind, bits = match[1], int(match[2]) * 8
    return "bool" if kind == "b" else f"{_KINDS[kind]}{bits}"


def _message(message: Message, width: int) -> str:
    label = message_label(message)
    if message.role == "remove":
        return f"{label}: {safe_text(message.id or '?')}"
    room = width - cell_len(label) - 2
    text = safe_text(content_text(message.content)[: max(room, 0) + 1])
    calls = _calls(message.tool_calls, max(room - cell_len(text) - 1, room // 2, 20))
    body = fit(text, max(room - cell_len(calls) - 1 if calls else room, 1))
    return f"{label}: {' '.join(part for part in (body, calls) if part)}"


def _calls(calls: tuple[ToolCall, ...], width: int) -> str:
    if not calls:
        return ""
    texts = [_call(call, width - 14) for call in calls]
    return f"[tool_calls: {fit(', '.join(texts), max(width - 14, 1))}]"


def _call(call: ToolCall, width: int) -> str:
    name = safe_text(call.name)
    if isinstance(call.args, dict):
        args = _fields(call.args, "=", width - cell_len(name) - 2, quote=True)
    else:
        args = _inline(call.args, width - cell_len(name) - 2, quote=True)
    return f"{'invalid ' if call.invalid else ''}{name}({args})"
