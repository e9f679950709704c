"""The tables of savers: which saver made them, how queries see them, and the queries themselves.

LangGraph's savers for servers use three tables: checkpoint bodies, writes, and channel values
("blobs"). A body names the version of each channel's value; the value itself is in the blobs table.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar

from ckpt_backends import shell
from ckpt_backends.declaration import declared_for, load
from ckpt_backends.errors import UnknownLayout
from ckpt_backends.model import (
    COPY_INSTEAD,
    Blob,
    Capability,
    CheckpointKey,
    ThreadSize,
    TypedBytes,
    ids_between,
    in_chunks,
)

if TYPE_CHECKING:
    from ckpt_backends.model import ThreadBounds
    from ckpt_backends.protocol import Store, WritableStore
    from ckpt_backends.sql.database import Database, WritableDatabase
    from ckpt_backends.url import StoreUrl


CHECKPOINTS, BLOBS, WRITES = "checkpoints", "checkpoint_blobs", "checkpoint_writes"
NAMES = (CHECKPOINTS, BLOBS, WRITES)
_KNOWN = {*NAMES, "checkpoint_migrations"}

_SHALLOW: Mapping[str, frozenset[str]] = {
    CHECKPOINTS: frozenset({"thread_id", "checkpoint_ns", "checkpoint", "metadata"}),
    BLOBS: frozenset({"thread_id", "checkpoint_ns", "channel", "type", "blob"}),
    WRITES: frozenset(
        {"thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx", "channel", "type", "blob"}
    ),
}
_FULL: Mapping[str, frozenset[str]] = {
    CHECKPOINTS: _SHALLOW[CHECKPOINTS] | {"checkpoint_id", "parent_checkpoint_id"},
    BLOBS: _SHALLOW[BLOBS] | {"version"},
    WRITES: _SHALLOW[WRITES],
}

NEEDED = {True: _SHALLOW, False: _FULL}
"""By whether a layout is shallow, the columns that every release of its saver creates."""


STORED = Blob("", 0)
"""A value of which only is known that it is stored."""


def missing_columns(columns: Mapping[str, Set[str]], needed: Mapping[str, Set[str]]) -> list[str]:
    """The needed columns that are missing from these tables, as `table.column`."""
    return [
        f"{name}.{column}"
        for name, wanted in needed.items()
        for column in sorted(wanted - columns.get(name, frozenset()))
    ]


def unknown_columns(
    columns: Mapping[str, Set[str]],
    also: Mapping[str, Set[str]],
    needed: Mapping[str, Set[str]] = _FULL,
) -> tuple[str, ...]:
    """The columns that no release of the saver creates, as `table.column`.

    `also` lists by table the columns that only some releases create.
    """
    return tuple(
        f"{name}.{column}"
        for name, known in needed.items()
        for column in sorted(columns[name] - known - also.get(name, frozenset()))
    )


def why_only_read(unknown: Sequence[str], required: Sequence[str]) -> str:
    """Why `ckpt` adds nothing to tables; `''` if it does.

    `unknown` is what no release of the saver creates, `required` the columns among it, each as
    `table.column`, that have no default and must have a value.
    """
    tables: dict[str, list[str]] = {}
    for one in required:
        table, _, column = one.partition(".")
        tables.setdefault(column, []).append(f"'{table}'")
    if tables:
        columns = [f"{shell.name(name)} of {', '.join(found)}" for name, found in tables.items()]
        return (
            f"column{'s' if len(columns) > 1 else ''} {' and '.join(columns)}"
            " must have a value, and ckpt does not know it"
        )
    if not unknown:
        return ""
    return f"it has what no known saver creates: {', '.join(map(shell.word, unknown))}"


def with_extras(saver: str, unknown: Sequence[str], tables: Iterable[str] = ()) -> str:
    """The saver in words, with what an application, or a fork of the saver, added.

    `unknown` has columns as `table.column`; of `tables`, those count that are named like the
    saver's.
    """
    columns = {one.rpartition(".")[2] for one in unknown if "." in one}
    others = {one for one in tables if one.startswith("checkpoint") and one not in _KNOWN}
    extras = [
        f"extra {noun}{'s' if len(names) > 1 else ''} {', '.join(map(shell.name, sorted(names)))}"
        for noun, names in (("column", columns), ("table", others))
        if names
    ]
    return f"{saver}, with {' and '.join(extras)}" if extras else saver


def not_changed(where: str, reason: str) -> UnknownLayout:
    """The error for tables that `ckpt` only reads."""
    return UnknownLayout(f"cannot write to '{where}': {reason}", hint=COPY_INSTEAD)


def unknown_tables(where: str, missing: Iterable[str]) -> UnknownLayout:
    """The error for tables that lack something."""
    return UnknownLayout(
        f"unknown layout of the checkpoint tables in '{where}'",
        hint=f"missing {', '.join(missing)}",
    )


def too_old(where: str) -> UnknownLayout:
    """The error for tables of LangGraph 0.1."""
    return UnknownLayout(
        f"'{where}' was written by LangGraph 0.1 or earlier (column 'thread_ts')",
        hint="only langgraph 0.1 reads it; no later release converts it, and ckpt does not either",
    )


def check_wanted(wanted: str | None, layout: str, where: str) -> None:
    """Raise `UnknownLayout` if the URL names another layout than that of the tables."""
    if wanted not in {None, layout}:
        raise UnknownLayout(
            f"'{where}' does not hold the layout '{wanted}'",
            hint=f"it holds '{layout}': remove `layout` from the URL",
        )


def json_bytes(text: str | None) -> TypedBytes:
    """A checkpoint body or metadata from the JSON text that the engine returns."""
    return TypedBytes("json", (text or "null").encode())


# The layout of LangGraph's savers that keep values in a table of blobs.


Table = TypeVar("Table", bound=Any)


@dataclass(frozen=True, slots=True)
class BlobLayout(Generic[Table]):
    """The layout as found in one database."""

    checkpoints: Table
    blobs: Table
    writes: Table
    shallow: bool
    """Whether it stores only the newest state, without checkpoint ids and versions."""
    unknown: tuple[str, ...]
    """What no known saver creates, such as `table.column`. A newer saver may have done so."""

    required: tuple[str, ...]
    """Of the unknown columns, those that have no default and must have a value."""

    @property
    def only_read(self) -> str:
        """Why `ckpt` adds nothing to the tables; `''` if it does."""
        return why_only_read(self.unknown, self.required)

    @property
    def task_path(self) -> bool:
        """Whether the writes have the column `task_path`."""
        return bool("task_path" in self.writes.columns)

    @property
    def tables(self) -> tuple[Table, Table, Table]:
        return self.checkpoints, self.blobs, self.writes


# Finds out which application's saver made the tables of a database.
#
# A backend that declares `engine="sql"`, or `engine="postgresql"` if its layout is in no other
# engine, names a function `recognise(tables)`, whose parameter maps each table to its columns. It
# returns a `TableSaver`, or None if the tables are not its own. An engine asks before it looks for
# the tables of LangGraph's own saver.


Tables = Mapping[str, Set[str]]
"""The columns of each table."""


class TableSaver(NamedTuple):
    """The saver of an application that keeps its checkpoints in any SQL engine."""

    store: str
    """`module:function(database, tables, url, schema) -> Store`."""
    writable: str
    """`module:function(database, tables, url, schema) -> WritableStore`."""
    tables: Sequence[str] = NAMES
    """Its tables."""

    def open(
        self, database: Database, tables: Tables, url: StoreUrl, schema: str | None = None
    ) -> Store:
        """Open for reading. Raises `UnknownLayout`."""
        store: Store = load(self.store)(database, tables, url, schema)
        return store

    def open_writable(
        self, database: WritableDatabase, tables: Tables, url: StoreUrl, schema: str | None = None
    ) -> WritableStore:
        """Open for changing. Raises `UnknownLayout`."""
        store: WritableStore = load(self.writable)(database, tables, url, schema)
        return store


def recognised(tables: Tables, *engines: str) -> TableSaver | None:
    """The application's saver that made these tables; None if it is LangGraph's, or unknown.

    `engines` are those whose backends are asked besides those for all engines with SQL.
    """
    # LangGraph's savers store a body. Without it, asking installed packages may take a while.
    if "checkpoint" in tables.get("checkpoints", ()):
        return None
    for engine in ("sql", *engines):
        for backend in declared_for(engine):
            saver: TableSaver | None = load(backend.recognise)(tables)
            if saver is not None:
                return saver
    return None


KEYS_AT_ONCE, BODIES_AT_ONCE, STATES_AT_ONCE = 5000, 200, 4
"""Rows in memory at a time: keys, bodies without values, and bodies with values."""


class SqlTable(NamedTuple):
    """A table of LangGraph's saver."""

    name: str
    """Its name in archives and in `Usage`."""
    sql: str
    """Its quoted name for a query."""
    columns: Mapping[str, str]
    """By stored column, the expression for an archive."""
    sizes: Mapping[str, str]
    """By column whose space counts, the expression for its bytes."""
    view: str = ""
    """A subquery with the columns of the full layout, if the table does not have them."""

    @property
    def source(self) -> str:
        """What a query for checkpoints or writes reads from."""
        return self.view or self.sql

    @property
    def size(self) -> str:
        """The expression for the bytes of a row."""
        return " + ".join(self.sizes.values())


