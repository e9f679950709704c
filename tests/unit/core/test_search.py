"""Finding text in values, and telling each line once on a branch."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value
from ckpt_backends.errors import UsageError
from ckpt_cli.core.search import (
    Match,
    SeenMatches,
    appended_from,
    compile_pattern,
    new_matches,
    search,
)
from ckpt_cli.core.values import format_path, select, unwrap
from tests.kit.strategies import values

ANY = compile_pattern("", fixed=False, ignore_case=False)


def found(
    value: Value, pattern: str, *, fixed: bool = False, ignore_case: bool = False
) -> list[tuple[str, str]]:
    find = compile_pattern(pattern, fixed=fixed, ignore_case=ignore_case)
    return [(format_path(match.path), match.line) for match in search(value, find) if match]


def test_lines_are_found_at_any_depth_in_order() -> None:
    value: Value = {
        "a": ["x one", {"b": Tagged("m.C", {"c": "two\none more"})}],
        "n": 41,
        "when": Tagged("datetime.datetime", "2026-04-01"),
        "cut": Cut(["one"], 99, "long"),
    }
    assert found(value, "one") == [("a[0]", "x one"), ("a[1].b.c", "one more"), ("cut[0]", "one")]
    assert found(value, "^4") == [("n", "41")]
    assert found(value, "2026") == [("when", "2026-04-01")]


def test_patterns_may_be_plain_and_without_case() -> None:
    assert found("a.b", "a.b", fixed=True) == [(".", "a.b")]
    assert found("axb", "a.b", fixed=True) == []
    assert found("AXB", "a.b", ignore_case=True) == [(".", "AXB")]


def test_keys_and_what_has_no_text_are_not_searched() -> None:
    opaque = Opaque("pickle", 4, "ab", "pickle")
    assert found({"pickle": [b"pickle", None]}, "pickle") == []
    unread: list[Value] = [{"a": opaque}, Tagged("ext:5", b"pickle"), Cut("cut", 9, "too long")]
    find = compile_pattern("pickle", fixed=True, ignore_case=False)
    assert list(search(unread, find)) == [None, None, None]


@pytest.mark.parametrize("pattern", ["(", "a{99999999999}", "*", "(?P<n"])
def test_a_pattern_that_cannot_be_read_is_refused(pattern: str) -> None:
    with pytest.raises(UsageError):
        compile_pattern(pattern, fixed=False, ignore_case=False)


def test_a_deep_value_is_searched_without_recursion() -> None:
    value: Value = "needle"
    for _ in range(5000):
        value = [value]
    assert len(found(value, "needle")) == 1


@given(values)
def test_every_match_is_where_its_path_says(value: Any) -> None:
    for match in filter(None, search(value, ANY)):
        assert 0 <= match.start <= match.end <= len(match.line)
        # A key that is neither text nor a number stands in the path as text.
        if _reachable(value, match.path):
            held = select(value, match.path)[0].value
            while isinstance(held, Tagged | Cut):
                held = held.payload if isinstance(held, Tagged) else held.kept
            assert not isinstance(held, str) or match.line == held.split("\n")[match.number - 1]


def _reachable(value: Value, steps: tuple[Any, ...]) -> bool:
    for step in steps:
        held = unwrap(value)
        if isinstance(held, dict):
            if step not in held:
                return False
            value = held[step]
        elif isinstance(held, list):
            value = held[step]
    return True


def message(ident: str, content: str) -> Value:
    return {"role": "user", "id": ident, "content": content}


def matches(value: Value, first: int = 0) -> list[Match]:
    found = [one for one in search(value, ANY, first) if one is not None]
    return [one for one in found if one.path[-1:] not in [("id",), ("role",)]]


def told(*states: Value, stepwise: bool = True) -> list[list[str]]:
    """What is told of states that follow each other; `stepwise` reads only what was appended."""
    known = SeenMatches()
    lines: list[list[str]] = []
    before: Value = None
    for state in states:
        first = appended_from(before, state) if stepwise else 0
        fresh = new_matches("c", matches(state, first), known, added=first > 0)
        lines.append([match.line for match in fresh])
        before = state
    return lines


def test_a_message_that_stays_is_told_once_wherever_it_stands() -> None:
    one, two, three = message("1", "a"), message("2", "b"), message("3", "a")
    assert told([one], [one, two], [two, three], [one, two]) == [["a"], ["b"], ["a"], []]


def test_equal_items_of_a_list_are_counted() -> None:
    assert told(["x"], ["x", "x"], ["y", "x", "x"], ["x"]) == [["x"], ["x"], ["y"], []]


def test_of_a_text_that_grows_only_new_lines_are_told() -> None:
    assert told("a\nb", "a\nb\nc", "a\nB\nc") == [["a", "b"], ["c"], ["B"]]


def test_a_branch_does_not_know_what_another_one_told() -> None:
    known = SeenMatches()
    new_matches("c", matches(["x"]), known, added=False)
    left = new_matches("c", matches(["x", "y"]), known.copy(), added=False)
    right = new_matches("c", matches(["x", "y"]), known, added=False)
    assert [one.line for one in left] == [one.line for one in right] == ["y"]


@given(st.lists(st.lists(st.sampled_from(["a", "b", {"k": 1}, {"k": True}]), max_size=4)))
def test_reading_only_what_was_appended_tells_the_same(states: list[list[Any]]) -> None:
    assert told(*states) == told(*states, stepwise=False)


@given(st.lists(st.lists(st.sampled_from("abc"), max_size=5), max_size=5))
def test_nothing_is_told_twice_and_nothing_is_left_out(states: list[list[str]]) -> None:
    lines = told(*[list[Value](state) for state in states])
    everything = [line for one in lines for line in one]
    for letter in "abc":
        most = max((state.count(letter) for state in states), default=0)
        assert everything.count(letter) == most
