"""Stores of older releases and of LangGraph.js: a rolled back thread stands as at the target.

Nothing but `ckpt` touches a file before all of its threads are rolled back: the newest saver
alters the tables of an older one when it opens them.
"""

from __future__ import annotations

import gzip
import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import ormsgpack
import pytest

from ckpt_backends.registry import open_store
from ckpt_backends.testing.official import ScenarioThread, config_of, ending, outcome, state
from ckpt_backends.testing.scenarios.catalog import SCENARIOS
from ckpt_cli.reading.states import read_state
from ckpt_cli.reading.thread import ThreadReader
from tests.kit.command import FIXTURES, ckpt, copy_store
from tests.kit.harness.sqlite import SqliteHarness

pytestmark = pytest.mark.engines

PYTHON = ["lg-0.2.14-json", "lg-0.2.14", "lg-0.2.70", "lg-0.6.11", "lg-1.0.10", "lg-1.2.22"]
JAVASCRIPT = ["js-0.2.74", "js-1.7.3"]
RESUMED = {"lg-0.6.11", "lg-1.0.10", "lg-1.2.22"}
"""Format 4, which the newest library resumes as its own."""

Target = tuple[str, str]
"""Thread and checkpoint."""


def root_history(era: str | Path, name: str = "truth.json") -> dict[str, list[Mapping[str, Any]]]:
    """The root's checkpoints of each thread of an era, or of a folder, as its library told them."""
    told = (FIXTURES / era / name).read_bytes()
    threads = json.loads(gzip.decompress(told) if name.endswith(".gz") else told)["threads"]
    found = {thread: told["history"].get("", []) for thread, told in threads.items()}
    return {thread: rows for thread, rows in found.items() if isinstance(rows, list) and rows}


