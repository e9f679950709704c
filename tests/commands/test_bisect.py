"""`bisect` finds what the official history shows, also where a condition comes and goes."""

import json
import operator
import sqlite3
import sys
from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest

import ckpt_cli
from tests.commands.words import refusals
from tests.kit.agents.small import chain, run
from tests.kit.cases import cases
from tests.kit.command import CommandResult, ckpt


class Plan(TypedDict, total=False):
    plan: str | None
    count: int
    log: Annotated[list[str], operator.add]


def work(state: Plan) -> Plan:
    """Do the next thing that the log asks for."""
    count = state.get("count", 0)
    todo = (state.get("log") or [])[: count + 1][-1:]
    return {"count": count + 1, "plan": todo[0] if todo and todo[0] != "none" else None}


GRAPH = chain(Plan, {"work": work})
THREE_RUNS: list[Any] = [{"log": ["a"]}, {"log": ["b"]}, {"log": ["none"]}]
"""Inputs after which a thread has the counts nothing, nothing, 1, 1, 1, 2, 2, 2, 3."""


@pytest.fixture(scope="module")
def job(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("bisect") / "job.db"
    run(path, GRAPH, *THREE_RUNS, thread="job")
    return path


def bisect(path: Path, *words: str) -> CommandResult:
    return ckpt("-s", path, "bisect", "job", *words)


@cases(
    "condition step from_start",
    ("values.plan = null", 7, False),
    ("values.log[-1] = a", 0, False),
    ("step >= 3", 3, False),
    ("source in (update, fork)", None, False),
    ("next = work and values.plan = a", 3, False),
    ("status = done or values.count = 1", 1, False),
)
def test_it_finds_where_a_condition_begins_to_hold(
    job: Path, condition: str, step: int | None, from_start: bool
) -> None:
    found = bisect(job, condition, "-o", "json").json
    assert (found["step"], found["from_start"]) == (step, from_start)
    if step and "status" in condition:
        assert (found["before"]["status"], found["after"]["status"]) == (["pending"], ["done"])


def test_the_answer_names_what_made_it_so_or_that_nothing_did(job: Path) -> None:
    found = bisect(job, "values.plan = b", "-o", "json").json
    (task,) = found["tasks"]
    assert (task["node"], task["channels"]) == ("work", ["plan"])
    assert (found["before"], found["after"]) == ({"values.plan": "a"}, {"values.plan": "b"})
    lines = bisect(job, "values.plan = b", "-o", "table").out.splitlines()
    assert lines[0] == f"first    {found['checkpoint_id']}"
    assert {"before   values.plan: a", "tried    6 of 9 checkpoints"} <= set(lines)
    assert lines[-1] == f"see      ckpt -s {job} diff job@{found['checkpoint_id']}"
    assert found["checkpoint_id"] in bisect(job, "values.plan = b", "-o", "tsv").out
    # A condition that holds nowhere or from the start is said.
    nowhere = bisect(job, "values.plan = nothing", "-o", "json")
    assert (nowhere.code, nowhere.json["checkpoint_id"]) == (1, None)
    assert nowhere.json["thread_id"] == "job"
    assert "the condition holds at none of 9 checkpoints" in nowhere.err
    assert "newest" in bisect(job, "values.plan = nothing", "--binary").err
    always = bisect(job, "step < 100", "-o", "json")
    assert (always.code, always.json["step"], always.json["from_start"]) == (0, -1, True)
    assert "holds from the start" in always.err
    # A ref and times limit the search.
    history = ckpt("-s", job, "history", "job", "-o", "json").json[::-1]
    ckpt("-s", job, "bisect", f"job@{history[4]['checkpoint_id']}", "values.plan = b", code=1)
    found = bisect(job, "values.count > 1", "--since", history[5]["ts"], "-o", "json").json
    assert (found["checkpoint_id"], found["from_start"]) == (history[5]["checkpoint_id"], True)
    assert bisect(job, "values.count > 1", "--until", history[4]["ts"]).code == 1
    # Python code may test states.
    with ckpt_cli.open(job) as store:
        assert store["job"].bisect(test=lambda one: "b" in one.values.get("log", []))["step"] == 3
        with pytest.raises(ckpt_cli.UsageError, match="a condition or a test"):
            store["job"].bisect()


def test_a_checkpoint_that_cannot_be_read_is_skipped(job: Path, path: Path) -> None:
    path.write_bytes(job.read_bytes())
    before = bisect(path, "values.plan = b", "-o", "json").json["parent_checkpoint_id"]
    with closing(sqlite3.connect(path)) as connection, connection:
        change = "UPDATE checkpoints SET checkpoint = x'c1' WHERE checkpoint_id = ?"
        connection.execute(change, [before])
    found = bisect(path, "values.plan = b", "-o", "json")
    assert found.json["skipped"] == [before]
    assert "1 checkpoint before it could not be judged" in found.err


def test_the_first_error_and_a_huge_state_are_found(path: Path) -> None:
    run(path, GRAPH, {"log": ["a"]}, thread="job")
    with pytest.raises(ZeroDivisionError):
        run(path, chain(Plan, {"work": lambda _: {"count": 1 // 0}}), {"log": []}, thread="job")
    found = bisect(path, "error ~ zero", "-o", "json").json
    assert (found["step"], found["before"]) == (3, {"error": None})
    assert found["after"]["error"].startswith("work: ZeroDivisionError(")


LOOK = """
import json, os, sys
state = json.load(sys.stdin)
with open(os.environ["SEEN"], "a") as seen:
    print(json.dumps([os.environ["CKPT_STEP"], os.environ["CKPT_THREAD"], state]), file=seen)
count = state.get("count", 0)
sys.exit(VERDICT)
"""
"""A command that writes down what it gets, and exits with a verdict about the state."""


@cases(
    "verdict step skipped",
    ("count > 1", 4, 0),
    ("127 if count > 1 else 0", 4, 0),
    ("125 if count == 1 else count == 2", 4, 3),
)
def test_a_command_judges_each_state(
    job: Path, tmp_path: Path, monkeypatch: Any, verdict: str, step: int, skipped: int
) -> None:
    seen, script = tmp_path / "seen", tmp_path / "look.py"
    script.write_text(LOOK.replace("VERDICT", verdict))
    monkeypatch.setenv("SEEN", str(seen))
    found = bisect(job, "--exec", f"{sys.executable} {script}", "-o", "json")
    assert (found.code, found.json["step"], len(found.json["skipped"])) == (0, step, skipped)
    assert (found.json["before"], found.json["nodes"]) == (None, ["work"])
    lines = [json.loads(one) for one in seen.read_text().splitlines()]
    assert len(lines) == found.json["tried"] == step + 2
    for at, thread, state in lines:
        shown = ckpt("-s", job, "show", f"job@step:{at}", "-o", "json").json
        assert (thread, state) == ("job", shown["values"])


@cases(
    "line code said",
    ("exit 125", 1, "9 checkpoints could not be judged"),
    ("no-such-command-anywhere", 2, "cannot run 'no-such-command-anywhere' (exit code 127)"),
    ("kill -9 $$", 7, "was killed by signal 9 at checkpoint"),
    ("exit 128", 7, "ended with exit code 128 at checkpoint"),
    ("exec sleep \0", 2, "cannot run"),
)
def test_the_exit_code_of_a_command_decides(job: Path, line: str, code: int, said: str) -> None:
    found = bisect(job, "--exec", line)
    assert (found.code, said in found.err) == (code, True), found.err


def test_a_command_need_not_read_a_huge_state(path: Path) -> None:
    run(path, GRAPH, {"log": ["x" * (4 << 20)]}, thread="job")
    assert bisect(path, "--exec", "false").code == 0
    assert bisect(path, "--exec", "exec <&-; true").code == 1
    long_enough = "test $(wc -c) -lt 4000000"
    found = bisect(path, "--exec", long_enough, "-o", "json").json
    assert (found["step"], found["from_start"]) == (0, False)


test_wrong_words_are_refused = refusals(
    ("bisect trip-to-kyoto", 2, "either CONDITION or --exec"),
    ("bisect trip-to-kyoto --exec false --redact", 2, "--redact"),
    ("bisect trip-to-kyoto 'idle > 2h'", 2, "cannot ask about 'idle'"),
    ("bisect trip-to-kyoto 'step > 1' --until 2001-01-01", 2, "no checkpoint is in the range"),
)
