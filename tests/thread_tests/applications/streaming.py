"""A node that streams its model, and one that asks two models in turn."""

from typing import Any

from langchain_core.messages import AIMessage, SystemMessage
from langgraph.graph import START, MessagesState, StateGraph

from tests.thread_tests.applications.chat import Scripted


class State(MessagesState):
    words: int


def speak(state: State) -> Any:
    whole: Any = None
    for chunk in Scripted().stream([SystemMessage("Speak."), *state["messages"]]):
        whole = chunk if whole is None else whole + chunk
    return {"messages": [AIMessage(whole.content, id=whole.id)]}


def review(state: State) -> Any:
    first = Scripted().invoke([SystemMessage("Judge."), *state["messages"]])
    second = Scripted().invoke([SystemMessage("Judge again."), *state["messages"], first])
    words = len(str(first.content).split()) + len(str(second.content).split())
    return {"messages": [first, second], "words": words}


def build(checkpointer: Any = None) -> Any:
    graph = StateGraph(State)
    graph.add_node("speak", speak)
    graph.add_node("review", review)
    graph.add_edge(START, "speak")
    graph.add_edge("speak", "review")
    return graph.compile(checkpointer=checkpointer)


INPUTS = [{"messages": [("user", "Say something")]}, {"messages": [("user", "More")]}]
