"""Which entries of a stored map hold what a user wrote, and which hold what savers need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ckpt_backends.codec.values import CHANNELS
from ckpt_backends.erasing.erasure import Step

EDGES = ("branch:", "join:", "start:")
"""How the names of channels begin that LangGraph makes for the edges of a graph."""


@dataclass(frozen=True, slots=True)
class Treatment:
    """How the entries of a map or list are treated."""

    entries: Mapping[Step, Treatment | None] = field(default_factory=dict)
    """By key or index, the shape of an entry; None if it is kept."""
    others: Treatment | None = None
    """The shape of all other entries; None if they are kept."""
    keeps_keys: bool = True

    keeps_edges: bool = False
    """Whether entries are kept that are named as edges of a graph: their values name nodes."""

    def of(self, step: Step) -> Treatment | None:
        """The shape of an entry; None if it is kept."""
        if self.keeps_edges and isinstance(step, str) and step.startswith(EDGES):
            return None
        return self.entries.get(step, self.others)


ANY = Treatment()
"""A value of an application: everything in it may be erased."""
object.__setattr__(ANY, "others", ANY)
object.__setattr__(ANY, "keeps_keys", False)

NAMED = Treatment(others=ANY)
"""The values of an object's fields, whose names are kept."""
SENDS = Treatment(others=ANY)
"""Sends in a body: a list or, up to langgraph-checkpoint-postgres 1.0.4, a type and base64."""
BODY = Treatment({CHANNELS: Treatment(others=ANY, keeps_edges=True), "pending_sends": SENDS})
METADATA = Treatment(
    dict.fromkeys(
        (
            *("source", "step", "parents", "thread_id", "checkpoint_id", "checkpoint_ns", "run_id"),
            *("forked_from", "counters_since_delta_snapshot", "updated_channels"),
            *("langgraph_step", "langgraph_node", "langgraph_triggers", "langgraph_path"),
            *("langgraph_checkpoint_ns", "graph_id", "assistant_id", "langgraph_version"),
        )
    ),
    others=ANY,
)
ENVELOPE = Treatment({"kwargs": NAMED, "args": ANY, "value": ANY, "repr": ANY})
"""An object in JSON (`lc` 1 and 2). Without the names by which it is built."""
SEND = Treatment({1: ANY})
"""The node and the argument of a Send."""
