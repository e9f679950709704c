"""A deployment is moved while its agent works: copy, stop the agent, copy again, go on there."""

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from ckpt_backends.testing.filling import quiet
from ckpt_backends.testing.library import config_of_thread, graph_of
from ckpt_backends.testing.scenarios import graphs
from ckpt_backends.testing.scenarios.running import START_ITEMS, ScenarioRun
from tests.copy.working_agent import TRIP
from tests.kit.agents.steps import saver_of
from tests.kit.command import ROOT, ckpt
from tests.kit.harness.sqlite import SqliteHarness


@contextmanager
def working_agent(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Start the agent, and wait for its first turns."""
    words = [sys.executable, "-m", "tests.copy.working_agent", str(path)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            for _ in range(20):
                assert process.stdout.readline()
            yield process
        finally:
            process.kill()


def copied(source: Path, target: str, *words: str) -> Any:
    done = ckpt("-s", source, "copy", "--all", "--to", target, "--yes", "-o", "json", *words)
    assert done.code == 0, done.err
    assert done.json["verified"]
    return done.json


def move(source: Path, target: str) -> None:
    """Copy several times while the agent works, and once after it has stopped."""
    with working_agent(source) as agent:
        first = copied(source, target, "--create")
        assert first["threads"] == 8
        later = [copied(source, target) for _ in range(3)]
        assert sum(one["added"] for one in later) > 0
        assert agent.poll() is None
        source.with_name("stop").touch()
        agent.communicate(timeout=60)
        assert agent.returncode == 0
    last = copied(source, target)
    assert last["added"] > 0
    assert copied(source, target)["added"] == 0


def check_the_agent_goes_on(source: Path, target: Any) -> None:
    """Answer the waiting question on both sides. Each thread has the same history."""
    with closing(sqlite3.connect(source, check_same_thread=False)) as connection:
        old, new = graph_of(SqliteSaver(connection), asks=True), graph_of(target, asks=True)
        for thread in (TRIP, *(f"t{number}" for number in range(7))):
            histories = [
                [(one.config, one.values, one.next) for one in graph.get_state_history(config)]
                for graph in (old, new)
                for config in [config_of_thread(thread)]
            ]
            assert histories[0] == histories[1]
        trip = config_of_thread(TRIP)
        (question,) = new.get_state(trip).interrupts
        assert question.value == "which?"
        answered = [graph.invoke(Command(resume="yes"), trip) for graph in (old, new)]
        assert answered[0] == answered[1]
        assert answered[1]["items"][-2:] == ["first yes", "second"]
        assert new.get_state(trip).next == ()


def test_an_agent_moves_to_another_file(tmp_path: Path) -> None:
    source, target = tmp_path / "agent.db", tmp_path / "new.db"
    move(source, str(target))
    with closing(sqlite3.connect(target, check_same_thread=False)) as connection:
        check_the_agent_goes_on(source, SqliteSaver(connection))


@pytest.mark.nightly
def test_an_agent_moves_to_postgres(tmp_path: Path, postgres_url: str) -> None:
    source = tmp_path / "agent.db"
    move(source, postgres_url)
    with saver_of(postgres_url) as saver:
        check_the_agent_goes_on(source, saver)
    moved_on = ckpt("-s", source, "copy", "--all", "--to", postgres_url, "--yes", "-o", "json")
    assert moved_on.code == 7
    (skipped,) = json.loads(moved_on.out)["skipped"]
    assert skipped["thread_id"] == TRIP
    assert "went its own way" in skipped["reason"]


@pytest.mark.parametrize("build", [graphs.ask_parallel, graphs.ask_twice])
def test_questions_that_are_answered_between_two_copies(build: Any, tmp_path: Path) -> None:
    """LangGraph replaces the answers that are stored with a checkpoint when one more comes."""
    target = tmp_path / "new.db"
    with SqliteHarness(tmp_path) as source, quiet():
        run = ScenarioRun(build(source.kept_saver), config_of_thread("asking"))
        run.invoke(START_ITEMS)
        copied(source.path, str(target), "--create")
        while run.state().next:
            run.answer_first("yes")
            copied(source.path, str(target))
        with SqliteHarness.at(str(target)) as there:
            state = build(there.kept_saver).get_state(run.config)
            assert state.values == run.state().values
            assert state.next == ()
