"""The times of steps, from facts about checkpoints alone."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_cli.core.timeline import Durations, ThreadSteps, TimedCheckpoint, node_times, timed_steps
from ckpt_cli.render.table import duration

BEGIN = datetime(2026, 4, 7, 10, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return BEGIN + timedelta(seconds=seconds)


def made(checkpoint_id: str, seconds: float | None, parent: str | None, **more: Any) -> Any:
    """A checkpoint of the root namespace, `seconds` after the beginning."""
    when = None if seconds is None else at(seconds)
    ns = more.pop("ns", "")
    return TimedCheckpoint(ns, checkpoint_id, parent, when, **{"nodes": ("work",), **more})


def steps(*checkpoints: TimedCheckpoint) -> list[tuple[str, str | None, float | None]]:
    found = timed_steps(checkpoints)
    return [(one.kind, one.cause, one.seconds) for one in found.values()]


def test_what_a_step_began_with_decides_its_kind() -> None:
    asking = {"task": "work"}
    assert steps(
        made("a", 0, None, source="input", nodes=()),
        made("b", 1, "a"),
        made("c", 3, "b", asking=asking),
        made("d", 13, "c", failed={"1": "work"}),
        made("e", 33, "d"),
        made("f", 34, "e", resumed=True),
        made("g", 36, "f", source="update", nodes=(), asking=asking),
        made("h", 40, "g", source="input", nodes=()),
    ) == [
        ("idle", "input", None),
        ("run", None, 1.0),
        ("run", None, 2.0),
        ("human", "answer", 10.0),
        ("idle", "retry", 20.0),
        ("idle", "resume", 1.0),
        ("idle", "update", 2.0),
        ("human", "input", 4.0),
    ]


def test_a_later_child_is_measured_from_what_came_before_it() -> None:
    found = timed_steps(
        [made("a", 0, None), made("b", 1, "a"), made("c", 9, "b"), made("d", 10, "a")]
    )
    assert (found["d"].cause, found["d"].seconds) == ("fork", 1.0)


@pytest.mark.parametrize("second", [None, -1.0])
def test_a_time_that_is_not_known_or_set_back_is_no_duration(second: float | None) -> None:
    found = timed_steps([made("a", 0, None), made("b", second, "a")])
    assert found["b"].seconds is None
    assert node_times(found.values())["work"].seconds.count == 0


def test_parallel_questions_are_waited_for_once() -> None:
    """Two calls ask; the second answer comes later. The pauses overlap."""
    root = [made("a", 0, None), made("b", 20, "a", nodes=("work", "work"))]
    root[0] = made("a", 0, None, asking={"one": "work", "two": "work"})
    calls = {
        f"work:{name}": [
            made("i", begun, None, ns=f"work:{name}", source="input", nodes=()),
            made("j", begun + 1, "i", ns=f"work:{name}", asking={"x": "ask"}),
            made("k", ended, "j", ns=f"work:{name}", nodes=("ask",)),
        ]
        for name, begun, ended in (("one", 1, 12), ("two", 4, 17))
    }
    found = ThreadSteps({"": root, **calls}, {("", "a"): list(calls)})
    _, outer, *inside = found.with_calls(found.branch("", "b"))
    assert (outer.kind, outer.waiting_seconds) == ("human", 15.0)
    assert [one.seconds for one in inside] == [1.0, 1.0, 10.0, 4.0, 1.0, 12.0]
    assert node_times([outer])["work"].seconds.total == 2 * 5.0


def test_a_question_that_was_asked_outside_too_makes_all_of_it_waiting() -> None:
    root = [
        made("a", 0, None, asking={"one": "work", "direct": "ask"}),
        made("b", 20, "a", nodes=("work", "ask")),
    ]
    call = [
        made("j", 2, None, ns="work:one", asking={"x": "ask"}),
        made("k", 9, "j", ns="work:one"),
    ]
    found = ThreadSteps({"": root, "work:one": call}, {("", "a"): ["work:one"]})
    _, outer, *_ = found.with_calls(found.branch("", "b"))
    assert outer.waiting_seconds == 20.0


def test_tasks_with_times_of_their_own_have_these() -> None:
    one = made(
        "b", 5, "a", nodes=("fast", "slow"), ended={"t": ("fast", at(1)), "u": ("slow", at(4))}
    )
    found = node_times(timed_steps([made("a", 0, None), one]).values())
    assert (found["fast"].seconds.total, found["slow"].seconds.total) == (1.0, 4.0)


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=40))
def test_percentiles_are_times_that_occurred(seconds: Sequence[float]) -> None:
    found = Durations(seconds)
    ordered = sorted(seconds)
    for percent in (1, 50, 95, 100):
        value = found.percentile(percent)
        assert value in ordered
        assert sum(one <= value for one in ordered) * 100 >= percent * len(ordered)
    assert found.longest == ordered[-1]


def test_percentiles_of_many_are_estimated_and_merged() -> None:
    parts = [Durations(n / 1000 for n in range(k, 40_000, 4)) for k in range(4)]
    assert not parts[0].is_estimated
    found = parts[0]
    for one in parts[1:]:
        found.merge(one)
    assert found.is_estimated
    assert (found.count, found.longest) == (40_000, 39.999)
    assert found.total == pytest.approx(799_980)
    assert found.percentile(50) == pytest.approx(20.0, rel=0.011)
    assert found.percentile(95) == pytest.approx(38.0, rel=0.011)
    assert Durations().percentile(50) is None


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((0.0004, "0.4ms"), (0.085, "85ms"), (0.9996, "1.0s"), (1.24, "1.2s"), (9.96, "10s")),
        *((59.6, "1m 00s"), (185, "3m 05s"), (7800, "2h 10m"), (356_400, "4d 03h")),
    ],
)
def test_durations_have_two_units_at_most(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_what_follows_an_update_or_a_rollback_is_a_resumed_run() -> None:
    assert steps(
        made("a", 0, None, source="input", nodes=()),
        made("b", 1, "a", source="fork", nodes=(), by_hand=True),
        made("c", 9, "b"),
        made("d", 10, "c", source="fork", nodes=()),
        made("e", 11, "d"),
    )[2:] == [("idle", "resume", 8.0), ("idle", "fork", 1.0), ("run", None, 1.0)]
