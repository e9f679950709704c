"""Faults of tables that the engine's catalog or the keys show, and of the space that it uses."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ckpt_backends.model import Fault
from ckpt_backends.sql.database import Database
from ckpt_backends.sql.tables import BLOBS, CHECKPOINTS, WRITES, SqlTables

LARGE = 64 << 20
"""Bytes of unused space, or of a log, that are not worth a finding yet."""
PART = 4
"""Nor are those that are at most one part in 4 of the whole."""
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class TableIndex:
    """An index that a table has, or should have."""

    table: str
    columns: tuple[str, ...]
    name: str = ""
    is_unique: bool = False

    def serves_as(self, wanted: TableIndex) -> bool:
        """Whether it can replace another one; the columns of a key may have any order."""
        if self.table != wanted.table:
            return False
        if wanted.is_unique:
            return self.is_unique and set(self.columns) == set(wanted.columns)
        return self.columns == wanted.columns

    @property
    def is_missing(self) -> str:
        """What to say if a table lacks it."""
        columns = ", ".join(self.columns)
        if self.is_unique:
            return f"table '{self.table}' has no primary key ({columns})"
        return f"table '{self.table}' has no index '{self.name}' ({columns})"


def keys_of(tables: Mapping[str, Sequence[str]]) -> list[TableIndex]:
    """The primary keys of some tables, of which the columns are given."""
    return [TableIndex(table, tuple(columns), is_unique=True) for table, columns in tables.items()]


def saver_keys(namespace: str) -> tuple[list[TableIndex], list[TableIndex]]:
    """The primary keys of the full and of the shallow layout; `namespace` is a column."""
    row = ("thread_id", namespace)
    checkpoint, writes = (*row, "checkpoint_id"), (*row, "checkpoint_id", "task_id", "idx")
    value = (*row, "channel")
    return (
        keys_of({CHECKPOINTS: checkpoint, BLOBS: (*value, "version"), WRITES: writes}),
        keys_of({CHECKPOINTS: row, BLOBS: value, WRITES: writes}),
    )


def thread_index(table: str) -> TableIndex:
    """The index of thread ids that the savers for servers create for each table."""
    return TableIndex(table, ("thread_id",), f"{table}_thread_id_idx")


THREAD_INDEXES = tuple(map(thread_index, (CHECKPOINTS, BLOBS, WRITES)))
"""In the order in which the migrations create them."""


def missing_indexes(
    found: Collection[TableIndex], wanted: Iterable[TableIndex]
) -> Iterator[TableIndex]:
    """The wanted indexes that no other one replaces."""
    return (one for one in wanted if not any(other.serves_as(one) for other in found))


TWICE = "rows may be stored twice"
"""What a saver does without a primary key, if it does not fail."""


def key_missing(
    database: Database,
    table: str,
    one: TableIndex,
    fix: str,
    effect: str,
    *,
    is_error: bool = False,
) -> Fault:
    """The fault for a primary key that a table lacks, where `fix` creates it.

    Without the key, a saver may have stored rows twice; then the engine would refuse the statement.
    """
    columns = ", ".join(one.columns)
    query = f"SELECT 1 FROM {table} GROUP BY {columns} HAVING COUNT(*) > 1 LIMIT 1"
    detail = f"{one.is_missing}, so {effect}"
    if not database.rows(query, {}):
        return Fault("index-missing", detail, fix=fix, is_error=is_error)
    detail += "; some are stored twice, and one of each must go first"
    return Fault("index-missing", detail, is_error=is_error)


def missing_migrations(versions: Collection[int]) -> Iterator[Fault]:
    """A fault if some migrations before the last one are not recorded. Savers record all."""
    last = max(versions, default=-1)
    if missing := sorted(set(range(last)) - {*versions}):
        said = ", ".join(map(str, missing))
        yield Fault(
            "schema-old",
            f"'checkpoint_migrations' records migration {last}, but not {said}",
            fix="INSERT INTO checkpoint_migrations (v) VALUES "
            f"{', '.join(f'({one})' for one in missing)};",
        )


def missing_column(table: str, column: str, fix: str, what: str = "read") -> Fault:
    """The fault for a column that the migrations say exists."""
    detail = f"table '{table}' has no column '{column}', so the saver cannot {what}"
    return Fault("schema-old", detail, fix=fix, is_error=True)


def is_much(part: int, whole: int) -> bool:
    """Whether a part of some bytes is worth a finding."""
    return part > LARGE and part * PART > whole


def unused_space(what: str, free: int, size: int, fix: str) -> Iterator[Fault]:
    """A fault if much of a file or table is unused."""
    if is_much(free, size):
        detail = f"{free // _MIB} of {size // _MIB} MiB of {what} are unused"
        yield Fault("space-free", detail, fix=fix)


def large_log(what: str, log: int, size: int, fix: str) -> Iterator[Fault]:
    """A fault if the log is large compared to the database that it belongs to."""
    if is_much(log, size):
        detail = f"{what} has {log // _MIB} MiB, the database {size // _MIB} MiB"
        yield Fault("log-large", detail, fix=fix)


def suspect_queries(database: Database, tables: SqlTables) -> Iterator[str]:
    """The queries for threads whose keys may contradict each other. They read no body and no value.

    An id may appear in the results of several. Nothing contradicts in a shallow layout: it stores
    no parents, and writes of a checkpoint before.
    """
    if tables.shallow:
        return
    checkpoints, exact = tables.checkpoints.source, database.exact
    (ns,) = tables.namespace("")
    # The first comparisons use the primary key. A collation may take other ids for equal.
    in_thread = f"p.{ns} = c.{ns} AND {exact('p.thread_id')} = {exact('c.thread_id')}"
    of_parent = (
        f"p.thread_id = c.thread_id AND p.checkpoint_id = c.parent_checkpoint_id AND {in_thread}"
    )
    of_writes = " AND ".join(
        f"p.{name} = {database.as_in(tables.checkpoints.name, name, f'c.{name}')}"
        for name in ("thread_id", "checkpoint_id")
    )
    own, parent = exact("c.checkpoint_id"), exact("p.checkpoint_id")
    # Also finds heads that have a child: no id is greater than theirs.
    yield (
        f"SELECT DISTINCT {exact('c.thread_id')} FROM {checkpoints} c"
        f" LEFT JOIN {checkpoints} p ON {of_parent} WHERE c.parent_checkpoint_id IS NOT NULL"
        f" AND (p.checkpoint_id IS NULL OR {parent} >= {own})"
    )
    yield (
        f"SELECT DISTINCT {exact('c.thread_id')} FROM"
        f" (SELECT DISTINCT thread_id, {ns}, checkpoint_id FROM {tables.writes.source}) c"
        f" LEFT JOIN {checkpoints} p ON {of_writes} AND {in_thread}"
        " WHERE p.checkpoint_id IS NULL"
    )
