"""Parts that are read from tables without rows are those of the rows, also where cells are odd."""

from __future__ import annotations

import random
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from ckpt_backends.model import Record
from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_store
from ckpt_backends.transfer.copying import records_of_rows
from ckpt_backends.transfer.form import CannotHold

_COLUMNS = {
    "writes": ("checkpoint_ns", "task_id", "task_path", "idx", "channel", "type", "value"),
    "checkpoints": ("checkpoint_ns", "parent_checkpoint_id", "type", "checkpoint", "metadata"),
}
_CELLS = ("NULL", "7", "-1", "1.5", "'text'", "''", "CAST(X'ff41' AS TEXT)", "X'c0'", "X''")


@pytest.mark.parametrize("seed", range(12))
def test_records_of_odd_cells_are_those_of_the_rows(
    scenes: Path, tmp_path: Path, seed: int
) -> None:
    path, chance = tmp_path / "odd.db", random.Random(seed)
    path.write_bytes(scenes.read_bytes())
    with closing(sqlite3.connect(path)) as connection, connection:
        for table, columns in _COLUMNS.items():
            for (row,) in connection.execute(f"SELECT rowid FROM {table}").fetchall():
                column, cell = chance.choice(columns), chance.choice(_CELLS)
                # What must not be NULL keeps its cell.
                change = f"UPDATE OR IGNORE {table} SET {column} = {cell} WHERE rowid = {row}"
                if chance.random() < 0.3:
                    connection.execute(change)
    with open_store(str(path)) as store:
        threads = sorted(one.thread_id for one in store.threads())
        assert threads
        for thread_id in threads:
            assert _read(store, thread_id) == _of_rows(store, thread_id)


def test_an_older_table_has_no_task_paths(scenes: Path, tmp_path: Path) -> None:
    path = tmp_path / "older.db"
    path.write_bytes(scenes.read_bytes())
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("ALTER TABLE writes DROP COLUMN task_path")
    with open_store(str(path)) as store:
        for one in store.threads():
            assert _read(store, one.thread_id) == _of_rows(store, one.thread_id)


def _read(store: Store, thread_id: str) -> list[Record] | str:
    try:
        return list(store.records_of([thread_id]))
    except CannotHold as error:
        return error.message


def _of_rows(store: Store, thread_id: str) -> list[Record] | str:
    try:
        return list(records_of_rows(store.describe().layout, store.rows(thread_id)))
    except CannotHold as error:
        return error.message
