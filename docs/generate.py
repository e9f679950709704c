"""Writes docs/cli.md, the matrix in docs/stores.md and the keys in docs/tui.md.

Run it after a change of an option: `python docs/generate.py`. A test compares the two.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from ckpt_backends.layouts import LAYOUTS
from ckpt_cli.app import COMMANDS
from ckpt_cli.commands.memory import COMMANDS as MEMORY
from ckpt_cli.commands.sessions import COMMANDS as SESSIONS
from ckpt_cli.commands.threads import COMMANDS as THREADS
from ckpt_cli.core.abilities import LIMITS, limit
from ckpt_cli.lazy import CommandRef
from ckpt_cli.run import run

TARGET = Path(__file__).parent / "cli.md"
STORES = Path(__file__).parent / "stores.md"
SCREEN = Path(__file__).parent / "tui.md"
GROUPS: Mapping[str, Mapping[str, CommandRef]] = {
    **{"threads": THREADS, "sessions": SESSIONS},
    "memory": MEMORY,
}
_END = "<!-- end -->\n"


def reference() -> str:
    """The text of docs/cli.md."""
    parts = ["# Commands", "Made from each command's `--help` by `docs/generate.py`."]
    for words in (["ckpt"], *_command_lines()):
        parts += [f"## `{' '.join(words)}`", f"```text\n{_help(words[1:])}\n```"]
    return "\n\n".join(parts) + "\n"


def stores(text: str) -> str:
    """The text of docs/stores.md with its matrix made anew."""
    return _between("<!-- matrix -->\n", _matrix(), text)


def screen(text: str) -> str:
    """The text of docs/tui.md with its keys made anew."""
    from ckpt_cli.tui.keys import LOOKING, MOVING, REMEMBERING
    from ckpt_cli.tui.writing import CHANGING

    reading = [*MOVING, *((key.shown, key.help) for key in LOOKING)]
    changing = [(key.shown, key.help) for key in CHANGING]
    remembering = [(key.shown, key.help) for key in REMEMBERING]
    tables = "\n".join(
        (
            _keys("key", reading),
            _keys("on the screen Memory", remembering),
            _keys("with `--write`", changing),
        )
    )
    return _between("<!-- keys -->\n", tables, text)


def _keys(heading: str, keys: Iterable[tuple[str, str]]) -> str:
    rows = [(heading, ""), ("---", "---"), *((f"`{name}`", text) for name, text in keys)]
    return "".join(f"| {name} | {text} |\n" for name, text in rows)


def _between(begin: str, made: str, text: str) -> str:
    """A text with what stands behind a mark, and before the end mark, made anew."""
    before, _, rest = text.partition(begin)
    return f"{before}{begin}{made}{_END}{rest.partition(_END)[2]}"


def _matrix() -> str:
    """Commands by layouts; below it, why a cell is not empty."""
    reasons: dict[tuple[str, str], int] = {}
    lines = [["command", *(f"`{name}`" for name in LAYOUTS)], ["---"] * (len(LAYOUTS) + 1)]
    for command in LIMITS:
        cells = [f"`{command}`"]
        for can in LAYOUTS.values():
            found = limit(command, can)
            if found is None:
                cells.append("yes")
            else:
                number = reasons.setdefault((found.cell, found.why), len(reasons) + 1)
                cells.append(f"{found.cell} ({number})")
        lines.append(cells)
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
    notes = "\n".join(f"{number}. {cell}: {why}" for (cell, why), number in reasons.items())
    return f"{table}\n\n{notes}\n"


def _command_lines() -> Iterator[list[str]]:
    for name in COMMANDS:
        if name in GROUPS:
            yield from (["ckpt", name, inner] for inner in GROUPS[name])
        else:
            yield ["ckpt", name]


def _help(words: list[str]) -> str:
    """A command's help without the options that all commands share, but for the root's."""
    printed = io.StringIO()
    os.environ["COLUMNS"] = "100"
    with contextlib.redirect_stdout(printed):
        run([*words, "--help"])
    text = printed.getvalue().strip()
    return text.partition("\n\nGlobal options:")[0] if words else text


if __name__ == "__main__":
    TARGET.write_text(reference(), "utf-8")
    STORES.write_text(stores(STORES.read_text("utf-8")), "utf-8")
    SCREEN.write_text(screen(SCREEN.read_text("utf-8")), "utf-8")
