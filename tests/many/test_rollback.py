"""`ckpt rollback` of many threads: one plan, one question, one operation, and a list to resume."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from langgraph.types import Command

from ckpt_cli.apply import changes
from tests.kit.agents.asking import on_terminal
from tests.kit.agents.many import sqlite_agent
from tests.kit.command import ckpt
from tests.kit.rows import rows_of
from tests.many.broken import BROKEN, FAILED, KILLED, LAST_GOOD, by_thread, log_of, resumed, states

KEYS = {
    *("thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id", "form"),
    *("forked_from", "next", "configurable", "also", "undo", "dry_run", "input"),
}


def test_the_plan_is_a_table_that_is_carried_out(path: Path) -> None:
    before = rows_of(path)
    shown = ckpt("-s", path, *LAST_GOOD, "--dry-run", "-o", "table")
    assert shown.code == 0
    lines = {line.split()[0]: line.split() for line in shown.out.splitlines() if "-" in line}
    assert lines["raise-0"][1:] == ["planned", "step", "2", "close"]
    assert lines["beside-0"][1:] == ["planned", "step", "1", "book,", "pay", "book"]
    assert lines["die-0"][1:3] == ["ready", "close"]
    assert shown.out.endswith("would roll back 4 threads, 2 threads ready to resume\n")
    assert rows_of(path) == before
    done = by_thread(ckpt("-s", path, *LAST_GOOD, "--yes", "-o", "ndjson"))
    assert set(done) == {*FAILED, *KILLED}
    assert {done[one]["state"] for one in FAILED} == {"rolled back"}
    assert all(done[one].keys() >= KEYS for one in FAILED)
    assert all(done[one]["input"] is None for one in done)
    assert {row[1] for row in before ^ rows_of(path)} == set(FAILED)
    whole = log_of(path, "done-0")
    assert resumed(path, done) == dict.fromkeys(done, whole)


def test_a_second_run_goes_on_where_the_first_one_stopped(path: Path) -> None:
    for way in (["--last-good"], ["--steps", "1"], ["--at", "step:0"]):
        words = ["rollback", "--where", BROKEN, *way, "--yes", "-o", "ndjson"]
        first = by_thread(ckpt("-s", path, *words))
        after = rows_of(path)
        again = by_thread(ckpt("-s", path, *words))
        assert rows_of(path) == after
        assert set(again) == set(first)
        assert {one["state"] for one in again.values()} == {"ready"}
        for name, one in again.items():
            assert one["configurable"] == first[name]["configurable"]
        assert ckpt("-s", path, "undo", "--yes").code == 0


def test_what_fails_again_is_put_back_again(path: Path) -> None:
    first = by_thread(ckpt("-s", path, *LAST_GOOD, "--yes", "-o", "ndjson"))
    with sqlite_agent(path) as agent, pytest.raises(ConnectionError):
        agent.graph.invoke(None, {"configurable": first["raise-0"]["configurable"]})
    again = by_thread(ckpt("-s", path, *LAST_GOOD, "--yes", "-o", "ndjson"))
    assert {name for name, one in again.items() if one["state"] != "ready"} == {"raise-0"}
    assert again["raise-0"]["forked_from"] == first["raise-0"]["checkpoint_id"]


def test_a_failure_that_was_retried_is_left_alone(path: Path) -> None:
    with sqlite_agent(path, is_mended=True) as agent:
        agent.graph.invoke(None, {"configurable": {"thread_id": "raise-0"}})
    words = ("rollback", "raise-0", "raise-1", "ask-0", "--last-good", "--dry-run")
    answer = ckpt("-s", path, *words, "-o", "ndjson")
    assert states(answer) == {"raise-1": "planned"}
    assert "left out 2 threads: nothing to roll back" in answer.err
    alone = ckpt("-s", path, "rollback", "raise-0", "--last-good", "--dry-run", "-o", "ndjson")
    assert by_thread(alone)["raise-0"]["action"] == "rollback"
    none = ckpt("-s", path, "rollback", "--match", "done-*", "--last-good", "--yes", "-o", "json")
    assert (none.code, none.json, "nothing to roll back" in none.err) == (0, [], True)


def test_a_thread_without_an_answered_question_is_skipped(path: Path) -> None:
    with sqlite_agent(path) as agent:
        agent.graph.invoke(Command(resume="yes"), {"configurable": {"thread_id": "ask-0"}})
    answer = ckpt("-s", path, "rollback", "ask-0", "done-0", "--reopen", "--yes", "-o", "ndjson")
    assert (answer.code, states(answer)) == (7, {"ask-0": "rolled back"})
    assert "skipped 'done-0': no question was answered on the current branch" in answer.err


def test_one_operation_takes_all_of_it_back(path: Path) -> None:
    before = rows_of(path)
    done = by_thread(ckpt("-s", path, *LAST_GOOD, "--reason", "outage", "--yes", "-o", "ndjson"))
    (one,) = ckpt("-s", path, "ops", "list", "-o", "json").json
    assert (one["action"], one["number"], one["reason"]) == ("rollback", 4, "outage")
    assert {done[name]["op"] for name in FAILED} == {one["op"]}
    assert ckpt("-s", path, "undo", "raise-0", "--yes").code == 0
    assert {row[1] for row in before ^ rows_of(path)} == set(FAILED) - {"raise-0"}
    assert ckpt("-s", path, "undo", one["op"], "--yes").code == 0
    assert rows_of(path) == before


def test_a_thread_that_moves_is_skipped_and_named(
    path: Path, after_planning: Callable[[str, Callable[[], None]], None]
) -> None:
    def go_on() -> None:
        with sqlite_agent(path, is_mended=True) as agent:
            agent.graph.invoke(None, {"configurable": {"thread_id": "raise-1"}})

    after_planning("raise-1", go_on)
    answer = ckpt("-s", path, *LAST_GOOD, "--yes", "-o", "ndjson")
    assert answer.code == 7
    assert set(by_thread(answer)) == {*FAILED, *KILLED} - {"raise-1"}
    assert "skipped 'raise-1': an agent changed it meanwhile" in answer.err
    assert log_of(path, "raise-1") == log_of(path, "done-0")


def test_a_thread_that_moves_after_the_filter_chose_it_is_skipped(
    path: Path,
    after_planning: Callable[[str, Callable[[], None]], None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(changes, "_PROPOSALS", 1)

    def move() -> None:
        with sqlite_agent(path) as agent:
            config: Any = {"configurable": {"thread_id": "done-2"}}
            agent.graph.update_state(config, {"log": ["moved"]}, as_node="close")

    after_planning("done-0", move)
    where = ["--where", "status = done and thread like 'done-%'"]
    answer = ckpt("-s", path, "rollback", *where, "--steps", "1", "--yes", "-o", "ndjson")
    assert (answer.code, set(by_thread(answer))) == (7, {"done-1", "done-0"}), answer.err
    assert "skipped 'done-2': an agent changed it meanwhile" in answer.err
    assert log_of(path, "done-2")[-1] == "moved"


def test_what_moved_while_the_user_thought_is_skipped(path: Path) -> None:
    def go_on() -> None:
        with sqlite_agent(path, is_mended=True) as agent:
            for name in ("raise-0", "die-1"):
                agent.graph.invoke(None, {"configurable": {"thread_id": name}})

    code, out, _ = on_terminal(["-s", str(path), *LAST_GOOD], b"y\n", go_on)
    assert code == 7
    assert "rolled back 3 threads, 1 thread ready to resume, skipped 2 threads" in out
    moved = [line.split()[0] for line in out.splitlines() if "an agent changed it" in line]
    assert sorted(moved) == ["die-1", "raise-0"]


def test_a_refusal_is_told_for_each_thread(path: Path) -> None:
    words = ["rollback", "raise-0", "beside-0", "done-0", "--steps", "3", "--yes"]
    answer = ckpt("-s", path, *words, "-o", "json")
    assert answer.code == 7
    found = {one["thread_id"]: one for one in json.loads(answer.out)}
    assert found["beside-0"]["state"] == "skipped"
    assert "too far" in found["beside-0"]["reason"]
    assert found["done-0"]["state"] == "rolled back"
    before = rows_of(path)
    none = ckpt("-s", path, "rollback", "inside-0", "ask-0", "--steps", "99", "--yes", "-o", "json")
    assert (none.code, [one["state"] for one in json.loads(none.out)]) == (5, ["skipped"] * 2)
    assert rows_of(path) == before


def test_threads_with_a_checkpoint_each(path: Path) -> None:
    words = ["rollback", "done-0@step:1", "done-1@~1", "done-2@step:0", "--yes", "-o", "ndjson"]
    done = by_thread(ckpt("-s", path, *words))
    assert [done[f"done-{n}"]["target_step"] for n in range(3)] == [1, 2, 0]


def test_nothing_next_has_no_input(path: Path) -> None:
    words = ["rollback", "done-0", "done-1", "--at", "head", "--yes", "-o", "ndjson"]
    for one in by_thread(ckpt("-s", path, *words)).values():
        assert (one["next"], "input" in one) == ([], False)


def test_a_saved_plan_is_carried_out_once(path: Path, tmp_path: Path) -> None:
    plan = tmp_path / "plan.ndjson"
    before = rows_of(path)
    assert ckpt("-s", path, *LAST_GOOD, "--plan-out", plan).code == 0
    assert rows_of(path) == before
    done = by_thread(ckpt("-s", path, "apply", plan, "--yes", "-o", "ndjson"))
    assert {one["state"] for one in done.values()} == {"rolled back", "ready"}
    assert ckpt("-s", path, "apply", plan, "--yes").code == 6
    assert ckpt("-s", path, "undo", "--yes").code == 0
    with sqlite_agent(path, is_mended=True) as agent:
        agent.graph.invoke(None, {"configurable": {"thread_id": "beside-0"}})
    moved = rows_of(path)
    assert ckpt("-s", path, "apply", plan, "--yes").code == 6
    assert rows_of(path) == moved


WRONG = [
    ([], "no thread given"),
    (["--last-good"], "no thread given"),
    (["raise-0", "--match", "*", "--last-good"], "THREAD cannot be combined with --match"),
    (["raise-0", "raise-1", "beside-0"], "no checkpoint given"),
    (["--where", "status = error"], "no checkpoint given"),
    (["raise-0", "raise-1", "--last-good", "--steps", "2"], "--steps cannot be combined"),
    (["raise-0@~1", "raise-1", "die-0", "--last-good"], "so --last-good cannot choose one"),
    (["raise-0@~1", "raise-0@~2", "die-0@head"], "is named with different checkpoints"),
    (["--match", "*", "--to-last", "sleepy"], "'sleepy' is not one of 'error'"),
]


@pytest.mark.parametrize(("words", "why"), WRONG)
def test_words_that_are_refused(path: Path, words: list[str], why: str) -> None:
    before = rows_of(path)
    answer = ckpt("-s", path, "rollback", *words, "--yes")
    assert (answer.code, answer.out, why in answer.err) == (2, "", True)
    assert rows_of(path) == before
