"""Which threads and checkpoints a command line names."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt

from tests.kit.command import ckpt

OLD, NEW = "trip-to-kyoto@step:8", "trip-to-kyoto@step:10"


def sides(sample: Path, *words: str) -> tuple[int, int]:
    found = ckpt("-s", sample, "diff", *words, "-o", "json").json
    return found["from"]["step"], found["to"]["step"]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["trip-to-kyoto"], (11, 12)),
        (["trip-to-kyoto@step:10"], (9, 10)),
        (["trip-to-kyoto", "step:8"], (8, 12)),
        (["trip-to-kyoto", "step:8", "step:10"], (8, 10)),
        (["trip-to-kyoto", "step:10", "step:8"], (10, 8)),
        (["trip-to-kyoto@step:10", "step:8"], (10, 8)),
        (["trip-to-kyoto@step:8", "step:10"], (8, 10)),
        (["trip-to-kyoto", OLD], (12, 8)),
        ([NEW, OLD], (10, 8)),
        ([OLD, NEW], (8, 10)),
        (["trip-to-kyoto", "support-live-chat"], (12, 14)),
        (["support-live-chat", "trip-to-kyoto"], (14, 12)),
    ],
)
def test_diff_goes_from_the_first_to_the_second(
    sample: Path, words: list[str], expected: tuple[int, int]
) -> None:
    assert sides(sample, *words) == expected


def test_show_takes_a_ref_as_diff_does(sample: Path) -> None:
    named = ckpt("-s", sample, "show", "trip-to-kyoto", "step:3", "-o", "json").json
    assert named == ckpt("-s", sample, "show", "trip-to-kyoto@step:3", "-o", "json").json


def test_the_tree_unfolds_the_checkpoint_that_is_named(sample: Path) -> None:
    folded = ckpt("-s", sample, "show", "trip-to-kyoto", "--tree", "-o", "table").out
    named = ckpt("-s", sample, "show", "trip-to-kyoto@step:1", "--tree", "-o", "table").out
    assert "b328" not in folded
    assert "b328" in named


@pytest.mark.parametrize("command", ["history", "tail", "interrupts"])
def test_a_command_on_a_whole_thread_says_that_it_takes_no_ref(sample: Path, command: str) -> None:
    answer = ckpt("-s", sample, *command.split(), "trip-to-kyoto@step:3")
    assert (answer.code, answer.out) == (3, "")
    error, hint = answer.err.splitlines()
    assert error.startswith("ckpt: 'trip-to-kyoto@step:3' is a checkpoint, ")
    named = hint.partition("`ckpt ")[2].partition("`")[0]
    assert ckpt(*named.split()).code == 0
    assert named.split()[:2] == ["-s", str(sample)]


def test_a_command_to_paste_names_the_configuration_with_its_profile(
    sample: Path, tmp_path: Path
) -> None:
    config = tmp_path / "own.toml"
    config.write_text(f'[stores.agent]\nurl = "{sample}"\n')
    answer = ckpt("--config", config, "-s", "agent", "tail", "trip-to-kyoto@step:3")
    named = answer.err.partition("`ckpt ")[2].partition("`")[0]
    assert named == f"--config {config} -s agent show trip-to-kyoto@step:3"
    assert ckpt(*named.split()).code == 0


class State(TypedDict, total=False):
    x: str


def asking(path: Path, thread_id: str) -> None:
    def ask(state: State) -> State:
        return {"x": interrupt("go on?")}

    graph = StateGraph(State).add_node("ask", ask).add_edge(START, "ask")
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        agent = graph.compile(checkpointer=SqliteSaver(connection))
        agent.invoke({"x": ""}, {"configurable": {"thread_id": thread_id}})


@pytest.fixture
def people(tmp_path: Path) -> Path:
    """A store with three threads that wait for an answer."""
    path = tmp_path / "people.db"
    for thread_id in ("anna@example.com", "anna", "bob"):
        asking(path, thread_id)
    return path


def test_a_thread_with_an_at_sign_is_found_as_it_is(people: Path) -> None:
    for command in ("history", "interrupts"):
        found = ckpt("-s", people, command, "anna@example.com", "-o", "json").json
        assert {one["thread_id"] for one in found} == {"anna@example.com"}


def test_interrupts_of_some_threads(people: Path) -> None:
    def threads(*words: str) -> list[str]:
        found = ckpt("-s", people, "interrupts", *words, "-o", "json").json
        return [one["thread_id"] for one in found]

    assert threads() == ["bob", "anna", "anna@example.com"]
    assert threads("anna", "bob", "anna") == ["anna", "bob"]
    assert threads("--match", "anna*") == ["anna", "anna@example.com"]
    assert threads("--older-than", "2020-01-01") == []
    assert threads("--older-than", "0s") == threads()
    missing = ckpt("-s", people, "interrupts", "anna", "nobody")
    assert (missing.code, missing.out) == (3, "")


@pytest.mark.parametrize(
    ("words", "times"),
    [
        ([], ("2020-01-01T00:00:00+05:45", "+05:45")),
        (["--utc"], ("2020-01-01T00:00:00+00:00", "+00:00")),
    ],
)
def test_an_error_about_a_time_is_in_the_zone_of_the_answer(
    words: list[str], times: tuple[str, str], sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    time.tzset()
    answer = ckpt("-s", sample, *words, "show", "trip-to-kyoto@2020-01-01")
    monkeypatch.undo()
    time.tzset()
    assert answer.code == 3
    asked, hint = answer.err.splitlines()
    assert asked.endswith(f"had no checkpoint at {times[0]}")
    assert hint.endswith(times[1])


def test_a_thread_without_a_root_names_its_namespaces(tmp_path: Path) -> None:
    """An application may give its own `checkpoint_ns` to the saver."""
    path = tmp_path / "agent.db"
    with SqliteSaver.from_conn_string(str(path)) as saver:
        for ns in ("worker", "two words"):
            config: Any = {"configurable": {"thread_id": "-named", "checkpoint_ns": ns}}
            saver.put(config, empty_checkpoint(), {"source": "input", "step": -1}, {})
    for words in (
        ["show", "--", "-named"],
        ["history", "--", "-named"],
        ["diff", "--", "-named"],
        ["timeline", "--", "-named"],
        ["rollback", "--", "-named", "head~1"],
        ["repair", "messages", "--", "-named"],
    ):
        told = ckpt("-s", path, *words)
        assert told.code == 3, words
        assert "no checkpoint in the root namespace; its namespaces: " in told.err
        assert "'worker'" in told.err
        assert f"`ckpt -s {path} show --ns 'two words' -- -named` shows" in told.err
    shown = ckpt("-s", path, "show", "--ns", "worker", "-o", "json", "--", "-named").json
    assert shown["checkpoint_ns"] == "worker"
    assert len(ckpt("-s", path, "history", "--all-ns", "-o", "json", "--", "-named").json) == 2
