"""Killed at any moment, a purge leaves each thread whole or gone; an agent at work loses nothing.

An import brings a thread back whole or not at all. On Redis, a thread of very many keys goes in
several transactions; tests/engines/test_removal.py breaks off after each of them.
"""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from threading import Event, Thread
from typing import Any

import pymongo
import pytest

from ckpt_backends.archive import check_bundle
from ckpt_backends.testing.chance import Chance
from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.library import config_of_thread, graph_of
from tests.kit.command import ckpt
from tests.kit.killing import run_and_kill, seconds_of
from tests.kit.opening import empty_store
from tests.kit.servers import start_mongodb
from tests.kit.travelling import HARNESSES

THREADS = [f"t{number}" for number in range(13)]
LOCK = "ckpt:purge-lock"
PURGE = ("purge", "--match", "t*", "--include-pending", "--include-interrupted", "--yes")
SLOWLY = ("--batch", "1", "--sleep", "0.05", "--archive")


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Any]:
    """A store of threads of the official saver."""
    kind = HARNESSES[request.param]
    with ExitStack() as stack:
        if request.param == "mongodb":
            # One of its own, on which transactions of others can be ended.
            server = start_mongodb("--log-level", "ERROR")
            stack.callback(server.stop)
            made = stack.enter_context(kind(tmp_path, server))
        else:
            made = stack.enter_context(empty_store(kind, request, tmp_path))
        for name in (*THREADS, "stays"):
            graph_of(made.kept_saver).invoke({"items": ["x" * 2000]}, config_of_thread(name))
        yield made


def stored(place: Harness) -> dict[str, Any]:
    """The rows of the threads that have some, as the engine has them."""
    found = {name: place.rows(name) for name in THREADS}
    return {name: rows for name, rows in found.items() if any(rows.values())}


def has_begun(place: Any) -> bool:
    """Whether a purge is at work."""
    return bool(place.client.exists(LOCK) if place.name == "redis" else len(stored(place)) < 13)


def settle(place: Any) -> None:
    """End what a server ends by itself when its client has been gone for some time."""
    if place.name == "redis":
        assert place.client.pttl(LOCK) != -1
        place.client.delete(LOCK)
    if place.name == "mongodb":
        end = time.monotonic() + 10
        while not can_be_written(place) and time.monotonic() < end:
            time.sleep(0.05)


def can_be_written(place: Any) -> bool:
    place.client.admin.command("killAllSessions", [])
    with place.client.start_session() as session:
        session.start_transaction()
        try:
            for table in place.TABLES:
                change = {"$set": {"type": "probe"}}
                place.database[table].update_many({}, change, session=session)
        except pymongo.errors.OperationFailure:
            return False
        finally:
            session.abort_transaction()
    return True


def check_round(place: Harness, archive: Path, dice: Random, longest: float) -> str:
    """Kill a purge; in some rounds, kill the import of what it archived, too."""
    before = stored(place)
    words: list[str | Path] = ["-s", place.url, *PURGE, *SLOWLY, archive]
    if dice.random() < 0.5:
        ended = run_and_kill(words, dice, longest / 10, begun=lambda: has_begun(place))
    else:
        ended = run_and_kill(words, dice, longest)
    settle(place)
    after = stored(place)
    assert after == {thread: before[thread] for thread in after}
    listed = ckpt("-s", place.url, "threads", "list", "--all", "-o", "json").json
    assert {one["thread_id"] for one in listed} == {*after, "stays"}
    bundles = list(archive.glob("*.ckpt.gz")) if archive.exists() else []
    gone = before.keys() - after.keys()
    assert gone <= {check_bundle(one).header.thread_id for one in bundles}
    if bundles and dice.random() < 0.3:
        run_and_kill(["-s", place.url, "import", *bundles, "--yes"], dice, longest / 2)
        settle(place)
        for thread, rows in stored(place).items():
            assert rows in (before[thread], after.get(thread)), thread
        done = ckpt("-s", place.url, "import", *bundles, "--yes")
        assert done.code == 0, done.err
        assert stored(place) == before
    # The other rounds go on where the killed run ended.
    assert ckpt("-s", place.url, *PURGE, "-o", "json").json["skipped"] == []
    assert stored(place) == {}
    return "ended" if ended else "killed" if after == before else "in the middle"


@pytest.mark.nightly
@pytest.mark.parametrize(
    "place", ["sqlite", "postgres", "mysql", "mongodb", "redis"], indirect=True
)
def test_kills_at_any_moment(place: Harness, tmp_path: Path, chance: Chance) -> None:
    whole, before = tmp_path / "whole", stored(place)
    assert before.keys() == {*THREADS}
    assert ckpt("-s", place.url, "export", *THREADS, "--to", whole).code == 0
    longest = seconds_of(["-s", place.url, *PURGE, *SLOWLY, tmp_path / "timed"])
    outcomes: list[str] = []
    for dice in chance.rounds(at_least=4):
        done = ckpt("-s", place.url, "import", *whole.iterdir(), "--yes")
        assert done.code == 0, done.err
        assert stored(place) == before
        archive = tmp_path / f"archive {len(outcomes)}"
        outcomes.append(check_round(place, archive, dice, longest))
    assert {"killed", "in the middle"} & {*outcomes}


def layouts() -> Iterator[Any]:
    """All that can be written while an agent works, but for the slowest server."""
    for name in HARNESSES.keys() - {"langgraph-dev", "dynamodb"}:
        tier = pytest.mark.engines if name == "redis" else pytest.mark.nightly
        yield pytest.param(name, marks=tier)


@pytest.mark.parametrize("name", sorted(layouts(), key=str))
def test_an_agent_at_work_loses_no_checkpoint(
    name: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """It writes on while its thread is purged over and over: what it reads is always whole."""
    stop, lengths = Event(), list[int]()
    with empty_store(HARNESSES[name], request, tmp_path) as place:
        graph = graph_of(place.kept_saver)

        def work() -> None:
            while not stop.is_set():
                found = graph.invoke({"items": ["more"]}, config_of_thread("busy"))
                lengths.append(len(found["items"]))

        for thread in ("busy", *(f"old-{number}" for number in range(10))):
            graph.invoke({"items": ["in"]}, config_of_thread(thread))
        agent = Thread(target=work)
        agent.start()
        try:
            for policy in (["--keep-last", "2"], ["--older-than", "1s"], ["--keep-last", "1"]) * 3:
                done = ckpt("-s", place.url, "purge", *policy, "--yes", "-o", "json")
                assert done.code == 0, done.err
        finally:
            stop.set()
            agent.join()
        assert lengths == [3 * (2 + turn) for turn in range(len(lengths))] != []
        state = graph.get_state(config_of_thread("busy"))
        assert len(state.values["items"]) == lengths[-1]