def by_name(ns: str) -> Mapping[str, object]:
    """The cells with which most savers find the rows of a namespace."""
    return {"checkpoint_ns": ns}


class SqlTables(NamedTuple):
    """The layout as found in one database."""

    layout: str
    names: tuple[str, ...]
    """The plain names of the tables, with schema."""
    checkpoints: SqlTable
    writes: SqlTable
    task_path: bool
    """Whether writes have the column `task_path`."""
    can_add: bool
    """Whether `ckpt` can add checkpoints."""
    blobs: SqlTable | None = None
    """None if values are in the bodies."""
    shallow: bool = False
    """Whether the layout stores only the newest state, without checkpoint ids and versions."""
    own_id: str = "checkpoint_id"
    """The expression for the id of a row of `checkpoints`."""
    namespace: Callable[[str], Mapping[str, object]] = by_name
    """The cells with which the rows of a namespace are found."""

    @property
    def capabilities(self) -> Capability:
        """What `ckpt` can do with a store of this layout."""
        can = Capability.WRITES | Capability.ENFORCED_READ_ONLY
        can |= Capability(0) if self.shallow else Capability.HISTORY
        can |= Capability.ADDING if self.can_add else Capability(0)
        can |= Capability.TASK_PATH if self.task_path else Capability(0)
        return can | (Capability(0) if self.blobs else Capability.INLINE_VALUES)

    @property
    def all(self) -> tuple[SqlTable, ...]:
        """The tables, checkpoints last."""
        return (*([self.blobs] if self.blobs else []), self.writes, self.checkpoints)


