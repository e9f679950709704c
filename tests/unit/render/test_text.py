"""Texts, sizes, times and records as a terminal and a program get them."""

import json
import unicodedata
from datetime import UTC, datetime, timedelta, timezone

from hypothesis import example, given
from hypothesis import strategies as st

from ckpt_backends.model import Status, Thread, make_id
from ckpt_cli.core.values import json_line
from ckpt_cli.queries.heads import Details, ListedThread
from ckpt_cli.render.table import age, optional_iso, size, when
from ckpt_cli.render.text import safe_json, safe_text
from ckpt_cli.render.threads import LISTED, thread_line
from tests.kit.cases import cases

anything = st.text(st.characters())
nasty = st.text(
    st.sampled_from("a\x1b\x9b\n\t\u202e\u200d\ufe0f\u2066😀❤👩🏽#\ud800\udc00\U000e0041")
)


@cases(
    "text safe",
    ("a\tb\nc\rd", r"a\tb\nc\rd"),
    ("\U000e0041\ue000\ufffe\U0001ffff\ud800", r"\U000e0041\ue000\ufffe\U0001ffff\ud800"),
    ("👩‍❤️‍👨 👍🏽 #️⃣ 🏳️‍🌈", "👩‍❤️‍👨 👍🏽 #️⃣ 🏳️‍🌈"),
    ("a\u200db a\ufe0f \u200d😀 😀\u200d", r"a\u200db a\ufe0f \u200d😀 😀\u200d"),
    ("\u3164\u115f\u034f", r"\u3164\u115f\u034f"),
)
def test_escapes(text: str, safe: str) -> None:
    assert safe_text(text) == safe


def test_lines_may_stay_and_json_keeps_its_escapes() -> None:
    assert safe_text("a\n\tb\r\x1b", newlines=True) == "a\n\tb\\r\\x1b"
    assert (
        safe_json('"\u202e\x9b\U000e0001 中 👩‍❤️‍👨"\n')
        == '"\\u202e\\u009b\\udb40\\udc01 中 👩‍❤️‍👨"\n'
    )


BAD = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
HIDDEN = {"\u115f", "\u1160", "\u3164", "\uffa0"}


@given(anything | nasty, st.booleans())
@example("a\ufe0f\u200d😀", False)
@example("\u200d\u200d😀", False)
def test_nothing_is_left_that_a_terminal_obeys_or_hides(text: str, newlines: bool) -> None:
    safe = safe_text(text, newlines=newlines)
    assert safe_text(safe, newlines=newlines) == safe
    for character in safe_text(text):
        assert character == "\u200d" or unicodedata.category(character) not in BAD


def test_characters_are_escaped_by_their_categories_and_letters_stay() -> None:
    for code, character in enumerate(map(chr, range(0x110000))):
        category = unicodedata.category(character)
        if category in BAD or code & 0xFFFE == 0xFFFE:
            assert safe_text(character) != character, hex(code)
        elif code >= 0x20 and category[0] in "LNPS" and character not in HIDDEN:
            assert safe_text(character) == character, hex(code)


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


NOW = datetime(2026, 11, 21, 22, 8, 31, tzinfo=UTC)


@cases(
    "n text",
    (1023, "1023 B"),
    (1024, "1.0 KiB"),
    (10 * 1024, "10 KiB"),
    (1024**2 - 1, "1.0 MiB"),
    (5 * 1024**5, "5120 TiB"),
)
def test_sizes_are_iec(n: int, text: str) -> None:
    assert size(n) == text


@cases(
    "moment text",
    (NOW, "Nov 21 22:08:31"),
    (datetime(2026, 4, 7, 9, 5, 0, tzinfo=UTC), "Apr  7 09:05:00"),
    (datetime(2025, 12, 31, 23, 59, 59, tzinfo=UTC), "Dec 31 2025 23:59:59"),
    (datetime(2026, 1, 1, 1, 0, tzinfo=timezone(timedelta(hours=2))), "Dec 31 2025 23:00:00"),
    (datetime(2026, 12, 31, 23, 0, tzinfo=UTC), "Dec 31 23:00:00"),
)
def test_the_year_is_shown_if_it_is_not_this_one(moment: datetime, text: str) -> None:
    assert when(moment, NOW, UTC) == text
    assert when(NOW, NOW, timezone(timedelta(hours=3))) == "Nov 22 01:08:31"


@cases(
    "seconds text",
    (0, "0s"),
    (59.9, "59s"),
    (60, "1m"),
    (3 * 3600 + 59, "3h"),
    (65 * 86400, "2mo"),
    (86400, "1d"),
    (13 * 86400, "1w"),
    (800 * 86400, "2y"),
    (-300, "in 5m"),
    (-0.5, "0s"),
)
def test_ages_are_in_one_unit(seconds: float, text: str) -> None:
    assert age(NOW - timedelta(seconds=seconds), NOW) == text


_ANY_TEXT = st.text(st.characters(), max_size=8)
_IDS = st.builds(make_id, st.integers(0, 2**60 - 1), st.integers(-1, 8191), st.integers(0, 99))
_CHECKPOINTS = st.none() | _ANY_TEXT | _IDS
_PLACES = _CHECKPOINTS | st.datetimes(timezones=st.just(UTC))
_NUMBERS = st.integers(0, 20_000)
_THREADS = st.builds(
    Thread, _ANY_TEXT, _CHECKPOINTS, _PLACES, _PLACES, _NUMBERS, _NUMBERS, st.none() | _ANY_TEXT
)
_DETAILS = st.just(Details((Status.EMPTY,), None, None))


@given(st.builds(ListedThread, _THREADS, st.none() | _DETAILS, st.none() | _ANY_TEXT))
def test_a_line_is_the_json_of_the_record(row: ListedThread) -> None:
    told = LISTED.record(row)
    assert thread_line(row) == json_line(told)
    assert told["last_at"] == optional_iso(row.thread.last_at)
