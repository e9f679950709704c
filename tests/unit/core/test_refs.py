"""Which checkpoint a ref means."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.errors import Ambiguous, NotFound, UsageError
from ckpt_cli.core.lineage import Parentage
from ckpt_cli.core.refs import NamespaceRefs, resolve, split_target

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


@pytest.mark.parametrize(
    ("ref", "found"),
    [
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
    ],
)
def test_a_ref(ref: str, found: str) -> None:
    assert resolve(ref, line(), NOW, UTC) == found


@pytest.mark.parametrize("ref", ["aaaa", "step:1"])
def test_a_ref_that_fits_several_names_them(ref: str) -> None:
    with pytest.raises(Ambiguous) as caught:
        resolve(ref, line(), NOW, UTC)
    assert "aaaa-2" in str(caught.value.hint)
    assert caught.value.exit_code == 3


@pytest.mark.parametrize(
    "ref", ["zzzz", "3", "c-3", "step:9", "tip:2", "~9", "bbbb~7", "7d", "1999-01-01"]
)
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


def test_a_number_of_parents_may_have_too_many_digits() -> None:
    with pytest.raises(NotFound):
        resolve(f"head~{'9' * 5_000}", line(), NOW, UTC)


@pytest.mark.parametrize(
    ("text", "threads", "found"),
    [
        ("a", {"a"}, ("a", None)),
        ("a@head", {"a"}, ("a", "head")),
        ("a@head", {"a", "a@head"}, ("a@head", None)),
        ("anna@example.com", {"anna@example.com"}, ("anna@example.com", None)),
        ("anna@example.com@~2", {"anna@example.com"}, ("anna@example.com", "~2")),
        ("@head", {"a"}, ("@head", None)),
        ("a@", {"a"}, ("a@", None)),
    ],
)
def test_a_thread_id_is_split_only_if_there_is_no_such_thread(
    text: str, threads: set[str], found: tuple[str, str | None]
) -> None:
    assert split_target(text, threads.__contains__) == found


def test_tips_have_no_children_and_come_newest_first() -> None:
    assert line().parentage.tips == ["cccc-3", "bbbb-2"]


@given(st.text())
def test_any_text_is_a_checkpoint_or_an_error_of_ours(ref: str) -> None:
    with suppress(NotFound, UsageError):
        assert resolve(ref, line(), NOW, UTC) in PARENTS
