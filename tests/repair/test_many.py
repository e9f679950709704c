"""`ckpt repair` of many threads: planned, asked for once, carried out one by one."""

import json
import signal
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver

from ckpt_cli.apply import changes
from ckpt_cli.apply.changes import Work
from ckpt_cli.plans.proposal import Proposal
from tests.kit.agents.two_questions import Two
from tests.kit.command import CommandResult, ckpt

STALE = ("a", "b", "c")


def config(thread_id: str) -> Any:
    return {"configurable": {"thread_id": thread_id}}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "many.db"


@pytest.fixture
def two(path: Path) -> Iterator[Two]:
    """Three threads with a used answer, and one with an open question."""
    with closing(sqlite3.connect(path, check_same_thread=False)) as db:
        two = Two(SqliteSaver(db))
        for one in STALE:
            two.make_stale(config(one))
        two.graph.invoke({"log": []}, config("sound"))
        yield two


def repair(path: Path, *words: str) -> CommandResult:
    return ckpt("-s", path, "repair", "writes", "-o", "ndjson", *words)


def found(answer: CommandResult) -> dict[str, dict[str, Any]]:
    """Return the records by thread."""
    return {one["thread_id"]: one for one in map(json.loads, answer.out.splitlines())}


def heads(path: Path) -> int:
    with closing(sqlite3.connect(path)) as db:
        return int(db.execute("SELECT count(*) FROM checkpoints").fetchone()[0])


def test_all_threads_that_need_it_are_repaired(two: Two, path: Path) -> None:
    before = heads(path)
    shown = found(repair(path, "--all", "--dry-run"))
    assert {name: one["state"] for name, one in shown.items()} == dict.fromkeys(STALE, "planned")
    assert heads(path) == before
    answer = repair(path, "--all", "--yes")
    assert answer.code == 0
    done = found(answer)
    assert {name: one["state"] for name, one in done.items()} == dict.fromkeys(STALE, "repaired")
    assert done["a"]["next"] == ["ask"]
    assert "changes" not in done["a"]
    assert heads(path) == before + len(STALE)
    for name in STALE:
        given = {"configurable": done[name]["configurable"]}
        (question,) = two.graph.invoke(None, given)["__interrupt__"]
        assert question.value == "second?"
    again = repair(path, "--all", "--yes")
    assert (again.code, again.out) == (0, "")
    assert "nothing to repair" in again.err


def test_a_filter_and_names_choose(two: Two, path: Path) -> None:
    assert set(found(repair(path, "--match", "[ab]", "--dry-run"))) == {"a", "b"}
    where = ("--where", "status = interrupted and not thread = c", "--dry-run")
    assert set(found(repair(path, *where))) == {"a", "b"}
    assert set(found(repair(path, "a", "c", "sound", "--dry-run"))) == {"a", "c"}


@pytest.mark.parametrize(
    "words", [[], ["a", "--all"], ["a", "--match", "*"], ["--all", "--match", "*"], ["--at", "~1"]]
)
def test_words_that_do_not_choose(path: Path, two: Two, words: list[str]) -> None:
    assert repair(path, *words).code == 2


def test_two_checkpoints_of_a_thread_are_refused(two: Two, path: Path) -> None:
    before = heads(path)
    done = repair(path, "a", "a@~0", "b", "--yes")
    assert (done.code, heads(path)) == (2, before)
    assert "thread 'a' is named with different checkpoints" in done.err


def test_an_interrupt_finishes_the_thread_in_hand(
    two: Two, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Work.carry_out

    def interrupted(self: Work, some: list[Proposal]) -> Any:
        if any(one.step for one in some):
            signal.raise_signal(signal.SIGINT)
        return plain(self, some)

    monkeypatch.setattr(Work, "carry_out", interrupted)
    monkeypatch.setattr(changes, "_PROPOSALS", 1)
    before = heads(path)
    answer = repair(path, "--all", "--yes")
    assert answer.code == 130
    assert [one["state"] for one in found(answer).values()] == ["repaired"]
    assert heads(path) == before + 1