def tables_with_blobs(
    database: Database,
    layout: BlobLayout[Any],
    /,
    *,
    size: str,
    length: str,
    view: str,
    **rest: Any,
) -> SqlTables:
    """The tables of a saver that keeps values in a table of blobs.

    `size` and `length` are expressions for the bytes of JSON and of a value, with `{}` for the
    column; `view` is the subquery for a shallow layout, and `rest` the other fields of `SqlTables`.
    """

    def table(found: Any, *sized: str, size: str = length, view: str = "") -> SqlTable:
        # In a query with parameters, `%` must be written as `%%`.
        name = found.sql.replace("%", "%%")
        columns = {column: database.archived(found.name, column) for column in found.stored}
        sizes = {column: size.format(column) for column in sized}
        return SqlTable(found.name, name, columns, sizes, view.format(checkpoints=name))

    row = view if layout.shallow else ""
    return SqlTables(
        checkpoints=table(layout.checkpoints, "checkpoint", "metadata", size=size, view=row),
        writes=table(layout.writes, "blob"),
        blobs=table(layout.blobs, "blob"),
        task_path=layout.task_path,
        shallow=layout.shallow,
        **rest,
    )


class RowQuery(NamedTuple):
    """A query for rows of checkpoints or writes, without the condition that selects them."""

    table: SqlTable
    columns: str
    order: str
    """The order of the rows of one namespace."""
    join: str = ""
    only: str = ""
    """A further condition, such as `c.channel = 'a'`."""
    values: Mapping[str, object] = {}
    """The parameters of all these."""
    at_once: int = KEYS_AT_ONCE
    has_bodies: bool = False
    """Whether bodies or metadata are read."""

    @property
    def rest(self) -> str:
        """The end of a query for the checkpoints with the numbers `n`, or for their writes."""
        where = f"WHERE {self.only}" if self.only else ""
        return where if self.has_bodies else f"{where} ORDER BY n, {self.order}"


def keyed(
    thread_id: str, rows: Iterable[Sequence[Any]], text: Callable[[Any], str]
) -> Iterator[tuple[CheckpointKey, Sequence[Any]]]:
    """Rows of a thread that begin with namespace and checkpoint id, as their keys and the rest."""
    place, key = None, CheckpointKey(thread_id, "", "")
    for ns, checkpoint_id, *row in rows:
        if place != (ns, checkpoint_id):  # The writes of a checkpoint come one after the other.
            place, key = (
                (ns, checkpoint_id),
                CheckpointKey(thread_id, text(ns), text(checkpoint_id)),
            )
        yield key, row


