"""Makes the moving picture of the documents: `python share/picture/record.py`.

A shell in tmux runs each command on the sample store, and every screen becomes a frame of one SVG
file, docs/pictures/session.svg. The last but one command resumes the graph that wrote the store.
It needs tmux, and the packages of `pip install -e '.[test]'`.
"""

from __future__ import annotations

import html
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from rich.cells import cell_len

TOP = Path(__file__).parents[2]
TARGET = TOP / "docs" / "pictures" / "session.svg"
WIDTH, HEIGHT = 100, 27
THREAD = "trip-to-kyoto"
SCRIPT = (
    ("ckpt threads list", 4.0),
    (f"ckpt show {THREAD} --tree", 6.0),
    (f"ckpt blame {THREAD} hotel", 4.0),
    (f"ckpt rollback {THREAD} --reopen", 6.0),
    (f"python resume.py {THREAD} 'Ryokan Yachiyo'", 5.0),
    (f"ckpt show {THREAD} --tree", 6.0),
)
"""Each command, and the seconds for which its answer is shown."""
ANSWERS = {f"ckpt rollback {THREAD} --reopen": "y"}
"""What is typed at its question."""

# The clock of the sample's documents, so that ages do not grow.
CKPT = """
import sys
from datetime import UTC, datetime
from ckpt_cli.run import run
from ckpt_cli.session import Session
Session.now = datetime(2026, 11, 22, 9, 30, tzinfo=UTC)
sys.exit(run(sys.argv[1:]))
"""
RESUME = """
import sqlite3, sys, warnings
warnings.simplefilter("ignore")
sys.path.insert(0, FIXTURES)
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command
from sample import trip_graph
known = [("travel_models", name) for name in ("Offer", "Booking", "Status")]
serde = JsonPlusSerializer(allowed_msgpack_modules=known)
saver = SqliteSaver(sqlite3.connect("sample.db", check_same_thread=False), serde=serde)
thread, answer = sys.argv[1:]
config = {"configurable": {"thread_id": thread}, "metadata": {"user_id": "mara"}}
for step in trip_graph(saver).stream(Command(resume=answer), config, stream_mode="updates"):
    for node, update in step.items():
        said = [one.content for one in update.get("messages", ())]
        print(f"{node}: {' '.join(said) or update.get('hotel', '')}")
"""

# Colours as terminals have them.
_BASIC = ("#484f58", "#ff7b72", "#3fb950", "#d29922", "#58a6ff", "#bc8cff", "#39c5cf", "#b1bac4")
_BRIGHT = ("#6e7681", "#ffa198", "#56d364", "#e3b341", "#79c0ff", "#d2a8ff", "#56d4dd", "#f0f6fc")
_PLAIN, _DIM, _GROUND = "#c9d1d9", "#7d8590", "#0d1117"
_CELL, _LINE, _EDGE = 8.4, 18, 14
_KEYS_AT_ONCE = 3


class Frame(NamedTuple):
    """A screen, as lines with escape sequences, and the seconds for which it is shown."""

    lines: tuple[str, ...]
    seconds: float


class Terminal:
    """A shell in tmux, with a server of its own."""

    def __init__(self, folder: Path, environment: Mapping[str, str]) -> None:
        self._tmux = ["tmux", "-S", str(folder / "tmux"), "-f", "/dev/null"]
        size = ["-x", str(WIDTH), "-y", str(HEIGHT)]
        shell = "PS1='$ ' exec bash --noprofile --norc"
        subprocess.run(
            [*self._tmux, "new-session", "-d", *size, shell],
            cwd=folder,
            env=environment,
            check=True,
        )

    def screen(self) -> tuple[str, ...]:
        """Return the lines on the screen, with their colours."""
        command = [*self._tmux, "capture-pane", "-e", "-p"]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        return tuple(done.stdout.rstrip("\n").splitlines())

    def type(self, *keys: str) -> None:
        """Press keys: texts, or names such as `Enter`."""
        subprocess.run([*self._tmux, "send-keys", *keys], check=True)

    def wait(self, ending: str) -> tuple[str, ...]:
        """Return the screen as soon as its last line ends so. Raises `TimeoutError`."""
        until = time.monotonic() + 60
        while time.monotonic() < until:
            lines = self.screen()
            if lines and plain(lines[-1]).rstrip().endswith(ending):
                return lines
            time.sleep(0.1)
        raise TimeoutError("\n".join(self.screen()))

    def close(self) -> None:
        """End the shell."""
        subprocess.run([*self._tmux, "kill-server"], check=False)


def plain(line: str) -> str:
    """Return a line without its escape sequences."""
    return re.sub(r"\x1b\[[0-9;]*m", "", line)


def frames(terminal: Terminal) -> Iterator[Frame]:
    """Type each command, and yield what the screen shows meanwhile."""
    for command, seconds in SCRIPT:
        terminal.type("C-l")
        terminal.wait("$")
        time.sleep(0.2)
        yield Frame(("$ ",), 0.6)
        for typed in range(_KEYS_AT_ONCE, len(command), _KEYS_AT_ONCE):
            yield Frame((f"$ {command[:typed]}",), 0.1)
        yield Frame((f"$ {command}",), 0.5)
        terminal.type("-l", command)
        terminal.type("Enter")
        time.sleep(0.5)
        if command in ANSWERS:
            yield Frame(terminal.wait("[y/N]"), seconds)
            terminal.type("-l", ANSWERS[command])
            terminal.type("Enter")
            time.sleep(0.5)
        yield Frame(terminal.wait("$"), seconds)


