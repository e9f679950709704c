"""Print values without parts: numbers, strings, times, ids, paths, bytes."""

from __future__ import annotations

import re
from datetime import timedelta
from pathlib import PurePosixPath, PureWindowsPath

from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value
from ckpt_cli.core.channels import LOST_DELTA
from ckpt_cli.core.redact import REDACTED
from ckpt_cli.render.terminal.cell_width import fit
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.units import size

# Possessive quantifiers: backtracking would take time quadratic in the number of digits.
_SCALAR = re.compile(
    r"[-+]?(\d++\.?+\d*+|\.\d++)(e[-+]?\d++)?|[-+]?(inf|nan)|null|true|false", re.I
)
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
