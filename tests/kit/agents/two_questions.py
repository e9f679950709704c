"""A graph that asks two questions in one node, beside a node that has finished."""

import operator
from typing import Annotated, Any, TypedDict

from langgraph.graph import START, StateGraph
from langgraph.types import Command, interrupt

CONFIG: Any = {"configurable": {"thread_id": "t"}}


class State(TypedDict, total=False):
    log: Annotated[list[str], operator.add]


class Two:
    """A node that asks two questions, beside one that has finished; langgraph issue 8837."""

    def __init__(self, saver: Any, *, is_nested: bool = False) -> None:
        self.ran: list[str] = []
        builder: Any = StateGraph(State)
        builder.add_node("ask", self._inner() if is_nested else self._ask)
        builder.add_node("pay", self._pay)
        builder.add_edge(START, "ask")
        builder.add_edge(START, "pay")
        self.graph = builder.compile(checkpointer=saver)

    def _inner(self) -> Any:
        builder: Any = StateGraph(State)
        builder.add_node("inside", self._ask)
        builder.add_edge(START, "inside")
        return builder.compile()

    def _ask(self, _: State) -> dict[str, Any]:
        self.ran.append("ask")
        return {"log": [f"{interrupt('first?')} and {interrupt('second?')}"]}

    def _pay(self, _: State) -> dict[str, Any]:
        self.ran.append("pay")
        return {"log": ["paid"]}

    def make_stale(self, config: Any = CONFIG) -> None:
        """Answer the first question; the second one waits."""
        self.graph.invoke({"log": []}, config)
        self.graph.invoke(Command(resume="yes"), config)
        self.ran.clear()


def asked(answer: dict[str, Any]) -> list[str]:
    return [one.value for one in answer.get("__interrupt__", ())]
