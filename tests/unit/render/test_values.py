"""Values on one line, in full, as a tree that folds, and what differs between two."""

import math
from collections.abc import Iterator
from itertools import islice
from random import Random
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value
from ckpt_cli.core.diff import diff_channels
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
from ckpt_cli.render.text import cell_len, safe_text
from ckpt_cli.render.value_diff import changed_words, diff_text, side_by_side
from ckpt_cli.render.values import block, summary
from tests.kit.cases import cases
from tests.kit.strategies import few, texts, values


def message(kind: str, content: Value, **fields: Value) -> Tagged:
    held: dict[Value, Value] = {"content": content, "type": kind.lower()}
    held.update(fields.items())
    return Tagged(f"langchain_core.messages.{kind.lower()}.{kind}Message", held)


def call(name: str, ident: str | None = None, **args: Value) -> dict[Value, Value]:
    return {"name": name, "args": dict(args.items()), "id": ident, "type": "tool_call"}


ASKING = message("AI", "Let me see.", id="a1", tool_calls=[call("search", "c1", query="x", n=3)])
CALL: Value = {"id": "1", "function": {"name": "f", "arguments": '{"a": 1}'}}
OPENAI: Value = {"role": "assistant", "content": None, "tool_calls": [CALL]}
ARRAY = Tagged(
    "numpy.ndarray", {"dtype": "<i8", "shape": [2, 3], "order": "C", "data": [[1, 2, 3], [4, 5, 6]]}
)


@given(values, st.integers(0, 8), st.integers(1, 120))
def test_summaries_and_blocks_are_safe_and_fit(value: Value, indent: int, width: int) -> None:
    text = summary(value, width)
    assert cell_len(text) <= width
    assert safe_text(text) == text
    for one in block(value, indent, width):
        assert safe_text(one, newlines=True) == one
        assert "\n" not in one
        assert not one or one.startswith(" " * indent)


@cases(
    "value text",
    (None, "null"),
    (1.0, "1.0"),
    (math.nan, "nan"),
    ("hello, world", "hello, world"),
    ("42", '"42"'),
    ("", '""'),
    ('{"a": 1}', '"{\\"a\\": 1}"'),
    ("\x1b[31m[bold]", r"\x1b[31m[bold]"),
    (b"\x00\xff", "2 B: 00 ff"),
    ([1, "a", "b, c"], '[1, a, "b, c"]'),
    ({"a": 1, "b": "x: y", 3: None}, '{a: 1, b: "x: y", 3: null}'),
    (Tagged("datetime.datetime", "2026-04-07T10:30:00+05:30"), "2026-04-07T10:30:00+05:30"),
    (Tagged("datetime.date", [2026, 2, 8]), "2026-02-08"),
    (Tagged("datetime.timedelta", [-1, 5, 7]), "-1 day, 0:00:05.000007"),
    (Tagged("datetime.timedelta", [10**12, 0, 0]), "timedelta(1000000000000, 0, 0)"),
    (Tagged("decimal.Decimal", "12.340"), "12.340"),
    (Tagged("uuid.UUID", "0" * 31 + "7"), "00000000-0000-0000-0000-000000000007"),
    (Tagged("pathlib.PureWindowsPath", ["C:\\", "x"]), "C:\\x"),
    (Tagged("app.Color", "red"), 'Color("red")'),
    (Tagged("app.Point", {"x": 1, "y": "2"}), 'Point(x=1, y="2")'),
    (Tagged("langgraph.types.Send", ["node", {"x": 1}]), 'Send("node", {x: 1})'),
    (Tagged("builtins.set", ["a", "b"]), "{a, b}"),
    (Tagged("builtins.set", []), "set()"),
    (ARRAY, "ndarray int64 2×3 [[1, 2, 3], [4, 5, 6]]"),
    (Opaque("pickle", 1229, "ab", "pickle is off"), "pickle, 1.2 KiB, not read: pickle is off"),
    (Cut([1, 2], 2 << 20, "too long"), "[1, 2] (cut, 2.0 MiB in all: too long)"),
    (Cut([1, 2], 3000, "too long", "item"), "[1, 2] (cut, 3,000 items in all: too long)"),
)
def test_values_are_short_and_plain(value: Value, text: str) -> None:
    assert summary(value, 10_000) == text


