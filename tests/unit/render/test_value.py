"""Values on one line and in full."""

from __future__ import annotations

import math
import re
from itertools import islice
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value
from ckpt_cli.render.text import cell_len, fit, safe_text, wrap
from ckpt_cli.render.values import block, summary

TEXT = st.text(max_size=30) | st.text("a \n\t\x1b\u202e日{}[]\"'=,:", max_size=60)
LEAVES: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    TEXT,
    st.binary(max_size=20),
    st.builds(Opaque, TEXT, st.integers(0, 9999), st.just("ab"), TEXT),
)
TYPES = st.sampled_from(
    [
        "builtins.set",
        "builtins.tuple",
        "datetime.date",
        "datetime.datetime",
        "datetime.timedelta",
        "decimal.Decimal",
        "langchain_core.messages.ai.AIMessage",
        "numpy.ndarray",
        "pathlib.PosixPath",
        "uuid.UUID",
        "\x1b[31m.evil\x07",
    ]
)
FIELDS = st.sampled_from(
    [
        "content",
        "type",
        "id",
        "name",
        "tool_calls",
        "args",
        "role",
        "text",
        "dtype",
        "shape",
        "data",
    ]
)


def containers(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(children, max_size=4),
        st.dictionaries(FIELDS | TEXT | st.integers(), children, max_size=5),
        st.builds(Tagged, TYPES, children),
        st.builds(Cut, children, st.integers(0, 9999), TEXT),
    )


VALUES = st.recursive(LEAVES, containers, max_leaves=12)


def message(kind: str, content: Value, **fields: Value) -> Tagged:
    held: dict[Value, Value] = {"content": content, "type": kind.lower()}
    held.update(fields.items())
    return Tagged(f"langchain_core.messages.{kind.lower()}.{kind}Message", held)


def call(name: str, ident: str | None = None, **args: Value) -> dict[Value, Value]:
    return {"name": name, "args": dict(args.items()), "id": ident, "type": "tool_call"}


ASKING = message("AI", "Let me see.", id="a1", tool_calls=[call("search", "c1", query="x", n=3)])
ARRAY = Tagged(
    "numpy.ndarray", {"dtype": "<i8", "shape": [2, 3], "order": "C", "data": [[1, 2, 3], [4, 5, 6]]}
)


@given(VALUES, st.integers(1, 120))
def test_a_summary_is_one_safe_line_that_fits(value: Value, width: int) -> None:
    text = summary(value, width)
    assert cell_len(text) <= width
    assert safe_text(text) == text


@given(VALUES, st.integers(0, 8), st.integers(1, 120))
def test_the_lines_of_a_block_are_safe_and_indented(value: Value, indent: int, width: int) -> None:
    for text in block(value, indent, width):
        assert safe_text(text, newlines=True) == text
        assert "\n" not in text
        assert not text or text.startswith(" " * indent)


