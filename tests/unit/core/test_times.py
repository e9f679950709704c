"""The grammar of moments."""

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.errors import UsageError
from ckpt_cli.core.times import looks_like_time, parse_duration, parse_time

NOW = datetime(2026, 4, 7, 15, 30, tzinfo=UTC)
TOKYO = ZoneInfo("Asia/Tokyo")


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("2h", datetime(2026, 4, 7, 13, 30, tzinfo=UTC)),
        ("1d12h", datetime(2026, 4, 6, 3, 30, tzinfo=UTC)),
        ("1mo", datetime(2026, 3, 8, 15, 30, tzinfo=UTC)),
        ("now", NOW),
        ("today", datetime(2026, 4, 8, tzinfo=TOKYO)),
        ("yesterday", datetime(2026, 4, 7, tzinfo=TOKYO)),
        ("yesterday 9:30", datetime(2026, 4, 7, 9, 30, tzinfo=TOKYO)),
        ("today 23:00", datetime(2026, 4, 8, 23, tzinfo=TOKYO)),
        ("monday", datetime(2026, 4, 6, tzinfo=TOKYO)),
        ("thursday", datetime(2026, 4, 2, tzinfo=TOKYO)),
        ("wednesday", datetime(2026, 4, 8, tzinfo=TOKYO)),
        ("last wednesday", datetime(2026, 4, 1, tzinfo=TOKYO)),
        ("wednesday 00:30", datetime(2026, 4, 8, 0, 30, tzinfo=TOKYO)),
        ("wednesday 00:31", datetime(2026, 4, 1, 0, 31, tzinfo=TOKYO)),
        ("last friday 14:00", datetime(2026, 4, 3, 14, tzinfo=TOKYO)),
        ("2026-W15", datetime(2026, 4, 6, tzinfo=TOKYO)),
        ("2026-W15-3T10:00", datetime(2026, 4, 8, 10, tzinfo=TOKYO)),
        ("2026-04-01", datetime(2026, 4, 1, tzinfo=TOKYO)),
        ("2026-04-01T10:00", datetime(2026, 4, 1, 10, tzinfo=TOKYO)),
        ("2026-04-01T10:00Z", datetime(2026, 4, 1, 10, tzinfo=UTC)),
        ("2026-04-01 10:00:00.5+02:00", datetime(2026, 4, 1, 8, 0, 0, 500000, tzinfo=UTC)),
    ],
)
def test_a_moment(text: str, moment: datetime) -> None:
    assert looks_like_time(text)
    assert parse_time(text, NOW, TOKYO) == moment


@pytest.mark.parametrize("text", ["", "soon", "2", "h", "-2h", "2026", "f169", "30549d", "٢h"])
def test_what_is_no_moment(text: str) -> None:
    assert not looks_like_time(text)
    with pytest.raises(UsageError):
        parse_time(text, NOW, UTC)


@pytest.mark.parametrize(
    "text", ["2026-13-01", "2026-04-07T25:00", "2026-W60", "friday 24:00", "999999999y", "9999999w"]
)
def test_what_looks_like_a_moment_and_is_none(text: str) -> None:
    assert looks_like_time(text)
    with pytest.raises(UsageError):
        parse_time(text, NOW, UTC)


@given(st.integers(0, 9999), st.sampled_from("smhdw"))
def test_a_duration_is_as_long_ago_as_it_says(n: int, unit: str) -> None:
    seconds = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}[unit]
    assert parse_duration(f"{n}{unit}") == timedelta(seconds=n * seconds)


@given(st.text())
def test_any_text_is_a_moment_or_a_usage_error(text: str) -> None:
    with suppress(UsageError):
        assert parse_time(text, NOW, UTC).tzinfo is not None
