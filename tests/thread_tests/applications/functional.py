"""The functional API: an entrypoint whose tasks ask a model, with what it saved before."""

from typing import Any

from langchain_core.messages import HumanMessage, SystemMessage
from langgraph.func import entrypoint, task
from langgraph.types import Command, interrupt

from tests.thread_tests.applications.chat import Scripted


@task
def outline(topic: str) -> Any:
    return Scripted().invoke([SystemMessage("Outline."), HumanMessage(topic)])


@task
def count(text: str) -> int:
    return len(text.split())


def build(checkpointer: Any = None) -> Any:
    @entrypoint(checkpointer=checkpointer)
    def essay(topic: str, *, previous: Any = None) -> Any:
        answer = outline(topic).result()
        words = count(str(answer.content)).result()
        mark = interrupt({"words": words})
        earlier = previous["total"] if previous else 0
        result = {"text": answer.content, "mark": mark, "total": earlier + words}
        return entrypoint.final(value=result, save={"total": earlier + words})

    return essay


INPUTS = ["Cats and dogs", Command(resume="good"), "Only cats", Command(resume="better")]
