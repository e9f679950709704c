"""Small graphs, and how an application runs them on a SQLite file."""

import operator
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import START, StateGraph


class Log(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


class Picked(Log, total=False):
    pick: list[str]


def chain(schema: Any, nodes: Mapping[str, Any]) -> Any:
    """Return a graph whose nodes run one after another."""
    graph: Any = StateGraph(schema)
    before = START
    for name, node in nodes.items():
        graph.add_node(name, node).add_edge(before, name)
        before = name
    return graph


def beside(schema: Any, nodes: Mapping[str, Any]) -> Any:
    """Return a graph whose nodes run in one step."""
    graph: Any = StateGraph(schema)
    for name, node in nodes.items():
        graph.add_node(name, node).add_edge(START, name)
    return graph


def joined(members: Sequence[str], **options: Any) -> Any:
    """Return a graph in which `offer` waits for all members, of which an input picks some."""
    graph: Any = StateGraph(Picked)
    for name in members:
        graph.add_node(name, lambda _, name=name: {"log": [name]})
    graph.add_node("offer", lambda _: {"log": ["offer"]}, **options)
    graph.add_conditional_edges(START, lambda state: state["pick"], list(members))
    return graph.add_edge(list(members), "offer")


def nested(schema: Any, graph: Any, *names: str) -> Any:
    """Return a graph that calls a graph as a node, and so on: names, outermost first."""
    for name in reversed(names):
        graph = chain(schema, {name: graph.compile()})
    return graph


@contextmanager
def saver_of(path: Path | str) -> Iterator[SqliteSaver]:
    with closing(sqlite3.connect(path, check_same_thread=False)) as connection:
        connection.execute("PRAGMA synchronous = OFF")
        yield SqliteSaver(connection)


@contextmanager
def running(path: Path | str, graph: Any, **options: Any) -> Iterator[Any]:
    """Yield the graph on a SQLite file; the options are those of `compile`."""
    with saver_of(path) as saver:
        yield graph.compile(checkpointer=saver, **options)


def run(path: Path | str, graph: Any, *inputs: Any, thread: str = "t", **options: Any) -> None:
    with running(path, graph, **options) as agent:
        for value in inputs:
            agent.invoke(value, {"configurable": {"thread_id": thread}})