@cases(
    "value text",
    (message("Human", "hello"), "human: hello"),
    (message("Tool", "found it", name="search"), "tool search: found it"),
    (ASKING, 'ai: Let me see. [tool_calls: search(query="x", n=3)]'),
    (message("AI", "", invalid_tool_calls=[call("a")]), "ai: [tool_calls: invalid a()]"),
    (message("Remove", "", id="m1"), "remove: m1"),
    (
        message("Human", [{"type": "text", "text": "see "}, {"type": "image_url"}]),
        "human: see [image_url]",
    ),
    (Tagged("langchain_core.messages.AIMessageChunk", {"content": "x"}), "ai: x"),
    (OPENAI, 'assistant: [tool_calls: f("{\\"a\\": 1}")]'),
    (Tagged("langgraph.DeltaSnapshot", [ASKING, ASKING]), "DeltaSnapshot(2 messages)"),
)
def test_messages_say_who_says_what(value: Value, text: str) -> None:
    assert summary(value, 100) == text


@cases(
    "value width text",
    ("long text here", 8, "long te…"),
    ("日本語日本語", 8, "日本語…"),
    (list(range(100)), 30, "[100 items]"),
    ({"a": 1, "b": "x" * 50, "c": 2}, 60, "{a: 1, b: xxxxxxxxxxxxxxxxxxxxxxxxxxxx…, c: 2}"),
    ({"a": 1, "b": [1, 2, 3, 4, 5]}, 16, "{a: 1, b: …}"),
    (ARRAY, 36, "ndarray int64 2×3 [[1, 2, 3], …]"),
    (b"\x00" * 100, 16, "100 B: 00 00 00…"),
    (ASKING, 40, "ai: Let me see. [tool_calls: search(…)]"),
)
def test_what_does_not_fit_is_cut(value: Value, width: int, text: str) -> None:
    assert summary(value, width) == text


def test_a_long_value_is_not_read_to_its_end() -> None:
    assert len(summary("x" * 10_000_000, 20)) == 20
    assert summary(b"\x00" * 10_000_000, 20) == "9.5 MiB: 00 00 00 0…"
    assert summary(10**5000, 10_000) == hex(10**5000)
    text = "1" * 60_000 + "x"
    assert (summary(text, 100_000), summary("1" * 100, 200)) == (text, f'"{"1" * 100}"')
    assert summary([1, "a"], 10, quote=True) == '[1, "a"]'


def test_a_block_reads_like_yaml() -> None:
    value: Value = {
        "plan": {"steps": ["look up", "answer"], "empty": {}, "n": "3"},
        "code": "def f():\n    return 1",
        "rows": [{"a": 1, "b": [{"c": None}]}, [1, [2, "x"]], "two\nlines"],
        "who": Tagged("app.Customer", {"name": "Ana", "home": Tagged("app.Address", {"zip": 1})}),
        "seen": Tagged("builtins.set", ["a", "b"]),
        "big": Cut({"a": 1}, 2 << 20, "too long"),
    }
    assert (
        "\n".join(block(value, 0, 60))
        == """\
plan:
  steps: [look up, answer]
  empty: {}
  n: "3"
code: |
  def f():
      return 1
rows:
  - a: 1
    b:
      - c: null
  - [1, [2, x]]
  - |
    two
    lines
who: Customer
  name: Ana
  home: Address
    zip: 1
seen: {a, b}
big:
  a: 1
  (cut, 2.0 MiB in all: too long)"""
    )


