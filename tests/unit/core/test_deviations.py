"""Which differences prove that a value was changed."""

from __future__ import annotations

from typing import Any

import pytest

from ckpt_backends.codec.values import Tagged
from ckpt_cli.core.replay import has_foreign_text


@pytest.mark.parametrize(
    ("value", "sources", "expected"),
    [
        (["b"], [["a"], ["b"]], False),
        (["c"], [["a"], ["b"]], True),
        ("b c", ["a b c d"], False),
        (7, [3, 5], False),
        ({"a": {"b": 1}}, [{"a": {}}, {"b": "x"}], False),
        ({"other": 1}, [{"a": 1}], True),
        (Tagged("x.HumanMessage", {"content": "hi", "id": "made"}), [["user", "hi"]], False),
        (Tagged("x.HumanMessage", {"content": "ho", "id": "made"}), [["user", "hi"]], True),
    ],
)
def test_a_text_that_no_one_wrote_is_foreign(
    value: Any, sources: list[Any], expected: bool
) -> None:
    assert has_foreign_text(value, sources) is expected
