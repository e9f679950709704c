from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given

from ckpt_backends.codec import Cut, Json, Opaque, Tagged, Value, from_json, to_json
from tests.kit.strategies import values

CASES: list[tuple[Value, Json]] = [
    ([None, True, 1, 1.5, "x"], [None, True, 1, 1.5, "x"]),
    (b"\x00\xff", {"$bytes": "AP8="}),
    (Tagged("builtins.set", [1, 2]), {"$set": [1, 2]}),
    (Tagged("builtins.tuple", [1, 2]), {"$tuple": [1, 2]}),
    (
        Tagged("builtins.bytearray", b"a"),
        {"$type": "builtins.bytearray", "$value": {"$bytes": "YQ=="}},
    ),
    (Tagged("datetime.datetime", "2026-04-07"), {"$datetime": "2026-04-07"}),
    (Tagged("m.C", {"a": 1, "$b": 2}), {"$type": "m.C", "a": 1, "$$b": 2}),
    (Tagged("m.C", {}), {"$type": "m.C"}),
    (Tagged("m.C", {1: 2}), {"$type": "m.C", "$value": {"$map": [[1, 2]]}}),
    (Tagged("m.C", [1, [2]]), {"$type": "m.C", "$args": [1, [2]]}),
    (Tagged("uuid.UUID", "ab"), {"$type": "uuid.UUID", "$value": "ab"}),
    (math.inf, {"$float": "Infinity"}),
    (-math.inf, {"$float": "-Infinity"}),
    (2**53, 2**53),
    (2**53 + 1, {"$int": "9007199254740993"}),
    ({"$type": 1, "$$": 2, "a$": 3}, {"$$type": 1, "$$$": 2, "a$": 3}),
    ({1: "a", "b": 2}, {"$map": [[1, "a"], ["b", 2]]}),
    ({}, {}),
    ("a\ud800", {"$str": "Ye2ggA=="}),
    (
        Opaque("pickle", 3, "ab", "not read"),
        {"$opaque": {"type": "pickle", "bytes": 3, "sha256": "ab", "reason": "not read"}},
    ),
    (Cut([1], 99, "long"), {"$cut": {"kept": [1], "bytes": 99, "reason": "long"}}),
]


@pytest.mark.parametrize(("value", "form"), CASES)
def test_forms(value: Value, form: Json) -> None:
    assert to_json(value) == form
    assert from_json(form) == value


@given(values)
def test_any_value_comes_back_from_printed_json(value: Value) -> None:
    text = json.dumps(to_json(value), allow_nan=False)
    assert same(from_json(json.loads(text)), value)


@given(values)
def test_the_form_prints_as_utf_8(value: Value) -> None:
    json.dumps(to_json(value), ensure_ascii=False).encode()


@pytest.mark.parametrize(
    ("form", "value"),
    [("1", 1), ("1.0", 1.0), ("-0.0", -0.0), ("0", 0), ("false", False), ("NaN", math.nan)],
)
def test_numbers_keep_their_kind(form: str, value: Value) -> None:
    read = from_json(json.loads(form))
    assert same(read, value)
    assert same(from_json(json.loads(json.dumps(to_json(read)))), value)


@pytest.mark.parametrize("value", [10**5000, -(10**5000)], ids=["positive", "negative"])
def test_integers_that_python_does_not_print(value: int) -> None:
    assert from_json(json.loads(json.dumps(to_json(value)))) == value


def test_nan() -> None:
    assert to_json(math.nan) == {"$float": "NaN"}


def test_a_value_deeper_than_the_stack() -> None:
    value: Value = 1
    for _ in range(50_000):
        value = [value]
    form = to_json(Tagged("m.C", {"a": value}))
    assert isinstance(from_json(form), Tagged)


@pytest.mark.parametrize(
    "form",
    [
        {"$unknown": 1},
        {"$set": 1},
        {"$tuple": {"a": 1}},
        {"$map": [[1]]},
        {"$map": [[[1], 2]]},
        {"$map": {"a": 1}},
        {"$bytes": "*"},
        {"$bytes": 1},
        {"$int": "x"},
        {"$int": "1" * 10_000},
        {"$float": "nan"},
        {"$str": "gA=="},
        {"$datetime": 1},
        {"$type": 1},
        {"$type": "m.C", "$args": 1},
        {"$type": "m.C", "$args": [], "a": 1},
        {"$args": []},
        {"$value": 1},
        {"$set": [], "a": 1},
        {"$set": [], "$tuple": []},
        {"$cut": 1},
        {"$opaque": {"type": "a"}},
    ],
)
def test_other_forms_are_refused(form: Json) -> None:
    with pytest.raises(ValueError, match=r".+"):
        from_json(form)


def same(one: Any, other: Any) -> bool:
    """Equal in kind too: 1, 1.0 and True differ, 0.0 and -0.0 differ, NaN equals itself."""
    if type(one) is not type(other):
        return False
    if isinstance(one, float):
        return repr(one) == repr(other)
    if isinstance(one, list):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same(
            [part for pair in one.items() for part in pair], [p for q in other.items() for p in q]
        )
    if isinstance(one, Tagged):
        return one.type == other.type and same(one.payload, other.payload)
    if isinstance(one, Cut):
        return (one.size, one.reason) == (other.size, other.reason) and same(one.kept, other.kept)
    return bool(one == other)
