"""Runs `ckpt` in processes: several at once, and one that goes on."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import permutations
from pathlib import Path
from typing import Any

_PATIENCE = 120.0
"""Seconds after which a process hangs."""
# All modules that the command needs are loaded before it waits for the start.
_PROGRAM = """
import os, sys
import ckpt_cli.app, ckpt_cli.run, ckpt_cli.session, ckpt_cli.output, ckpt_cli.diagnostics, rich
import ckpt_backends.registry
import ckpt_cli.lazy
ready, start = int(sys.argv[1]), int(sys.argv[2])
os.write(ready, b".")
os.read(start, 1)
sys.exit(ckpt_cli.run.run(sys.argv[3:]))
"""
REFUSALS = {3, 4, 5, 6, 7}
"""Exit codes of a process that came second."""


@dataclass(frozen=True)
class Ended:
    code: int
    out: str
    err: str


def at_once(*lines: Sequence[str | Path]) -> list[Ended]:
    """Run command lines in processes that begin when all of them are ready."""
    ready, is_ready = os.pipe()
    start, go = os.pipe()
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, str(is_ready), str(start), *map(str, words)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            pass_fds=(is_ready, start),
            text=True,
        )
        for words in lines
    ]
    os.close(is_ready)
    os.close(start)
    waiting = len(processes)
    while waiting and (said := os.read(ready, waiting)):
        waiting -= len(said)
    os.close(go)  # every process reads the end of the pipe
    os.close(ready)
    ended = []
    for process in processes:
        out, err = process.communicate(timeout=_PATIENCE)
        ended.append(Ended(process.returncode, out, err))
    for one in ended:
        assert one.code in {0, *REFUSALS}, one
        assert "Traceback" not in one.err
        assert one.code == 0 or one.err, one
        assert one.code != 4 or "hint: " in one.err, one
    assert any(one.code == 0 for one in ended) or len({one.code for one in ended}) == 1, ended
    return ended


def leftovers(folder: Path) -> list[Path]:
    """Return unfinished files and locks of our processes in a folder."""
    names = ("*.part", ".*.part", "*.lock", ".*.lock")
    return [found for name in names for found in folder.rglob(name)]


def orders(codes: Sequence[int]) -> set[tuple[int, ...]]:
    """Return the orders in which the processes that succeeded may have run, by their numbers."""
    return set(permutations(number for number, code in enumerate(codes) if code == 0))


# A shell that runs tests in the background lets them ignore Ctrl-C, and what they start too.
PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from ckpt_cli.__main__ import main
main()
"""
"""The beginning of `ckpt` in a process that heeds Ctrl-C."""


@contextmanager
def tailing(store: Path | str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Run `tail` as long as the block runs, unless it ends before."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, "-s", str(store), "tail", "--interval", "0.1", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def take(process: subprocess.Popen[str], number: int) -> list[Any]:
    assert process.stdout is not None
    return [json.loads(process.stdout.readline()) for _ in range(number)]
