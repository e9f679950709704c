"""Texts, sizes, times, records and printed commands, as terminals, programs and shells get them."""

import os
import subprocess
import sys
import unicodedata
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ckpt_backends.model import Status, Thread, make_id, ticks_at
from ckpt_backends.shell import command, name, word
from ckpt_cli.core.values import json_line
from ckpt_cli.queries.heads import Details, ListedThread
from ckpt_cli.render.table import age, optional_iso, size, when
from ckpt_cli.render.text import command_field, safe_json, safe_text
from ckpt_cli.render.threads import LISTED, thread_line
from tests.kit.cases import cases


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
    assert command_field("undo", "ckpt \x1b\u202e").text == r"undo     ckpt \x1b\u202e"
    assert (
        safe_json('"\u202e\x9b\U000e0001 中 👩‍❤️‍👨"\n')
        == '"\\u202e\\u009b\\udb40\\udc01 中 👩‍❤️‍👨"\n'
    )


BAD = ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
HIDDEN = {"\u115f", "\u1160", "\u3164", "\uffa0"}


def test_characters_are_escaped_by_their_categories_and_letters_stay() -> None:
    for code, character in enumerate(map(chr, range(0x110000))):
        category = unicodedata.category(character)
        if category in BAD or code & 0xFFFE == 0xFFFE:
            assert safe_text(character) != character, hex(code)
        elif code >= 0x20 and category[0] in "LNPS" and character not in HIDDEN:
            assert safe_text(character) == character, hex(code)


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


ID, DETAILS = make_id(ticks_at(NOW), 3, 7), Details((Status.EMPTY,), None, None)


@cases(
    "row",
    ListedThread(Thread("t", None, None, None, 0, 0, None), None, None),
    ListedThread(Thread('"\x1b\u202e日', ID, ID, NOW, 20_000, 3, "anna"), DETAILS, "why\n"),
    ListedThread(Thread("\ud800", "x", "no id", ID, 1, 1, ""), DETAILS, None),
    ids=["bare", "full", "odd"],
)
def test_a_line_is_the_json_of_the_record(row: ListedThread) -> None:
    told = LISTED.record(row)
    assert thread_line(row) == json_line(told)
    assert told["last_at"] == optional_iso(row.thread.last_at)


words = st.text(
    st.one_of(
        st.sampled_from("ab'\\\"`$!-=~ \n\u034f\u1160\u3164\ufe0f\u200d\u0301e\x9b\udc80\0"),
        st.characters(),
    )
)


@cases(
    "text expected",
    ("user-42", "user-42"),
    ("plan=JSON", "plan=JSON"),
    ("", "''"),
    ("a\\'b", """'a'\\\\"'"'b'"""),
    ("=ls", "'=ls'"),
    ("a==b", "'a==b'"),
    ("%self", "'%self'"),
    ("a`b", r"$'a\140b'"),
    ("a\nb", r"$'a\012b'"),
    ("e\u0301", r"$'e\314\201'"),
    ("a\udcffb", r"$'a\377b'"),
)
def test_a_word(text: str, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/bin/bash")
    assert word(text) == expected


def test_fish_has_other_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SHELL", "/usr/bin/fish")
    assert (word("a`b\né"), word("it's é")) == (r"a\X60b\X0a\Xc3\Xa9", """'it'"'"'s é'""")


def test_names_are_quoted_and_ids_are_not_options() -> None:
    assert [name(one) for one in ("user-42", "user 42", "")] == ["'user-42'", "'user 42'", "''"]
    assert command("ckpt", "show", "--tree", ids=["user-42"]) == "ckpt show --tree user-42"
    assert command("ckpt", "diff", ids=["a", "-rf"]) == "ckpt diff -- a -rf"
    assert command("ckpt", "-s", "-x.db", "undo", ids=["-"]) == "ckpt -s -x.db undo -- -"


@pytest.mark.parametrize("text", ["a\0b", "\ud800", "\udcc3\udca9"])
def test_what_no_program_can_get_is_no_command(text: str) -> None:
    """A shell would cut it at NUL. The last one is read as another text: 'é'."""
    line = command("ckpt", "undo", ids=[text])
    assert line == "# no command can name it: it holds NUL or half of a surrogate pair"


@pytest.mark.parametrize("shell", ["/bin/zsh", "/usr/bin/fish"])
@given(words, st.booleans())
@example("\ud800", True)
@example("\U0001f469\u200d\U0001f680", False)
def test_a_terminal_shows_each_word_as_it_is(shell: str, text: str, bare: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHELL", shell)
        shown = word(text) if bare else name(text)
        assert safe_text(shown) == shown
        assert shown.isprintable()
        assert "`" not in shown
        assert unicodedata.is_normalized("NFC", shown)
        line = command("ckpt", "show", ids=[text])
        assert safe_text(line) == line


def test_a_character_that_the_output_lacks_is_escaped() -> None:
    program = "from ckpt_backends.shell import word; print(word('é'), word('a b'))"
    environment = {**os.environ, "SHELL": "/bin/sh", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "1"}
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, env=environment
    )
    assert found.stdout.decode() == "$'\\303\\251' 'a b'\n"
