"""Pruning inside threads: what the official library reads of what stays is what it read before.

Checkpoints of earlier savers lean on their parents for more.
"""

from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from ckpt_backends.testing.chance import Chance
from ckpt_backends.testing.library import config_of_thread, graph_of
from ckpt_backends.testing.official import (
    ScenarioStore,
    ScenarioThread,
    config_of,
    ending,
    memory,
    outcome,
    plain,
)
from ckpt_backends.testing.trials import NAMES, PLAIN, SAMPLE
from tests.kit.command import FIXTURES, ckpt, copy_store
from tests.kit.generated import GENERATED, generate, other
from tests.kit.opening import empty_store
from tests.kit.travelling import HARNESSES

POLICIES: dict[str, list[str]] = {
    "last-1": ["--keep-last", "1"],
    "last-3": ["--keep-last", "3"],
    "tips": ["--keep-tips"],
    "last-2-tips": ["--keep-last", "2", "--keep-tips"],
}


def check_pruned(filled: ScenarioStore, thread: ScenarioThread, policy: str) -> None:
    """Check that kept checkpoints read as before, without orphans, and are not pruned again."""
    place, saver, graph = filled.harness, filled.saver, thread.graph(filled.saver)
    ours, theirs = f"ours {thread.thread_id}", f"theirs {thread.thread_id}"
    for copy in (ours, theirs):
        place.copy(thread.thread_id, copy)
    words = ["-s", place.url, "purge", "--match", _glob(ours), *POLICIES[policy]]
    try:
        rows, read = place.rows(ours), _read(saver, graph, ours)
        planned = ckpt(*words, "--dry-run", "-o", "json").json
        assert place.rows(ours) == rows
        done = ckpt(*words, "--yes", "-o", "json", code=0)
        assert done.json["threads"] == planned["threads"]
        assert done.json["skipped"] == planned["skipped"] == []
        left, after = place.rows(ours), _read(saver, graph, ours)
        assert after.keys() <= read.keys()
        for key, found in after.items():
            assert found == read[key], key
        _check_counts(rows, left, planned)
        assert ckpt(*words, "--yes", "-o", "json").json["threads"] == []
        assert place.rows(ours) == left
        _check_goes_on(filled, thread, (ours, theirs))
    finally:
        for copy in (ours, theirs):
            place.forget(copy)


def _glob(text: str) -> str:
    """Return a pattern that matches only this text."""
    return "".join(f"[{char}]" if char in "*?[" else char for char in text)


def _read(saver: Any, graph: Any, thread_id: str) -> dict[tuple[str, str], Any]:
    """Return what the saver reads for each checkpoint, and the graph's state for those of the
    root.
    """
    found = {}
    for row in list(saver.list({"configurable": {"thread_id": thread_id}})):
        at = row.config["configurable"]
        key = at["checkpoint_ns"], at["checkpoint_id"]
        one = saver.get_tuple(row.config)
        found[key] = [
            plain(part)
            for part in (one.checkpoint, one.metadata, one.parent_config, one.pending_writes)
        ]
        if not key[0]:
            found[key] += [_state(graph.get_state(config_of(thread_id, key[1]), subgraphs=True))]
    return found


def _state(found: Any) -> Any:
    """Return a state, including the states of the subgraphs that its tasks are in."""
    tasks = [
        [
            task.name,
            *map(plain, task.interrupts),
            None if task.state is None else _state(task.state),
        ]
        for task in found.tasks
    ]
    return [plain(found.values), sorted(found.next), sorted(tasks, key=str)]


def _check_counts(before: Any, after: Any, planned: dict[str, Any]) -> None:
    """Check that as many rows were removed as the plan said, and no write lost its checkpoint."""
    said = planned["threads"][0] if planned["threads"] else {}
    for table in ("checkpoints", "writes"):
        assert len(before[table]) - len(after[table]) == said.get(table, 0)
        left = list(before[table])
        for row in after[table]:
            left.remove(row)
    there, kept = ({row[:2] for row in rows["checkpoints"]} for rows in (before, after))
    assert not {row[:2] for row in after["writes"]} & (there - kept)


def _check_goes_on(filled: ScenarioStore, thread: ScenarioThread, copies: tuple[str, str]) -> None:
    """Check that a resume ends as for the thread that was not purged."""
    ended = []
    for copy in copies:
        graph = thread.graph(filled.saver)
        told = outcome(graph, None, config_of(copy))
        ended.append((told, ending(graph, copy), memory(filled.saver, copy)))
    assert ended[0] == ended[1]


IN_CI = {name: [] if name in SAMPLE[:6] else [pytest.mark.engines] for name in SAMPLE}
KINDS = [
    pytest.param(name, marks=IN_CI.get(name, [pytest.mark.nightly]))
    for name in NAMES
    if name not in PLAIN
]


@pytest.mark.parametrize("name", KINDS)
def test_each_kind_of_thread(filled: ScenarioStore, name: str) -> None:
    for policy in POLICIES:
        check_pruned(filled, filled.thread(name), policy)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("name", "seed"), GENERATED)
def test_threads_of_random_calls(filled: ScenarioStore, name: str, seed: int, policy: str) -> None:
    check_pruned(filled, generate(filled, name, seed), policy)


@pytest.mark.nightly
def test_other_threads_of_random_calls(filled: ScenarioStore, chance: Chance) -> None:
    for dice in chance.rounds(30):
        check_pruned(filled, other(filled, dice), dice.choice([*POLICIES]))


@pytest.mark.engines
def test_sends_that_stand_on_the_parent_stay(tmp_path: Path) -> None:
    """The library of that time takes them from there."""
    store = copy_store(FIXTURES / "lg-0.2.70" / "store.db", tmp_path)
    for number, steps in ((3, [3, 2, 1, 0]), (2, [3, 2])):
        ckpt("-s", store, "purge", "--keep-last", str(number), "--yes", code=0)
        left = ckpt("-s", store, "history", "fanout-send", "-o", "json").json
        assert [one["step"] for one in left] == steps


AT_WORK = sorted(HARNESSES.keys() - {"langgraph-dev", "dynamodb"})
"""What can be written while an agent works, but for the slowest server."""


@pytest.mark.engines
@pytest.mark.in_ci("redis]")
@pytest.mark.parametrize("name", AT_WORK)
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
                ckpt("-s", place.url, "purge", *policy, "--yes", "-o", "json", code=0)
        finally:
            stop.set()
            agent.join()
        assert lengths == [3 * (2 + turn) for turn in range(len(lengths))] != []
        assert len(graph.get_state(config_of_thread("busy")).values["items"]) == lengths[-1]
