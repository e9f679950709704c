from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ckpt_cli.render.text import safe_json, safe_text

anything = st.text(st.characters())
nasty = st.text(
    st.sampled_from("a\x1b\x9b\n\t\u202e\u200d\ufe0f\u2066😀❤👩🏽#\ud800\udc00\U000e0041")
)


@pytest.mark.parametrize(
    ("text", "safe"),
    [
        (
            "plain ASCII, [bold] 'quotes' \\ and 中文字 é",
            "plain ASCII, [bold] 'quotes' \\ and 中文字 é",
        ),
        ("\x1b[31m\x07\x00\x7f", r"\x1b[31m\x07\x00\x7f"),
        ("a\tb\nc\rd", r"a\tb\nc\rd"),
        ("\x9b31m", r"\x9b31m"),
        ("\u202eabc\u2066\u200f", r"\u202eabc\u2066\u200f"),
        ("\u2028\u2029\ufeff\u00ad\u200b", r"\u2028\u2029\ufeff\xad\u200b"),
        ("\U000e0041\ue000\ufffe\U0001ffff\ud800", r"\U000e0041\ue000\ufffe\U0001ffff\ud800"),
        ("👩‍❤️‍👨 👍🏽 #️⃣ 🏳️‍🌈", "👩‍❤️‍👨 👍🏽 #️⃣ 🏳️‍🌈"),
        ("a\u200db a\ufe0f \u200d😀 😀\u200d", r"a\u200db a\ufe0f \u200d😀 😀\u200d"),
        ("\u3164\u115f\u034f", r"\u3164\u115f\u034f"),
    ],
)
def test_escapes(text: str, safe: str) -> None:
    assert safe_text(text) == safe


def test_lines_may_stay() -> None:
    assert safe_text("a\n\tb\r\x1b", newlines=True) == "a\n\tb\\r\\x1b"


@given(anything | nasty, st.booleans())
@example("a\ufe0f\u200d😀", False)
@example("\u200d\u200d😀", False)
def test_twice_is_once(text: str, newlines: bool) -> None:
    safe = safe_text(text, newlines=newlines)
    assert safe_text(safe, newlines=newlines) == safe


@given(anything | nasty)
def test_nothing_is_left_that_a_terminal_obeys_or_hides(text: str) -> None:
    for character in safe_text(text):
        if character != "\u200d":
            assert unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")


def test_every_character_of_the_bad_categories_is_escaped() -> None:
    bad = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
    for code in range(0x110000):
        if unicodedata.category(chr(code)) in bad or code & 0xFFFE == 0xFFFE:
            assert safe_text(chr(code)) != chr(code), hex(code)


def test_letters_stay() -> None:
    hidden = {"\u115f", "\u1160", "\u3164", "\uffa0"}
    for code in range(0x20, 0x110000):
        if unicodedata.category(chr(code))[0] in "LNPS" and chr(code) not in hidden:
            assert safe_text(chr(code)) == chr(code), hex(code)


@given(
    st.recursive(
        anything | nasty | st.integers(), lambda x: st.lists(x) | st.dictionaries(nasty, x)
    )
)
def test_json_keeps_its_value(value: object) -> None:
    text = json.dumps(value, ensure_ascii=False)
    safe = safe_json(text)
    # Two lone surrogates in a row become one character, as in any JSON escape.
    assert json.loads(safe) == json.loads(json.dumps(value))
    assert safe_text(safe) == safe
    assert safe_json(safe) == safe


def test_json_escapes() -> None:
    assert (
        safe_json('"\u202e\x9b\U000e0001 中 👩‍❤️‍👨"\n')
        == '"\\u202e\\u009b\\udb40\\udc01 中 👩‍❤️‍👨"\n'
    )
