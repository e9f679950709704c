"""`threads list --watch` shows the list again and again on a terminal, until `q`."""

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

from tests.kit.agents.small import Log, chain, run
from tests.kit.command import ckpt
from tests.kit.tailing import PROGRAM

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
    with watching(live) as terminal:
        first = terminal.until("first")
        assert first[0].endswith("every 0.2 s, q ends")
        assert first[2].startswith("THREAD")
        assert not terminal.is_echoing()
        write(live, "second")
        assert terminal.until("second")[3].startswith("second")
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


def test_a_lost_store_is_said_and_opened_again(live: Path) -> None:
    away = live.with_suffix(".away")
    with watching(live, width=200) as terminal:
        terminal.until("first")
        live.rename(away)
        live.mkdir()
        terminal.until("trying again")
        live.rmdir()
        away.rename(live)
        write(live, "second")
        assert "trying again" not in terminal.until("second")[0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "--watch needs a terminal"),
        (["-o", "json"], "tail -o ndjson` prints what changes"),
        (["--interval", "0"], "--interval"),
    ],
)
def test_it_is_for_terminals_only(live: Path, words: list[str], said: str) -> None:
    found = ckpt("-s", live, "threads", "list", "--watch", *words)
    assert (found.code, found.out, said in found.err) == (2, "", True)
