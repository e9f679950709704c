"""Graphs of LangGraph that stop for other reasons than an error or a question, each in a thread."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from threading import Event
from typing import Any

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.errors import GraphRecursionError
from langgraph.types import Command, interrupt

from tests.kit.agents.small import Log, beside, chain

KILLED = 9


def _said(_: Log) -> Log:
    return {"log": ["done"]}


def _die(_: Log) -> Log:
    os._exit(KILLED)


def _ask(_: Log) -> Log:
    return {"log": [interrupt("go on?")]}


def _chain(charge: Callable[[Log], Log] = _said) -> Any:
    return chain(Log, {"plan": _said, "charge": charge, "report": _said})


class _Telling(SqliteSaver):
    """A saver that tells when the result of a node is stored."""

    stored = Event()

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        super().put_writes(config, writes, task_id, task_path)
        if ("log", ["done"]) in writes:
            self.stored.set()


def _beside() -> Any:
    """Return a graph of which one task dies when another one has finished."""

    def die(state: Log) -> Log:
        assert _Telling.stored.wait(60)
        return _die(state)

    graph = beside(Log, {"plan": _said, "charge": die}).add_node("report", _said)
    return graph.add_edge(["plan", "charge"], "report")


def _loop(first: Callable[[Log], Log] = _said) -> Any:
    """Return a graph that never ends."""
    return chain(Log, {"first": first, "think": _said, "search": _said}).add_edge("search", "think")


def _join() -> Any:
    """Return a graph that runs one of three branches, although a node waits for all of them."""
    graph = chain(Log, {"choose": _said})
    for name in ("air", "rail", "road", "book"):
        graph.add_node(name, _said)
    graph.add_conditional_edges("choose", lambda _: "rail", ["air", "rail", "road"])
    return graph.add_edge(["air", "rail", "road"], "book")


def run(path: Path, thread_id: str, durability: str) -> None:
    """Run a thread until it stops; `killed` ends the process."""
    _Telling.stored.clear()
    given: Any = {"log": []}
    config: Any = {"configurable": {"thread_id": thread_id}, "recursion_limit": 25}
    config["recursion_limit"] += thread_id == "other-limit"
    graphs = {"killed": _chain(_die), "beside": _beside(), "join": _join()}
    graphs |= dict.fromkeys(("loop", "loop-again", "loop-updated", "other-limit"), _loop())
    graphs["loop-answered"] = _loop(_ask)
    stops = {"interrupt_before": ["charge"]} if thread_id == "breakpoint" else {}
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        saver = _Telling(connection)
        graph = graphs.get(thread_id, _chain()).compile(checkpointer=saver, **stops)
        with suppress(GraphRecursionError):
            graph.invoke(given, config, durability=durability)
        with suppress(GraphRecursionError):
            if thread_id == "loop-again":
                graph.invoke(given, config, durability=durability)
            if thread_id == "loop-answered":
                graph.invoke(Command(resume="yes"), config, durability=durability)
            if thread_id == "loop-updated":
                graph.update_state(config, {"log": ["by hand"]}, as_node="think")
                graph.invoke(None, config, durability=durability)
        if thread_id == "updated":
            graph.update_state(config, {"log": ["by hand"]}, as_node="plan")
