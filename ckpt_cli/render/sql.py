"""Print results of SQL, and the tables and columns that can be asked."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import datetime, tzinfo
from typing import Any, Protocol

from ckpt_cli.render.table import Column, when

_NUMBERS = ("INT", "DECIMAL", "DOUBLE", "FLOAT")

TABLE_COLUMNS = (Column("TABLE", "table", style="head"), Column("ROWS", "text"))
COLUMN_COLUMNS = (
    Column("COLUMN", "column", style="head"),
    Column("TYPE", "type", style="node"),
    Column("UNIT", "unit", drop=1),
    Column("READS", "reads", style="dim"),
    Column("WHAT", "text"),
)


class Described(Protocol):
    """A column of a result."""

    @property
    def key(self) -> str:
        """Its key in the records."""

    @property
    def type(self) -> str:
        """DuckDB's name of its type."""


def result_columns(found: Sequence[Described], now: datetime, zone: tzinfo) -> list[Column]:
    """Return the columns of a result; times are shown in a zone."""
    return [_column(one, now, zone) for one in found]


def _column(one: Described, now: datetime, zone: tzinfo) -> Column:
    is_number = any(part in one.type for part in _NUMBERS) and not one.type.endswith("]")
    show: Callable[[Any], str] = _text
    if one.type == "TIMESTAMP WITH TIME ZONE":
        return Column(one.key, one.key, lambda text: _time(text, now, zone), style="time")
    return Column(one.key, one.key, show, right=is_number, cut=not is_number, least=40)


def _time(text: str, now: datetime, zone: tzinfo) -> str:
    try:
        return when(datetime.fromisoformat(text), now, zone)
    except ValueError:
        return text


def _text(value: Any) -> str:
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)