@cases("item", 10**6, "x" * 500, b"x" * 500, [[], {}], Tagged("uuid.UUID", "x" * 50))
@pytest.mark.parametrize("width", [80, 1_000_000])
def test_much_inside_of_many_lists_is_not_written_out_for_each(item: Value, width: int) -> None:
    value: Value = [item] * 200_000
    for _ in range(190):
        value = [value, 1]
    assert len(list(islice(block(value, 0, width), 200))) == 200


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


@few
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


@few
@given(STATES, st.randoms(use_true_random=False), st.integers(1, 200))
@example({"": "\n\t"}, Random(1), 1)
def test_what_is_open_shows_what_is_below(state: dict[str, Value], chance: Any, width: int) -> None:
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


@pytest.mark.parametrize("number", [0, 1, ITEMS, ITEMS + 1, 3_000, 30_000])
@pytest.mark.parametrize("is_dict", [False, True])
def test_no_node_has_more_children_than_can_be_seen(number: int, is_dict: bool) -> None:
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
    noise: dict[str, Value] = {"additional_kwargs": {}, "name": None, "status": {"code": 5}}
    asked: Value = [{"name": "search", "args": {"city": {"name": "Kyoto"}}, "id": "1"}]
    metadata: Value = {"model": "m", "id": {"a": 1}}
    said = message(
        "AI", "Hello\nWorld", tool_calls=asked, response_metadata=metadata, id="abc", **noise
    )
    found = list(unfold([channel_node("messages", [said])], {"messages[0]": True}))
    texts = ["".join(line.text for line in node_lines(one, 200)) for one in found]
    assert [one.name.removeprefix("messages[0]") for one in found] == [
        *("messages", "", ".content", ".tool_calls", ".tool_calls[0]", ".tool_calls[0].name"),
        *(".tool_calls[0].args", ".tool_calls[0].args.city", ".tool_calls[0].args.city.name"),
        *(".tool_calls[0].id", ".status", ".response_metadata", " fields"),
    ]
    assert texts[-1].strip() == "▸ … type, id, 2 empty fields"
    assert "HelloWorld" in texts[2].replace(" ", "")
    below = {one.name for one in everything_below(found[1], 100)}
    assert "messages[0].status" in below
    assert "messages[0].response_metadata" not in below


def test_lines_tell_how_much_is_folded_or_was_cut() -> None:
    def shown(value: Value, *, is_open: bool, width: int = 60) -> list[str]:
        (node, *_) = unfold([channel_node("c", value)], {"c": is_open})
        return [line.text.rstrip() for line in node_lines(node, width)]

    assert shown(list(range(3000)), is_open=True) == ["  ▾ c  [3,000 items]"]
    assert shown(Tagged("m.C", {"a": 1}), is_open=True) == ["  ▾ c  C {1 key}"]
    assert shown(Cut([1], 9, "long"), is_open=True) == ["  ▾ c  [1 item] (cut, 9 B in all: long)"]
    assert shown("two\nline", is_open=True) == ["  ▾ c  (8 characters)", "      two", "      line"]
    assert shown("a\nb", is_open=False) == ["  ▸ c: a…  (3 characters)"]
    assert shown("x" * 100, is_open=True) == ["    c:", f"      {'x' * 54}", f"      {'x' * 46}"]
    assert shown(Opaque("t", 5, "", "no key"), is_open=True) == ["    c: t, 5 B, not read: no key"]
    assert shown(b"\x00" * 99, is_open=True, width=300)[0].endswith("99 B: " + "00 " * 64 + "…")
    (more,) = children(channel_node("c", "x" * 5_000))
    assert node_lines(more, 60)[0].text.strip() == "… 3,000 more characters"
    assert text_of(Tagged("uuid.UUID", "0" * 32)) is None


