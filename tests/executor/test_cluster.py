"""The same answers from the workers of a Dask cluster, also while they are killed."""

from __future__ import annotations

import os
import random
import re
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.errors import UsageError
from ckpt_backends.installing import release
from tests.executor import works
from tests.executor.conftest import Run
from tests.executor.dask_cluster import cluster
from tests.kit.command import ckpt

pytestmark = [pytest.mark.engines, pytest.mark.xdist_group("dask")]
COMMANDS = [
    "replay --all --verify",
    "doctor --deep",
    "grep -F a",
    "stats",
    "stats --by thread,day",
    "secrets",
]


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with cluster(tmp_path_factory.mktemp("dask"), 2, SENT="by the worker") as (address, _):
        yield address


@pytest.mark.parametrize("words", COMMANDS)
def test_a_command_answers_the_same_wherever_it_runs(store: Path, address: str, words: str) -> None:
    command: list[str | Path] = ["-s", store, *words.split(), "-o", "json"]
    here = ckpt(*command)
    for where in (["--jobs", "2"], ["--cluster", address]):
        there = ckpt(*command, *where)
        assert (there.code, there.out, there.err) == (here.code, here.out, here.err)


def test_a_worker_takes_its_own_environment(run: Run, address: str) -> None:
    answers, _ = run(partial(works.environment, "SENT"), cluster=address)
    assert set(answers) == {"by the worker"}


def test_a_thread_with_an_unexpected_error_is_left_out(run: Run, address: str) -> None:
    whole, _ = run(works.lengths)
    answers, lost = run(partial(works.raising, "fork-update"), cluster=address)
    assert answers == [one for one in whole if not one.startswith("fork-update ")]
    assert [one.reason for one in lost] == ["internal error: KeyError"]


def test_a_key_that_only_this_side_has_is_refused(
    run: Run, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LANGGRAPH_AES_KEY", "0123456789abcdef")
    with pytest.raises(UsageError, match="has no key for encrypted values"):
        run(works.lengths, cluster=address)


def test_another_release_on_a_worker_is_refused(
    run: Run, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ckpt_cli.reading.cluster.release", lambda: "99.0")
    with pytest.raises(UsageError, match=rf"has ckpt {re.escape(release())}, not 99\.0"):
        run(works.lengths, cluster=address)


def test_an_answer_that_is_not_read_on_ends_the_work(store: Path, address: str) -> None:
    mark = store.parent / "mark"
    mark.touch()
    with pytest.raises(RuntimeError, match="enough"):
        _stopped_in_the_middle(store, address, mark)
    time.sleep(0.2)  # a worker ends the thread that it had begun
    begun = mark.read_text()
    time.sleep(0.5)
    assert mark.read_text() == begun
    assert 0 < len(begun.splitlines()) < 40


def _stopped_in_the_middle(store: Path, address: str, mark: Path) -> None:
    from ckpt_backends.registry import open_store
    from ckpt_backends.url import parse_url
    from ckpt_cli.reading.executor import Executor
    from ckpt_cli.reading.store import Opening

    url = parse_url(str(store))
    with open_store(url) as opened:
        executor = Executor(Opening(url), cluster=address)
        for _ in executor.run(opened, opened.threads(), partial(works.slow, mark)):
            raise RuntimeError("enough")


def _workers(nannies: list[Any]) -> list[int]:
    """Return the worker processes below the nannies."""
    found: list[int] = []
    for nanny in nannies:
        tasks = Path(f"/proc/{nanny.pid}/task").glob("*/children")
        for child in (int(one) for task in tasks for one in task.read_text().split()):
            command = Path(f"/proc/{child}/cmdline").read_bytes()
            if b"spawn_main" in command:
                found.append(child)
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("number", "kills"), [(2, 2), (8, 12)])
def test_workers_that_are_killed_at_random_lose_and_double_nothing(
    run: Run, tmp_path: Path, number: int, kills: int
) -> None:
    whole, _ = run(works.lengths)
    numbers, killed, over = random.Random(11), list[int](), threading.Event()
    with cluster(tmp_path, number) as (address, nannies):

        def kill() -> None:
            while len(killed) < kills and not over.wait(0.4):
                alive = _workers(nannies)
                if alive:
                    victim = numbers.choice(alive)
                    os.kill(victim, signal.SIGKILL)
                    killed.append(victim)

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            answer = run(partial(works.slow, tmp_path / "mark"), cluster=address)
        finally:
            over.set()
            killer.join()
    assert answer == (whole, [])
    assert killed
