"""Graphs of LangGraph that stop for other reasons than an error or a question, each in a thread.

As a program, `PATH THREAD DURABILITY`: it runs such a thread in a process that may be killed.
"""

from __future__ import annotations

import operator
import os
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from threading import Event
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.errors import GraphRecursionError
from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

KILLED = 9


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


def _said(_: State) -> State:
    return {"log": ["done"]}


def _die(_: State) -> State:
    os._exit(KILLED)


def _ask(_: State) -> State:
    return {"log": [interrupt("go on?")]}


def _chain(saver: Any, charge: Callable[[State], State] = _said, **options: Any) -> Any:
    """Return the graph plan, charge, report."""
    builder: Any = StateGraph(State)
    builder.add_node("plan", _said).add_node("charge", charge).add_node("report", _said)
    builder.add_edge(START, "plan").add_edge("plan", "charge").add_edge("charge", "report")
    return builder.compile(checkpointer=saver, **options)


class _Telling(SqliteSaver):
    """A saver that tells when the result of a node is stored."""

    stored = Event()

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        super().put_writes(config, writes, task_id, task_path)
        if ("log", ["done"]) in writes:
            self.stored.set()


def _beside(saver: Any) -> Any:
    """Return a graph of which one task dies when another one has finished."""

    def die(state: State) -> State:
        assert _Telling.stored.wait(60)
        return _die(state)

    builder: Any = StateGraph(State)
    builder.add_node("plan", _said).add_node("charge", die)
    builder.add_node("report", _said).add_edge(["plan", "charge"], "report")
    builder.add_edge(START, "plan").add_edge(START, "charge")
    return builder.compile(checkpointer=saver)


def _loop(saver: Any, first: Callable[[State], State] = _said) -> Any:
    """Return a graph that never ends."""
    builder: Any = StateGraph(State)
    builder.add_node("first", first).add_node("think", _said).add_node("search", _said)
    builder.add_edge(START, "first").add_edge("first", "think")
    builder.add_edge("think", "search").add_edge("search", "think")
    return builder.compile(checkpointer=saver)


def _join(saver: Any) -> Any:
    """Return a graph that runs one of three branches, although a node waits for all of them."""
    builder: Any = StateGraph(State)
    for name in ("choose", "air", "rail", "road", "book"):
        builder.add_node(name, _said)
    builder.add_edge(START, "choose")
    builder.add_conditional_edges("choose", lambda _: "rail", ["air", "rail", "road"])
    builder.add_edge(["air", "rail", "road"], "book")
    return builder.compile(checkpointer=saver)


def run(path: Path, thread_id: str, durability: str) -> None:
    """Run a thread until it stops; `killed` ends the process."""
    given: Any = {"log": []}
    config: Any = {"configurable": {"thread_id": thread_id}, "recursion_limit": 25}
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        saver = _Telling(connection)
        with suppress(GraphRecursionError):
            match thread_id:
                case "killed":
                    graph = _chain(saver, _die)
                case "beside":
                    graph = _beside(saver)
                case "breakpoint":
                    graph = _chain(saver, interrupt_before=["charge"])
                case "loop" | "loop-again" | "other-limit":
                    graph = _loop(saver)
                    config["recursion_limit"] += thread_id == "other-limit"
                case "loop-answered":
                    graph = _loop(saver, _ask)
                case "join":
                    graph = _join(saver)
                case _:
                    graph = _chain(saver)
            graph.invoke(given, config, durability=durability)
        with suppress(GraphRecursionError):
            if thread_id == "loop-again":
                graph.invoke(given, config, durability=durability)
            if thread_id == "loop-answered":
                graph.invoke(Command(resume="yes"), config, durability=durability)
        if thread_id == "updated":
            graph.update_state(config, {"log": ["by hand"]}, as_node="plan")


if __name__ == "__main__":
    run(Path(sys.argv[1]), *sys.argv[2:])
