"""A supervisor that asks a model who goes on, and workers that answer to it."""

from typing import Any

from langchain_core.messages import HumanMessage, SystemMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.types import Command

from tests.thread_tests.applications.chat import Scripted


class State(MessagesState):
    plan: list[str]
    done: list[str]


def supervisor(state: State) -> Any:
    plan = state.get("plan") or str(state["messages"][-1].content).split()
    left = [one for one in plan if one not in state.get("done", [])]
    if not left:
        answer = Scripted().invoke([SystemMessage("Sum up."), *state["messages"]])
        return Command(goto=END, update={"messages": [answer], "plan": [], "done": []})
    return Command(goto=left[0], update={"plan": plan})


def worker(name: str) -> Any:
    def work(state: State) -> Any:
        prompt = [SystemMessage(f"You are the {name}."), *state["messages"]]
        answer = Scripted().invoke(prompt)
        message = HumanMessage(f"{name}: {answer.content}", name=name)
        done = [*state.get("done", []), name]
        return Command(goto="supervisor", update={"messages": [answer, message], "done": done})

    return work


def build(checkpointer: Any = None) -> Any:
    graph = StateGraph(State)
    graph.add_node("supervisor", supervisor)
    graph.add_node("writer", worker("writer"))
    graph.add_node("critic", worker("critic"))
    graph.add_edge(START, "supervisor")
    return graph.compile(checkpointer=checkpointer)


INPUTS = [{"messages": [("user", "writer critic")]}, {"messages": [("user", "critic")]}]
