"""Asks the engine which threads may contain a text, without reading their values."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

from ckpt_backends.codec.stored_text import ARRAY, KNOWN_TYPES, escape_in_json
from ckpt_backends.sql.chunks import in_chunks
from ckpt_backends.sql.database import Database
from ckpt_backends.sql.queries import SqlTable, SqlTables

_THREADS_PER_QUERY = 300


def threads_that_may_hold(
    database: Database,
    tables: SqlTables,
    thread_ids: Sequence[str],
    texts: Collection[str],
    body_type: str,
    body: str,
) -> Iterator[Any]:
    """Those of some threads with a value that may contain one of the texts, as cells.

    Some come more than once. `body_type` is the expression for the type of a body, and `body` the
    one for its bytes, with `{}` for its column.
    """
    parts = [one.encode() for one in texts]
    escapes = sorted({escape_in_json(one) for one in texts})
    bound: dict[str, object] = {
        **{f"part{n}": one for n, one in enumerate([*parts, ARRAY])},
        **{f"escape{n}": one for n, one in enumerate(escapes)},
    }
    part_names = [one for one in bound if one.startswith("part")]
    escape_names = [one for one in bound if one.startswith("escape")]
    thread = database.exact("c.thread_id")
    asked = [one for one in thread_ids if database.storable(one)]
    for some in in_chunks(asked, _THREADS_PER_QUERY):
        among, ids = database.among("c.thread_id", "t", some)
        for table in tables.all:
            value, tag = _value(database, table, tables, body_type, body)
            known = ", ".join(f"'{one}'" for one in KNOWN_TYPES)
            may_hold = (
                f"COALESCE({tag}, '') NOT IN ({known}) OR {database.holds(value, part_names)}"
                f" OR ({tag} = 'json' AND {database.holds(value, escape_names)})"
            )
            query = f"SELECT DISTINCT {thread} FROM {table.source} c WHERE {among} AND ({may_hold})"
            for (found,) in database.rows(query, {**ids, **bound}):
                yield found


def _value(
    database: Database, table: SqlTable, tables: SqlTables, body_type: str, body: str
) -> tuple[str, str]:
    """The expressions for the bytes of a table's values, and for their type."""
    column = f"c.{database.quoted(next(iter(table.sizes)))}"
    if table is tables.checkpoints:
        return body.format(column), body_type
    return column, "c.type"