def test_a_long_text_is_whole_in_its_parts() -> None:
    text = "".join(f"{n} " for n in range(400_000))
    (more,) = children(channel_node("t", text))
    ends = [one for one in everything(more) if not children(one)]
    assert text == text[:BEGINNING] + "".join(str(part_of(one)) for one in ends)
    assert all(len(children(one)) <= ITEMS for one in everything(more))


State = dict[str, Value]


def human(content: str, ident: str) -> Tagged:
    return Tagged(
        "langchain_core.messages.human.HumanMessage",
        {"content": content, "type": "human", "id": ident},
    )


PAIRS = st.dictionaries(st.sampled_from(["a", "b", "\x1b[31m"]), values, max_size=3)


def ai(content: str, ident: str, *calls: dict[Value, Value]) -> Tagged:
    return Tagged(
        "langchain_core.messages.ai.AIMessage",
        {"content": content, "type": "ai", "id": ident, "tool_calls": [*calls]},
    )


def shown(before: State, after: State, *, stat: bool = False, width: int = 80) -> str:
    lines = diff_text(diff_channels(before, after), stat=stat, width=width)
    return "\n".join(line.text for line in lines)


def test_messages_are_added_and_changed() -> None:
    refund: dict[Value, Value] = {"name": "refund", "args": {"order": "1138"}, "id": "c1"}
    before: State = {"messages": [human("Hello", "1"), ai("One\nTwo", "2"), human("Gone", "3")]}
    after: State = {
        "messages": [human("Hello?", "1"), ai("One\n2", "2"), ai("A moment.", "4", refund)]
    }
    assert (
        shown(before, after)
        == """\
messages  +1 -1 ~2  (3 messages)
  ~ [0].content: "Hello" → "Hello?"
  ~ [1].content:
    @@ -1,2 +1,2 @@
      One
    - Two
    + 2
  - human: Gone
  + ai: A moment. [tool_calls: refund(order="1138")]"""
    )


def test_moved_messages_and_channels_that_come_and_go() -> None:
    one, two, three = human("one", "1"), human("two", "2"), human("3", "3")
    assert shown({"m": [one, two, three]}, {"m": [three, one, two]}).split("\n") == [
        *("m  ~1  (3 messages)", "  ~ [2] moved to [0]: human: 3")
    ]
    assert shown({"old": {"a": 1}}, {"new": ["x", "y"], "n": None}).split("\n") == [
        *("n  added", "  + null", "new  added  (2 items)", "  + x", "  + y"),
        *("old  removed  (1 key)", "  - {a: 1}"),
    ]
    assert shown({"a": 1}, {"a": 1}) == shown({"a": 1}, {"a": 1}, stat=True) == ""


@cases(
    "before after text",
    (1, True, "x  ~1\n  ~ 1 → true"),
    ("a\nb", "a\r\nb", 'x  ~1\n  ~ "a\\nb" → "a\\r\\nb"'),
    ([1, 2], [1, 3, 4], "x  +1 ~1  (2 → 3 items)\n  ~ [1]: 2 → 3\n  + [2]: 4"),
    ({"a": {}}, {"a": {"k.x": 2}}, 'x  ~1  (1 key)\n  + a["k.x"]: 2'),
    (
        Tagged("builtins.set", ["a", "b"]),
        Tagged("builtins.set", ["b", "c"]),
        "x  +1 -1  (2 items)\n  - a\n  + c",
    ),
    (
        {"history": [human("a", "1")]},
        {"history": [human("a", "1"), human("b", "2")]},
        "x  ~1  (1 key)\n  + history: human: b",
    ),
    ([1], {"a": 1}, "x  ~1\n  ~ [1] → {a: 1}"),
)
def test_a_change_names_its_place(before: Value, after: Value, text: str) -> None:
    assert shown({"x": before}, {"x": after}) == text


