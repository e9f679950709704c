"""Find DeltaChannels whose value cannot be rebuilt.

Between two snapshots, the value of a DeltaChannel is the last snapshot and the writes since then.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from ckpt_backends.codec.values import Value
from ckpt_cli.core.channels import delta_channels
from ckpt_cli.core.state import Body


def unstored_deltas(body: Body, metadata: Mapping[str, Value]) -> set[str]:
    """Return the DeltaChannels with a value that a checkpoint does not store itself."""
    named = delta_channels(metadata)
    return {name for name in named if name in body.versions and name not in body.values}


def supersteps(metadata: Mapping[str, Value], channel: str) -> int | None:
    """Return the number of supersteps since the last snapshot of a channel; None if unknown."""
    counters = _counters(metadata, channel)
    return counters[1] if counters else None


def _counters(metadata: Mapping[str, Value], channel: str) -> tuple[int, int] | None:
    """Return the numbers of updates and supersteps since the last snapshot; None if unknown."""
    counters = metadata.get("counters_since_delta_snapshot")
    counter = counters.get(channel) if isinstance(counters, dict) else None
    match counter:
        case [int(updates), int(number)] if updates >= 0 and number >= 0:
            return updates, number
    return None


def without_writes(
    metadata: Mapping[str, Value], before: Mapping[str, Value], written: Collection[str]
) -> set[str]:
    """Return the DeltaChannels that a step updated, although no write to them is stored.

    `before` is the metadata of the parent, and `written` the channels of its writes. LangGraph
    counts the updates of each DeltaChannel since its last snapshot.
    """
    found = set()
    for channel in delta_channels(metadata):
        after, earlier = _counters(metadata, channel), _counters(before, channel) or (0, 0)
        if after and after[0] > earlier[0] and channel not in written:
            found.add(channel)
    return found


def unanchored(
    channels: Collection[str],
    metadata: Mapping[str, Value],
    ancestors: Iterable[Collection[str]],
) -> set[str]:
    """Return the channels whose last snapshot is lost.

    `channels` are DeltaChannels that a checkpoint with this metadata does not store, and
    `ancestors` the channels that each of its ancestors stores, nearest first, down to one whose
    parent is missing. A channel with no snapshot in all supersteps that were counted was empty
    before them.
    """
    left = set(channels)
    number = 0
    for stored in ancestors:
        left.difference_update(stored)
        if not left:
            return left
        number += 1
    return {one for one in left if (count := supersteps(metadata, one)) is None or count > number}


def without_past(channel: str, first_id: str, checkpoint_id: str) -> str:
    """Return why a DeltaChannel cannot be rebuilt at a checkpoint, or at one that follows it."""
    first = "it" if first_id == checkpoint_id else f"its first ancestor {first_id}"
    return f"{first} has a value of '{channel}', but neither a snapshot of it nor a parent"


def without_snapshot(channel: str, parent_id: str) -> str:
    """Return the same, if a parent is not stored: that of the checkpoint or of an ancestor."""
    return f"the last snapshot of '{channel}' is gone, with {parent_id} or an ancestor of it"
