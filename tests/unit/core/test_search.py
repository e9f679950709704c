"""Text found in values, and the bytes in which it may stand."""

import json
import re
import string
import sys
from datetime import date, timedelta
from decimal import Decimal
from typing import Any

import numpy
import ormsgpack
import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from ckpt_backends.codec import decode
from ckpt_backends.codec.stored import (
    ARRAY,
    TEXT_ARRAY,
    StoredTexts,
    is_findable,
    is_findable_in_any_case,
)
from ckpt_backends.codec.values import Cut, Tagged, Value
from ckpt_backends.model import TypedBytes
from ckpt_cli.core.search import (
    Match,
    SeenMatches,
    appended_from,
    compile_pattern,
    needed_texts,
    new_matches,
    search,
)
from ckpt_cli.core.values import format_path

ANY = compile_pattern("", fixed=False, ignore_case=False)


def found(
    value: Value, pattern: str, *, fixed: bool = False, ignore_case: bool = False
) -> list[tuple[str, str]]:
    find = compile_pattern(pattern, fixed=fixed, ignore_case=ignore_case)
    return [(format_path(match.path), match.line) for match in search(value, find) if match]


def test_lines_are_found_at_any_depth_in_order() -> None:
    value: Value = {
        "a": ["x one", {"b": Tagged("m.C", {"c": "two\none more"})}],
        "n": 41,
        "when": Tagged("datetime.datetime", "2026-04-01"),
        "cut": Cut(["one"], 99, "long"),
    }
    assert found(value, "one") == [("a[0]", "x one"), ("a[1].b.c", "one more"), ("cut[0]", "one")]
    assert (found(value, "^4"), found(value, "2026")) == ([("n", "41")], [("when", "2026-04-01")])
    # No recursion is as deep.
    value = "needle"
    for _ in range(5000):
        value = [value]
    assert len(found(value, "needle")) == 1


def matches(value: Value, first: int = 0) -> list[Match]:
    found = [one for one in search(value, ANY, first) if one is not None]
    return [one for one in found if one.path[-1:] not in [("id",), ("role",)]]


def told(*states: Value) -> list[list[str]]:
    """What is told of states that follow each other, of which only what was appended is read."""
    known = SeenMatches()
    lines: list[list[str]] = []
    before: Value = None
    for state in states:
        first = appended_from(before, state)
        fresh = new_matches("c", matches(state, first), known, added=first > 0)
        lines.append([match.line for match in fresh])
        before = state
    return lines


@given(st.lists(st.lists(st.sampled_from("abc"), max_size=5), max_size=5))
def test_nothing_is_told_twice_and_nothing_is_left_out(states: list[list[str]]) -> None:
    lines = told(*[list[Value](state) for state in states])
    everything = [line for one in lines for line in one]
    for letter in "abc":
        most = max((state.count(letter) for state in states), default=0)
        assert everything.count(letter) == most


PIECES = ["g", "p", "qo", "4", "é", ".", r"\.", r"\d", r"\w", "[gp]", "[^q]", "(g)", "(?:pq)"]
pieces = st.sampled_from(PIECES)
ends = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{0,1}", "+?"])
patterns = st.lists(
    st.lists(st.tuples(pieces, ends).map("".join), min_size=1, max_size=5).map("".join),
    min_size=1,
    max_size=2,
).map("|".join)


@given(st.data(), patterns, st.booleans())
def test_matches_contain_a_text(data: st.DataObject, pattern: str, in_group: bool) -> None:
    if in_group:
        pattern = f"p({pattern})gg"
    line = data.draw(st.from_regex(pattern))
    texts = needed_texts(pattern, fixed=False, ignore_case=False)
    assert not texts or any(text in line for text in texts), (pattern, line, texts)


EXACT = {
    "order 4711": ["order 4711"],
    r"refund \d+ of customer": [" of customer"],
    "Hotel.*Kanra|Ryokan": ["Hotel", "Ryokan"],
    "go+gle": ["gle"],
    r"Kanra\.txt|\[log\]": ["Kanra.txt", "[log]"],
    "x?order": ["order"],
    "pay(pal)?now": ["pay"],
    "[0-9]+ kg": [" kg"],
    **{one: [one] for one in ("4711", "2026-04-01", "cafe")},
    **{one: [] for one in ("471", "true", "Kanra|[0-9]+", "(?i)kanra", r"\x4banra", "")},
    'say "hello"': [],
}
IN_ANY_CASE = {
    # No letter that has another case outside of ASCII.
    "REFUND|Chargeback": ["refund", "chargebac"],
    **{"Kanra": ["anra"], "skis": [], "naïve plan": ["ve plan"], "true": []},
    **{one: [one] for one in ("4711", "order 4711")},
}


