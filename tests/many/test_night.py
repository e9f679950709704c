"""A night in which 300 threads ran and 80 stopped, answered in ten commands."""

import json
import operator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.types import interrupt

from tests.kit.agents.small import chain, running
from tests.kit.command import CommandResult, ckpt
from tests.kit.rows import rows_of

pytestmark = pytest.mark.engines

STUCK = "status in (error, pending)"


class State(TypedDict, total=False):
    order: int
    log: Annotated[list[str], operator.add]


class Killed(BaseException):
    """Ends a run without a trace, as a killed process does."""


class Night:
    """300 orders: the payment of 60 fails, the worker of 20 is killed, 40 wait for a person."""

    def __init__(self) -> None:
        self.is_broken = True
        self.ran: list[str] = []
        """The nodes that were run last."""

    def charge(self, state: State) -> State:
        self.ran.append("charge")
        if self.is_broken and state["order"] % 5 == 0:
            raise ConnectionError(f"payment of order {state['order']}: no route to host")
        if self.is_broken and state["order"] % 15 == 1:
            raise Killed
        return {"log": ["charged"]}

    def review(self, state: State) -> State:
        self.ran.append("review")
        is_large = state["order"] % 15 in {2, 7}
        return {"log": [interrupt("a large order?") if is_large else "reviewed"]}

    @property
    def graph(self) -> Any:
        def take(state: State) -> State:
            self.ran.append("take")
            return {"log": ["taken"]}

        return chain(State, {"take": take, "charge": self.charge, "review": self.review})


def config(order: int) -> Any:
    name, user = f"order-{order:03}", f"user-{order % 25}"
    return {"configurable": {"thread_id": name}, "metadata": {"user_id": user}}


@pytest.fixture
def night(tmp_path: Path) -> tuple[Path, Night]:
    path, night = tmp_path / "store.db", Night()
    with running(path, night.graph) as agent:
        for order in range(300):
            with suppress(ConnectionError, Killed):
                agent.invoke({"order": order, "log": []}, config(order))
    night.is_broken = False
    return path, night


def test_ten_commands_answer_the_night(night: tuple[Path, Night], tmp_path: Path) -> None:
    path, agents = night
    asked = 0

    def ask(*words: str) -> CommandResult:
        nonlocal asked
        asked += 1
        found = ckpt("-s", path, *words)
        assert found.code == 0, found.err
        return found

    failed = {f"order-{n:03}" for n in range(300) if n % 5 == 0}
    killed = {f"order-{n:03}" for n in range(300) if n % 15 == 1}

    # How many, and who?
    summary = ask("errors", "--summary").out
    assert "60 threads failed" in summary
    assert "ConnectionError 60; 40 wait for a person" in summary
    users = {
        one["user"]: one["threads"] for one in ask("errors", "--by", "user", "-o", "json").json
    }
    assert users == {f"user-{n}": 12 for n in range(0, 25, 5)}

    # What does each do when it is resumed?
    listed = ask("threads", "list", "--where", STUCK, "--all", "--long", "-o", "json").json
    assert {one["thread_id"] for one in listed} == failed | killed
    runs = {one["thread_id"]: one["runs"] for one in listed}

    # Put all back, take that back, and do it again.
    before = rows_of(path)
    back = ("rollback", "--where", STUCK, "--last-good")
    assert (
        "would roll back 60 threads, 20 threads ready to resume"
        in ask(*back, "--dry-run", "-o", "table").out
    )
    ask(*back, "--yes", "-o", "ndjson")
    (operation,) = ask("ops", "list", "-o", "json").json
    assert (len(operation["threads"]), rows_of(path) == before) == (60, False)
    ask("undo", operation["op"], "--yes")
    assert rows_of(path) == before
    resumes = ask(*back, "--yes", "-o", "ndjson").out.splitlines()

    with running(path, agents.graph) as agent:
        for one in map(json.loads, resumes):
            agents.ran.clear()
            told = {"configurable": one["configurable"], "metadata": one["metadata"]}
            agent.invoke(one["input"], told)
            assert agents.ran[: len(runs[one["thread_id"]])] == runs[one["thread_id"]]
            state = agent.get_state({"configurable": {"thread_id": one["thread_id"]}})
            assert state.values["log"][:2] == ["taken", "charged"]
    assert len(resumes) == len(failed | killed)

    # Hand it on.
    page = ask("report", "order-000", "--redact").out
    assert "<!doctype html>" in page.lower()
    assert "no route to host" not in page
    assert "errors: none; 40 wait for a person" in ask("errors", "--summary").out
    assert asked == 10
