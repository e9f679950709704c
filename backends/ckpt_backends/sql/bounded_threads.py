"""Queries for some threads of a store: those within bounds, and ids that begin with a text."""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
import sys
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from ckpt_backends.checkpoint_ids import ids_between
from ckpt_backends.sql.database import Database
from ckpt_backends.sql.queries import SqlTables

if TYPE_CHECKING:
    from ckpt_backends.thread_bounds import ThreadBounds

_IDS = 500
"""Maximum number of ids in a query. If there are more, all threads are listed."""
_LAST = chr(sys.maxunicode)

Query: TypeAlias = tuple[str, dict[str, object]]
"""SQL and its parameters."""

HEADS = """
    SELECT c.thread_id AS thread, MAX(c.checkpoint_id) AS head
    FROM {checkpoints} c WHERE {is_root} GROUP BY c.thread_id
"""
"""The root heads of all threads."""


class GroupedThreads(NamedTuple):
    """A query for threads, without an order.

    It has the columns `thread`, `head`, `first_id`, `newest`, `n` and `spaces`.
    """

    query: str
    values: dict[str, object]

    @property
    def rows(self) -> str:
        """The query with its columns in the order that `SqlStore` reads."""
        columns = "t.thread, t.head, t.first_id, t.newest, t.n, t.spaces"
        return f"SELECT {columns} FROM ({self.query}) t"


def query_within(
    database: Database,
    grouped: Callable[[str], GroupedThreads],
    with_writes: Query | None,
    bounds: "ThreadBounds",
) -> Query | None:
    """The query for the threads within bounds, newest first; None if there can be none.

    `grouped` returns the query for threads, given a condition for checkpoints; `with_writes` is
    the query for those with a write on one of the `head_channels`, if there are such. The result
    may include threads outside of the bounds, but each of them has such a write.
    """
    keys = _keys_within(database, bounds)
    if keys is None or bounds.head_channels == frozenset():
        return None
    where, values = keys
    if with_writes is not None:
        # Counts and times are then read of few threads.
        written = f"c.thread_id IN ({with_writes[0]})"
        where = f"{where} AND {written}" if where else written
        values = values | with_writes[1]
    listed = grouped(where)
    values = listed.values | values
    conditions = []
    times = ids_between(bounds.since, bounds.until)
    for name, operator, text in zip(("since", "until"), (">=", "<"), times, strict=True):
        if text:
            newest, bound = map(database.exact, ("t.newest", database.text(name)))
            conditions.append(f"{newest} {operator} {bound}")
            values[name] = database.bound(text)
    only = f"WHERE {' AND '.join(conditions)}" if conditions else ""
    order = f"ORDER BY t.newest DESC, {database.exact('t.thread')}"
    return f"{listed.rows} {only} {order}", values


def with_writes_query(
    database: Database, tables: SqlTables, heads: str, is_root: Query, channels: Collection[str]
) -> Query:
    """The query for the ids of threads with a write on one of these channels at their root head.

    `heads` is a query for the columns `thread` and `head`, `is_root` the condition for rows of the
    root namespace.
    """
    among, names = database.among("c.channel", "channel", sorted(channels))
    thread, head = (
        database.as_in(tables.writes.name, column, other)
        for column, other in (("thread_id", "h.thread"), ("checkpoint_id", "h.head"))
    )
    # `CROSS JOIN` keeps SQLite from reading all writes before the heads.
    query = (
        f"SELECT c.thread_id FROM ({heads}) h CROSS JOIN {tables.writes.source} c"
        f" WHERE {is_root[0]} AND {among} AND c.thread_id = {thread} AND c.checkpoint_id = {head}"
    )
    return query, is_root[1] | names


def ids_query(database: Database, tables: SqlTables, prefix: str, after: str) -> Query | None:
    """The query for thread ids that begin with `prefix` and are greater than `after`, in order.

    Returns None if the engine cannot store such an id.
    """
    if not database.storable(prefix + after):
        return None
    first = ">=" if after < prefix else ">"
    where, values = _between(database, first, max(prefix, after), prefix + _LAST)
    source, thread = tables.checkpoints.source, database.exact("c.thread_id")
    return f"SELECT DISTINCT {thread} AS thread FROM {source} c WHERE {where} ORDER BY 1", values


def _keys_within(database: Database, bounds: "ThreadBounds") -> Query | None:
    """The condition for checkpoints by the ids of their threads; None if there can be none."""
    if bounds.ids is not None and len(bounds.ids) <= _IDS:
        ids = sorted(filter(database.storable, bounds.ids))
        return database.among("c.thread_id", "only", ids) if ids else None
    if not database.storable(bounds.prefix):
        return None
    from ckpt_backends.thread_bounds import end_of_prefix

    end = end_of_prefix(bounds.prefix)
    return ("", {}) if end is None else _between(database, ">=", bounds.prefix, end)


def _between(database: Database, operator: str, begin: str, end: str) -> Query:
    """The condition that a thread id lies between two texts."""
    thread, first, last = map(
        database.exact, ("c.thread_id", database.text("begin"), database.text("end"))
    )
    values: dict[str, object] = {"begin": database.bound(begin), "end": database.bound(end)}
    return f"{thread} {operator} {first} AND {thread} < {last}", values
