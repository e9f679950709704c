"""What an engine's adapter hands in: a connection, and how the engine spells a few things."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from ckpt_backends.model import Space
from ckpt_backends.rows import Cell

Row = tuple[Any, ...]
Values = Mapping[str, object]


class Database(Protocol):
    """A connection with one transaction. Its errors are `StoreUnavailable`.

    `mark`, `same` and `exact` stand in queries; `exact` gives the order of code points, and `same`
    is true for the very same text only.
    """

    def rows(self, query: str, values: Values) -> list[Row]:
        """A short answer, whole."""
        ...

    def stream(self, query: str, values: Values) -> Iterator[Row]:
        """A long answer, a few rows in memory at a time."""
        ...

    def text(self, name: str) -> str:
        """What stands for a bound text."""
        ...

    def mark(self, name: str) -> str:
        """What stands for anything else that is bound."""
        ...

    def same(self, column: str, name: str) -> str: ...

    def exact(self, column: str) -> str: ...

    def bytes_of(self, column: str) -> str:
        """The length of a stored value."""
        ...

    def characters(self, column: str) -> str: ...

    def quoted(self, name: str) -> str: ...

    def literal(self, text: str) -> str:
        """A text for a query that a person runs."""
        ...

    def bound(self, text: str) -> object:
        """A text as it is bound."""
        ...

    def storable(self, text: str) -> bool:
        """Whether the engine can hold a text, so that it makes sense to look for it."""
        ...

    def engine(self) -> str:
        """Name and version of the engine."""
        ...

    def space(self, tables: Sequence[str]) -> Space:
        """Bytes that the tables use."""
        ...

    def notes(self) -> Sequence[str]: ...

    def restart(self) -> None:
        """Let the next answer be of a later moment. Raises `Unsupported` where that cannot be."""
        ...

    def close(self) -> None: ...


class WritableDatabase(Database, Protocol):
    """A connection for changes."""

    def transaction(self, thread_id: str | None) -> AbstractContextManager[None]:
        """One transaction, with the lock of a thread: errors in it are `StoreChanged` or
        `StoreUnavailable`, and nothing is written then."""
        ...

    def change(self, query: str, values: Values) -> int:
        """Run a statement that changes rows, inside a transaction. Gives how many."""
        ...

    def given(self, table: str, column: str, name: str, cell: Cell) -> str:
        """What stands for a bound cell of an archive that becomes one of that column."""
        ...

    def is_given(self, table: str, column: str, name: str, cell: Cell) -> str:
        """The condition that the column holds that very cell."""
        ...

    def vacuum(self, tables: Sequence[str]) -> None: ...
