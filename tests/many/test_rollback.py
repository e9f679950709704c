"""`ckpt rollback` of many threads: one plan, one question, one operation, and a list to resume."""

import json
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, TypedDict

import pytest
from langgraph.types import Command, interrupt

from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.model import NULL_TASK_ID
from ckpt_backends.testing.chance import Chance
from ckpt_backends.testing.killing import calls_of, kill_at
from ckpt_cli.apply import changes
from ckpt_cli.plans.proposal import Proposal
from tests.kit.agents.many import run_until_killed, sqlite_agent
from tests.kit.agents.small import chain, running
from tests.kit.cases import cases
from tests.kit.command import CommandResult, ckpt
from tests.kit.rows import change, rows_of

DONE = "done-0"
FAILED = ("raise-0", "raise-1", "inside-0", "beside-0")
KILLED = ("die-0", "die-1")
BROKEN = "status in (error, pending)"
LAST_GOOD = ("rollback", "--where", BROKEN, "--last-good")
STUCK = "status in (error, interrupted)"
RETRY = ("copy", "--where", STUCK, "--at", "head", "--as", "{thread}-retry")
KEYS = {
    *("thread_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id", "form"),
    *("forked_from", "next", "configurable", "also", "undo", "dry_run", "input"),
}


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Filled by the official graph."""
    path = tmp_path_factory.mktemp("many") / "filled.db"
    for thread_id in KILLED:
        run_until_killed(path, thread_id)
    # The last one to close the store takes what those have written into its file.
    with sqlite_agent(path) as agent:
        for thread_id in ("done-2", "done-1", DONE, *FAILED, "ask-0", "ask-1"):
            kind = thread_id.partition("-")[0]
            agent.run(thread_id, "plain" if kind == "done" else kind)
    return path


@pytest.fixture
def path(filled: Path, tmp_path: Path) -> Path:
    """A store with six threads that failed, two that wait and three that are done."""
    return Path(shutil.copyfile(filled, tmp_path / "many.db"))


def by_thread(answer: CommandResult) -> dict[str, dict[str, Any]]:
    return {one["thread_id"]: one for one in map(json.loads, answer.out.splitlines())}


def states(answer: CommandResult) -> dict[str, str]:
    return {name: one["state"] for name, one in by_thread(answer).items()}


def resumed(path: Path, lines: dict[str, dict[str, Any]]) -> dict[str, list[str]]:
    """Resume threads as an application does; return what each of them has done."""
    with sqlite_agent(path, is_mended=True) as agent:
        return {
            name: agent.graph.invoke(one["input"], {"configurable": one["configurable"]})["log"]
            for name, one in lines.items()
        }


def log_of(path: Path, thread_id: str) -> list[str]:
    with sqlite_agent(path) as agent:
        found = agent.graph.get_state({"configurable": {"thread_id": thread_id}})
    return list(found.values["log"])


def test_the_plan_is_a_table_that_is_carried_out(path: Path) -> None:
    before = rows_of(path)
    shown = ckpt("-s", path, *LAST_GOOD, "--dry-run", "-o", "table", code=0)
    lines = {line.split()[0]: line.split() for line in shown.out.splitlines() if "-" in line}
    assert lines["raise-0"][1:] == ["planned", "step", "2", "close"]
    assert lines["beside-0"][1:] == ["planned", "step", "1", "book,", "pay", "book"]
    assert lines["die-0"][1:3] == ["ready", "close"]
    assert shown.out.endswith("would roll back 4 threads, 2 threads ready to resume\n")
    assert rows_of(path) == before
    ckpt("-s", path, *LAST_GOOD, "--plan-out", path.with_name("plan"), code=0)
    assert rows_of(path) == before
    done = by_thread(ckpt("-s", path, "apply", path.with_name("plan"), "--yes", "-o", "ndjson"))
    ckpt("-s", path, "apply", path.with_name("plan"), "--yes", code=6)
    assert set(done) == {*FAILED, *KILLED}
    assert {done[one]["state"] for one in FAILED} == {"rolled back"}
    assert all(done[one].keys() >= KEYS for one in FAILED)
    assert all(done[one]["input"] is None for one in done)
    assert {row[1] for row in before ^ rows_of(path)} == set(FAILED)
    whole = log_of(path, DONE)
    assert resumed(path, done) == dict.fromkeys(done, whole)


def test_a_second_run_goes_on_where_the_first_ended_and_one_undo_takes_all_back(path: Path) -> None:
    before = rows_of(path)
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
        newest, *_ = ckpt("-s", path, "ops", "list", "-o", "json").json
        done = [one for one in first.values() if one["state"] == "rolled back"]
        assert (newest["action"], newest["number"]) == ("rollback", len(done))
        assert {one["op"] for one in done} == {newest["op"]}
        ckpt("-s", path, "undo", "--yes", code=0)
        assert rows_of(path) == before


def test_what_fails_again_is_put_back_again(path: Path) -> None:
    first = by_thread(ckpt("-s", path, *LAST_GOOD, "--yes", "-o", "ndjson"))
    with sqlite_agent(path) as agent, pytest.raises(ConnectionError):
        agent.graph.invoke(None, {"configurable": first["raise-0"]["configurable"]})
    for one in ("raise-0", "raise-1"):  # what the caller wrote is no use of a copy
        place = "checkpoint_ns, checkpoint_id"
        ids = f"INSERT INTO writes (thread_id, {place}, task_id, idx, channel, type, value)"
        copy = "max(checkpoint_id)", f"'{NULL_TASK_ID}', 0, '__resume__', 'msgpack', x'c0'"
        change(
            path,
            f"{ids} SELECT thread_id, '', {', '.join(copy)} FROM checkpoints WHERE"
            " thread_id = ? AND checkpoint_ns = ''",
            one,
        )
    again = by_thread(ckpt("-s", path, *LAST_GOOD, "--yes", "-o", "ndjson"))
    assert {name for name, one in again.items() if one["state"] != "ready"} == {"raise-0"}
    assert again["raise-0"]["forked_from"] == first["raise-0"]["checkpoint_id"]
    assert again["raise-1"]["configurable"] == first["raise-1"]["configurable"]


def test_where_nothing_failed_or_was_answered_a_thread_is_left_alone(path: Path) -> None:
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
    # Killed when its last task had finished: its results are still to be applied.
    newest = "(SELECT max(checkpoint_id) FROM checkpoints WHERE thread_id = 'done-2')"
    change(path, f"DELETE FROM checkpoints WHERE checkpoint_id = {newest}")
    left = ckpt("-s", path, "rollback", "done-1", "done-2", "--last-good", "--yes", "-o", "ndjson")
    assert states(left) == {"done-2": "ready"}
    assert (by_thread(left)["done-2"]["next"], by_thread(left)["done-2"]["input"]) == ([], None)
    with sqlite_agent(path) as agent:
        agent.graph.invoke(Command(resume="yes"), {"configurable": {"thread_id": "ask-0"}})
    reopened = ckpt("-s", path, "rollback", "ask-0", "done-0", "--reopen", "--yes", "-o", "ndjson")
    assert (reopened.code, states(reopened)) == (7, {"ask-0": "rolled back"})
    assert "skipped 'done-0': no question was answered on the current branch" in reopened.err


def test_threads_with_a_checkpoint_each(path: Path) -> None:
    words = ["rollback", "done-0@step:1", "done-1@~1", "done-2@head", "--yes", "-o", "ndjson"]
    done = by_thread(ckpt("-s", path, *words))
    assert [done[f"done-{n}"]["target_step"] for n in range(3)] == [1, 2, 3]
    assert (done["done-2"]["next"], "input" in done["done-2"]) == ([], False)


def before_the_change(
    monkeypatch: pytest.MonkeyPatch, thread_id: str, act: Callable[[], object]
) -> None:
    """Do something between the plan of a thread and its change."""
    carry_out = changes.Work.carry_out

    def late(self: changes.Work, some: Sequence[Proposal]) -> list[Proposal]:
        if any(one.thread_id == thread_id for one in some):
            act()
        return carry_out(self, some)

    monkeypatch.setattr(changes.Work, "carry_out", late)


def go_on(path: Path) -> None:
    with sqlite_agent(path, is_mended=True) as agent:
        agent.graph.invoke(None, {"configurable": {"thread_id": "raise-1"}})


@cases("words code", ((), 7), (("--match", "raise-1"), 6))
def test_threads_that_move_are_skipped(
    path: Path, monkeypatch: pytest.MonkeyPatch, words: Sequence[str], code: int
) -> None:
    before_the_change(monkeypatch, "raise-1", partial(go_on, path))
    answer = ckpt("-s", path, *LAST_GOOD, *words, "--yes", "-o", "ndjson")
    left = set() if words else {*FAILED, *KILLED} - {"raise-1"}
    assert (answer.code, set(by_thread(answer))) == (code, left)
    assert "skipped 'raise-1': an agent changed it meanwhile" in answer.err
    assert log_of(path, "raise-1") == log_of(path, DONE)


def test_a_store_that_is_lost_meanwhile_ends_the_operation(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost() -> None:
        raise StoreUnavailable("the connection was lost")

    monkeypatch.setattr(changes, "_PROPOSALS", 1)
    before_the_change(monkeypatch, "raise-1", partial(go_on, path))
    before_the_change(monkeypatch, "inside-0", lost)
    before = rows_of(path)
    answer = ckpt("-s", path, "rollback", *FAILED, "--last-good", "--yes", "-o", "ndjson", code=7)
    assert "the connection was lost" in answer.err
    done = [name for name, state in states(answer).items() if state == "rolled back"]
    (op,) = ckpt("-s", path, "ops", "list", "-o", "json").json
    assert (op["threads"], op["ended"]) == (done, "the connection was lost; 2 threads left")
    assert done == ["raise-0"]
    assert {row[1] for row in rows_of(path) - before} == {"raise-0", "raise-1"}


@cases(
    "words",
    ("--where", "status = done and thread like 'done-%'", "--yes"),
    ("done-2", "done-1", "done-0"),  # while a person thinks
)
def test_a_thread_that_moves_once_chosen_is_skipped(
    path: Path, monkeypatch: pytest.MonkeyPatch, words: Sequence[str]
) -> None:
    def move(_: str = "") -> bool:
        with sqlite_agent(path) as agent:
            config: Any = {"configurable": {"thread_id": "done-2"}}
            agent.graph.update_state(config, {"log": ["moved"]}, as_node="close")
        return True

    monkeypatch.setattr(changes, "_PROPOSALS", 1)
    if "--yes" in words:
        before_the_change(monkeypatch, "done-0", move)
    else:
        monkeypatch.setattr("ckpt_cli.diagnostics.ask", move)
    answer = ckpt("-s", path, "rollback", *words, "--steps", "1", "-o", "ndjson")
    assert (answer.code, set(by_thread(answer))) == (7, {"done-1", "done-0"}), answer.err
    assert "skipped 'done-2': an agent changed it meanwhile" in answer.err
    assert log_of(path, "done-2")[-1] == "moved"


def test_a_refusal_is_told_for_each_thread(path: Path) -> None:
    words = ["rollback", "raise-0", "beside-0", "done-0", "--steps", "3", "--yes"]
    answer = ckpt("-s", path, *words, "-o", "json", code=7)
    found = {one["thread_id"]: one for one in json.loads(answer.out)}
    assert found["beside-0"]["state"] == "skipped"
    assert "too far" in found["beside-0"]["reason"]
    assert found["done-0"]["state"] == "rolled back"
    before = rows_of(path)
    none = ckpt("-s", path, "rollback", "inside-0", "ask-0", "--steps", "99", "--yes", "-o", "json")
    assert (none.code, [one["state"] for one in json.loads(none.out)]) == (5, ["skipped"] * 2)
    assert rows_of(path) == before


@cases(
    "words why",
    ("rollback raise-0 --match * --last-good", "THREAD cannot be combined with --match"),
    ("rollback raise-0 raise-1 beside-0", "no checkpoint given"),
    ("rollback --match * --to-last sleepy", "'sleepy' is not one of 'error'"),
    ("rollback raise-0 raise-1 --last-good --steps 2", "--steps cannot be combined"),
    ("rollback raise-0@~1 raise-1 die-0 --last-good", "so --last-good cannot choose one"),
    ("rollback raise-0@~1 raise-0@~2 die-0@head", "is named with different checkpoints"),
    ("copy --match raise-* --at head --as retry", "--as 'retry-{thread}'"),
)
def test_words_that_are_refused(path: Path, words: str, why: str) -> None:
    before = rows_of(path)
    ckpt("-s", path, *words.split(), "--yes", code=2, out="", says=why)
    assert rows_of(path) == before


COMMANDS = {"last-good": LAST_GOOD, "steps": ("rollback", *FAILED, "--steps", "1"), "copy": RETRY}
SINCE = "open_writable"


def killed(path: Path, store: Path, words: Sequence[str | Path], call: int) -> str:
    """Kill a command at a call, and run it again. Return what the killed run had done."""
    shutil.copyfile(path, store)
    shutil.rmtree(Path(os.environ["XDG_STATE_HOME"]), ignore_errors=True)
    before = rows_of(store)
    kill_at(words, call, SINCE)
    left = rows_of(store)
    again = ckpt(*words, code=0)
    if LAST_GOOD[2] in words:
        assert set(by_thread(again)) == {*FAILED, *KILLED}, "the list to resume is whole"
    whole = rows_of(store)
    assert left <= whole
    # Each thread has all that is added to it, or nothing.
    for one in {row[1] for row in whole - before}:
        added = {row for row in whole - before if row[1] == one}
        assert added <= left or not added & left
    for _ in range(2):
        ckpt("-s", store, "undo", "--yes")
    assert rows_of(store) == before
    return "nothing" if left == before else "all" if left == whole else "some"


@pytest.mark.in_ci("some-last-good")
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("number", ["some", pytest.param("many", marks=pytest.mark.nightly)])
def test_the_same_command_goes_on_after_a_kill(
    path: Path, tmp_path: Path, name: str, number: str, chance: Chance
) -> None:
    store = tmp_path / "killed.db"
    shutil.copyfile(path, store)
    words: list[str | Path] = ["-s", store, *COMMANDS[name], "--yes", "-o", "ndjson"]
    calls = calls_of(words, SINCE)
    if number == "some":
        for call in Random(name).sample(calls, 3):
            killed(path, store, words, call)
        return
    done = {killed(path, store, words, dice.choice(calls)) for dice in chance.rounds(30)}
    assert len(done) > 1, "some kills must fall before the first change, or after one"


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
    assert resumed(path, others) == dict.fromkeys(others, log_of(path, DONE))
    listed = ckpt("-s", path, "threads", "list", "-o", "ndjson", "--where", STUCK)
    assert listed.out.count("\n") == 6


def test_a_second_run_adds_what_is_left(path: Path) -> None:
    before = rows_of(path)
    for name in ("{thread}-retry", "other"):
        ckpt("-s", path, "copy", "raise-0", "--at", "head", "--as", name, "--yes", code=0)
    assert states(ckpt("-s", path, *RETRY, "--yes", "-o", "ndjson")) == {
        f"{it}-retry": "ready" if it == "raise-0" else "copied" for it in {*CHOSEN, "other"}
    }
    after = rows_of(path)
    assert set(states(ckpt("-s", path, *RETRY, "--yes", "-o", "ndjson")).values()) == {"ready"}
    assert rows_of(path) == after
    for _ in range(3):
        ckpt("-s", path, "undo", "--yes", code=0)
    assert rows_of(path) == before


def test_an_id_that_is_taken_is_refused(path: Path) -> None:
    with sqlite_agent(path) as agent:
        agent.run("raise-1-retry", "plain")
    done = ckpt("-s", path, *RETRY, "--yes", "-o", "ndjson", code=7)
    assert "skipped 'raise-1': thread 'raise-1-retry' already exists" in done.err
    assert len(states(done)) == len(CHOSEN) - 1


def test_ids_of_any_kind(path: Path) -> None:
    ids = ["-x", "a\nb", "it's {thread}", "raise@head", "\x1b[31mred", "über\u202e"]
    with sqlite_agent(path) as agent:
        for one in ids:
            agent.run(one, "beside")
    where = ("--where", "status = error and not thread ~ '-[0-9]$'", "--yes")
    named = ("--at", "head", "--as", "{thread}/{thread}", "-o", "table")
    shown = ckpt("-s", path, "copy", *where, *named)
    assert (shown.code, "\x1b[31m" in shown.out, "\u202e" in shown.out) == (0, False, False)
    done = by_thread(ckpt("-s", path, "rollback", *where, "--last-good", "-o", "ndjson"))
    assert set(done) == {*ids, *(f"{one}/{one}" for one in ids)}
    assert resumed(path, done) == dict.fromkeys(done, log_of(path, DONE))


# A resume with what is printed stores the metadata of the thread again, such as its user


KEPT = {"user_id": 'anna "a" \\ ü', "plan": 3, "beta": True, "score": 0.5, "tenant": "acme"}
MATCHED = "rollback --match broken-* --last-good"


class State(TypedDict, total=False):
    kind: str
    done: bool


@contextmanager
def graph_of(path: Path, *, is_mended: bool = True) -> Iterator[Any]:
    """Yield a graph whose subgraph fails, or asks, in the second step."""

    def work(state: State) -> State:
        if state["kind"] == "asks":
            interrupt("go on?")
        elif not is_mended:
            raise ConnectionError(state["kind"])
        return {"done": True}

    inner = chain(State, {"work": work}).compile()
    with running(path, chain(State, {"plan": lambda _: {}, "act": inner})) as graph:
        yield graph


@pytest.fixture
def owned(tmp_path: Path) -> Path:
    """A store with threads of one user that failed or ask, each with metadata of every kind."""
    path = tmp_path / "agent.db"
    with graph_of(path, is_mended=False) as graph:
        for thread_id in ("broken-0", "broken-1", "asks"):
            config: Any = {
                "configurable": {"thread_id": thread_id, "tenant": "acme"},
                "metadata": {name: one for name, one in KEPT.items() if name != "tenant"},
            }
            with suppress(ConnectionError):
                graph.invoke({"kind": thread_id}, config)
    return path


def check_kept(graph: Any, thread_id: str) -> None:
    found = list(graph.checkpointer.list({"configurable": {"thread_id": thread_id}}))
    assert len(found) > 3
    assert all({name: one.metadata.get(name) for name in KEPT} == KEPT for one in found)


@cases("words", MATCHED, "copy --match broken-* --at ~1 --as {thread}-again")
def test_a_list_to_resume_carries_the_metadata(owned: Path, words: str) -> None:
    for _ in range(2):  # The second time, some threads are ready as they are.
        listed = ckpt("-s", owned, *words.split(), "--yes", "-o", "ndjson").out
        done = [json.loads(one) for one in listed.splitlines()]
        assert [one["metadata"] for one in done] == [KEPT, KEPT]
    with graph_of(owned) as graph:
        for one in done:
            config = {"configurable": one["configurable"], "metadata": one["metadata"]}
            assert graph.invoke(one["input"], config)["done"] is True
            check_kept(graph, one["thread_id"])
    again = ckpt("-s", owned, "rollback", "broken-0", "--steps", "1", "--yes", "-o", "json").json
    assert again["metadata"] == KEPT  # without the marks of a rollback


def test_the_printed_text_is_python(owned: Path) -> None:
    shown = ckpt("-s", owned, "show", "--long", "broken-0").out
    (line,) = (one for one in shown.splitlines() if one.startswith("config"))
    want = {"configurable": {"thread_id": "broken-0"}, "metadata": KEPT}
    assert eval(line.removeprefix("config")) == want
    (failed, *_) = ckpt("-s", owned, "errors", "broken-1", "-o", "json").json
    assert failed["resume"]["metadata"] == KEPT
    table = ckpt("-s", owned, *MATCHED.split(), "--yes", "-o", "table").out
    configs = [eval(one) for one in table.splitlines() if one.startswith("  {")]
    assert [one["metadata"] for one in configs] == [KEPT, KEPT]
