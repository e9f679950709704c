"""Run commands in turn, and measure their time, processor time and memory."""

import json
import statistics
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from time import monotonic
from typing import NamedTuple

CKPT = Path(sysconfig.get_path("scripts")) / "ckpt"
_LAUNCHER = Path(__file__).with_name("launch.py")
_LIMIT = 900
"""Seconds after which a run has failed."""
Command = Sequence[str | Path]


class Run(NamedTuple):
    """One run of a command, or the best of several."""

    seconds: float
    cpu: float
    """CPU seconds; other processes change this number little."""
    mib: float
    """Peak resident memory in MiB."""
    median: float
    """Of the seconds."""


def run(command: Command, *, out: Path | None = None, codes: Collection[int] = (0,)) -> Run:
    """Run a command once. Raises `AssertionError` if it fails.

    A program that ends with a traceback has failed with every code.
    """
    with tempfile.NamedTemporaryFile() as scratch:
        words = [sys.executable, "-I", "-S", _LAUNCHER, out or scratch.name, _LIMIT, *command]
        found = subprocess.run([str(word) for word in words], check=True, capture_output=True)
    answer = json.loads(found.stdout)
    if answer["code"] not in codes or b"Traceback (most recent call" in found.stderr:
        said = found.stderr.decode()[-2000:]
        raise AssertionError(f"{' '.join(map(str, command))}: exit code {answer['code']}, {said}")
    return Run(answer["seconds"], answer["cpu"], answer["kib"] / 1024, answer["seconds"])


def in_turn(
    commands: Mapping[str, Callable[[], AbstractContextManager[Command]]],
    rounds: int,
    *,
    seconds: float,
    telling: Collection[str],
) -> dict[str, Run]:
    """Run all commands in turn, so that noise affects all; return the best of each.

    A command is made, and perhaps what it works on, before each run. The first round only warms,
    unless it alone takes `seconds`; after these no further round begins. Commands of the names
    `telling` print their own seconds and CPU seconds, as the last line.
    """
    found: dict[str, list[Run]] = {name: [] for name in commands}
    end = monotonic() + seconds
    for _ in range(rounds + 1):
        for name, made in commands.items():
            with made() as command, tempfile.NamedTemporaryFile() as out:
                one = run(command, out=Path(out.name), codes=(0, 1))
                if name in telling:
                    told = map(float, out.read().split(b"\n")[-2].split())
                    one = Run(next(told), next(told), one.mib, 0)
            found[name].append(one)
        if monotonic() > end:
            break
    return {name: _best(runs[1:] or runs) for name, runs in found.items()}


def _best(runs: Sequence[Run]) -> Run:
    seconds = [one.seconds for one in runs]
    cpu, mib = min(one.cpu for one in runs), max(one.mib for one in runs)
    return Run(min(seconds), cpu, mib, statistics.median(seconds))
