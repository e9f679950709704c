"""Pruning inside threads: what the official library reads of what stays is what it read before.

Checkpoints of earlier savers lean on their parents for more.
"""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from ckpt_backends.testing.chance import Chance
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

POLICIES: dict[str, list[str]] = {
    "last-1": ["--keep-last", "1"],
    "last-3": ["--keep-last", "3"],
    "tips": ["--keep-tips"],
    "last-2-tips": ["--keep-last", "2", "--keep-tips"],
}

CHECKPOINTS = ("checkpoints", "checkpoint")
WRITES = ("writes", "checkpoint_writes", "checkpoint_write")
"""Names of these tables in different places."""


def check_pruned(filled: ScenarioStore, thread: ScenarioThread, policy: str) -> None:
    """Check that kept checkpoints read as before, without orphans, and a second run removes
    nothing.
    """
    place, saver, graph = filled.harness, filled.saver, thread.graph(filled.saver)
    ours, theirs = f"ours {thread.thread_id}", f"theirs {thread.thread_id}"
    for copy in (ours, theirs):
        place.copy(thread.thread_id, copy)
    words = ["-s", place.url, "purge", "--match", _glob(ours), *POLICIES[policy]]
    try:
        rows, read = place.rows(ours), _read(saver, graph, ours)
        planned = ckpt(*words, "--dry-run", "-o", "json").json
        assert place.rows(ours) == rows
        done = ckpt(*words, "--yes", "-o", "json")
        assert done.code == 0, done.err
        assert done.json["threads"] == planned["threads"]
        assert done.json["skipped"] == planned["skipped"] == []
        left, after = place.rows(ours), _read(saver, graph, ours)
        assert after.keys() <= read.keys()
        for key, found in after.items():
            assert found == read[key], key
        _check_counts(rows, left, planned)
        _check_no_orphans(filled, rows, left, ours)
        again = ckpt(*words, "--yes", "-o", "json").json
        assert again["threads"] == []
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
    """Check that as many rows were removed as the plan said."""
    gone = {table: len(rows) - len(after[table]) for table, rows in before.items()}
    said = planned["threads"][0] if planned["threads"] else {}
    assert gone[_table(before, CHECKPOINTS)] == said.get("checkpoints", 0)
    assert gone[_table(before, WRITES)] == said.get("writes", 0)
    for table, rows in after.items():
        left = list(before[table])
        for row in rows:
            left.remove(row)


def _check_no_orphans(filled: ScenarioStore, before: Any, after: Any, thread_id: str) -> None:
    """Check that there are no new rows without a checkpoint."""
    kept = {_at(row) for row in after[_table(after, CHECKPOINTS)]}
    there = {_at(row) for row in before[_table(before, CHECKPOINTS)]}
    for row in after[_table(after, WRITES)]:
        assert _at(row, of_write=True) in kept or _at(row, of_write=True) not in there
    if "checkpoint_blobs" in after:
        named = {
            (at["checkpoint_ns"], channel, str(version))
            for one in filled.saver.list({"configurable": {"thread_id": thread_id}})
            for at in [one.config["configurable"]]
            for channel, version in one.checkpoint["channel_versions"].items()
        }
        assert {tuple(map(_text, row[:3])) for row in after["checkpoint_blobs"]} <= named


def _table(rows: Any, names: tuple[str, ...]) -> str:
    """Return the name that a place uses for a table."""
    return next(name for name in names if name in rows)


def _at(row: Any, *, of_write: bool = False) -> Any:
    """Return namespace and checkpoint id; in Redis the part of the key before task and idx."""
    if not isinstance(row[0], bytes):
        return row[:2]
    return row[0].replace(b"$", b":").rsplit(b":", 2)[0] if of_write else row[0].replace(b"$", b":")


def _text(value: Any) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)


def _check_goes_on(filled: ScenarioStore, thread: ScenarioThread, copies: tuple[str, str]) -> None:
    """Check that a resume ends as for the thread that was not purged."""
    ended = []
    for copy in copies:
        graph = thread.graph(filled.saver)
        told = outcome(graph, None, config_of(copy))
        ended.append((told, ending(graph, copy), memory(filled.saver, copy)))
    assert ended[0] == ended[1]


CHOSEN = {
    "postgres": ("interrupt-nested", "chat", "interrupt-answered"),
    "mysql": ("interrupt-nested",),
    "mongodb": ("linear", "interrupt-nested"),
    "redis": ("chat", "fanout-send"),
    "redis-hash": ("fanout-send",),
    "redis-plain": (),
}
"""By engine, the threads that are pruned with `-m engines`."""


