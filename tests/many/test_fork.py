"""`ckpt copy --as` and `ckpt fork` of many threads: to new threads, and in place."""

from pathlib import Path

from langgraph.types import Command

from tests.kit.agents.many import sqlite_agent
from tests.kit.command import ckpt
from tests.kit.rows import rows_of
from tests.many.broken import RETRY, STUCK, by_thread, log_of, resumed, states

CHOSEN = {"raise-0", "raise-1", "inside-0", "beside-0", "ask-0", "ask-1"}


def test_each_thread_gets_its_own_copy(path: Path) -> None:
    before = rows_of(path)
    shown = by_thread(ckpt("-s", path, *RETRY, "--dry-run", "-o", "ndjson"))
    assert set(shown) == {f"{one}-retry" for one in CHOSEN}
    assert rows_of(path) == before
    done = by_thread(ckpt("-s", path, *RETRY, "--yes", "-o", "ndjson"))
    assert {one["forked_from_thread"] for one in done.values()} == CHOSEN
    assert {one["state"] for one in done.values()} == {"copied"}
    assert before < rows_of(path)
    waiting = {name: one for name, one in done.items() if "input" not in one}
    assert set(waiting) == {"ask-0-retry", "ask-1-retry"}
    with sqlite_agent(path, is_mended=True) as agent:
        for one in waiting.values():
            ((question,), config) = one["interrupts"], {"configurable": one["configurable"]}
            answer = agent.graph.invoke(Command(resume={question["id"]: "me"}), config)
            assert answer["log"][-1] == "closed by me"
    others = {name: one for name, one in done.items() if name not in waiting}
    assert resumed(path, others) == dict.fromkeys(others, log_of(path, "done-0"))
    listed = ckpt("-s", path, "threads", "list", "-o", "ndjson", "--where", STUCK)
    assert listed.out.count("\n") == 6


def test_a_second_run_adds_what_is_left(path: Path) -> None:
    before = rows_of(path)
    first = ("copy", "raise-0", "--at", "head", "--as", "{thread}-retry", "--yes")
    assert ckpt("-s", path, *first).code == 0
    done = ckpt("-s", path, *RETRY, "--yes", "-o", "ndjson")
    assert states(done) == {
        f"{it}-retry": "ready" if it == "raise-0" else "copied" for it in CHOSEN
    }
    after = rows_of(path)
    again = ckpt("-s", path, *RETRY, "--yes", "-o", "ndjson")
    assert set(states(again).values()) == {"ready"}
    assert rows_of(path) == after
    for _ in range(2):
        assert ckpt("-s", path, "undo", "--yes").code == 0
    assert rows_of(path) == before


def test_an_id_that_is_taken_is_refused(path: Path) -> None:
    with sqlite_agent(path) as agent:
        agent.run("raise-1-retry", "plain")
    done = ckpt("-s", path, *RETRY, "--yes", "-o", "ndjson")
    assert done.code == 7
    assert "skipped 'raise-1': thread 'raise-1-retry' already exists" in done.err
    assert len(states(done)) == len(CHOSEN) - 1


def test_edits_in_place(path: Path) -> None:
    edit = ("--at", "head", "--replace", 'kind="plain"', "--yes", "-o", "ndjson")
    done = by_thread(ckpt("-s", path, "fork", "--match", "raise-*", *edit))
    assert {one["action"] for one in done.values()} == {"fork"}
    with sqlite_agent(path) as agent:
        for one in done.values():
            found = agent.graph.invoke(None, {"configurable": one["configurable"]})
            assert (found["kind"], found["log"][-1]) == ("plain", "closed")


def test_ids_that_would_be_one(path: Path) -> None:
    before = rows_of(path)
    answer = ckpt("-s", path, "copy", "--where", STUCK, "--at", "head", "--as", "retry", "--yes")
    assert (answer.code, "--as 'retry-{thread}'" in answer.err) == (2, True)
    assert rows_of(path) == before


def test_ids_of_any_kind(path: Path) -> None:
    ids = ["-x", "a\nb", "it's {thread}", "raise@head", "\x1b[31mred", "über\u202e"]
    with sqlite_agent(path) as agent:
        for one in ids:
            agent.run(one, "beside")
    where = ("--where", "status = error and not thread ~ '-[0-9]$'", "--yes")
    shown = ckpt(
        "-s", path, "copy", *where, "--at", "head", "--as", "{thread}/{thread}", "-o", "table"
    )
    assert (shown.code, "\x1b[31m" in shown.out, "\u202e" in shown.out) == (0, False, False)
    done = by_thread(ckpt("-s", path, "rollback", *where, "--last-good", "-o", "ndjson"))
    assert set(done) == {*ids, *(f"{one}/{one}" for one in ids)}
    assert resumed(path, done) == dict.fromkeys(done, log_of(path, "done-0"))
