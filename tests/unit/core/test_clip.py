"""Values cut for a screen."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.codec.values import Cut, Tagged
from ckpt_cli.core.values.clip import LONGEST, MOST, clip

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
