"""Two texts beside each other."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from ckpt_cli.render.text import cell_len
from ckpt_cli.render.value_diff import aligned, changed_words, side_by_side

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
        assert tuple(["".join(part for part, _ in one) for one in side] for side in found) == (
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
    assert lines == [
        "- old               │ + new",
        "  0                 │   0",
        "  1                 │   1",
        "  2                 │   2",
        "… 14 equal lines",
        "  17                │   17",
        "  18                │   18",
        "  19                │   19",
    ]
