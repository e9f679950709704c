"""A connection to an engine, with the engine's SQL dialect."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, ClassVar

from ckpt_backends.closing import Closing
from ckpt_backends.model import Capability, Fault, HiddenRows, Space

if TYPE_CHECKING:
    from ckpt_backends.changes.progress import Progress
    from ckpt_backends.changes.remains import Remains

Row = tuple[Any, ...]
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

    calls_back: ClassVar[bool] = False
    """Whether the engine runs in this process and calls Python functions."""

    @abstractmethod
    def rows(self, query: str, values: Values) -> list[Row]:
        """All rows of a short result."""

    @abstractmethod
    def stream(self, query: str, values: Values, at_once: int = 200) -> Iterator[Row]:
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

    def called_back(self, function: Callable[..., bool], *columns: str) -> str:
        """The condition that a function is true of the bytes of some columns, `b""` for NULL.

        Needed if the engine `calls_back`. It holds until the next call.
        """
        raise NotImplementedError

    @abstractmethod
    def literal(self, text: str) -> str:
        """A text as an SQL literal, for a query that a person runs."""

    def archived(self, table: str, column: str) -> str:  # noqa: ARG002
        """The expression of a column for an archive: a number, text or bytes."""
        return self.quoted(column)

    def bound(self, text: str) -> object:
        """A text in the form in which the driver needs it as a parameter."""
        return text

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

    @property
    def enforces_read_only(self) -> bool:
        """Whether the engine refuses writes on a connection for reading."""
        return True

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
        self, thread_id: str | None = None, *, exclusive: bool = False
    ) -> AbstractContextManager[None]:
        """One transaction, with a lock on the thread if there is one.

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


def text(cell: object) -> str:
    """A cell as text; NULL gives `''`."""
    if isinstance(cell, bytes):
        return cell.decode("utf-8", "surrogateescape")
    return "" if cell is None else str(cell)
