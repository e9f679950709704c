"""Which checkpoint or moment a text means, the shortest refs that mean one, and the time zone."""

import time
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.errors import Ambiguous, NotFound, UsageError
from ckpt_cli.config.machine import local_zone, zone_name
from ckpt_cli.core.lineage import Parentage
from ckpt_cli.core.refs import NamespaceRefs, resolve, short_refs, split_target
from ckpt_cli.core.times import looks_like_time, parse_time
from tests.kit.cases import cases

NOW = datetime(2026, 4, 7, 12, tzinfo=UTC)

#  a0 - a1 - a2 - a3 (head)
#         \- b2 (tip)
PARENTS = {"aaaa-0": None, "aaaa-1": "aaaa-0", "aaaa-2": "aaaa-1", "bbbb-2": "aaaa-1"}
PARENTS["cccc-3"] = "aaaa-2"
STEPS: dict[str, int | None] = {"aaaa-0": -1, "aaaa-1": 0, "aaaa-2": 1, "bbbb-2": 1, "cccc-3": 2}


def line(parents: dict[str, str | None] = PARENTS, head: str | None = "cccc-3") -> NamespaceRefs:
    ids = sorted(parents, reverse=True)
    times: dict[str, datetime | None] = {one: NOW - timedelta(hours=n) for n, one in enumerate(ids)}
    return NamespaceRefs(
        "thread", Parentage({one: parents[one] for one in ids}), head, lambda: STEPS, lambda: times
    )


@cases(
    "ref found",
    ("head", "cccc-3"),
    ("aaaa-1", "aaaa-1"),
    ("bbbb", "bbbb-2"),
    ("cc-3", "cccc-3"),
    ("~1", "aaaa-2"),
    ("head~2", "aaaa-1"),
    ("head~1~1", "aaaa-1"),
    ("bbbb~", "aaaa-1"),
    ("step:-1", "aaaa-0"),
    ("tip:0", "cccc-3"),
    ("tip:1", "bbbb-2"),
    ("30m", "bbbb-2"),
    ("2026-04-07T11:00", "bbbb-2"),
)
def test_a_ref(ref: str, found: str) -> None:
    assert resolve(ref, line(), NOW, UTC) == found


@cases(
    "ref parents",
    *(("aaaa", PARENTS), ("step:1", PARENTS)),
    ("bbbb", {"bbbb-aaaa-2": None, "cccc-bbbb": None}),
)
def test_a_ref_that_fits_several_names_them(ref: str, parents: dict[str, str | None]) -> None:
    with pytest.raises(Ambiguous) as caught:
        resolve(ref, line(parents), NOW, UTC)
    assert "aa-2" in str(caught.value.hint)
    assert caught.value.exit_code == 3


@cases("ref", "zzzz", "3", "c-3", "step:9", "tip:2", "~9", "bbbb~7", "7d", "1999-01-01")
def test_a_ref_that_fits_none_says_what_there_is(ref: str) -> None:
    with pytest.raises(NotFound) as caught:
        resolve(ref, line(), NOW, UTC)
    assert caught.value.hint


def test_an_id_that_looks_like_another_ref_is_that_id() -> None:
    odd: dict[str, str | None] = {"head": None, "~1": None, "2h": None, "step:1": None}
    for one in odd:
        assert resolve(one, line(odd, "~1"), NOW, UTC) == one


@pytest.mark.parametrize("ref", ["first~3", "first~999999999", "first~999999999~999999999"])
def test_a_parent_that_leads_in_a_circle_is_not_followed_for_ever(ref: str) -> None:
    circle: dict[str, str | None] = {"first": "second", "second": "first"}
    with pytest.raises(NotFound):
        resolve(ref, line(circle, "second"), NOW, UTC)
    with pytest.raises(NotFound):
        resolve(f"head~{'9' * 5_000}", line(), NOW, UTC)


@cases(
    "text threads found",
    ("a", {"a"}, ("a", None)),
    ("a@head", {"a"}, ("a", "head")),
    ("anna@example.com@~2", {"anna@example.com"}, ("anna@example.com", "~2")),
    ("@head", {"a"}, ("@head", None)),
)
def test_a_thread_id_is_split_only_if_there_is_no_such_thread(
    text: str, threads: set[str], found: tuple[str, str | None]
) -> None:
    assert split_target(text, threads.__contains__) == found


@given(st.text())
def test_any_text_is_a_checkpoint_or_an_error_of_ours(ref: str) -> None:
    with suppress(NotFound, UsageError):
        assert resolve(ref, line(), NOW, UTC) in PARENTS


