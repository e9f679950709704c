"""Text and bytes of a SQLite file, where any column may hold any type."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

TEXT = "CAST(? AS TEXT)"
"""A bound id. Ids are bound as bytes, because text that is not UTF-8 cannot be bound."""


def bind(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate, which SQLite cannot hold: it matches nothing
        return text.encode("utf-8", "surrogatepass")


decode_text: Callable[[bytes], str] = partial(str, encoding="utf-8", errors="surrogateescape")
"""Called for each text of each row, so it is not a Python function, for speed."""


def text(value: object) -> str:
    """A column that should hold text; SQLite lets it hold anything."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return decode_text(value)
    return "" if value is None else str(value)


def stored_bytes(value: object) -> bytes:
    """A column that should hold bytes."""
    return value if isinstance(value, bytes) else bind(text(value))


def quoted_name(name: str) -> str:
    """A table or column for a query."""
    return '"' + name.replace('"', '""') + '"'
