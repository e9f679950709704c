"""An agent of LangChain whose middleware changes the prompt and asks before a tool."""

from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import HumanInTheLoopMiddleware, dynamic_prompt
from langchain_core.tools import tool
from langgraph.types import Command

from tests.thread_tests.applications.chat import Scripted


@tool
def refund(query: str) -> str:
    """Pay money back."""
    return f"{query} paid back"


@tool
def look_up(query: str) -> str:
    """Find an order."""
    return f"order {query}"


@dynamic_prompt
def instructions(request: Any) -> str:
    return f"You are a clerk. {len(request.messages)} messages so far."


def build(checkpointer: Any = None) -> Any:
    asking = HumanInTheLoopMiddleware(interrupt_on={"refund": True})
    tools = [refund, look_up]
    return create_agent(
        Scripted(), tools, middleware=[instructions, asking], checkpointer=checkpointer
    )


INPUTS = [
    {"messages": [("user", "look_up(42)")]},
    {"messages": [("user", "refund(42)")]},
    Command(resume={"decisions": [{"type": "approve"}]}),
    {"messages": [("user", "Bye")]},
]
