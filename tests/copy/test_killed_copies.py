"""Killed at any moment, a copy leaves each thread whole or absent, and the next run finishes."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ckpt_backends.testing.filling import quiet
from ckpt_backends.testing.harness import Harness
from ckpt_backends.testing.library import graph_of
from ckpt_backends.testing.scenarios import truth
from tests.copy.conftest import Places
from tests.copy.test_pairs import can_be_made
from tests.kit.command import ckpt, later
from tests.kit.differing import difference
from tests.kit.harness.sqlite import SqliteHarness
from tests.kit.kill.anywhere import run_and_kill, seconds_of
from tests.kit.pairs import PYTHON

THREADS = [f"t{number}" for number in range(30)]
TRANSACTIONS = {"sqlite", "postgres", "mysql", "langgraph-dev"}
"""Where a thread is added in one transaction. Elsewhere, its head is stored last."""
ONE_BY_ONE = {"redis", "valkey"}
"""Where each thread is stored for itself. Elsewhere, one transaction adds many small threads."""
ENGINES = ("postgres", "mysql", "langgraph-dev", "mongodb", "redis", "valkey")


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqliteHarness]:
    """A file with some threads, each of which waits for an answer."""
    with SqliteHarness(tmp_path_factory.mktemp("killed")) as harness, quiet():
        graph = graph_of(harness.kept_saver)
        asking = graph_of(harness.kept_saver, asks=True)
        for thread_id in THREADS:
            config: Any = {"configurable": {"thread_id": thread_id}}
            graph.invoke({"items": ["x" * 20_000]}, config)
            asking.invoke({"items": ["y"]}, config)
        yield harness


def read(harness: Harness, thread_id: str) -> tuple[Any, Any]:
    """Return what the saver lists of a thread, and what it loads. `[]` and None if nothing."""
    saver = harness.corrected_saver(harness.kept_saver)
    config = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
    return [_plain(one) for one in saver.list(config)], _plain(saver.get_tuple(config))


def _plain(found: Any) -> Any:
    if found is None:
        return None
    names = ("thread_id", "checkpoint_ns", "checkpoint_id")
    place = [found.config["configurable"][name] for name in names]
    parent = (found.parent_config or {"configurable": {"checkpoint_id": None}})["configurable"]
    # A value may be stored as a version without a value, or not at all.
    body = {**found.checkpoint, "channel_values": sorted(found.checkpoint["channel_values"])}
    for name in ("type", "pending_sends"):  # RedisSaver adds them
        body.pop(name, None)
    writes = sorted(map(repr, found.pending_writes or ()))
    return truth.encode([place, parent["checkpoint_id"], body, found.metadata, writes])


def has_begun(target: Harness) -> bool:
    """Whether a thread is there. A copy begins with the newest."""
    config: Any = {"configurable": {"thread_id": THREADS[-1], "checkpoint_ns": ""}}
    return target.kept_saver.get_tuple(config) is not None


def words_for(source: Harness, target: Harness) -> list[str | Path]:
    """Return the command line of a copy to a new place."""
    words: list[str | Path] = ["-s", source.url, "copy", "--all", "--to", target.url, "--yes"]
    if can_be_made(target.name):
        words.append("--create")
    else:
        target.kept_saver  # noqa: B018  (makes the store)
    return words


def check_round(
    source: Harness, target: Harness, dice: random.Random, longest: float | None
) -> str:
    """Kill a copy to an empty place, and run it again. Return how far it came.

    It is killed at most `longest` seconds after its start; without them, as soon as a thread is
    seen in the target.
    """
    words = words_for(source, target)
    if longest is None:
        target.kept_saver  # noqa: B018
        ended = run_and_kill(words, dice, 0, lambda: has_begun(target))
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


def check_rounds(kind: type[Harness], source: Harness, places: Places, number: int) -> set[str]:
    """Kill some copies at random moments of the time that one takes, or between two threads.

    Returns how far they came.
    """
    with places(kind) as target:
        longest = seconds_of(words_for(source, target))
    dice = random.Random(5)
    outcomes = set()
    for turn in range(number):
        between = kind.name in ONE_BY_ONE and turn % 2 == 0
        with places(kind) as target:
            outcome = check_round(source, target, dice, None if between else longest)
        if outcome == "ended":  # This one was faster than the first.
            longest /= 2
        outcomes.add(outcome)
    assert outcomes & {"killed", "middle"}, outcomes
    return outcomes


@pytest.mark.engines
def test_a_killed_copy_is_finished_by_the_next_run(source: SqliteHarness, places: Places) -> None:
    check_rounds(SqliteHarness, source, places, 8)


# One with transactions and one without; the slow test kills copies to each. MongoDB may keep the
# transaction of a killed client for a minute. If MySQL's tables are there without their migrations,
# the saver's `setup` fails on an index that is there, until the next run of ckpt.
@pytest.mark.slow
@pytest.mark.parametrize("name", later("postgres", "redis"))
def test_a_killed_copy_to_an_engine_is_finished(
    name: str, source: SqliteHarness, places: Places
) -> None:
    check_rounds(PYTHON[name], source, places, 1 if name in ONE_BY_ONE else 2)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["sqlite", *ENGINES])
def test_many_killed_copies_are_finished(name: str, source: SqliteHarness, places: Places) -> None:
    outcomes = check_rounds(PYTHON[name], source, places, 120)
    assert "middle" in outcomes or name not in ONE_BY_ONE
