"""Graphs for kinds of channels: bare states, reducers, DeltaChannels, functions, any value."""

from __future__ import annotations

import operator
from typing import Annotated, Any, TypedDict

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.graph import END, START
from langgraph.graph.message import add_messages

from ckpt_backends.testing.scenarios import building, compat
from ckpt_backends.testing.scenarios.building import Holder, Node, State, assemble, chain
from ckpt_backends.testing.scenarios.graphs import fake_model


def root_list(saver: Any) -> Any:
    """The state is one bare list: its only channel is `__root__`."""

    def one(state: list[str]) -> list[str]:
        return ["one"]

    def two(state: list[str]) -> list[str]:
        return [f"saw {len(state)}"]

    return chain({"one": one, "two": two}, Annotated[list, operator.add]).compile(
        checkpointer=saver
    )


def root_messages(saver: Any) -> Any:
    graph = compat.MessageGraph()
    graph.add_node("model", lambda messages: fake_model(messages))
    graph.add_edge(START, "model")
    graph.add_edge("model", END)
    return graph.compile(checkpointer=saver)


def highest(old: int, new: int) -> int:
    return max(old, new)


def lowest(old: int, new: int) -> int:
    return min(old, new)


def keep_longest(old: str, new: str) -> str:
    return max(old, new, key=len)


def merge(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    return {**old, **new}


class Reduced(TypedDict, total=False):
    total: Annotated[int, operator.add]
    best: Annotated[int, highest]
    worst: Annotated[int, lowest]
    facts: Annotated[dict, merge]
    labels: Annotated[set, operator.or_]
    longest: Annotated[str, keep_longest]
    last: str


def reducers(saver: Any) -> Any:
    """One channel per usual reducer, written by two parallel nodes and one after them."""

    def node(number: int, name: str) -> Node:
        def run(state: State) -> State:
            building.settle()
            found: State = {"total": number, "best": number, "worst": number}
            found.update({"facts": {name: number, "shared": name}, "labels": {name, "all"}})
            return {**found, "longest": name * number}

        return run

    nodes = {"one": node(1, "one"), "two": node(2, "two"), "end": lambda state: {"last": "end"}}
    edges = [(START, "one"), (START, "two"), (["one", "two"], "end")]
    return assemble(Reduced, nodes, edges).compile(checkpointer=saver)


def add_batch(old: list[Any], batches: Any) -> list[Any]:
    return [*old, *(item for batch in batches for item in batch)]


def delta(saver: Any, frequency: int = 3) -> Any:
    """Delta channels beside plain channels that must always hold the same."""
    messages = compat.DeltaChannel(compat.messages_delta_reducer, snapshot_frequency=frequency)
    appended = compat.DeltaChannel(add_batch, snapshot_frequency=frequency)

    schema = TypedDict(  # type: ignore[misc]  # noqa: UP013 (the channels are local)
        "Delta",
        {
            "messages": Annotated[list[AnyMessage], messages],
            "messages_plain": Annotated[list[AnyMessage], add_messages],
            "items": Annotated[list, appended],
            "items_plain": Annotated[list, operator.add],
            "reset": bool,
        },
        total=False,
    )

    def reply(state: State) -> State:
        number = len(state["messages"])
        answer = AIMessage(f"answer {number}", id=f"ai-{number}")
        words = [f"reply {number}"]
        return {
            "messages": [answer],
            "messages_plain": [answer],
            "items": words,
            "items_plain": words,
        }

    def note(word: str) -> Node:
        def run(state: State) -> State:
            building.settle()
            words = [f"{word} {len(state['items'])}"]
            return {"items": words, "items_plain": words}

        return run

    def close(state: State) -> State:
        if not state.get("reset"):
            return {"items": ["closed"], "items_plain": ["closed"]}
        start = compat.Overwrite(["reset"])
        return {"items": start, "items_plain": start, "reset": False}

    nodes = {"reply": reply, "left": note("left"), "right": note("right"), "close": close}
    edges = [(START, "reply"), ("reply", "left"), ("reply", "right"), (["left", "right"], "close")]
    return assemble(schema, nodes, edges).compile(checkpointer=saver)


def delta_often(saver: Any) -> Any:
    return delta(saver, 3)


def delta_rarely(saver: Any) -> Any:
    return delta(saver, 1000)


def functional(saver: Any) -> Any:
    """@entrypoint and @task, with what the last run saved."""

    @compat.task
    def square(number: int) -> int:
        return number * number

    @compat.entrypoint(checkpointer=saver)
    def workflow(number: int, *, previous: Any = None) -> Any:
        squares = [square(n) for n in range(number)]
        total = sum(future.result() for future in squares)
        return compat.entrypoint.final(value={"total": total}, save=(previous or 0) + total)

    return workflow


def functional_asking(saver: Any) -> Any:
    @compat.task
    def draft(topic: str) -> str:
        return f"a draft about {topic}"

    @compat.entrypoint(checkpointer=saver)
    def workflow(topic: str) -> Any:
        text = draft(topic).result()
        verdict = compat.ask({"review": text})
        return {"text": text, "verdict": verdict}

    return workflow


def holder(saver: Any) -> Any:
    """Stores whatever it is given in `value`, and a list of all in `seen`."""

    def keep(state: State) -> State:
        return {"seen": [state["value"]]}

    return chain({"keep": keep}, Holder).compile(checkpointer=saver)
