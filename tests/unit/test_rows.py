"""What a store has in the place of archived rows."""

from __future__ import annotations

import pytest

from ckpt_backends.errors import StoreChanged
from ckpt_backends.rows import Cell, Restored, Row, compare, is_part, sql_key


def ids(*names: str) -> dict[str, Cell]:
    """The members of a list of Redis."""
    return {f".{place}": name for place, name in enumerate(names)}


@pytest.mark.parametrize(
    ("stored", "archived", "expected"),
    [
        ("c", "abc", True),
        ("ac", "abc", True),
        ("a", "abc", True),
        ("abc", "abc", False),
        ("ca", "abc", False),
        ("cd", "abc", False),
        ("c", "abac", False),
    ],
)
def test_a_part_of_a_list_has_its_order(stored: str, archived: str, expected: bool) -> None:
    assert is_part("list", ids(*stored), ids(*archived)) is expected


@pytest.mark.parametrize(
    ("stored", "expected"),
    [({".a": "1"}, True), ({".a": "2"}, False), ({".a": "1", ".c": "3"}, False)],
)
def test_a_part_of_a_sorted_set_has_its_scores(stored: dict[str, Cell], expected: bool) -> None:
    assert is_part("zset", stored, {".a": "1", ".b": "2"}) is expected
    assert not is_part("hash", stored, {".a": "1", ".b": "2"})


def test_compare_counts_what_would_be_restored() -> None:
    old, new = ({"thread_id": "a", "checkpoint_id": one, "value": one} for one in ("1", "2"))
    rows = [Row("checkpoints", old), Row("checkpoints", new)]
    assert compare(rows, [rows[0]], sql_key) == Restored(added=1, there=1)
    with pytest.raises(StoreChanged, match="different contents"):
        compare(rows, [Row("checkpoints", {**old, "value": "x"})], sql_key)
