"""Measure commands side by side, and print the results as a table."""

from __future__ import annotations

import json
import signal
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_LAUNCHER = Path(__file__).with_name("launch.py")
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


def run(command: Command, *, limit: int = 600, out: Path | None = None) -> Run:
    """Run a command once, for `limit` seconds at most. Raises `AssertionError` if it fails."""
    with tempfile.NamedTemporaryFile() as scratch:
        words = [sys.executable, "-I", "-S", _LAUNCHER, out or scratch.name, str(limit), *command]
        found = subprocess.run([str(word) for word in words], check=True, capture_output=True)
    answer = json.loads(found.stdout)
    result = Run(answer["seconds"], answer["cpu"], answer["kib"] / 1024, answer["code"])
    if result.code != 0 and not result.stopped:
        raise AssertionError(f"{' '.join(map(str, command))}: {found.stderr.decode()[-2000:]}")
    return result


def interleaved(commands: Mapping[str, Command], rounds: int) -> dict[str, Runs]:
    """Run all commands in turn, `rounds` times, so that noise affects all; the first round is a
    warm-up.
    """
    found: dict[str, list[Run]] = {name: [] for name in commands}
    for n in range(rounds + 1):
        for name, command in commands.items():
            one = run(command)
            if n:
                found[name].append(one)
    return {name: Runs(runs) for name, runs in found.items()}


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of the table."""

    what: str
    measured: str
    beside: str = ""
    """What the measurement is compared with."""
    ratio: str = ""
    budget: str = ""
    within: bool | None = None


def compared(what: str, ours: Runs, other: str, theirs: Runs, most: float | None = None) -> Figure:
    """Return the ratio of the shortest times, which noise affects least, and that of the CPU
    times.
    """
    ratio = ours.least / theirs.least
    return Figure(
        what,
        _seconds(ours),
        f"{_seconds(theirs)} {other}",
        f"{ratio:.2f} ({ours.cpu / theirs.cpu:.2f})",
        "" if most is None else f"{most:g} x",
        None if most is None else ratio <= most,
    )


def bounded(what: str, ours: Runs, most: float) -> Figure:
    """Return a time with its limit in seconds."""
    return Figure(what, _seconds(ours), budget=f"{most:g} s", within=ours.least <= most)


def memory(what: str, mib: float, most: float) -> Figure:
    """Return a peak of memory with its limit in MiB."""
    return Figure(f"memory: {what}", f"{mib:.0f} MiB", budget=f"{most:g}", within=mib <= most)


def table(figures: Iterable[Figure]) -> str:
    """Return the figures as columns."""
    rows = [("what", "least / median", "beside", "ratio (of CPU)", "budget", "within")]
    for one in figures:
        within = {True: "yes", False: "NO", None: ""}[one.within]
        rows.append((one.what, one.measured, one.beside, one.ratio, one.budget, within))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    )


def _seconds(runs: Runs) -> str:
    if runs.least >= 1:
        return f"{runs.least:.2f} / {runs.median:.2f} s"
    return f"{runs.least * 1000:.0f} / {runs.median * 1000:.0f} ms"