def kinds() -> Iterator[Any]:
    """Each thread with each policy on SQLite, a fourth of them by default, and on each engine."""
    for at, name in enumerate(SAMPLE):
        for which, policy in enumerate(POLICIES):
            mark: Any = () if at % 4 == which else pytest.mark.engines
            yield pytest.param("sqlite", name, policy, marks=mark)
    for engine, chosen in CHOSEN.items():
        for name in SAMPLE:
            mark = pytest.mark.engines if name in chosen else pytest.mark.nightly
            yield pytest.param(engine, name, "last-2-tips", marks=mark)


@pytest.mark.parametrize(("filled", "name", "policy"), list(kinds()), indirect=["filled"])
def test_each_kind_of_thread(filled: ScenarioStore, name: str, policy: str) -> None:
    check_pruned(filled, filled.thread(name), policy)


@pytest.mark.nightly
@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", [name for name in NAMES if name not in PLAIN])
def test_every_thread(filled: ScenarioStore, name: str, policy: str) -> None:
    check_pruned(filled, filled.thread(name), policy)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize(("name", "seed"), GENERATED)
def test_threads_of_random_calls(filled: ScenarioStore, name: str, seed: int, policy: str) -> None:
    check_pruned(filled, generate(filled, name, seed), policy)


@pytest.mark.nightly
def test_other_threads_of_random_calls(filled: ScenarioStore, chance: Chance) -> None:
    for dice in chance.rounds(30):
        check_pruned(filled, other(filled, dice), dice.choice([*POLICIES]))


ERAS = ["lg-0.2.14", "lg-0.2.70", "lg-0.6.11", "lg-1.0.10", "lg-1.2.22"]
KEPT = [["--keep-last", "3"], ["--keep-last", "1", "--keep-tips"]]


@pytest.mark.nightly
@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("policy", KEPT, ids=" ".join)
def test_what_stays_reads_as_before(tmp_path: Path, era: str, policy: list[str]) -> None:
    store = copy_store(FIXTURES / era / "store.db", tmp_path)
    before, told = read(store), tell(store)
    done = ckpt("-s", store, "purge", *policy, "--yes", "-o", "json")
    assert done.code == 0, done.err
    after = read(store)
    assert done.json["skipped"] == []
    assert len(before) - len(after) == sum(one["checkpoints"] for one in done.json["threads"])
    assert 0 < len(after) < len(before)
    for key, found in after.items():
        assert found == before[key], key
    for key, record in tell(store).items():
        # In earlier formats, what is next may show only in what other steps did.
        assert record == told[key] or None in (record[0], told[key][0]), key
    assert ckpt("-s", store, "purge", *policy, "--yes", "-o", "json").json["threads"] == []


def read(store: Path) -> dict[tuple[str, ...], Any]:
    """What today's saver reads of each checkpoint, with the Sends that it brings over."""
    found = {}
    with sqlite3.connect(store) as connection:
        saver = SqliteSaver(connection)
        keys = connection.execute("SELECT thread_id, checkpoint_ns, checkpoint_id FROM checkpoints")
        for key in keys.fetchall():
            names = ("thread_id", "checkpoint_ns", "checkpoint_id")
            one = saver.get_tuple({"configurable": dict(zip(names, key, strict=True))})
            assert one is not None
            parts = (one.checkpoint, one.metadata, one.parent_config, one.pending_writes)
            found[key] = [plain(part) for part in parts]
    return found


def tell(store: Path) -> dict[tuple[str, ...], Any]:
    """What is next at each checkpoint: of an earlier format its parent may have to tell."""
    told: dict[tuple[str, ...], Any] = {}
    for thread in ckpt("-s", store, "threads", "list", "--all", "-o", "json").json:
        words = ["history", "--all-ns", "-o", "json", "--", thread["thread_id"]]
        for one in ckpt("-s", store, *words).json:
            key = (one["thread_id"], one["checkpoint_ns"], one["checkpoint_id"])
            told[key] = (one["next"], one["waiting"], one["status"])
    return told


@pytest.mark.engines
def test_sends_that_stand_on_the_parent_stay(tmp_path: Path) -> None:
    """The library of that time takes them from there."""
    store = copy_store(FIXTURES / "lg-0.2.70" / "store.db", tmp_path)
    for number, steps in ((3, [3, 2, 1, 0]), (2, [3, 2])):
        assert ckpt("-s", store, "purge", "--keep-last", str(number), "--yes").code == 0
        left = ckpt("-s", store, "history", "fanout-send", "-o", "json").json
        assert [one["step"] for one in left] == steps
