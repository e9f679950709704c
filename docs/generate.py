"""Writes docs/cli.md, the reference of all commands, and the matrix in docs/stores.md.

Run it after a change of an option: `python docs/generate.py`. A test compares the two.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from ckpt_backends.layouts import LAYOUTS
from ckpt_cli.__main__ import run
from ckpt_cli.app import COMMANDS
from ckpt_cli.commands.sessions import COMMANDS as SESSIONS
from ckpt_cli.commands.threads import COMMANDS as THREADS
from ckpt_cli.core.abilities import LIMITS, limit
from ckpt_cli.lazy import CommandRef

TARGET = Path(__file__).parent / "cli.md"
STORES = Path(__file__).parent / "stores.md"
GROUPS: Mapping[str, Mapping[str, CommandRef]] = {"threads": THREADS, "sessions": SESSIONS}
_BEGIN, _END = "<!-- matrix -->\n", "<!-- end -->\n"


def reference() -> str:
    """The text of docs/cli.md."""
    parts = ["# Commands", "Made from each command's `--help` by `docs/generate.py`."]
    for words in (["ckpt"], *_command_lines()):
        parts += [f"## `{' '.join(words)}`", f"```text\n{_help(words[1:])}\n```"]
    return "\n\n".join(parts) + "\n"


def stores(text: str) -> str:
    """The text of docs/stores.md with its matrix made anew."""
    before, _, rest = text.partition(_BEGIN)
    return f"{before}{_BEGIN}{_matrix()}{_END}{rest.partition(_END)[2]}"


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
