"""Print values in full, over as many lines as needed, in a style like YAML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ckpt_backends.codec.values import Cut, Tagged, Value
from ckpt_cli.core.conversation.messages import Message, ToolCall, as_message
from ckpt_cli.render.terminal.cell_width import cell_len, wrap
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.values.one_line import key_text, message_label, summary
from ckpt_cli.render.values.scalars import cut_note, leaf, short_class

_TEXT_BLOCK = {"type", "text"}
_UNLIMITED = 1 << 30
_SMALL = 10_000
"""A list with more parts and characters than this is never printed on one line."""


def block(value: Value, indent: int, width: int) -> Iterator[str]:
    """Yield a whole value in lines of about `width` columns; long lines are wrapped."""
    yield from _indented(_lines(value, width - indent), indent)


def _lines(value: Value, width: int) -> Iterator[str]:
    message = as_message(value)
    if message is not None:
        yield from _message(message, width)
    elif isinstance(value, str):
        yield from _text(value, width)
    elif (flat := _flat(value, width)) is not None:
        yield flat
    elif isinstance(value, Cut):
        yield from _lines(value.kept, width)
        yield cut_note(value)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _entry(f"{key_text(key, width=_UNLIMITED)}:", item, width)
    elif isinstance(value, list):
        for item in value:
            yield from _item(item, width)
    elif isinstance(value, Tagged) and leaf(value) is None:
        yield short_class(value.type)
        yield from _indented(_lines(value.payload, width - 2), 2)
    else:
        yield from wrap(leaf(value) or "", width)


def _entry(label: str, value: Value, width: int) -> Iterator[str]:
    """Yield a value after its key."""
    flat = _flat(value, width - cell_len(label) - 1)
    if flat is not None:
        yield f"{label} {flat}"
        return
    lines = _lines(value, width - 2)
    if isinstance(value, str):
        label += " |"
    elif as_message(value) or (isinstance(value, Tagged) and leaf(value) is None):
        yield f"{label} {next(lines)}"
        yield from lines
        return
    yield label
    yield from _indented(lines, 2)


def _item(value: Value, width: int) -> Iterator[str]:
    """Yield a value as an item of a list."""
    flat = _flat(value, width - 2)
    lines = _lines(value, width - 2) if flat is None else iter([flat])
    yield f"- {'|' if flat is None and isinstance(value, str) else next(lines, '')}"
    yield from _indented(lines, 2)


def _flat(value: Value, room: int) -> str | None:
    """Return a small value on one line; None if it has keys or does not fit."""
    # Estimate the length before formatting, because each nested list asks for it again.
    if _room_left(value, room if isinstance(value, str | bytes) else min(room, _SMALL)) < 0:
        return None
    text = summary(value, _UNLIMITED)
    return text if cell_len(text) <= room else None


def _room_left(value: Value, room: int) -> int:
    """Return the columns left after a value, at best; negative if it does not fit or has keys."""
    inner = value.payload if isinstance(value, Tagged) else value
    length = len(inner) if isinstance(inner, str | bytes | list) else 1
    if max(length, 1) > room or (isinstance(value, str) and "\n" in value):
        return -1
    if isinstance(value, str) or leaf(value, 1) is not None:
        return room - max(length, 1)
    room -= 1
    if isinstance(value, Tagged):
        return _room_left(value.payload, room)
    if not isinstance(value, list):
        return room if value == {} else -1
    for item in value:
        room = _room_left(item, room)
        if room < 0:
            break
    return room


def _message(message: Message, width: int) -> Iterator[str]:
    yield message_label(message) + _in_brackets(message.id)
    yield from _indented(_content(message.content, width - 2), 2)
    for call in message.tool_calls:
        yield from _indented(_call(call, width - 2), 2)
    for key, value in message.fields.items():
        if not _said(key, value) and value is not False and value not in (None, "", [], {}):
            yield from _indented(_entry(f"{key_text(key)}:", value, width - 2), 2)


def _content(content: Value, width: int) -> Iterator[str]:
    if not isinstance(content, list):
        yield from _text(content, width) if isinstance(content, str) else _lines(content, width)
        return
    for part in content:
        text = part["text"] if isinstance(part, dict) and part.keys() == _TEXT_BLOCK else part
        if isinstance(text, str):
            yield from _text(text, width)
        else:
            yield from _item(part, width)


def _call(call: ToolCall, width: int) -> Iterator[str]:
    yield f"call {safe_text(call.name)}{_in_brackets(call.id)}"
    if call.args not in (None, {}):
        yield from _indented(_lines(call.args, width - 2), 2)


def _said(key: Value, value: Value) -> bool:
    """Return whether the heading, content or calls of a message already show a field."""
    if key in ("type", "role", "id", "name"):
        return isinstance(value, str)
    return key == "content" or (key == "tool_calls" and isinstance(value, list))


def _in_brackets(ident: str | None) -> str:
    return f" ({safe_text(ident)})" if ident else ""


def _text(text: str, width: int) -> Iterator[str]:
    if text:
        for line in safe_text(text, newlines=True).split("\n"):
            yield from wrap(line, width)


def _indented(lines: Iterable[str], indent: int) -> Iterator[str]:
    for line in lines:
        yield " " * indent + line if line else line
