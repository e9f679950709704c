"""Retrieval: documents, a grade, a new question where nothing was found."""

from typing import Any, TypedDict

from langchain_core.documents import Document
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.graph import END, START, StateGraph

from tests.thread_tests.applications.chat import Scripted

TEXTS = {"cats": "Cats sleep a lot.", "dogs": "Dogs bark.", "birds": "Birds sing."}


class State(TypedDict, total=False):
    question: str
    documents: list[Document]
    tries: int
    answer: AIMessage


def retrieve(state: State) -> Any:
    words = state["question"].lower().split()
    found = [Document(text, metadata={"of": key}) for key, text in TEXTS.items() if key in words]
    return {"documents": found, "tries": state.get("tries", 0) + 1}


def rewrite(state: State) -> Any:
    return {"question": f"{state['question']} cats"}


def generate(state: State) -> Any:
    context = " ".join(one.page_content for one in state["documents"])
    answer = Scripted().invoke([HumanMessage(context), HumanMessage(state["question"])])
    return {"answer": answer}


def grade(state: State) -> str:
    return "generate" if state["documents"] else "rewrite"


def build(checkpointer: Any = None) -> Any:
    graph = StateGraph(State)
    graph.add_node("retrieve", retrieve)
    graph.add_node("rewrite", rewrite)
    graph.add_node("generate", generate)
    graph.add_edge(START, "retrieve")
    graph.add_conditional_edges("retrieve", grade, ["generate", "rewrite"])
    graph.add_edge("rewrite", "retrieve")
    graph.add_edge("generate", END)
    return graph.compile(checkpointer=checkpointer)


INPUTS = [{"question": "What do fish do"}, {"question": "Tell of dogs", "tries": 0}]
