"""Recognises the SQLite layout of a file by its tables.

All Python savers (langgraph-checkpoint-sqlite 1.x to 3.x) and all LangGraph.js savers share the
tables `checkpoints` and `writes`; 3.1.2 added `writes.task_path`, which is the last column in
older files. No saver sets `user_version` or `application_id`.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, KeysView, Mapping, Set
from functools import partial
from typing import NamedTuple

from ckpt_backends import shell
from ckpt_backends.errors import UnknownLayout
from ckpt_backends.sql.database import text
from ckpt_backends.sql.tables import missing_columns, too_old, unknown_columns

# Converts text and bytes for SQLite, where any column may contain any type.


TEXT = "CAST(? AS TEXT)"
"""The placeholder for an id. Ids are bound as bytes, because `sqlite3` binds only valid text."""


def bind(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate; no stored text can match it
        return text.encode("utf-8", "surrogatepass")


decode_text: Callable[[bytes], str] = partial(str, encoding="utf-8", errors="surrogateescape")
"""Called for each text of each row. For speed, it is not a Python function."""


def stored_bytes(value: object) -> bytes:
    """The cell as bytes; text becomes UTF-8, NULL becomes `b""`."""
    return value if isinstance(value, bytes) else bind(text(value))


def quoted_name(name: str) -> str:
    """The quoted name of a table or column for a query."""
    return '"' + name.replace('"', '""') + '"'


_COLUMNS = {
    "checkpoints": frozenset(
        {"thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id", "type"}
        | {"checkpoint", "metadata"}
    ),
    "writes": frozenset(
        {"thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx", "channel"}
        | {"type", "value"}
    ),
}
REQUIRED = """
    SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c
    WHERE m.type = 'table' AND c."notnull" AND c.dflt_value IS NULL
"""
"""The columns that have no default and must have a value."""
_LATER = {"writes": frozenset({"task_path"})}


class SqliteLayout(NamedTuple):
    """The `sqlite` layout as found in one file."""

    task_path: bool
    """Whether `writes.task_path` exists."""
    older: bool
    """Whether an older saver made the table of writes, and a newer one added this column."""
    unknown: tuple[str, ...]
    """Columns that no known saver creates, as `table.column`; a newer saver may have."""


def detect(tables: Mapping[str, Set[str]], where: str, wanted: str | None = None) -> SqliteLayout:
    """The layout of a file with these tables and columns.

    Raises `UnknownLayout`, also if it is not the `wanted` one.
    """
    columns = tables.get("checkpoints")
    if columns is None:
        # Imported late: memory has many classes, and most files have checkpoints.
        from ckpt_backends.memory import COLUMNS, HINT, STORE

        found = ", ".join(map(shell.word, sorted(tables))) or "no tables at all"
        hint = f"found {found}; a LangGraph SQLite store has 'checkpoints' and 'writes'"
        is_memory = tables.get(STORE, frozenset()) >= COLUMNS
        raise UnknownLayout(f"no checkpoint tables in '{where}'", hint=HINT if is_memory else hint)
    if "thread_ts" in columns:
        raise too_old(where)
    if missing := missing_columns(tables, _COLUMNS):
        raise UnknownLayout(
            f"unknown layout of the checkpoint tables in '{where}'",
            hint=f"missing columns: {', '.join(missing)}",
        )
    if wanted not in {None, "sqlite"}:
        raise UnknownLayout(
            f"'{where}' does not have the layout '{wanted}'",
            hint="it has the layout 'sqlite'; leave out the parameter 'layout'",
        )
    unknown = unknown_columns(tables, _LATER, _COLUMNS)
    writes = list(tables["writes"])
    is_added = "task_path" in writes and writes.index("task_path") > writes.index("value")
    return SqliteLayout("task_path" in writes, is_added, unknown)


def stored_tables(connection: sqlite3.Connection) -> dict[str, KeysView[str]]:
    """The tables of a file with their columns, in order. Raises `sqlite3.Error`."""
    tables: dict[str, dict[str, None]] = {}
    for table, column in connection.execute(
        "SELECT m.name, c.name FROM sqlite_master m, pragma_table_info(m.name) c"
        " WHERE m.type = 'table' AND m.name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
    ):
        tables.setdefault(text(table), {})[text(column)] = None
    return {name: columns.keys() for name, columns in tables.items()}
