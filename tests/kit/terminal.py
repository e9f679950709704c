"""Programs in a terminal of a given size, and shells into which tests type lines and Tab."""

import fcntl
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest

from ckpt_cli.__main__ import main
from tests.kit.command import fork
from tests.kit.servers import INSTALL, is_required

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


SHELLS = ("bash", "zsh", "fish")
_TAKE = b"\x18p"
"""Ctrl-X P, which prints the line between two marks and empties it."""
_BEGIN, _END = b"\x02", b"\x03"
_START: Mapping[str, tuple[str, ...]] = {
    "bash": ("bash", "--norc", "--noprofile", "-i"),
    "zsh": ("zsh", "-f", "-i"),
    "fish": ("fish", "--no-config", "-i", "-C", "source settings"),
}
_SETTINGS: Mapping[str, str] = {
    "bash": r"""
PS1='> '; unset HISTFILE
bind 'set show-all-if-ambiguous on'; bind 'set completion-query-items 0'
bind 'set page-completions off'; bind 'set bell-style none'
take() { printf '\2%s\3' "$READLINE_LINE"; READLINE_LINE= READLINE_POINT=0; }
bind -x '"\C-xp": take'
source {script}
""",
    "zsh": r"""
PS1='> '; LISTMAX=0; unsetopt beep prompt_sp; bindkey -e
fpath=({folder} $fpath); autoload -Uz compinit; compinit -u -D
take() { print -rn -- $'\2'"$BUFFER"$'\3'; BUFFER=; }
zle -N take; bindkey '^Xp' take
""",
    "fish": r"""
function fish_prompt; printf '> '; end
set -g fish_autosuggestion_enabled 0
function take; printf '\2%s\3' (commandline -b | string collect); commandline ''; end
bind \cxp take
source {script}
""",
}
"""What a user of that shell has in its configuration, and `take`."""
_PRINT_WORDS: Mapping[str, str] = {
    "bash": "ckpt() { printf '%s\\0' \"$@\"; }\n",
    "zsh": "ckpt() { printf '%s\\0' \"$@\"; }\n",
    "fish": "function ckpt; printf '%s\\0' $argv; end\n",
}


@dataclass(frozen=True)
class Typed:
    """What a shell made of a line and the Tab key."""

    line: str
    shown: str
    """The output since the line was typed, with the list of completions."""


class TerminalShell:
    """An interactive shell with completions, in a folder of its own."""

    def __init__(self, name: str, script: Path, home: Path, environment: Mapping[str, str]) -> None:
        self.name = name
        home.mkdir()
        settings = home / "settings"
        text = _SETTINGS[name].replace("{script}", str(script))
        settings.write_text(text.replace("{folder}", str(script.parent)))
        self._env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "TERM": "xterm",
            "LANG": "C.UTF-8",
            **environment,
        }
        self.home = home
        self._pid, self._fd = pty.fork()
        if self._pid == 0:
            os.chdir(home)
            os.execvpe(_START[name][0], _START[name], self._env)
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", 60, 400, 0, 0))
        self._output = b""
        if name == "fish":
            # It flushes what is typed before its prompt.
            self._read_to(b"> ")
        else:
            self._write(b" source ./settings\r")
        self.type("ready", tab=False)

    def type(self, line: str, *, tab: bool = True) -> Typed:
        """Type a line, press Tab, and empty the line. Fails after a minute."""
        self._output = b""
        self._write(line.encode() + (b"\t" if tab else b"") + _TAKE)
        self._read_to(_END)
        shown, _, rest = self._output.partition(_BEGIN)
        return Typed(rest.partition(_END)[0].decode(), shown.decode(errors="replace"))

    def run(self, command: str) -> None:
        self._write(f" {command}\r".encode())
        self.type("ready", tab=False)

    def words(self, line: str) -> list[str]:
        """The arguments with which the shell would run `ckpt`; runs the line."""
        done = subprocess.run(
            [self.name, "-c", _PRINT_WORDS[self.name] + line],
            cwd=self.home,
            env=self._env,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.split("\0")[:-1]

    def close(self) -> None:
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._fd)

    def _write(self, data: bytes) -> None:
        while data:
            data = data[os.write(self._fd, data) :]

    def _read_to(self, mark: bytes) -> None:
        end = time.monotonic() + 60
        while mark not in self._output:
            ready, _, _ = select.select([self._fd], [], [], max(0, end - time.monotonic()))
            if not ready:
                pytest.fail(f"{self.name} printed no {mark!r}, but {self._output!r}")
            self._output += os.read(self._fd, 65536)


def check_installed(program: str) -> None:
    """Skip the test if a program is missing; fail it if it must not be."""
    if shutil.which(program) is None:
        how = INSTALL.get(program, f"apt-get install {program}")
        (pytest.fail if is_required(program) else pytest.skip)(f"no {program}: {how}")
