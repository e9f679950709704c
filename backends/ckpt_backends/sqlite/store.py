"""Reads LangGraph's SQLite layout.

The only indexes of `checkpoints` and `writes` are their primary keys, which begin with thread,
namespace and checkpoint id. `metadata` is stored after the body in its row, so reading it also
reads the overflow pages of the body. Listings therefore read keys only.

All Python savers (langgraph-checkpoint-sqlite 1.x to 3.x) and all LangGraph.js savers share these
tables; 3.1.2 added `writes.task_path`, which is the last column in older files. No saver sets
`user_version` or `application_id`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence, Set
from contextlib import suppress
from typing import Any, NamedTuple

from ckpt_backends import shell
from ckpt_backends.codec.values import MOST_BYTES, typed
from ckpt_backends.errors import StoreUnavailable, UnknownLayout
from ckpt_backends.model import Checkpoint, CheckpointKey, Fault, in_chunks
from ckpt_backends.protocol import CheckpointQuery, Store
from ckpt_backends.sql.database import Database, text
from ckpt_backends.sql.store import Keyed, SqlStore
from ckpt_backends.sql.tables import (
    RENAMED,
    GroupedThreads,
    RowQuery,
    SqlTable,
    SqlTables,
    missing_columns,
    only_read_note,
    recognised,
    renamed,
    too_old,
    unknown_columns,
    where_all,
    why_only_read,
    with_extras,
)
from ckpt_backends.sqlite.database import OpenedDatabase, open_read_only, opening
from ckpt_backends.sqlite.journals import bind, contradiction, quoted_name, stored_bytes
from ckpt_backends.url import StoreUrl

NAMES = ("checkpoints", "writes")
"""The saver's tables."""
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


def detect(
    tables: Mapping[str, Set[str]],
    where: str,
    wanted: str | None = None,
    *,
    is_renamed: bool = False,
) -> SqliteLayout:
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
    unknown += (RENAMED,) if is_renamed else ()
    writes = list(tables["writes"])
    is_added = "task_path" in writes and writes.index("task_path") > writes.index("value")
    return SqliteLayout("task_path" in writes, is_added, unknown)


_IDS_PER_QUERY, _KEYS_PER_QUERY = 500, 300
"""With these, no query has more than 999 parameters, the limit of old SQLite releases."""

_SAMPLE = 20
_SOME = f"""
    SELECT type, CASE WHEN length(checkpoint) <= {MOST_BYTES} THEN substr(checkpoint, 1, 200) END
    FROM checkpoints {{order}} LIMIT {_SAMPLE}
"""
_ORDERS = (
    "",
    "ORDER BY thread_id DESC, checkpoint_ns DESC, checkpoint_id DESC",
    "ORDER BY rowid DESC",
)
"""Rows that were stored first, those of the last ids of threads, and those stored last."""
_TIME = re.compile(rb'"ts": ?"([^"]*)"')
"""The time in a body. It ends with Z if JavaScript wrote it, with an offset if Python did."""

_THREADS = """
    SELECT thread_id AS thread,
           CASE WHEN last_ns = '' THEN newest ELSE (
               SELECT max(checkpoint_id) FROM checkpoints AS c
               WHERE c.thread_id = t.thread_id AND c.checkpoint_ns = '' {made}) END AS head,
           first_id, newest, n,
           CASE WHEN last_ns = first_ns THEN 1 ELSE (
               SELECT count(DISTINCT checkpoint_ns) FROM checkpoints AS c
               WHERE c.thread_id = t.thread_id {made}) END AS spaces
    FROM (SELECT thread_id, min(checkpoint_ns) AS first_ns, max(checkpoint_ns) AS last_ns,
                 min(checkpoint_id) AS first_id, max(checkpoint_id) AS newest, count(*) AS n
          FROM checkpoints AS c {where} GROUP BY thread_id) AS t
"""
"""Most threads have one namespace. The subqueries run only for threads with more."""

_NEWEST = """
    SELECT thread_id AS thread,
           CASE WHEN max(checkpoint_ns) = '' THEN NULL ELSE (
               SELECT max(checkpoint_id) FROM checkpoints AS o
               WHERE o.thread_id = c.thread_id AND o.checkpoint_ns = '') END AS head,
           min(checkpoint_id) AS first_id, max(checkpoint_id) AS newest, count(*) AS n,
           CASE WHEN max(checkpoint_ns) = '' THEN NULL ELSE (
               SELECT count(DISTINCT checkpoint_ns) FROM checkpoints AS o
               WHERE o.thread_id = c.thread_id) END AS spaces
    FROM checkpoints AS c GROUP BY thread_id
"""
"""The same for all threads in less time: `spaces` is NULL if a thread has only the root
namespace. Only numbers sort before `''`, and a column of text holds none.
"""
_HAS_TEXT_NAMESPACES = """
    SELECT 1 FROM pragma_table_info('checkpoints')
    WHERE name = 'checkpoint_ns' AND upper(type) = 'TEXT'
"""