@pytest.mark.parametrize(("pattern", "expected"), EXACT.items())
def test_the_longest_text_of_each_alternative_is_needed(pattern: str, expected: list[str]) -> None:
    assert needed_texts(pattern, fixed=False, ignore_case=False) == tuple(expected)


@pytest.mark.parametrize(("pattern", "expected"), IN_ANY_CASE.items())
def test_texts_are_needed_in_any_case(pattern: str, expected: list[str]) -> None:
    assert needed_texts(pattern, fixed=False, ignore_case=True) == tuple(expected)


@pytest.mark.parametrize("library", [re, regex])
def test_a_letter_of_such_a_text_has_no_other_case_outside_of_ascii(library: Any) -> None:
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    letters = "".join(filter(is_findable_in_any_case, string.ascii_letters))
    assert set(library.findall(f"[{letters}]", every, library.IGNORECASE)) == set(letters)


def test_plain_texts_are_needed_and_values_of_other_types_may_hold_them() -> None:
    assert needed_texts("a.*Z?", fixed=True, ignore_case=False) == ("a.*Z?",)
    wanted = StoredTexts(["Kanra"])
    for tag in ("pickle", "msgpack+aes", "redis-json", "merged"):
        assert wanted.may_be_in(tag, b"")
    assert not wanted.may_be_in("msgpack", b"\xa5kanra")
    assert not wanted.may_be_in("null", b"")
    assert wanted.may_be_in("msgpack", b"\xa5Kanra")
    assert StoredTexts(["anra"], ignore_case=True).may_be_in("msgpack", b"\xa5KANRA")
    numbers = [1, 200, 70_000, 1 << 40, -5, 0.25, 1e300, Decimal("12.34")]
    value = [*numbers, "4711 boats", "δ" * 100, b"\xcf\xcb", timedelta(9), date(2026, 4, 1)]
    (text,) = needed_texts("98765432101", fixed=True, ignore_case=False)
    _, stored = JSON.dumps_typed(value)
    assert not StoredTexts([text]).may_be_in("msgpack", stored)
    assert not StoredTexts([text]).may_be_in("json", json.dumps(value, default=str).encode())


def test_arrays_of_texts_have_their_mark() -> None:
    for shape in ([], [3], [2, 2]):
        for order in "<>":
            array = numpy.full(shape, "Kanra").astype(f"{order}U5")
            _, stored = JsonPlusSerializer().dumps_typed([array])
            assert ARRAY in stored
            assert any(one in stored for one in TEXT_ARRAY)
            assert re.search(b"Kanra", stored) is None
            assert StoredTexts(["Kanra"]).may_be_in("msgpack", stored)
    _, number = JsonPlusSerializer().dumps_typed({"a": 0x0694, "b": "U"})
    assert ARRAY in number
    assert not StoredTexts(["Kanra"]).may_be_in("msgpack", number)


JSON = JsonPlusSerializer()
integers = st.integers(-(1 << 63), (1 << 64) - 1) | st.integers(-300, 70_000)
EDGES = [(2**bits - 1, -(2 ** (bits - 1))) for bits in (8, 16, 32, 64)]
limits = st.sampled_from([one for pair in EDGES for one in pair])
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
said = st.builds(json.dumps, values.map(repr) | texts, ensure_ascii=st.booleans())
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


@given(st.data(), json_texts | spelled | dates | said)
def test_every_part_of_a_value_in_json_is_found(data: st.DataObject, text: str) -> None:
    check(TypedBytes("json", text.encode()), data)


@given(st.binary(max_size=60), st.integers(0, 9), integers | floats | limits)
def test_a_number_is_found_wherever_it_stands(noise: bytes, pad: int, number: float) -> None:
    stored = noise + b"\xcf" * pad + ormsgpack.packb(number) + noise
    for text in {repr(number), repr(abs(number)), repr(number)[1:]}:
        assert not is_findable(text) or StoredTexts([text]).may_be_in("msgpack", stored), text


@pytest.mark.parametrize("number", [65_536, 12_345_678_901, -(1 << 60), 0.12345])
@pytest.mark.parametrize("before", [(1 << 16) - 9, (1 << 16) - 4, (1 << 16) - 1, 1 << 16])
def test_a_number_is_found_where_two_parts_of_a_long_value_meet(before: int, number: float) -> None:
    stored = bytes(before) + ormsgpack.packb(number) + bytes(1 << 17)
    assert StoredTexts([repr(number)]).may_be_in("msgpack", stored)
    assert not StoredTexts(["424242424242"]).may_be_in("msgpack", stored)


def test_a_branch_does_not_know_what_another_one_told() -> None:
    known = SeenMatches()
    new_matches("c", matches(["x"]), known, added=False)
    left = new_matches("c", matches(["x", "y"]), known.copy(), added=False)
    right = new_matches("c", matches(["x", "y"]), known, added=False)
    assert [one.line for one in left] == [one.line for one in right] == ["y"]
