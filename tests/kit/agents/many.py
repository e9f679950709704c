"""A graph of LangGraph that fails in several ways, and a store of many of its threads."""

import operator
import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import interrupt

from tests.kit.agents.small import chain
from tests.kit.command import ended

KILLED = 9


class Trip(TypedDict, total=False):
    kind: str
    log: Annotated[list[str], operator.add]


class Agent:
    """Plans a trip, books in a subgraph and pays in parallel, asks, and ends.

    What goes wrong depends on the `kind` of the thread, until `is_mended`: `raise`, `die`,
    `inside` the subgraph, or `beside` a task that has finished. `ask` waits for an answer.
    """

    def __init__(self, saver: Any, *, is_mended: bool = False) -> None:
        self.is_mended = is_mended
        booking = {"reserve": lambda _: {"log": ["reserved"]}, "confirm": self._confirm}
        plan = {"plan": lambda _: {"log": ["planned"]}, "book": chain(Trip, booking).compile()}
        builder = chain(Trip, plan).add_node("pay", self._pay).add_node("close", self._close)
        builder.add_edge("plan", "pay").add_edge(["book", "pay"], "close")
        self.graph = builder.compile(checkpointer=saver)

    def _confirm(self, state: Trip) -> dict[str, Any]:
        self._fail(state, "inside", "the hotel is full")
        return {"log": ["confirmed"]}

    def _pay(self, state: Trip) -> dict[str, Any]:
        self._fail(state, "beside", "the card was declined")
        return {"log": ["paid"]}

    def _close(self, state: Trip) -> dict[str, Any]:
        self._fail(state, "raise", "the server is down")
        if state["kind"] == "die" and not self.is_mended:
            os._exit(KILLED)
        if state["kind"] == "ask":
            return {"log": [f"closed by {interrupt('who closes it?')}"]}
        return {"log": ["closed"]}

    def _fail(self, state: Trip, kind: str, why: str) -> None:
        if state["kind"] == kind and not self.is_mended:
            raise ConnectionError(why)

    def run(self, thread_id: str, kind: str) -> None:
        config = {"configurable": {"thread_id": thread_id}}
        try:
            self.graph.invoke({"kind": kind, "log": []}, config, durability="sync")
        except ConnectionError:
            assert kind in {"raise", "inside", "beside"}


@contextmanager
def sqlite_agent(path: Path, *, is_mended: bool = False) -> Iterator[Agent]:
    with closing(sqlite3.connect(path, check_same_thread=False)) as db:
        db.execute("PRAGMA synchronous = OFF")
        yield Agent(SqliteSaver(db), is_mended=is_mended)


def run_until_killed(path: Path, thread_id: str) -> None:
    """Run a thread in a process that ends at once, as by `kill -9`."""

    def run() -> None:
        with sqlite_agent(path) as agent:
            agent.run(thread_id, "die")

    assert ended(run) == KILLED
