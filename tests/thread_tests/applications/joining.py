"""Branches of different length, a node that waits for both, and a deferred one."""

import operator
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph


def highest(before: int, after: int) -> int:
    return max(before or 0, after)


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    score: Annotated[int, highest]


def scorer(name: str, score: int) -> Any:
    def node(state: State) -> Any:
        return {"log": [f"{name} saw {len(state['log'])}"], "score": score}

    return node


def merge(state: State) -> Any:
    return {"log": [f"merged {sorted(state['log'])}"]}


def last(state: State) -> Any:
    return {"log": [f"last: {state['score']}"]}


def route(state: State) -> list[str]:
    return ["short", "long"] if state["score"] < 7 else ["short"]


def build(checkpointer: Any = None) -> Any:
    graph = StateGraph(State)
    graph.add_node("start", scorer("start", 1))
    graph.add_node("short", scorer("short", 5))
    graph.add_node("long", scorer("long", 3))
    graph.add_node("longer", scorer("longer", 7))
    graph.add_node("merge", merge)
    graph.add_node("last", last, defer=True)
    graph.add_edge(START, "start")
    graph.add_conditional_edges("start", route, ["short", "long"])
    graph.add_edge("long", "longer")
    graph.add_edge(["short", "longer"], "merge")
    graph.add_edge("short", "last")
    graph.add_edge("merge", "last")
    graph.add_edge("last", END)
    return graph.compile(checkpointer=checkpointer)


INPUTS = [{"log": ["in"]}, {"log": ["again"]}]
