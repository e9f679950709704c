"""Runs `tail` as a process, and reads what it prints."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

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
