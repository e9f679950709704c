"""Which entries of a stored map hold what a user wrote, and which hold what savers need."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from ckpt_backends.codec.values import CHANNELS
from ckpt_backends.erasing.erasure import Step


@dataclass(frozen=True, slots=True)
class Shape:
    """How the entries of a map or list are treated."""

    entries: Mapping[Step, Shape | None] = field(default_factory=dict)
    """By key or index, the shape of an entry; None if it is kept."""
    others: Shape | None = None
    """The shape of all other entries; None if they are kept."""
    keeps_keys: bool = True

    def of(self, step: Step) -> Shape | None:
        """The shape of an entry; None if it is kept."""
        return self.entries.get(step, self.others)


ANY = Shape()
"""A value of an application: everything in it may be erased."""
object.__setattr__(ANY, "others", ANY)
object.__setattr__(ANY, "keeps_keys", False)

NAMED = Shape(others=ANY)
"""The values of channels or of an object's fields, whose names are kept."""
SENDS = Shape(others=ANY)
"""Sends in a body: a list or, up to langgraph-checkpoint-postgres 1.0.4, a type and base64."""
BODY = Shape({CHANNELS: NAMED, "pending_sends": SENDS})
METADATA = Shape(
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
ENVELOPE = Shape({"kwargs": NAMED, "args": ANY, "value": ANY, "repr": ANY})
"""An object in JSON (`lc` 1 and 2). Without the names by which it is built."""
SEND = Shape({1: ANY})
"""The node and the argument of a Send."""
