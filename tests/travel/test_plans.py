"""What a plan of rollback, fork and undo tells a person, and whether it is so."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from threading import Event
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command, interrupt

from tests.kit.agents.small import beside, chain, run, saver_of
from tests.kit.command import CommandResult, ckpt

CONFIG: Any = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    plan: str
    approved: bool
    paid: bool
    log: Annotated[list[str], list.__add__]


class Shop:
    """A graph that plans, asks, pays and reports; a node fails while it is in `failing`."""

    def __init__(self, saver: SqliteSaver) -> None:
        self.failing: set[str] = set()
        self.ran: list[str] = []
        builder = chain(State, {"think": self._node("think", plan="buy"), "ask": self._ask})
        builder.add_node("pay", self._node("pay", paid=True)).add_node("note", self._node("note"))
        builder.add_node("report", self._node("report"))
        builder.add_edge("ask", "pay").add_edge("ask", "note")
        builder.add_edge(["pay", "note"], "report")
        self.graph = builder.compile(checkpointer=saver)

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
    with saver_of(path) as saver:
        yield Shop(saver)


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
    ask = {"ask": lambda _: {"log": [interrupt("first?"), interrupt("second?")]}}
    run(path, chain(State, ask), {"log": []}, Command(resume="one"))
    assert field(plan(path, "rollback", "t", "--reopen"), "asks") == ["ask will ask again"]


def test_last_good_finds_a_failure_behind_a_question_of_a_subgraph(path: Path) -> None:
    asked = Event()

    class Telling(SqliteSaver):
        """A saver that tells when the question of the root is stored."""

        def put_writes(self, config: Any, writes: Any, *more: Any) -> None:
            super().put_writes(config, writes, *more)
            if not config["configurable"]["checkpoint_ns"] and writes[0][0] == "__interrupt__":
                asked.set()

    def pay(_: State) -> dict[str, Any]:
        assert asked.wait(60)
        raise ConnectionError("down")

    review = chain(State, {"leaf": lambda _: {"approved": interrupt("sure?")}}).compile()
    with saver_of(path) as saver:
        agent = beside(State, {"review": review, "pay": pay}).compile(
            checkpointer=Telling(saver.conn)
        )
        with pytest.raises(ConnectionError):
            agent.invoke({"log": []}, CONFIG)
        head = agent.get_state(CONFIG).config["configurable"]["checkpoint_id"]
    answer = plan(path, "rollback", "t", "--last-good", "-o", "json").json
    assert (answer["forked_from"], answer["asked"]) == (head, ["review"])
    assert ckpt("-s", path, "fork", "t", "head", "--yes").code == 0
    for status in ("error", "interrupted"):
        last = plan(path, "rollback", "t", "--to-last", status, "-o", "json").json
        assert last["forked_from"] == head
    assert ckpt("-s", path, "undo", "t", "--yes").code == 0
    text = plan(path, "rollback", "t", "--last-good")
    (now,) = field(text, "now")
    assert now.endswith(", error at pay, interrupted at review > leaf")
    assert field(text, "error") == ["pay: ConnectionError('down')"]
    assert field(text, "question") == ["review > leaf: sure?"]
    assert field(text, "asks") == ["review > leaf will ask again"]


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
    assert shop.graph.get_state(CONFIG).values["approved"] is True
    assert ckpt("-s", path, "rollback", "t", ref, "--yes").code == 0
    assert "approved" not in shop.graph.get_state(CONFIG).values


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
