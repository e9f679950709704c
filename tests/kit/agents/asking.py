"""Agents that ask."""

from collections.abc import Callable, Mapping
from contextlib import suppress
from types import MappingProxyType
from typing import Any, TypedDict

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.types import Command, interrupt

from tests.kit.agents.small import Log, beside, chain


class State(TypedDict, total=False):
    said: str


def graph(saver: Any) -> Any:
    return chain(State, {"ask": lambda _: {"said": interrupt("sure?")}}).compile(checkpointer=saver)


def config(thread: str) -> Any:
    return {"configurable": {"thread_id": thread}}


def waits(saver: Any, thread: str) -> bool:
    state = graph(saver).get_state(config(thread))
    return state.next == ("ask",) and "sure?" in {
        one.value for task in state.tasks for one in task.interrupts
    }


def resumes(saver: Any, thread: str) -> bool:
    return bool(graph(saver).invoke(Command(resume="yes"), config(thread)) == {"said": "yes"})


def ask(saver: BaseCheckpointSaver[Any], *threads: str) -> None:
    for thread in threads:
        graph(saver).invoke({}, config(thread), durability="sync")


def on_mongodb(url: str, name: str) -> Any:
    import pymongo
    from langgraph.checkpoint.mongodb import MongoDBSaver

    make: Callable[..., Any] = MongoDBSaver
    return make(pymongo.MongoClient(url), url.rpartition("/")[2], checkpoint_collection_name=name)


CONFIG: Any = {"configurable": {"thread_id": "t"}}


class Two:
    """A node that asks two questions, beside one that has finished; langgraph issue 8837."""

    def __init__(
        self, saver: Any, *, is_nested: bool = False, more: Mapping[str, Any] = MappingProxyType({})
    ) -> None:
        self.ran: list[str] = []
        ask = chain(Log, {"inside": self._ask}).compile() if is_nested else self._ask
        nodes = {"ask": ask, "pay": self._pay, **more}
        self.graph = beside(Log, nodes).compile(checkpointer=saver)

    def _ask(self, _: Log) -> dict[str, Any]:
        self.ran.append("ask")
        return {"log": [f"{interrupt('first?')} and {interrupt('second?')}"]}

    def _pay(self, _: Log) -> dict[str, Any]:
        self.ran.append("pay")
        return {"log": ["paid"]}

    def make_stale(self, config: Any = CONFIG) -> None:
        """Answer the first question; the second one waits."""
        calls: list[Any] = [{"log": []}, Command(resume="yes")]
        for given in calls:
            with suppress(ValueError):
                self.graph.invoke(given, config)
        self.ran.clear()


def asked(answer: dict[str, Any]) -> list[str]:
    return [one.value for one in answer.get("__interrupt__", ())]
