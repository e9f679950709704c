"""`ckpt repair` of many threads: planned, asked for once, carried out one by one."""

from __future__ import annotations

import json
import signal
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command

from ckpt_cli.apply.changes import Work
from tests.kit.agents.asking import on_terminal
from tests.kit.command import CommandResult, ckpt
from tests.repair.test_writes import Two

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


def questions(two: Two, thread_id: str) -> list[str]:
    answer = two.graph.invoke(None, config(thread_id))
    return [one.value for one in answer.get("__interrupt__", ())]


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


def test_without_a_terminal_nothing_is_written(two: Two, path: Path) -> None:
    before = heads(path)
    answer = repair(path, "--all")
    assert answer.code == 5
    assert heads(path) == before


def test_a_thread_that_moved_while_the_user_thought_is_skipped(two: Two, path: Path) -> None:
    def go_on() -> None:
        two.graph.invoke(Command(resume="no"), config("b"))

    code, out, _ = on_terminal(["-s", str(path), "repair", "writes", "--all"], b"y\n", go_on)
    assert code == 7
    assert "skipped 1 thread" in out
    assert "repaired 2 threads" in out
    assert questions(two, "a") == questions(two, "c") == ["second?"]
    assert two.graph.get_state(config("b")).values["log"] == ["yes and no", "paid"]


def test_a_thread_that_moves_while_it_is_repaired_is_skipped(
    two: Two, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def after_planning(act: Callable[[], None]) -> None:
        plain = Work.carry_out

        def late(self: Work, one: Any, *others: Any) -> Any:
            if one.thread_id == "b":
                act()
            return plain(self, one, *others)

        monkeypatch.setattr(Work, "carry_out", late)

    after_planning(lambda: two.graph.invoke(Command(resume="no"), config("b")))
    answer = repair(path, "--all", "--yes")
    assert answer.code == 7
    assert {name: one["state"] for name, one in found(answer).items()} == {
        "a": "repaired",
        "c": "repaired",
    }
    assert "skipped 'b': an agent changed it meanwhile" in answer.err


def test_an_interrupt_finishes_the_thread_in_hand(
    two: Two, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = Work.carry_out

    def interrupted(*words: Any) -> Any:
        signal.raise_signal(signal.SIGINT)
        return plain(*words)

    monkeypatch.setattr(Work, "carry_out", interrupted)
    before = heads(path)
    answer = repair(path, "--all", "--yes")
    assert answer.code == 130
    assert [one["state"] for one in found(answer).values()] == ["repaired"]
    assert heads(path) == before + 1


def test_each_repair_can_be_undone(two: Two, path: Path) -> None:
    before = heads(path)
    repair(path, "--all", "--yes")
    for name in STALE:
        assert ckpt("-s", path, "undo", name, "--yes").code == 0
    assert heads(path) == before
