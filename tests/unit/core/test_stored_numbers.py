"""A searched part of a number or a date is found in stored bytes, which hold it in another form."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Any

import numpy
import ormsgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from ckpt_backends.codec import decode
from ckpt_backends.codec.stored import StoredTexts, is_findable, is_findable_in_any_case
from ckpt_backends.model import TypedBytes
from ckpt_cli.core.search import compile_pattern, needed_texts, search

JSON = JsonPlusSerializer()
integers = st.integers(-(1 << 63), (1 << 64) - 1) | st.integers(-300, 70_000)
floats = st.floats() | st.floats(width=32) | st.integers(0, 10**18).map(float)
texts = st.text("0123456789.-+eE:T ηд\u00cf", max_size=12)
arrays = st.sampled_from([[1234, 5678], [0.12345], [True], [1 + 2345j], [99999]]).map(numpy.array)
leaves = (
    integers
    | floats
    | texts
    | st.binary(max_size=30)
    | st.booleans()
    | st.datetimes()
    | st.dates()
    | st.times()
    | st.timedeltas()
    | st.uuids()
    | st.decimals(allow_nan=False)
    | arrays
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)
spelled = st.from_regex(r"-?(0|[1-9]\d{0,24})(\.\d{1,20})?([eE][+-]?\d{1,2})?", fullmatch=True)
json_texts = st.lists(spelled, min_size=1, max_size=4).map(lambda some: f"[{', '.join(some)}]")
dates = st.lists(st.integers(1, 12), min_size=3, max_size=7).map(
    lambda numbers: json.dumps(
        {"lc": 2, "type": "constructor", "id": ["datetime", "datetime"], "args": numbers}
    )
)


def lines_of(typed: TypedBytes) -> list[str]:
    """Return every line of a value that can be searched."""
    every = compile_pattern("", fixed=True, ignore_case=False)
    return [one.line for one in search(decode(typed), every) if one is not None]


def check(typed: TypedBytes, data: st.DataObject) -> None:
    """Each part of each line is found, in any case too."""
    for line in lines_of(typed):
        start = data.draw(st.integers(0, max(len(line) - 1, 0)))
        part = line[start:][: data.draw(st.integers(1, 30))]
        # `true` and `false` are not stored as texts; `needed_texts` does not ask for them.
        if not is_findable(part) or part in "true" or part in "false":
            continue
        spellings = [(False, part)]
        if is_findable_in_any_case(part):
            spellings.append((True, part.upper()))
        for ignore_case, text in spellings:
            wanted = StoredTexts([text], ignore_case=ignore_case)
            assert wanted.may_be_in(typed.type, typed.data), (text, line)
            if typed.type == "msgpack" and wanted.marks:
                assert any(one in typed.data for one in wanted.marks), (text, line)


@given(st.data(), values)
def test_every_part_of_a_value_in_msgpack_is_found(data: st.DataObject, value: Any) -> None:
    tag, stored = JSON.dumps_typed({"a": value})
    if tag == "msgpack":
        check(TypedBytes(tag, stored), data)


@given(st.data(), json_texts | spelled | dates | values.map(repr).map(json.dumps))
def test_every_part_of_a_value_in_json_is_found(data: st.DataObject, text: str) -> None:
    check(TypedBytes("json", text.encode()), data)


@given(st.binary(max_size=60), st.integers(0, 9), integers | floats)
def test_a_number_is_found_wherever_it_stands(noise: bytes, pad: int, number: float) -> None:
    stored = noise + b"\xcf" * pad + ormsgpack.packb(number) + noise
    assert StoredTexts([repr(number)]).may_be_in("msgpack", stored)


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_the_longest_numbers_of_each_size_are_found(bits: int) -> None:
    for number in (2**bits - 1, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))):
        stored = ormsgpack.packb(number)
        for text in (str(number), str(abs(number)), str(number)[1:]):
            assert StoredTexts([text]).may_be_in("msgpack", stored), text


@pytest.mark.parametrize("number", [65_536, 12_345_678_901, -(1 << 60), 0.12345])
@pytest.mark.parametrize("before", [(1 << 16) - 9, (1 << 16) - 4, (1 << 16) - 1, 1 << 16])
def test_a_number_is_found_where_two_parts_of_a_long_value_meet(before: int, number: float) -> None:
    stored = bytes(before) + ormsgpack.packb(number) + bytes(1 << 17)
    assert StoredTexts([repr(number)]).may_be_in("msgpack", stored)
    assert not StoredTexts(["424242424242"]).may_be_in("msgpack", stored)


def test_a_long_integer_in_json_is_found_in_the_form_in_which_it_is_shown() -> None:
    typed = TypedBytes("json", b"[" + b"7" * 3500 + b"]")
    (line,) = lines_of(typed)
    found = re.findall(r"[0-9]{4,}|[0-9a-f]{9}", line)
    assert found
    assert all(StoredTexts([one]).may_be_in("json", typed.data) for one in found)


@pytest.mark.parametrize(
    "value",
    [
        {"a": [1, 200, 70_000, 1 << 40, -5, 0.25, 1e300], "b": "4711 boats", "c": b"\xcf\xcb"},
        {
            "at": datetime(2026, 4, 1, tzinfo=UTC),
            "on": date(2026, 4, 1),
            "t": time(1, 2),
            "d": timedelta(9),
        },
        {"price": Decimal("12.34"), "η": "δ" * 100},
    ],
)
def test_bytes_rule_out_digits_that_no_number_has(value: Any) -> None:
    (text,) = needed_texts("98765432101", fixed=True, ignore_case=False)
    _, stored = JSON.dumps_typed(value)
    assert not StoredTexts([text]).may_be_in("msgpack", stored)
    encoded = json.dumps(value, default=str).encode()
    assert not StoredTexts([text]).may_be_in("json", encoded)
