"""The editor of a value: whatever it is and does, the screen stays and the store too."""

import os
import signal
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from ckpt_backends.errors import CkptError, UsageError
from ckpt_backends.testing.screen import sitting
from ckpt_cli.tui import writing
from ckpt_cli.tui.writing import edit, editor_of
from tests.kit.cases import cases

pytestmark = pytest.mark.engines


def script(folder: Path, text: str) -> str:
    """An editor that runs a few lines of Python on `path`."""
    path = folder / "editor.py"
    path.write_text(
        f"import os, sys\nfrom pathlib import Path\npath = Path(sys.argv[-1])\n{text}\n"
    )
    return f"{sys.executable} {path}"


NO_VALUES = [
    ("path.write_bytes(b'x' * 5000)", "the edited value: it is longer than 4000 bytes"),
    ("os.kill(os.getpid(), 9)", "ended with SIGKILL; nothing was changed"),
    ("path.unlink()", "cannot read the edited value: no such file or directory"),
    ("path.write_bytes(b'\\xff')", "cannot read the edited value: it is not UTF-8"),
    ("path.unlink(); os.mkfifo(path)", "cannot read the edited value: it is a FIFO"),
    ("path.unlink(); path.symlink_to('/dev/zero')", "the edited value: it is a device"),
]
"""What an editor does with the file, and what is said of it."""


@cases(
    "command words",
    ("false", "the editor 'false' ended with exit code 1; nothing was changed"),
    ('vim "', "cannot run the editor in EDITOR: no closing quotation; export EDITOR=vim"),
    ("no-such-editor -f", "cannot run the editor 'no-such-editor': no such file or directory"),
    ("/", "cannot run the editor '/': permission denied"),
    ("'' x", "cannot run the editor ''"),
)
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


async def test_the_screen_says_what_an_editor_leaves_and_changes_nothing(
    sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writing, "_LONGEST_EDIT", 4000)
    before = sample.read_bytes()
    unchanged = "the value was not changed"
    # A text that is not JSON comes again; left as it is, it is not started for ever.
    garbling = """
log = Path(__file__).with_suffix(".log")
log.write_text((log.read_text() if log.exists() else "") + (before := path.read_text()))
if "garbage" not in before: path.write_text(before + "garbage")
"""
    async with sitting(sample, writes=True) as seat:
        monkeypatch.setattr(seat.app, "suspend", nullcontext)
        await seat.press("enter")
        for text, words in (
            (None, "the editor 'false' ended with exit code 1"),
            ("pass", f"{unchanged}; nothing to do"),
            NO_VALUES[0],
            (garbling, unchanged),
        ):
            monkeypatch.setenv("VISUAL", "false" if text is None else script(tmp_path, text))
            await seat.press("F")
            await seat.fill("tab", "itinerary")
            await seat.hear("", words)
            assert seat.sees("WRITE")
            await seat.see("escape", "8 threads")
    assert sample.read_bytes() == before
    first, again = (tmp_path / "editor.log").read_text().split("# this is not JSON: ")
    assert first.startswith("# The value of 'itinerary' as JSON.\n")
    # The line is named as the editor counts.
    lines = ("# this is not JSON: " + again).splitlines()
    assert f"line {lines.index('garbage') + 1} column 1 " in lines[0]


def test_a_blank_variable_is_like_none_and_a_broken_one_is_named() -> None:
    assert editor_of({}) == editor_of({"VISUAL": " ", "EDITOR": ""}) == ["vi"]
    assert editor_of({"VISUAL": "\t", "EDITOR": "nano -w"}) == ["nano", "-w"]
    assert editor_of({"VISUAL": "code --wait", "EDITOR": 'vim "'}) == ["code", "--wait"]
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


def test_without_a_folder_for_the_draft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    with pytest.raises(CkptError, match="cannot make a temporary folder"):
        edit(["true"], "text")
