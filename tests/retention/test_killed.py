"""Killed at any moment, a purge leaves each thread whole or gone; an agent at work loses nothing.

The conformance suite kills the removal of a thread, and its import, on each layout. A thread of
very many keys of Redis goes in several transactions: see tests/engines/test_removal.py.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from ckpt_backends.archive import check_bundle
from ckpt_backends.testing.chance import Chance
from ckpt_backends.testing.killing import calls_of, kill_at
from ckpt_backends.testing.library import config_of_thread, graph_of
from tests.kit.agents.small import saver_of
from tests.kit.command import ckpt
from tests.kit.opening import empty_store
from tests.kit.rows import change, rows_of
from tests.kit.travelling import HARNESSES

THREADS = {f"t{number}" for number in range(5)}


@pytest.mark.parametrize("at_random", [False, pytest.param(True, marks=pytest.mark.nightly)])
def test_a_killed_purge_leaves_each_thread_whole_or_in_its_archive(
    path: Path, tmp_path: Path, chance: Chance, at_random: bool
) -> None:
    with saver_of(path) as saver:
        for name in THREADS:
            graph_of(saver).invoke({"items": ["in"]}, config_of_thread(name))
    change(path, "PRAGMA wal_checkpoint(TRUNCATE)")
    before, full, archive = rows_of(path), tmp_path / "full", tmp_path / "archive"
    shutil.copy(path, full)
    words: list[str | Path] = ["-s", path, "purge", "--match", "t*", "--batch", "2"]
    words += ["--archive", archive, "--yes"]
    calls = calls_of(words, since="open_writable")
    some = [calls[len(calls) * part // 8] for part in (1, 4, 7)]
    outcomes = set[int]()
    for call in (dice.choice(calls) for dice in chance.rounds(10)) if at_random else some:
        shutil.rmtree(archive, ignore_errors=True)
        for one in tmp_path.glob("store.db*"):
            one.unlink()
        shutil.copy(full, path)
        kill_at(words, call, since="open_writable")
        left = rows_of(path)
        kept = {str(row[1]) for row in left}
        assert left == {row for row in before if row[1] in kept}
        bundles = list(archive.glob("*.ckpt.gz"))
        assert THREADS - kept <= {check_bundle(one).header.thread_id for one in bundles}
        assert ckpt(*words, "-o", "json").json["skipped"] == []
        assert rows_of(path) == set()
        done = ckpt("-s", path, "import", *archive.glob("*.ckpt.gz"), "--yes")
        assert (done.code, rows_of(path)) == (0, before), done.err
        outcomes.add(len(kept))
    assert len(outcomes) > 1 or at_random


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
