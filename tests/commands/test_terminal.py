"""What a person sees on a terminal: its size, the pager, the bar."""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.commands.words import refusals
from tests.kit.agents.small import Log, chain, run
from tests.kit.command import ckpt, later
from tests.kit.processes import PROGRAM
from tests.kit.terminal import QUICK, SLOW, ckpt_in_terminal, in_terminal


def paged(text: str) -> bool:
    return text.startswith("paged: ")


def test_what_is_longer_than_the_screen_is_paged(sample: Path) -> None:
    # A head and eight threads; the last line of the screen is the prompt's.
    for height in (10, 9):
        code, text = ckpt_in_terminal("-s", sample, "threads", "list", height=height)
        assert (code, paged(text), len(text.splitlines())) == (0, height == 9, 9)
    assert not paged(ckpt_in_terminal("-s", sample, "--no-pager", "threads", "list", height=2)[1])
    # A line that takes two lines of the screen counts twice.
    words = ("-s", sample, "show", "trip-to-kyoto", "--path", "messages[-1].id")
    _, text = ckpt_in_terminal(*words, width=80, height=3)
    assert not paged(text)
    _, text = ckpt_in_terminal(*words, width=len(text) // 3, height=3)
    assert paged(text)


BAR = """
import sys
from ckpt_cli.diagnostics import no_progress, progress

before = progress(range(3), total=3, label="before")
next(before)
with no_progress():
    sys.stdout.write("<answer>")
    sys.stdout.flush()
    list(before)
    list(progress(range(3), total=3, label="within"))
    sys.stdout.write("</answer>")
    sys.stdout.flush()
list(progress(range(3), total=3, label="after"))
"""
COUNTING = """
from collections import Counter
from ckpt_cli.diagnostics import progress
from ckpt_cli.render.values import progress_text

codes = Counter()
for code in progress(["clock-ahead", "parent-missing", "clock-ahead", "clock-ahead"], total=None,
                     label=lambda: progress_text("checking", codes)):
    codes[code] += 1
"""
SCAN = """
import sys
from ckpt_cli.render.text import color_chosen
from ckpt_cli.diagnostics import ScanBar

color_chosen.set(sys.argv[1])
bar = ScanBar(print)
bar.scanning("scanning", 1, 3)
bar.scanned("done")
"""
STYLE = re.compile(r"\x1b\[[0-9;]*m")
COLORS = [("auto", "", True), ("always", "1", True), ("never", "", False), ("auto", "1", False)]


@pytest.mark.parametrize(("when", "no_color", "styled"), COLORS)
def test_progress_is_styled_as_text(sample: Path, when: str, no_color: str, styled: bool) -> None:
    words = ("-s", sample, "--no-pager", "grep", "no such text", "--color", when)
    code, bar = ckpt_in_terminal(*words, begin=SLOW, NO_COLOR=no_color)
    assert (code, "searching threads" in bar) == (1, True)
    _, scan = in_terminal([sys.executable, "-c", SLOW + SCAN, when], NO_COLOR=no_color)
    assert "scanning" in scan
    assert [bool(STYLE.search(text)) for text in (bar, scan)] == [styled, styled]


def test_no_bar_is_drawn_over_an_answer() -> None:
    code, text = in_terminal([sys.executable, "-c", SLOW + BAR])
    before, _, rest = text.partition("<answer>")
    within, _, after = rest.partition("</answer>")
    assert code == 0
    assert "before" in before
    assert within == ""
    assert "after" in after


@pytest.mark.parametrize("program", [COUNTING, SCAN])
def test_a_bar_is_drawn_after_half_a_second_and_removed_at_the_end(program: str) -> None:
    code, text = in_terminal([sys.executable, "-c", QUICK + program, "auto"])
    assert (code, text.split()[0], "\x1b" in text) == (0, "0.5", False)
    code, text = in_terminal([sys.executable, "-c", SLOW + program, "auto"])
    drawn, _, rest = text.rpartition("\r\x1b[1A\x1b[2K")
    assert (code, drawn.count("\n"), rest.removesuffix("done\n")) == (0, 1, "")


ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{32}")
"""Of a checkpoint, a task, an interrupt."""
PASTED = re.compile(r"undo +ckpt -s |config +\{")
"""Commands and configs are one line each, so that they can be pasted."""
PAGES = [
    *("show trip-to-kyoto --writes --metadata", "show trip-to-kyoto --tree --unfold --all-ns"),
    *("diff --writes trip-to-kyoto@step:8", "rollback trip-to-kyoto step:8 --dry-run"),
    *("threads list", "history research-agent --all-ns", "interrupts"),
    *later("diff trip-to-kyoto step:2 --stat", "replay trip-to-kyoto --verify", "stats", "du"),
    *later("copy trip-to-kyoto --as a-copy-of-it --dry-run"),
]


@pytest.mark.parametrize("words", PAGES)
def test_nothing_is_wider_than_a_narrow_terminal(words: str, sample: Path) -> None:
    command: list[str | Path] = ["-s", sample, "-q", "--no-pager", *words.split()]
    printed = ckpt_in_terminal(*command, width=40, height=500)[1]
    shown = [one for one in printed.splitlines() if "\x1b" not in one]  # no progress
    assert [one for one in shown if len(one) > 40 and PASTED.match(one) is None] == []
    whole = re.findall(r"\S*[0-9a-f]{8}-\S*", printed)
    assert [one for one in whole if ID.search(one) is None and "…" not in one] == []
    wide = ckpt_in_terminal(*command, width=200, height=500)[1]
    if "…" not in printed:
        assert set(ID.findall(wide)) <= set(ID.findall(printed))


def test_long_values_are_cut_on_a_terminal_and_nowhere_else(tmp_path: Path) -> None:
    store = tmp_path / "long.db"
    long = {"data": bytes(2048), "text": "a word\n" * 900}
    run(store, chain(dict, {"node": lambda _: long}), {})
    words = ("-s", store, "--no-pager", "show", "t")
    _, text = ckpt_in_terminal(*words)
    assert len(text.splitlines()) < 200
    assert "--full shows all" in text
    assert "(cut, 2.0 KiB in all: only its beginning is shown)" in text
    assert "(cut, 6,300 characters in all: only its beginning is shown)" in text
    _, full = ckpt_in_terminal(*words, "--full")
    _, channel = ckpt_in_terminal(*words, "--channel", "__root__")
    assert full.count("a word") == channel.count("a word") == 900
    piped = ckpt("-s", store, "show", "t", "-o", "table")
    assert (piped.out.count("a word"), "(cut" in piped.out) == (900, False)


# `threads list --watch` shows the list again and again, until `q`


_PATIENCE = 20.0
"""Seconds."""
FRAME = re.compile(r"\x1b\[\?2026h\x1b\[H(.*?)\x1b\[J\x1b\[\?2026l", re.DOTALL)
LEFT = "\x1b[?25h\x1b[?1049l"
"""What shows the cursor again, and what stood there before."""


class Terminal:
    """A program in a terminal, which is read and written as a person would."""

    def __init__(self, process: subprocess.Popen[bytes], side: int, other: int) -> None:
        self.process = process
        self._side = side
        self._other = other
        self.output = ""

    def frames(self) -> list[list[str]]:
        """Return the lines of each picture that was drawn so far."""
        while select.select([self._side], [], [], 0.05)[0]:
            self.output += os.read(self._side, 65536).decode()
        found = FRAME.findall(self.output)
        return [text.replace("\x1b[K", "").replace("\r", "").split("\n") for text in found]

    def until(self, text: str) -> list[str]:
        """Wait for a picture with a text, and return its lines."""
        end = time.monotonic() + _PATIENCE
        while time.monotonic() < end:
            for frame in self.frames():
                if any(text in line for line in frame):
                    return frame
        raise AssertionError(self.output)

    def type(self, keys: str) -> None:
        os.write(self._side, keys.encode())

    def resize(self, width: int, height: int) -> None:
        size = struct.pack("HHHH", height, width, 0, 0)
        fcntl.ioctl(self._side, termios.TIOCSWINSZ, size)

    def is_echoing(self) -> bool:
        return bool(termios.tcgetattr(self._other)[3] & termios.ECHO)

    def ends(self, code: int) -> None:
        """Fail the test unless it ends with a code and leaves the terminal as it was."""
        assert self.process.wait(_PATIENCE) == code
        self.frames()
        assert self.output.endswith(LEFT)
        assert self.is_echoing()


@contextmanager
def watching(store: Path, *words: str, width: int = 90, height: int = 10) -> Iterator[Terminal]:
    side, other = pty.openpty()
    fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    command = [sys.executable, "-c", PROGRAM, "-s", str(store), "threads", "list", "--watch"]
    kept = {key: value for key, value in os.environ.items() if key not in {"COLUMNS", "LINES"}}
    process = subprocess.Popen(
        [*command, "--interval", "0.2", *words],
        stdin=other,
        stdout=other,
        stderr=other,
        env={**kept, "TERM": "xterm", "NO_COLOR": "1"},
        start_new_session=True,
    )
    try:
        yield Terminal(process, side, other)
    finally:
        process.kill()
        process.wait()
        os.close(side)
        os.close(other)


def write(path: Path, thread: str) -> None:
    run(path, chain(Log, {"answer": lambda _: {"log": ["yes"]}}), {"log": []}, thread=thread)


@pytest.fixture
def live(path: Path) -> Path:
    write(path, "first")
    return path


def test_it_shows_what_changes_until_q(live: Path) -> None:
    away = live.with_suffix(".away")
    with watching(live, width=200) as terminal:
        first = terminal.until("first")
        assert first[0].endswith("every 0.2 s, q ends")
        assert first[2].startswith("THREAD")
        assert not terminal.is_echoing()
        write(live, "second")
        assert terminal.until("second")[3].startswith("second")
        # A lost store is said, and opened again.
        live.rename(away)
        live.mkdir()
        terminal.until("trying again")
        live.rmdir()
        away.rename(live)
        write(live, "third")
        assert "trying again" not in terminal.until("third")[0]
        terminal.type("q")
        terminal.ends(0)
        assert terminal.output.startswith("\x1b[?1049h\x1b[?25l")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, -15)])
def test_a_signal_leaves_the_terminal_as_it_was(live: Path, number: int, code: int) -> None:
    with watching(live) as terminal:
        terminal.until("first")
        terminal.process.send_signal(number)
        terminal.ends(code)


def test_it_keeps_to_the_size_of_the_terminal(live: Path) -> None:
    for number in range(9):
        write(live, f"thread-{number}")
    with watching(live, "--interval", "60", height=8) as terminal:
        frame = terminal.until("thread-8")
        assert (len(frame), frame[-1]) == (8, "…")
        terminal.resize(60, 20)
        assert len(terminal.until("first")) == 2 + 1 + 10
        assert all(len(line) <= 60 for line in terminal.until("first"))


test_it_is_for_terminals_only = refusals(
    ("threads list --watch", 2, "--watch needs a terminal"),
    ("threads list --watch -o tsv", 2, "tail -o ndjson` prints what changes"),
    ("threads list --watch --interval 0", 2, "--interval"),
    ("threads list --watch --as-of 2h", 2, "--as-of"),
)
