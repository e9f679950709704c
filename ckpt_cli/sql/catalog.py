"""The tables and their columns as records, for lists and for the documentation."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from ckpt_backends.errors import NotFound
from ckpt_cli.sql.tables import TABLES


def table_records() -> list[dict[str, Any]]:
    """Return the tables."""
    return [
        {"table": table.name, "text": table.text, "columns": list(table.names)}
        for table in TABLES.values()
    ]


def column_records(name: str) -> list[dict[str, Any]]:
    """Return the columns of a table. Raises `NotFound`."""
    check_tables([name])
    return [
        {
            "column": one.name,
            "type": one.type,
            "unit": one.unit or None,
            "reads": one.needs.value,
            "text": one.text,
        }
        for one in TABLES[name].columns
    ]


def check_tables(names: Sequence[str] | None) -> Sequence[str]:
    """Return these tables, by default all. Raises `NotFound` for one that there is not."""
    for name in names or ():
        if name not in TABLES:
            near = get_close_matches(name, TABLES, n=1)
            hint = f"did you mean {near[0]}?" if near else f"the tables: {', '.join(TABLES)}"
            raise NotFound(f"no table '{name}'", hint=hint)
    return names or tuple(TABLES)
