"""Faults of a SQLite file: missing keys, a journal that was left, a large log, unused pages."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ckpt_backends import shell
from ckpt_backends.model import Fault, Space
from ckpt_backends.sql.database import Database
from ckpt_backends.sql.health import (
    TWICE,
    TableIndex,
    key_missing,
    keys_of,
    large_log,
    missing_indexes,
    unused_space,
)
from ckpt_backends.sqlite.binding import text
from ckpt_backends.sqlite.journals import journal_of, log_of

_KEYS = keys_of(
    {
        "checkpoints": ("thread_id", "checkpoint_ns", "checkpoint_id"),
        "writes": ("thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx"),
    }
)
_UNIQUE = """
    SELECT m.name, i.name, c.name FROM sqlite_master m, pragma_index_list(m.name) i,
        pragma_index_info(i.name) c
    WHERE m.type = 'table' AND m.name IN ('checkpoints', 'writes') AND i."unique" AND NOT i.partial
    ORDER BY 1, 2, c.seqno
"""


def key_faults(database: Database) -> Iterator[Fault]:
    """The saver's tables that lack their primary keys. Reads the schema only."""
    columns: dict[tuple[str, str], list[str]] = {}
    for table, index, column in database.rows(_UNIQUE, {}):
        columns.setdefault((text(table), text(index)), []).append(text(column))
    found = [
        TableIndex(table, tuple(names), index, is_unique=True)
        for (table, index), names in columns.items()
    ]
    for one in missing_indexes(found, _KEYS):
        listed = ", ".join(one.columns)
        fix = f"CREATE UNIQUE INDEX {one.table}_key ON {one.table} ({listed});"
        yield key_missing(database, one.table, one, fix, TWICE)


def file_faults(path: Path, space: Space, *, was_rolled_back: bool) -> Iterator[Fault]:
    """What is wrong with the files of a database at a path.

    `space` is that of the database, or of the copy that is read in its place; `was_rolled_back` is
    whether the copy had an unfinished transaction.
    """
    if was_rolled_back:
        detail = f"'{journal_of(path).name}' holds an unfinished transaction of a killed process"
        yield Fault("journal-hot", detail, fix=_sqlite(path, ".tables"))
    size, log = space.size or 0, space.log or 0
    emptied = _sqlite(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    yield from large_log(f"'{log_of(path).name}'", log, size - log, emptied)
    yield from unused_space("the file", space.free or 0, size - log, _sqlite(path, "VACUUM"))


def _sqlite(path: Path, *words: str) -> str:
    return shell.command("sqlite3", str(path.absolute()), *words)
