"""Rollbacks as people do them: in pipes, twice, with empty variables, while an agent runs."""

import shlex
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
from langgraph.types import Command, interrupt

from ckpt_backends.open_for_writing import open_writable
from ckpt_backends.registry import open_store
from ckpt_backends.url import parse_url
from ckpt_cli.plans.fork import RollbackOptions, plan_fork_to_thread
from ckpt_cli.reading.thread import ThreadReader
from tests.kit.agents.small import Log, chain, running
from tests.kit.command import ckpt, later

CKPT = f"{shlex.quote(sys.executable)} -m ckpt_cli"


@contextmanager
def agent(path: Path) -> Iterator[Any]:
    """A graph that asks in its second node; `z` is only reached by a goto."""
    nodes = {"a": lambda _: {"log": ["a"]}, "b": lambda _: {"log": [f"b:{interrupt('go on?')}"]}}
    with running(path, chain(Log, nodes).add_node("z", lambda _: {"log": ["z"]})) as graph:
        yield graph


def config(thread_id: str, **more: Any) -> Any:
    return {"configurable": {"thread_id": thread_id}, **more}


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "agent.db"
    with agent(path) as graph:
        graph.invoke({"log": ["in"]}, config("t", metadata={"reason": "app-own"}))
    return path


def count(path: Path, thread_id: str = "t") -> int:
    with open_store(str(path)) as opened:
        found = opened.thread(thread_id)
        return 0 if found is None else found.checkpoints


@pytest.mark.parametrize("form", ["table", "json", "tsv"])
def test_a_reader_that_goes_away_does_not_stop_it(store: Path, form: str) -> None:
    before = count(store)
    command = f"{CKPT} -s {store} -o {form} rollback t step:0 --yes | true"
    assert subprocess.run(["bash", "-c", command], check=True, timeout=60).returncode == 0
    assert count(store) == before + 1


def test_a_step_back_from_a_copy_is_a_step_back_from_its_original(store: Path) -> None:
    first = ckpt("-s", store, "rollback", "t", "--steps", "1", "--yes", "-o", "json").json
    second = ckpt("-s", store, "rollback", "t", "--steps", "1", "--yes", "-o", "json").json
    with open_store(str(store)) as opened:
        found = opened.checkpoints("t")
        parents = {one.key.checkpoint_id: one.parent_checkpoint_id for one in found}
    assert second["forked_from"] == parents[first["forked_from"]]


def test_the_metadata_of_the_application_stays(store: Path) -> None:
    ckpt("-s", store, "rollback", "t", "step:0", "--yes")
    assert ckpt("-s", store, "show", "t", "-o", "json").json["metadata"]["reason"] == "app-own"
    ckpt("-s", store, "rollback", "t", "step:0", "--yes", "--reason", "mine")
    assert ckpt("-s", store, "show", "t", "-o", "json").json["metadata"]["reason"] == "mine"


def test_a_copy_is_as_it_was_planned_while_the_agent_goes_on(store: Path) -> None:
    with open_store(str(store)) as opened:
        reader = ThreadReader(opened, "t")
        made = plan_fork_to_thread(
            reader, opened, reader.head("") or "", "u", RollbackOptions(fork=True)
        )
    with agent(store) as graph:
        graph.invoke(Command(resume="late"), config("t"))
    with open_writable(parse_url(str(store))) as writable:
        writable.apply(made.change)
    with agent(store) as graph:
        assert [one.value for one in graph.get_state(config("u")).interrupts] == ["go on?"]
        assert graph.get_state(config("u")).values["log"] == ["in", "a"]
    assert ckpt("-s", store, "undo", "u", "--yes").code == 0
    assert count(store, "u") == 0


def test_left_over_rows_of_the_new_name_are_not_taken_over(store: Path) -> None:
    assert ckpt("-s", store, "copy", "t@head", "--as", "u", "--yes").code == 0
    with closing(sqlite3.connect(store)) as db, db:
        db.execute("DELETE FROM checkpoints WHERE thread_id = 'u'")
    answer = ckpt("-s", store, "copy", "t@head", "--as", "u", "--yes")
    assert answer.code == 5
    assert "orphaned rows" in answer.err


def test_as_node_leaves_out_where_the_caller_wanted_to_go(store: Path) -> None:
    with agent(store) as graph:
        graph.invoke(Command(goto="z", update={"log": ["upd"]}), config("t"))
    answer = ckpt("-s", store, "fork", "t", "head", "--as-node", "a", "--yes", "-o", "json").json
    with agent(store) as graph:
        graph.invoke(None, {"configurable": answer["configurable"]})
        assert graph.get_state(config("t")).values["log"] == ["in", "a", "upd"]


def test_a_redo_is_not_redone_though_the_agent_went_on_before_the_undo(store: Path) -> None:
    assert ckpt("-s", store, "rollback", "t", "--steps", "1", "--yes").code == 0
    with agent(store) as graph:
        graph.invoke(None, config("t"))
    assert ckpt("-s", store, "undo", "t", "--yes").code == 0
    redo = ckpt("-s", store, "redo", "--yes", "-o", "json").json
    newest, undo, _ = ckpt("-s", store, "ops", "list", "-o", "json").json
    assert redo["action"] == newest["action"] == "redo"
    assert redo["undoes"] == newest["undoes"] == undo["op"]
    assert ckpt("-s", store, "redo", "--yes").code == 3


@pytest.mark.parametrize(
    "thread_id", ["a\nb", "-dash", *later("tab\there", "it's", "\u202eevil", "é$x`")]
)
def test_the_undo_that_is_printed_can_be_run(store: Path, thread_id: str) -> None:
    with agent(store) as graph:
        graph.invoke({"log": ["in"]}, config(thread_id))
    before = count(store, thread_id)
    words = ["rollback", "--at", "step:0", "--yes", "--", thread_id]
    said = ckpt("-s", store, *words).out
    (undo,) = [line for line in said.splitlines() if line.startswith("undo ")]
    assert count(store, thread_id) == before + 1
    command = undo.removeprefix("undo").strip().replace("ckpt", CKPT, 1)
    line = ["bash", "-c", command.replace(" undo ", " undo --yes ", 1)]
    done = subprocess.run(line, capture_output=True, check=False, timeout=60)
    assert done.returncode == 0, (command, done.stderr)
    assert count(store, thread_id) == before
