"""Run a program in a terminal of a given size and return its output."""

import fcntl
import os
import pty
import struct
import sys
import termios
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from ckpt_cli.__main__ import main
from tests.kit.command import fork

_TIMER = """
import threading

class Timer:
    def __init__(self, seconds, act):
        self.seconds, self.act = seconds, act
    def start(self):
        {start}
    def cancel(self):
        pass

threading.Timer = Timer
"""
SLOW = _TIMER.format(start="self.act()")
"""The beginning of a program for which the time of each timer has passed at once."""
QUICK = _TIMER.format(start="print(self.seconds)")
"""The same of a program that is done before any; it prints their seconds."""


def in_terminal(
    words: list[str], *, width: int = 80, height: int = 24, **environment: str
) -> tuple[int, str]:
    """Return the exit code and all output to the terminal, including escape sequences."""
    return _shown(partial(os.execvp, words[0], words), width, height, environment)


def _shown(
    act: Callable[[], object], width: int, height: int, environment: Mapping[str, str]
) -> tuple[int, str]:
    """Do something in a child whose terminal this is."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    settings = termios.tcgetattr(theirs)
    settings[1] &= ~termios.OPOST  # keep the line ends as they were written
    termios.tcsetattr(theirs, termios.TCSANOW, settings)
    kept = {key: value for key, value in os.environ.items() if key not in {"COLUMNS", "LINES"}}

    def run() -> None:
        os.setsid()
        for number in range(3):
            os.dup2(theirs, number)
        os.closerange(3, ours + theirs)
        os.environ.clear()
        os.environ.update({**kept, "TERM": "xterm", "NO_COLOR": "1", **environment})
        for name, number, mode in (("stdin", 0, "r"), ("stdout", 1, "w"), ("stderr", 2, "w")):
            setattr(sys, name, open(number, mode, encoding="utf-8"))  # noqa: SIM115
        act()

    child = fork(run)
    os.close(theirs)
    pieces = []
    try:
        while piece := os.read(ours, 65536):
            pieces.append(piece)
    except OSError:
        pass  # on Linux, this is the error after the last writer is gone
    finally:
        os.close(ours)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status), b"".join(pieces).decode()


def ckpt_in_terminal(
    *words: str | Path, width: int = 80, height: int = 24, begin: str = "", **environment: str
) -> tuple[int, str]:
    """Do the same for `ckpt`, behind a text such as `SLOW`; a pager prints `paged: `."""

    def run() -> None:
        sys.argv = ["ckpt", *map(str, words)]
        exec(begin, {})
        main()

    return _shown(run, width, height, {"PAGER": "sed 's/^/paged: /'", **environment})