SHORT: dict[str, dict[str, str]] = {
    "a single id": {"1f1e5fa1-9b4d-6402-bfff-2dc576aa1dfe": "1dfe"},
    "a common end": {"xx-a1bcde": "a1bcde", "xx-b1bcde": "b1bcde", "xx-ffaabb": "aabb"},
    "an id that another ends with": {"abcdef": "abcdef", "xxabcdef": "xabcdef"},
    "durations and numbers": {"aab1234": "b1234", "abc150d": "c150d", "x1d2h": "x1d2h"},
    "dates and words": {"ab2026-04-07": "4-07", "one-head": "e-head", "a-now": "a-now"},
    "other refs": {"ab~1": "ab~1", "q step:1": "ep:1"},
    "the beginning of another id": {"1f1e-0001-aaaa": "aaaa", "1f1e-0002-1f1e": "2-1f1e"},
    "less than four characters": {"1": "1", "12": "12", "abc": "abc", "": ""},
    "an option throughout": {"-" * 1_000_000: "-" * 1_000_000},
}


@pytest.mark.parametrize("what", SHORT)
def test_short_refs_name_one_id_each_and_nothing_else(what: str) -> None:
    assert short_refs([*SHORT[what]]) == SHORT[what]


AT = datetime(2026, 4, 7, 15, 30, tzinfo=UTC)
TOKYO = ZoneInfo("Asia/Tokyo")


@cases(
    "text moment",
    ("1d12h", datetime(2026, 4, 6, 3, 30, tzinfo=UTC)),
    ("1w2h3m4s", datetime(2026, 3, 31, 13, 26, 56, tzinfo=UTC)),
    ("1mo", datetime(2026, 3, 8, 15, 30, tzinfo=UTC)),
    ("yesterday", datetime(2026, 4, 7, tzinfo=TOKYO)),
    ("yesterday 9:30", datetime(2026, 4, 7, 9, 30, tzinfo=TOKYO)),
    ("thursday", datetime(2026, 4, 2, tzinfo=TOKYO)),
    ("last wednesday", datetime(2026, 4, 1, tzinfo=TOKYO)),
    ("wednesday 00:30", datetime(2026, 4, 8, 0, 30, tzinfo=TOKYO)),
    ("wednesday 00:31", datetime(2026, 4, 1, 0, 31, tzinfo=TOKYO)),
    ("last friday 14:00", datetime(2026, 4, 3, 14, tzinfo=TOKYO)),
    ("2026-W15-3T10:00", datetime(2026, 4, 8, 10, tzinfo=TOKYO)),
    ("2026-04-01T10:00", datetime(2026, 4, 1, 10, tzinfo=TOKYO)),
    ("2026-04-01T10:00Z", datetime(2026, 4, 1, 10, tzinfo=UTC)),
    ("2026-04-01 10:00:00.5+02:00", datetime(2026, 4, 1, 8, 0, 0, 500000, tzinfo=UTC)),
)
def test_a_moment(text: str, moment: datetime) -> None:
    assert looks_like_time(text)
    assert parse_time(text, AT, TOKYO) == moment


@pytest.mark.parametrize("text", ["", "soon", "2", "h", "-2h", "2026", "f169", "30549d", "٢h"])
def test_what_is_no_moment(text: str) -> None:
    assert not looks_like_time(text)
    with pytest.raises(UsageError):
        parse_time(text, AT, UTC)


@pytest.mark.parametrize(
    "text", ["2026-13-01", "2026-04-07T25:00", "2026-W60", "friday 24:00", "999999999y", "9999999w"]
)
def test_what_looks_like_a_moment_and_is_none(text: str) -> None:
    assert looks_like_time(text)
    with pytest.raises(UsageError):
        parse_time(text, AT, UTC)


SUMMER = datetime(2026, 7, 1, 12, tzinfo=UTC)


@cases(
    "told offset name",
    ("Europe/Berlin", 2, "Europe/Berlin"),
    # A rule, and a word that names no zone: the C library reads them.
    ("XYZ-3", 3, "UTC"),
    ("Nowhere", 0, "UTC"),
)
def test_a_zone_is_told_by_its_name_by_a_rule_or_not_at_all(
    told: str, offset: int, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", told)
    time.tzset()
    try:
        zone = local_zone()
        assert SUMMER.astimezone(zone).utcoffset() == timedelta(hours=offset)
        assert zone_name(zone) == name
    finally:
        monkeypatch.undo()
        time.tzset()
