"""A subgraph that keeps its own state between turns."""

import operator
from typing import Annotated, Any, TypedDict

from langgraph.graph import START, StateGraph


class Own(TypedDict, total=False):
    text: str
    known: Annotated[list[str], operator.add]
    visits: int


class State(TypedDict, total=False):
    text: str
    log: Annotated[list[str], operator.add]


def remember(state: Own) -> Any:
    return {"known": [state["text"].lower()], "visits": (state.get("visits") or 0) + 1}


def child() -> Any:
    graph = StateGraph(Own)
    graph.add_node("remember", remember)
    graph.add_edge(START, "remember")
    return graph.compile(checkpointer=True)


CHILD = child()


def ask(state: State) -> Any:
    found = CHILD.invoke({"text": state["text"]})
    return {"log": [f"visit {found['visits']} knows {', '.join(found['known'])}"]}


def close(state: State) -> Any:
    return {"log": [f"closed after {len(state['log'])}"]}


def build(checkpointer: Any = None) -> Any:
    graph = StateGraph(State)
    graph.add_node("ask", ask)
    graph.add_node("close", close)
    graph.add_edge(START, "ask")
    graph.add_edge("ask", "close")
    return graph.compile(checkpointer=checkpointer)


INPUTS = [{"text": "One"}, {"text": "Two"}, {"text": "Three"}]
