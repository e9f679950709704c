"""`grep` finds what no state has: questions, errors and writes that were never merged."""

import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, TypedDict

import pytest
from langgraph.types import Command, interrupt

from tests.commands.words import refusals
from tests.kit.agents.small import beside, chain, nested, run, saver_of
from tests.kit.command import FIXTURES, ckpt


class State(TypedDict, total=False):
    plan: str
    price: str
    approved: bool
    booked: str


def search(state: State) -> Any:
    return {"price": f"price list of {state['plan']}"}


def approve(state: State) -> Any:
    return {"approved": interrupt({"question": f"approve the plan {state['plan']}?"})}


def booking(connection: sqlite3.Connection) -> Any:
    """Make a node that fails for Oslo once the two nodes beside it are stored: a failure ends the
    step, and with it the nodes that have not run yet.
    """

    def book(state: State) -> Any:
        if state["plan"] == "Oslo":
            sql = "SELECT count(*) FROM writes WHERE channel IN ('price', '__interrupt__')"
            end = time.monotonic() + 30
            while connection.execute(sql).fetchone() != (2,) and time.monotonic() < end:
                time.sleep(0.01)
            raise ValueError("the plan cannot be booked:\nno rooms in Oslo")
        return {"booked": state["plan"]}

    return book


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three nodes at once: in thread `open` one asks and one failed, `kyoto` went through."""
    path = tmp_path_factory.mktemp("grep") / "store.db"
    with saver_of(path) as saver:
        nodes = {"search": search, "approve": approve, "book": booking(saver.conn)}
        agent = beside(State, nodes).compile(checkpointer=saver)
        with pytest.raises(ValueError, match="no rooms"):
            agent.invoke({"plan": "Oslo"}, {"configurable": {"thread_id": "open"}})
        for thread, given in (
            ("kyoto", {"plan": "Kyoto"}),
            ("kyoto", Command(resume=True)),
            ("dropped", {"plan": "Rome"}),
            ("dropped", {"plan": "Rome again"}),
        ):
            agent.invoke(given, {"configurable": {"thread_id": thread}})
    return path


def grep(store: Path, *words: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = ckpt("-s", store, "grep", *words, "-o", "json").json
    return found


ASKED = "__interrupt__[0].value.question"
FAILED = "ValueError('the plan cannot be booked:\\nno rooms in Oslo')"
SEARCHED = ("write", "search", "price", "price list of Oslo")


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["approve the", "open"], ("question", "approve", ASKED, "approve the plan Oslo?")),
        (["no rooms", "open"], ("error", "book", "__error__", FAILED)),
        (["price list", "open"], SEARCHED),
        (["price list", "open", "--head-only"], SEARCHED),
        (["price list", "open", "--channel", "price"], SEARCHED),
        (["price list", "kyoto"], ("value", None, "price", "price list of Kyoto")),
        (
            ["Rome$", "dropped", "--channel", "price"],
            ("write", "search", "price", "price list of Rome"),
        ),
    ],
    ids=[
        *("a question", "an error", "a write that waits to be merged", "a write of the head"),
        *(
            "a write of a channel",
            "a write that was merged, as a value",
            "a write that was dropped",
        ),
    ],
)
def test_it_is_found_once(store: Path, words: list[str], expected: tuple[str | None, ...]) -> None:
    (hit,) = grep(store, *words)
    assert (hit["in"], hit["node"], hit["path"], hit["line"]) == expected


def test_threads_are_named_or_matched(store: Path) -> None:
    def threads(*words: str) -> set[str]:
        return {hit["thread_id"] for hit in grep(store, "plan|price", *words)}

    assert threads() == {"open", "kyoto", "dropped"}
    assert threads("open", "kyoto") == {"open", "kyoto"}
    assert threads("--match", "*o*") == {"open", "kyoto", "dropped"}
    assert threads("--match", "ky*") == {"kyoto"}


def test_it_exits_as_grep_does(store: Path) -> None:
    assert ckpt("-s", store, "grep", "Kyoto").code == 0
    for words in (["no such words"], ["price list", "open", "--channel", "booked"]):
        nothing = ckpt("-s", store, "grep", *words, "-o", "json")
        assert (nothing.code, nothing.json) == (1, [])
    missing = ckpt("-s", store, "grep", "Kyoto", "kyoto", "--ns", "nosuch")
    assert (missing.code, "no namespace 'nosuch' in" in missing.err) == (3, True)


def test_a_table_says_where_a_text_stands(store: Path) -> None:
    head, *lines = ckpt("-s", store, "grep", "no rooms", "-o", "table").out.splitlines()
    assert head.split() == ["THREAD", "REF", "IN", "NODE", "PATH", "TEXT"]
    assert lines[0].split()[2:4] == ["error", "book"]


def test_a_question_of_a_subgraph_is_told_once_with_the_node_that_asked(path: Path) -> None:
    run(path, nested(State, chain(State, {"approve": approve}), "review"), {"plan": "Rome"})
    (hit,) = grep(path, "approve the plan")
    assert (hit["node"], hit["node_path"]) == ("approve", ["review", "approve"])
    assert hit["checkpoint_ns"].startswith("review:")
    assert "review > approve" in ckpt("-s", path, "grep", "approve the plan", "-o", "table").out


def test_hits_in_rebuilt_values_have_the_same_order_in_each_run() -> None:
    store = FIXTURES / "lg-1.2.22" / "store.db"
    line = [sys.executable, "-m", "ckpt_cli", "-s", str(store), "grep", "-F", "e", "delta-often"]
    answers = {
        subprocess.run(
            line, env={**os.environ, "PYTHONHASHSEED": seed}, capture_output=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(answers) == 1


@pytest.mark.parametrize("channel", ["messages", "__interrupt__", "nosuch"])
def test_a_channel_that_nothing_has_is_told(channel: str, sample: Path) -> None:
    answer = ckpt("-s", sample, "grep", "xyzzy", "--channel", channel)
    assert answer.code == 1
    assert ("no channel" in answer.err) == (channel == "nosuch")


test_wrong_words_are_refused = refusals(
    ("grep", 2, "missing argument"),
    ("grep ( -n 1", 2, "cannot read the pattern '('"),
    ("grep a --jobs 0", 2, "--jobs"),
    ("grep a refund-4711 --match *", 2, "cannot be combined with --match"),
    ("grep a refund-4711 nobody", 3, "no thread 'nobody'"),
)
