"""Ids of checkpoints, bounds of threads, and the types of what a server answers."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langgraph.checkpoint.base.id import uuid6
from langgraph.checkpoint.sqlite import SqliteSaver

from ckpt_backends.errors import Unreadable
from ckpt_backends.model import (
    BlobKey,
    Checkpoint,
    CheckpointKey,
    Thread,
    ThreadBounds,
    ThreadSize,
    end_of_prefix,
    step_of,
    time_of,
)
from ckpt_backends.registry import open_store
from ckpt_backends.servers import checked
from tests.kit.cases import cases


@given(st.integers(-2, 8191))
def test_an_id_that_langgraph_made_holds_its_step_and_time(step: int) -> None:
    checkpoint_id = str(uuid6(clock_seq=step))
    at = time_of(checkpoint_id)
    assert step_of(checkpoint_id) == step
    assert at is not None
    assert abs(at - datetime.now(UTC)) < timedelta(seconds=5)


@pytest.mark.parametrize(
    "text",
    ["", "ckpt_005", "1f1e5fad-f564-44f7-800c-66298437f169", "1f1e5fad-f564-64f7-800c", "é" * 36],
)
def test_another_id_holds_neither(text: str) -> None:
    of_javascript = "1ef4f797-8335-6428-ffff-0123456789ab"
    assert step_of(of_javascript) == -1
    assert time_of(text) is None
    assert step_of(text) is None


def test_a_thread_tells_times_by_ids_or_as_stored() -> None:
    first, last = str(uuid6(clock_seq=-1)), str(uuid6(clock_seq=2))
    by_ids = Thread("a", last, first, last, 4, 1)
    assert (by_ids.first_at, by_ids.last_at) == (time_of(first), time_of(last))
    stored = Thread("a", "4", by_ids.first_at, by_ids.last_at, 4, 1)
    assert (stored.first_at, stored.last_at) == (by_ids.first_at, by_ids.last_at)
    untold = Thread("a", "4", "1", None, 4, 1)
    assert (untold.first_at, untold.last_at) == (None, None)


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
def test_broken_ids_are_found_by_their_beginning(path: Path, prefix: str) -> None:
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
        found = list(store.threads_within(ThreadBounds(prefix=prefix)))
        assert found == [one for one in listed if one.thread_id.startswith(prefix)]
        for one in listed:
            assert list(store.threads_within(ThreadBounds(ids=frozenset({one.thread_id})))) == [one]


@checked("size", "keys", "checkpoints")
class Answering:
    """A store that returns what a server sent."""

    _url = SimpleNamespace()

    def __init__(self, sent: Any) -> None:
        self._sent = sent

    def size(self) -> ThreadSize:
        return ThreadSize(1, self._sent, 0)

    def keys(self) -> Iterator[BlobKey]:
        yield BlobKey("", "messages", self._sent)

    def checkpoints(self) -> Iterator[Checkpoint]:
        yield Checkpoint(CheckpointKey("a", "", self._sent), None)


@cases(
    "right wrong ask",
    pytest.param(2, "2", Answering.size, id="of a named tuple"),
    pytest.param("1", 1, lambda it: next(it.keys()), id="of an item"),
    pytest.param("1", 1, lambda it: next(it.checkpoints()), id="of a dataclass"),
)
def test_a_wrong_type_is_refused(right: Any, wrong: Any, ask: Callable[[Answering], Any]) -> None:
    assert str(right) in str(ask(Answering(right)))
    with pytest.raises(Unreadable):
        ask(Answering(wrong))
