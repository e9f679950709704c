"""Differences as text, in the manner of git, and two texts beside each other."""

from hypothesis import example, given
from hypothesis import strategies as st

from ckpt_backends.codec.values import Tagged, Value
from ckpt_cli.core.diff import diff_channels
from ckpt_cli.render.text import cell_len, safe_text
from ckpt_cli.render.value_diff import aligned, changed_words, diff_text, side_by_side
from tests.kit.cases import cases
from tests.kit.strategies import few, values

State = dict[str, Value]


def human(content: str, ident: str) -> Tagged:
    return Tagged(
        "langchain_core.messages.human.HumanMessage",
        {"content": content, "type": "human", "id": ident},
    )


STATES = st.dictionaries(st.sampled_from(["a", "b", "\x1b[31m"]), values, max_size=3)


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
@given(STATES, STATES, st.booleans())
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


@given(LINES, LINES)
def test_each_side_has_all_its_lines_in_order(before: list[str], after: list[str]) -> None:
    pairs = list(aligned(before, after))
    assert [left for left, _, _ in pairs if left is not None] == before
    assert [right for _, right, _ in pairs if right is not None] == after
    assert all((left == right) for left, right, is_same in pairs if is_same)


WORDS = st.lists(st.text(st.sampled_from("ab -.\u65e5"), max_size=20), max_size=5)


@given(WORDS, WORDS)
def test_marking_words_changes_no_text(before: list[str], after: list[str]) -> None:
    found = changed_words(before, after)
    if found is not None:
        assert tuple(["".join(it for it, _ in one) for one in side] for side in found) == (
            before,
            after,
        )


def test_words_are_compared_over_line_ends() -> None:
    found = changed_words(["at noon in", "the hotel"], ["at 12:00", "in the hotel"])
    assert found == (
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
    assert lines[3:5] == ["  2                 │   2", "… 14 equal lines"]
    assert len(lines) == 8
