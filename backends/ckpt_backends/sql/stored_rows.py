"""Adds up the rows of several threads with one query for each table."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

from ckpt_backends.chunks import in_chunks
from ckpt_backends.model import ThreadSize
from ckpt_backends.sql.database import Database
from ckpt_backends.sql.queries import SqlTable, SqlTables

THREADS_PER_QUERY = 500


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
) -> Iterator[dict[Any, tuple[Any, ...]]]:
    """By thread, the numbers of rows and their bytes: of checkpoints, of writes, and of blobs."""
    asked = [one for one in dict.fromkeys(thread_ids) if database.storable(one)]
    for table in (tables.checkpoints, tables.writes, tables.blobs):
        found: dict[Any, tuple[Any, ...]] = {}
        if table is not None:
            for some in in_chunks(asked, THREADS_PER_QUERY):
                found |= _sums(database, table, some)
        yield found


def _sums(
    database: Database, table: SqlTable, thread_ids: Sequence[str]
) -> dict[Any, tuple[Any, ...]]:
    """By thread, the number of its rows and their bytes."""
    thread = database.exact("c.thread_id")
    where, values = database.among("c.thread_id", "t", thread_ids)
    rest = f"COUNT(*), COALESCE(SUM({table.size}), 0) FROM {table.source} c WHERE {where} GROUP BY"
    if thread != "c.thread_id":
        # By the column itself the server groups in the order of its index, without sorting all
        # rows. It may take different ids for one.
        query = f"SELECT MIN({thread}), MAX({thread}), {rest} c.thread_id"
        rows = database.rows(query, values)
        found = {one: tuple(sums) for one, other, *sums in rows if one == other}
        if len(found) == len(rows):
            return found
    rows = database.rows(f"SELECT {thread}, {rest} {thread}", values)
    return {one: tuple(sums) for one, *sums in rows}


def _queries(
    database: Database, tables: SqlTables, thread_ids: Sequence[str]
) -> Iterator[tuple[SqlTable, str, dict[str, object]]]:
    """The tables, checkpoints last, each with the condition for rows of these threads."""
    asked = [one for one in thread_ids if database.storable(one)]
    for some in in_chunks(asked, THREADS_PER_QUERY):
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
