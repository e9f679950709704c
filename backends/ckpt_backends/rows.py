"""Rows of a store as they are stored: for archives, which must give back the very same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Cell = None | int | float | str | bytes


@dataclass(frozen=True, slots=True)
class Row:
    """One row of a table, or what a layout has in the place of one."""

    table: str
    """Its name without a schema; the kind of key or the collection where there are no tables."""
    cells: Mapping[str, Cell]
    """By column, as the engine gives it. What is neither number, text nor bytes there, such as
    PostgreSQL's `jsonb`, is in the engine's own text form."""


@dataclass(frozen=True, slots=True)
class Restored:
    """What became of rows that were to be put back."""

    added: int
    there: int
    """Rows that were there already, the same in every cell."""
    expired: int = 0
    """Rows whose time to live has ended since, and that were left out."""
