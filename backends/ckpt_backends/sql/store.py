"""Reads LangGraph's tables in any SQL database: one algorithm, with the expressions of each engine.

A query for rows always names its table `c`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Unpack

from ckpt_backends.base import BaseStore
from ckpt_backends.codec.values import MOST_BYTES, typed
from ckpt_backends.model import (
    BlobKey,
    CheckpointKey,
    Record,
    StoreInfo,
    Thread,
    ThreadSize,
    Usage,
    Write,
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
from ckpt_backends.sql.database import Database
from ckpt_backends.sql.tables import (
    HEADS,
    KEYS_AT_ONCE,
    STATES_AT_ONCE,
    THREADS_PER_QUERY,
    GroupedThreads,
    Query,
    ids_query,
    keyed,
    namespaces_query,
    query_within,
    size_queries,
    usage_query,
    with_writes_query,
    writes_query,
)
from ckpt_backends.url import StoreUrl

if TYPE_CHECKING:
    from ckpt_backends.model import Capability, Checkpoint, Fault, HiddenRows, ThreadBounds
    from ckpt_backends.rows import Row
    from ckpt_backends.sql.tables import RowQuery, SqlTable, SqlTables

Keyed = Iterator[tuple[CheckpointKey, Sequence[Any]]]
"""Rows of checkpoints or writes: the key, and the columns of a `RowQuery`."""


class SqlStore(BaseStore):
    """A database with LangGraph's tables, opened for reading."""

    sums_sizes = True

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

    def __init__(self, database: Database, url: StoreUrl, tables: SqlTables) -> None:
        self._database = database
        self._url = url
        self._tables = tables
        self._thread_is = database.same("c.thread_id", "thread")

    # What each engine does in its own way.

    @abstractmethod
    def _saver(self) -> str:
        """The saver that wrote the store, in words."""

    @abstractmethod
    def _newest(self, limit: int | None) -> Iterator[Sequence[Any]]:
        """The rows for `threads`, as `_thread` takes them."""

    @abstractmethod
    def _grouped(self, where: str) -> GroupedThreads:
        """The query for threads; `where` is a condition for checkpoints, or `''`."""

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

    def _text(self, cell: str | None) -> str:
        """A cell as text; NULL gives `''`."""
        return "" if cell is None else cell

    def _data(self, cell: bytes | None) -> bytes | None:
        """A cell as bytes."""
        return cell

    def _number(self, cell: int) -> int:
        return cell

    @property
    def _only_read(self) -> str:
        """Why `ckpt` adds nothing to the tables; `''` if it does."""
        return ""

    # What all engines do alike.

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

    def threads(self, *, limit: int | None = None) -> Iterator[Thread]:
        yield from self._threads(self._newest(limit))

    def threads_within(self, bounds: ThreadBounds) -> Iterator[Thread]:
        written = self._with_writes(bounds.head_channels) if bounds.head_channels else None
        if found := query_within(self._database, self._grouped, written, bounds):
            yield from filter(bounds.admits, self._threads(self._stream(*found)))

    def _with_writes(self, channels: Collection[str]) -> Query:
        """The query for the ids of threads with a write on one of these channels at their head."""
        root = self._of_space("")
        asked = (self._tables, self._heads(root[0]), root, channels)
        return with_writes_query(self._database, *asked)

    def _heads(self, is_root: str) -> str:
        """The query for root heads, with the columns `thread` and `head`."""
        source = self._tables.checkpoints.source
        return HEADS.format(checkpoints=source, is_root=is_root)

    def thread_ids(self, prefix: str, *, after: str = "", limit: int) -> Iterator[str]:
        found = ids_query(self._database, self._tables, prefix, after)
        for (one,) in self._database.rows(f"{found[0]} LIMIT {limit:d}", found[1]) if found else ():
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

    def sizes(self, thread_ids: Sequence[str]) -> list[ThreadSize]:
        from ckpt_backends.sql.tables import sizes_of

        return sizes_of(self._database, self._tables, thread_ids, self._text, self._number)

    def checkpoint_sizes(self, thread_id: str) -> Iterator[tuple[CheckpointKey, ThreadSize]]:
        if not self._database.storable(thread_id):
            return
        for query in size_queries(self._database, self._tables, self._thread_is):
            for space, checkpoint_id, *size in self._stream(query, self._of(thread_id)):
                key = CheckpointKey(thread_id, self._text(space), self._text(checkpoint_id))
                yield key, ThreadSize(*map(self._number, size))

    def usage(self, thread_id: str | None = None) -> Iterator[Usage]:
        if not self._database.storable(thread_id or ""):
            return
        where = "" if thread_id is None else f"WHERE {self._thread_is}"
        where = f"{where} {self._UNMERGED}"
        query = usage_query(self._database, self._tables, where, self._BODY_TYPE)
        values = {} if thread_id is None else self._of(thread_id)
        for thread, table, column, ns, channel, tag, rows, size in self._stream(query, values):
            yield Usage(
                table,
                column,
                self._text(thread),
                self._text(ns),
                None if channel is None else self._text(channel),
                self._text(tag),
                self._number(rows),
                self._number(size),
            )

    def namespaces(self, thread_id: str) -> list[str]:
        if not self._database.storable(thread_id):
            return []
        query = namespaces_query(self._database, self._tables, self._thread_is)
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
        return keyed(thread_id, self._fetch(text, bound, query.at_once, few), self._text)

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
        tables = self._tables
        return writes_query(self._database, tables, channels, values, self._LENGTH, self._MOST)

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

    def rows(self, thread_id: str) -> Iterator[Row]:
        if not self._database.storable(thread_id):
            return
        from ckpt_backends.rows import Row

        for table in self._tables.all:
            for row in self._stored_rows(table, thread_id):
                yield Row(table.name, dict(zip(table.columns, row, strict=True)))

    def parts_of(self, thread_ids: Sequence[str]) -> Iterator[Record]:
        from ckpt_backends.servers import understood
        from ckpt_backends.sql.records import RECORDS, parts_of

        with understood(self._url):
            if self._tables.shallow:
                for one in thread_ids:
                    yield from parts_of(self._tables.layout, self.rows(one))
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

    def threads_with_rows(self, thread_ids: Sequence[str]) -> set[str]:
        from ckpt_backends.sql.tables import threads_with_rows

        return set(map(self._text, threads_with_rows(self._database, self._tables, thread_ids)))

    def threads_that_may_hold(
        self, thread_ids: Sequence[str], texts: Collection[str], *, ignore_case: bool = False
    ) -> set[str]:
        from ckpt_backends.sql.holding import StoredSearch

        columns = self._database, self._tables, self._BODY_TYPE, self._BODY, self._LENGTH
        search = StoredSearch(*columns, self._text, self._data)
        return set(search.threads(thread_ids, texts, ignore_case=ignore_case))

    def _stored_rows(self, table: SqlTable, thread_id: str) -> Iterator[Sequence[Any]]:
        """The rows of a thread with all stored columns."""
        columns = ", ".join(table.columns.values())
        query = f"SELECT {columns} FROM {table.sql} c WHERE {self._thread_is}"
        return self._stream(query, self._of(thread_id), STATES_AT_ONCE)

    def own_rows(self, thread_id: str, rows: Iterable[Row]) -> Iterator[Row]:
        from ckpt_backends.rows import own_rows

        return own_rows(thread_id, rows, {one.name: one.columns for one in self._tables.all})

    def damage(self, *, whole: bool) -> Iterator[Fault]:
        return self._database.damage(whole=whole)

    def suspect_threads(self) -> Iterator[str]:
        from ckpt_backends.sql.health import suspect_queries

        queries = suspect_queries(self._database, self._tables)
        yield from {self._text(one) for query in queries for (one,) in self._stream(query, {})}

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
