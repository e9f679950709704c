"""Graphs of edges that are written as text, for agents that change."""

from typing import Annotated, Any, TypedDict, get_type_hints

from langgraph.channels.delta import DeltaChannel
from langgraph.graph import START, StateGraph
from langgraph.types import Send, interrupt

from tests.kit.agents.small import Log

CHAIN = ">pre pre>rv rv>fin"
BESIDE = ">a >rv a+rv>j"


def say(name: str) -> Any:
    return lambda _: {"log": [name]}


def ask(_: Any) -> Any:
    return {"log": [f"rv {interrupt('sure?')}"]}


def fail(_: Any) -> Any:
    raise ValueError("no")


def graph(edges: str, *, asks: str = "rv", defer: str = "", schema: Any = Log, **roles: Any) -> Any:
    """A graph of edges such as `>pre pre>rv pre+rv>fin`; a plus sign makes a join."""
    built: Any = StateGraph(schema)
    pairs = [one.split(">") for one in edges.split()]
    for name in dict.fromkeys(name for a, b in pairs for name in (*a.split("+"), b) if name):
        node = roles.get(name) or (ask if name in asks.split() else say(name))
        built.add_node(name, node, defer=name in defer.split())
    for start, end in pairs:
        built.add_edge(start.split("+") if "+" in start else start or START, end)
    return built


def keyed(keys: dict[str, Any], edges: str = CHAIN, **roles: Any) -> Any:
    """A graph whose state has these keys beside the log."""
    kinds = {**get_type_hints(Log, include_extras=True), **keys}
    schema: Any = TypedDict("State", kinds, total=False)  # type: ignore[misc]
    return graph(edges, schema=schema, **roles)


def sends(worker: str, end: str) -> Any:
    built = graph(f">pre {worker}>{end}", asks=worker)
    built.add_conditional_edges("pre", lambda _: [Send(worker, {"log": []})] * 2, [worker])
    return built


def nested(outer: str = "o", waiting: str = "rv", saver: bool | None = None, **more: Any) -> Any:
    inner = graph(f">first first>{waiting}", asks=waiting).compile(checkpointer=saver)
    return graph(f">pre pre>{outer}", **{outer: inner, **more})


def merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    return {**one, **other}


def extended(value: list[str], writes: list[list[str]]) -> list[str]:
    return [*value, *(one for each in writes for one in each)]


REPLAYED = Annotated[list[str], DeltaChannel(extended, snapshot_frequency=3)]
