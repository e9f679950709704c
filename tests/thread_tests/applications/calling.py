"""Tools that a node calls itself, one of which fails, with ids and times of its own."""

import uuid
from datetime import UTC, datetime
from typing import Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph

from tests.thread_tests.applications.chat import Scripted


class State(MessagesState):
    run: str
    at: str
    failures: int


@tool
def divide(query: str) -> str:
    """Divide two numbers."""
    one, other = map(int, query.split("/"))
    return str(one / other)


def begin(state: State) -> Any:
    return {"run": str(uuid.uuid4()), "at": datetime.now(UTC).isoformat(), "failures": 0}


def model(state: State) -> Any:
    return {"messages": [Scripted().invoke(state["messages"])]}


def act(state: Any) -> Any:
    results, failures = [], state["failures"]
    for call in state["messages"][-1].tool_calls:
        try:
            text = divide.invoke(call["args"])
        except ZeroDivisionError as error:
            text, failures = f"failed: {error}", failures + 1
        results.append(ToolMessage(text, tool_call_id=call["id"]))
    return {"messages": results, "failures": failures}


def route(state: Any) -> str:
    return "act" if state["messages"][-1].tool_calls else END


def build(checkpointer: Any = None) -> Any:
    graph = StateGraph(State)
    graph.add_node("begin", begin)
    graph.add_node("model", model)
    graph.add_node("act", act)
    graph.add_edge(START, "begin")
    graph.add_edge("begin", "model")
    graph.add_conditional_edges("model", route, ["act", END])
    graph.add_edge("act", "model")
    return graph.compile(checkpointer=checkpointer)


INPUTS = [{"messages": [("user", "divide(8/2) divide(9/0)")]}, {"messages": [("user", "Thanks")]}]
