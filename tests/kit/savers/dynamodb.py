"""A graph for DynamoDB, and the keys of what its saver stores."""

from __future__ import annotations

from operator import add
from typing import Annotated, Any, TypedDict

from langgraph.graph import StateGraph

from tests.kit.command import ckpt
from tests.kit.harness.dynamodb import DynamoDbHarness

CONFIG: dict[str, Any] = {"configurable": {"thread_id": "trip"}}


class State(TypedDict):
    """What the graph of these tests knows."""

    items: Annotated[list[str], add]


def graph(saver: Any) -> Any:
    builder = StateGraph(State)
    builder.add_node("first", lambda state: {"items": ["first"]})
    builder.add_node("second", lambda state: {"items": ["second"]})
    builder.add_edge("__start__", "first")
    builder.add_edge("first", "second")
    return builder.compile(checkpointer=saver)


def ids(place: DynamoDbHarness, thread_id: str = "trip") -> list[str]:
    """The checkpoints of a thread, newest first."""
    found = ckpt("-s", place.url, "history", thread_id, "-o", "json").json
    return [one["checkpoint_id"] for one in found]


def entry(checkpoint_id: str) -> dict[str, Any]:
    """The key of a checkpoint."""
    return {"PK": {"S": "CHECKPOINT_trip"}, "SK": {"S": f"#{checkpoint_id}"}}
