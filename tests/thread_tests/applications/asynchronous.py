"""Nodes and tools that are async only."""

from typing import Any

from langchain_core.messages import SystemMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode

from tests.thread_tests.applications.chat import Scripted


class State(MessagesState):
    title: str


@tool
async def fetch(query: str) -> str:
    """Fetch a page."""
    return f"page {query}"


async def model(state: State) -> Any:
    prompt = [SystemMessage("Read the web."), *state["messages"]]
    return {"messages": [await Scripted().ainvoke(prompt)]}


async def name(state: State) -> Any:
    return {"title": str(state["messages"][0].content).title()}


def route(state: Any) -> str:
    return "tools" if state["messages"][-1].tool_calls else "name"


def build(checkpointer: Any = None) -> Any:
    graph = StateGraph(State)
    graph.add_node("model", model)
    graph.add_node("tools", ToolNode([fetch]))
    graph.add_node("name", name)
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", route, ["tools", "name"])
    graph.add_edge("tools", "model")
    graph.add_edge("name", END)
    return graph.compile(checkpointer=checkpointer)


INPUTS = [{"messages": [("user", "fetch(news)")]}, {"messages": [("user", "go on")]}]
