"""Work in this process, in others and on a cluster: the same answers, whatever happens to them."""

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields
from functools import partial
from itertools import chain
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from ckpt_backends.errors import MissingDependency, PartlyDone, StoreUnavailable, UsageError
from ckpt_backends.installing import release
from ckpt_backends.registry import open_store
from ckpt_backends.url import StoreUrl, parse_url
from ckpt_cli.config.profiles import Profiles, store_of
from ckpt_cli.reading.cluster import Cluster, SentRange, sent_store
from ckpt_cli.reading.executor import Executor
from ckpt_cli.reading.store import Opening
from ckpt_cli.reading.workers import (
    MOST_AHEAD,
    MOST_BYTES,
    MOST_THREADS,
    Backlog,
    LostThread,
    Outcome,
    Piece,
    RangeDone,
    RangesInOrder,
    Workers,
)
from tests.executor import works
from tests.executor.works import begun, cluster
from tests.kit.cases import cases
from tests.kit.command import FIXTURES, ckpt, copy_store

Answer: TypeAlias = tuple[list[str], list[LostThread]]
Run: TypeAlias = Callable[..., Answer]
"""Takes work, and the options of `Executor`; returns the results, and the threads left out."""
SECRET = "sk-secret-value"
DASK = [pytest.mark.engines, pytest.mark.xdist_group("dask")]


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return copy_store(FIXTURES / "lg-1.2.22" / "store.db", tmp_path)


@pytest.fixture
def run(store: Path) -> Run:
    def run(work: Any, at_once: int = 1, **options: Any) -> Answer:
        lost: list[LostThread] = []
        executor = Executor(Opening(parse_url(str(store))), lost=lost.extend, **options)
        with open_store(str(store)) as opened:
            return list(executor.run(opened, opened.threads(), work, at_once=at_once)), lost

    return run


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with cluster(tmp_path_factory.mktemp("dask"), 2, SENT="by the worker") as (address, _):
        yield address


@pytest.fixture
def options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Where the work is done, by its parameter: one or more processes, or a cluster."""
    if request.param == "cluster":
        return {"cluster": request.getfixturevalue("address")}
    return {"jobs": request.param}


def everywhere(*jobs: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(
        "options", [*jobs, pytest.param("cluster", marks=DASK)], indirect=True
    )


@pytest.mark.parametrize(
    "words",
    [
        *("grep -F a", "replay --all --verify", "doctor --deep", "stats"),
        *("stats --by thread,day", "secrets"),
    ],
)
@pytest.mark.in_ci("grep", "replay")
@pytest.mark.engines
@pytest.mark.xdist_group("dask")
def test_a_command_answers_the_same_wherever_it_runs(store: Path, address: str, words: str) -> None:
    command: list[str | Path] = ["-s", store, *words.split(), "-o", "json"]
    here = ckpt(*command)
    for where in (["--jobs", "2"], ["--cluster", address]):
        there = ckpt(*command, *where)
        assert (there.code, there.out, there.err) == (here.code, here.out, here.err)


@pytest.mark.parametrize("at_once", [1, 7])
@everywhere(1, 2)
def test_a_thread_with_an_error_is_left(run: Run, options: dict[str, Any], at_once: int) -> None:
    whole, _ = run(works.lengths)
    answers, lost = run(partial(works.raising, "fork-update", KeyError(SECRET)), at_once, **options)
    assert answers == [one for one in whole if not one.startswith("fork-update ")]
    ((found),) = lost
    assert (found.thread_id, found.reason) == ("fork-update", "internal error: KeyError")
    assert SECRET not in found.trace
    assert "cluster" in options or "works.py" in found.trace


@everywhere(2)
def test_what_is_not_read_on_ends(store: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    mark = tmp_path / "mark"
    results = begun(store, partial(works.slow, mark), **options)
    next(results)
    results.close()
    time.sleep(0.2)  # a worker ends the thread that it had begun
    done = mark.read_text()
    time.sleep(0.5)
    assert mark.read_text() == done
    assert 0 < len(done.splitlines()) < 40


def test_a_worker_that_is_killed_loses_and_doubles_nothing(run: Run, tmp_path: Path) -> None:
    whole, _ = run(works.lengths)
    for number in (0, len(whole) // 2):
        thread_id = whole[number].rpartition(" ")[0]
        mark = tmp_path / f"mark-{number}"
        assert run(partial(works.dying, thread_id, mark), jobs=2) == (whole, [])
        assert mark.exists()


@pytest.mark.nightly
def test_a_thread_that_kills_its_workers_is_left_out(run: Run) -> None:
    whole, _ = run(works.lengths)
    answers, lost = run(partial(works.dying, "fork-update", None), jobs=2)
    assert answers == [one for one in whole if not one.startswith("fork-update ")]
    assert [one.thread_id for one in lost] == ["fork-update"]
    assert "signal 9" in lost[0].reason


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_error_of_ours_ends_the_run_after_the_results_before_it(store: Path, jobs: int) -> None:
    with open_store(str(store)) as opened:
        ids = [one.thread_id for one in opened.threads()]
    error = StoreUnavailable("the server is gone", hint="start it")
    found: list[str] = []
    with pytest.raises(StoreUnavailable, match="the server is gone") as raised:
        found.extend(begun(store, partial(works.raising, ids[30], error), jobs=jobs))
    assert raised.value.hint == "start it"
    assert [one.rpartition(" ")[0] for one in found] == ids[:30]


def test_python_code_is_told_about_what_was_left_out(store: Path) -> None:
    with pytest.raises(PartlyDone, match="left out thread 'chat': internal error: KeyError"):
        list(begun(store, partial(works.raising, "chat", KeyError(SECRET))))


CTRL_C = """
import sys
from functools import partial
from pathlib import Path
from tests.executor.works import begun, slow

