"""Whether tables are of this layout, from their columns alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import dataclass

from ckpt_backends.apart import BLOBS, CHECKPOINTS, WRITES
from ckpt_backends.errors import UnknownLayout

NAME, LATEST = "three-table", "three-table-latest"
LAYOUTS = (NAME, LATEST)
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
"""A key that the engine counts up; it means nothing, and is neither copied nor archived."""
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
    """The tables as queries name them."""
    stored: tuple[str, ...]
    """The tables as they are called."""
    unknown: tuple[str, ...]
    """Columns that are not known here, as `table.column`."""

    def has(self, table: str, column: str) -> bool:
        return column in self.columns[table]


def is_three_table(columns: Mapping[str, Set[str]]) -> bool:
    """Whether the tables are meant as this layout; a body means that they are another one."""
    found = columns.get(CHECKPOINTS, frozenset())
    return HASH in found and CREATED in found and "checkpoint" not in found


def detect(
    columns: Mapping[str, Set[str]],
    quoted: Callable[[str], str],
    where: str,
    schema: str | None = None,
) -> ThreeTables:
    """The layout of tables that are meant as such. Raises `UnknownLayout`."""
    missing = [
        f"{table}.{column}"
        for table, needed in NEEDED.items()
        for column in sorted(needed - columns.get(table, frozenset()))
    ]
    if missing:
        raise UnknownLayout(
            f"unknown layout of the checkpoint tables in '{where}'",
            hint=f"missing {', '.join(missing)}",
        )
    unknown = [
        f"{table}.{column}"
        for table, needed in NEEDED.items()
        for column in sorted(columns[table] - needed - _ALSO[table])
    ]
    known = {table: frozenset(columns[table]) - {SURROGATE} for table in NEEDED}
    prefix = "" if schema is None else f"{quoted(schema)}."
    return ThreeTables(
        known,
        {table: prefix + quoted(table) for table in NEEDED},
        tuple(table if schema is None else f"{schema}.{table}" for table in NEEDED),
        tuple(unknown),
    )
