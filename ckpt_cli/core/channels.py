"""Channels: which are state, and which are the library's own."""

from __future__ import annotations

from collections.abc import Mapping

from ckpt_backends.codec import DELTA_SNAPSHOT
from ckpt_backends.codec.values import Opaque, Tagged, Value
from ckpt_cli.core.state import Body
from ckpt_cli.core.tasks.triggers import END, START

ROOT = "__root__"
"""The only channel of a graph whose state is a single value."""
NOT_STORED = "not stored: "
"""Start of the reason text if a layout does not store a value."""
LOST_DELTA = Opaque(
    "DeltaChannel",
    0,
    "",
    f"{NOT_STORED}it is rebuilt from earlier checkpoints, and the shallow saver keeps none",
)
"""Shown for a DeltaChannel between two snapshots, if the store keeps only the newest checkpoint."""
PREVIOUS = "__previous__"
"""Channel with the value that a functional `@entrypoint` saved for its next run."""
MEANINGS = {END: "returned by the @entrypoint", PREVIOUS: "saved for the next run"}
"""Explanations of channels that LangGraph names, as shown to the user."""

_EDGES = ("branch:", "join:", "start:")


def given_input(body: Body, metadata: Mapping[str, Value]) -> Value:
    """Return the input with which a run began at a checkpoint, if it is stored there, else None.

    It waits in `__start__` until the next step takes it in. LangGraph before 0.5 also has it in
    the metadata, as what was written (`_put_checkpoint` in `langgraph/pregel/_loop.py`).
    """
    if START in body.values:
        return body.values[START]
    wrote = metadata.get("writes") if metadata.get("source") == "input" else None
    return wrote.get(START, wrote) if isinstance(wrote, dict) else None


def is_state(channel: str, body: Body) -> bool:
    """Return whether a channel holds state of the agent, rather than tasks to run next.

    Bodies with `v` < 4 also have one channel for each node, which holds the node's name.
    """
    if channel.startswith("__"):
        return channel in {ROOT, END, PREVIOUS}
    if channel.startswith(_EDGES):
        return False
    if body.names_edges:
        return True
    return channel not in body.seen and body.values.get(channel) != channel


def state_values(body: Body) -> dict[str, Value]:
    """Return the stored state, sorted by channel name, with delta snapshots unwrapped.

    The libraries that wrote formats 1 and 2 read a stored None as a channel without a value
    (`from_checkpoint` in `langgraph/channels`, until 0.3; LangGraph.js 0.2.49, but not 0.2.74).
    """
    return {
        channel: without_snapshot(body.values[channel])
        for channel in sorted(body.values)
        if is_state(channel, body)
        and (body.v not in {1, 2} or body.names_edges or body.values[channel] is not None)
    }


def is_delta(value: Value) -> bool:
    """Return whether a stored value is the snapshot of a DeltaChannel."""
    return isinstance(value, Tagged) and value.type == DELTA_SNAPSHOT


def without_snapshot(value: Value) -> Value:
    """Return the value of a delta snapshot, or any other value unchanged."""
    return value.payload if isinstance(value, Tagged) and is_delta(value) else value


def delta_channels(metadata: Mapping[str, Value]) -> set[str]:
    """Return the DeltaChannels that the metadata of one checkpoint names.

    The counter of a channel is removed right after its snapshot, so one checkpoint may not name all
    of them.
    """
    counters = metadata.get("counters_since_delta_snapshot")
    return (
        {name for name in counters if isinstance(name, str)}
        if isinstance(counters, dict)
        else set()
    )


def namespace_kind(checkpoint_ns: str) -> str:
    """Return a namespace without task ids: the same text for all calls of a subgraph."""
    parts = [part.partition(":")[0] for part in checkpoint_ns.split("|") if not part.isdigit()]
    return "|".join(parts)
