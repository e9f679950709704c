"""Folding writes whose reducer is not stored, held against LangGraph's own reducers."""

from __future__ import annotations

import operator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, HumanMessage, RemoveMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.graph.message import add_messages
from langgraph.types import Overwrite

from ckpt_backends.codec import decode, to_json
from ckpt_backends.codec.values import Tagged, Value
from ckpt_backends.model import TypedBytes
from ckpt_cli.core.reducers import fold

SERDE = JsonPlusSerializer()


def stored(value: Any) -> Value:
    """A Python value as a store hands it out."""
    return decode(TypedBytes(*SERDE.dumps_typed(value)))


def same(one: Value, other: Value) -> bool:
    return to_json(one) == to_json(other)


@pytest.mark.parametrize(
    ("base", "writes", "merged", "name"),
    [
        ([1], [[2], [3]], [1, 2, 3], "append"),
        (None, [[2], [3]], [2, 3], "append"),
        ([1], [2], [1, 2], "append"),
        ([], [], [], "last_value"),
        ({"a": 1}, [{"b": 2}, {"a": 3}], {"a": 3, "b": 2}, "dict_merge"),
        ({1}, [{2}], {1, 2}, "set_union"),
        ("old", ["new"], "new", "last_value"),
        (1, [2], 2, "last_value"),
        (None, [], None, "last_value"),
        ([1], [[2], Overwrite([9]), [3]], [9, 3], "append"),
        ([1], [{"__overwrite__": [9]}], [9], "append"),
        ([1], [{"type": "__overwrite__", "value": [9]}, [3]], [9, 3], "append"),
    ],
)
def test_a_fold(base: Any, writes: list[Any], merged: Any, name: str) -> None:
    got, reducer = fold(stored(base), [stored(write) for write in writes])
    if name != "last_value" or writes:
        assert reducer == name
    assert same(got, stored(merged))


ids = st.sampled_from(["a", "b", "c", "d"])
messages = st.builds(lambda i, text: HumanMessage(text, id=i), ids, st.text(max_size=3))
replies = st.builds(lambda i, text: AIMessage(text, id=i), ids, st.text(max_size=3))


@given(
    st.lists(st.one_of(messages, replies), max_size=4, unique_by=lambda m: m.id),
    st.lists(st.lists(st.one_of(messages, replies), min_size=1, max_size=3), max_size=4),
)
def test_messages_are_merged_as_langgraph_merges_them(base: list[Any], writes: list[Any]) -> None:
    want: Any = base
    for write in writes:
        want = add_messages(want, write)
    got, _ = fold(stored(base), [stored(write) for write in writes])
    assert same(got, stored(want))


def test_messages_are_removed_as_langgraph_removes_them() -> None:
    base = [HumanMessage("1", id="a"), AIMessage("2", id="b"), HumanMessage("3", id="c")]
    for write in (
        [RemoveMessage("b")],
        [RemoveMessage("b"), AIMessage("new", id="b")],
        [RemoveMessage("__remove_all__"), HumanMessage("x", id="x")],
        [HumanMessage("y", id="y"), RemoveMessage("__remove_all__")],
    ):
        got, _ = fold(stored(base), [stored(write)])
        assert same(got, stored(add_messages(base, write)))  # type: ignore[arg-type]


@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1), min_size=1))
def test_lists_are_joined_as_operator_add_joins_them(writes: list[list[int]]) -> None:
    want: list[int] = []
    for write in writes:
        want = operator.add(want, write)
    assert fold([], [stored(write) for write in writes]) == (want, "append")


def test_members_of_large_sets_are_joined_once_each() -> None:
    members: list[Value] = list(range(60_000))
    base, write = (Tagged("builtins.set", members[at : at + 40_000]) for at in (0, 20_000))
    assert fold(base, [write]) == (Tagged("builtins.set", members), "set_union")


def test_members_of_sets_are_the_same_only_if_their_types_are() -> None:
    base, write = Tagged("builtins.set", [1, True]), Tagged("builtins.set", [1.0, 1])
    assert same(fold(base, [write])[0], Tagged("builtins.set", [1, True, 1.0]))
