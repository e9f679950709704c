"""Run `ckpt` in a child process that is killed at a chosen moment."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from tests.kit.command import ROOT, ckpt

_OURS = (str(ROOT / "ckpt_cli"), str(ROOT / "backends"))


def run_until(words: Sequence[str | Path], most: int | None = None) -> int:
    """Run a command line, and kill it at the `most`-th call of a function of ours.

    Returns the number of calls of a run that was not killed; 0 for one that was.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        _run_child(words, most, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        told = file.read()
    os.waitpid(child, 0)
    return int(told or b"0")


def _run_child(words: Sequence[str | Path], most: int | None, writing: int) -> None:
    calls = 0

    def count(frame: FrameType, event: str, arg: Any) -> None:
        nonlocal calls
        if event in {"call", "c_call"} and frame.f_code.co_filename.startswith(_OURS):
            calls += 1
            if calls == most:
                os.kill(os.getpid(), signal.SIGKILL)

    try:
        sys.setprofile(count)
        ckpt(*words)
        sys.setprofile(None)
        os.write(writing, str(calls).encode())
    finally:
        os._exit(0)
