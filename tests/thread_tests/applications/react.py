"""A prebuilt ReAct agent with two tools and a prompt."""

from typing import Any

from langchain_core.tools import tool
from langgraph.prebuilt import create_react_agent

from tests.thread_tests.applications.chat import Scripted


@tool
def stock(query: str) -> str:
    """Say how many there are."""
    return f"{len(query) * 3} of {query}"


@tool
def price(query: str) -> str:
    """Say what one costs."""
    return f"{len(query)} euros"


def prompt(state: Any) -> Any:
    return [("system", "You sell fruit."), *state["messages"]]


def build(checkpointer: Any = None) -> Any:
    tools = [stock, price]
    return create_react_agent(Scripted(), tools, prompt=prompt, checkpointer=checkpointer)


INPUTS = [
    {"messages": [("user", "stock(pears) price(pears)")]},
    {"messages": [("user", "Thank you")]},
]
