"""Makes the README's tour: each `$ ckpt` line is run on the sample store, and its answer put below.

Run it after a change of what is printed: `python -m tests.packaging.readme`. A test compares.
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
import time
from collections.abc import Iterator
from contextlib import chdir
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import patch

from ckpt_cli.output import Output
from ckpt_cli.session import Session
from tests.support import ROOT, SAMPLE, ckpt, copy_store

README = ROOT / "README.md"
NOW = datetime(2026, 11, 22, 9, 30, tzinfo=UTC)
"""The moment at which the tour is run, so that ages do not change."""

_TOUR = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands(block: str) -> Iterator[str]:
    """The command lines of a console block."""
    return (line[2:] for line in block.splitlines() if line.startswith("$ "))


def toured(text: str) -> str:
    """The README with each command's present answer."""

    def run(block: re.Match[str]) -> str:
        parts = [f"$ {line}\n{_answer(line)}" for line in commands(block[1])]
        return "```console\n" + "\n".join(parts) + "```"

    with (
        tempfile.TemporaryDirectory() as folder,
        chdir(folder),
        patch.object(Session, "now", NOW),
        patch.object(Output, "width", 100),
    ):
        copy_store(SAMPLE, Path(folder)).rename(Path(folder) / "sample.db")
        os.environ["TZ"] = "UTC"
        time.tzset()
        return _TOUR.sub(run, text)


def _answer(line: str) -> str:
    """What a terminal of 100 columns shows, without the notes."""
    words = shlex.split(line.partition(" | ")[0])[1:]
    form = [] if "-o" in words else ["-o", "table"]
    answer = ckpt(*words, *form, "-q")
    assert answer.code == 0, answer.err
    return "".join(f"{one.rstrip()}\n" for one in answer.out.splitlines())


if __name__ == "__main__":
    README.write_text(toured(README.read_text("utf-8")), "utf-8")
