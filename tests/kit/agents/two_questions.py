"""A graph that asks two questions in one node, beside a node that has finished."""

from typing import Any

from langgraph.types import Command, interrupt

from tests.kit.agents.small import Log, beside, chain

CONFIG: Any = {"configurable": {"thread_id": "t"}}


class Two:
    """A node that asks two questions, beside one that has finished; langgraph issue 8837."""

    def __init__(self, saver: Any, *, is_nested: bool = False) -> None:
        self.ran: list[str] = []
        ask = chain(Log, {"inside": self._ask}).compile() if is_nested else self._ask
        self.graph = beside(Log, {"ask": ask, "pay": self._pay}).compile(checkpointer=saver)

    def _ask(self, _: Log) -> dict[str, Any]:
        self.ran.append("ask")
        return {"log": [f"{interrupt('first?')} and {interrupt('second?')}"]}

    def _pay(self, _: Log) -> dict[str, Any]:
        self.ran.append("pay")
        return {"log": ["paid"]}

    def make_stale(self, config: Any = CONFIG) -> None:
        """Answer the first question; the second one waits."""
        self.graph.invoke({"log": []}, config)
        self.graph.invoke(Command(resume="yes"), config)
        self.ran.clear()


def asked(answer: dict[str, Any]) -> list[str]:
    return [one.value for one in answer.get("__interrupt__", ())]
