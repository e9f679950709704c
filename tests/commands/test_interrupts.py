"""`interrupts` lists the open questions, under the names that other commands give them, too."""

from pathlib import Path
from typing import Any

from langgraph.func import entrypoint, task
from langgraph.types import Command, interrupt

from tests.commands.words import refusals
from tests.kit.agents import failing as agents
from tests.kit.agents.small import Log, nested, run, saver_of
from tests.kit.command import ckpt

CONFIG: Any = {"configurable": {"thread_id": "t"}}
PATH = ["research", "dig", "ask"]
NESTED = nested(Log, agents.question(agents.World()), *PATH[:2])


def test_a_question_has_one_name_everywhere(path: Path) -> None:
    run(path, NESTED, agents.INPUT)
    (asked,) = ckpt("-s", path, "interrupts", "-o", "json").json
    assert (asked["node"], asked["path"]) == ("ask", PATH)
    found = ckpt("-s", path, "show", "t", "-o", "json").json
    assert [(one["node"], one["path"]) for one in found["interrupts"]] == [("ask", PATH)]
    assert (found["next"], found["next_paths"]) == (["research"], [PATH])
    assert ckpt("-s", path, "history", "t", "-o", "json").json[0]["next_paths"] == [PATH]
    for words in ("interrupts", "show t", "history t", "show t --tree", "show t --tree --all-ns"):
        printed = ckpt("-s", path, *words.split(), "-o", "table").out
        assert "research > dig > ask" in printed, words
    assert printed.count("ship it?") == 1


def told(store: Path, *words: str) -> Any:
    return ckpt("-s", store, *words, "-o", "json").json


def ask_approval(saver: Any) -> Any:
    """A question asked by a `@task` that another one calls."""

    @task
    def approve(text: str) -> Any:
        return interrupt(f"Send {text}?")

    @task
    def send(text: str) -> Any:
        return approve(text).result()

    @entrypoint(checkpointer=saver)
    def flow(text: str) -> Any:
        return send(text).result()

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


def test_threads_and_ages_choose_questions(tmp_path: Path) -> None:
    store = tmp_path / "people.db"
    for thread_id in ("anna@example.com", "anna", "bob"):
        agents.fill(store, agents.question, thread_id)

    def threads(*words: str) -> list[str]:
        found = ckpt("-s", store, "interrupts", *words, "-o", "json").json
        return [one["thread_id"] for one in found]

    assert threads() == ["bob", "anna", "anna@example.com"]
    assert threads("anna", "bob", "anna") == ["anna", "bob"]
    assert threads("--match", "anna*") == ["anna", "anna@example.com"]
    assert (threads("--older-than", "2020-01-01"), threads("--older-than", "0s")) == ([], threads())
    # A thread with an at sign is found as it is.
    assert threads("anna@example.com") == ["anna@example.com"]


test_wrong_words_are_refused = refusals(
    ("interrupts --older-than soon", 2, "'soon' is not a time"),
    ("interrupts refund-4711 --match *", 2, "cannot be combined with --match"),
    ("interrupts refund-4711 nobody", 3, "no thread 'nobody'"),
)
