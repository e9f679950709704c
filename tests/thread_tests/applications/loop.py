"""A loop of a model and tools, built by hand, with a counter."""

import operator
from typing import Annotated, Any

from langchain_core.messages import SystemMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from tests.thread_tests.applications.chat import Scripted


class State(MessagesState):
    turns: Annotated[int, operator.add]


@tool
def weather(query: str) -> str:
    """Say what the weather is."""
    return f"sunny in {query}"


def model(state: State) -> Any:
    messages = [SystemMessage("Be brief."), *state["messages"]]
    return {"messages": [Scripted().invoke(messages)], "turns": 1}


def route(state: Any) -> str:
    return "tools" if state["messages"][-1].tool_calls else END


def build(checkpointer: Any = None) -> Any:
    graph = StateGraph(State)
    graph.add_node("model", model)
    graph.add_node("tools", ToolNode([weather]))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", route, ["tools", END])
    graph.add_edge("tools", "model")
    return graph.compile(checkpointer=checkpointer)


INPUTS = [
    {"messages": [("user", "weather(Oslo)")]},
    {"messages": [("user", "weather(Rome) weather(Bari)")]},
]
