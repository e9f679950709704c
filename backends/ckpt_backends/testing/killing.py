"""Runs `ckpt` in a child process that is killed at a chosen moment.

A moment is a call of or by a function of `ckpt`. Those of other packages are not counted, since a
process that has imported them already calls fewer.
"""

import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from ckpt_backends.testing.command_line import ckpt
from ckpt_cli.run import run

_OURS = (str(Path(run.__code__.co_filename).parent), str(Path(__file__).parents[1]))


def calls_of(words: Sequence[str | Path], since: str | None = None) -> range:
    """Run a command line to its end. Return the numbers of its calls, counted since it called a
    function of the name `since`, or from its start.
    """
    return range(1, _run(words, since, None) + 1)


def kill_at(words: Sequence[str | Path], call: int, since: str | None = None) -> bool:
    """Run a command line, and kill it at a call. Return whether it got there."""
    return not _run(words, since, call)


def _run(words: Sequence[str | Path], since: str | None, last: int | None) -> int:
    """Return the number of calls of a run that was not killed; 0 for one that was."""
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        _run_child(words, since, last, writing)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        told = file.read()
    os.waitpid(child, 0)
    return int(told or b"0")


def _run_child(
    words: Sequence[str | Path], since: str | None, last: int | None, writing: int
) -> None:
    calls = 0
    has_begun = since is None
    ours: dict[str, bool] = {}

    def count(frame: FrameType, event: str, _: Any) -> None:
        nonlocal calls, has_begun
        if event not in {"call", "c_call"}:
            return
        code = frame.f_code
        has_begun = has_begun or code.co_name == since
        if not has_begun:
            return
        name = code.co_filename
        if name not in ours:
            ours[name] = name.startswith(_OURS)
        if ours[name]:
            calls += 1
            if calls == last:
                os.kill(os.getpid(), signal.SIGKILL)

    try:
        sys.setprofile(count)
        ckpt(*words)
        sys.setprofile(None)
        os.write(writing, str(calls).encode())
    finally:
        os._exit(0)
