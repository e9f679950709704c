"""A connection to an engine, with the engine's SQL dialect."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

from ckpt_backends import shell
from ckpt_backends.errors import (
    CkptError,
    Closing,
    Refused,
    StoreChanged,
    StoreUnavailable,
    Unsupported,
)
from ckpt_backends.model import Capability, Fault, HiddenRows, Space

if TYPE_CHECKING:
    from ckpt_backends.changes import Remains
    from ckpt_backends.model import Progress
    from ckpt_backends.url import StoreUrl


READ_ONLY_HINT = 'ckpt reads this store; see "Servers that speak these protocols" in docs/stores.md'
"""For a server that lacks what a change needs."""
QueryRow = tuple[Any, ...]
Values = Mapping[str, object]
Loaded = tuple[object, ...]
"""A row to be added: numbers, texts, None, and bytes for values and for JSON."""


class RowRefused(Exception):
    """The engine cannot store a row; the text says why."""

    def __init__(self, row: Loaded, reason: str) -> None:
        super().__init__(reason)
        self.row = row


class Database(Closing):
    """A connection with one transaction. Its methods raise `StoreUnavailable`.

    `text`, `mark`, `same`, `among`, `exact`, `bytes_of`, `characters` and `quoted` return SQL
    expressions. `same` and `among` are true only if column and parameter are equal code point by
    code point. `exact` sorts a column by code points.
    """

    enforces_read_only: bool = True
    """Whether the engine refuses writes on a connection for reading."""
    in_process: ClassVar[bool] = False
    """Whether the engine runs in this process, so that it sends no values."""

    @abstractmethod
    def rows(self, query: str, values: Values) -> list[QueryRow]:
        """All rows of a short result."""

    @abstractmethod
    def stream(self, query: str, values: Values, at_once: int = 200) -> Iterator[QueryRow]:
        """The rows of a long result, with at most `at_once` rows in memory at a time."""

    @abstractmethod
    def mark(self, name: str) -> str:
        """The placeholder for a parameter that is not text."""

    def text(self, name: str) -> str:
        """The placeholder for a text parameter."""
        return self.mark(name)

    def same(self, column: str, name: str) -> str:
        return f"{column} = {self.text(name)}"

    @abstractmethod
    def among(
        self, column: str, name: str, texts: Collection[str]
    ) -> tuple[str, dict[str, object]]:
        """The condition that a column is equal to one of some texts, and its parameters.

        The names of the parameters begin with `name`.
        """

    @abstractmethod
    def exact(self, column: str) -> str: ...

    def as_in(self, table: str, column: str, other: str) -> str:  # noqa: ARG002
        """The `other` text, for comparing it with a column of a table.

        Some servers refuse to compare columns with different collations.
        """
        return other

    def bytes_of(self, column: str) -> str:
        """The length of a stored value in bytes."""
        return f"OCTET_LENGTH({column})"

    def characters(self, column: str) -> str:
        return f"CHAR_LENGTH({column})"

    @abstractmethod
    def quoted(self, name: str) -> str: ...

    def holds(self, column: str, names: Sequence[str]) -> str:
        """The condition that stored bytes may contain those of one of these parameters."""
        raise NotImplementedError

    @abstractmethod
    def literal(self, text: str) -> str:
        """A text as an SQL literal, for a query that a person runs."""

    def archived(self, table: str, column: str) -> str:  # noqa: ARG002
        """The expression of a column for an archive: a number, text or bytes."""
        return self.quoted(column)

    def bound(self, cell: object) -> object:
        """A cell in the form in which the driver needs it as a parameter."""
        return cell

    def storable(self, text: str) -> bool:  # noqa: ARG002
        """Whether the engine can store a text. If not, no row can contain it."""
        return True

    @abstractmethod
    def engine(self) -> str:
        """Name and version of the engine."""

    @abstractmethod
    def space(self, tables: Sequence[str]) -> Space:
        """Bytes that the tables use."""

    def faults(self, tables: Sequence[str]) -> Iterator[Fault]:  # noqa: ARG002
        """What is wrong with the engine's own state, such as logs and unused space of the tables.

        Reads the catalog and statistics only.
        """
        return iter(())

    def damage(self, *, whole: bool) -> Iterator[Fault]:  # noqa: ARG002
        """What the engine finds when it checks its files; see `Store.damage`."""
        return iter(())

    def limited(self, can: Capability) -> Capability:
        """These capabilities of a layout, without those that this server lacks."""
        return can if self.enforces_read_only else can & ~Capability.ENFORCED_READ_ONLY

    def hidden_rows(self) -> Sequence[HiddenRows]:
        """See `Store.hidden_rows`."""
        return ()

    def notes(self) -> Sequence[str]:
        found = [one.note for one in self.hidden_rows()]
        if not self.enforces_read_only:
            found.append("the server has no read-only transactions; ckpt itself only reads")
        return found

    @abstractmethod
    def restart(self) -> None:
        """Start a new snapshot. Raises `Unsupported` if the store cannot see later changes."""


class WritableDatabase(Database):
    """A connection for changes."""

    insert_missing: str
    """The statement that adds a row unless its key exists, with names to format."""
    lock_rows: str = ""
    """What ends a query that locks the rows that it counts; empty if the engine locks more."""

    @abstractmethod
    def transaction(
        self, thread_ids: Sequence[str] = (), *, exclusive: bool = False
    ) -> AbstractContextManager[None]:
        """One transaction, with a lock on each of these threads.

        `exclusive` keeps others from adding rows to the threads that are read in it. Raises
        `StoreChanged` or `StoreUnavailable`. Nothing is written then.
        """

    @abstractmethod
    def change(self, query: str, values: Values) -> int:
        """Run a statement inside a transaction. Returns the number of changed rows."""

    @abstractmethod
    def load(self, table: str, sql: str, columns: Sequence[str], rows: Sequence[Loaded]) -> None:
        """Add many rows inside a transaction, as fast as the engine can.

        `sql` is the quoted name of the table. Raises `RowRefused` for a row that cannot be stored.
        """

    @abstractmethod
    def given(self, table: str, column: str, name: str, cell: object) -> str:
        """The placeholder for a cell that is inserted into a column."""

    @abstractmethod
    def is_given(self, table: str, column: str, name: str, cell: object) -> str:
        """The condition that a column is equal to a cell of an archive."""

    @abstractmethod
    def json_member(self, column: str, name: str) -> str:
        """A member of a JSON object in a column, as JSON text."""

    @abstractmethod
    def vacuum(self, tables: Sequence[str]) -> None: ...

    def holding_changes(self) -> AbstractContextManager[None]:
        """Lets others read while a long transaction changes rows, until it is committed."""
        return nullcontext()

    def finish_removal(self) -> str:
        """See `WritableStore.finish_removal`."""
        return ""

    @abstractmethod
    def tables_with_thread_ids(self) -> list[str]:
        """The tables beside the saver's, and those of the saver, that have a column `thread_id`."""

    @abstractmethod
    def erase_remains(self, tables: Sequence[str], *, rewrite: bool, progress: Progress) -> Remains:
        """Erase what was removed from tables before; see `WritableStore.erase_remains`."""


