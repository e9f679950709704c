"""Rows of a store exactly as they are stored, for archives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Cell = None | int | float | str | bytes


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table, or its counterpart in a layout without tables."""

    table: str
    """The table without its schema; the kind of key or the collection if there are no tables."""
    cells: Mapping[str, Cell]
    """By column, as the engine returns it. Other types than numbers, text and bytes, such as
    PostgreSQL's `jsonb`, are in the engine's text form."""


@dataclass(frozen=True, slots=True)
class Restored:
    """The result of restoring rows."""

    added: int
    there: int
    """Rows that existed already, equal in every cell."""
    expired: int = 0
    """Rows that expired since they were archived; they were left out."""
