"""The editor of a value: whatever it is and does, the screen stays and the store too."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.errors import CkptError, UsageError
from ckpt_backends.testing.screen import Seat, sit
from ckpt_cli.tui import writing
from ckpt_cli.tui.writing import edit, editor_of
from tests.tui.test_terminal import Terminal, start, terminal  # noqa: F401

pytestmark = pytest.mark.slow


def script(folder: Path, text: str) -> str:
    """An editor that runs a few lines of Python on `path`."""
    path = folder / "editor.py"
    path.write_text(
        f"import os, sys\nfrom pathlib import Path\npath = Path(sys.argv[-1])\n{text}\n"
    )
    return f"{sys.executable} {path}"


def edited_with(
    sample: Path, monkeypatch: pytest.MonkeyPatch, command: str, words: str, name: str = "VISUAL"
) -> None:
    """Edit a value on the screen, and see that it says something and that nothing else happens."""
    monkeypatch.delenv("VISUAL", raising=False)
    monkeypatch.setenv(name, command)
    before = sample.read_bytes()

    async def work(seat: Seat) -> None:
        monkeypatch.setattr(seat.app, "suspend", nullcontext)
        await seat.press("enter", "F", "tab")
        await seat.type("itinerary")
        await seat.press("enter")
        await seat.until(lambda: words in seat.said)
        assert seat.sees("WRITE")
        await seat.press("escape")
        assert seat.sees("8 threads")

    sit(sample, work, writes=True)
    assert sample.read_bytes() == before


NO_EDITORS = [
    ("false", "the editor 'false' ended with exit code 1; nothing was changed"),
    ('vim "', "cannot run the editor in EDITOR: no closing quotation; export EDITOR=vim"),
    ("vim \\", "cannot run the editor in EDITOR: no escaped character"),
    ("no-such-editor -f", "cannot run the editor 'no-such-editor': no such file or directory"),
    ("/", "cannot run the editor '/': permission denied"),
    ("'' x", "cannot run the editor ''"),
]
"""The value of `EDITOR`, and what is said of it."""
NO_VALUES = [
    ("path.write_bytes(b'x' * 5000)", "the edited value: it is longer than 4000 bytes"),
    ("os.kill(os.getpid(), 9)", "ended with SIGKILL; nothing was changed"),
    ("path.unlink()", "cannot read the edited value: no such file or directory"),
    ("path.write_bytes(b'\\xff')", "cannot read the edited value: it is not UTF-8"),
    ("path.unlink(); os.mkfifo(path)", "cannot read the edited value: it is a FIFO"),
    ("path.unlink(); path.mkdir()", "cannot read the edited value: it is a folder"),
    ("path.unlink(); path.symlink_to('/dev/zero')", "the edited value: it is a device"),
]
"""What an editor does with the file, and what is said of it."""


def first_shown(cases: list[tuple[str, str]]) -> list[Any]:
    """Return cases for `parametrize`: the screen shows the others in the same way as the first."""
    first, *others = cases
    return [first, *(pytest.param(one, marks=pytest.mark.slow) for one in others)]


UNCHANGED = ("pass", "the value was not changed; nothing to do")


@pytest.mark.parametrize(("command", "words"), NO_EDITORS)
def test_an_editor_that_cannot_be_run_is_named(command: str, words: str) -> None:
    with pytest.raises(CkptError) as raised:
        edit(editor_of({"EDITOR": command}), "text")
    assert words in f"{raised.value}; {raised.value.hint}"


@pytest.mark.parametrize(("text", "words"), NO_VALUES)
def test_what_an_editor_leaves_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, words: str
) -> None:
    monkeypatch.setattr(writing, "_LONGEST_EDIT", 4000)
    with pytest.raises(CkptError) as raised:
        edit(script(tmp_path, text).split(), "text")
    assert words in str(raised.value)


@pytest.mark.parametrize("case", first_shown(NO_EDITORS), ids=str)
def test_an_editor_that_cannot_be_run(
    sample: Path, monkeypatch: pytest.MonkeyPatch, case: tuple[str, str]
) -> None:
    command, words = case
    edited_with(sample, monkeypatch, command, words, "EDITOR")


@pytest.mark.parametrize("case", [UNCHANGED, *first_shown(NO_VALUES)], ids=str)
def test_an_editor_that_leaves_no_value(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: tuple[str, str]
) -> None:
    text, words = case
    monkeypatch.setattr(writing, "_LONGEST_EDIT", 4000)
    edited_with(sample, monkeypatch, script(tmp_path, text), words)


@pytest.mark.parametrize(
    ("variables", "command"),
    [
        ({}, ["vi"]),
        ({"VISUAL": " ", "EDITOR": ""}, ["vi"]),
        ({"VISUAL": "\t", "EDITOR": "nano -w"}, ["nano", "-w"]),
        ({"VISUAL": "code --wait", "EDITOR": 'vim "'}, ["code", "--wait"]),
    ],
)
def test_a_blank_variable_is_like_none(variables: dict[str, str], command: list[str]) -> None:
    assert editor_of(variables) == command


def test_a_broken_variable_is_named() -> None:
    with pytest.raises(UsageError, match="the editor in VISUAL"):
        editor_of({"VISUAL": "vim '", "EDITOR": "vim"})


@pytest.mark.parametrize("text", ["plain\n", "\ud800", "値"])
def test_a_text_comes_back_as_it_is(text: str) -> None:
    assert edit(["true"], text) == text


def test_the_draft_is_private_and_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    log = tmp_path / "log"
    lines = f"""
