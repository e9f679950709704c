"""Make a store with a thread of many steps for each kind of state.

Run it with `python -m tests.bench.make_steps STORE`. Each thread has the name of its kind.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from operator import add, or_
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph
from langgraph.graph.message import add_messages

STEPS = 1000


class Steps(TypedDict, total=False):
    """A state of which a thread uses some channels."""

    left: int
    carried: list[str]
    blob: bytes
    added: Annotated[list[str], add]
    facts: Annotated[dict[str, Any], or_]
    messages: Annotated[list[AnyMessage], add_messages]


def _added(n: int) -> dict[str, Any]:
    return {"added": [f"a note of step {n}, with some words"]}


def _fact(n: int) -> dict[str, Any]:
    return {"facts": {f"fact {n % 300}": {"step": n, "tags": ["one", "two"], "text": "x" * 40}}}


def _message(n: int) -> dict[str, Any]:
    if n % 3:
        return {}
    kind = HumanMessage if n % 2 else AIMessage
    return {"messages": [kind(f"message {n} " + "word " * 60, id=f"message-{n}")]}


KINDS: dict[str, tuple[dict[str, Any], Callable[[int], dict[str, Any]]]] = {
    "carried": ({"carried": [f"a text with number {n}" for n in range(1000)]}, lambda _: {}),
    "blob": ({"blob": bytes(range(256)) * 400}, lambda _: {}),
    "added": ({}, _added),
    "facts": ({}, _fact),
    "messages": ({}, _message),
}
"""By kind: what its thread begins with, and what the steps add, by their number."""


@contextmanager
def saver_of(store: str) -> Iterator[Any]:
    """Open the official saver of a store."""
    kind: Any = PostgresSaver if "://" in store else SqliteSaver
    with kind.from_conn_string(store) as saver:
        saver.setup()
        yield saver


def built(saver: Any, kind: str) -> Any:
    """Build the graph of a kind: one node, which runs until nothing is left."""
    _, step = KINDS[kind]

    def work(state: Any) -> dict[str, Any]:
        return {"left": state["left"] - 1, **step(state["left"])}

    graph: Any = StateGraph(Steps)
    graph.add_node("work", work)
    graph.add_edge(START, "work")
    graph.add_conditional_edges("work", lambda state: "work" if state["left"] else "__end__")
    return graph.compile(checkpointer=saver)


def config_of(kind: str) -> dict[str, Any]:
    """Return the configuration of the thread of a kind."""
    return {"configurable": {"thread_id": kind}, "recursion_limit": 100_000}


def make_steps(store: str, steps: int = STEPS) -> None:
    """Make a thread of each kind, with this number of steps."""
    with saver_of(store) as saver:
        for kind, (first, _) in KINDS.items():
            start = {"left": steps, **first}
            built(saver, kind).invoke(start, config_of(kind), durability="sync")


if __name__ == "__main__":
    make_steps(sys.argv[1])
