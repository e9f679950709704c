"""Graphs without messages: questions, subgraphs, sent tasks, joins, and the functional API."""

import operator
from typing import Annotated, Any, TypedDict

from langchain_core.messages import HumanMessage, SystemMessage
from langgraph.func import entrypoint, task
from langgraph.graph import END
from langgraph.types import Command, Send, interrupt

from tests.kit.agents.small import Log, chain
from tests.thread_tests.applications.chat import Scripted


def asking(checkpointer: Any = None) -> Any:
    """Nodes that ask people: one alone, one twice, and two at the same time, behind which others
    wait for both and for all.
    """

    class State(Log, total=False):
        amount: int

    def draft(state: State) -> Any:
        return {"log": ["drafted"], "amount": state["amount"] * 2}

    def approve(state: State) -> Any:
        answer = interrupt({"question": "Pay?", "amount": state["amount"]})
        goto = "details" if answer == "yes" else END
        return Command(goto=goto, update={"log": [f"said {answer}"]})

    def details(state: State) -> Any:
        name = interrupt("To whom?")
        day = interrupt("When?")
        return {"log": [f"to {name} on {day}"]}

    def left(state: State) -> Any:
        return {"log": [f"left {interrupt('Left?')}"]}

    def right(state: State) -> Any:
        return {"log": [f"right {interrupt('Right?')}"]}

    graph = chain(State, {"draft": draft, "approve": approve}).add_node("details", details)
    for side in (left, right):
        graph.add_node(side).add_edge("details", side.__name__)
    graph.add_node("both", lambda state: {"log": [f"both of {len(state['log'])}"]})
    graph.add_node("all", lambda state: {"log": [f"all of {len(state['log'])}"]}, defer=True)
    graph.add_edge(["left", "right"], "both").add_edge("right", "all").add_edge("both", "all")
    return graph.compile(checkpointer=checkpointer)


def functional(checkpointer: Any = None) -> Any:
    """An entrypoint whose tasks ask a model, with what it saved before."""

    @task
    def outline(topic: str) -> Any:
        return Scripted().invoke([SystemMessage("Outline."), HumanMessage(topic)])

    @task
    def count(text: str) -> int:
        return len(text.split())

    @entrypoint(checkpointer=checkpointer)
    def essay(topic: str, *, previous: Any = None) -> Any:
        answer = outline(topic).result()
        words = count(str(answer.content)).result()
        mark = interrupt({"words": words})
        earlier = previous["total"] if previous else 0
        result = {"text": answer.content, "mark": mark, "total": earlier + words}
        return entrypoint.final(value=result, save={"total": earlier + words})

    return essay


def memory(checkpointer: Any = None) -> Any:
    """A subgraph that keeps its own state between turns."""

    class Own(TypedDict, total=False):
        text: str
        known: Annotated[list[str], operator.add]
        visits: int

    class State(Log, total=False):
        text: str

    def remember(state: Own) -> Any:
        return {"known": [state["text"].lower()], "visits": (state.get("visits") or 0) + 1}

    child = chain(Own, {"remember": remember}).compile(checkpointer=True)

    def ask(state: State) -> Any:
        found = child.invoke({"text": state["text"]})
        return {"log": [f"visit {found['visits']} knows {', '.join(found['known'])}"]}

    def close(state: State) -> Any:
        return {"log": [f"closed after {len(state['log'])}"]}

    return chain(State, {"ask": ask, "close": close}).compile(checkpointer=checkpointer)


def worker(state: Any) -> Any:
    answer = Scripted().invoke([HumanMessage(f"Tell a joke about {state['subject']}")])
    return {"answers": [answer]}


def sending(checkpointer: Any = None) -> Any:
    """Map and reduce: each item goes to a worker that asks a model, a judge takes the longest."""

    class State(TypedDict, total=False):
        subjects: list[str]
        answers: Annotated[list[Any], operator.add]
        best: str

    def plan(state: State) -> Any:
        return {"subjects": sorted(state["subjects"])}

    def each(state: State) -> Any:
        return [Send("worker", {"subject": one}) for one in state["subjects"]]

    def judge(state: State) -> Any:
        texts = [str(one.content) for one in state["answers"]]
        return {"best": max(texts, key=len)}

    graph = chain(State, {"plan": plan})
    graph.add_node("worker", worker).add_node("judge", judge).add_edge("worker", "judge")
    graph.add_conditional_edges("plan", each, ["worker"])
    return graph.compile(checkpointer=checkpointer)


INPUTS: dict[Any, list[Any]] = {
    asking: [
        {"log": ["in"], "amount": 4},
        *(Command(resume=answer) for answer in ("yes", "Ann", "Monday")),
        {"Left?": "one", "Right?": "two"},
    ],
    functional: ["Cats and dogs", Command(resume="good"), "Only cats", Command(resume="better")],
    memory: [{"text": text} for text in ("One", "Two", "Three")],
    sending: [{"subjects": ["owls", "bees", "elephants"]}],
}