def namespaces_query(database: Database, tables: SqlTables, thread_is: str) -> str:
    """The query for the namespaces of a thread, in order."""
    return (
        f"SELECT DISTINCT {database.exact('c.checkpoint_ns')} AS ns"
        f" FROM {tables.checkpoints.source} c WHERE {thread_is} ORDER BY ns"
    )


def size_queries(database: Database, tables: SqlTables, thread_is: str) -> Iterator[str]:
    """The queries for the number and bytes of a thread's checkpoints and writes.

    The columns are namespace, checkpoint id, number of checkpoints, number of writes, and bytes.
    """
    ns, name = map(database.exact, ("c.checkpoint_ns", "c.checkpoint_id"))
    for table, counted in ((tables.checkpoints, "COUNT(*), 0"), (tables.writes, "0, COUNT(*)")):
        yield (
            f"SELECT {ns} AS ns, {name} AS name, {counted}, COALESCE(SUM({table.size}), 0)"
            f" FROM {table.source} c WHERE {thread_is} GROUP BY ns, name"
        )


def usage_query(database: Database, tables: SqlTables, rest: str, body_type: str) -> str:
    """The query for the space that is used, ordered by thread; see `Usage`.

    `rest` is the end of the query for stored values; `body_type` is the expression for the type of
    a body.
    """
    exact, parts = database.exact, []
    for table in reversed(tables.all):
        for column, size in table.sizes.items():
            channel, tag = "NULL", exact("'json'" if column == "metadata" else body_type)
            if table is not tables.checkpoints:
                channel, tag = exact("c.channel"), exact("COALESCE(c.type, '')")
            parts.append(
                f"SELECT thread, '{table.name}', '{column}', ns, channel, tag, COUNT(*),"
                f" COALESCE(SUM(size), 0) FROM (SELECT {exact('c.thread_id')} AS thread,"
                f" {exact('c.checkpoint_ns')} AS ns, {channel} AS channel, {tag} AS tag,"
                f" {size} AS size FROM {table.source} c {rest}) used"
                " GROUP BY thread, ns, channel, tag"
            )
    return f"{' UNION ALL '.join(parts)} ORDER BY thread"


def writes_query(
    database: Database,
    tables: SqlTables,
    channels: Collection[str] | None,
    values: bool | Collection[str],
    length: str,
    most: int,
) -> RowQuery:
    """The query for writes; `channels` and `values` are those of `Store.writes`.

    `length` is the expression for the bytes of a stored value. Longer values than `most` are not
    read.
    """
    bound: dict[str, object] = {}
    wanted = "TRUE" if values else "FALSE"
    if not isinstance(values, bool):
        wanted, bound = database.among("c.channel", "read", values)
    only = ""
    if channels is not None:
        only, names = database.among("c.channel", "of", channels)
        bound |= names
    path = "c.task_path" if tables.task_path else "''"
    value = f"c.{database.quoted(next(iter(tables.writes.sizes)))}"
    size = length.format(value)
    order = map(database.exact, ("c.checkpoint_id", path, "c.task_id"))
    return RowQuery(
        table=tables.writes,
        columns=f"c.task_id, {path}, c.idx, c.channel, c.type, {size}, {wanted},"
        f" CASE WHEN {wanted} AND {size} <= {most} THEN {value} END",
        order=f"{', '.join(order)}, c.idx",
        only=only,
        values=bound,
        at_once=KEYS_AT_ONCE if values is False else BODIES_AT_ONCE,
    )


# Queries for some threads of a store: those within bounds, and ids that begin with a text.


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
    bounds: ThreadBounds,
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


def _keys_within(database: Database, bounds: ThreadBounds) -> Query | None:
    """The condition for checkpoints by the ids of their threads; None if there can be none."""
    if bounds.ids is not None and len(bounds.ids) <= _IDS:
        ids = sorted(filter(database.storable, bounds.ids))
        return database.among("c.thread_id", "only", ids) if ids else None
    if not database.storable(bounds.prefix):
        return None
    from ckpt_backends.model import end_of_prefix

    end = end_of_prefix(bounds.prefix)
    return ("", {}) if end is None else _between(database, ">=", bounds.prefix, end)


def _between(database: Database, operator: str, begin: str, end: str) -> Query:
    """The condition that a thread id lies between two texts."""
    thread, first, last = map(
        database.exact, ("c.thread_id", database.text("begin"), database.text("end"))
    )
    values: dict[str, object] = {"begin": database.bound(begin), "end": database.bound(end)}
    return f"{thread} {operator} {first} AND {thread} < {last}", values


# Adds up the rows of several threads with one query for each table.


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
