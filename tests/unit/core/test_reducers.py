"""What a reducer here makes of writes is what LangGraph's own channels make of them."""

import operator
from collections.abc import Callable
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, RemoveMessage
from langgraph.channels import (
    BinaryOperatorAggregate,
    EphemeralValue,
    LastValue,
    NamedBarrierValue,
    Topic,
    UntrackedValue,
)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.errors import EmptyChannelError
from langgraph.graph.message import add_messages
from langgraph.types import Overwrite

from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Tagged, Value
from ckpt_backends.model import TypedBytes
from ckpt_cli.core.reducers import ABSENT, REDUCERS, Held, fold, is_complete
from ckpt_cli.core.reducers import held_fits as fits
from ckpt_cli.core.values import Numbers, same
from tests.kit.cases import cases
from tests.kit.strategies import values as any_values

SERDE = JsonPlusSerializer()
words = st.sampled_from(["a", "b", "c", "x"])
numbers = st.integers(-5, 5) | st.floats(-5, 5).map(lambda x: round(x, 2))


def stored(value: Any) -> Value:
    """A value as a saver stores it, decoded."""
    return decode(TypedBytes(*SERDE.dumps_typed(value)))


def steps(writes: st.SearchStrategy[Any], most: int = 3) -> st.SearchStrategy[list[list[Any]]]:
    """What is written in each of some steps."""
    return st.lists(st.lists(writes, max_size=most), max_size=5)


