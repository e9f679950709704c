"""Reads LangGraph's tables in any SQL database: one algorithm, with the expressions of each engine.

A query for rows always names its table `c`.
"""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

from ckpt_backends.base import BaseStore, with_key
from ckpt_backends.codec.values import MOST_BYTES, typed
from ckpt_backends.model import (
    BlobKey,
    CheckpointKey,
    Fault,
    Record,
    StoreInfo,
    Thread,
    ThreadSize,
    Usage,
    Write,
    end_of_prefix,
    ids_between,
    in_chunks,
)
from ckpt_backends.protocol import (
    CheckpointOptions,
    CheckpointQuery,
    ReadOptions,
    WriteOptions,
    WriteQuery,
    WriteReadOptions,
)
from ckpt_backends.sql.database import Database, Values
from ckpt_backends.sql.tables import (
    BODIES_AT_ONCE,
    KEYS_AT_ONCE,
    STATES_AT_ONCE,
    THREADS_PER_QUERY,
    GroupedThreads,
    Query,
    RowQuery,
    SqlTable,
    SqlTables,
)
from ckpt_backends.url import StoreUrl

if TYPE_CHECKING:
    from ckpt_backends.codec.stored import StoredTexts
    from ckpt_backends.model import Capability, Checkpoint, HiddenRows, ThreadBounds
    from ckpt_backends.rows import Row

Keyed = Iterator[tuple[CheckpointKey, Sequence[Any]]]
"""Rows of checkpoints or writes: the key, and the columns of a `RowQuery`."""


_IDS = 500
"""Maximum number of ids in a query. If there are more, all threads are listed."""
_LAST = chr(sys.maxunicode)


_HAS_TIME = "c.checkpoint_id LIKE '________-____-6___-____-____________'"
"""The condition that an id is a UUIDv6, at least by its form."""
_MOST_MARKS = 20
"""With more, the engine's search for them takes longer than what it spares."""


