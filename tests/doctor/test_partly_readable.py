"""A store that is only partly readable is checked as far as possible."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.kit.command import FIXTURES, ckpt, copy_store

_LEAF = b"\x0d"
"""First byte of a page that holds rows of a table."""


@pytest.fixture
def torn(tmp_path: Path) -> tuple[Path, set[str]]:
    """A file with a page that a disk has damaged, and the threads with rows on it."""
    path = copy_store(FIXTURES / "lg-1.2.22" / "store.db", tmp_path)
    with closing(sqlite3.connect(path)) as connection:
        ((size,),) = connection.execute("PRAGMA page_size")
        rows = connection.execute(
            "SELECT thread_id, max(checkpoint_id) FROM checkpoints GROUP BY 1"
        )
        heads = {head.encode(): str(thread_id) for thread_id, head in rows}
    data = bytearray(path.read_bytes())
    for start in range(size, len(data), size):
        page = data[start : start + size]
        there = {thread_id for head, thread_id in heads.items() if page.count(head)}
        if page.startswith(_LEAF) and there:
            data[start : start + 8] = b"\xff" * 8
            path.write_bytes(data)
            return path, there
    raise AssertionError("no page of the file holds a head")


def test_a_damaged_page_hides_no_more_than_its_rows(torn: tuple[Path, set[str]]) -> None:
    path, hidden = torn
    done = ckpt("-s", path, "doctor", "-o", "json")
    answer = json.loads(done.raw)
    assert (done.code, answer["complete"]) == (7, False)
    unchecked = {one["thread_id"] for one in answer["unchecked"]}
    assert None in unchecked  # the comparison of all keys
    with closing(sqlite3.connect(path)) as connection:
        ((number,),) = connection.execute("SELECT count(DISTINCT thread_id) FROM checkpoints")
    assert hidden & unchecked
    assert answer["checked"]["threads"] == number
    assert len(unchecked) < number / 2
