"""Sizes and times."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.model import make_id, time_of
from ckpt_cli.render.table import age, iso, iso_of, size, when

NOW = datetime(2026, 11, 21, 22, 8, 31, tzinfo=UTC)


@pytest.mark.parametrize(
    ("n", "text"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1229, "1.2 KiB"),
        (10 * 1024, "10 KiB"),
        (1024**2 - 1, "1.0 MiB"),
        (1536 * 1024**2, "1.5 GiB"),
        (5 * 1024**5, "5120 TiB"),
    ],
)
def test_sizes_are_iec(n: int, text: str) -> None:
    assert size(n) == text


@given(st.integers(0, 2**60))
def test_a_size_is_short_and_has_a_unit(n: int) -> None:
    assert re.fullmatch(r"(\d{1,4}|\d\.\d|\d{4,7}) ([KMGT]i)?B", size(n))


@pytest.mark.parametrize(
    ("moment", "text"),
    [
        (NOW, "Nov 21 22:08:31"),
        (datetime(2026, 4, 7, 9, 5, 0, tzinfo=UTC), "Apr  7 09:05:00"),
        (datetime(2025, 12, 31, 23, 59, 59, tzinfo=UTC), "Dec 31 2025 23:59:59"),
        (datetime(2026, 1, 1, 1, 0, tzinfo=timezone(timedelta(hours=2))), "Dec 31 2025 23:00:00"),
    ],
)
def test_the_year_is_shown_if_it_is_not_this_one(moment: datetime, text: str) -> None:
    assert when(moment, NOW, UTC) == text


def test_the_zone_decides_day_and_year() -> None:
    east = timezone(timedelta(hours=3))
    assert when(NOW, NOW, east) == "Nov 22 01:08:31"
    new_year = datetime(2026, 12, 31, 23, 0, tzinfo=UTC)
    assert when(new_year, NOW, east) == "Jan  1 2027 02:00:00"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0s"),
        (59.9, "59s"),
        (60, "1m"),
        (3 * 3600 + 59, "3h"),
        (86400, "1d"),
        (13 * 86400, "1w"),
        (65 * 86400, "2mo"),
        (800 * 86400, "2y"),
        (-300, "in 5m"),
        (-0.5, "0s"),
    ],
)
def test_ages_are_in_one_unit(seconds: float, text: str) -> None:
    assert age(NOW - timedelta(seconds=seconds), NOW) == text


def test_json_times_are_utc_with_microseconds() -> None:
    moment = datetime(2026, 11, 21, 23, 8, 31, 123456, tzinfo=timezone(timedelta(hours=1)))
    assert iso(moment) == "2026-11-21T22:08:31.123456Z"
    assert iso(NOW) == "2026-11-21T22:08:31.000000Z"


@given(st.datetimes(timezones=st.just(UTC)))
def test_json_times_are_those_of_isoformat(moment: datetime) -> None:
    assert iso(moment) == moment.isoformat(timespec="microseconds").replace("+00:00", "Z")


@given(st.integers(0, 2**60 - 1))
def test_the_time_of_an_id_is_written_as_any_other(ticks: int) -> None:
    checkpoint_id = make_id(ticks, 3, 7)
    at = time_of(checkpoint_id)
    assert at is not None
    assert iso_of(checkpoint_id) == iso(at)


@given(st.text())
def test_an_id_without_a_time_has_no_text_for_it(checkpoint_id: str) -> None:
    assert iso_of(checkpoint_id) is None
