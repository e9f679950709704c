"""Converts cells of tables that may hold unexpected types."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from hashlib import md5

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECONDS = 100_000_000_000
"""A time above this number is in milliseconds. In seconds, it would be in the year 5138."""


def text(value: object) -> str:
    """The cell as text; NULL gives `''`."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "surrogateescape")
    return "" if value is None else str(value)


def data(value: object) -> bytes:
    """The cell as bytes; NULL gives `b""`."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    return b"" if value is None else text(value).encode("utf-8", "surrogateescape")


def number(value: object) -> int:
    """The cell as an integer; 0 if it is not one."""
    try:
        return int(text(value))
    except ValueError:
        return 0


def moment(value: object) -> datetime | None:
    """The cell as a time, taken as UTC if it has no time zone; None if it is not a time."""
    try:
        if isinstance(value, datetime):
            found = value
        elif isinstance(value, int | float):
            seconds = value / 1000 if value > _MILLISECONDS else value
            return _EPOCH + timedelta(seconds=seconds)
        else:
            found = datetime.fromisoformat(text(value).strip())
    except (ValueError, OverflowError):
        return None
    return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)


def like(value: object, at: datetime) -> object:
    """The time `at` in the same form as the stored time `value`: same type, unit and time zone."""
    if isinstance(value, datetime):
        return at if value.tzinfo is not None else at.replace(tzinfo=None)
    if isinstance(value, int | float) and not isinstance(value, bool):
        seconds = (at - _EPOCH).total_seconds()
        scaled = seconds * 1000 if value > _MILLISECONDS else seconds
        return int(scaled) if isinstance(value, int) else scaled
    known = text(value)
    naive = at if "+" in known or known.endswith("Z") else at.replace(tzinfo=None)
    return naive.isoformat("T" if "T" in known else " ", "milliseconds")


def hash_text(value: object) -> str:
    """A hash in hex. It may be stored as text or as 16 bytes."""
    if isinstance(value, bytes | bytearray | memoryview):
        raw = bytes(value)
        return raw.hex() if len(raw) == 16 else text(raw)
    return text(value)


def digest(told: str) -> str:
    """The MD5 of a text, in hex."""
    return md5(told.encode("utf-8", "surrogateescape"), usedforsecurity=False).hexdigest()
