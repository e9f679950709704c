"""Run a program in a terminal of a given size and return its output."""

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

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
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", height, width, 0, 0))
    settings = termios.tcgetattr(theirs)
    settings[1] &= ~termios.OPOST  # keep the line ends as they were written
    termios.tcsetattr(theirs, termios.TCSANOW, settings)
    kept = {key: value for key, value in os.environ.items() if key not in {"COLUMNS", "LINES"}}
    process = subprocess.Popen(
        words,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**kept, "TERM": "xterm", "NO_COLOR": "1", **environment},
        start_new_session=True,
    )
    os.close(theirs)
    pieces = []
    try:
        while piece := os.read(ours, 65536):
            pieces.append(piece)
    except OSError:
        pass  # on Linux, this is the error after the last writer is gone
    finally:
        os.close(ours)
    return process.wait(), b"".join(pieces).decode()


def ckpt_in_terminal(
    *words: str | Path, width: int = 80, height: int = 24, begin: str = "", **environment: str
) -> tuple[int, str]:
    """Do the same for `ckpt`; lines that go through a pager begin with `paged: `.

    `begin` is a text such as `SLOW`.
    """
    program = f"{begin}\nfrom ckpt_cli.__main__ import main\nmain()"
    command = [sys.executable, "-c", program, *map(str, words)]
    environment = {"PAGER": "sed 's/^/paged: /'", **environment}
    return in_terminal(command, width=width, height=height, **environment)
