"""Values as lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING, Any

from ckpt_backends.codec import from_json
from ckpt_backends.codec.values import TUPLE, Cut, Opaque, Tagged, Value
from ckpt_cli.core.conversation import Message, ToolCall, as_message, content_text
from ckpt_cli.core.redact import REDACTED
from ckpt_cli.core.state import LOST_DELTA
from ckpt_cli.core.values import is_set
from ckpt_cli.render.table import size, step_number
from ckpt_cli.render.text import Style, cell_len, fit, safe_text, wrap

if TYPE_CHECKING:  # they load what computes replays and differences
    from ckpt_cli.core.diff import Counts, ShortChange
    from ckpt_cli.core.forking import DamagedValue

# Possessive quantifiers: backtracking would take time quadratic in the number of digits.
_SCALAR = re.compile(
    r"[-+]?(\d++\.?+\d*+|\.\d++)(e[-+]?\d++)?|[-+]?(inf|nan)|null|true|false", re.I
)
_COUNTED = 3
"""Number of kinds in the label of a progress bar."""
_SHOWN = 200
"""Width of a value in a table."""
_AS_TEXT = ("datetime.datetime", "decimal.Decimal", "uuid.UUID", "zoneinfo.ZoneInfo")


def leaf(value: Value, limit: int | None = None) -> str | None:
    """Return the text of a value without parts; None for strings and for values with parts.

    With a limit, only that many bytes are shown.
    """
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case int():
            # Python refuses to convert very long integers to decimal.
            return str(value) if value.bit_length() < 10_000 else hex(value)
        case float():
            return repr(value)
        case bytes():
            return f"{size(len(value))}: {value[:limit].hex(' ')}" if value else size(0)
        case Opaque():
            kind, reason = safe_text(value.type), safe_text(value.reason)
            if value == LOST_DELTA:
                return f"({reason})"
            return f"{kind}, {size(value.size)}, not read: {reason}"
        case Tagged():
            text = _tagged(value)
            return None if text is None else safe_text(text)
        case _:
            return None


def short_class(type_name: str) -> str:
    """Return the class name without its module."""
    return safe_text(type_name.rpartition(".")[2] or type_name)


def string(text: str, width: int, *, nested: bool = False, quote: bool = False) -> str:
    """Return a string on one line, in quotes if it could be read as another type."""
    body = safe_text(text[: width + 1])
    if not (quote or _misread(text, nested=nested)):
        return fit(body, width)
    body = body.replace('"', '\\"')
    return f'"{fit(body, max(width - 2, 1))}"'


def cut_note(value: Cut) -> str:
    """Return the note that follows the kept part of a value that was cut."""
    whole = size(value.size)
    if value.unit != "byte":
        whole = f"{value.size:,} {value.unit}{'' if value.size == 1 else 's'}"
    return f"(cut, {whole} in all: {safe_text(value.reason)})"


def _misread(text: str, *, nested: bool) -> bool:
    if not text or text[0] in "{[('\"" or text != text.strip() or _SCALAR.fullmatch(text):
        return True
    return nested and (": " in text or any(char in text for char in ',{}[]()="'))


def _tagged(value: Tagged) -> str | None:
    payload = value.payload
    if isinstance(payload, str):
        if value.type == REDACTED:
            return f"({payload})"
        if value.type in _AS_TEXT or value.type.startswith("ipaddress."):
            return _dashed(payload) if value.type == "uuid.UUID" else payload
        return None
    if not isinstance(payload, list):
        return None
    numbers = [item for item in payload if isinstance(item, int)]
    texts = [item for item in payload if isinstance(item, str)]
    if value.type.startswith("pathlib.") and len(texts) == len(payload):
        windows = "Windows" in value.type
        return str(PureWindowsPath(*texts) if windows else PurePosixPath(*texts))
    if len(numbers) == len(payload) == 3:
        return _date_or_delta(value.type, *numbers)
    return None


def _dashed(digits: str) -> str:
    if not re.fullmatch(r"[0-9a-f]{32}", digits):
        return digits
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def _date_or_delta(type_name: str, first: int, second: int, third: int) -> str | None:
    if type_name == "datetime.date":
        return f"{first:04}-{second:02}-{third:02}"
    if type_name == "datetime.timedelta":
        try:
            return str(timedelta(first, second, third))
        except OverflowError:
            return None
    return None


NDARRAY = "numpy.ndarray"

_DTYPE = re.compile(r"[<>|=]([biufc])(\d{1,4})")
_KINDS = {"i": "int", "u": "uint", "f": "float", "c": "complex"}


def value_text(record: Any) -> str:
    """Return a value of a record, given in JSON form, on one line."""
    return summary(from_json(record), _SHOWN)


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


def progress_text(doing: str, found: Counter[str]) -> str:
    """Return the label of a progress bar, with how often each kind was found so far."""
    shown = found.most_common(_COUNTED)
    listed = [f"{number} {kind}" for kind, number in shown]
    if len(found) > _COUNTED:
        listed.append(f"{found.total() - sum(number for _, number in shown)} others")
    return f"{doing} threads" + (f": {', '.join(listed)}" if listed else "")


def count_marks(counts: Counts) -> list[tuple[str, int, Style]]:
    """Return the numbers that are not 0, each with its sign and style."""
    marks: list[tuple[str, int, Style]] = [
        ("+", counts.added, "add"),
        ("-", counts.removed, "remove"),
        ("~", counts.changed, "change"),
    ]
    return [mark for mark in marks if mark[1]]


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
            return f"[{_content(value, width - 2, quote=quote)}]"
        case dict():
            return "{" + _fields(value, ": ", width - 2, quote=quote) + "}"
        case Cut():
            kept = _inline(value.kept, max(width // 2, 1), nested=nested, quote=quote)
            return f"{kept} {cut_note(value)}"
        case Tagged():
            return _object(value, width, quote=quote)
        case _:
            raise TypeError(type(value))


def _content(items: list[Value], width: int, *, quote: bool) -> str:
    """Return all items, or their number if they do not fit."""
    noun = noun_for(items) if items else "item"
    if noun == "message":
        return counted(len(items), noun)
    texts: list[str] = []
    room = width
    for item in items:
        text = _inline(item, room, quote=quote)
        room -= cell_len(text) + 2
        if room < -2:
            return counted(len(items), noun)
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
    plain = value.type == TUPLE or (is_set(value) and payload)
    room = width - (2 if plain else len(name) + 2)
    content = _content(payload, room, quote=quote or not plain)
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
        yield from _message_block(message, width)
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


def _message_block(message: Message, width: int) -> Iterator[str]:
    yield message_label(message) + _in_brackets(message.id)
    yield from _indented(_said_content(message.content, width - 2), 2)
    for call in message.tool_calls:
        yield from _indented(_call_lines(call, width - 2), 2)
    for key, value in message.fields.items():
        if not _said(key, value) and value is not False and value not in (None, "", [], {}):
            yield from _indented(_entry(f"{key_text(key)}:", value, width - 2), 2)


def _said_content(content: Value, width: int) -> Iterator[str]:
    if not isinstance(content, list):
        yield from _text(content, width) if isinstance(content, str) else _lines(content, width)
        return
    for part in content:
        text = part["text"] if isinstance(part, dict) and part.keys() == _TEXT_BLOCK else part
        if isinstance(text, str):
            yield from _text(text, width)
        else:
            yield from _item(part, width)


def _call_lines(call: ToolCall, width: int) -> Iterator[str]:
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


def named_value(place: DamagedValue) -> tuple[tuple[str, Any], ...]:
    """Return the channel, step and checkpoint of a value as parts of a line."""
    ns = f" in {safe_text(place.checkpoint_ns)}" if place.checkpoint_ns else ""
    return (
        (safe_text(place.channel), "head"),
        (f" of step {step_number(place.step)}{ns}  ", "plain"),
        (safe_text(place.checkpoint_id), "id"),
    )


_LONG = 24
"""Characters of a value before that leave enough room for the one after."""
_NAMED = 6
"""Maximum number of changed channels that are named."""


def changes_text(changes: Sequence[ShortChange], arrow: str = " → ") -> str:
    """Return changes on one line: `+1 ai: Hotel Kanra…, budget 120 → 90, notes +2`."""
    texts = [_change_text(one, arrow) for one in changes[:_NAMED]]
    if len(changes) > _NAMED:
        texts.append(counted(len(changes) - _NAMED, "more channel"))
    return ", ".join(texts)


def _change_text(one: ShortChange, arrow: str) -> str:
    if one.last is not None:
        return f"+{one.added} {safe_text(one.last)}"
    name = safe_text(one.name)
    if one.after is None:
        return f"{name} +{one.added}" if one.added else name
    is_told = one.before is not None and len(one.before) <= _LONG
    before = f" {safe_text(one.before or '')}" if is_told else ""
    return f"{name}{before}{arrow}{safe_text(one.after)}"
