"""Parts of graphs: nodes, schemas, and how they are put together."""

from __future__ import annotations

import operator
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AnyMessage
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages

from ckpt_backends.testing.scenarios import compat

State = dict[str, Any]
Node = Callable[[State], Any]


class Items(TypedDict, total=False):
    items: Annotated[list[Any], operator.add]
    count: int
    note: str


class Chat(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]


class Visits(TypedDict, total=False):
    items: Annotated[list[Any], operator.add]
    visits: int


class Holder(TypedDict, total=False):
    value: Any
    seen: Annotated[list[Any], operator.add]


def settle() -> None:
    """Let the background writer store the last step, before this one changes a join's set: an
    upstream race that would leave different rows each time."""
    time.sleep(0.005)


def say(*words: Any) -> Node:
    """A node that appends words to `items`."""

    def node(state: State) -> State:
        settle()
        return {"items": list(words)}

    return node


def question(text: Any, times: int = 1) -> Node:
    """A node that asks, `times` times, and appends the answers to `items`."""

    def node(state: State) -> State:
        settle()
        return {"items": [compat.ask(f"{text} {n}" if times > 1 else text) for n in range(times)]}

    return node


def fail(message: str, after: float = 0.0) -> Node:
    """A node that fails, late enough for the nodes beside it to finish."""

    def node(state: State) -> State:
        time.sleep(after)
        raise ValueError(message)

    return node


def assemble(schema: Any, nodes: dict[str, Any], edges: list[tuple[Any, str]]) -> StateGraph:
    graph = StateGraph(schema)
    for name, node in nodes.items():
        graph.add_node(name, node)
    for source, target in edges:
        graph.add_edge(source, target)
    return graph


def chain(nodes: dict[str, Any], schema: Any = Items) -> StateGraph:
    """The nodes one after another."""
    stops = [START, *nodes, END]
    return assemble(schema, nodes, list(pairwise(stops)))