@given(st.text(st.characters(exclude_categories=["C", "Z"]), max_size=300), st.integers(1, 60))
def test_nothing_is_left_out_of_a_block(text: str, width: int) -> None:
    lines = list(block([{"k": text + "\n" + text}], 0, width))
    shown = safe_text(text + "\n" + text, newlines=True)
    assert "".join("".join(lines[1:]).split()) == "".join(shown.split())


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (12, "12"),
        (1.0, "1.0"),
        (math.nan, "nan"),
        ("plain text", "plain text"),
        ("hello, world", "hello, world"),
        ("42", '"42"'),
        ("-1e5", '"-1e5"'),
        ("null", '"null"'),
        ("", '""'),
        (" padded", '" padded"'),
        ('{"a": 1}', '"{\\"a\\": 1}"'),
        ("two\nlines", r"two\nlines"),
        ("\x1b[31m[bold]", r"\x1b[31m[bold]"),
        (b"\x00\xff", "2 B: 00 ff"),
        (b"", "0 B"),
        ([], "[]"),
        ([1, "a", "b, c"], '[1, a, "b, c"]'),
        ([[1, 2], []], "[[1, 2], []]"),
        ({}, "{}"),
        ({"a": 1, "b": "x: y", 3: None}, '{a: 1, b: "x: y", 3: null}'),
        ({"a, b": 1}, '{"a, b": 1}'),
        (Tagged("datetime.datetime", "2026-04-07T10:30:00+05:30"), "2026-04-07T10:30:00+05:30"),
        (Tagged("datetime.date", [2026, 2, 8]), "2026-02-08"),
        (Tagged("datetime.timedelta", [-1, 5, 7]), "-1 day, 0:00:05.000007"),
        (Tagged("datetime.timedelta", [10**12, 0, 0]), "timedelta(1000000000000, 0, 0)"),
        (Tagged("decimal.Decimal", "12.340"), "12.340"),
        (Tagged("uuid.UUID", "0" * 31 + "7"), "00000000-0000-0000-0000-000000000007"),
        (Tagged("pathlib.PosixPath", ["/", "var", "log"]), "/var/log"),
        (Tagged("pathlib.PureWindowsPath", ["C:\\", "x"]), "C:\\x"),
        (Tagged("ipaddress.IPv4Address", "10.0.0.1"), "10.0.0.1"),
        (Tagged("app.Color", "red"), 'Color("red")'),
        (Tagged("app.Point", {"x": 1, "y": "2"}), 'Point(x=1, y="2")'),
        (Tagged("langgraph.types.Send", ["node", {"x": 1}]), 'Send("node", {x: 1})'),
        (Tagged("builtins.set", ["a", "b"]), "{a, b}"),
        (Tagged("builtins.set", []), "set()"),
        (Tagged("builtins.tuple", [1, 2]), "(1, 2)"),
        (ARRAY, "ndarray int64 2×3 [[1, 2, 3], [4, 5, 6]]"),
        (Opaque("pickle", 1229, "ab", "pickle is off"), "pickle, 1.2 KiB, not read: pickle is off"),
        (Cut([1, 2], 2 << 20, "too long"), "[1, 2] (cut, 2.0 MiB in all: too long)"),
        (Cut([1, 2], 3000, "too long", "item"), "[1, 2] (cut, 3,000 items in all: too long)"),
    ],
)
def test_values_are_short_and_plain(value: Value, text: str) -> None:
    assert summary(value, 10_000) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (message("Human", "hello"), "human: hello"),
        ({"role": "user", "content": "hello"}, "user: hello"),
        (message("Tool", "found it", name="search"), "tool search: found it"),
        (ASKING, 'ai: Let me see. [tool_calls: search(query="x", n=3)]'),
        (message("AI", "", tool_calls=[call("a"), call("b")]), "ai: [tool_calls: a(), b()]"),
        (message("AI", "", invalid_tool_calls=[call("a")]), "ai: [tool_calls: invalid a()]"),
        (message("Remove", "", id="m1"), "remove: m1"),
        (
            message("Human", [{"type": "text", "text": "see "}, {"type": "image_url"}]),
            "human: see [image_url]",
        ),
        (Tagged("langchain_core.messages.AIMessageChunk", {"content": "x"}), "ai: x"),
        (
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": "1", "function": {"name": "f", "arguments": '{"a": 1}'}}],
            },
            'assistant: [tool_calls: f("{\\"a\\": 1}")]',
        ),
        ([message("Human", "hello")], "[1 message]"),
        ([message("Human", "hello"), ASKING], "[2 messages]"),
        (Tagged("langgraph.DeltaSnapshot", [ASKING, ASKING]), "DeltaSnapshot(2 messages)"),
    ],
)
def test_messages_say_who_says_what(value: Value, text: str) -> None:
    assert summary(value, 100) == text


@pytest.mark.parametrize(
    ("value", "width", "text"),
    [
        ("long text here", 8, "long te…"),
        ("日本語日本語", 8, "日本語…"),
        ("null and void", 5, "null…"),
        (list(range(100)), 30, "[100 items]"),
        ({"a": 1, "b": "x" * 50, "c": 2}, 40, "{a: 1, b: xxxxxxxxxxxxxxxxxxxxxxx…, …}"),
        ({"a": 1, "b": "x" * 50, "c": 2}, 60, "{a: 1, b: xxxxxxxxxxxxxxxxxxxxxxxxxxxx…, c: 2}"),
        ({"a": 1, "b": [1, 2, 3, 4, 5]}, 16, "{a: 1, b: …}"),
        (ARRAY, 36, "ndarray int64 2×3 [[1, 2, 3], …]"),
        (b"\x00" * 100, 16, "100 B: 00 00 00…"),
        (ASKING, 40, "ai: Let me see. [tool_calls: search(…)]"),
    ],
)
def test_what_does_not_fit_is_cut(value: Value, width: int, text: str) -> None:
    assert summary(value, width) == text


