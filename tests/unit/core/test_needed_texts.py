"""The texts that a match needs, and how they stand in stored bytes."""

from __future__ import annotations

import json
import re

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from ckpt_backends.codec.stored_text import ARRAY, escape_in_json, is_findable
from ckpt_cli.core.search.needed import needed_texts

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
        ("4711", ()),
        ("2026-04-01", ()),
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


def test_a_plain_text_is_needed_as_it_is() -> None:
    assert needed_texts("a.*Z?", fixed=True, ignore_case=False) == ("a.*Z?",)
    assert needed_texts("Kanra", fixed=True, ignore_case=True) == ()


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


def test_arrays_of_texts_have_their_mark() -> None:
    for shape in ([], [3], [2, 2]):
        array = numpy.full(shape, "Kanra")
        _, stored = JsonPlusSerializer().dumps_typed([array])
        assert ARRAY in stored
        assert re.search(b"Kanra", stored) is None
