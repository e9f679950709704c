"""Reads the rows that a query needs, some threads at a time, and encodes them for DuckDB."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, TypeAlias

from ckpt_backends.model import Thread
from ckpt_backends.protocol import Store
from ckpt_cli.core.usage.prices import PriceList
from ckpt_cli.sql.bounds import ALL_ROWS, RowBounds
from ckpt_cli.sql.tables import TABLES
from ckpt_cli.sql.tables.table import SqlRow, TableReading
from ckpt_cli.threads.opening import Opening
from ckpt_cli.threads.trigger_inference import TriggerInference

if TYPE_CHECKING:
    from ckpt_cli.threads.executor.executor import Executor
    from ckpt_cli.threads.executor.work import LostThread

RowBatch: TypeAlias = str
"""Rows as JSON: for each column asked for, in order, an array with the value of each row."""

RowChunk: TypeAlias = list[str]
"""The same without the brackets: for each column, the values joined by commas."""

_ROWS = 5_000
_CHARACTERS = 2_000_000
"""A batch ends after so many rows, or when its JSON is so long."""
_CHUNKS_AT_ONCE = 4
_THREADS_AT_ONCE = 200
_ENCODE = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@dataclass(frozen=True, slots=True)
class TableRequest:
    """Which rows and columns of a table are read. Sent to other processes."""

    table: str
    columns: tuple[str, ...]
    opening: Opening
    prices: PriceList
    now: datetime
    bounds: RowBounds = ALL_ROWS

    def reading(self, store: Store, inference: TriggerInference) -> TableReading:
        """Return what the table is read with."""
        columns = frozenset(self.columns)
        needs = TABLES[self.table].needs_of(columns)
        return TableReading(
            store,
            self.opening,
            columns,
            needs,
            self.bounds,
            self.prices,
            self.now,
            inference,
        )


def table_batches(
    store: Store, executor: Executor, request: TableRequest, threads: Iterable[Thread]
) -> Iterator[RowBatch]:
    """Yield the rows of a table, in the order of the threads, in batches of about equal size."""
    wanted = filter(request.bounds.admits, threads)
    found = thread_rows(store, executor, request, wanted)
    return batched((chunk for one in found for chunk in one.chunks), request.columns)


@dataclass(frozen=True, slots=True)
class ReadThread:
    """The rows of one thread; the chunks can be read once."""

    thread_id: str
    chunks: Iterable[RowChunk]


def thread_rows(
    store: Store,
    executor: Executor,
    request: TableRequest,
    threads: Iterable[Thread],
    lost: Callable[[Sequence[LostThread]], None] | None = None,
) -> Iterator[ReadThread]:
    """Yield the rows of each thread, in the order of the threads.

    `lost` is told at the end which threads were left out, in place of the one of the executor.
    """
    work = partial(_reading_threads, request, executor.is_here)
    return executor.run(store, threads, work, at_once=_THREADS_AT_ONCE, lost=lost)


def _reading_threads(
    request: TableRequest, here: bool, store: Store
) -> Callable[[Sequence[Thread]], Iterator[ReadThread]]:
    """Return what reads the rows of some threads; of each, all its chunks.

    In this process, only the first chunks are read at once: a thread may be larger than memory.
    """
    table = TABLES[request.table]
    reading = request.reading(store, TriggerInference(store))

    def read(threads: Sequence[Thread]) -> Iterator[ReadThread]:
        if table.by_group:
            rows = deque(table.rows(reading, threads))
            for one in threads:
                own = []
                while rows and rows[0]["thread_id"] == one.thread_id:
                    own.append(rows.popleft())
                yield ReadThread(one.thread_id, list(chunks(own, request.columns)))
            return
        for one in threads:
            found = chunks(table.rows(reading, [one]), request.columns)
            first = list(islice(found, _CHUNKS_AT_ONCE))
            yield ReadThread(one.thread_id, chain(first, found) if here else [*first, *found])

    return read


def chunks(rows: Iterable[SqlRow], columns: Sequence[str]) -> Iterator[RowChunk]:
    """Yield rows as JSON, some at a time."""
    remaining = iter(rows)
    while True:
        cells: list[list[str]] = [[] for _ in columns]
        length = 0
        for row in islice(remaining, _ROWS):
            for name, held in zip(columns, cells, strict=True):
                text = _cell(row.get(name))
                held.append(text)
                length += len(text)
            if length >= _CHARACTERS:
                break
        if not cells[0]:
            return
        yield [",".join(held) for held in cells]


def batched(found: Iterable[RowChunk], columns: Sequence[str]) -> Iterator[RowBatch]:
    """Yield chunks together, in batches that are worth a statement."""
    some: list[RowChunk] = []
    length = 0
    for chunk in found:
        some.append(chunk)
        length += sum(map(len, chunk))
        if length >= _CHARACTERS or len(some) >= _ROWS:
            yield _batch(some, columns)
            some, length = [], 0
    if some:
        yield _batch(some, columns)


def _batch(some: Sequence[RowChunk], columns: Sequence[str]) -> RowBatch:
    cells = zip(columns, zip(*some, strict=True), strict=True)
    return "{" + ",".join(f'"{name}":[{",".join(held)}]' for name, held in cells) + "}"


def _cell(value: Any) -> str:
    if value is None:
        return "null"
    return _ENCODE(value)