def test_a_long_value_is_not_read_to_its_end() -> None:
    assert len(summary("x" * 10_000_000, 20)) == 20
    assert summary(b"\x00" * 10_000_000, 20) == "9.5 MiB: 00 00 00 0…"


def test_an_integer_too_long_for_decimal_is_hexadecimal() -> None:
    assert summary(10**5000, 10_000) == hex(10**5000)


def test_quote_tells_a_string_from_a_number() -> None:
    assert summary("a", 10, quote=True) == '"a"'
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


def test_a_block_of_messages_is_a_transcript() -> None:
    value: list[Value] = [
        message("Human", "Where is it?\nI wait.", id="h1", additional_kwargs={}, name=None),
        message(
            "AI",
            "",
            id="a1",
            tool_calls=[call("look_up", "c1", query="order 1138")],
            usage_metadata={"input_tokens": 3},
        ),
        message("Tool", "shipped", id="t1", name="look_up", tool_call_id="c1", status="success"),
    ]
    assert (
        "\n".join(block({"messages": value}, 2, 60))
        == """\
  messages:
    - human (h1)
        Where is it?
        I wait.
    - ai (a1)
        call look_up (c1)
          query: order 1138
        usage_metadata:
          input_tokens: 3
    - tool look_up (t1)
        shipped
        tool_call_id: c1
        status: success"""
    )


def test_long_lines_are_wrapped_at_blanks() -> None:
    lines = list(block({"text": "word " * 20 + "x" * 50}, 0, 32))
    assert lines[0] == "text: |"
    assert lines[1] == "  word word word word word word"
    assert all(cell_len(text) <= 32 for text in lines)
    assert re.sub(r"\s", "", "".join(lines[1:])) == "word" * 20 + "x" * 50


def test_a_long_number_that_is_none_after_all_needs_no_quotes() -> None:
    text = "1" * 60_000 + "x"
    assert summary(text, 100_000) == text
    assert summary("1" * 100, 200) == f'"{"1" * 100}"'


@pytest.mark.parametrize(
    "item", [10**6, "x" * 500, b"x" * 500, [[], {}], Tagged("uuid.UUID", "x" * 50)]
)
@pytest.mark.parametrize("width", [80, 1_000_000])
def test_much_inside_of_many_lists_is_not_written_out_for_each(item: Value, width: int) -> None:
    value: Value = [item] * 200_000
    for _ in range(190):
        value = [value, 1]
    assert len(list(islice(block(value, 0, width), 200))) == 200


def test_a_long_text_is_on_one_line_if_that_is_long_enough() -> None:
    text = "x" * 50_000
    assert list(block({"k": text}, 0, 1_000_000)) == [f"k: {text}"]


def test_a_list_of_numbers_is_on_one_line_if_that_is_long_enough() -> None:
    numbers: list[Value] = [0.123456789] * 4_000
    (text,) = block([numbers], 0, 1_000_000)
    assert text == f"[{summary(numbers, 1_000_000)}]"


def test_a_deep_value_can_be_shown() -> None:
    value: Value = 1
    for level in range(133):
        value = Tagged("app.A", {"x": value}) if level % 2 else [value]
    assert len(list(block(value, 0, 80))) > 50
    assert summary(value, 80).startswith("[A(x=[A(x=")


@given(st.text("ab 日", max_size=80), st.integers(20, 40))
def test_wrapped_pieces_fit_and_lose_only_blanks(text: str, width: int) -> None:
    pieces = list(wrap(text, width))
    assert all(cell_len(piece) <= width for piece in pieces)
    assert "".join(pieces).replace(" ", "") == text.replace(" ", "")


@given(st.text(), st.integers(1, 20))
def test_fitted_text_fits(text: str, width: int) -> None:
    assert cell_len(fit(text, width)) <= width
