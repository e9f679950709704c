"""`tail` sees what another process writes, and ends as it should."""

from __future__ import annotations

import json
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import IO, Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.types import interrupt

from tests.kit.command import ckpt

# A shell that runs tests in the background lets them ignore Ctrl-C, and what they start too.
PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
from ckpt_cli.__main__ import main
main()
"""
CONFIG: Any = {"configurable": {"thread_id": "live"}}


def answer(state: MessagesState) -> dict[str, Any]:
    return {"messages": [("ai", f"answer {len(state['messages'])}")]}


def ask(state: MessagesState) -> dict[str, Any]:
    return {"messages": [("ai", interrupt("go on?"))]}


def invoke(path: Path, node: Any, value: Any) -> None:
    graph = StateGraph(MessagesState).add_node("answer", node).add_edge(START, "answer")
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        graph.compile(checkpointer=SqliteSaver(connection)).invoke(value, CONFIG)


HELLO = {"messages": [("user", "hello")]}


@pytest.fixture
def live(tmp_path: Path) -> Path:
    path = tmp_path / "live.db"
    invoke(path, answer, HELLO)
    return path


@contextmanager
def tailing(store: Path | str, *words: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-c", PROGRAM, "-s", str(store), "tail", "live"]
    process = subprocess.Popen(
        [*command, "--interval", "0.1", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def take(stream: IO[str] | None, number: int) -> list[Any]:
    assert stream is not None
    return [json.loads(stream.readline()) for _ in range(number)]


def test_it_starts_with_the_last_ones_and_goes_on_with_the_new_ones(live: Path) -> None:
    with tailing(live, "-n", "2", "-o", "ndjson") as process:
        assert [one["step"] for one in take(process.stdout, 2)] == [0, 1]
        invoke(live, answer, HELLO)
        assert [one["step"] for one in take(process.stdout, 3)] == [2, 3, 4]
        process.send_signal(signal.SIGINT)
        rest, err = process.communicate(timeout=30)
        assert (rest, err.strip(), process.returncode) == ("", "", 130)


def test_a_question_that_is_asked_is_told(live: Path) -> None:
    with tailing(live, "-n", "1", "-o", "ndjson") as process:
        take(process.stdout, 1)  # It has begun.
        invoke(live, ask, HELLO)
        found: list[Any] = []
        while not found or found[-1]["status"] != "interrupted":
            found += take(process.stdout, 1)
        assert [one["step"] for one in found[:2]] == [2, 3]
        assert found[-1]["interrupts"][0]["value"] == "go on?"


def test_it_stops_where_the_thread_is_deleted(live: Path) -> None:
    with tailing(live, "-n", "1", "-o", "tsv") as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("checkpoint_id\t")
        assert process.stdout.readline()
        with closing(sqlite3.connect(live)) as connection:
            SqliteSaver(connection).delete_thread("live")
        _, err = process.communicate(timeout=30)
        assert process.returncode == 6
        assert err == "ckpt: thread 'live' was deleted meanwhile\n"


def test_a_private_copy_cannot_be_followed(live: Path) -> None:
    answer = ckpt("-s", live, "--copy", "tail", "live", "--interval", "0.05", "-o", "ndjson")
    assert answer.code == 4
    assert "--copy" in answer.err


def test_it_ends_as_soon_as_nobody_reads_on(live: Path) -> None:
    with tailing(live, "-n", "2", "-o", "ndjson", "--interval", "30") as process:
        take(process.stdout, 2)
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(10) == 0


@pytest.mark.parametrize("interval", ["nan", "inf", "1e400", "1e18"])
def test_an_interval_without_an_end_is_refused(live: Path, interval: str) -> None:
    assert ckpt("-s", live, "tail", "live", "--interval", interval).code == 2
