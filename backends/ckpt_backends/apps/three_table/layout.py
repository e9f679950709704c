"""Recognises this layout by the columns of the tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass

from ckpt_backends.sql.blob_tables import (
    BLOBS,
    CHECKPOINTS,
    WRITES,
    missing_columns,
    unknown_columns,
    unknown_tables,
)
from ckpt_backends.sql.recognition import TableSaver

NAME, LATEST = "three-table", "three-table-latest"
HASH, VALUE, CREATED, MODIFIED = "checkpoint_ns_hash", "blob_data", "gmt_create", "gmt_modified"

NEEDED: Mapping[str, frozenset[str]] = {
    CHECKPOINTS: frozenset(
        {"thread_id", "checkpoint_id", "parent_checkpoint_id", "checkpoint_ns", HASH, CREATED}
    ),
    BLOBS: frozenset({"thread_id", HASH, "channel", "version", "type", VALUE}),
    WRITES: frozenset(
        {"thread_id", "checkpoint_id", HASH, "task_id", "idx", "channel", "type", VALUE}
    ),
}
SURROGATE = "id"
"""An auto-increment key. It has no meaning and is not copied or archived."""
_ALSO: Mapping[str, frozenset[str]] = {
    CHECKPOINTS: frozenset({MODIFIED, SURROGATE}),
    BLOBS: frozenset({CREATED, MODIFIED, SURROGATE, "checkpoint_ns"}),
    WRITES: frozenset({CREATED, MODIFIED, SURROGATE, "task_path", "checkpoint_ns"}),
}


@dataclass(frozen=True, slots=True)
class ThreeTables:
    """The layout as found in one database."""

    columns: Mapping[str, Set[str]]
    """By table, without the surrogate key."""
    names: Mapping[str, str]
    """By table, its quoted name with schema, for queries."""
    stored: tuple[str, ...]
    """The plain names of the tables, with schema."""
    unknown: tuple[str, ...]
    """Columns that are not part of the layout, as `table.column`."""

    def has(self, table: str, column: str) -> bool:
        return column in self.columns[table]


def recognise(columns: Mapping[str, Set[str]]) -> TableSaver | None:
    """The saver of this layout if the tables look like it. A body column means another one."""
    found = columns.get(CHECKPOINTS, frozenset())
    if HASH not in found or CREATED not in found or "checkpoint" in found:
        return None
    room = "ckpt_backends.apps.three_table"
    return TableSaver(f"{room}.read:open_tables", f"{room}.write:open_writable_tables")


def detect(
    columns: Mapping[str, Set[str]],
    quoted: Callable[[str], str],
    where: str,
    schema: str | None = None,
) -> ThreeTables:
    """The layout of tables that look like this one. Raises `UnknownLayout` if columns are missing.

    `where` names the store in the error.
    """
    if missing := missing_columns(columns, NEEDED):
        raise unknown_tables(where, missing)
    known = {table: frozenset(columns[table]) - {SURROGATE} for table in NEEDED}
    prefix = "" if schema is None else f"{quoted(schema)}."
    return ThreeTables(
        known,
        {table: prefix + quoted(table) for table in NEEDED},
        tuple(table if schema is None else f"{schema}.{table}" for table in NEEDED),
        unknown_columns(columns, _ALSO, NEEDED),
    )