class SqliteStore(SqlStore):
    """A SQLite file, opened for reading."""

    _LENGTH = "length({})"
    _BODY_TYPE = "c.type"
    # It also stops SQLite from sorting whole values.
    _UNMERGED = "LIMIT -1"

    def __init__(
        self,
        database: OpenedDatabase,
        url: StoreUrl,
        tables: Mapping[str, Set[str]],
        names: Sequence[str] = NAMES,
    ) -> None:
        """`names` are those of the tables in the file."""
        wanted = url.params.get("layout")
        self._layout = detect(tables, str(url), wanted, is_renamed=names is not NAMES)
        self._stored = list(tables)
        super().__init__(database, url, tables_of(self._layout, tables, names))

    def _saver(self) -> str:
        found: list[str] = []
        for order in _ORDERS:
            # Other rows of a damaged file may be readable; an application's table may lack rowids.
            with suppress(StoreUnavailable):
                for tag, beginning in self._stream(_SOME.format(order=order), {}):
                    found.append(_kind(tag, beginning))
        return with_extras(_saver(self._layout, set(found)), self._layout.unknown, self._stored)

    @property
    def _only_read(self) -> str:
        return only_read_of(self._layout, self._database)

    def notes(self) -> Sequence[str]:
        return [*self._database.notes(), *only_read_note(self._only_read)]

    def _newest(self, limit: int | None) -> Iterator[Sequence[Any]]:
        if not self._database.rows(_HAS_TEXT_NAMESPACES, {}):
            yield from super()._newest(limit)
            return
        # With any LIMIT, SQLite sorts in a tree, which takes twice as long for many threads.
        end = "" if limit is None else f"LIMIT {limit:d}"
        for row in self._stream(f"{_NEWEST} ORDER BY newest DESC, thread {end}", {}):
            thread, _, first_id, newest, n, spaces = row
            yield (thread, newest, first_id, newest, n, 1) if spaces is None else row

    def _grouped(self, where: str, made: str = "") -> GroupedThreads:
        counted = f"AND {made}" if made else ""
        return GroupedThreads(_THREADS.format(where=where_all(where, made), made=counted), {})

    def _select_checkpoints(self, asked: CheckpointQuery) -> RowQuery:
        columns = ["c.parent_checkpoint_id"]
        columns += ["c.type", *_sized("c.checkpoint")] if asked.body else ["NULL"] * 3
        columns += _sized("c.metadata") if asked.metadata else ["NULL"] * 2
        return RowQuery(
            table=self._tables.checkpoints,
            columns=", ".join(columns),
            order="c.checkpoint_id DESC",
            has_bodies=asked.body or asked.metadata,
        )

    def _read_checkpoints(self, rows: Keyed, asked: CheckpointQuery) -> Iterator[Checkpoint]:
        for key, (parent, tag, length, stored, meta_length, meta) in rows:
            yield Checkpoint(
                key,
                None if parent is None else text(parent),
                typed(text(tag), length or 0, stored_bytes(stored)) if asked.body else None,
                typed("json", meta_length or 0, stored_bytes(meta)) if asked.metadata else None,
            )

    def _at(self, query: RowQuery, keys: Sequence[CheckpointKey]) -> Keyed:
        for some in in_chunks(keys, _KEYS_PER_QUERY):
            # A parameter costs as much as a cell: one for all keys of a namespace.
            spaces: dict[str, int] = {}
            values = dict(query.values)
            for n, key in enumerate(some):
                spaces.setdefault(key.checkpoint_ns, len(spaces))
                values[f"a{n}"], values[f"b{n}"] = bind(key.thread_id), bind(key.checkpoint_id)
            values |= {f"c{n}": bind(ns) for ns, n in spaces.items()}
            given = ", ".join(
                f"({n}, CAST(:a{n} AS TEXT), CAST(:c{spaces[key.checkpoint_ns]} AS TEXT),"
                f" CAST(:b{n} AS TEXT))"
                for n, key in enumerate(some)
            )
            text = (
                f"WITH k(n, thread, ns, id) AS (VALUES {given})"
                f" SELECT n, {query.columns} FROM k CROSS JOIN {query.table.sql} c"
                " ON c.thread_id = thread AND c.checkpoint_ns = ns AND c.checkpoint_id = id"
                f" {query.rest}"
            )
            for n, *row in self._stream(text, values):
                yield some[n], row

    def _of_thread(
        self,
        query: RowQuery,
        thread_id: str,
        checkpoint_ns: str | None,
        checkpoint_ids: Collection[str] | None,
    ) -> Keyed:
        """The rows of a thread. With `checkpoint_ids`, they are read in chunks of ids, in order.

        Bodies are read namespace by namespace. For several namespaces in one query, SQLite would
        copy all bodies to a temporary table to sort them.
        """
        values = self._of(thread_id)
        spaces: list[tuple[str, dict[str, object]]] = [("", {})]
        if checkpoint_ns is not None:
            spaces = [self._of_space(checkpoint_ns)]
        elif query.has_bodies or len(checkpoint_ids or ()) > _IDS_PER_QUERY:
            table = self._tables.checkpoints.sql
            distinct = f"SELECT DISTINCT checkpoint_ns FROM {table} c WHERE {self._thread_is}"
            spaces = [
                # In SQLite, a namespace may be of any type, or NULL.
                ("c.checkpoint_ns IS CAST(:ns AS TEXT)", {"ns": bind(ns)})
                if isinstance(ns, str)
                else ("c.checkpoint_ns IS :ns", {"ns": ns})
                for (ns,) in self._database.rows(f"{distinct} ORDER BY 1", values)
            ]
        some: list[list[str] | None] = [None]
        asked = None if checkpoint_ids is None else {*checkpoint_ids}
        if checkpoint_ids is not None:
            newest_first = query.order.endswith("DESC")
            some = [*in_chunks(sorted({*checkpoint_ids}, reverse=newest_first), _IDS_PER_QUERY)]
        for where, of_space in spaces:
            for ids in some:
                found = self._where(query, thread_id, where, {**values, **of_space}, ids)
                for key, row in found:
                    # SQLite finds a row by the index, and takes its cells from the table.
                    if (asked is not None and key.checkpoint_id not in asked) or (
                        checkpoint_ns is not None and key.checkpoint_ns != checkpoint_ns
                    ):
                        raise contradiction(self._url)
                    yield key, row

    _text = staticmethod(text)  # a cell may be of any type
    _data = staticmethod(stored_bytes)  # type: ignore[assignment]

    def _number(self, cell: Any) -> int:
        return cell if isinstance(cell, int) else 0

    def faults(self) -> Iterator[Fault]:
        from ckpt_backends.sqlite.health import key_faults

        if not self._layout.unknown:
            yield from key_faults(self._database)
        yield from super().faults()


