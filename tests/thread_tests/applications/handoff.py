"""Two agents, one of which hands over to the other by a tool."""

from typing import Annotated, Any

from langchain_core.messages import ToolMessage
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import InjectedState, create_react_agent
from langgraph.types import Command

from tests.thread_tests.applications.chat import Scripted


@tool
def transfer_to_billing(
    reason: str, state: Annotated[Any, InjectedState], call_id: Annotated[str, InjectedToolCallId]
) -> Any:
    """Hand over to billing."""
    message = ToolMessage(f"Handed over: {reason}", tool_call_id=call_id, name="transfer")
    messages = [*state["messages"], message]
    return Command(graph=Command.PARENT, goto="billing", update={"messages": messages})


@tool
def invoice(query: str) -> str:
    """Find an invoice."""
    return f"invoice of {query}"


def build(checkpointer: Any = None) -> Any:
    desk = create_react_agent(Scripted(), [transfer_to_billing], prompt="You are the desk.")
    billing = create_react_agent(Scripted(), [invoice], prompt="You do the bills.")
    graph = StateGraph(MessagesState)
    graph.add_node("desk", desk, destinations=("billing",))
    graph.add_node("billing", billing)
    graph.add_edge(START, "desk")
    return graph.compile(checkpointer=checkpointer)


INPUTS = [
    {"messages": [("user", "Hello")]},
    {"messages": [("user", "transfer_to_billing(unpaid)")]},
]
