"""Writes docs/cli.md, the reference of all commands, from their own help.

Run it after a change of an option: `python docs/generate.py`. A test compares the two.
"""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Iterator, Mapping
from pathlib import Path

from ckpt_cli.__main__ import run
from ckpt_cli.app import COMMANDS
from ckpt_cli.commands.threads import COMMANDS as THREADS
from ckpt_cli.lazy import CommandRef

TARGET = Path(__file__).parent / "cli.md"
GROUPS: Mapping[str, Mapping[str, CommandRef]] = {"threads": THREADS}


def reference() -> str:
    """The text of docs/cli.md."""
    parts = ["# Commands", "Made from each command's `--help` by `docs/generate.py`."]
    for words in (["ckpt"], *_command_lines()):
        parts += [f"## `{' '.join(words)}`", f"```text\n{_help(words[1:])}\n```"]
    return "\n\n".join(parts) + "\n"


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
