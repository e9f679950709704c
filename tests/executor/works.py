"""Work for the executor that a test gives to worker processes, and a Dask cluster for it."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from ckpt_backends.model import Thread
from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_store
from ckpt_backends.url import parse_url
from ckpt_cli.reading.executor import Executor
from ckpt_cli.reading.store import Opening

_Do = Callable[[Sequence[Thread]], Iterator[str]]


def lengths(store: Store) -> _Do:
    def do(threads: Sequence[Thread]) -> Iterator[str]:
        for one in threads:
            rows = store.rows(one.thread_id)
            yield f"{one.thread_id} {sum(len(str(row)) for row in rows)}"

    return do


def dying(thread_id: str, mark: Path | None, store: Store) -> _Do:
    """Kill the process at a thread, whenever it is tried, or only until the file is there."""

    def act(one: str) -> None:
        if one == thread_id and not (mark and mark.exists()):
            if mark:
                mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    return _before(store, act)


def raising(thread_id: str, error: Exception, store: Store) -> _Do:
    def act(one: str) -> None:
        if one == thread_id:
            raise error

    return _before(store, act)


def slow(mark: Path, store: Store) -> _Do:
    """Take a moment for each thread, and note that it was begun."""

    def act(one: str) -> None:
        with mark.open("a") as file:
            file.write(f"{os.getpid()} {one}\n")
        time.sleep(0.05)

    return _before(store, act)


def environment(name: str, store: Store) -> _Do:
    return lambda threads: (f"{os.environ.get(name)}" for _ in threads)


def _before(store: Store, act: Callable[[str], None]) -> _Do:
    do = lengths(store)

    def with_act(threads: Sequence[Thread]) -> Iterator[str]:
        for one in threads:
            act(one.thread_id)
            yield from do([one])

    return with_act


def begun(store: Path, work: Any, **options: Any) -> Generator[str]:
    """Yield results as long as they are read."""
    with open_store(str(store)) as opened:
        executor = Executor(Opening(parse_url(str(store))), **options)
        yield from executor.run(opened, opened.threads(), work)


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
