"""Reads the rows that a query needs, some threads at a time, and encodes them for DuckDB."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from itertools import islice
from typing import Any, TypeAlias

from ckpt_backends.model import Thread
from ckpt_backends.protocol import Store
from ckpt_cli.core.usage.prices import PriceList
from ckpt_cli.sql.bounds import ALL_ROWS, RowBounds
from ckpt_cli.sql.tables import TABLES
from ckpt_cli.sql.tables.declaration import SqlRow, TableReading
from ckpt_cli.threads.opening import Opening
from ckpt_cli.threads.parallel import of_threads
from ckpt_cli.threads.trigger_inference import TriggerInference

RowBatch: TypeAlias = str
"""Rows as JSON: for each column asked for, in order, an array with the value of each row."""

_ROWS = 5_000
_BYTES = 4 * 1024 * 1024
"""A batch ends after so many rows, or when its JSON is about so long."""
_THREADS_AT_ONCE = 50
_CHECKPOINTS_AT_ONCE = 2_000
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
    store: Store, request: TableRequest, threads: Iterable[Thread], jobs: int = 1
) -> Iterator[RowBatch]:
    """Yield the rows of a table, in the order of the threads, with one batch in memory at a time.

    With several jobs, the rows of a few dozen threads are in memory at a time.
    """
    wanted = filter(request.bounds.admits, threads)
    work = partial(_reading_threads, request, jobs > 1)
    for batches in of_threads(store, request.opening, _parts(wanted), work, jobs):
        yield from batches


def _parts(threads: Iterator[Thread]) -> Iterator[list[Thread]]:
    """Yield threads in groups: few if they are long."""
    part: list[Thread] = []
    for one in threads:
        part.append(one)
        if (
            len(part) >= _THREADS_AT_ONCE
            or sum(each.checkpoints for each in part) >= _CHECKPOINTS_AT_ONCE
        ):
            yield part
            part = []
    if part:
        yield part


def _reading_threads(
    request: TableRequest, whole: bool, store: Store
) -> Callable[[Sequence[Thread]], Iterable[RowBatch]]:
    table, inference = TABLES[request.table], TriggerInference(store)
    reading = request.reading(store, inference)

    def read(threads: Sequence[Thread]) -> Iterable[RowBatch]:
        found = encoded(table.rows(reading, threads), request.columns)
        return list(found) if whole else found

    return read


def encoded(rows: Iterable[SqlRow], columns: Sequence[str]) -> Iterator[RowBatch]:
    """Yield rows as batches of JSON."""
    remaining = iter(rows)
    while True:
        cells: list[list[str]] = [[] for _ in columns]
        length = 0
        for row in islice(remaining, _ROWS):
            for name, held in zip(columns, cells, strict=True):
                text = _cell(row.get(name))
                held.append(text)
                length += len(text)
            if length >= _BYTES:
                break
        if not any(cells):
            return
        parts = (f'"{name}":[{",".join(held)}]' for name, held in zip(columns, cells, strict=True))
        yield "{" + ",".join(parts) + "}"


def _cell(value: Any) -> str:
    if value is None:
        return "null"
    return _ENCODE(value)
