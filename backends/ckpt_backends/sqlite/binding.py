"""Converts text and bytes for SQLite, where any column may contain any type."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

TEXT = "CAST(? AS TEXT)"
"""The placeholder for an id. Ids are bound as bytes, because `sqlite3` binds only valid text."""


def bind(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate; no stored text can match it
        return text.encode("utf-8", "surrogatepass")


decode_text: Callable[[bytes], str] = partial(str, encoding="utf-8", errors="surrogateescape")
"""Called for each text of each row. For speed, it is not a Python function."""


def text(value: object) -> str:
    """The cell as text; NULL gives `''`. SQLite allows any type in a text column."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return decode_text(value)
    return "" if value is None else str(value)


def stored_bytes(value: object) -> bytes:
    """The cell as bytes; text becomes UTF-8, NULL becomes `b""`."""
    return value if isinstance(value, bytes) else bind(text(value))


def quoted_name(name: str) -> str:
    """The quoted name of a table or column for a query."""
    return '"' + name.replace('"', '""') + '"'
