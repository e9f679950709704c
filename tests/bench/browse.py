"""Write a report and use it in a browser: browse.py STORE THREAD N -> JSON of seconds"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

from tests.bench.declared import CKPT
from tests.browser import start_browser

_ROUNDS = 3


def browsed(store: str, thread: str, last: str) -> dict[str, float]:
    """Return how long it took to write a report of the last checkpoints, to open it, and to
    step in it.
    """
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "incident.html")
        begun = time.perf_counter()
        with file.open("wb") as out:
            words = [str(CKPT), "-s", store, "report", thread, "--last", last]
            subprocess.run(words, stdout=out, check=True)
        written = time.perf_counter() - begun
        opened, stepped = [], []
        browser = start_browser()
        try:
            for _ in range(_ROUNDS):
                begun = time.perf_counter()
                browser.open(file)
                opened.append(time.perf_counter() - begun)
                assert browser.run("ckpt.checkpoints.length") == int(last)
                browser.press("Home", "End")
                begun = time.perf_counter()
                browser.press("ArrowLeft")
                stepped.append(time.perf_counter() - begun)
        finally:
            browser.stop()
    return {"written": written, "opened": median(opened), "a step": median(stepped)}


if __name__ == "__main__":
    print(json.dumps(browsed(*sys.argv[1:])))