def only_read_of(layout: SqliteLayout, database: Database) -> str:
    """Why `ckpt` adds nothing to a file; `''` if it does."""
    if not layout.unknown:
        return ""
    required = {f"{text(table)}.{text(column)}" for table, column in database.rows(REQUIRED, {})}
    return why_only_read(layout.unknown, [one for one in layout.unknown if one in required])


def tables_of(
    layout: SqliteLayout, tables: Mapping[str, Set[str]], names: Sequence[str] = NAMES
) -> SqlTables:
    """The tables of a file, for reading and changing."""

    def table(name: str, *sized: str) -> SqlTable:
        columns = {column: quoted_name(column) for column in tables[name]}
        sizes = {column: f"coalesce(length(c.{column}), 0)" for column in sized}
        return SqlTable(name, name, columns, sizes)

    return SqlTables(
        layout="sqlite",
        names=tuple(names),
        checkpoints=table("checkpoints", "checkpoint", "metadata"),
        writes=table("writes", "value"),
        task_path=layout.task_path,
        can_add=not layout.unknown,
    )


def _sized(column: str) -> list[str]:
    """Two columns: the length (read without the blob), and the value or NULL if too long."""
    length = f"length({column})"
    return [length, f"CASE WHEN {length} <= {MOST_BYTES} THEN {column} END"]


def _kind(tag: object, beginning: object) -> str:
    """What wrote a row: `js`, `json` or `msgpack`, by the type and the beginning of its body."""
    if tag != "json":
        return "msgpack"
    time = _TIME.search(stored_bytes(beginning))
    return "js" if time is not None and time[1].endswith(b"Z") else "json"


def _saver(layout: SqliteLayout, kinds: Set[str]) -> str:
    """The savers that wrote a file with rows of these kinds."""
    package, found = "langgraph-checkpoint-sqlite", []
    if "js" in kinds:
        found.append("LangGraph.js, @langchain/langgraph-checkpoint-sqlite")
    if "json" in kinds:
        found.append(f"{package} with langgraph-checkpoint before 1.0.10")
    if layout.task_path:
        before = "before 3.1.2, and " if layout.older and not found else ""
        found.append(f"{package} {before}3.1.2 or later")
    elif "msgpack" in kinds or not found:
        found.append(f"{package} before 3.1.2")
    return " and ".join(found)


def open_store(url: StoreUrl) -> Store:
    """Open a file for reading. Raises `StoreUnavailable` or `UnknownLayout`."""
    with opening(OpenedDatabase(open_read_only(url), url)) as (database, tables):
        if named := renamed(url.params.get("tables"), NAMES, str(url)):
            if missing := named.keys() - tables.keys():
                found = ", ".join(map(shell.word, sorted(tables)))
                raise UnknownLayout(f"no table '{min(missing)}' in '{url}'", hint=f"found {found}")
            database.view(named)
            columns = {usual: tables[own] for own, usual in named.items()}
            return SqliteStore(database, url, columns, list(named))
        if saver := recognised(tables):
            return saver.open(database, tables, url)
        return SqliteStore(database, url, tables)
