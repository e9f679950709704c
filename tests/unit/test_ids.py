"""Time and step of a checkpoint id, held against LangGraph's own maker of ids."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.base.id import uuid6

from ckpt_backends.model import Thread, step_of, time_of


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
    assert time_of(text) is None
    assert step_of(text) is None


def test_langgraph_js_marks_its_first_step_otherwise() -> None:
    assert step_of("1ef4f797-8335-6428-ffff-0123456789ab") == -1


@given(st.text())
def test_any_text_has_an_answer(text: str) -> None:
    time_of(text)
    step_of(text)


def test_a_thread_tells_times_by_ids_or_as_stored() -> None:
    first, last = str(uuid6(clock_seq=-1)), str(uuid6(clock_seq=2))
    by_ids = Thread("a", last, first, last, 4, 1)
    assert (by_ids.first_at, by_ids.last_at) == (time_of(first), time_of(last))
    stored = Thread("a", "4", by_ids.first_at, by_ids.last_at, 4, 1)
    assert (stored.first_at, stored.last_at) == (by_ids.first_at, by_ids.last_at)
    untold = Thread("a", "4", "1", None, 4, 1)
    assert (untold.first_at, untold.last_at) == (None, None)