class TableStore(BaseStore):
    """Tables of threads in a database, opened for reading."""

    sums_sizes = True

    def __init__(self, database: Database, url: StoreUrl, tables: SqlTables) -> None:
        self._database = database
        self._url = url
        self._tables = tables
        self._thread_is = database.same("c.thread_id", "thread")

    @abstractmethod
    def _saver(self) -> str:
        """The saver that wrote the store, in words."""

    @property
    def _only_read(self) -> str:
        """Why `ckpt` adds nothing to the tables; `''` if it does."""
        return ""

    def _text(self, cell: str | None) -> str:
        """A cell as text; NULL gives `''`."""
        return "" if cell is None else cell

    def _number(self, cell: int) -> int:
        return cell

    def describe(self) -> StoreInfo:
        tables = self._tables
        space = self._database.space(tables.names)
        return StoreInfo(
            layout=tables.layout,
            url=str(self._url),
            engine=self._database.engine(),
            saver=self._saver(),
            capabilities=self.capabilities,
            tables=tables.names,
            size=space.size,
            free=space.free,
            log=space.log,
            notes=tuple(self.notes()),
            only_read=self._only_read,
        )

    @property
    def capabilities(self) -> Capability:
        return self._database.limited(self._tables.capabilities)

    def hidden_rows(self) -> Sequence[HiddenRows]:
        return self._database.hidden_rows()

    def sizes(self, thread_ids: Sequence[str]) -> list[ThreadSize]:
        tables, none = self._tables, (0, 0)
        asked = list(filter(self._database.storable, dict.fromkeys(thread_ids)))
        checkpoints, writes = (
            self._sums(one, asked) for one in (tables.checkpoints, tables.writes)
        )
        blobs = self._sums(tables.blobs, asked) if tables.blobs else {}
        return [
            ThreadSize(
                checkpoints.get(one, none)[0],
                writes.get(one, none)[0],
                sum(each.get(one, none)[1] for each in (checkpoints, writes, blobs)),
                blobs.get(one, none)[0],
            )
            for one in thread_ids
        ]

    def _sums(self, table: SqlTable, thread_ids: Sequence[str]) -> dict[str, tuple[int, int]]:
        """By thread, the number of its rows and their bytes."""
        thread, found = self._database.exact("c.thread_id"), dict[str, tuple[int, int]]()
        for some in in_chunks(thread_ids, THREADS_PER_QUERY):
            where, values = self._database.among("c.thread_id", "t", some)
            query = (
                f"SELECT MIN({thread}), MAX({thread}), COUNT(*), COALESCE(SUM({table.size}), 0)"
                f" FROM {table.source} c WHERE {where} GROUP BY"
            )
            # By the column itself the server groups in the order of its index, without sorting all
            # rows. It may take different ids for one.
            rows = self._database.rows(f"{query} c.thread_id", values)
            if any(one != other for one, other, *_ in rows):
                rows = self._database.rows(f"{query} {thread}", values)
            for one, _, number, size in rows:
                found[self._text(one)] = self._number(number), self._number(size)
        return found

    def rows(self, thread_id: str) -> Iterator[Row]:
        if not self._database.storable(thread_id):
            return
        from ckpt_backends.rows import Row

        for table in self._tables.all:
            for row in self._stored_rows(table, thread_id):
                yield Row(table.name, dict(zip(table.columns, row, strict=True)))

    def _stored_rows(self, table: SqlTable, thread_id: str) -> Iterator[Sequence[Any]]:
        """The rows of a thread with all stored columns."""
        columns = ", ".join(table.columns.values())
        query = f"SELECT {columns} FROM {table.sql} c WHERE {self._thread_is}"
        return self._stream(query, self._of(thread_id), STATES_AT_ONCE)

    def own_rows(self, thread_id: str, rows: Iterable[Row]) -> Iterator[Row]:
        from ckpt_backends.rows import own_rows

        return own_rows(thread_id, rows, {one.name: one.columns for one in self._tables.all})

    def threads_with_rows(self, thread_ids: Sequence[str]) -> set[str]:
        found, thread = set[str](), self._database.exact("c.thread_id")
        for some in in_chunks(filter(self._database.storable, thread_ids), THREADS_PER_QUERY):
            where, values = self._database.among("c.thread_id", "t", some)
            for table in self._tables.all:
                query = f"SELECT DISTINCT {thread} FROM {table.sql} c WHERE {where}"
                found.update(self._text(one) for (one,) in self._database.rows(query, values))
        return found

    def faults(self) -> Iterator[Fault]:
        yield from self._database.faults(self._tables.names)

    def damage(self, *, whole: bool) -> Iterator[Fault]:
        return self._database.damage(whole=whole)

    def refresh(self) -> None:
        self._database.restart()

    def close(self) -> None:
        self._database.close()

    def _of(self, thread_id: str) -> dict[str, object]:
        """The parameters of `_thread_is`."""
        return {"thread": self._database.bound(thread_id)}

    def _stream(
        self, query: str, values: Mapping[str, object], at_once: int = KEYS_AT_ONCE
    ) -> Iterator[Sequence[Any]]:
        return self._database.stream(query, values, at_once)