# The transaction of a change, and the words for what the server did not carry out.


HELD = (
    "another session holds a lock",
    "another command may be changing this thread; run the command again",
)
"""A reason and a hint for `unwritten`."""


def unwritten(url: StoreUrl, reason: str, hint: str) -> StoreUnavailable:
    """The error for a change that the server refuses."""
    return StoreUnavailable(f"cannot write to '{url}': {reason}", hint=hint)


def unsupported(url: StoreUrl, reason: str) -> Unsupported:
    """The error for a server that lacks what a change needs."""
    return Unsupported(f"cannot write to '{url}': {reason}", hint=READ_ONLY_HINT)


def changed_meanwhile(url: StoreUrl) -> StoreChanged:
    """The error for a change that another one prevents."""
    return StoreChanged(
        f"'{url}' changed meanwhile, so nothing was written", hint="run the command again"
    )


@contextmanager
def committed(
    connection: Any,
    errors: tuple[type[Exception], ...],
    refused: Callable[[StoreUrl, Any], CkptError | None],
    unavailable: Callable[[StoreUrl, Any], CkptError],
) -> Iterator[None]:
    """One transaction, committed at the end; nothing is written after an error.

    The driver's `errors` are raised as what `refused` returns, or else `unavailable`.
    """
    try:
        yield
        connection.commit()
    except BaseException as error:
        connection.restart_quietly()
        if not isinstance(error, errors):
            raise
        found = refused(connection.url, error)
        if found is None:
            found = unavailable(connection.url, error)
            found.message += "; nothing was written"
        raise found from None


def text(cell: object) -> str:
    """A cell as text; NULL gives `''`."""
    if isinstance(cell, str):
        return cell
    if isinstance(cell, bytes | bytearray | memoryview):
        return bytes(cell).decode("utf-8", "surrogateescape")
    return "" if cell is None else str(cell)


Condition = Mapping[str, object]
"""By column (or expression), the cell that a row must have, or a list of such cells."""