def spans(line: str) -> Iterator[tuple[int, str, str]]:
    """Yield the parts of a line with their column, text and attributes in SVG."""
    column, codes = 0, dict[str, str]()
    for part in re.split(r"(\x1b\[[0-9;]*m)", line):
        if part.startswith("\x1b"):
            _apply(codes, [int(one or 0) for one in part[2:-1].split(";")])
        elif part:
            colour = codes.get("fill", _PLAIN)
            if "dim" in codes:
                colour = _DIM
            bold = ' font-weight="bold"' if "bold" in codes else ""
            if part.strip():
                left = len(part) - len(part.lstrip())
                yield column + left, part.strip(), f'fill="{colour}"{bold}'
            column += cell_len(part)


def _apply(codes: dict[str, str], numbers: list[int]) -> None:
    for one in numbers:
        if one == 0:
            codes.clear()
        elif one in {1, 2}:
            codes["bold" if one == 1 else "dim"] = ""
        elif one == 22:
            codes.pop("bold", None)
            codes.pop("dim", None)
        elif one == 39:
            codes.pop("fill", None)
        elif 30 <= one <= 37:
            codes["fill"] = _BASIC[one - 30]
        elif 90 <= one <= 97:
            codes["fill"] = _BRIGHT[one - 90]


def drawn(shown: list[Frame]) -> str:
    """Return the frames as one SVG, which shows them in turn, for ever.

    Each line is stored once. Where motion is not wanted, the last frame stands still.
    """
    width, height = WIDTH * _CELL + 2 * _EDGE, HEIGHT * _LINE + 2 * _EDGE
    known: dict[str, str] = {}
    pictures, steps = [], []
    total, now = sum(one.seconds for one in shown), 0.0
    for number, frame in enumerate(shown):
        uses = []
        for row, line in enumerate(frame.lines):
            if plain(line).strip():
                name = known.setdefault(line, f"l{len(known)}")
                uses.append(f'<use href="#{name}" y="{row * _LINE}"/>')
        pictures.append(f'<g transform="translate(0 {number * height:g})">{"".join(uses)}</g>')
        steps.append(f"{100 * now / total:.3f}%{{transform:translateY({-number * height:g}px)}}")
        now += frame.seconds
    last = f"translateY({-(len(shown) - 1) * height:g}px)"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}"'
            f' width="{width:g}" height="{height:g}" role="img">',
            "<title>ckpt lists threads, draws one as a tree, says which node set a value, rolls the"
            " thread back to a question; the graph resumes from there.</title>",
            "<style>text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',"
            "monospace;white-space:pre}"
            f".film{{animation:film {total:.1f}s step-end infinite}}"
            f"@keyframes film{{{''.join(steps)}}}"
            f"@media(prefers-reduced-motion:reduce){{.film{{animation:none;transform:{last}}}}}"
            "</style>",
            "<defs>",
            *(f'<g id="{name}">{_text(line)}</g>' for line, name in known.items()),
            "</defs>",
            f'<rect width="100%" height="100%" rx="8" fill="{_GROUND}"/>',
            f'<svg x="{_EDGE}" y="{_EDGE}" width="{WIDTH * _CELL:g}" height="{HEIGHT * _LINE}">',
            f'<g class="film">{"".join(pictures)}</g></svg></svg>',
            "",
        ]
    )


def _text(line: str) -> str:
    return "".join(
        f'<text x="{column * _CELL:g}" y="14" {how} textLength="{cell_len(text) * _CELL:g}"'
        f' lengthAdjust="spacingAndGlyphs">{html.escape(text)}</text>'
        for column, text, how in spans(line)
    )


def record() -> str:
    """Run the commands, and return the picture."""
    with TemporaryDirectory(ignore_cleanup_errors=True) as name:
        folder = Path(name)
        (folder / "ckpt.py").write_text(CKPT)
        fixtures = repr(str(TOP / "fixtures" / "make"))
        (folder / "resume.py").write_text(RESUME.replace("FIXTURES", fixtures))
        programs = folder / "bin"
        programs.mkdir()
        for program, words in (("ckpt", ["-P", str(folder / "ckpt.py")]), ("python", [])):
            command = shlex.join([sys.executable, *words])
            (programs / program).write_text(f'#!/bin/sh\nexec {command} "$@"\n')
            (programs / program).chmod(0o755)
        environment = {
            **{"PATH": f"{programs}:{os.environ['PATH']}", "HOME": name, "TZ": "UTC"},
            **{"CKPT_STORE": "sample.db", "LC_ALL": "C.UTF-8", "TERM": "xterm-256color"},
        }
        demo: list[str | Path] = [programs / "ckpt", "demo", "sample.db", "-q"]
        subprocess.run(demo, cwd=name, env=environment, check=True)
        terminal = Terminal(folder, environment)
        try:
            terminal.wait("$")
            return drawn(list(frames(terminal)))
        finally:
            terminal.close()


if __name__ == "__main__":
    TARGET.write_text(record(), "utf-8")
