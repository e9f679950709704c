"""The terminal UI on a large store: first paint, scrolling, filtering, memory."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ckpt_cli.core.timeline.scrubber import Scrubber, TimedPoint
from tests.bench.measure import Figure
from tests.support import ROOT

pytestmark = pytest.mark.bench

_ROUNDS = 5
_TEXTUAL = "Textual's own start-up"


def _sat(*store: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.bench.screen", str(time.time()), *map(str, store)]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return dict(json.loads(found.stdout))


def test_the_screen(large: Path, threads: int, figures: list[Figure]) -> None:
    empty, full = [], []
    for _ in range(_ROUNDS):
        empty.append(_sat())
        full.append(_sat(large))
    assert {one["threads"] for one in full} == {threads}
    assert all(0 < one["filtered"] < threads for one in full)

    def median(found: list[dict[str, Any]], *path: str) -> float:
        values: list[Any] = found
        for key in path:
            values = [one[key] for one in values]
        return float(statistics.median(values))

    def told(name: str, seconds: float, than: float) -> Figure:
        return Figure(name, f"{seconds:.2f} s", f"{seconds / than:.1f}x of {_TEXTUAL}")

    start = median(empty, "painted")
    figures.append(Figure(_TEXTUAL, f"{start:.2f} s"))
    figures.append(told("ckpt tui: first paint", median(full, "painted"), start))
    for who, found in ((_TEXTUAL.partition(" ")[0], empty), ("ckpt tui:", full)):
        for name in (key for key, value in found[0].items() if isinstance(value, dict)):
            seconds, gap = median(found, name, "seconds"), max(one[name]["gap"] for one in found)
            told_gap = f"longest gap {gap * 1000:.0f} ms"
            figures.append(Figure(f"{who} {name}", f"{seconds:.2f} s", told_gap))
    mib = median(full, "mib")
    figures.append(
        Figure("ckpt tui: memory", f"{mib:.0f} MiB", f"{mib / median(empty, 'mib'):.1f}x Textual's")
    )


def test_the_line_of_10_000_checkpoints(figures: list[Figure]) -> None:
    start = datetime(2026, 4, 8, tzinfo=UTC)
    points = [
        TimedPoint(("", f"{n:05}"), start + timedelta(seconds=n * n % 977 + n), "run", "step")
        for n in range(10_000)
    ]
    began = time.perf_counter()
    scrubber = Scrubber(points)
    made = time.perf_counter()
    assert len(scrubber.cells(160)) == 160
    figures.append(Figure("ckpt tui: line of a thread, read", f"{(made - began) * 1000:.1f} ms"))
    took = (time.perf_counter() - made) * 1000
    figures.append(Figure("ckpt tui: line of a thread, drawn", f"{took:.1f} ms"))


def test_steps_on_a_long_thread(deep: Path, figures: list[Figure]) -> None:
    command = [sys.executable, "-m", "tests.bench.steps", str(deep)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    for tab, seconds in json.loads(done.stdout).items():
        step = f"{statistics.median(seconds) * 1000:.0f} ms"
        worst = f"at most {max(seconds) * 1000:.0f} ms"
        figures.append(Figure(f"ckpt tui: a step in {tab}", step, worst))
