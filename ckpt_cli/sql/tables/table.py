"""What a table is: its columns, what each of them needs to be read, and how its rows are made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import Any, TypeAlias

from ckpt_backends.memory.protocol import MemoryStore
from ckpt_backends.model import Thread
from ckpt_backends.protocol import Store
from ckpt_cli.core.usage.prices import PriceList
from ckpt_cli.queries.thread_operations import ThreadOperations
from ckpt_cli.sql.bounds import RowBounds
from ckpt_cli.threads.opening import Opening
from ckpt_cli.threads.thread import ThreadReader
from ckpt_cli.threads.trigger_inference import TriggerInference

SqlRow: TypeAlias = Mapping[str, Any]
"""Column to a value that JSON can hold. Columns that were not asked for may be missing."""


class Need(StrEnum):
    """What is read from the store for a column, if a query names it."""

    INDEX = "index"
    """Keys and index rows."""
    SIZES = "sizes"
    """Stored lengths, which the engine adds up."""
    METADATA = "metadata"
    STEP = "step"
    """Checkpoint bodies and LangGraph's own writes, for tasks and status; no value of a channel."""
    STORED = "stored"
    """Values as stored, without decoding them."""
    VALUE = "value"
    """Decoded values."""


@dataclass(frozen=True, slots=True)
class SqlColumn:
    """One column of a table."""

    name: str
    type: str
    """DuckDB's name of the type."""
    text: str
    """One line for the documentation."""
    needs: Need = Need.INDEX
    unit: str = ""


@dataclass(frozen=True, slots=True)
class TableReading:
    """What a table is read with, and which of its columns and rows are asked for."""

    store: Store
    opening: Opening
    columns: frozenset[str]
    needs: frozenset[Need]
    bounds: RowBounds
    """Rows outside of these may be left out; DuckDB applies all conditions again."""
    prices: PriceList
    now: datetime
    inference: TriggerInference

    def readers(self, threads: Iterable[Thread]) -> Iterator[ThreadReader]:
        """Yield a reader for each thread; all of them learn from each other."""
        return (ThreadReader(self.store, one, self.inference) for one in threads)

    def operations(self, thread_id: str) -> ThreadOperations:
        """Return the recorded operations on a thread."""
        return ThreadOperations(self.opening, thread_id)

    def namespaces(self, reader: ThreadReader) -> Iterator[tuple[str, set[str] | None]]:
        """Yield each namespace with checkpoints within the bounds, and their ids; None: all."""
        for ns in reader.namespaces:
            ids = self._checkpoint_ids(reader, ns)
            if ids is None or ids:
                yield ns, ids

    def _checkpoint_ids(self, reader: ThreadReader, checkpoint_ns: str) -> set[str] | None:
        bounds = self.bounds
        if bounds.heads_only:
            head = reader.head(checkpoint_ns)
            return set() if head is None else {head}
        if bounds.since is None and bounds.until is None:
            return None
        times = reader.times(checkpoint_ns)
        return {one for one, at in times.items() if at is not None and bounds.holds(at)}


def _no_rows(reading: TableReading, threads: Sequence[Thread]) -> Iterator[SqlRow]:  # noqa: ARG001
    return iter(())


@dataclass(frozen=True)
class QueryTable:
    """A table: one row for each of what `text` says."""

    name: str
    text: str
    columns: tuple[SqlColumn, ...]
    rows: Callable[[TableReading, Sequence[Thread]], Iterator[SqlRow]] = _no_rows
    """Yields the rows of some threads, at least those within the bounds."""
    by_group: bool = False
    """Whether `rows` asks the store once for many threads; then all these rows are in memory."""
    items: Callable[[MemoryStore, TableReading], Iterator[SqlRow]] | None = None
    """Yields the rows of a table of long-term memory, which belong to no thread."""
    commands: str = ""
    """The commands whose JSON has the same answers."""
    by_column: Mapping[str, SqlColumn] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "by_column", {one.name: one for one in self.columns})

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(self.by_column)

    def needs_of(self, columns: Iterable[str]) -> frozenset[Need]:
        """Return what must be read for these columns."""
        return frozenset(self.by_column[one].needs for one in columns)


def keys_of(*more: SqlColumn) -> tuple[SqlColumn, ...]:
    """Return the columns that name a checkpoint, and then others."""
    return (
        SqlColumn("thread_id", "VARCHAR", "Thread."),
        SqlColumn("checkpoint_ns", "VARCHAR", "Namespace; '' is the root graph."),
        SqlColumn("checkpoint_id", "VARCHAR", "Checkpoint."),
        *more,
    )