if __name__ == "__main__":
    list(begun(Path(sys.argv[1]), partial(slow, Path(sys.argv[2])), jobs=2))
"""


@pytest.mark.engines
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_the_process_that_started_them(store: Path, number: int) -> None:
    mark, program = store.parent / "mark", store.parent / "program.py"
    program.write_text(CTRL_C)
    command = [sys.executable, str(program), str(store), str(mark)]
    with subprocess.Popen(
        command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}, stderr=subprocess.PIPE
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


@pytest.mark.engines
@pytest.mark.xdist_group("dask")
def test_a_worker_of_a_cluster_has_its_own_environment_key_and_release(
    run: Run, address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers, _ = run(partial(works.environment, "SENT"), cluster=address)
    assert set(answers) == {"by the worker"}
    with monkeypatch.context() as patch:
        patch.setenv("LANGGRAPH_AES_KEY", "0123456789abcdef")
        with pytest.raises(UsageError, match="has no key for encrypted values"):
            run(works.lengths, cluster=address)
    monkeypatch.setattr("ckpt_cli.reading.cluster.release", lambda: "99.0")
    with pytest.raises(UsageError, match=rf"has ckpt {re.escape(release())}, not 99\.0"):
        run(works.lengths, cluster=address)


def _workers(nannies: list[Any]) -> list[int]:
    """Return the worker processes below the nannies."""
    found: list[int] = []
    for nanny in nannies:
        tasks = Path(f"/proc/{nanny.pid}/task").glob("*/children")
        for child in (int(one) for task in tasks for one in task.read_text().split()):
            if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(child)
    return found


@pytest.mark.nightly
def test_workers_killed_at_random_lose_and_double_nothing(run: Run, tmp_path: Path) -> None:
    whole, _ = run(works.lengths)
    numbers, killed, over = random.Random(11), list[int](), threading.Event()
    with cluster(tmp_path, 8) as (address, nannies):

        def kill() -> None:
            while len(killed) < 12 and not over.wait(0.4):
                if alive := _workers(nannies):
                    killed.append(numbers.choice(alive))
                    os.kill(killed[-1], signal.SIGKILL)

        killer = threading.Thread(target=kill)
        killer.start()
        try:
            answer = run(partial(works.slow, tmp_path / "mark"), cluster=address)
        finally:
            over.set()
            killer.join()
    assert answer == (whole, [])
    assert killed


# No secret travels to a cluster: what cannot be left out is refused

PASSWORD = "hunter2-of-the-store"


def in_profile(text: str, params: Mapping[str, str] | None = None) -> StoreUrl:
    return store_of(Profiles(None, None, {}), "profile 'prod'", text, params or {})


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STORE_SECRET", PASSWORD)
    monkeypatch.setenv("STORE_URL", f"postgresql://reader:{PASSWORD}@db/agents")


@cases(
    "text params",
    ("postgresql://reader:${STORE_SECRET}@db/agents", {}),
    ("${STORE_URL}", {}),
    ("postgresql://reader@db/agents?sslpassword=${STORE_SECRET}", {}),
    ("postgresql://reader@db/agents", {"sslpassword": "${STORE_SECRET}"}),
)
def test_variables_travel_by_name(
    text: str, params: dict[str, str], variables: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = sent_store(Opening(in_profile(text, params)))
    whole = SentRange("run", "1", sent, works.lengths, ["chat"], 1)
    assert PASSWORD.encode() not in bytes(ForkingPickler.dumps(whole))
    monkeypatch.setenv("STORE_SECRET", "other")
    monkeypatch.setenv("STORE_URL", "postgresql://reader:other@db/agents")
    there = sent.opening()
    assert "other" in (there.url.raw + str(there.url.params))
    monkeypatch.delenv("STORE_SECRET")
    monkeypatch.delenv("STORE_URL")
    with pytest.raises(UsageError, match=r"'STORE_\w+' is not set.* on a worker"):
        sent.opening()


@cases(
    "url",
    parse_url(f"postgresql://reader:{PASSWORD}@db/agents"),
    parse_url(f"postgresql://reader@db/agents?sslpassword={PASSWORD}"),
    in_profile("postgresql://reader@db/agents", {"sslpassword": PASSWORD}),
    in_profile("postgresql://reader:x@${HOME}/agents"),
)
def test_what_is_written_out_is_refused(url: StoreUrl, variables: None) -> None:
    with pytest.raises(UsageError, match="a password or another secret in a URL") as raised:
        sent_store(Opening(url))
    assert "${NAME}" in str(raised.value.hint)


def test_a_key_file_is_refused() -> None:
    with pytest.raises(UsageError, match="--aes-key-file is not sent"):
        sent_store(Opening(parse_url("agent.db"), "key.bin"))


def test_a_file_travels_with_its_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert sent_store(Opening(parse_url("agent.db"))).text == str(tmp_path / "agent.db")


def test_nothing_else_is_in_a_range() -> None:
    names = {one.name for one in fields(SentRange)}
    assert names == {"run", "release", "store", "work", "parts", "at_once"}


def test_without_the_library_a_hint_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(MissingDependency) as raised:
        Cluster("tcp://127.0.0.1:1", Opening(parse_url("agent.db")), works.lengths, 1)
    assert "langgraph-ckpt[dask]" in str(raised.value.hint)


@pytest.mark.engines
@pytest.mark.parametrize("address", ["nowhere", "ftp://127.0.0.1:1"])
def test_no_scheduler_is_an_error(address: str) -> None:
    with pytest.raises(StoreUnavailable, match=f"cannot reach a Dask scheduler at '{address}'"):
        Cluster(address, Opening(parse_url(os.devnull)), works.lengths, 1)


KB, MB, GB = 1 << 10, 1 << 20, 1 << 30


def backlog(weights: Sequence[int]) -> Backlog[int]:
    """Return a backlog whose threads are the numbers of these weights."""
    return Backlog(iter(range(len(weights))), lambda some: [weights[one] for one in some])


def given_out(found: Backlog[Any], workers: int) -> Iterator[Piece]:
    """Yield ranges; as many threads as may be are weighed before each."""
    while True:
        while not found.is_full:
            found.read()
        one = found.take(workers)
        if one is None:
            return
        yield one


class OneAfterTheOther(Workers):
    """Workers that end what began last first, and note what they began."""

    number = 2

    def __init__(self) -> None:
        self.begun: list[Piece] = []
        self._working: list[Piece] = []

    def start(self, piece: Piece) -> bool:
        if len(self._working) == self.number:
            return False
        self._working.append(piece)
        self.begun.append(piece)
        return True

    def ended(self, *, wait: bool) -> Iterator[tuple[Piece, Outcome]]:
        if wait:
            piece = self._working.pop()
            yield piece, RangeDone(list(piece.parts))

    def close(self) -> None:
        pass


def run_all(found: Backlog[int]) -> tuple[list[int], list[Piece]]:
    workers = OneAfterTheOther()
    return list(RangesInOrder(found, workers, None, lambda _: None).results()), workers.begun


def test_each_thread_is_in_one_range_in_order() -> None:
    numbers = random.Random(5)
    weights = [int(numbers.paretovariate(0.8) * 20 * KB) for _ in range(3000)]
    answers, begun = run_all(backlog(weights))
    assert answers == list(range(3000))
    assert sorted(chain.from_iterable(one.parts for one in begun)) == list(range(3000))
    assert [one.parts[0] for one in begun] != sorted(one.parts[0] for one in begun)


def test_ranges_are_even_by_bytes_and_not_by_count() -> None:
    numbers = random.Random(6)
    weights = [numbers.randint(20 * KB, 40 * KB) * (1 + 9 * (n % 800 > 600)) for n in range(4000)]
    ranges = list(given_out(backlog(weights), 2))
    assert {one.bytes <= MOST_BYTES for one in ranges} == {True}
    full, counts = zip(*((one.bytes, len(one.parts)) for one in ranges[:9]), strict=True)
    assert max(full) < 1.1 * min(full)
    assert max(counts) > 3 * min(counts)


def test_ranges_become_small_at_the_end() -> None:
    sizes = [one.bytes for one in given_out(backlog([100 * KB] * 2000), 2)]
    assert sizes[0] > 5 * MB
    assert sizes[-1] <= 128 * KB
    assert sizes == sorted(sizes, reverse=True)


def test_a_thread_of_a_gigabyte_begins_before_its_turn() -> None:
    """It begins once it is weighed, and no range waits behind it."""
    number, place = 20_000, 9_000
    answers, begun = run_all(backlog([GB if one == place else 16 * KB for one in range(number)]))
    assert answers == list(range(number))
    assert all(len(one.parts) <= MOST_THREADS for one in begun)
    (heavy,) = [one for one in begun if place in one.parts]
    assert heavy.parts == [place]
    before = [one for one in begun[begun.index(heavy) + 1 :] if one.parts[0] < place]
    assert len(before) > 5


def test_threads_that_wait_are_not_held_in_memory() -> None:
    read = taken = 0

    def names() -> Iterator[str]:
        nonlocal read
        for read in range(100_000):
            yield f"thread-{read:036}"

    for one in given_out(Backlog(names(), lambda some: [KB] * len(some)), 1):
        taken += len(one.parts)
        assert read <= taken + MOST_AHEAD + 2 * MOST_THREADS
    assert taken == 100_000


def test_a_list_that_breaks_off_gives_what_it_had() -> None:
    def broken() -> Iterator[int]:
        yield from range(30)
        raise StoreUnavailable("gone")

    found: Backlog[int] = Backlog(broken(), lambda some: [KB] * len(some))
    parts = list(chain.from_iterable(one.parts for one in iter(lambda: found.take(1), None)))
    assert parts == list(range(30))
    assert isinstance(found.error, StoreUnavailable)
