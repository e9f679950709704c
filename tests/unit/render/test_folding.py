"""A state as a tree that folds: nothing is lost, however it is folded."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ckpt_backends.codec import Cut, Opaque, Tagged, Value
from ckpt_cli.core.values import parse_path, select
from ckpt_cli.render.folding import (
    BEGINNING,
    ITEMS,
    ValueNode,
    channel_node,
    children,
    everything_below,
    folds_up,
    is_channel,
    node_lines,
    part_of,
    records_of,
    takes_one_line,
    text_of,
    unfold,
)
from ckpt_cli.render.text import safe_text
from tests.kit.strategies import texts, values

STATES = st.dictionaries(texts, values, min_size=1, max_size=3)


def roots_of(state: dict[str, Value]) -> list[ValueNode]:
    return [channel_node(name, value) for name, value in state.items()]


def everything(node: ValueNode) -> Iterator[ValueNode]:
    yield node
    for child in children(node):
        yield from everything(child)


def leaves(value: Value) -> Iterator[Value]:
    """Yield what a value holds that has no parts of its own."""
    held = records_of(value)
    if not held:
        yield value
        return
    for one in held.values() if isinstance(held, dict) else held:
        yield from leaves(one)


@given(STATES)
@example({"m": {"type": "ai", "content": "", "id": None, "usage_metadata": {"a": [1]}, "x": {}}})
@example({"long": [[n] for n in range(ITEMS * ITEMS + ITEMS + 1)]})
@example({"d": {n: {} for n in range(350)}, "t": "word " * 300_000})
@example({"a": {"b": 1, b"b": 2, "b {0}": 3}, "a {1}": 4, "a.b": 5})
def test_each_value_is_a_node_once_and_each_name_is_given_once(state: dict[str, Value]) -> None:
    found = [one for root in roots_of(state) for one in everything(root)]
    names = [one.name for one in found]
    assert len(set(names)) == len(names)
    wanted = [id(one) for value in state.values() for one in leaves(value)]
    shown = [id(one.value) for one in found if one.kind == "value" and not records_of(one.value)]
    assert sorted(shown) == sorted(wanted)


@given(STATES)
def test_a_path_leads_to_its_value(state: dict[str, Value]) -> None:
    for root in roots_of(state):
        for one in everything(root):
            assert is_channel(one.name) == (one is root)
            whole: Any = dict(state)
            (at,) = select(whole, parse_path(one.path))
            assert one.path != one.name or at.value is one.value


@given(STATES, st.randoms(use_true_random=False), st.integers(1, 200))
@example({"": "\n\t"}, Random(1), 1)
def test_what_is_open_is_shown_with_all_that_is_directly_below(
    state: dict[str, Value], chance: Any, width: int
) -> None:
    every = [one for root in roots_of(state) for one in everything(root)]
    folds = {one.name: chance.random() < 0.7 for one in every}
    shown = list(unfold(roots_of(state), folds))
    names = {one.name for one in shown}
    assert {one.name for one in every if one.parent is None} <= names
    for one in shown:
        assert one.is_open == (folds[one.name] if folds_up(one) else None)
        assert all((child.name in names) == bool(one.is_open) for child in children(one))
        lines = node_lines(one, width, ("~", "change"))
        assert lines
        assert len(lines) == 1 or not takes_one_line(one, width)
        assert all(line.text == safe_text(line.text) for line in lines)


def test_a_long_text_is_whole_in_its_parts() -> None:
    text = "".join(f"{n} " for n in range(400_000))
    (more,) = children(channel_node("t", text))
    ends = [one for one in everything(more) if not children(one)]
    assert text == text[:BEGINNING] + "".join(str(part_of(one)) for one in ends)
    assert all(len(children(one)) <= ITEMS for one in everything(more))


@pytest.mark.parametrize("number", [0, 1, ITEMS, ITEMS + 1, 3_000, 1_000_000])
@pytest.mark.parametrize("is_dict", [False, True])
def test_no_node_has_more_children_than_fit_to_be_looked_through(
    number: int, is_dict: bool
) -> None:
    value: Any = {str(n): n for n in range(number)} if is_dict else list(range(number))
    found = children(channel_node("c", value))
    assert len(found) <= 2 * ITEMS
    parts = [one for one in found if one.kind == "items"]
    assert sum(one.stop - one.start for one in parts) + min(number, ITEMS) == number
    if parts:
        last = parts[-1]
        while last.kind == "items":
            last = children(last)[-1]
        assert last.value == number - 1


def test_noise_of_a_message_is_folded_and_what_it_says_is_not() -> None:
    message = Tagged(
        "langchain_core.messages.ai.AIMessage",
        {
            "response_metadata": {"model": "m", "id": {"a": 1}},
            "content": "Hello\nWorld",
            "tool_calls": [{"name": "search", "args": {"city": {"name": "Kyoto"}}, "id": "1"}],
            "usage_metadata": {"input_tokens": 1},
            "additional_kwargs": {},
            "name": None,
            "status": {"code": 5},
            "id": "abc",
            "type": "ai",
        },
    )
    found = list(unfold([channel_node("messages", [message])], {"messages[0]": True}))
    texts = ["".join(line.text for line in node_lines(one, 200)) for one in found]
    assert [one.name for one in found] == [
        "messages",
        "messages[0]",
        "messages[0].content",
        "messages[0].tool_calls",
        "messages[0].tool_calls[0]",
        "messages[0].tool_calls[0].name",
        "messages[0].tool_calls[0].args",
        "messages[0].tool_calls[0].args.city",
        "messages[0].tool_calls[0].args.city.name",
        "messages[0].tool_calls[0].id",
        "messages[0].status",
        "messages[0].response_metadata",
        "messages[0].usage_metadata",
        "messages[0] fields",
    ]
    assert texts[-1].strip() == "▸ … id, type, 2 empty fields"
    assert "HelloWorld" in texts[2].replace(" ", "")
    below = {one.name for one in everything_below(found[1], 100)}
    assert "messages[0].status" in below
    assert "messages[0].usage_metadata" not in below


def test_lines_tell_how_much_is_folded_or_was_cut() -> None:
    def shown(value: Value, *, is_open: bool, width: int = 60) -> list[str]:
        (node, *_) = unfold([channel_node("c", value)], {"c": is_open})
        return [line.text.rstrip() for line in node_lines(node, width)]

    assert shown(list(range(3000)), is_open=True) == ["  ▾ c  [3,000 items]"]
    assert shown(list(range(3000)), is_open=False) == ["  ▸ c: [3,000 items]"]
    assert shown({"a": 1}, is_open=False) == ["  ▸ c: {a: 1}"]
    assert shown(Tagged("m.C", {"a": 1}), is_open=True) == ["  ▾ c  C {1 key}"]
    assert shown(Cut([1], 9, "too large"), is_open=True) == [
        "  ▾ c  [1 item] (cut, 9 B in all: too large)"
    ]
    assert shown("two\nlines", is_open=True) == [
        "  ▾ c  (9 characters)",
        "      two",
        "      lines",
    ]
    assert shown("a\nb", is_open=False) == ["  ▸ c: a…  (3 characters)"]
    assert shown("x" * 100, is_open=True) == ["    c:", f"      {'x' * 54}", f"      {'x' * 46}"]
    assert shown(Opaque("t", 5, "", "no key"), is_open=True) == ["    c: t, 5 B, not read: no key"]
    assert shown(b"\x00" * 99, is_open=True, width=300)[0].endswith("99 B: " + "00 " * 64 + "…")
    (more,) = children(channel_node("c", "x" * 5_000))
    assert node_lines(more, 60)[0].text.strip() == "… 3,000 more characters"
    assert text_of(Tagged("uuid.UUID", "0" * 32)) is None
