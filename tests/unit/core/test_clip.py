"""Values cut for a screen."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.codec.values import Cut, Tagged
from ckpt_cli.core.values import LONGEST, MOST, PAGE, clip, clip_state

SMALL: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20) | st.binary(max_size=20),
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=50,
)


@given(SMALL)
def test_a_small_value_stays_as_it_is(value: Any) -> None:
    assert clip(value) == value


def test_a_long_text_is_cut_wherever_it_stands() -> None:
    found = clip(Tagged("a.B", {"text": "x" * (LONGEST + 1), "short": "y"}))
    assert isinstance(found, Tagged)
    assert isinstance(found.payload, dict)
    cut = found.payload["text"]
    assert isinstance(cut, Cut)
    assert cut.kept == "x" * LONGEST
    assert (cut.size, cut.unit) == (LONGEST + 1, "character")
    assert found.payload["short"] == "y"


def test_no_more_than_so_many_parts_are_kept_in_all() -> None:
    found = clip([[n] * 10 for n in range(MOST)])
    assert isinstance(found, Cut)
    assert isinstance(found.kept, list)
    assert sum(1 + len(one) for one in found.kept if isinstance(one, list)) <= MOST
    assert (found.size, found.unit) == (MOST, "item")
    assert found.reason == f"its first {len(found.kept):,} are shown"


def test_a_page_keeps_the_end_of_a_list_and_the_beginning_of_all_else() -> None:
    messages: Any = [{"type": "human", "content": f"{n}"} for n in range(1000)]
    found, is_cut = clip_state(messages)
    assert is_cut
    assert isinstance(found, Cut)
    assert found.kept == messages[-len(found.kept) :]  # type: ignore[arg-type]
    assert 10 < len(found.kept) < PAGE.parts  # type: ignore[arg-type]
    assert (found.size, found.unit) == (1000, "item")
    assert clip_state(b"x" * 65) == (Cut(b"x" * 64, 65, "only its beginning is shown"), True)
    text, is_cut = clip_state("x" * 1001)
    assert is_cut
    assert isinstance(text, Cut)
    assert text.kept == "x" * 1000


@pytest.mark.parametrize(
    "value", [[1, [2, {"a": b"x"}]], {"a": Cut("ab", 9, "cut before")}, [], "text", None]
)
def test_a_small_value_is_no_less_on_a_page(value: Any) -> None:
    assert clip_state(value) == (value, False)


def test_one_long_item_is_cut_inside() -> None:
    found, is_cut = clip_state([{"n": 1}, list(range(1000))])
    assert is_cut
    assert isinstance(found, Cut)
    assert found.reason == "its last one is shown"
    assert isinstance(found.kept[0], Cut)  # type: ignore[index]
