"""What a plan of rollback, fork and undo tells a person, and whether it is so."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from threading import Event
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.types import Command, Send, interrupt

from tests.kit.command import CommandResult, ckpt

CONFIG: Any = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    plan: str
    approved: bool
    paid: bool
    log: Annotated[list[str], list.__add__]


class Shop:
    """A graph that plans, asks, pays and reports, with some failures on the way."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.failing: set[str] = set()
        self.ran: list[str] = []
        builder: Any = StateGraph(State)
        builder.add_node("think", self._node("think", plan="buy")).add_node("ask", self._ask)
        builder.add_node("pay", self._node("pay", paid=True)).add_node("note", self._node("note"))
        builder.add_node("report", self._node("report"))
        builder.add_edge(START, "think").add_edge("think", "ask")
        builder.add_edge("ask", "pay").add_edge("ask", "note")
        builder.add_edge(["pay", "note"], "report")
        self.graph = builder.compile(checkpointer=SqliteSaver(connection))

    def _node(self, name: str, **values: Any) -> Any:
        def run(_: State) -> dict[str, Any]:
            self.ran.append(name)
            if name in self.failing:
                raise ConnectionError(f"{name} is down")
            return {**values, "log": [name]}

        return run

    def _ask(self, _: State) -> dict[str, Any]:
        self.ran.append("ask")
        return {"approved": interrupt("pay 40?") == "yes", "log": ["ask"]}

    def run(self, given: Any, **options: Any) -> None:
        with suppress(ConnectionError):
            self.graph.invoke(given, CONFIG, **options)

    def head(self) -> str:
        found = self.graph.get_state_history(CONFIG)
        return max(str(one.config["configurable"]["checkpoint_id"]) for one in found)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "shop.db"


@pytest.fixture
def shop(path: Path) -> Iterator[Shop]:
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        yield Shop(connection)


def plan(path: Path, *words: str) -> CommandResult:
    answer = ckpt("-s", path, *words, "--dry-run")
    assert answer.code == 0, answer.err
    return answer


def field(answer: CommandResult, name: str) -> list[str]:
    """What a plan says under a label."""
    lines = answer.out.splitlines()
    return [line[9:] for line in lines if line[:9].strip() == name]


def fail_at_pay(shop: Shop) -> None:
    shop.failing = {"pay"}
    shop.run({"log": []})
    shop.run(Command(resume="yes"))
    shop.failing = set()


def test_last_good_does_not_ask_an_answered_question_again(shop: Shop, path: Path) -> None:
    fail_at_pay(shop)
    head = shop.head()
    answer = ckpt("-s", path, "rollback", "t", "--last-good", "--yes", "-o", "json")
    assert answer.json["forked_from"] == head
    assert "the last step that failed is step 3 (pay)" in answer.err
    assert (sorted(answer.json["next"]), answer.json["asked"]) == (["note", "pay"], [])
    assert answer.json["again"] == ["note"]
    shop.ran.clear()
    shop.run(None)
    assert sorted(shop.ran) == ["note", "pay", "report"]
    state = shop.graph.get_state(CONFIG)
    assert state.values["paid"] is True
    assert state.next == ()


def test_last_good_finds_a_failure_that_was_retried(shop: Shop, path: Path) -> None:
    fail_at_pay(shop)
    failed = shop.head()
    shop.run(None)
    assert shop.graph.get_state(CONFIG).next == ()
    found = plan(path, "rollback", "t", "--last-good", "-o", "json").json
    assert (found["forked_from"], found["asked"]) == (failed, [])


@pytest.mark.parametrize("durability", ["sync", "exit"])
def test_reopen_asks_the_last_answered_question_again(
    shop: Shop, path: Path, durability: str
) -> None:
    shop.run({"log": []}, durability=durability)
    none = ckpt("-s", path, "rollback", "t", "--reopen", "--dry-run")
    assert (none.code, "no question was answered" in none.err) == (3, True)
    asked = shop.head()
    shop.run(Command(resume="yes"), durability=durability)
    # The question of this input is not answered: another input comes instead.
    shop.run({"log": []}, durability=durability)
    shop.run({"log": []}, durability=durability)
    assert plan(path, "rollback", "t", "--reopen", "-o", "json").json["forked_from"] == asked
    shown = plan(path, "rollback", "t", "--reopen")
    (asks,) = field(shown, "asks")
    assert asks.endswith(": pay 40?")
    assert "the last question that was answered is that of ask in step 2" in shown.err
    hidden = ckpt("-s", path, "--redact", "rollback", "t", "--reopen", "--dry-run")
    assert "pay 40?" not in hidden.out + hidden.err
    done = ckpt("-s", path, "rollback", "--match", "*", "--reopen", "--yes", "-o", "ndjson")
    assert done.json["configurable"]["thread_id"] == "t"
    shop.run(None)
    (question,) = shop.graph.get_state(CONFIG).interrupts
    assert question.value == "pay 40?"
    shop.run(Command(resume="no"))
    state = shop.graph.get_state(CONFIG)
    assert (state.values["approved"], state.next) == (False, ())


