"""The body of a checkpoint: its channels, versions and values."""

from __future__ import annotations

import re
from binascii import a2b_base64
from collections.abc import Callable, Mapping
from itertools import chain
from operator import methodcaller
from typing import Any, NamedTuple

from ckpt_backends.codec import UNDEFINED, decode, decode_channel, decode_checkpoint
from ckpt_backends.codec.values import REDIS_JSON, Cut, Opaque, Tagged, Value
from ckpt_backends.model import Blob, Checkpoint, TypedBytes

Version = str | int | float
"""A channel version: zero-padded text from Python savers, a number from LangGraph.js."""
_VERSION_TYPES = (str, int, float)
"""The same, for `isinstance`, which is slower with a union."""
_TEXT, _NUMBERS, _MAPS = frozenset({str}), frozenset(_VERSION_TYPES), frozenset({dict})
_values_of = methodcaller("values")


class Body(NamedTuple):
    """The content of a checkpoint body. What is missing or has a wrong type is left empty."""

    v: int
    """Format of the body: 1 to 4; 0 if it is not known."""
    ts: str | None
    values: Mapping[str, Value]
    """Stored channel values, including control channels; delta snapshots are still wrapped.

    A value that is stored apart and was not read is a `Cut` of None. A channel that holds
    JavaScript's `undefined` is left out.
    """
    versions: Mapping[str, Version]
    seen: Mapping[str, Mapping[str, Version]]
    """The channel versions that each node has seen."""
    pending_sends: Value
    """Inline Sends of bodies with `v` < 4; None if they are stored among the parent's writes."""
    problem: Opaque | None = None
    """Set if the body could not be read at all."""
    updated: frozenset[str] = frozenset()
    """The channels that the last step wrote to; empty if the library stored none."""
    own_id: str | None = None
    """The checkpoint's id as the body says it; the first releases for Redis have it only there."""
    lacks: tuple[str, ...] = ()
    """The keys that it lacks, or has with a value of a wrong type, and that savers cannot do
    without."""

    @property
    def is_javascript(self) -> bool:
        """Whether LangGraph.js wrote it: `Date.toISOString` ends in Z, Python's time in an offset.

        Its bodies with `v` 1 differ from those with `v` 4 in where Sends are stored, and before
        0.2.74 in the names of edges.
        """
        return self.ts is not None and self.ts.endswith("Z")

    @property
    def names_edges(self) -> bool:
        """Whether only edges have channels besides the state; in older bodies nodes have too.

        LangGraph.js 0.2.49 names edges `__start__:NODE` and `branch:SOURCE:CONDITION:NODE`, and
        0.2.74 `branch:to:NODE`.
        """
        if self.v not in {1, 2, 3}:
            return True
        return self.is_javascript and not any(map(_OLD_EDGE.match, self.versions))


_OLD_EDGE = re.compile("__start__:.|branch:(?!to:)")


def read_body(
    checkpoint: Checkpoint, decode_body: Callable[[TypedBytes], Value] = decode_checkpoint
) -> Body:
    """Return the body of a checkpoint that was loaded with `body=True`.

    `BodySkimmer.decode` decodes it without large values: each then is a `Cut` of None.
    """
    raw = decode_body(checkpoint.body) if checkpoint.body is not None else None
    problem = raw if isinstance(raw, Opaque) else None
    fields = raw if isinstance(raw, dict) else {}
    is_known = problem is None and checkpoint.body is not None and not isinstance(raw, Cut)
    v, ts = fields.get("v"), fields.get("ts")
    values, sends = _text_keys(fields.get("channel_values")), fields.get("pending_sends")
    if checkpoint.blobs is not None:
        values = values | {name: _blob_value(name, blob) for name, blob in checkpoint.blobs.items()}
        sends = _inline_sends(sends)
    elif checkpoint.body is not None and checkpoint.body.type == REDIS_JSON:
        # Always an empty list in this layout: the Sends are stored among the parent's writes.
        sends = sends or None
    if Tagged in map(type, values.values()):
        values = {
            channel: value
            for channel, value in values.items()
            # Comparing only what may be equal: this runs for each channel of each checkpoint.
            if type(value) is not Tagged or value != UNDEFINED
        }
    return Body(
        v if isinstance(v, int) else 0,
        ts if isinstance(ts, str) else None,
        values,
        _versions(fields.get("channel_versions")),
        _seen(fields.get("versions_seen")),
        sends,
        problem,
        _names(fields.get("updated_channels")),
        own if isinstance(own := fields.get("id"), str) else None,
        _lacking(fields, is_apart=checkpoint.blobs is not None) if is_known else (),
    )


