"""The interface that an engine's adapter implements: a connection and the engine's SQL dialect."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from ckpt_backends.changes.rows import Cell
from ckpt_backends.model import Space

Row = tuple[Any, ...]
Values = Mapping[str, object]


class Database(Protocol):
    """A connection with one transaction. Its methods raise `StoreUnavailable`.

    `text`, `mark`, `same`, `exact`, `bytes_of`, `characters` and `quoted` return SQL expressions.
    `same` is true only if column and parameter are equal code point by code point. `exact` sorts a
    column by code points.
    """

    def rows(self, query: str, values: Values) -> list[Row]:
        """All rows of a short result."""
        ...

    def stream(self, query: str, values: Values) -> Iterator[Row]:
        """The rows of a long result, with a few rows in memory at a time."""
        ...

    def text(self, name: str) -> str:
        """The placeholder for a text parameter."""
        ...

    def mark(self, name: str) -> str:
        """The placeholder for a parameter that is not text."""
        ...

    def same(self, column: str, name: str) -> str: ...

    def exact(self, column: str) -> str: ...

    def bytes_of(self, column: str) -> str:
        """The length of a stored value in bytes."""
        ...

    def characters(self, column: str) -> str: ...

    def quoted(self, name: str) -> str: ...

    def literal(self, text: str) -> str:
        """A text as an SQL literal, for a query that a person runs."""
        ...

    def bound(self, text: str) -> object:
        """A text in the form in which the driver needs it as a parameter."""
        ...

    def storable(self, text: str) -> bool:
        """Whether the engine can store a text. If not, no row can contain it."""
        ...

    def engine(self) -> str:
        """Name and version of the engine."""
        ...

    def space(self, tables: Sequence[str]) -> Space:
        """Bytes that the tables use."""
        ...

    def notes(self) -> Sequence[str]: ...

    def restart(self) -> None:
        """Start a new snapshot. Raises `Unsupported` if the store cannot see later changes."""
        ...

    def close(self) -> None: ...


class WritableDatabase(Database, Protocol):
    """A connection for changes."""

    def transaction(self, thread_id: str | None) -> AbstractContextManager[None]:
        """One transaction, with a lock on the thread.

        Raises `StoreChanged` or `StoreUnavailable`. Nothing is written then.
        """
        ...

    def change(self, query: str, values: Values) -> int:
        """Run a statement inside a transaction. Returns the number of changed rows."""
        ...

    def given(self, table: str, column: str, name: str, cell: Cell) -> str:
        """The placeholder for a cell of an archive that is inserted into a column."""
        ...

    def is_given(self, table: str, column: str, name: str, cell: Cell) -> str:
        """The condition that a column is equal to a cell of an archive."""
        ...

    def vacuum(self, tables: Sequence[str]) -> None: ...

    def finish_removal(self) -> str:
        """See `WritableStore.finish_removal`."""
        ...