def test_reopen_names_no_question_before_which_the_node_asked_another(path: Path) -> None:
    builder: Any = StateGraph(State)
    builder.add_node("ask", lambda _: {"log": [interrupt("first?"), interrupt("second?")]})
    builder.add_edge(START, "ask")
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        graph = builder.compile(checkpointer=SqliteSaver(connection))
        graph.invoke({"log": []}, CONFIG)
        graph.invoke(Command(resume="one"), CONFIG)
    shown = plan(path, "rollback", "t", "--reopen")
    assert field(shown, "asks") == ["ask will ask again"]


def test_last_good_finds_a_failure_behind_a_question(path: Path) -> None:
    asked = Event()

    class Telling(SqliteSaver):
        """A saver that tells when a question is stored."""

        def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
            super().put_writes(config, writes, task_id, task_path)
            if any(channel == "__interrupt__" for channel, _ in writes):
                asked.set()

    def pay(_: State) -> dict[str, Any]:
        assert asked.wait(60)
        raise ConnectionError("down")

    builder: Any = StateGraph(State)
    builder.add_node("fan", lambda _: {})
    builder.add_node("ask", lambda _: {"approved": interrupt("sure?")}).add_node("pay", pay)
    builder.add_edge(START, "fan")
    builder.add_conditional_edges("fan", lambda _: [Send("ask", {}), Send("pay", {})])
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        graph = builder.compile(checkpointer=Telling(connection))
        with pytest.raises(ConnectionError):
            graph.invoke({"log": []}, CONFIG)
        head = graph.get_state(CONFIG).config["configurable"]["checkpoint_id"]
    answer = plan(path, "rollback", "t", "--last-good", "-o", "json").json
    assert (answer["forked_from"], answer["asked"]) == (head, ["ask"])
    assert ckpt("-s", path, "fork", "t", "head", "--yes").code == 0
    for status in ("error", "interrupted"):
        last = plan(path, "rollback", "t", "--to-last", status, "-o", "json").json
        assert last["forked_from"] == head
    assert ckpt("-s", path, "undo", "t", "--yes").code == 0
    text = plan(path, "rollback", "t", "--last-good")
    (now,) = field(text, "now")
    assert now.endswith(", error at pay, interrupted at ask")
    assert field(text, "error") == ["pay: ConnectionError('down')"]
    assert field(text, "question") == ["ask: sure?"]
    assert field(text, "asks") == ["ask will ask again: sure?"]


def test_a_plan_tells_what_is_wrong_and_what_would_happen(shop: Shop, path: Path) -> None:
    fail_at_pay(shop)
    states = list(shop.graph.get_state_history(CONFIG))
    asked = next(one for one in states if one.next == ("ask",))
    ref = asked.config["configurable"]["checkpoint_id"]
    text = plan(path, "rollback", "t", ref)
    (now,) = field(text, "now")
    assert now.endswith("step 2, error at pay")
    assert field(text, "error") == ["pay: ConnectionError('pay is down')"]
    assert field(text, "next") == ["ask"]
    assert field(text, "repeats") == ["ask already ran; side effects will repeat"]
    assert field(text, "asks") == ["ask will ask again (the old answer is dropped): pay 40?"]
    assert field(text, "later") == ["note ran on the abandoned branch and may run again"]
    (kept,) = field(text, "keeps")
    assert kept.startswith("the abandoned branch (1 checkpoint up to ")
    assert kept.endswith(") with its error")
    (new,) = field(text, "new head")
    assert new.endswith(f", a copy of {field(text, 'back to')[0].partition(',')[0]}")
    assert "  approved: true → (none)" in text.out.splitlines()
    assert field(text, "undo") == [f"ckpt -s {path} undo t"]
    before = shop.graph.get_state(CONFIG)
    assert before.values["approved"] is True
    assert ckpt("-s", path, "rollback", "t", ref, "--yes").code == 0
    assert "approved" not in shop.graph.get_state(CONFIG).values


