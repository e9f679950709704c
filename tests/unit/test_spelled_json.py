"""JSON in the spelling of engines that store it parsed."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends.transfer.bodies import respelled

_LEAVES = st.none() | st.booleans() | st.integers(-(1 << 40), 1 << 40) | st.text(max_size=4)
_VALUES = st.recursive(
    _LEAVES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=40)
    ),
    max_leaves=60,
)


def _sorted(value: Any) -> Any:
    """The value with all names in order, in the plainest way."""
    if isinstance(value, dict):
        names = sorted(value, key=lambda one: (len(one.encode()), one.encode()))
        return {name: _sorted(value[name]) for name in names}
    return [_sorted(one) for one in value] if isinstance(value, list) else value


@given(_VALUES)
def test_names_are_in_order_at_each_level(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False).encode()
    for _ in range(2):  # a short text is remembered
        assert respelled(text) == json.dumps(_sorted(value), ensure_ascii=False).encode()


@pytest.mark.parametrize("text", [b'{"b": 1e9, "a": 1}', b'{"b": NaN, "a": 1}', b'{"b": ', b"\xff"])
def test_what_engines_spell_in_another_way_stays_as_it_is(text: bytes) -> None:
    assert respelled(text) == text
