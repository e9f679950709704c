"""Map and reduce: each item goes to a worker that asks a model, and a judge takes the longest."""

import operator
from typing import Annotated, Any, TypedDict

from langchain_core.messages import HumanMessage
from langgraph.graph import START, StateGraph
from langgraph.types import Send

from tests.thread_tests.applications.chat import Scripted


class State(TypedDict, total=False):
    subjects: list[str]
    answers: Annotated[list[Any], operator.add]
    best: str


def plan(state: State) -> Any:
    return {"subjects": sorted(state["subjects"])}


def each(state: State) -> Any:
    return [Send("worker", {"subject": one}) for one in state["subjects"]]


def worker(state: Any) -> Any:
    answer = Scripted().invoke([HumanMessage(f"Tell a joke about {state['subject']}")])
    return {"answers": [answer]}


def judge(state: State) -> Any:
    texts = [str(one.content) for one in state["answers"]]
    return {"best": max(texts, key=len)}


def build(checkpointer: Any = None) -> Any:
    graph = StateGraph(State)
    graph.add_node("plan", plan)
    graph.add_node("worker", worker)
    graph.add_node("judge", judge)
    graph.add_edge(START, "plan")
    graph.add_conditional_edges("plan", each, ["worker"])
    graph.add_edge("worker", "judge")
    return graph.compile(checkpointer=checkpointer)


INPUTS = [{"subjects": ["owls", "bees", "elephants"]}]