def merge(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    return {**old, **new}


def keep(old: Any, new: Any) -> Any:
    return old


def last(old: Any, new: Any) -> Any:
    return new


def joined(kind: Any, operation: Callable[[Any, Any], Any]) -> Callable[[], Any]:
    return lambda: BinaryOperatorAggregate(kind, operation)


LISTS = st.lists(words | numbers, max_size=3)
MAKERS: dict[str, tuple[Callable[[], Any], st.SearchStrategy[list[list[Any]]]]] = {
    "last_value": (lambda: LastValue(Any), steps(words | LISTS, 1)),
    "any_value": (joined(Any, last), steps(words | numbers)),
    "first_value": (joined(Any, keep), steps(words | numbers)),
    "append": (joined(list, operator.add), steps(LISTS)),
    "concat": (joined(str, operator.add), steps(st.text("ab", max_size=3))),
    "sum": (joined(int, operator.add), steps(numbers)),
    "max": (joined(int, max), steps(numbers)),
    "min": (joined(int, min), steps(numbers)),
    "dict_merge": (joined(dict, merge), steps(st.dictionaries(words, numbers, max_size=3))),
    "set_union": (joined(set, operator.or_), steps(st.sets(words))),
    "topic": (lambda: Topic(str), steps(words | st.lists(words, max_size=2))),
    "ephemeral": (lambda: EphemeralValue(Any, guard=False), steps(words)),
    "barrier": (lambda: NamedBarrierValue(str, {"a", "b", "c", "x"}), steps(words)),
    "untracked": (lambda: UntrackedValue(Any, guard=False), steps(words)),
}


def held(channel: Any) -> Held:
    """What a checkpoint stores of a channel."""
    try:
        value = channel.checkpoint()
    except EmptyChannelError:
        return ABSENT
    return ABSENT if str(value) == "MISSING" or type(value) is object else stored(value)


@pytest.mark.parametrize("name", MAKERS)
@given(data=st.data())
def test_the_channel_of_the_library_holds_the_same(name: str, data: st.DataObject) -> None:
    make, strategy = MAKERS[name]
    channel, reducer = make(), REDUCERS[name]
    possible: list[Held] = [ABSENT]
    was_written = False
    for writes in data.draw(strategy):
        channel.update(writes)
        was_written = was_written or bool(writes)
        batch = [stored(value) for value in writes]
        possible = [one for base in possible for one in reducer.results(base, [batch])]
        if was_written:  # before, a checkpoint has no version of the channel, and no value
            assert any(fits(one, held(channel)) for one in possible), (possible, held(channel))
            possible = [one for one in possible if fits(one, held(channel))][:1]
    assert possible


@given(st.lists(st.lists(words, max_size=2), min_size=1), st.lists(words, max_size=2), words)
def test_overwrites_replace_a_step(writes: list[list[str]], value: list[str], form: str) -> None:
    forms = {
        "a": Overwrite(value),
        "b": {"__overwrite__": value},
        "c": {"type": "__overwrite__", "value": value},
    }
    given_writes: list[Any] = [*writes, forms.get(form, Overwrite(value)), ["later"]]
    channel = BinaryOperatorAggregate(list, operator.add)
    channel.update(given_writes)
    batch = [stored(one) for one in given_writes]
    assert REDUCERS["append"].results(ABSENT, [batch]) == [stored(channel.get())]


ids = st.sampled_from(["1", "2", "3", None])
texts = st.text("xyz", max_size=4)
message_likes = st.one_of(
    st.builds(lambda text, one: HumanMessage(text, id=one), texts, ids),
    st.builds(lambda text, one: AIMessage(text, id=one), texts, ids),
    st.builds(lambda text, one: AIMessageChunk(content=text, id=one), texts, ids),
    st.builds(lambda text: ("user", text), texts),
    st.builds(lambda text: {"role": "assistant", "content": text}, texts),
    st.builds(lambda text, one: {"type": "human", "content": text, "id": one}, texts, ids),
    texts,
)
removals = st.sampled_from(["1", "2", "3", "__remove_all__"]).map(lambda one: RemoveMessage(id=one))


@given(st.lists(st.lists(st.lists(message_likes | removals, max_size=3), max_size=2), max_size=4))
def test_messages_merge_as_add_messages_does(turns: list[list[list[Any]]]) -> None:
    merged: Any = add_messages
    channel = BinaryOperatorAggregate(list, merged)
    reducer = REDUCERS["add_messages"]
    base: Held = ABSENT
    for writes in turns:
        before = [stored(one) for one in writes]
        try:
            channel.update(writes)
        except ValueError:  # a RemoveMessage of what is not there
            return
        (result,) = reducer.results(base, [before])
        if not writes:
            continue
        base = now = stored(channel.get())
        assert fits(result, now), (result, now)
        if is_complete(result):
            assert result is not ABSENT
            assert same(result, now)


@given(any_values, any_values)
def test_quick_equality_is_that_of_the_numbers(one: Value, other: Value) -> None:
    numbered = Numbers()
    assert same(one, other) == (numbered(one) == numbered(other))
    assert same(one, deepcopy(one))
    assert fits([one, "a"], deepcopy([one, "a"]))


@given(any_values, st.lists(any_values, max_size=3))
def test_no_reducer_fails_on_any_value(base: Value, writes: list[Value]) -> None:
    for reducer in REDUCERS.values():
        for result in reducer.results(base, [writes]):
            fits(result, base)


def test_a_changed_text_is_not_taken_for_the_written_one() -> None:
    (result,) = REDUCERS["add_messages"].results(ABSENT, [[stored(HumanMessage("one"))]])
    assert fits(result, stored([HumanMessage("one", id="given")]))
    assert not fits(result, stored([HumanMessage("two", id="given")]))
    assert not fits(result, stored([AIMessage("one", id="given")]))
    assert not fits(result, [Tagged("x.HumanMessage", None)])


@cases(
    "base writes merged name",
    (None, [[2], [3]], [2, 3], "append"),
    ([1], [2], [1, 2], "append"),
    ([], [], [], "append"),
    ({1}, [{2}], {1, 2}, "set_union"),
    ("old", ["new"], "new", "last_value"),
    (None, [], None, "last_value"),
    ([1], [[2], Overwrite([9]), [3]], [9, 3], "append"),
    # A pair that was written alone is read from a store as a list of two texts.
    (
        [HumanMessage("0", id="z")],
        [["user", "1"]],
        [HumanMessage("0", id="z"), HumanMessage("user"), HumanMessage("1")],
        "add_messages",
    ),
)
def test_a_fold(base: Any, writes: list[Any], merged: Any, name: str) -> None:
    got, reducer = fold(stored(base), [stored(write) for write in writes])
    assert reducer == name
    assert same(got, stored(merged))


def test_members_of_sets_are_joined_once_each_by_type() -> None:
    members: list[Value] = list(range(60_000))
    base, write = (Tagged("builtins.set", members[at : at + 40_000]) for at in (0, 20_000))
    assert fold(base, [write]) == (Tagged("builtins.set", members), "set_union")
    base, write = Tagged("builtins.set", [1, True]), Tagged("builtins.set", [1.0, 1])
    assert same(fold(base, [write])[0], Tagged("builtins.set", [1, True, 1.0]))
