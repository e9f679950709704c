"""What changed between two values, and the way back."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.codec import to_json
from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value
from ckpt_cli.core.diff import (
    MAX_CELLS,
    Cells,
    ChannelChange,
    Counts,
    Op,
    by_identity,
    common_subsequence,
    count,
    diff_channels,
    diff_values,
    in_order,
    op_record,
    pointer,
    sizes,
)
from ckpt_cli.core.values import same
from ckpt_cli.render.value_diff import CHANGE
from tests.unit.core.patching import patch

LEAVES: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-2, 2),
    st.sampled_from([0.0, -0.0, 1.0, math.nan, math.inf]),
    st.text("ab\n", max_size=3),
    st.binary(max_size=2),
    st.just(Opaque("pickle", 3, "ab", "not read")),
)
KEYS: st.SearchStrategy[Any] = st.one_of(
    st.sampled_from(["a", "b", "a/b", "~"]), st.integers(0, 2), st.just(b"k"), st.just(True)
)


def messages() -> st.SearchStrategy[Any]:
    """A message object, a plain dict or one without an id, out of few."""
    ids = st.sampled_from(["1", "2", "3", "4", None])
    content = st.sampled_from(["hi", "ho"])
    human = st.builds(lambda i, c: message(c, i), ids, content)
    plain = st.builds(lambda i, c: {"role": "user", "content": c, "id": i}, ids, content)
    return st.one_of(human, plain)


def containers(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    lists = st.lists(children, max_size=5)
    dicts = st.dictionaries(KEYS, children, max_size=4)
    types = st.sampled_from(["app.A", "app.B", "builtins.tuple"])
    return st.one_of(
        lists,
        dicts,
        st.lists(messages(), max_size=5),
        st.builds(Tagged, types, st.one_of(lists, dicts, children)),
        st.builds(Tagged, st.just("builtins.set"), lists),
        st.builds(Cut, children, st.just(9), st.just("too long")),
    )


VALUES = st.recursive(LEAVES, containers, max_leaves=12)


def message(content: str, ident: str | None, kind: str = "Human") -> Tagged:
    fields: dict[Value, Value] = {"content": content, "type": kind.lower(), "id": ident}
    return Tagged(f"langchain_core.messages.{kind.lower()}.{kind}Message", fields)


def deep(levels: int, leaf: Value) -> Value:
    """A value inside one and a half times as many others."""
    value = leaf
    for level in range(levels):
        value = Tagged("app.A", {"x": value}) if level % 2 else [value]
    return value


@given(VALUES, VALUES)
def test_patching_a_value_with_its_diff_gives_the_other(before: Value, after: Value) -> None:
    assert same(patch(before, diff_values(before, after)), after)


@given(st.lists(messages(), max_size=7), st.lists(messages(), max_size=7))
def test_patching_messages_gives_the_others(before: list[Value], after: list[Value]) -> None:
    assert same(patch(before, diff_values(before, after)), after)


@given(st.permutations([message(str(n), str(n)) for n in range(6)]))
def test_a_new_order_of_messages_is_moves_only(after: list[Value]) -> None:
    before: list[Value] = [message(str(n), str(n)) for n in range(6)]
    ops = diff_values(before, after)
    assert {op.op for op in ops} <= {"move"}
    assert same(patch(before, ops), after)


@given(VALUES)
def test_a_value_does_not_differ_from_itself(value: Value) -> None:
    assert diff_values(value, value) == []


@given(VALUES, VALUES)
def test_the_diff_is_empty_exactly_for_equal_values(before: Value, after: Value) -> None:
    assert (diff_values(before, after) == []) == same(before, after)


@given(VALUES, VALUES)
def test_records_are_json(before: Value, after: Value) -> None:
    assert (
        json.loads(json.dumps([*map(op_record, diff_values(before, after))], allow_nan=False))
        is not None
    )


@pytest.mark.parametrize(
    ("one", "other"), [(True, 1), (1, 1.0), (True, 1.0), (0.0, -0.0), ("1", 1), (b"a", "a")]
)
def test_values_of_different_types_differ(one: Value, other: Value) -> None:
    assert diff_values([one], [other]) == [Op("replace", (0,), one, other)]
    assert diff_values({"a": one}, {"a": other}) == [Op("replace", ("a",), one, other)]
    assert not same(Tagged("builtins.set", [one]), Tagged("builtins.set", [other]))


def test_nan_equals_nan() -> None:
    assert diff_values({"a": [math.nan]}, {"a": [float("nan")]}) == []


def test_messages_are_matched_by_id() -> None:
    before: list[Value] = [message("hi", "1"), message("a", "2", "AI"), message("bye", "3")]
    after: list[Value] = [message("hello", "1"), message("bye", "3"), message("new", "4")]
    assert diff_values(before, after) == [
        Op("replace", (0, "content"), "hi", "hello", id="1"),
        Op("remove", (1,), before=message("a", "2", "AI"), id="2"),
        Op("add", (2,), after=message("new", "4"), id="4"),
    ]


def test_a_moved_message_that_also_changed_is_both() -> None:
    before: list[Value] = [{"role": "user", "content": c, "id": c} for c in "abc"]
    after: list[Value] = [{"role": "user", "content": "C", "id": "c"}, before[0], before[1]]
    assert diff_values(before, after) == [
        Op("move", (0,), id="c", moved_from=2),
        Op("replace", (0, "content"), "c", "C", id="c"),
    ]


def test_a_message_of_another_class_is_replaced_as_a_whole() -> None:
    before, after = message("hi", "1"), message("hi", "1", "AI")
    assert diff_values([before], [after]) == [Op("replace", (0,), before, after, id="1")]


def test_lists_keep_their_longest_common_part() -> None:
    before: list[Value] = ["a", "b", "c", "d"]
    assert diff_values(before, ["a", "c", "x", "d", "e"]) == [
        Op("remove", (1,), before="b"),
        Op("add", (2,), after="x"),
        Op("add", (4,), after="e"),
    ]


def test_changed_items_at_the_same_place_are_compared_inside() -> None:
    before: list[Value] = [{"id": 1, "done": False}, {"id": 2, "done": False}]
    after: list[Value] = [{"id": 1, "done": False}, {"id": 2, "done": True}]
    assert diff_values(before, after) == [Op("replace", (1, "done"), False, True)]


def test_sets_have_no_order() -> None:
    before = Tagged("builtins.set", ["a", "b", "c"])
    assert diff_values(before, Tagged("builtins.set", ["c", "b", "a"])) == []
    assert diff_values(before, Tagged("builtins.set", ["d", "c", "a"])) == [
        Op("remove", (1,), before="b"),
        Op("add", (0,), after="d"),
    ]


def test_a_dict_with_keys_that_no_path_can_name_is_replaced() -> None:
    before: dict[Value, Value] = {b"k": 1}
    assert diff_values(before, {b"k": 2}) == [Op("replace", (), {b"k": 1}, {b"k": 2})]


def test_very_long_lists_are_compared_at_their_ends_only() -> None:
    middle = int(MAX_CELLS**0.5) + 1
    before = [0, *range(1, middle + 1), 0]
    after = [0, *range(2, middle + 2), 0]
    assert common_subsequence(before, after, Cells()) == [(0, 0), (middle + 1, middle + 1)]


@pytest.mark.slow
def test_many_long_lists_are_compared_at_their_ends_only() -> None:
    before: Value = {n: list(range(600)) for n in range(250)}
    after: Value = {n: list(range(600, 1200)) for n in range(250)}
    assert len(diff_values(before, after)) == 250 * 600


def test_values_may_be_as_deep_as_they_are_decoded() -> None:
    before, after = deep(133, 1), deep(133, 2)
    ops = diff_values(before, after)
    assert len(ops) == 1
    assert same(patch(before, ops), after)


@given(st.lists(st.integers(0, 3)), st.lists(st.integers(0, 3)))
def test_a_common_subsequence_is_common_and_in_order(before: list[int], after: list[int]) -> None:
    pairs = common_subsequence(before, after, Cells())
    assert all(before[i] == after[j] for i, j in pairs)
    assert pairs == sorted(pairs)
    assert len({j for _, j in pairs}) == len(pairs)
    assert [j for _, j in pairs] == sorted(j for _, j in pairs)


@given(st.permutations(range(7)))
def test_what_keeps_its_order_is_increasing(order: list[int]) -> None:
    pairs = list(enumerate(order))
    kept = in_order(pairs)
    assert [j for _, j in kept] == sorted(j for _, j in kept)
    assert set(kept) <= set(pairs)
    assert kept


def test_ids_that_stand_twice_identify_nothing() -> None:
    assert by_identity(["a", "a", "b", None], ["b", "a", None]) == [(2, 0)]


def test_an_id_that_stands_in_the_equal_start_again_identifies_nothing() -> None:
    same_start, old, new = message("hi", "1"), message("a", "1"), message("b", "2")
    assert diff_values([same_start, old], [same_start, new, old]) == [
        Op("add", (1,), after=new, id="2")
    ]


def test_only_channels_that_differ_are_listed_by_name() -> None:
    changes = diff_channels({"b": 1, "a": 1, "same": [1]}, {"b": 2, "c": None, "same": [1]})
    assert changes == {
        "a": ChannelChange("removed", 1, None),
        "b": ChannelChange("changed", 1, 2, (Op("replace", (), 1, 2),)),
        "c": ChannelChange("added", None, None),
    }
    assert list(changes) == ["a", "b", "c"]


def test_counts_are_of_items() -> None:
    before: list[Value] = [{"role": "user", "content": "a", "id": "1", "name": "x"}]
    after: list[Value] = [
        {"role": "user", "content": "b", "id": "1", "name": "y"},
        {"role": "user", "content": "c", "id": "2"},
    ]
    assert count(diff_channels({"m": before}, {"m": after})["m"]) == Counts(1, 0, 1)


def test_a_channel_that_comes_or_goes_counts_its_items() -> None:
    assert count(diff_channels({}, {"m": ["a", "b"]})["m"]) == Counts(2, 0, 0)
    assert count(diff_channels({"m": None}, {})["m"]) == Counts(0, 1, 0)


def test_sizes_are_those_of_compact_json() -> None:
    assert sizes(diff_channels({}, {"m": ["a", "é"]})["m"]) == (0, len('["a","é"]') + 1)
    assert sizes(diff_channels({"m": 10}, {"m": {"a": 1}})["m"]) == (2, len('{"a":1}'))


def test_records_have_what_their_op_has() -> None:
    ops = [
        Op("replace", (1, "content"), "a", None, id="7"),
        Op("add", ("a/b~c",), after=b"x"),
        Op("remove", (0,), before=1.5),
        Op("move", ("list", 2), id="8", moved_from=0),
    ]
    assert [*map(op_record, ops)] == [
        {"op": "replace", "path": "/1/content", "id": "7", "before": "a", "after": None},
        {"op": "add", "path": "/a~1b~0c", "after": to_json(b"x")},
        {"op": "remove", "path": "/0", "before": 1.5},
        {"op": "move", "path": "/list/2", "from": "/list/0", "id": "8"},
    ]


def test_the_whole_value_has_the_empty_pointer() -> None:
    assert pointer(()) == ""


def test_a_side_that_is_not_there_is_null_in_a_record() -> None:
    removed = diff_channels({"a": 1}, {})["a"]
    assert CHANGE.record(removed) == {"change": "removed", "before": 1, "after": None, "ops": []}
