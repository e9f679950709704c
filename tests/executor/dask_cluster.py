"""A Dask cluster on this machine."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

_PATIENCE = 60.0


@contextmanager
def cluster(folder: Path, workers: int, **variables: str) -> Iterator[tuple[str, list[Any]]]:
    """Start a scheduler and workers on this machine; yields the address and the nannies.

    A nanny is a process that starts its worker again.
    """
    path = os.pathsep.join(filter(None, [str(Path.cwd()), os.environ.get("PYTHONPATH", "")]))
    settings = {**os.environ, "PYTHONPATH": path}
    with ExitStack() as stack:

        def start(name: str, *words: str, **more: str) -> subprocess.Popen[bytes]:
            log = stack.enter_context((folder / f"{name}.log").open("wb"))
            one = subprocess.Popen(
                [sys.executable, "-m", f"distributed.cli.dask_{name.partition('-')[0]}", *words],
                env={**settings, **more},
                stdout=log,
                stderr=log,
                cwd=folder,
            )
            stack.callback(one.wait, _PATIENCE)
            stack.callback(one.terminate)
            return one

        start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard")
        address = _found(folder / "scheduler.log", r"(tcp://127\.0\.0\.1:\d+)")
        common = ["--nthreads", "1", "--no-dashboard", "--local-directory", str(folder)]
        nannies = [
            start(f"worker-{n}", address, "--host", "127.0.0.1", *common, **variables)
            for n in range(workers)
        ]
        for n in range(workers):
            _found(folder / f"worker-{n}.log", r"(Registered to)")
        yield address, nannies


def _found(path: Path, pattern: str) -> str:
    deadline = time.monotonic() + _PATIENCE
    while time.monotonic() < deadline:
        found = re.search(pattern, path.read_text())
        if found is not None:
            return found[1]
        time.sleep(0.05)
    raise AssertionError(path.read_text())
