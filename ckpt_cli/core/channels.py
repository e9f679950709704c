"""Which channels are state, and which belong to LangGraph's own bookkeeping."""

from __future__ import annotations

from collections.abc import Mapping

from ckpt_backends.codec import DELTA_SNAPSHOT
from ckpt_backends.codec.values import Opaque, Tagged, Value
from ckpt_cli.core.state import Body

ROOT = "__root__"
"""The only channel of a graph whose state is one bare value."""
END = "__end__"
"""What a functional `@entrypoint` returned."""
LOST_DELTA = Opaque(
    "DeltaChannel",
    0,
    "",
    "not stored: it is rebuilt from earlier checkpoints, and the shallow saver keeps none",
)
"""Stands for a DeltaChannel between two snapshots where only the newest checkpoint is kept."""
PREVIOUS = "__previous__"
"""What a functional `@entrypoint` saved for its next run: the memory of its thread."""
MEANINGS = {END: "returned by the @entrypoint", PREVIOUS: "saved for the next run"}
"""What a person is told of a channel that LangGraph names itself."""

_EDGES = ("branch:", "join:", "start:")


def is_state(channel: str, body: Body) -> bool:
    """Whether a channel holds what the agent knows, rather than what runs next.

    Bodies with `v` < 4 also have a channel for each node, which holds the node's own name.
    """
    if channel.startswith("__"):
        return channel in {ROOT, END, PREVIOUS}
    if channel.startswith(_EDGES):
        return False
    if body.names_edges:
        return True
    return channel not in body.seen and body.values.get(channel) != channel


def state_values(body: Body) -> dict[str, Value]:
    """The stored state, delta snapshots unwrapped, in the order of the names.

    Python libraries that wrote formats 1 and 2 took a stored None for a channel without a value
    (`from_checkpoint` in `langgraph/channels`, until 0.3).
    """
    return {
        channel: unwrap(body.values[channel])
        for channel in sorted(body.values)
        if is_state(channel, body)
        and (body.v not in {1, 2} or body.is_javascript or body.values[channel] is not None)
    }


def is_delta(value: Value) -> bool:
    """Whether a stored value is a DeltaChannel's snapshot."""
    return isinstance(value, Tagged) and value.type == DELTA_SNAPSHOT


def unwrap(value: Value) -> Value:
    """A delta snapshot's value; any other value as it is."""
    return value.payload if isinstance(value, Tagged) and is_delta(value) else value


def delta_channels(metadata: Mapping[str, Value]) -> set[str]:
    """DeltaChannels that one checkpoint's metadata names.

    The counter of a channel is dropped right after its snapshot, so one row may not name all.
    """
    counters = metadata.get("counters_since_delta_snapshot")
    return (
        {name for name in counters if isinstance(name, str)}
        if isinstance(counters, dict)
        else set()
    )
