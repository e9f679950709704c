"""Inert values as the Python values that they stand for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ckpt_backends import codec
from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value
from ckpt_cli.api.answer import plain, to_json

OPAQUE = Opaque("pickle", 3, "00", "a pickle")
_STEPS: Any = ("a",)
_SET: Any = {1}
_CUT_SET = Cut([_SET], 9, "too long")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (Tagged("builtins.tuple", [1, Tagged("builtins.tuple", [2])]), (1, (2,))),
        (Tagged("builtins.set", ["a", 1]), {"a", 1}),
        (Tagged("builtins.frozenset", [1]), frozenset({1})),
        (
            Tagged("datetime.datetime", "2026-04-07T10:00:00+00:00"),
            datetime(2026, 4, 7, 10, tzinfo=UTC),
        ),
        (Tagged("datetime.datetime", "yesterday"), Tagged("datetime.datetime", "yesterday")),
        (Tagged("builtins.set", [[1]]), Tagged("builtins.set", [[1]])),
        (Tagged("builtins.set", [1, True]), Tagged("builtins.set", [1, True])),
        (Tagged("builtins.set", {"a": 1}), Tagged("builtins.set", {"a": 1})),
        (
            Tagged("app.Plan", {"steps": Tagged("builtins.tuple", ["a"])}),
            Tagged("app.Plan", {"steps": _STEPS}),
        ),
        ({Tagged("builtins.tuple", [1, 2]): b"x"}, {(1, 2): b"x"}),
        (Cut([Tagged("builtins.set", [1])], 9, "too long"), _CUT_SET),
        ([OPAQUE, None, True, 1.5], [OPAQUE, None, True, 1.5]),
    ],
)
def test_examples(value: Value, expected: Any) -> None:
    found = plain(value)
    assert found == expected
    assert type(found) is type(expected)
    assert to_json(found) == codec.to_json(value)


_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


@given(_PLAIN)
def test_what_is_plain_stays_as_it_is(value: Value) -> None:
    assert plain(value) == value
    assert to_json(value) == codec.to_json(value)


@given(st.lists(_PLAIN), st.sampled_from(["builtins.set", "builtins.tuple", "os.system", "x"]))
def test_no_object_is_lost_or_made(payload: list[Value], name: str) -> None:
    found = plain(Tagged(name, payload))
    assert isinstance(found, tuple | set | Tagged)
    if isinstance(found, Tagged):
        assert found == Tagged(name, payload)
