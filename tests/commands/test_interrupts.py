"""`interrupts` lists the open questions, under the names that other commands give them, too."""

from pathlib import Path
from typing import Any

from langgraph.func import entrypoint, task
from langgraph.types import Command, interrupt
from pydantic import BaseModel

import ckpt_cli
from tests.kit.agents import failing as agents
from tests.kit.agents.small import Log, chain, nested, run, running, saver_of
from tests.kit.command import ckpt

CONFIG: Any = {"configurable": {"thread_id": "t"}}
PATH = ["research", "dig", "ask"]


def told(store: Path, *words: str) -> Any:
    return ckpt("-s", store, *words, "-o", "json").json


def test_a_question_has_one_name_everywhere(path: Path) -> None:
    run(path, nested(Log, agents.question(agents.World()), *PATH[:2]), agents.INPUT)
    (asked,) = told(path, "interrupts")
    assert (asked["node"], asked["path"]) == ("ask", PATH)
    found = told(path, "show", "t")
    assert [(one["node"], one["path"]) for one in found["interrupts"]] == [("ask", PATH)]
    assert (found["next"], found["next_paths"]) == (["research"], [PATH])
    assert told(path, "history", "t")[0]["next_paths"] == [PATH]
    for words in ("interrupts", "show t", "history t", "show t --tree", "show t --tree --all-ns"):
        printed = ckpt("-s", path, *words.split(), "-o", "table").out
        assert "research > dig > ask" in printed, words
    assert printed.count("ship it?") == 1
    for age, number in (("2020-01-01", 0), ("0s", 1)):
        assert len(told(path, "interrupts", "--older-than", age)) == number
        ckpt("-s", path, "interrupts", "--older-than", age, "--exit-code", code=number)


def ask_approval(saver: Any, *, is_nested: bool = True) -> Any:
    """A question asked by a `@task`, which another one may call."""

    @task
    def approve(text: str) -> Any:
        return interrupt(f"Send {text}?")

    @task
    def send(text: str) -> Any:
        return approve(text).result()

    @entrypoint(checkpointer=saver)
    def flow(text: str) -> Any:
        return (send if is_nested else approve)(text).result()

    return flow


def test_a_question_of_a_task_is_told_once(path: Path) -> None:
    def questions() -> list[tuple[str, list[str]]]:
        shown = told(path, "show", "t")["interrupts"]
        return [(one["interrupt_id"], one["path"]) for one in shown if not one["answered"]]

    with saver_of(path) as saver:
        flow = ask_approval(saver)
        flow.invoke("a letter", CONFIG)
        (first,) = flow.get_state(CONFIG).interrupts
        # Nothing that is stored names a task before it has run once.
        assert questions() == [(first.id, ["flow"])]
        flow.invoke(Command(resume=True), CONFIG)
        flow.invoke("a parcel", CONFIG)
        (second,) = flow.get_state(CONFIG).interrupts
    assert questions() == [(second.id, ["flow", "send", "approve"])]
    shown = ckpt("-s", path, "show", "t", "-o", "table").out
    assert shown.count("question ") == 1
    assert f'Command(resume={{"{second.id}": ...}})' in shown
    (row,) = told(path, "interrupts")
    assert (row["interrupt_id"], row["value"]) == (second.id, "Send a parcel?")
    # Every command names the same node; of each run, only the entrypoint made a step.
    for words in (["show", "t"], ["interrupts"], ["history", "t"]):
        assert "flow > send > approve" in ckpt("-s", path, *words, "-o", "table").out
    made = [one["nodes"] for one in told(path, "history", "t")]
    assert [one for one in made if one] == [["flow"]]


def test_of_a_task_nobody_knows_what_it_asks_first(path: Path) -> None:
    with saver_of(path) as saver:
        flow = ask_approval(saver, is_nested=False)
        flow.invoke("a letter", CONFIG)
        flow.invoke(Command(resume=True), CONFIG)
    shown = ckpt("-s", path, "rollback", "t", "--reopen", "--dry-run", "-o", "table", code=0).out
    assert ("flow > approve will ask again" in shown, "a letter?" in shown) == (True, False)


class Approval(BaseModel):
    """An answer."""

    ok: bool
    note: str = ""


def ask_thrice(_: Log) -> Any:
    first = interrupt({"q": "one?"}, response_schema={"type": "string", "maxLength": 9})
    second = interrupt({"q": "two?"}, response_schema=Approval)
    third = interrupt({"q": "three?"})
    return {"log": [first, str(second), third]}


def test_a_response_schema_equals_what_get_state_returns(path: Path) -> None:
    with running(path, nested(Log, chain(Log, {"ask": ask_thrice}), "call")) as graph:
        graph.invoke({"log": []}, CONFIG)
        assert "maxLength" not in ckpt("-s", path, "--redact", "show", "t", "-o", "json").out
        for answer in ("yes", {"ok": True}, None):
            (expected,) = graph.get_state(CONFIG).interrupts
            # All outputs give the same schema of the question.
            (asked,), shown = told(path, "interrupts", "t"), told(path, "show", "t")
            (question,) = shown["interrupts"]
            assert shown["tasks"][0]["interrupts"] == [question]
            with ckpt_cli.open(str(path)) as opened:
                (one,) = opened.thread("t").head.show().to_dict()["interrupts"]
            schemas = [given.get("response_schema") for given in (asked, question, one)]
            assert schemas == [expected.response_schema] * 3
            table = ckpt("-s", path, "show", "t", "-o", "table").out
            assert ("must fit" in table) == (expected.response_schema is not None)
            if answer is not None:
                graph.invoke(Command(resume=answer), CONFIG)
    assert expected.response_schema is None  # It was asked without one.