def condition(
    database: Database, where: Condition, name: str = "w"
) -> tuple[str, dict[str, object]]:
    """The condition on rows, and its parameters; their names begin with `name`."""
    parts: list[str] = []
    values: dict[str, object] = {}
    for n, (column, cell) in enumerate(where.items()):
        mark = f"{name}{n}_"
        if isinstance(cell, list):
            part, bound = database.among(column, mark, cell)
            values.update(bound)
        else:
            is_text = isinstance(cell, str)
            part = database.same(column, mark) if is_text else f"{column} = {database.mark(mark)}"
            values[mark] = database.bound(cell)
        parts.append(part)
    return " AND ".join(parts), values


# Tells whether a view that stands in the place of a saver's table may leave out rows.
#
# A saver does not care whether `checkpoints` is a table. A view may show one tenant's rows only,
# and then the writes of all others look as if they belonged to nothing. Engines return the
# definition of a view as text, each in its own way:
#
#     PostgreSQL   ` SELECT a,
#     b
#    FROM checkpoints
#   WHERE tenant = 'x'::text;`
#     MySQL        "select `d`.`t`.`a` AS `a` from `d`.`t` where (`d`.`t`.`tenant` = 'x')"
#
# SQLite needs none of this: `ckpt` does not take a view in a file for a saver's table.
#
# A definition is not parsed. Only the simplest form is taken to show all rows: one SELECT of
# columns from one table, and nothing after it. Whatever else it says, rows may be missing.


_NAME = r'(?:"(?:[^"]|"")+"|`(?:[^`]|``)+`|\[[^]]+\]|[\w$]+)'
_TABLE = rf"{_NAME}(?:\s*\.\s*{_NAME}){{0,2}}"
_PLAIN = re.compile(
    r"select\s+(?!distinct\b|all\b)(?P<columns>.*?)"
    rf"\sfrom\s+(?P<table>{_TABLE})(?:\s+(?:as\s+)?(?!where\b|limit\b){_NAME})?\s*;?\s*",
    re.IGNORECASE | re.DOTALL,
)
_FROM = re.compile(r"\bfrom\b", re.IGNORECASE)
_CALL = re.compile(r"\w\s*\(")
"""A function call: an aggregate makes one row of many."""
_LAST_NAME = re.compile(rf"{_NAME}$")
_OF_ONE_ROW = re.compile(r"\b(?:coalesce|convert|cast)\s*\(", re.IGNORECASE)
_DEPTH = 10
"""Views of views that are followed."""
REMEDY = "name the tables themselves, such as ?schema=NAME or another database, as a role for them"


def base_of(definition: str) -> str | None:
    """The name of the table or view that a view shows whole; None if rows may be left out."""
    found = _PLAIN.fullmatch(definition.strip())
    if found is None or len(_FROM.findall(definition)) != 1:
        return None
    if _CALL.search(_OF_ONE_ROW.sub("", found["columns"])):
        return None
    last = _LAST_NAME.search(found["table"])
    return None if last is None else last[0].strip('"`[]')


def shows_all(name: str, views: Mapping[str, str]) -> bool:
    """Whether a table or view shows all rows, by the definitions of the views of its database."""
    for _ in range(_DEPTH):
        if name not in views:
            return True
        base = base_of(views[name])
        if base is None or base == name:
            # A view of the same name in another schema cannot be followed.
            return base == name
        name = base
    return False


def hidden_by_views(tables: Sequence[str], views: Mapping[str, str]) -> Iterator[HiddenRows]:
    """Why rows of these tables may be hidden, by the definitions of views."""
    for name in tables:
        if not shows_all(name, views):
            yield may_hide(name)


def may_hide(view: str) -> HiddenRows:
    """The reason for a view that may leave out rows."""
    return HiddenRows(f"'{view}' is a view that may leave out rows", REMEDY)


# What may be in a database in which a store is made: nothing, or LangGraph's own memory.


MEMORY_TABLES = frozenset({"store", "store_migrations", "store_vectors", "vector_migrations"})
"""The tables of LangGraph's long-term memory, which may share a database with threads."""

THREAD_TABLES = frozenset(
    {"checkpoints", "writes", "checkpoint_writes", "checkpoint_blobs", "checkpoint_migrations"}
)
"""The tables of LangGraph's savers, with which a store of long-term memory may share a database."""


def something_else(where: str, tables: Iterable[str]) -> Refused:
    """The error for a database with other tables."""
    found = sorted(tables)
    named = ", ".join(map(shell.word, found[:10])) + (", ..." if len(found) > 10 else "")
    return Refused(
        f"cannot make a store in '{where}': it is not empty",
        hint=f"found {named}; name an empty database or a new file",
    )
