"""Reads LangGraph's tables in any SQL database: one algorithm, with the expressions of each engine.

A query for rows always names its table `c`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import (
    Collection,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
)
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar, TypeVar

from ckpt_backends.base import BaseStore
from ckpt_backends.changes.rows import Row, own_rows
from ckpt_backends.checkpoint_ids import time_of
from ckpt_backends.codec.value_limit import MOST_BYTES
from ckpt_backends.model import (
    BlobKey,
    Capability,
    Checkpoint,
    CheckpointKey,
    StoreInfo,
    Thread,
    ThreadSize,
    Usage,
    Write,
)
from ckpt_backends.sql.blob_tables import typed
from ckpt_backends.sql.database import Database
from ckpt_backends.url import StoreUrl

KEYS_AT_ONCE, BODIES_AT_ONCE, STATES_AT_ONCE = 5000, 200, 4
"""Rows in memory at a time: keys, bodies without values, and bodies with values."""
_TEXTS_PER_QUERY = 500
T = TypeVar("T")
Keyed = Iterator[tuple[CheckpointKey, Sequence[Any]]]
"""Rows of checkpoints or writes: the key, and the columns of a `RowQuery`."""


@dataclass(frozen=True, slots=True)
class SqlTable:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class SqlTables:
    """The layout as found in one database."""

    layout: str
    names: tuple[str, ...]
    """The plain names of the tables, with schema."""
    checkpoints: SqlTable
    writes: SqlTable
    blobs: SqlTable | None = None
    """None if values are in the bodies."""
    task_path: bool
    """Whether writes have the column `task_path`."""
    shallow: bool = False
    """Whether the layout stores only the newest state, without checkpoint ids and versions."""
    can_add: bool
    """Whether `ckpt` can add checkpoints."""

    @property
    def all(self) -> tuple[SqlTable, ...]:
        """The tables, checkpoints last."""
        return (*([self.blobs] if self.blobs else []), self.writes, self.checkpoints)


@dataclass(frozen=True, slots=True, kw_only=True)
class RowQuery:
    """A query for rows of checkpoints or writes, without the condition that selects them."""

    table: SqlTable
    columns: str
    order: str
    """The order of the rows of one namespace."""
    join: str = ""
    only: str = ""
    """A further condition, such as `c.channel = 'a'`."""
    values: Mapping[str, object] = field(default_factory=dict)
    """The parameters of all these."""
    at_once: int = KEYS_AT_ONCE
    has_bodies: bool = False
    """Whether bodies or metadata are read."""

    @property
    def rest(self) -> str:
        """The end of a query for the checkpoints with the numbers `n`, or for their writes."""
        where = f"WHERE {self.only}" if self.only else ""
        return where if self.has_bodies else f"{where} ORDER BY n, {self.order}"


class SqlStore(BaseStore):
    """A database with LangGraph's tables, opened for reading."""

    sums_sizes = True

    _LENGTH: ClassVar[str] = "OCTET_LENGTH({})"
    """The expression for the bytes of a stored value. The engine does not read the value for it."""
    _BODY_TYPE: ClassVar[str] = "'json'"
    """The expression for the type of a body."""
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
    def _one(self, thread_id: str) -> Iterator[Sequence[Any]]:
        """The row for `thread`, if there is one."""

    @abstractmethod
    def _select_checkpoints(
        self, *, body: bool, metadata: bool, values: bool | Collection[str]
    ) -> RowQuery:
        """The query for checkpoints, for `_read_checkpoints`."""

    @abstractmethod
    def _read_checkpoints(
        self, rows: Keyed, *, body: bool, metadata: bool, values: bool | Collection[str]
    ) -> Iterator[Checkpoint]:
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

    # What all engines do alike.

    def describe(self) -> StoreInfo:
        tables = self._tables
        space = self._database.space(tables.names)
        can = Capability.WRITES | Capability.ENFORCED_READ_ONLY
        can |= Capability(0) if tables.shallow else Capability.HISTORY
        can |= Capability.ADDING if tables.can_add else Capability(0)
        can |= Capability.TASK_PATH if tables.task_path else Capability(0)
        can |= Capability(0) if tables.blobs else Capability.INLINE_VALUES
        return StoreInfo(
            layout=tables.layout,
            url=str(self._url),
            engine=self._database.engine(),
            saver=self._saver(),
            capabilities=can,
            tables=tables.names,
            size=space.size,
            free=space.free,
            log=space.log,
            notes=tuple(self.notes()),
        )

    def threads(self, *, limit: int | None = None) -> Iterator[Thread]:
        yield from map(self._thread, self._newest(limit))

    def thread(self, thread_id: str) -> Thread | None:
        if not self._database.storable(thread_id):
            return None
        found = next(self._one(thread_id), None)
        return None if found is None else self._thread(found)

    def _thread(self, row: Sequence[Any]) -> Thread:
        thread_id, head, first_id, last_id, checkpoints, namespaces = row
        return Thread(
            self._text(thread_id),
            None if head is None else self._text(head),
            time_of(self._text(first_id)),
            time_of(self._text(last_id)),
            self._number(checkpoints),
            self._number(namespaces),
        )

    def size(self, thread_id: str) -> ThreadSize:
        return self.sizes([thread_id])[0]

    def sizes(self, thread_ids: Sequence[str]) -> list[ThreadSize]:
        counts: list[dict[str, tuple[int, int]]] = []
        asked = [one for one in dict.fromkeys(thread_ids) if self._database.storable(one)]
        thread = self._database.exact("c.thread_id")
        tables = self._tables
        for table in (tables.checkpoints, tables.writes, tables.blobs):
            counts.append({})
            if table is None:
                continue
            for some in chunks(asked, _TEXTS_PER_QUERY):
                where, values = self._database.among("c.thread_id", "t", some)
                query = (
                    f"SELECT {thread} AS thread, COUNT(*), COALESCE(SUM({table.size}), 0)"
                    f" FROM {table.source} c WHERE {where} GROUP BY thread"
                )
                for one, number, size in self._database.rows(query, values):
                    counts[-1][self._text(one)] = self._number(number), self._number(size)
        none = (0, 0)
        of_each = [[found.get(one, none) for found in counts] for one in thread_ids]
        return [
            ThreadSize(rows[0], writes[0], rows[1] + writes[1] + blobs[1], blobs[0])
            for rows, writes, blobs in of_each
        ]

    def checkpoint_sizes(self, thread_id: str) -> Iterator[tuple[CheckpointKey, ThreadSize]]:
        if not self._database.storable(thread_id):
            return
        ns, name = map(self._database.exact, ("c.checkpoint_ns", "c.checkpoint_id"))
        for table, counted in (
            (self._tables.checkpoints, "COUNT(*), 0"),
            (self._tables.writes, "0, COUNT(*)"),
        ):
            query = (
                f"SELECT {ns} AS ns, {name} AS name, {counted}, COALESCE(SUM({table.size}), 0)"
                f" FROM {table.source} c WHERE {self._thread_is} GROUP BY ns, name"
            )
            for space, checkpoint_id, *size in self._stream(query, self._of(thread_id)):
                key = CheckpointKey(thread_id, self._text(space), self._text(checkpoint_id))
                yield key, ThreadSize(*map(self._number, size))

    def usage(self, thread_id: str | None = None) -> Iterator[Usage]:
        if not self._database.storable(thread_id or ""):
            return
        where = "" if thread_id is None else f"WHERE {self._thread_is}"
        parts = [
            f"SELECT thread, '{table.name}', '{column}', ns, channel, tag, COUNT(*),"
            f" COALESCE(SUM(size), 0) FROM (SELECT {self._used(table, column)}, {size} AS size"
            f" FROM {table.source} c {where} {self._UNMERGED}) used"
            " GROUP BY thread, ns, channel, tag"
            for table in reversed(self._tables.all)
            for column, size in table.sizes.items()
        ]
        query = f"{' UNION ALL '.join(parts)} ORDER BY thread"
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

    def _used(self, table: SqlTable, column: str) -> str:
        """The columns by which `usage` groups."""
        exact = self._database.exact
        is_value = table is not self._tables.checkpoints
        channel = exact("c.channel") if is_value else "NULL"
        body_type = "'json'" if column == "metadata" else self._BODY_TYPE
        tag = exact("COALESCE(c.type, '')" if is_value else body_type)
        keys = f"{exact('c.thread_id')} AS thread, {exact('c.checkpoint_ns')} AS ns"
        return f"{keys}, {channel} AS channel, {tag} AS tag"

    def namespaces(self, thread_id: str) -> list[str]:
        if not self._database.storable(thread_id):
            return []
        query = (
            f"SELECT DISTINCT {self._database.exact('c.checkpoint_ns')} AS ns"
            f" FROM {self._tables.checkpoints.source} c WHERE {self._thread_is} ORDER BY ns"
        )
        return [self._text(ns) for (ns,) in self._database.rows(query, self._of(thread_id))]

    def checkpoints(
        self,
        thread_id: str,
        *,
        checkpoint_ns: str | None = None,
        checkpoint_ids: Collection[str] | None = None,
        body: bool = False,
        metadata: bool = False,
        values: bool | Collection[str] = False,
    ) -> Iterator[Checkpoint]:
        query = self._select_checkpoints(body=body, metadata=metadata, values=values)
        rows = self._of_thread(query, thread_id, checkpoint_ns, checkpoint_ids)
        yield from self._read_checkpoints(rows, body=body, metadata=metadata, values=values)

    def checkpoints_at(
        self, keys: Sequence[CheckpointKey], *, body: bool = False, metadata: bool = False
    ) -> Iterator[Checkpoint]:
        query = self._select_checkpoints(body=body, metadata=metadata, values=False)
        rows = self._at(query, keys)
        yield from self._read_checkpoints(rows, body=body, metadata=metadata, values=False)

    def writes(
        self,
        thread_id: str,
        *,
        checkpoint_ns: str | None = None,
        checkpoint_ids: Collection[str] | None = None,
        channels: Collection[str] | None = None,
        values: bool | Collection[str] = False,
    ) -> Iterator[Write]:
        query = self._select_writes(channels, values)
        rows = self._of_thread(query, thread_id, checkpoint_ns, checkpoint_ids)
        yield from self._read_writes(rows, values)

    def writes_at(
        self,
        keys: Sequence[CheckpointKey],
        *,
        channels: Collection[str] | None = None,
        values: bool | Collection[str] = False,
    ) -> Iterator[Write]:
        rows = self._at(self._select_writes(channels, values), keys)
        yield from self._read_writes(rows, values)

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
        conditions = [self._thread_is, of_space]
        bound = {**query.values, **values}
        if checkpoint_ids is not None:
            among, ids = self._database.among("c.checkpoint_id", "id", checkpoint_ids)
            conditions.append(among)
            bound |= ids
        conditions.append(query.only)
        order = "" if of_space else f"{self._database.exact('c.checkpoint_ns')}, "
        text = (
            f"SELECT c.checkpoint_ns, c.checkpoint_id, {query.columns}"
            f" FROM {query.table.source} c {query.join} WHERE {_all(conditions)}"
            f" ORDER BY {order}{query.order}"
        )
        few = None if checkpoint_ids is None else len(checkpoint_ids)
        for ns, checkpoint_id, *row in self._fetch(text, bound, query.at_once, few):
            yield CheckpointKey(thread_id, self._text(ns), self._text(checkpoint_id)), row

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
        database, table = self._database, self._tables.writes
        bound: dict[str, object] = {}
        wanted = "TRUE" if values else "FALSE"
        if not isinstance(values, bool):
            wanted, bound = database.among("c.channel", "read", values)
        only = ""
        if channels is not None:
            only, names = database.among("c.channel", "of", channels)
            bound |= names
        path = "c.task_path" if self._tables.task_path else "''"
        value = f"c.{database.quoted(next(iter(table.sizes)))}"
        length = self._LENGTH.format(value)
        order = ("c.checkpoint_id", path, "c.task_id")
        return RowQuery(
            table=table,
            columns=f"c.task_id, {path}, c.idx, c.channel, c.type, {length}, {wanted},"
            f" CASE WHEN {wanted} AND {length} <= {self._MOST} THEN {value} END",
            order=f"{', '.join(map(database.exact, order))}, c.idx",
            only=only,
            values=bound,
            at_once=KEYS_AT_ONCE if values is False else BODIES_AT_ONCE,
        )

    def _write(self, key: CheckpointKey, row: Sequence[Any]) -> Write:
        task_id, task_path, idx, channel, tag, size, is_read, value, *_ = row
        size = size or 0
        return Write(
            key,
            self._text(task_id),
            self._text(task_path),
            self._number(idx),
            self._text(channel),
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
        for table in self._tables.all:
            for row in self._stored_rows(table, thread_id):
                yield Row(table.name, dict(zip(table.columns, row, strict=True)))

    def _stored_rows(self, table: SqlTable, thread_id: str) -> Iterator[Sequence[Any]]:
        """The rows of a thread with all stored columns."""
        query = (
            f"SELECT {', '.join(table.columns.values())} FROM {table.sql} c WHERE {self._thread_is}"
        )
        return self._stream(query, self._of(thread_id), STATES_AT_ONCE)

    def own_rows(self, thread_id: str, rows: Iterable[Row]) -> Iterator[Row]:
        return own_rows(thread_id, rows, {one.name: one.columns for one in self._tables.all})

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


def chunks(items: Iterable[T], number: int) -> Iterator[list[T]]:
    """The items in lists of at most `number` items."""
    stream = iter(items)
    while chunk := list(islice(stream, number)):
        yield chunk


def _all(conditions: Iterable[str]) -> str:
    return " AND ".join(filter(None, conditions))
