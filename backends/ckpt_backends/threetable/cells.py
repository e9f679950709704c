"""Cells of tables that nobody vouches for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from hashlib import md5

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECONDS = 100_000_000_000
"""A greater number of a time counts milliseconds: as seconds it would lie in the year 5138."""


def text(value: object) -> str:
    """A column that should hold text."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value).decode("utf-8", "surrogateescape")
    return "" if value is None else str(value)


def data(value: object) -> bytes:
    """A column that should hold bytes."""
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    return b"" if value is None else text(value).encode("utf-8", "surrogateescape")


def number(value: object) -> int:
    """A column that should hold a whole number."""
    try:
        return int(text(value))
    except ValueError:
        return 0


def moment(value: object) -> datetime | None:
    """A time, which is UTC unless it says otherwise; None for what is none."""
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
    """A time in the form of another one."""
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
    """A hash in hex, however it is stored: as text, or as 16 bytes."""
    if isinstance(value, bytes | bytearray | memoryview):
        raw = bytes(value)
        return raw.hex() if len(raw) == 16 else text(raw)
    return text(value)


def digest(told: str) -> str:
    """The MD5 of a text, in hex."""
    return md5(told.encode("utf-8", "surrogateescape"), usedforsecurity=False).hexdigest()
