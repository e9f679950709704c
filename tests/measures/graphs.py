"""Graphs that take known times, and messages that tell known tokens."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import add
from typing import Annotated, Any, TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, Send, interrupt

NAP = 0.1
"""Seconds that a node sleeps."""


class Notes(TypedDict, total=False):
    notes: Annotated[list[str], add]


@dataclass
class Clock:
    """When each node ran, by the clock of this process."""

    ran: list[tuple[str, float, float]] = field(default_factory=list)

    def node(self, name: str, naps: int = 1, *, asks: bool = False) -> Callable[[Any], Any]:
        """Return a node that sleeps, and perhaps asks a question before."""

        def run(state: Mapping[str, Any]) -> dict[str, Any]:
            began = time.time()
            answer = interrupt(f"{name}?") if asks else name
            time.sleep(naps * NAP)
            self.ran.append((name, began, time.time()))
            return {"notes": [answer]}

        return run

    def took(self, name: str) -> float:
        """Return how long the runs of a node took at least."""
        return sum(end - began for ran, began, end in self.ran if ran == name)


def chain(nodes: Mapping[str, Any], **options: Any) -> Any:
    """Compile nodes that run one after the other."""
    builder: Any = StateGraph(Notes)
    before = START
    for name, node in nodes.items():
        builder.add_node(name, node, **options.get("policies", {}).get(name, {}))
        builder.add_edge(before, name)
        before = name
    builder.add_edge(before, END)
    return builder.compile(
        checkpointer=options.get("saver"), interrupt_before=options.get("interrupt_before")
    )


def spread(node: Any, parts: int, saver: Any) -> Any:
    """Compile a graph that runs a node several times in parallel."""
    builder: Any = StateGraph(Notes)
    builder.add_node("plan", lambda _: {})
    builder.add_node("work", node)
    builder.add_edge(START, "plan")
    builder.add_conditional_edges(
        "plan", lambda _: [Send("work", {"notes": [str(n)]}) for n in range(parts)], ["work"]
    )
    return builder.compile(checkpointer=saver)


def beside(nodes: Mapping[str, Any], saver: Any) -> Any:
    """Compile nodes that run in parallel."""
    builder: Any = StateGraph(Notes)
    for name, node in nodes.items():
        builder.add_node(name, node)
        builder.add_edge(START, name)
    return builder.compile(checkpointer=saver)


__all__ = ["NAP", "Clock", "Command", "Notes", "beside", "chain", "spread"]