def _lacking(fields: Mapping[Value, Value], *, is_apart: bool) -> tuple[str, ...]:
    """Return the keys without which LangGraph cannot load a checkpoint, or not go on from it.

    `_migrate_checkpoint`, `channels_from_checkpoint`, `prepare_next_tasks`, `apply_writes` and
    `_prepare_state_snapshot` in `langgraph/pregel` read them without a default. With `is_apart`, a
    saver adds the values from other rows.
    """
    values, versions = fields.get("channel_values"), fields.get("channel_versions")
    seen = fields.get("versions_seen")
    if (
        type(versions) is dict
        and type(seen) is dict
        and (is_apart or type(values) is dict)
        and type(fields.get("v")) is int
        and type(fields.get("id")) is str
        and "ts" in fields
        and _NUMBERS.issuperset(map(type, versions.values()))
        and _MAPS.issuperset(map(type, seen.values()))
    ):
        return ()
    is_right = {
        "v": type(fields.get("v")) in {int, float},
        "id": isinstance(fields.get("id"), str),
        "ts": "ts" in fields,
        "channel_values": is_apart or isinstance(values, dict),
        "channel_versions": isinstance(versions, dict)
        and all(isinstance(one, _VERSION_TYPES) for one in versions.values()),
        "versions_seen": isinstance(seen, dict)
        and all(isinstance(one, dict) for one in seen.values()),
    }
    return tuple(name for name, right in is_right.items() if not right)


def read_metadata(checkpoint: Checkpoint) -> dict[str, Value]:
    """Return the metadata of a checkpoint loaded with `metadata=True`; `{}` if unreadable."""
    if checkpoint.metadata is None:
        return {}
    return _text_keys(decode(checkpoint.metadata))


def step_from(metadata: Mapping[str, Value]) -> int | None:
    """Return `metadata.step` if it is a number, otherwise None."""
    step = metadata.get("step")
    return step if isinstance(step, int) and not isinstance(step, bool) else None


def source_from(metadata: Mapping[str, Value]) -> str | None:
    """Return `metadata.source`: input, loop, update or fork."""
    source = metadata.get("source")
    return source if isinstance(source, str) else None


def _blob_value(channel: str, blob: Blob) -> Value:
    if blob.value is None:
        return Cut(None, blob.size, "not read")
    return decode_channel(blob.value, channel)


def _inline_sends(sends: Value) -> Value:
    """Return the inline Sends in layouts that store values apart.

    PostgreSQL savers up to 1.0.4 store them as `[type, base64]`; later ones store an empty list,
    and the Sends are among the parent's writes.
    """
    match sends:
        case [str(tag), str(text)]:
            try:
                return decode(TypedBytes(tag, a2b_base64(text)))
            except ValueError:
                return sends
    return sends or None


def _names(value: Value) -> frozenset[str]:
    if not isinstance(value, list):
        return frozenset()
    return frozenset(name for name in value if isinstance(name, str))


def _text_keys(value: Value) -> dict[str, Value]:
    if not isinstance(value, dict):
        return {}
    if _TEXT.issuperset(map(type, value)):
        return value  # type: ignore[return-value]
    return {key: item for key, item in value.items() if isinstance(key, str)}


def _seen(value: Value) -> Mapping[str, Mapping[str, Version]]:
    maps: dict[str, Any] = _text_keys(value)
    # Almost all are right, and this runs for each node of each checkpoint.
    if _MAPS.issuperset(map(type, maps.values())):
        keys, versions = chain(*maps.values()), chain(*map(_values_of, maps.values()))
        if _TEXT.issuperset(map(type, keys)) and _NUMBERS.issuperset(map(type, versions)):
            return maps
    return {node: _versions(seen) for node, seen in maps.items()}


def _versions(value: Value) -> dict[str, Version]:
    if not isinstance(value, dict):
        return {}
    if _TEXT.issuperset(map(type, value)) and _NUMBERS.issuperset(map(type, value.values())):
        return value  # type: ignore[return-value]
    return {
        key: item
        for key, item in value.items()
        if isinstance(key, str) and isinstance(item, _VERSION_TYPES) and not isinstance(item, bool)
    }


ERROR = "__error__"
INTERRUPT = "__interrupt__"
RESUME = "__resume__"


BY = "forked_by"
"""Metadata key that marks a checkpoint that `ckpt` added."""
FROM = "forked_from"
"""Metadata key: the id of the copied checkpoint."""
WITH = "forked_with"
"""Metadata key in a subgraph's namespace: the root checkpoint that was added with this one."""
WRITES = "forked_writes"
"""Metadata key: the number of writes that were added with it."""
THREAD = "forked_from_thread"
"""Metadata key: the thread that this thread was copied from."""
CHECKPOINTS = "forked_checkpoints"
"""Metadata key: the number of checkpoints that were copied with it."""
REASON = "reason"
NAME = "ckpt"
MARKS = frozenset({BY, FROM, WITH, WRITES, THREAD, CHECKPOINTS})
