"""Nodes that ask people: one alone, one twice, and two at the same time."""

import operator
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]
    amount: int


def draft(state: State) -> Any:
    return {"log": ["drafted"], "amount": state["amount"] * 2}


def approve(state: State) -> Any:
    answer = interrupt({"question": "Pay?", "amount": state["amount"]})
    return Command(goto="details" if answer == "yes" else END, update={"log": [f"said {answer}"]})


def details(state: State) -> Any:
    name = interrupt("To whom?")
    day = interrupt("When?")
    return {"log": [f"to {name} on {day}"]}


def left(state: State) -> Any:
    return {"log": [f"left {interrupt('Left?')}"]}


def right(state: State) -> Any:
    return {"log": [f"right {interrupt('Right?')}"]}


def build(checkpointer: Any = None) -> Any:
    graph = StateGraph(State)
    for name, node in (("draft", draft), ("approve", approve), ("details", details)):
        graph.add_node(name, node)
    graph.add_node("left", left)
    graph.add_node("right", right)
    graph.add_edge(START, "draft")
    graph.add_edge("draft", "approve")
    graph.add_edge("details", "left")
    graph.add_edge("details", "right")
    return graph.compile(checkpointer=checkpointer)


INPUTS = [
    {"log": ["in"], "amount": 4},
    Command(resume="yes"),
    Command(resume="Ann"),
    Command(resume="Monday"),
    {"Left?": "one", "Right?": "two"},
]
