"""A conversation that is summed up, and whose old messages are removed."""

from typing import Any

from langchain_core.messages import HumanMessage, RemoveMessage, SystemMessage
from langgraph.graph import END, START, MessagesState, StateGraph

from tests.thread_tests.applications.chat import Scripted


class State(MessagesState):
    summary: str


def reply(state: State) -> Any:
    summary = state.get("summary", "")
    first = [SystemMessage(f"Before: {summary}")] if summary else []
    return {"messages": Scripted().invoke([*first, *state["messages"]])}


def full(state: State) -> str:
    return "sum_up" if len(state["messages"]) > 2 else END


def sum_up(state: State) -> Any:
    asked = [*state["messages"], HumanMessage("Sum this up.")]
    texts = [str(one.content)[:10] for one in asked]
    removed = [RemoveMessage(id=one.id or "") for one in state["messages"][:-1]]
    return {"summary": " / ".join(texts), "messages": removed}


def build(checkpointer: Any = None) -> Any:
    graph = StateGraph(State)
    graph.add_node("reply", reply)
    graph.add_node("sum_up", sum_up)
    graph.add_edge(START, "reply")
    graph.add_conditional_edges("reply", full, ["sum_up", END])
    return graph.compile(checkpointer=checkpointer)


INPUTS = [{"messages": [("user", text)]} for text in ("One", "Two", "Three")]
