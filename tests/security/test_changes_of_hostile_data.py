"""A rollback of a hostile row runs nothing of it, and is whole and undone, or refused."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.kit.command import CommandResult, ckpt
from tests.kit.hostile.corpus import build_store, hostile_rows
from tests.kit.hostile.watched import FORBIDDEN
from tests.security.test_commands_on_hostile_data import HEAVY, LATE, foreign_modules

STEP = 40
"""By default one thread of so many is tried."""


def rows(store: Path, thread_id: str) -> list[Any]:
    """The rows of a thread, and how many there are in all."""
    with closing(sqlite3.connect(store)) as connection:
        connection.text_factory = bytes
        return [
            (
                connection.execute(
                    f"SELECT * FROM {table} WHERE thread_id = CAST(? AS TEXT)"
                    " ORDER BY checkpoint_ns, checkpoint_id, rowid",
                    [thread_id.encode("utf-8", "surrogateescape")],
                ).fetchall(),
                connection.execute(f"SELECT count(*) FROM {table}").fetchone(),
            )
            for table in ("checkpoints", "writes")
        ]


def clean(answer: CommandResult, marker: Path) -> CommandResult:
    answer.ends_cleanly(0, 3, 4, 5)
    assert FORBIDDEN.search(answer.out + answer.err) is None
    assert not marker.exists()
    return answer


def check(tmp_path: Path, chosen: slice) -> None:
    store, marker = tmp_path / "store.db", tmp_path / "payload-ran"
    all_rows = [row for row in hostile_rows(marker) if row.thread_id not in HEAVY]
    threads = build_store(store, all_rows[chosen])
    clean(ckpt("-s", store, "rollback", "--at", "head", "--dry-run", "--", threads[0]), marker)
    modules, done = foreign_modules(), 0
    for thread_id in threads:
        before = rows(store, thread_id)
        for words in (["--dry-run"], ["--dry-run", "-o", "json"], ["--yes"]):
            answer = clean(
                ckpt("-s", store, "rollback", "--at", "head", *words, "--", thread_id), marker
            )
        if answer.code == 0:
            done += 1
            assert rows(store, thread_id)[0] != before[0]
            assert clean(ckpt("-s", store, "undo", "--yes", "--", thread_id), marker).code == 0
        assert rows(store, thread_id) == before, thread_id
        new = ["copy", "--at", "head", "--as", "new", "--yes", "--", thread_id]
        if clean(ckpt("-s", store, *new), marker).code == 0:
            assert clean(ckpt("-s", store, "undo", "new", "--yes"), marker).code == 0
        assert rows(store, thread_id) == before, thread_id
    assert done
    assert foreign_modules() - LATE == modules - LATE


def test_some_threads(tmp_path: Path) -> None:
    check(tmp_path, slice(0, None, STEP))


@pytest.mark.slow
def test_every_thread(tmp_path: Path) -> None:
    check(tmp_path, slice(None))
