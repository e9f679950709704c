"""Commands that are printed: what a shell reads in them is what was meant."""

import os
import shlex
import subprocess
import sys
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ckpt_backends.shell import command, name, word
from ckpt_cli.render.text import safe_text
from tests.kit.cases import cases

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


@given(words)
def test_each_word_reads_as_itself(text: str) -> None:
    """As Python reads a POSIX shell's words; real shells read them in the tests of security."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SHELL", "/bin/bash")
        shown = word(text)
        if not shown.startswith("$'"):
            assert shlex.split(shown) == [text]
            return
        data = shown[2:-1].encode().decode("unicode_escape").encode("latin1")
        if "\0" not in text and os.fsdecode(data) == text:
            assert os.fsencode(text) == data


def test_a_character_that_the_output_lacks_is_escaped() -> None:
    program = "from ckpt_backends.shell import word; print(word('é'), word('a b'))"
    environment = {**os.environ, "SHELL": "/bin/sh", "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "1"}
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, check=True, env=environment
    )
    assert found.stdout.decode() == "$'\\303\\251' 'a b'\n"
