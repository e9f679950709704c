"""Killed at any moment, a copy leaves each thread whole or absent, and the next run finishes."""

import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from ckpt_backends.testing.chance import Chance
from ckpt_backends.testing.filling import quiet
from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.library import graph_of
from ckpt_backends.testing.official import config_of
from ckpt_backends.testing.scenarios import truth
from tests.kit.command import ckpt
from tests.kit.differing import difference
from tests.kit.harness.sqlite import SqliteHarness
from tests.kit.killing import run_and_kill, seconds_of
from tests.kit.pairs import PYTHON, Places, creating

THREADS = [f"t{number}" for number in range(30)]
TRANSACTIONS = {"sqlite", "postgres", "mysql", "langgraph-dev"}
"""Where a thread is added in one transaction. Elsewhere, its head is stored last."""
ONE_BY_ONE = {"redis", "valkey"}
"""Where each thread is stored for itself. Elsewhere, one transaction adds many small threads."""


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteHarness]:
    """A file with some threads, each of which waits for an answer."""
    with SqliteHarness(tmp_path_factory.mktemp("killed")) as harness, quiet():
        graph = graph_of(harness.kept_saver)
        asking = graph_of(harness.kept_saver, asks=True)
        for thread_id in THREADS:
            graph.invoke({"items": ["x" * 20_000]}, config_of(thread_id))
            asking.invoke({"items": ["y"]}, config_of(thread_id))
        yield harness


def read(harness: Harness, thread_id: str) -> tuple[Any, Any]:
    """Return what the saver lists of a thread, and what it loads. `[]` and None if nothing."""
    saver = harness.corrected_saver(harness.kept_saver)
    head = saver.get_tuple(config_of(thread_id))
    listed = [plain(one) for one in saver.list(config_of(thread_id))]
    return listed, None if head is None else plain(head)


def plain(found: Any) -> Any:
    parent = (found.parent_config or {"configurable": {"checkpoint_id": None}})["configurable"]
    # A value may be stored as a version without a value, or not at all.
    body = {**found.checkpoint, "channel_values": sorted(found.checkpoint["channel_values"])}
    for name in ("type", "pending_sends"):  # RedisSaver adds them
        body.pop(name, None)
    writes = sorted(map(repr, found.pending_writes or ()))
    return truth.encode([parent["checkpoint_id"], body, found.metadata, writes])


def check_round(source: Harness, target: Harness, dice: Random, longest: float) -> str:
    """Kill a copy to an empty place, and run it again. Return how far it came.

    It is killed at most `longest` seconds after its start; in some rounds, between two threads.
    """
    words = words_for(source, target)
    if target.name in ONE_BY_ONE and dice.random() < 0.5:
        newest = config_of(THREADS[-1])  # which is copied first
        begun = lambda: target.kept_saver.get_tuple(newest) is not None  # noqa: E731
        ended = run_and_kill(words, dice, 0, begun)
    else:
        ended = run_and_kill(words, dice, longest)
    whole = {one: read(source, one) for one in THREADS}
    found = {one: read(target, one) for one in THREADS}
    for one, (listed, head) in found.items():
        assert head is None or difference(head, whole[one][1], one) == ""
        if target.name in TRANSACTIONS:
            assert listed == [] or difference(listed, whole[one][0], one) == ""
    again = finished(words)
    assert again["verified"]
    assert (again["threads"], again["skipped"]) == (len(THREADS), [])
    for one in THREADS:
        assert difference(list(read(target, one)), list(whole[one]), one) == ""
    copied = sum(head is not None for _, head in found.values())
    return "ended" if ended else "middle" if 0 < copied < len(THREADS) else "killed"


def words_for(source: Harness, target: Harness) -> list[str | Path]:
    """Return the command line of a copy to a new place."""
    return ["-s", source.url, "copy", "--all", "--to", target.url, "--yes", *creating(target)]


def finished(words: list[str | Path]) -> Any:
    """Run a copy until it has copied everything.

    MongoDB ends the transaction of a killed client a minute later; until then, another one that
    writes the same thread fails.
    """
    end = time.monotonic() + 90
    while True:
        done = ckpt(*words, "-o", "json")
        if done.code == 0 or "changed meanwhile" not in done.err or time.monotonic() > end:
            return done.json
        time.sleep(2)


def outcomes(name: str, source: Harness, places: Places, rounds: Iterable[Random]) -> set[str]:
    """Kill copies at random moments of the time that one takes. Return how far they came."""
    with places(PYTHON[name]) as target:
        longest = seconds_of(words_for(source, target))
    found = set()
    for dice in rounds:
        with places(PYTHON[name]) as target:
            outcome = check_round(source, target, dice, longest)
        if outcome == "ended":  # This one was faster than the first.
            longest /= 2
        found.add(outcome)
    return found


@pytest.mark.engines
def test_a_killed_copy_is_finished_by_the_next_run(source: SqliteHarness, places: Places) -> None:
    assert {"killed", "middle"} & outcomes("sqlite", source, places, map(Random, range(8)))


@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted({*TRANSACTIONS, *ONE_BY_ONE, "mongodb"}))
def test_many_killed_copies_are_finished(
    name: str, source: SqliteHarness, places: Places, chance: Chance
) -> None:
    wanted = {"middle"} if name in ONE_BY_ONE else {"killed", "middle"}
    assert wanted & outcomes(name, source, places, chance.rounds(at_least=4))
