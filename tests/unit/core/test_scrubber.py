"""The line with all checkpoints of a thread."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ckpt_cli.core.timeline import Kind, Scrubber, Sign, TimedPoint, point_sign

START = datetime(2026, 11, 21, 10, tzinfo=UTC)
_SIGNS: list[Sign] = ["error", "question", "fork", "edit", "answered", "input", "tip", "step"]
_KINDS: list[Kind] = ["run", "human", "idle"]


def point(
    number: int, seconds: float | None, sign: Sign = "step", kind: Kind = "run"
) -> TimedPoint:
    at = None if seconds is None else START + timedelta(seconds=seconds)
    return TimedPoint(("", f"{number:05}"), at, kind, sign)


def drawn(scrubber: Scrubber, width: int) -> str:
    """Signs by their first letters, stretches in upper case."""
    return "".join(
        cell.stretch[0].upper() if cell.sign is None else cell.sign[0]
        for cell in scrubber.cells(width)
    )


points = st.lists(
    st.tuples(st.none() | st.floats(0, 1e7), st.sampled_from(_SIGNS), st.sampled_from(_KINDS)),
    max_size=60,
).map(lambda found: [point(n, at, sign, kind) for n, (at, sign, kind) in enumerate(found)])


@given(points, st.integers(0, 400))
def test_each_cell_leads_to_a_checkpoint(found: list[TimedPoint], width: int) -> None:
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


@given(points, st.integers(1, 400))
def test_checkpoints_stay_in_their_order(found: list[TimedPoint], width: int) -> None:
    scrubber = Scrubber(found)
    columns = [scrubber.column(one.key, width) or 0 for one in found]
    assert columns == sorted(columns)
    if len(found) > 1:
        assert (columns[0], columns[-1]) == (0, width - 1)


@given(st.integers(2, 60), st.floats(1, 1e7))
def test_a_long_wait_does_not_push_the_steps_together(number: int, wait: float) -> None:
    found = [point(n, n / 1000 + (wait if n else 0)) for n in range(number)]
    width = 4 * number
    columns = {Scrubber(found).column(one.key, width) for one in found}
    assert len(columns) == number


def test_without_times_steps_are_shared_out_evenly() -> None:
    found = [point(n, None if n == 2 else n * n) for n in range(5)]
    assert drawn(Scrubber(found), 9) == "sRsRsRsRs"


def test_what_the_time_was_spent_on_is_told() -> None:
    found = [
        point(0, 0, "input"),
        point(1, 1),
        point(2, 2),
        point(3, 3, "answered"),
        point(4, 14, kind="human"),
        point(5, 15),
        point(6, 27, "tip"),
    ]
    assert drawn(Scrubber(found), 30) == "iRRsRRsRRaHHHHHHHsRRsLLLLLLLLt"


def test_one_checkpoint_is_at_the_start() -> None:
    scrubber = Scrubber([point(0, 5, "error")])
    assert drawn(scrubber, 4) == "eRRR"
    assert {cell.key for cell in scrubber.cells(4)} == {("", "00000")}


def test_ten_thousand_checkpoints_fit_in_any_width() -> None:
    found = [point(n, n, "error" if n == 3333 else "step") for n in range(10_000)]
    scrubber = Scrubber(found)
    for width in (1, 3, 80, 300):
        line = drawn(scrubber, width)
        assert line.count("e") == 1
        assert line.index("e") == int(3333.3 * width / 9999.9 - 1e-4)
        assert len(line) == width
    error = next(one for one in scrubber.cells(80) if one.sign == "error")
    assert error.key == ("", "03333")


def test_a_checkpoint_of_a_subgraph_has_the_column_of_the_step_before_it() -> None:
    ids = [f"1f1e5fad-{n}000-6000-8000-000000000000" for n in range(4)]
    from ckpt_backends.model import time_of

    scrubber = Scrubber([TimedPoint(("", one), time_of(one), "run", "step") for one in ids])
    inner = ("sub:1", "1f1e5fad-1800-6000-8000-000000000000")
    assert scrubber.column(inner, 40) == scrubber.column(("", ids[1]), 40)
    assert scrubber.column(("sub:1", "no uuid"), 40) is None


def test_the_worst_that_happened_at_a_checkpoint_is_told() -> None:
    facts: dict[str, Any] = {
        "source": "update",
        "is_failed": True,
        "is_asked": True,
        "is_tip": True,
        "is_forked": True,
    }
    told = [point_sign(**facts)]
    for name, value in [
        ("is_failed", False),
        ("is_forked", False),
        ("is_tip", False),
        ("source", "loop"),
        ("is_asked", False),
        ("source", "input"),
        ("is_tip", True),
        ("source", "loop"),
    ]:
        facts[name] = value
        told.append(point_sign(**facts))
    assert told == [
        *("error", "question", "question", "edit", "answered", "step", "input", "input", "tip")
    ]
    assert point_sign(**{**facts, "is_forked": True}) == "fork"