def test_a_change_says_where_the_head_is(shop: Shop, path: Path) -> None:
    fail_at_pay(shop)

    def said(answer: CommandResult, words: str) -> tuple[str, str]:
        (found,) = [one for one in answer.out.splitlines() if one.startswith(words)]
        ref, step = found.removeprefix(words).split(", step ")
        return str(ref), str(step)

    before = shop.head()
    back = ckpt("-s", path, "rollback", "t", "~1", "--yes")
    ref, step = said(back, "rolled back t: head is now ")
    assert shop.head().endswith(ref)
    assert (shop.head() != before, step) == (True, "2")
    undone = ckpt("-s", path, "undo", "t", "--yes")
    ref, step = said(undone, "undid the last change of t: head is now ")
    assert shop.head() == before
    assert (before.endswith(ref), step) == (True, "2")
    copied = ckpt("-s", path, "copy", "t", "--at", "head", "--as", "u", "--yes")
    assert before.endswith(said(copied, "copied t to u: its head is ")[0])
    assert "removed thread u" in ckpt("-s", path, "undo", "u", "--yes").out.splitlines()


def test_the_printed_line_resumes_the_thread(shop: Shop, path: Path) -> None:
    shop.run({"log": []})

    def invoke(text: str, **names: Any) -> Any:
        return eval(text, {"graph": shop.graph, "Command": Command, **names})

    forked = ckpt("-s", path, "copy", "t", "--at", "head", "--as", "u", "--yes")
    (text,) = field(forked, "resume")
    (asked,) = shop.graph.get_state({"configurable": {"thread_id": "u"}}).interrupts
    assert text.startswith(f'graph.invoke(Command(resume={{"{asked.id}": ...}}), {{')
    assert invoke(text.replace("...", '"yes"'))["paid"] is True
    shop.run(Command(resume="no"))
    back = ckpt("-s", path, "rollback", "t", "step:0", "--yes")
    (text,) = field(back, "resume")
    assert text.startswith("graph.invoke(None, {")
    assert "__interrupt__" in invoke(text)
    shop.run(Command(resume="no"))
    ended = ckpt("-s", path, "fork", "t", "head", "--yes")
    (text,) = field(ended, "resume")
    assert text.startswith("graph.invoke({...}, {")
    assert text.endswith("# with a new input: nothing is next")
    shop.ran.clear()
    invoke(text.replace("{...}", "given"), given={"log": ["again"]})
    assert shop.ran == ["think", "ask"]


def test_an_edited_copy_is_one_of_the_head(sample: Path) -> None:
    path = sample
    words = ["fork", "refund-4711", "--replace", "order=null", "--as", "new", "--yes"]
    forked = ckpt("-s", path, *words, "-o", "json").json
    head = ckpt("-s", path, "show", "refund-4711", "-o", "json").json["checkpoint_id"]
    assert (forked["action"], forked["checkpoint_id"]) == ("fork", head)
    assert forked["resume"].startswith("graph.invoke(Command(resume={")
    refused = ckpt("-s", path, "fork", "refund-4711")
    assert refused.code == 2
    assert "--steps" not in refused.err


def test_values_are_bounded_and_redacted(sample: Path) -> None:
    path = sample
    words = ["rollback", "refund-4711", "step:0", "--dry-run"]
    assert "unworn" in ckpt("-s", path, *words).out
    hidden = ckpt("-s", path, "--redact", *words).out
    assert ("policy: " in hidden, "unworn" in hidden, "Refund" in hidden) == (True, False, False)
    many = ckpt("-s", path, "rollback", "support-live-chat", "step:0", "--dry-run").out
    messages = [one for one in many.splitlines() if one.startswith("    - ")]
    assert 0 < len(messages) <= 4


def test_a_plan_names_the_node_of_a_subgraph_that_asks(path: Path) -> None:
    inner: Any = StateGraph(State)
    inner.add_node("leaf", lambda _: {"approved": interrupt("sure?")})
    inner.add_edge(START, "leaf")
    outer: Any = StateGraph(State)
    outer.add_node("review", inner.compile())
    outer.add_edge(START, "review")
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        outer.compile(checkpointer=SqliteSaver(connection)).invoke({"log": []}, CONFIG)
    text = plan(path, "rollback", "t", "head")
    assert field(text, "question") == ["review > leaf: sure?"]
    assert field(text, "asks") == ["review > leaf will ask again"]
    record = plan(path, "rollback", "t", "head", "-o", "json").json
    assert record["asked"] == ["review"]
