"""Lines pasted into real shells, which find no program but those that record how they were run."""

import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tests.kit.terminal import check_installed

SHELLS = {
    "bash": ("--norc", "--noprofile", "-i"),
    "zsh": ("-f", "-i"),
    "fish": ("--no-config", "-i"),
}
"""Interactive, because only then do bash and zsh replace `!!`; without a person's own settings."""
HOSTILE = (
    *("$(touch pwned)", "${HOME}", "; touch pwned", "&& touch pwned", "| touch pwned", "<x"),
    *("`touch pwned`", "x` touch pwned `y", "> pwned", "(touch pwned)", "&&", "{a,b}", "^x", "%"),
    *("a'b", "'; touch pwned; '", "''", '"', "a\\", "\\", "a\\\\'b", "\\'; touch pwned; \\'"),
    *("-rf", "--help", "-", "--", "!!", "it's!!", "a!touch", "~root", "=ls", "%self", "*", "?"),
    *("[a-z]", "#x", "$x", "a b ", " a", "a\tb", "a\nb", "a\n touch pwned\n", "a\rb", "é\n"),
    *("a\x1b[31mb\x07", "a\x7fb", "a\u009bb", "a\u034fb", "a\u1160b", "a\u3164b", "a\ufe0fb"),
    *("a\u200db", "a\u202eb", "a\u2800b", "a\u00a0b", "é", "e\u0301", "中文 字", "\u212b"),
    *("👩🏽\u200d🚀❤\ufe0f", "\U000e0041", "a\ue000b", "a\udcffb", "\udcc3'"),
)
"""Ids that a shell, a terminal or the program would not take for what they are."""


@dataclass(frozen=True)
class Run:
    """How a program was run."""

    program: str
    folder: bytes
    words: list[bytes]


_RECORDER = """\
#!/bin/sh
{{ printf '%s\\0' "${{0##*/}}" "$PWD" "$#" "$@"; }} >> '{log}'
"""


def paste(shell: str, lines: Iterable[str], folder: Path) -> list[Run]:
    """Return the programs that a shell runs if a person pastes these lines.

    Asserts that the folder in which they are pasted stays empty. Skips the test if the shell is not
    installed, unless it is required.
    """
    check_installed(shell)
    log, programs, home, empty = (folder / shell / name for name in ("log", "bin", "home", "empty"))
    for one in (programs, home, empty):
        one.mkdir(parents=True)
    for name in ("ckpt", "sqlite3", "touch", "ls"):
        (programs / name).write_text(_RECORDER.format(log=log))
        (programs / name).chmod(0o700)
    log.touch()
    environment = {"PATH": str(programs), "HOME": str(home), "LC_ALL": "C.UTF-8", "TERM": "dumb"}
    pasted = "".join(f"{line}\n" for line in lines).encode()
    subprocess.run(
        [str(shutil.which(shell)), *SHELLS[shell]], input=pasted, cwd=empty, env=environment,
        check=False, capture_output=True,
    )  # fmt: skip
    assert list(empty.iterdir()) == []
    return list(_runs(log.read_bytes()))


def _runs(log: bytes) -> Iterable[Run]:
    fields = iter(log.split(b"\0")[:-1])
    for program in fields:
        place, number = next(fields), int(next(fields))
        yield Run(program.decode(), place, [next(fields) for _ in range(number)])


def as_bytes(words: Iterable[str | Path]) -> list[bytes]:
    """Return words as a program gets them."""
    return [os.fsencode(word) for word in words]
