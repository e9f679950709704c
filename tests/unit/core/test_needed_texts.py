"""The texts that a match needs, and how they stand in stored bytes."""

from __future__ import annotations

import json
import re
import string
import sys
from typing import Any

import numpy
import pytest
import regex
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from ckpt_backends.codec.stored import (
    ARRAY,
    TEXT_ARRAY,
    StoredTexts,
    escape_in_json,
    is_findable,
    is_findable_in_any_case,
)
from ckpt_cli.core.search import needed_texts

WORDS = ["boat", "Tea", "KaNRa", "straße", "ſea", "İda", "7up"]
PIECES = ["g", "p", "qo", "4", "é", ".", r"\.", r"\d", r"\w", "[gp]", "[^q]", "(g)", "(?:pq)"]
pieces = st.sampled_from(PIECES)
ends = st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{0,1}", "+?"])
patterns = st.lists(
    st.lists(st.tuples(pieces, ends).map("".join), min_size=1, max_size=5).map("".join),
    min_size=1,
    max_size=2,
).map("|".join)


@given(st.data(), patterns, st.booleans())
def test_every_match_contains_one_of_the_texts(
    data: st.DataObject, pattern: str, in_group: bool
) -> None:
    if in_group:
        pattern = f"p({pattern})gg"
    line = data.draw(st.from_regex(pattern))
    texts = needed_texts(pattern, fixed=False, ignore_case=False)
    assert not texts or any(text in line for text in texts), (pattern, line, texts)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("order 4711", ("order 4711",)),
        (r"refund \d+ of customer", (" of customer",)),
        ("Hotel.*Kanra|Ryokan", ("Hotel", "Ryokan")),
        ("go+gle", ("gle",)),
        ("pay(pal)?now", ("pay",)),
        ("[0-9]+ kg", (" kg",)),
        ("4711", ("4711",)),
        ("471", ()),
        ("2026-04-01", ("2026-04-01",)),
        ("cafe", ("cafe",)),
        ("true", ()),
        ("Kanra|[0-9]+", ()),
        ("(?i)kanra", ()),
        (r"\x4banra", ()),
        ('say "hello"', ()),
        ("", ()),
    ],
)
def test_the_longest_text_of_each_alternative_is_needed(
    pattern: str, expected: tuple[str, ...]
) -> None:
    assert needed_texts(pattern, fixed=False, ignore_case=False) == expected


@given(st.data(), st.lists(st.sampled_from([*WORDS, *PIECES]), min_size=1, max_size=4).map("".join))
def test_every_match_in_any_case_contains_one_of_the_texts(
    data: st.DataObject, pattern: str
) -> None:
    line = data.draw(st.from_regex(re.compile(pattern, re.IGNORECASE)))
    texts = needed_texts(pattern, fixed=False, ignore_case=True)
    stored = line.encode("utf-8", "surrogatepass")
    assert not texts or StoredTexts(texts, ignore_case=True).may_be_in("msgpack", stored), (
        line,
        texts,
    )


@pytest.mark.parametrize("library", [re, regex])
def test_a_letter_of_such_a_text_has_no_other_case_outside_of_ascii(library: Any) -> None:
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    letters = "".join(filter(is_findable_in_any_case, string.ascii_letters))
    assert set(library.findall(f"[{letters}]", every, library.IGNORECASE)) == set(letters)


@pytest.mark.parametrize(
    ("pattern", "expected"),
    [
        ("REFUND|Chargeback", ("refund", "chargebac")),
        ("Kanra", ("anra",)),
        ("skis", ()),
        ("naïve plan", ("ve plan",)),
        ("true", ()),
        ("4711", ("4711",)),
        ("order 4711", ("order 4711",)),
    ],
)
def test_texts_in_any_case_have_no_letter_with_cases_outside_of_ascii(
    pattern: str, expected: tuple[str, ...]
) -> None:
    assert needed_texts(pattern, fixed=False, ignore_case=True) == expected


def test_a_plain_text_is_needed_as_it_is() -> None:
    assert needed_texts("a.*Z?", fixed=True, ignore_case=False) == ("a.*Z?",)


@given(st.text(), st.integers(0, 50), st.integers(1, 20))
def test_a_text_stands_in_stored_bytes(text: str, start: int, length: int) -> None:
    part = text[start % max(len(text), 1) :][:length]
    if not is_findable(part):
        return
    tag, stored = JsonPlusSerializer().dumps_typed({"a": [text]})
    assert tag == "msgpack"
    assert part.encode() in stored
    for is_ascii in (True, False):
        encoded = json.dumps([text], ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
        assert part.encode() in encoded or escape_in_json(part) in encoded
        assert StoredTexts([part]).may_be_in("json", encoded)
        assert StoredTexts([part]).may_be_in("redis-json", encoded)
    assert StoredTexts([part]).may_be_in(tag, stored)
    if is_findable_in_any_case(part):
        in_other_case = StoredTexts([part.swapcase()], ignore_case=True)
        assert in_other_case.may_be_in(tag, stored)


def test_values_of_other_types_may_hold_everything() -> None:
    wanted = StoredTexts(["Kanra"])
    for tag in ("pickle", "msgpack+aes", "redis-json", "merged"):
        assert wanted.may_be_in(tag, b"")
    assert not wanted.may_be_in("msgpack", b"\xa5kanra")
    assert not wanted.may_be_in("null", b"")


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
