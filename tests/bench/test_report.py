"""A report of 10,000 checkpoints: how long it takes to write, and to open in a browser."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path
from statistics import median

import pytest

from tests.bench.make_store import DEEP
from tests.bench.measure import Figure
from tests.browser import start_browser
from tests.plugin import started

pytestmark = pytest.mark.bench

_ROUNDS = 5


@pytest.mark.parametrize("thread_id", ["loop", "straight", "forked"])
def test_reports(deep: Path, thread_id: str, figures: list[Figure], tmp_path: Path) -> None:
    file = tmp_path / "incident.html"
    words = ["-s", str(deep), "report", thread_id, "--last", str(DEEP)]
    begun = time.perf_counter()
    with file.open("wb") as out:
        subprocess.run([sys.executable, "-m", "ckpt_cli", *words], stdout=out, check=True)
    written = time.perf_counter() - begun
    mib = f"{file.stat().st_size / 1024**2:.1f} MiB"
    figures.append(Figure(f"ckpt report {thread_id}: write", f"{written:.2f} s", mib))
    opened, stepped = [], []
    with started("chromium", start_browser) as browser:
        for _ in range(_ROUNDS):
            begun = time.perf_counter()
            browser.open(file)
            opened.append(time.perf_counter() - begun)
            assert browser.run("ckpt.checkpoints.length") == DEEP
            browser.press("Home", "End")
            begun = time.perf_counter()
            browser.press("ArrowLeft")
            stepped.append(time.perf_counter() - begun)
    figures.append(Figure(f"ckpt report {thread_id}: open", f"{median(opened):.2f} s"))
    figures.append(Figure(f"ckpt report {thread_id}: a step", f"{median(stepped) * 1000:.0f} ms"))
