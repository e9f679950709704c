"""Work in this process and in others: the same answers, whatever happens to a worker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from ckpt_backends.errors import PartlyDone, StoreUnavailable, UsageError
from ckpt_backends.registry import open_store
from ckpt_backends.url import parse_url
from ckpt_cli.reading.executor import Executor
from ckpt_cli.reading.store import Opening
from tests.executor import works
from tests.executor.conftest import Run

HERE_AND_THERE = pytest.mark.parametrize("jobs", [1, 2])


def test_the_answers_are_the_same_in_the_same_order(run: Run) -> None:
    here, there = run(works.lengths), run(works.lengths, jobs=3)
    assert here == there
    assert len(here[0]) > 40


def test_a_worker_that_is_killed_loses_and_doubles_nothing(run: Run, tmp_path: Path) -> None:
    whole, _ = run(works.lengths)
    for number in (0, len(whole) // 2):
        thread_id = whole[number].rpartition(" ")[0]
        mark = tmp_path / f"mark-{number}"
        assert run(partial(works.dying_once, thread_id, mark), jobs=2) == (whole, [])
        assert mark.exists()


@pytest.mark.slow
def test_a_thread_that_kills_its_workers_is_left_out(run: Run) -> None:
    whole, _ = run(works.lengths)
    answers, lost = run(partial(works.dying, "fork-update"), jobs=2)
    assert answers == [one for one in whole if not one.startswith("fork-update ")]
    assert [one.thread_id for one in lost] == ["fork-update"]
    assert "signal 9" in lost[0].reason


@HERE_AND_THERE
@pytest.mark.parametrize("at_once", [1, 7])
def test_a_thread_with_an_unexpected_error_is_left_out(run: Run, jobs: int, at_once: int) -> None:
    whole, _ = run(works.lengths)
    answers, lost = run(partial(works.raising, "fork-update"), at_once, jobs=jobs)
    assert answers == [one for one in whole if not one.startswith("fork-update ")]
    ((found),) = lost
    assert (found.thread_id, found.reason) == ("fork-update", "internal error: KeyError")
    assert "works.py" in found.trace
    assert works.SECRET not in found.trace


@HERE_AND_THERE
def test_an_error_of_ours_ends_the_run_after_the_results_before_it(store: Path, jobs: int) -> None:
    url = parse_url(str(store))
    found: list[str] = []
    with open_store(url) as opened:
        ids = [one.thread_id for one in opened.threads()]
        work = partial(works.unavailable, ids[30])
        results = Executor(Opening(url), jobs).run(opened, opened.threads(), work)
        with pytest.raises(StoreUnavailable, match="the server is gone") as raised:
            found.extend(results)
    assert raised.value.hint == "start it"
    assert [one.rpartition(" ")[0] for one in found] == ids[:30]


def test_python_code_is_told_about_what_was_left_out(store: Path) -> None:
    url = parse_url(str(store))
    with open_store(url) as opened:
        work = partial(works.raising, "chat")
        with pytest.raises(PartlyDone, match="left out thread 'chat': internal error: KeyError"):
            list(Executor(Opening(url)).run(opened, opened.threads(), work))


def test_an_answer_that_is_not_read_to_its_end_ends_the_workers(store: Path) -> None:
    url = parse_url(str(store))
    mark = store.parent / "mark"
    with open_store(url) as opened:
        results = Executor(Opening(url), 2).run(opened, opened.threads(), partial(works.slow, mark))
        next(results)
        results.close()
    begun = mark.read_text()
    time.sleep(0.3)
    assert mark.read_text() == begun


CTRL_C = """
import sys
from functools import partial
from pathlib import Path
from ckpt_backends.registry import open_store
from ckpt_backends.url import parse_url
from ckpt_cli.reading.executor import Executor
from ckpt_cli.reading.store import Opening
from tests.executor import works

if __name__ == "__main__":
    url = parse_url(sys.argv[1])
    with open_store(url) as store:
        work = partial(works.slow, Path(sys.argv[2]))
        for _ in Executor(Opening(url), 2).run(store, store.threads(), work):
            pass
"""


@pytest.mark.engines
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_the_process_that_started_them(store: Path, number: int) -> None:
    mark, program = store.parent / "mark", store.parent / "program.py"
    program.write_text(CTRL_C)
    command = [sys.executable, str(program), str(store), str(mark)]
    path = os.pathsep.join(sys.path)
    with subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": path}, stderr=subprocess.PIPE
    ) as process:
        while not mark.exists():
            time.sleep(0.02)
        process.send_signal(number)
        process.communicate(timeout=60)
    workers = {int(line.split()[0]) for line in mark.read_text().splitlines()}
    deadline = time.monotonic() + 30
    while any(map(_is_alive, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(map(_is_alive, workers))


def _is_alive(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().split()[2] != "Z"
    except OSError:
        return False


def test_processes_and_a_cluster_exclude_each_other(store: Path) -> None:
    with pytest.raises(UsageError, match="--jobs cannot be combined with --cluster"):
        Executor(Opening(parse_url(str(store))), 2, "tcp://127.0.0.1:1")
