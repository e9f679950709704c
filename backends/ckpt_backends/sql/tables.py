"""The tables of savers: which saver made them, how queries see them, and the queries themselves.

LangGraph's savers for servers use three tables: checkpoint bodies, writes, and channel values
("blobs"). A body names the version of each channel's value; the value itself is in the blobs table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeAlias, TypeVar

from ckpt_backends import shell
from ckpt_backends.declaration import declared_for, load
from ckpt_backends.errors import UnknownLayout, UsageError
from ckpt_backends.model import COPY_INSTEAD, Blob, Capability, TypedBytes

if TYPE_CHECKING:
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
    `table.column`, that have no default and must have a value. What is not a column is in words.
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
    found = [one.removeprefix("column ") for one in unknown if "." in one]
    listed = f"unknown column{'s' if len(found) > 1 else ''} {', '.join(map(shell.word, found))}"
    return ", ".join([*([listed] if found else []), *(one for one in unknown if "." not in one)])


def only_read_note(reason: str) -> Sequence[str]:
    """The note of a store that `ckpt` only reads; nothing if there is no reason."""
    return [f"ckpt only reads this store: {reason}"] if reason else []


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


RENAMED = "tables with other names"
"""What is unknown of tables that a URL names."""


def renamed(given: str | None, usual: Sequence[str], where: str) -> Mapping[str, str]:
    """By the name of a stored table, the usual one that stands for it in queries and archives.

    `given` is the parameter `tables` of a URL. Raises `UsageError` if it has not as many names.
    """
    if given is None:
        return {}
    names = given.split(",")
    if len({*names}) != len(usual) or not all(names):
        raise UsageError(
            f"'tables' of '{where}' must have {len(usual)} names, with commas",
            hint=f"those of {', '.join(usual)}, in this order",
        )
    return dict(zip(names, usual, strict=True))


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

    @property
    def required(self) -> list[str]:
        """Of the unknown columns, those that have no default and must have a value."""
        found = (f"{one.name}.{column}" for one in self.tables for column in sorted(one.required))
        unknown = {one.rpartition(" ")[2] for one in self.unknown}
        return [one for one in found if one in unknown]

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


THREADS_PER_QUERY = 500
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


Query: TypeAlias = tuple[str, dict[str, object]]
"""SQL and its parameters."""


def where_all(*conditions: str) -> str:
    """A `WHERE` with these conditions; empty ones hold always."""
    given = " AND ".join(filter(None, conditions))
    return f"WHERE {given}" if given else ""


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
