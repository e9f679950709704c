"""Run commands side by side, and measure their time, processor time and memory."""

from __future__ import annotations

import json
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from time import monotonic
from typing import Protocol

_LAUNCHER = Path(__file__).with_name("launch.py")
_TRACEBACK = b"Traceback (most recent call last)"
Command = Sequence[str | Path]


@dataclass(frozen=True, slots=True)
class Run:
    """One run of a command."""

    seconds: float
    cpu: float
    """CPU seconds; other processes change this number little."""
    mib: float
    """Peak resident memory in MiB."""
    code: int

    @property
    def stopped(self) -> bool:
        """Whether it was stopped because it took too long."""
        return self.code == -signal.SIGKILL


@dataclass(frozen=True, slots=True)
class Runs:
    """Several runs of one command."""

    runs: Sequence[Run]

    @property
    def least(self) -> float:
        return min(run.seconds for run in self.runs)

    @property
    def median(self) -> float:
        return statistics.median(run.seconds for run in self.runs)

    @property
    def cpu(self) -> float:
        return min(run.cpu for run in self.runs)

    @property
    def mib(self) -> float:
        return max(run.mib for run in self.runs)

    @property
    def stopped(self) -> bool:
        """Whether a run was stopped because it took too long."""
        return any(run.stopped for run in self.runs)


class Prepares(Protocol):
    """Gives the command of one run, and may prepare and clean up what it works on."""

    def __call__(self) -> AbstractContextManager[Command]: ...


def run(
    command: Command, *, limit: int = 600, out: Path | None = None, codes: Collection[int] = (0,)
) -> Run:
    """Run a command once, for `limit` seconds at most. Raises `AssertionError` if it fails.

    A program that ends with a traceback has failed with every code.
    """
    with tempfile.NamedTemporaryFile() as scratch:
        words = [sys.executable, "-I", "-S", _LAUNCHER, out or scratch.name, str(limit), *command]
        found = subprocess.run([str(word) for word in words], check=True, capture_output=True)
    answer = json.loads(found.stdout)
    result = Run(answer["seconds"], answer["cpu"], answer["kib"] / 1024, answer["code"])
    has_failed = result.code not in codes or _TRACEBACK in found.stderr
    if has_failed and not result.stopped:
        raise AssertionError(f"{' '.join(map(str, command))}: {found.stderr.decode()[-2000:]}")
    return result


def interleaved(
    commands: Mapping[str, Prepares],
    rounds: int,
    *,
    seconds: float,
    limit: int,
    telling: Collection[str] = (),
) -> dict[str, Runs]:
    """Run all commands in turn, so that noise affects all.

    The first round only warms, unless it alone takes `seconds`. After `seconds`, no further round
    begins. A single run is stopped after `limit` seconds. Commands of these names (`telling`) print
    their own seconds and CPU seconds, as the last line.
    """
    found: dict[str, list[Run]] = {name: [] for name in commands}
    end = monotonic() + seconds
    for _ in range(rounds + 1):
        for name, prepared in commands.items():
            with prepared() as command:
                found[name].append(_run(command, limit, tells=name in telling))
        if monotonic() > end:
            break
    return {name: Runs(runs[1:] or runs) for name, runs in found.items()}


def _run(command: Command, limit: int, *, tells: bool) -> Run:
    with tempfile.NamedTemporaryFile() as out:
        one = run(command, limit=limit, out=Path(out.name), codes=(0, 1))
        if not tells or one.stopped:
            return one
        last = out.read().split(b"\n")[-2]
    seconds, cpu = map(float, last.split())
    return replace(one, seconds=seconds, cpu=cpu)
