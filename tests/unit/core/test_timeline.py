"""The times of steps, and the line with all checkpoints of a thread."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.model import time_of
from ckpt_cli.core.timeline import (
    Durations,
    Kind,
    Scrubber,
    Sign,
    ThreadSteps,
    TimedCheckpoint,
    TimedPoint,
    node_times,
    point_sign,
    timed_steps,
)
from ckpt_cli.render.table import duration
from tests.kit.cases import cases


def at(seconds: float) -> datetime:
    return datetime(2026, 4, 7, 10, tzinfo=UTC) + timedelta(seconds=seconds)


def made(checkpoint_id: str, seconds: float | None, parent: str | None, **more: Any) -> Any:
    """A checkpoint of the root namespace, `seconds` after the beginning."""
    when = None if seconds is None else at(seconds)
    ns = more.pop("ns", "")
    return TimedCheckpoint(ns, checkpoint_id, parent, when, **{"nodes": ("work",), **more})


def steps(*checkpoints: TimedCheckpoint) -> list[tuple[str, str | None, float | None]]:
    return [(one.kind, one.cause, one.seconds) for one in timed_steps(checkpoints).values()]


BY_CALLER: Any = {"nodes": ()}
ASKING: Any = {"asking": {"task": "work"}}
ANY = ("idle", "input", None)
THREADS: dict[str, list[tuple[TimedCheckpoint, tuple[str, str | None, float | None]]]] = {
    "what a step began with": [
        (made("a", 0, None, source="input", **BY_CALLER), ANY),
        (made("b", 1, "a"), ("run", None, 1.0)),
        (made("c", 3, "b", **ASKING), ("run", None, 2.0)),
        (made("d", 13, "c", failed={"1": "work"}), ("human", "answer", 10.0)),
        (made("e", 33, "d"), ("idle", "retry", 20.0)),
        (made("f", 34, "e", resumed=True), ("idle", "resume", 1.0)),
        (made("g", 36, "f", source="update", **BY_CALLER, **ASKING), ("idle", "update", 2.0)),
        (made("h", 40, "g", source="input", **BY_CALLER), ("human", "input", 4.0)),
    ],
    "what follows an update or a rollback": [
        (made("a", 0, None, source="input", **BY_CALLER), ANY),
        (made("b", 1, "a", source="fork", by_hand=True, **BY_CALLER), ("idle", "fork", 1.0)),
        (made("c", 9, "b"), ("idle", "resume", 8.0)),
        (made("d", 10, "c", source="fork", **BY_CALLER), ("idle", "fork", 1.0)),
        (made("e", 11, "d"), ("run", None, 1.0)),
    ],
}


@pytest.mark.parametrize("name", THREADS)
def test_what_a_step_began_with_decides_its_kind(name: str) -> None:
    thread = THREADS[name]
    assert steps(*(one for one, _ in thread)) == [kind for _, kind in thread]


def test_times_of_forks_and_of_tasks() -> None:
    it = timed_steps([made("a", 0, None), made("b", 1, "a"), made("c", 9, "b"), made("d", 10, "a")])
    assert (it["d"].cause, it["d"].seconds) == ("fork", 1.0)
    one = made("b", 5, "a", nodes=("a", "b"), ended={"t": ("a", at(1)), "u": ("b", at(4))})
    times = node_times(timed_steps([made("a", 0, None), one]).values())
    assert (times["a"].seconds.total, times["b"].seconds.total) == (1.0, 4.0)


@pytest.mark.parametrize("second", [None, -1.0])
def test_a_time_that_is_not_known_or_set_back_is_no_duration(second: float | None) -> None:
    found = timed_steps([made("a", 0, None), made("b", second, "a")])
    assert found["b"].seconds is None
    assert node_times(found.values())["work"].seconds.count == 0


def test_percentiles_are_times_that_occurred_and_those_of_many_are_estimated() -> None:
    few = Durations([3.0, 1.0, 2.0, 10.0])
    assert [few.percentile(one) for one in (1, 25, 26, 50, 75, 95)] == [
        1.0,
        1.0,
        2.0,
        2.0,
        3.0,
        10.0,
    ]
    assert (few.longest, few.is_estimated) == (10.0, False)
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


@cases(
    "seconds text",
    *((0.0004, "0.4ms"), (0.085, "85ms"), (0.9996, "1.0s"), (1.24, "1.2s"), (9.96, "10s")),
    *((59.6, "1m 00s"), (185, "3m 05s"), (7800, "2h 10m"), (356_400, "4d 03h")),
)
def test_durations_have_two_units_at_most(seconds: float, text: str) -> None:
    assert duration(seconds) == text


_SIGNS: list[Sign] = ["error", "question", "fork", "edit", "answered", "input", "tip", "step"]
_KINDS: list[Kind] = ["run", "human", "idle"]


def point(
    number: int, seconds: float | None, sign: Sign = "step", kind: Kind = "run"
) -> TimedPoint:
    return TimedPoint(("", f"{number:05}"), None if seconds is None else at(seconds), kind, sign)


def drawn(scrubber: Scrubber, width: int) -> str:
    """Signs by their first letters, stretches in upper case."""
    return "".join(
        cell.stretch[0].upper() if cell.sign is None else cell.sign[0]
        for cell in scrubber.cells(width)
    )


timed_points = st.lists(
    st.tuples(st.none() | st.floats(0, 1e7), st.sampled_from(_SIGNS), st.sampled_from(_KINDS)),
    max_size=60,
).map(lambda found: [point(n, at, sign, kind) for n, (at, sign, kind) in enumerate(found)])


@given(timed_points, st.integers(0, 400))
def test_cells_lead_to_checkpoints_in_their_order(found: list[TimedPoint], width: int) -> None:
    scrubber = Scrubber(found)
    cells = scrubber.cells(width)
    assert len(cells) == (width if found else 0)
    signs = {one.key: one.sign for one in found}
    assert all(signs[cell.key] == cell.sign for cell in cells if cell.sign is not None)
    for one in found:
        column = scrubber.column(one.key, width)
        assert (column is None) == (width == 0)
        if column is not None:
            there = cells[column]
            assert there.sign is not None
            # The worst of what happened in the same place.
            assert _SIGNS.index(there.sign) <= _SIGNS.index(one.sign)
    columns = [scrubber.column(one.key, width) or 0 for one in found]
    assert columns == sorted(columns)
    assert len(found) < 2 or (columns[0], columns[-1]) == (0, max(width - 1, 0))


def test_what_the_time_was_spent_on_is_told() -> None:
    found = [point(0, 0, "input"), point(1, 1), point(2, 2), point(3, 3, "answered")]
    found += [point(4, 14, kind="human"), point(5, 15), point(6, 27, "tip")]
    assert drawn(Scrubber(found), 30) == "iRRsRRsRRaHHHHHHHsRRsLLLLLLLLt"
    # Without times, steps are shared out evenly.
    found = [point(n, None if n == 2 else n * n) for n in range(5)]
    assert drawn(Scrubber(found), 9) == "sRsRsRsRs"
    one = Scrubber([point(0, 5, "error")])
    assert drawn(one, 4) == "eRRR"
    assert {cell.key for cell in one.cells(4)} == {("", "00000")}
    many = [point(n, n, "error" if n == 3333 else "step") for n in range(10_000)]
    line = drawn(Scrubber(many), 80)
    assert (line.count("e"), line.index("e"), len(line)) == (1, 26, 80)
    ids = [f"1f1e5fad-{n}000-6000-8000-000000000000" for n in range(4)]
    scrubber = Scrubber([TimedPoint(("", one), time_of(one), "run", "step") for one in ids])
    inner = ("sub:1", "1f1e5fad-1800-6000-8000-000000000000")
    assert scrubber.column(inner, 40) == scrubber.column(("", ids[1]), 40)
    assert scrubber.column(("sub:1", "no uuid"), 40) is None


def test_the_worst_that_happened_at_a_checkpoint_is_told() -> None:
    flags = ("is_failed", "is_asked", "is_tip", "is_forked")
    facts: dict[str, Any] = {"source": "update", **dict.fromkeys(flags, True)}
    told = [point_sign(**facts)]
    changes = "is_failed is_forked is_tip source=loop is_asked source=input is_tip=1 source=loop"
    for change in changes.split():
        name, _, value = change.partition("=")
        facts[name] = value if name == "source" else bool(value)
        told.append(point_sign(**facts))
    assert told == [
        *("error", "question", "question", "edit", "answered", "step", "input", "input", "tip")
    ]
    assert point_sign(**{**facts, "is_forked": True}) == "fork"


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