class SqlStore(TableStore):
    """A database with LangGraph's tables, opened for reading."""

    _LENGTH: ClassVar[str] = "OCTET_LENGTH({})"
    """The expression for the bytes of a stored value. The engine does not read the value for it."""
    _BODY_TYPE: ClassVar[str] = "'json'"
    """The expression for the type of a body."""
    _BODY: ClassVar[str] = "{}"
    """The expression for the bytes of a body, with `{}` for its column."""
    _UNMERGED: ClassVar[str] = ""
    """What stops the engine from merging a subquery into its query."""
    _MOST: ClassVar[int] = MOST_BYTES
    """The longest value of a write that is read with its row."""

    # What each engine does in its own way.

    @abstractmethod
    def _grouped(self, where: str, made: str = "") -> GroupedThreads:
        """The query for threads; `where` is a condition for checkpoints, or `''`.

        `made` is one that also says which checkpoints of the threads count.
        """

    @abstractmethod
    def _select_checkpoints(self, asked: CheckpointQuery) -> RowQuery:
        """The query for checkpoints, for `_read_checkpoints`."""

    @abstractmethod
    def _read_checkpoints(self, rows: Keyed, asked: CheckpointQuery) -> Iterator[Checkpoint]:
        """The checkpoints of these rows."""

    @abstractmethod
    def _at(self, query: RowQuery, keys: Sequence[CheckpointKey]) -> Keyed:
        """The rows of the checkpoints with these keys, those of each in the query's order."""

    def _read_writes(self, rows: Keyed, values: bool | Collection[str]) -> Iterator[Write]:  # noqa: ARG002
        """The writes of these rows."""
        return (self._write(key, row) for key, row in rows)

    def _data(self, cell: bytes | None) -> bytes | None:
        """A cell as bytes."""
        return cell

    # What all engines do alike.

    def threads(self, *, limit: int | None = None) -> Iterator[Thread]:
        yield from self._threads(self._newest(limit))

    def _newest(self, limit: int | None) -> Iterable[Sequence[Any]]:
        """The rows for `threads`, as `_threads` takes them."""
        query, values = self._newest_first("", {})
        return self._stream(query if limit is None else f"{query} LIMIT {limit:d}", values)

    def _newest_first(self, where: str, values: Values, only: str = "", made: str = "") -> Query:
        """The query for threads, newest first: `where` is about checkpoints, `only` about `t`."""
        listed, exact = self._grouped(where, made), self._database.exact("t.thread")
        return f"{listed.rows} {only} ORDER BY t.newest DESC, {exact}", {**listed.values, **values}

    def threads_within(self, bounds: ThreadBounds) -> Iterator[Thread]:
        if (found := self._query_within(bounds)) is not None:
            yield from filter(bounds.admits, self._threads(self._stream(*found)))

    def _query_within(self, bounds: ThreadBounds) -> Query | None:
        """The query for the threads within bounds, newest first; None if there can be none.

        The result may include threads outside of the bounds, but each of them has a write on one of
        the `head_channels`, if there are such.
        """
        keys, exact = self._keys_within(bounds), self._database.exact
        if keys is None or bounds.head_channels == frozenset():
            return None
        where, values = keys
        if bounds.head_channels:
            # Counts and times are then read of few threads.
            query, of_writes = self._with_writes(bounds.head_channels)
            where = " AND ".join(filter(None, (where, f"c.thread_id IN ({query})")))
            values |= of_writes
        made = ""
        if bounds.as_of is not None and (text := ids_between(None, bounds.as_of)[1]):
            # Other ids hold no time.
            later = f"{exact('c.checkpoint_id')} >= {exact(self._database.text('made'))}"
            made = f"NOT ({later} AND {_HAS_TIME})"
            values["made"] = self._database.bound(text)
        conditions = []
        times = ids_between(bounds.since, bounds.until)
        for name, operator, text in zip(("since", "until"), (">=", "<"), times, strict=True):
            if text:
                mark = exact(self._database.text(name))
                conditions.append(f"{exact('t.newest')} {operator} {mark}")
                values[name] = self._database.bound(text)
        only = f"WHERE {' AND '.join(conditions)}" if conditions else ""
        return self._newest_first(where, values, only, made)

    def _keys_within(self, bounds: ThreadBounds) -> Query | None:
        """The condition for checkpoints by the ids of their threads; None if there can be none."""
        storable = self._database.storable
        if bounds.ids is not None and len(bounds.ids) <= _IDS:
            ids = sorted(filter(storable, bounds.ids))
            return self._database.among("c.thread_id", "only", ids) if ids else None
        if not storable(bounds.prefix):
            return None
        end = end_of_prefix(bounds.prefix)
        return ("", {}) if end is None else self._between(">=", bounds.prefix, end)

    def _between(self, operator: str, begin: str, end: str) -> Query:
        """The condition that a thread id lies between two texts."""
        database = self._database
        thread, first, last = map(
            database.exact, ("c.thread_id", database.text("begin"), database.text("end"))
        )
        values = {"begin": database.bound(begin), "end": database.bound(end)}
        return f"{thread} {operator} {first} AND {thread} < {last}", values

    def _with_writes(self, channels: Collection[str]) -> Query:
        """The query for the ids of threads with a write on one of these channels at their head."""
        database, writes = self._database, self._tables.writes
        is_root, of_root = self._of_space("")
        among, names = database.among("c.channel", "channel", sorted(channels))
        thread, head = (
            database.as_in(writes.name, column, other)
            for column, other in (("thread_id", "h.thread"), ("checkpoint_id", "h.head"))
        )
        # `CROSS JOIN` keeps SQLite from reading all writes before the heads.
        query = (
            f"SELECT c.thread_id FROM ({self._heads(is_root)}) h CROSS JOIN {writes.source} c"
            f" WHERE {is_root} AND {among} AND c.thread_id = {thread} AND c.checkpoint_id = {head}"
        )
        return query, of_root | names

    def _heads(self, is_root: str) -> str:
        """The query for root heads, with the columns `thread` and `head`."""
        return (
            "SELECT c.thread_id AS thread, MAX(c.checkpoint_id) AS head"
            f" FROM {self._tables.checkpoints.source} c WHERE {is_root} GROUP BY c.thread_id"
        )

    def thread_ids(self, prefix: str, *, after: str = "", limit: int) -> Iterator[str]:
        if not self._database.storable(prefix + after):
            return
        first = ">=" if after < prefix else ">"
        where, values = self._between(first, max(prefix, after), prefix + _LAST)
        source, thread = self._tables.checkpoints.source, self._database.exact("c.thread_id")
        query = f"SELECT DISTINCT {thread} AS thread FROM {source} c WHERE {where} ORDER BY 1"
        for (one,) in self._database.rows(f"{query} LIMIT {limit:d}", values):
            yield self._text(one)

    def thread(self, thread_id: str) -> Thread | None:
        if not self._database.storable(thread_id):
            return None
        listed = self._grouped(self._thread_is)
        values = listed.values | self._of(thread_id)
        return next(self._threads(self._database.rows(listed.rows, values)), None)

    def _threads(self, rows: Iterable[Sequence[Any]]) -> Iterator[Thread]:
        """The threads of these rows: id, head, least and greatest id, and two numbers."""
        text, number = self._text, self._number
        for thread_id, head, first, last, checkpoints, namespaces in rows:
            # Almost all cells are text and numbers, and a call for each takes longer than the rest.
            yield Thread(
                thread_id if type(thread_id) is str else text(thread_id),
                head if head is None or type(head) is str else text(head),
                first if type(first) is str else text(first),
                last if type(last) is str else text(last),
                checkpoints if type(checkpoints) is int else number(checkpoints),
                namespaces if type(namespaces) is int else number(namespaces),
            )

    def checkpoint_sizes(self, thread_id: str) -> Iterator[tuple[CheckpointKey, ThreadSize]]:
        if not self._database.storable(thread_id):
            return
        tables, of_thread = self._tables, self._of(thread_id)
        ns, name = map(self._database.exact, ("c.checkpoint_ns", "c.checkpoint_id"))
        for table, counted in ((tables.checkpoints, "COUNT(*), 0"), (tables.writes, "0, COUNT(*)")):
            query = (
                f"SELECT {ns} AS ns, {name} AS name, {counted}, COALESCE(SUM({table.size}), 0)"
                f" FROM {table.source} c WHERE {self._thread_is} GROUP BY ns, name"
            )
            for space, checkpoint_id, *size in self._stream(query, of_thread):
                key = CheckpointKey(thread_id, self._text(space), self._text(checkpoint_id))
                yield key, ThreadSize(*map(self._number, size))

    def usage(self, thread_id: str | None = None) -> Iterator[Usage]:
        if not self._database.storable(thread_id or ""):
            return
        text, values = self._text, {} if thread_id is None else self._of(thread_id)
        rows = self._stream(self._usage_query("" if thread_id is None else self._thread_is), values)
        for thread, table, column, ns, channel, tag, number, size in rows:
            place = text(thread), text(ns), None if channel is None else text(channel), text(tag)
            yield Usage(table, column, *place, self._number(number), self._number(size))

    def _usage_query(self, where: str) -> str:
        """The query for the space that is used, ordered by thread; see `Usage`."""
        exact, parts, only = self._database.exact, [], f"WHERE {where}" if where else ""
        for table in reversed(self._tables.all):
            for column, size in table.sizes.items():
                channel, tag = "NULL", exact("'json'" if column == "metadata" else self._BODY_TYPE)
                if table is not self._tables.checkpoints:
                    channel, tag = exact("c.channel"), exact("COALESCE(c.type, '')")
                parts.append(
                    f"SELECT thread, '{table.name}', '{column}', ns, channel, tag, COUNT(*),"
                    f" COALESCE(SUM(size), 0) FROM (SELECT {exact('c.thread_id')} AS thread,"
                    f" {exact('c.checkpoint_ns')} AS ns, {channel} AS channel, {tag} AS tag,"
                    f" {size} AS size FROM {table.source} c {only} {self._UNMERGED}) used"
                    " GROUP BY thread, ns, channel, tag"
                )
        return f"{' UNION ALL '.join(parts)} ORDER BY thread"

    def namespaces(self, thread_id: str) -> list[str]:
        if not self._database.storable(thread_id):
            return []
        query = (
            f"SELECT DISTINCT {self._database.exact('c.checkpoint_ns')} AS ns"
            f" FROM {self._tables.checkpoints.source} c WHERE {self._thread_is} ORDER BY ns"
        )
        return [self._text(ns) for (ns,) in self._database.rows(query, self._of(thread_id))]

    def checkpoints(
        self, thread_id: str, **options: Unpack[CheckpointOptions]
    ) -> Iterator[Checkpoint]:
        asked = CheckpointQuery(**options)
        query = self._select_checkpoints(asked)
        rows = self._of_thread(query, thread_id, asked.checkpoint_ns, asked.checkpoint_ids)
        yield from self._read_checkpoints(rows, asked)

    def checkpoints_at(
        self, keys: Sequence[CheckpointKey], **options: Unpack[ReadOptions]
    ) -> Iterator[Checkpoint]:
        asked = CheckpointQuery(**options)
        yield from self._read_checkpoints(self._at(self._select_checkpoints(asked), keys), asked)

    def writes(self, thread_id: str, **options: Unpack[WriteOptions]) -> Iterator[Write]:
        asked = WriteQuery(**options)
        query = self._select_writes(asked.channels, asked.values)
        rows = self._of_thread(query, thread_id, asked.checkpoint_ns, asked.checkpoint_ids)
        yield from self._read_writes(rows, asked.values)

    def writes_at(
        self, keys: Sequence[CheckpointKey], **options: Unpack[WriteReadOptions]
    ) -> Iterator[Write]:
        asked = WriteQuery(**options)
        rows = self._at(self._select_writes(asked.channels, asked.values), keys)
        yield from self._read_writes(rows, asked.values)

    def _of_thread(
        self,
        query: RowQuery,
        thread_id: str,
        checkpoint_ns: str | None,
        checkpoint_ids: Collection[str] | None,
    ) -> Keyed:
        """The rows of a thread, filtered as in `checkpoints`."""
        if not self._database.storable(thread_id + (checkpoint_ns or "")):
            return iter(())
        where, values = "", self._of(thread_id)
        if checkpoint_ns is not None:
            where, of_space = self._of_space(checkpoint_ns)
            values |= of_space
        return self._where(query, thread_id, where, values, checkpoint_ids)

    def _of_space(self, checkpoint_ns: str) -> tuple[str, dict[str, object]]:
        """The condition for rows of a namespace, and its parameters."""
        values = {"ns": self._database.bound(checkpoint_ns)}
        return self._database.same("c.checkpoint_ns", "ns"), values

    def _where(
        self,
        query: RowQuery,
        thread_id: str,
        of_space: str,
        values: Mapping[str, object],
        checkpoint_ids: Collection[str] | None,
    ) -> Keyed:
        """The rows of a thread, of one namespace if there is a condition `of_space`."""
        conditions, bound = [self._thread_is, of_space, query.only], {**query.values, **values}
        if checkpoint_ids is not None:
            among, ids = self._database.among("c.checkpoint_id", "id", checkpoint_ids)
            conditions.append(among)
            bound |= ids
        where = " AND ".join(filter(None, conditions))
        order = "" if of_space else f"{self._database.exact('c.checkpoint_ns')}, "
        text = (
            f"SELECT c.checkpoint_ns, c.checkpoint_id, {query.columns}"
            f" FROM {query.table.source} c {query.join} WHERE {where}"
            f" ORDER BY {order}{query.order}"
        )
        few = None if checkpoint_ids is None else len(checkpoint_ids)
        return self._keyed(thread_id, self._fetch(text, bound, query.at_once, few))

    def _keyed(self, thread_id: str, rows: Iterable[Sequence[Any]]) -> Keyed:
        """Rows of a thread that begin with namespace and id, as their keys and the rest."""
        place, key, text = None, CheckpointKey(thread_id, "", ""), self._text
        for ns, checkpoint_id, *row in rows:
            if place != (ns, checkpoint_id):  # The writes of a checkpoint come one after the other.
                place = ns, checkpoint_id
                key = CheckpointKey(thread_id, text(ns), text(checkpoint_id))
            yield key, row

    def _fetch(
        self,
        query: str,
        values: Mapping[str, object],
        at_once: int,
        number: int | None,  # noqa: ARG002
    ) -> Iterable[Sequence[Any]]:
        """The rows of a query for `number` checkpoints, or for any number if it is None."""
        return self._stream(query, values, at_once)

    def _select_writes(
        self, channels: Collection[str] | None, values: bool | Collection[str]
    ) -> RowQuery:
        """The query for writes, for `_read_writes`."""
        database, tables = self._database, self._tables
        bound: dict[str, object] = {}
        wanted, only = "TRUE" if values else "FALSE", ""
        if not isinstance(values, bool):
            wanted, bound = database.among("c.channel", "read", values)
        if channels is not None:
            only, names = database.among("c.channel", "of", channels)
            bound |= names
        path = "c.task_path" if tables.task_path else "''"
        value = f"c.{database.quoted(next(iter(tables.writes.sizes)))}"
        size = self._LENGTH.format(value)
        order = map(database.exact, ("c.checkpoint_id", path, "c.task_id"))
        return RowQuery(
            table=tables.writes,
            columns=f"c.task_id, {path}, c.idx, c.channel, c.type, {size}, {wanted},"
            f" CASE WHEN {wanted} AND {size} <= {self._MOST} THEN {value} END",
            order=f"{', '.join(order)}, c.idx",
            only=only,
            values=bound,
            at_once=KEYS_AT_ONCE if values is False else BODIES_AT_ONCE,
        )

    def _write(self, key: CheckpointKey, row: Sequence[Any]) -> Write:
        task_id, task_path, idx, channel, tag, size, is_read, value, *_ = row
        size, text = size or 0, self._text
        # Almost all cells are text, and a thread has more writes than anything else.
        return Write(
            key,
            task_id if type(task_id) is str else text(task_id),
            task_path if type(task_path) is str else text(task_path),
            idx if type(idx) is int else self._number(idx),
            channel if type(channel) is str else text(channel),
            size,
            typed(self._text(tag), size, self._data(value)) if is_read else None,
        )

    def blobs(self, thread_id: str) -> Iterator[tuple[BlobKey, int]]:
        table = self._tables.blobs
        if table is None or self._tables.shallow or not self._database.storable(thread_id):
            return
        query = (
            f"SELECT c.checkpoint_ns, c.channel, c.version, {table.size}"
            f" FROM {table.source} c WHERE {self._thread_is}"
        )
        for ns, channel, version, size in self._stream(query, self._of(thread_id)):
            yield BlobKey(ns, channel, version), size

    def records_of(self, thread_ids: Sequence[str]) -> Iterator[Record]:
        from ckpt_backends.servers import understood
        from ckpt_backends.sql.records import RECORDS, records_of

        with understood(self._url):
            if self._tables.shallow:
                for one in thread_ids:
                    yield from records_of(self._tables.layout, self.rows(one))
                return
            asked = list(filter(self._database.storable, thread_ids))
            for some in in_chunks(asked, THREADS_PER_QUERY if self.batches_parts else 1):
                for table in self._tables.all:
                    records = RECORDS[table.name]
                    # A column that the table does not have is NULL.
                    columns = {name: table.columns.get(name, "NULL") for name in records.columns}
                    yield from records.parts(self._rows_of(table._replace(columns=columns), some))

    def _rows_of(self, table: SqlTable, thread_ids: Sequence[str]) -> Iterable[Sequence[Any]]:
        """The rows of some threads; those of several are in memory at once."""
        if len(thread_ids) == 1:
            return self._stored_rows(table, thread_ids[0])
        where, values = self._database.among("c.thread_id", "t", thread_ids)
        query = f"SELECT {', '.join(table.columns.values())} FROM {table.sql} c WHERE {where}"
        return self._database.rows(query, values)

    def metadata_with(
        self, thread_ids: Sequence[str], key: str, *, newest: bool = False
    ) -> Iterator[Checkpoint]:
        if not key.isidentifier() or not key.isascii():  # it may be stored with escapes
            yield from super().metadata_with(thread_ids, key, newest=newest)
            return
        for one, keys in self._named_in_metadata(thread_ids, key).items():
            last = max(keys, key=lambda place: place.checkpoint_id)
            asked = [last] if newest else keys
            found = with_key(self.checkpoints_at(asked, metadata=True), key, newest=False)
            some = list(found)
            if newest and not some:  # the newest one only mentions the key
                some = list(super().metadata_with([one], key, newest=True))
            yield from some

    def _named_in_metadata(
        self, thread_ids: Sequence[str], key: str
    ) -> dict[str, list[CheckpointKey]]:
        """By thread, the checkpoints whose stored metadata contain this text."""
        database, found = self._database, dict[str, list[CheckpointKey]]()
        columns = ", ".join(map(database.exact, ("c.thread_id", "c.checkpoint_ns")))
        holds = database.holds(self._BODY.format("c.metadata"), ["key"])
        for some in in_chunks(filter(database.storable, thread_ids), THREADS_PER_QUERY):
            among, values = database.among("c.thread_id", "t", some)
            query = (
                f"SELECT {columns}, c.checkpoint_id FROM {self._tables.checkpoints.source} c"
                f" WHERE {among} AND {holds}"
            )
            for row in database.rows(query, {**values, "key": key.encode()}):
                place = CheckpointKey(*map(self._text, row))
                found.setdefault(place.thread_id, []).append(place)
        return found

    def threads_that_may_hold(
        self, thread_ids: Sequence[str], texts: Collection[str], *, ignore_case: bool = False
    ) -> set[str]:
        from ckpt_backends.codec.stored import StoredTexts, may_be_derived

        # No engine reads the numbers inside of values, or folds the letters of ASCII only. One in
        # this process searches more slowly than Python does; a server need not send the values.
        is_read = self._database.in_process or ignore_case or any(map(may_be_derived, texts))
        wanted, found = StoredTexts(texts, ignore_case=ignore_case), set[str]()
        for some in in_chunks(filter(self._database.storable, thread_ids), THREADS_PER_QUERY):
            for table in self._tables.all:
                value, tag = f"c.{self._database.quoted(next(iter(table.sizes)))}", "c.type"
                if table is self._tables.checkpoints:
                    value, tag = self._BODY.format(value), self._BODY_TYPE
                place = table, value, tag, some
                cells = self._search(*place, wanted) if is_read else self._ask(*place, texts)
                found.update(map(self._text, cells))
        return found

    def _search(
        self, table: SqlTable, value: str, tag: str, thread_ids: Sequence[str], wanted: StoredTexts
    ) -> Iterator[Any]:
        """The threads with values that may hold a text, maybe twice; too long ones are not read.

        `value` and `tag` are the expressions for the bytes and the type of a value.
        """
        from ckpt_backends.codec.stored import EMPTY_TYPES

        database, finder = self._database, cache(lambda kind: wanted.finder(self._text(kind)))
        among, values = database.among("c.thread_id", "t", thread_ids)
        empty = ", ".join(map(database.literal, EMPTY_TYPES))
        only = f"{among} AND COALESCE({tag}, '') NOT IN ({empty})"
        marks: dict[str, object] = {f"mark{n}": one for n, one in enumerate(wanted.marks)}
        # Bodies are longer, and an engine searches bytes more slowly than Python does.
        if table is not self._tables.checkpoints and 0 < len(marks) <= _MOST_MARKS:
            holds = database.holds(value, [*marks])
            only += f" AND (COALESCE({tag}, '') <> 'msgpack' OR {holds})"
            values |= marks
        is_long = f"COALESCE({self._LENGTH.format(value)}, 0) > {MOST_BYTES}"
        query = (
            f"SELECT {database.exact('c.thread_id')}, {tag}, {is_long},"
            f" CASE WHEN NOT {is_long} THEN {value} END FROM {table.source} c WHERE {only}"
        )
        for thread, kind, is_too_long, cell in database.stream(query, values, BODIES_AT_ONCE):
            if is_too_long or finder(kind)(self._data(cell) or b""):
                yield thread

    def _ask(
        self,
        table: SqlTable,
        value: str,
        tag: str,
        thread_ids: Sequence[str],
        texts: Collection[str],
    ) -> Iterator[Any]:
        """The same threads; the engine searches the values."""
        from ckpt_backends.codec.stored import ARRAY, KNOWN_TYPES, TEXT_ARRAY, escape_in_json

        database = self._database
        parts = {f"part{n}": one.encode() for n, one in enumerate(texts)}
        escaped = sorted({escape_in_json(one) for one in texts})
        escapes = {f"escape{n}": one for n, one in enumerate(escaped)}
        items = {f"items{n}": one for n, one in enumerate(TEXT_ARRAY)}
        known = ", ".join(map(database.literal, KNOWN_TYPES))
        among, ids = database.among("c.thread_id", "t", thread_ids)
        query = (
            f"SELECT DISTINCT {database.exact('c.thread_id')} FROM {table.source} c WHERE {among}"
            f" AND (COALESCE({tag}, '') NOT IN ({known}) OR {database.holds(value, [*parts])}"
            f" OR ({database.holds(value, ['array'])} AND {database.holds(value, [*items])})"
            f" OR ({tag} = 'json' AND {database.holds(value, [*escapes])}))"
        )
        values = {**ids, **parts, **escapes, **items, "array": ARRAY}
        for (thread,) in database.rows(query, values):
            yield thread

    def sources(self, key: CheckpointKey) -> list[str]:
        literal = self._database.literal
        where = " AND ".join(f"{name} = {literal(one)}" for name, one in key._asdict().items())
        return [f"SELECT * FROM {table} WHERE {where};" for table in self._tables.names]

    def suspect_threads(self) -> Iterator[str]:
        from ckpt_backends.sql.health import suspect_queries

        queries = suspect_queries(self._database, self._tables)
        yield from {self._text(one) for query in queries for (one,) in self._stream(query, {})}
