"""Killed at any moment, a purge leaves each thread whole or gone, and nothing is lost."""

from __future__ import annotations

import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.backends.agent import graph_of
from tests.retention.killing import run_and_kill, seconds_of
from tests.support import ckpt

THREADS = 40


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of many threads, written by the official saver."""
    from langgraph.checkpoint.sqlite import SqliteSaver

    path = tmp_path_factory.mktemp("killed") / "full.db"
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        saver = SqliteSaver(connection)
        for number in range(THREADS):
            config = {"configurable": {"thread_id": f"t{number}"}}
            graph_of(saver).invoke({"items": ["x" * 2000]}, config)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    return path


def threads_of(store: Path) -> dict[str, list[tuple[object, ...]]]:
    """Every row of every thread."""
    found: dict[str, list[tuple[object, ...]]] = {}
    with closing(sqlite3.connect(store)) as connection:
        for table in ("checkpoints", "writes"):
            for row in connection.execute(f"SELECT * FROM {table}"):
                found.setdefault(row[0], []).append((table, *row))
    return {thread: sorted(rows, key=repr) for thread, rows in found.items()}


def check(full: Path, folder: Path, seed: int, longest: float) -> str:
    """One round: kill a purge, then kill the import of what it archived."""
    dice, store, archive = random.Random(seed), folder / "store.db", folder / "archive"
    shutil.copyfile(full, store)
    before = threads_of(store)
    words: list[str | Path] = ["-s", store, "purge", "--match", "t*", "--batch", "4", "--yes"]
    ended = run_and_kill([*words, "--archive", archive], dice, longest)
    after = threads_of(store)
    for thread, rows in after.items():
        assert rows == before[thread], thread
    bundles = list(archive.glob("*.ckpt.gz")) if archive.exists() else []
    if bundles:
        run_and_kill(["-s", store, "import", *bundles, "--yes"], dice, longest)
        for thread, rows in threads_of(store).items():
            assert rows == before[thread], thread
        done = ckpt("-s", store, "import", *bundles, "--yes")
        assert done.code == 0, done.err
    assert threads_of(store) == before
    again = ckpt(*words, "-o", "json").json
    assert again["removed"]["threads"] == THREADS
    assert threads_of(store) == {}
    return "ended" if ended else "killed" if len(after) == THREADS else "in the middle"


def rounds(full: Path, folder: Path, number: int) -> Iterator[str]:
    store = folder / "timed.db"
    shutil.copyfile(full, store)
    words: list[str | Path] = ["-s", store, "purge", "--match", "t*", "--batch", "4", "--yes"]
    longest = seconds_of([*words, "--archive", folder / "timed"])
    for seed in range(number):
        place = folder / str(seed)
        place.mkdir()
        yield check(full, place, seed, longest)
        shutil.rmtree(place)


def test_thirty_kills(full: Path, tmp_path: Path) -> None:
    assert "in the middle" in set(rounds(full, tmp_path, 30))


@pytest.mark.slow
def test_a_thousand_kills(full: Path, tmp_path: Path) -> None:
    assert "in the middle" in set(rounds(full, tmp_path, 1000))
