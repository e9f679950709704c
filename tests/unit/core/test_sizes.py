"""Sums by name, and the largest of them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_cli.core.channels import namespace_kind
from ckpt_cli.core.usage import ByteSum, SizeTally, rank

amounts = st.lists(
    st.builds(ByteSum, st.text(max_size=3), st.integers(0, 9), st.integers(0, 99)), max_size=20
)


@given(amounts, st.integers(1, 8))
def test_the_largest_come_first_and_nothing_is_lost(found: list[ByteSum[str]], most: int) -> None:
    ranked = rank(found, most)
    sizes = sorted((one.bytes for one in found), reverse=True)
    assert [one.bytes for one in ranked.top] == sizes[:most]
    assert ranked.total == sum(sizes)
    assert ranked.total == sum(one.bytes for one in ranked.top) + ranked.more_bytes
    assert len(ranked.top) + ranked.more == len(found)


@given(amounts)
def test_a_tally_adds_up(found: list[ByteSum[str]]) -> None:
    tally = SizeTally[str]()
    for one in found:
        tally.add(one.key, one.rows, one.bytes)
    sums = list(tally.amounts())
    assert {one.key for one in sums} == {one.key for one in found}
    assert sum(one.bytes for one in sums) == sum(one.bytes for one in found)
    assert sum(one.rows for one in sums) == sum(one.rows for one in found)


def test_equal_amounts_come_in_the_order_of_their_names() -> None:
    ranked = rank([ByteSum(name, 1, 5) for name in "cabd"], 3)
    assert [one.key for one in ranked.top] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("checkpoint_ns", "kind"),
    [
        ("", ""),
        ("child:1f0a-22", "child"),
        ("child:1f0a|1", "child"),
        ("outer:1|inner:2", "outer|inner"),
        ("stateful", "stateful"),
    ],
)
def test_calls_of_one_subgraph_are_of_one_kind(checkpoint_ns: str, kind: str) -> None:
    assert namespace_kind(checkpoint_ns) == kind
