"""DeltaChannels whose last snapshot is lost."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ckpt_cli.core.doctor.checks import supersteps, unanchored, unstored_deltas, without_writes
from ckpt_cli.core.state import Body


def metadata(**counters: object) -> dict[str, object]:
    return {"counters_since_delta_snapshot": counters}


def body(versions: set[str], values: set[str]) -> Body:
    return Body(4, None, dict.fromkeys(values), dict.fromkeys(versions, "1"), {}, None)


def test_a_channel_without_a_value_has_nothing_to_rebuild() -> None:
    counters = metadata(written=[1, 2], stored=[1, 2], never=[0, 2])
    found = unstored_deltas(body({"written", "stored", "plain"}, {"stored"}), counters)  # type: ignore[arg-type]
    assert found == {"written"}


@given(st.integers(0, 20), st.integers(0, 20), st.integers(1, 20))
def test_a_value_is_lost_if_the_line_ends_before_its_snapshot(
    left: int, snapshot: int, count: int
) -> None:
    """`left` ancestors are stored; the one at `snapshot` stores the channel."""
    line = [{"log"} if place == snapshot else set[str]() for place in range(left)]
    found = unanchored({"log"}, metadata(log=[1, count]), line)  # type: ignore[arg-type]
    assert bool(found) == (snapshot >= left and count > left)


def test_without_a_counter_the_snapshot_has_to_be_there() -> None:
    for broken in ({}, metadata(log=7), metadata(log=["x", "y"]), {"counters": None}):
        assert supersteps(broken, "log") is None  # type: ignore[arg-type]
        assert unanchored({"log"}, broken, [set(), set()]) == {"log"}  # type: ignore[arg-type]
        assert unanchored({"log"}, broken, [set(), {"log"}]) == set()  # type: ignore[arg-type]


def test_a_step_that_counts_an_update_has_written() -> None:
    before, after = metadata(log=[1, 2]), metadata(log=[2, 3], other=[0, 3])
    assert without_writes(after, before, {"plain"}) == {"log"}  # type: ignore[arg-type]
    assert without_writes(after, before, {"log"}) == set()  # type: ignore[arg-type]
    assert without_writes(before, before, set()) == set()  # type: ignore[arg-type]
    assert without_writes(metadata(log=[1, 1]), {}, set()) == {"log"}  # type: ignore[arg-type]
