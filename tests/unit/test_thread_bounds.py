"""Bounds of thread ids, also of ids that no encoding allows."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langgraph.checkpoint.sqlite import SqliteSaver

from ckpt_backends.model import ThreadBounds, end_of_prefix
from ckpt_backends.registry import open_store

LAST = "\U0010ffff"


@given(st.text("ab\ud7ff\ue000\udc80" + LAST, max_size=4), st.text("ab" + LAST, max_size=3))
@example("a\ud7ff", "")
@example("a" + LAST, LAST * 9)
def test_all_texts_with_a_prefix_are_before_its_end(prefix: str, rest: str) -> None:
    end = end_of_prefix(prefix)
    if end is not None:
        assert prefix + rest < end
        assert not end.startswith(prefix)


@pytest.mark.parametrize("prefix", ["a", "a%", "a\udcff", LAST, "A", ""])
def test_ids_with_broken_characters_are_found_by_their_beginning(
    tmp_path: Path, prefix: str
) -> None:
    path = tmp_path / "store.db"
    with closing(sqlite3.connect(path)) as connection, connection:
        SqliteSaver(connection).setup()
        for n, text in enumerate([b"a", b"a\xff", b"a\xff\xff", b"a%b", b"b", LAST.encode() * 2]):
            connection.execute(
                "INSERT INTO checkpoints (thread_id, checkpoint_ns, checkpoint_id)"
                " VALUES (CAST(? AS TEXT), '', ?)",
                [text, f"id-{n}"],
            )
    with open_store(str(path)) as store:
        listed = list(store.threads())
        bounds = ThreadBounds(prefix=prefix)
        found = list(store.threads_within(bounds))
        assert found == [one for one in listed if one.thread_id.startswith(prefix)]
        for one in listed:
            named = ThreadBounds(ids=frozenset({one.thread_id}))
            assert list(store.threads_within(named)) == [one]