modes = [oct(one.stat().st_mode & 0o777) for one in (path, path.parent)]
Path({str(log)!r}).write_text(" ".join(modes))
(path.parent / ".value.json.swp").touch()
"""
    before = os.umask(0)
    try:
        edit(script(tmp_path, lines).split(), "secret")
    finally:
        os.umask(before)
    assert log.read_text() == "0o600 0o700"
    assert not list(tmp_path.glob("ckpt-*"))


def test_ctrl_c_is_left_to_the_editor(tmp_path: Path) -> None:
    """The terminal sends it to `ckpt` too, which must not end or kill the editor."""
    lines = """
import signal
signal.signal(signal.SIGINT, lambda *_: path.write_text("saved"))
signal.raise_signal(signal.SIGINT)
os.kill(os.getppid(), signal.SIGINT)
"""
    before = signal.getsignal(signal.SIGINT)
    assert edit(script(tmp_path, lines).split(), "text") == "saved"
    assert signal.getsignal(signal.SIGINT) is before


def test_an_editor_ends_with_ckpt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    child = tmp_path / "child"
    lines = f"""
import signal
open({str(child)!r}, "w").write(str(os.getpid()))
os.kill(os.getppid(), signal.SIGUSR1)
while True:
    signal.pause()
"""

    def end(*_: object) -> None:
        raise SystemExit(143)

    before = signal.signal(signal.SIGUSR1, end)
    try:
        with pytest.raises(SystemExit):
            edit(script(tmp_path, lines).split(), "text")
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert not list(tmp_path.glob("ckpt-*"))
    with pytest.raises(ProcessLookupError):
        os.kill(int(child.read_text()), 0)


def test_without_a_folder_for_the_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(CkptError, match="cannot make a temporary folder"):
        edit(["true"], "text")


def test_a_screen_that_is_told_to_end_restores_the_terminal(
    terminal: Terminal,  # noqa: F811
    sample: Path,
    tmp_path: Path,
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    start(terminal, sample, TMPDIR=str(temporary), before=("--copy",))
    assert list(temporary.glob("ckpt-*/copy.db"))
    terminal.tell_program(signal.SIGTERM)
    assert "8 threads" not in terminal.until(lambda text: "ended with 143" in text)
    assert list(temporary.iterdir()) == []


def test_a_screen_that_is_told_to_end_while_a_value_is_edited(
    terminal: Terminal,  # noqa: F811
    sample: Path,
    tmp_path: Path,
) -> None:
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    command = script(
        tmp_path, "import signal\nprint('draft open', flush=True)\nwhile True: signal.pause()"
    )
    start(terminal, sample, "--write", VISUAL=command, TMPDIR=str(temporary))
    terminal.press("Enter")
    terminal.press("F")
    terminal.until(lambda text: "Channel to edit" in text)
    terminal.press("-l", "to-nara")
    terminal.until(lambda text: "to-nara" in text)
    terminal.press("Tab")
    terminal.press("-l", "destination")
    terminal.until(lambda text: "destination" in text and "booking, budget" not in text)
    terminal.press("Enter")
    terminal.until(lambda text: "draft open" in text)
    assert list(temporary.glob("ckpt-*/value.json"))
    terminal.tell_program(signal.SIGTERM)
    terminal.until(lambda text: "ended with 143" in text)
    assert list(temporary.iterdir()) == []