def test_long_values_stand_below_each_other_from_where_they_differ() -> None:
    before: State = {"x": "same " * 40 + "old end", "y": {"k": "a" * 50}}
    after: State = {"x": "same " * 40 + "new end", "y": {"k": "b" * 50}}
    assert shown(before, after, width=60).split("\n") == [
        *("x  ~1", "  - …same same same old end", "  + …same same same new end"),
        *("y  ~1  (1 key)", "  ~ k:", f"    - {'a' * 50}", f"    + {'b' * 50}"),
    ]


def test_stat_is_a_line_a_channel_and_a_sum() -> None:
    before: State = {"messages": ["a"], "old": 1, "x": 1}
    after: State = {"messages": ["b", "c", "d"], "x": 2}
    assert shown(before, after, stat=True).split("\n") == [
        " messages | 3 ++~  5 B → 13 B (+8 B)",
        " old      | 1 -    1 B → 0 B (-1 B)",
        " x        | 1 ~    1 B → 1 B (+0 B)",
        " 3 channels changed, 2 items added(+), 1 item removed(-), 2 items changed(~), +7 B",
    ]
    # Long bars are scaled, and every kind keeps a mark.
    before, after = {"x": [*range(1000)], "y": [0]}, {"x": [*range(2000)], "y": [1]}
    first, second, _ = shown(before, after, stat=True).split("\n")
    assert first.count("+") == 41
    assert "|    1 ~ " in second


@few
@given(PAIRS, PAIRS, st.booleans())
def test_every_difference_can_be_shown_safely(before: State, after: State, stat: bool) -> None:
    changes = diff_channels(before, after)
    lines = list(diff_text(changes, stat=stat, width=60))
    assert bool(lines) == bool(changes)
    assert all(safe_text(line.text) == line.text for line in lines)
    assert all(cell_len(line.text) <= 200 for line in diff_text(changes, width=200))


def test_with_several_lines_all_changes_of_a_long_text_are_shown() -> None:
    middle = "and take the slow train over the hills " * 4
    before, after = f"Leave on Monday {middle}to Nara", f"Leave on Tuesday {middle}to Kobe"
    changes = diff_channels({"note": before}, {"note": after})
    lines = list(diff_text(changes, width=60, lines=8))
    assert all(cell_len(one.text) <= 60 for one in lines)
    parts: dict[str, list[str]] = {"removed-part": [], "added-part": []}
    for text, style in (span for one in lines for span in one.spans):
        parts.get(style, []).append(text)
    assert parts == {"removed-part": ["Monday", "Nara"], "added-part": ["Tuesday", "Kobe"]}
    added = list(diff_text(diff_channels({}, {"note": before}), width=60, lines=8))
    assert "Nara" in added[-1].text
    assert not any("Nara" in one.text for one in diff_text(changes, width=60))


LINES = st.lists(st.sampled_from(["a", "b", "c", "日本", ""]), max_size=30)


def test_words_are_compared_over_line_ends() -> None:
    assert changed_words(["at noon in", "the hotel"], ["at 12:00", "in the hotel"]) == (
        [[("at ", False), ("noon", True), (" in", False)], [("the hotel", False)]],
        [[("at ", False), ("12:00", True)], [("in the hotel", False)]],
    )
    assert changed_words(["one two three"], ["four five six"]) is None


@given(LINES, LINES, st.integers(20, 100))
@example(["a"] * 8, ["a"] * 8, 20)
def test_no_line_is_wider_than_the_screen(before: list[str], after: list[str], width: int) -> None:
    assert all(cell_len(one.text) <= width for one in side_by_side(before, after, width))


def test_what_one_side_has_alone_is_marked_and_likeness_left_out() -> None:
    same = [str(n) for n in range(20)]
    lines = [one.text.rstrip() for one in side_by_side(["old", *same], ["new", *same], 41)]
    assert lines[:2] == ["- old               │ + new", "  0                 │   0"]
    assert (lines[3:5], len(lines)) == (["  2                 │   2", "… 14 equal lines"], 8)