def copy_thread(path: Path, thread_id: str, new_id: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        for table in ("checkpoints", "writes"):
            columns = ", ".join(
                name
                for (name,) in connection.execute(f"SELECT name FROM pragma_table_info('{table}')")
                if name != "thread_id"
            )
            connection.execute(
                f"INSERT INTO {table} (thread_id, {columns})"
                f" SELECT ?, {columns} FROM {table} WHERE thread_id = ?",
                [new_id, thread_id],
            )
        connection.commit()


def rolled_back(path: Path, targets: Mapping[Target, str]) -> dict[Target, Any]:
    """Roll a copy of its thread back to each target; gives what `ckpt` answered."""
    answers = {}
    for (thread_id, checkpoint_id), copy in targets.items():
        copy_thread(path, thread_id, copy)
        words = ["rollback", "--at", checkpoint_id, "--yes", "-o", "json", "--", copy]
        answer = ckpt("-s", path, *words)
        assert answer.code == 0, (thread_id, checkpoint_id, answer.err)
        answers[thread_id, checkpoint_id] = answer.json
    return answers


def some(history: Mapping[str, list[Any]]) -> dict[Target, str]:
    """One checkpoint of every fourth thread."""
    return {
        (thread, rows[len(rows) // 2]["checkpoint_id"]): f"ours {thread}"
        for thread, rows in sorted(history.items())[::4]
    }


def every(history: Mapping[str, list[Any]]) -> dict[Target, str]:
    return {
        (thread, row["checkpoint_id"]): f"ours {number} {thread}"
        for thread, rows in history.items()
        for number, row in enumerate(rows)
    }


def check_python(era: str, path: Path, targets: Mapping[Target, str]) -> None:
    answers = rolled_back(path, targets)
    with SqliteHarness.at(str(path)) as place:
        for (thread_id, checkpoint_id), copy in targets.items():
            answer = answers[thread_id, checkpoint_id]
            scenario = SCENARIOS[thread_id]
            thread = ScenarioThread(copy, scenario.build)
            if scenario.is_async:
                continue
            graph = thread.graph(place.kept_saver)
            expected = state(graph, config_of(thread_id, checkpoint_id))
            assert state(graph, config_of(copy)) == expected, (thread_id, checkpoint_id)
            assert_kept(place, thread_id, copy)
            if era in RESUMED:
                check_resumed(place, thread, thread_id, checkpoint_id, answer["configurable"])
                assert_kept(place, thread_id, copy)


def check_resumed(
    place: SqliteHarness, thread: ScenarioThread, thread_id: str, target: str, configurable: Any
) -> None:
    place.copy(thread_id, "theirs")
    try:
        ended = []
        for copy, config in (
            (thread.thread_id, {"configurable": configurable}),
            ("theirs", config_of("theirs", target)),
        ):
            graph = thread.graph(place.kept_saver)
            ended.append((outcome(graph, None, config), ending(graph, copy)))
        if "EmptyInputError" not in str(ended[1][0]):
            assert ended[0] == ended[1], (thread_id, target)
    finally:
        place.forget("theirs")


def assert_kept(place: SqliteHarness, thread_id: str, copy: str) -> None:
    after = place.rows(copy)
    for table, rows in place.rows(thread_id).items():
        assert set(rows) <= set(after[table]), (thread_id, table)


@pytest.mark.parametrize("era", PYTHON)
def test_a_checkpoint_of_some_threads(era: str, tmp_path: Path) -> None:
    path = copy_store(FIXTURES / era / "store.db", tmp_path)
    check_python(era, path, some(root_history(era)))


@pytest.mark.parametrize("era", ["lg-0.2.70", "lg-0.6.11"])
def test_an_empty_checkpoint_has_the_keys_of_its_format(era: str, tmp_path: Path) -> None:
    path = copy_store(FIXTURES / era / "store.db", tmp_path)
    thread = "subgraph-stateful"
    before = bodies(path, thread)
    first = root_history(era)[thread][-1]["checkpoint_id"]
    back = ckpt("-s", path, "rollback", thread, "--at", first, "--yes", "-o", "json").json
    (empty,) = [one["checkpoint_id"] for one in back["also"] if one["form"] == "empty"]
    found = bodies(path, thread)[empty]
    assert found["channel_values"] == {}
    # `updated_channels` may be left out, and is in the checkpoints of some releases.
    for other in before.values():
        assert found["v"] == other["v"]
        assert found.keys() >= other.keys() - {"updated_channels"}
    assert ("pending_sends" in found) == (found["v"] < 4)


def bodies(path: Path, thread_id: str) -> dict[str, Any]:
    query = "SELECT checkpoint_id, checkpoint FROM checkpoints WHERE thread_id = ?"
    with closing(sqlite3.connect(path)) as connection:
        rows = connection.execute(query, [thread_id]).fetchall()
    return {key: ormsgpack.unpackb(body, ext_hook=lambda *_: None) for key, body in rows}


@pytest.mark.slow
@pytest.mark.parametrize("era", PYTHON)
def test_every_checkpoint_of_each_thread(era: str, tmp_path: Path) -> None:
    path = copy_store(FIXTURES / era / "store.db", tmp_path)
    check_python(era, path, every(root_history(era)))


def check_javascript(
    url: str, history: Mapping[str, list[Any]], answers: Mapping[Target, Any]
) -> None:
    """What its own library said of the target holds of the new head."""
    with open_store(url) as store:
        for (thread_id, checkpoint_id), answer in answers.items():
            told = next(one for one in history[thread_id] if one["checkpoint_id"] == checkpoint_id)
            reader = ThreadReader(store, answer["thread_id"])
            assert reader.head("") == answer["checkpoint_id"]
            moment = reader.moment("", answer["checkpoint_id"], state=True)
            source = ThreadReader(store, thread_id)
            was = source.moment("", checkpoint_id, state=True)
            assert read_state(reader, moment).values == read_state(source, was).values
            assert sorted(answer["next"]) == told["next"], (thread_id, checkpoint_id)
            # Of an @entrypoint that has not run yet no row has the name.
            assert moment.step.assumed or sorted(moment.step.next or ()) == told["next"]
            assert moment.body.is_javascript


@pytest.mark.parametrize("which", [some, pytest.param(every, marks=pytest.mark.slow)])
@pytest.mark.parametrize("era", JAVASCRIPT)
def test_javascript_sqlite(era: str, which: Any, tmp_path: Path) -> None:
    path = copy_store(FIXTURES / era / "store.db", tmp_path)
    history = root_history(era)
    check_javascript(str(path), history, rolled_back(path, which(history)))
