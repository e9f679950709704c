"""Plain nodes with reducers: a sum, a dict, a set and the longest text."""

import operator
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph


def longest(before: str, after: str) -> str:
    return max(before or "", after or "", key=len)


def merged(before: dict[str, int], after: dict[str, int]) -> dict[str, int]:
    return {**before, **after}


class State(TypedDict, total=False):
    numbers: list[int]
    total: Annotated[int, operator.add]
    seen: Annotated[dict[str, int], merged]
    tags: Annotated[set[str], operator.or_]
    word: Annotated[str, longest]


def count(state: State) -> Any:
    return {"total": sum(state["numbers"]), "seen": {"count": len(state["numbers"])}}


def tag(state: State) -> Any:
    large = state["total"] > 10
    return {"tags": {"large" if large else "small"}, "seen": {"tag": 1}, "word": "tagged"}


def shrink(state: State) -> Any:
    return {"numbers": state["numbers"][1:], "tags": {"shrunk"}}


def route(state: State) -> str:
    return "shrink" if len(state["numbers"]) > 2 else "close"


def close(state: State) -> Any:
    return {"word": "end", "seen": {"close": state["total"]}}


def build(checkpointer: Any = None) -> Any:
    graph = StateGraph(State)
    for name, node in (("count", count), ("tag", tag), ("shrink", shrink), ("close", close)):
        graph.add_node(name, node)
    graph.add_edge(START, "count")
    graph.add_edge("count", "tag")
    graph.add_conditional_edges("tag", route, ["shrink", "close"])
    graph.add_edge("shrink", "count")
    graph.add_edge("close", END)
    return graph.compile(checkpointer=checkpointer)


INPUTS = [{"numbers": [5, 4, 3, 2], "word": "in"}, {"numbers": [1]}]
