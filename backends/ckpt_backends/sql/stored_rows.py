"""Reads the rows of several threads, or sums of them, with one query for each table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ckpt_backends.model import ThreadSize
from ckpt_backends.sql.chunks import in_chunks
from ckpt_backends.sql.database import Database
from ckpt_backends.sql.queries import SqlTable, SqlTables

if TYPE_CHECKING:
    from ckpt_backends.changes.rows import Row

_THREADS_PER_QUERY = 500


def rows_of(database: Database, tables: SqlTables, thread_ids: Sequence[str]) -> Iterator[Row]:
    """The rows of some threads; see `Store.rows_of`."""
    # Late, since listings only add up sizes.
    from ckpt_backends.changes.rows import Row

    for table, where, values in _queries(database, tables, thread_ids):
        columns = table.columns
        query = f"SELECT {', '.join(columns.values())} FROM {table.sql} c WHERE {where}"
        for row in database.rows(query, values):
            yield Row(table.name, dict(zip(columns, row, strict=True)))


def threads_with_rows(
    database: Database, tables: SqlTables, thread_ids: Sequence[str]
) -> Iterator[Any]:
    """Those of some threads that have any row, as cells; some more than once."""
    thread = database.exact("c.thread_id")
    for table, where, values in _queries(database, tables, thread_ids):
        query = f"SELECT DISTINCT {thread} FROM {table.sql} c WHERE {where}"
        for (found,) in database.rows(query, values):
            yield found


def _sums_of(
    database: Database, tables: SqlTables, thread_ids: Sequence[str]
) -> Iterator[dict[Any, tuple[Any, Any]]]:
    """By thread, the numbers of rows and their bytes: of checkpoints, of writes, and of blobs."""
    thread = database.exact("c.thread_id")
    asked = [one for one in dict.fromkeys(thread_ids) if database.storable(one)]
    for table in (tables.checkpoints, tables.writes, tables.blobs):
        found: dict[Any, tuple[Any, Any]] = {}
        if table is not None:
            sums = f"COUNT(*), COALESCE(SUM({table.size}), 0)"
            for some in in_chunks(asked, _THREADS_PER_QUERY):
                where, values = database.among("c.thread_id", "t", some)
                query = (
                    f"SELECT {thread} AS thread, {sums} FROM {table.source} c WHERE {where}"
                    " GROUP BY thread"
                )
                found |= {one: (number, size) for one, number, size in database.rows(query, values)}
        yield found


def _queries(
    database: Database, tables: SqlTables, thread_ids: Sequence[str]
) -> Iterator[tuple[SqlTable, str, dict[str, object]]]:
    """The tables, checkpoints last, each with the condition for rows of these threads."""
    asked = [one for one in thread_ids if database.storable(one)]
    for some in in_chunks(asked, _THREADS_PER_QUERY):
        where, values = database.among("c.thread_id", "t", some)
        for table in tables.all:
            yield table, where, values


def sizes_of(
    database: Database,
    tables: SqlTables,
    thread_ids: Sequence[str],
    text: Callable[[Any], str],
    number: Callable[[Any], int],
) -> list[ThreadSize]:
    """The sizes of threads, in their order; `text` and `number` read a cell."""
    found = [
        {text(one): tuple(map(number, sums)) for one, sums in each.items()}
        for each in _sums_of(database, tables, thread_ids)
    ]
    of_each = [[each.get(one, (0, 0)) for each in found] for one in thread_ids]
    return [
        ThreadSize(rows[0], writes[0], rows[1] + writes[1] + blobs[1], blobs[0])
        for rows, writes, blobs in of_each
    ]
