"""Which checkpoint a ref means, and the shortest refs that mean one."""

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.errors import Ambiguous, NotFound, UsageError
from ckpt_cli.core.lineage import Parentage
from ckpt_cli.core.refs import NamespaceRefs, resolve, short_refs, split_target
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
    ("~", "aaaa-2"),
    ("~1", "aaaa-2"),
    ("~3", "aaaa-0"),
    ("head~2", "aaaa-1"),
    ("head~1~1", "aaaa-1"),
    ("bbbb~", "aaaa-1"),
    ("~0", "cccc-3"),
    ("step:-1", "aaaa-0"),
    ("step:2", "cccc-3"),
    ("tip:0", "cccc-3"),
    ("tip:1", "bbbb-2"),
    ("30m", "bbbb-2"),
    ("now", "cccc-3"),
    ("2026-04-07T11:00", "bbbb-2"),
)
def test_a_ref(ref: str, found: str) -> None:
    assert resolve(ref, line(), NOW, UTC) == found


@pytest.mark.parametrize("ref", ["aaaa", "step:1"])
def test_a_ref_that_fits_several_names_them(ref: str) -> None:
    with pytest.raises(Ambiguous) as caught:
        resolve(ref, line(), NOW, UTC)
    assert "aaaa-2" in str(caught.value.hint)
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
    ("a@head", {"a", "a@head"}, ("a@head", None)),
    ("anna@example.com", {"anna@example.com"}, ("anna@example.com", None)),
    ("anna@example.com@~2", {"anna@example.com"}, ("anna@example.com", "~2")),
    ("@head", {"a"}, ("@head", None)),
    ("a@", {"a"}, ("a@", None)),
)
def test_a_thread_id_is_split_only_if_there_is_no_such_thread(
    text: str, threads: set[str], found: tuple[str, str | None]
) -> None:
    assert split_target(text, threads.__contains__) == found


@given(st.text())
def test_any_text_is_a_checkpoint_or_an_error_of_ours(ref: str) -> None:
    with suppress(NotFound, UsageError):
        assert resolve(ref, line(), NOW, UTC) in PARENTS


HEX_IDS = st.lists(st.text("0123456789abcdef-", min_size=1, max_size=12), unique=True)
ANY_IDS = st.lists(st.text(min_size=1, max_size=8), unique=True)
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


@given(st.one_of(HEX_IDS, ANY_IDS))
def test_every_ref_is_an_end_of_its_id_and_of_no_other(ids: list[str]) -> None:
    refs = short_refs(ids)
    assert set(refs) == set(ids)
    for full, ref in refs.items():
        assert full.endswith(ref)
        assert ref == full or len(ref) >= 4
        assert ref == full or [other for other in ids if other.endswith(ref)] == [full]
        assert ref == full or not [i for i in ids if i != full and i.startswith(ref)]
        assert ref == full or not re.fullmatch(
            r"\d{1,5}|\d{1,4}d|\d{1,9}(s|m|h|w|mo|y)|head", ref, re.ASCII
        )


def test_ten_thousand_ids_are_short() -> None:
    ids = [f"1f1e5fa1-9b4d-6402-8000-{(n * 2654435761) % 2**48:012x}" for n in range(1, 10_000)]
    refs = short_refs(ids)
    assert max(map(len, refs.values())) < 13
