"""Subgraphs in subgraphs, as nodes and called by a function."""

import operator
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    depth: int


def enter(state: State) -> Any:
    return {"log": [f"enter {len(state['log'])}"], "depth": state.get("depth", 0) + 1}


def core(state: State) -> Any:
    return {"log": [f"core at {state['depth']}"]}


def deeper(state: State) -> str:
    return "core" if state["depth"] < 3 else END


def inner() -> Any:
    graph = StateGraph(State)
    graph.add_node("enter", enter)
    graph.add_node("core", core)
    graph.add_edge(START, "enter")
    graph.add_conditional_edges("enter", deeper, ["core", END])
    return graph.compile()


INNER = inner()


def call(state: State) -> Any:
    found = INNER.invoke({"log": [], "depth": state["depth"]})
    return {"log": found["log"][-1:], "depth": found["depth"]}


def build(checkpointer: Any = None) -> Any:
    middle = StateGraph(State)
    middle.add_node("inner", inner())
    middle.add_node("call", call)
    middle.add_edge(START, "inner")
    middle.add_edge("inner", "call")
    graph = StateGraph(State)
    graph.add_node("first", lambda state: {"log": ["first"], "depth": 0})
    graph.add_node("middle", middle.compile())
    graph.add_node("last", lambda state: {"log": [f"last of {len(state['log'])}"]})
    graph.add_edge(START, "first")
    graph.add_edge("first", "middle")
    graph.add_edge("middle", "last")
    return graph.compile(checkpointer=checkpointer)


INPUTS = [{"log": ["in"]}, {"log": ["again"]}]
