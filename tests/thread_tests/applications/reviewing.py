"""A tool that asks a person, in a subgraph of an agent."""

from typing import Any

from langchain_core.tools import tool
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import create_react_agent
from langgraph.types import Command, interrupt

from tests.thread_tests.applications.chat import Scripted


class State(MessagesState):
    mood: str


@tool
def book(query: str) -> str:
    """Book a table."""
    answer = interrupt({"book": query})
    return f"{query} {answer}"


def greet(state: State) -> Any:
    return {"mood": "good" if len(state["messages"]) < 3 else "better"}


def build(checkpointer: Any = None) -> Any:
    agent = create_react_agent(Scripted(), [book], prompt="You book tables.", name="agent")
    graph = StateGraph(State)
    graph.add_node("greet", greet)
    graph.add_node("agent", agent)
    graph.add_edge(START, "greet")
    graph.add_edge("greet", "agent")
    graph.add_edge("agent", END)
    return graph.compile(checkpointer=checkpointer)


INPUTS = [
    {"messages": [("user", "book(Friday)")]},
    Command(resume="confirmed"),
    {"messages": [("user", "Thanks")]},
]
