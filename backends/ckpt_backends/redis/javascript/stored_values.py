"""Makes the documents of LangGraph.js, and names and finds its separate values."""

from __future__ import annotations

import json
import re
from typing import Any

from ckpt_backends.model import CheckpointKey, TypedBytes
from ckpt_backends.redis.engine.document_fields import document, source_and_step, stored_ns
from ckpt_backends.redis.engine.keyspace import APART, raw
from ckpt_backends.transfer.parts import CheckpointPart, WritePart

UNDEFINED = b'{"lc":2,"type":"undefined"}'
"""The value of a document without `value`: JSON omits members that are undefined in JavaScript."""

REFUSED = re.compile(r"[*?[\]\\]")
"""Characters that the saver refuses in ids. Source: `assertSafeKeyComponent` in its `utils.js`."""


def blob_name(key: CheckpointKey, blob: tuple[str, str]) -> bytes:
    """The key of a value in the thread and namespace of a checkpoint, by channel and version."""
    return raw(":".join((APART, key.thread_id, key.checkpoint_ns, *blob)))


def versions_of(body: TypedBytes | None) -> dict[str, tuple[str, str]]:
    """By channel of a body, (channel, version as text); empty if the body cannot be read."""
    versions = part_of(body, "channel_versions")
    return {
        channel: (channel, str(version))
        for channel, version in versions.items()
        if isinstance(version, str | int | float)
    }


def part_of(body: TypedBytes | None, name: str) -> dict[str, Any]:
    """An object inside a body; empty if the body cannot be read."""
    try:
        fields = json.loads(body.data) if body is not None else None
    except (ValueError, RecursionError):
        return {}
    part = fields.get(name) if isinstance(fields, dict) else None
    return part if isinstance(part, dict) else {}


def checkpoint_document(part: CheckpointPart, ts: float, *, has_writes: bool) -> bytes:
    """The document of a checkpoint. `ts` is its time, in milliseconds since 1970."""
    first = {
        "thread_id": part.key.thread_id,
        "checkpoint_ns": stored_ns(part.key.checkpoint_ns),
        "checkpoint_id": part.key.checkpoint_id,
        "parent_checkpoint_id": part.parent,
    }
    parts = {"checkpoint": part.body.data, "metadata": part.metadata.data}
    last = {"checkpoint_ts": ts, "has_writes": "true" if has_writes else "false"}
    return document(first, parts, last | source_and_step(part.metadata) | _beside(part.metadata))


def _beside(metadata: TypedBytes) -> dict[str, Any]:
    """What the saver also stores beside metadata, to search for it."""
    fields = json.loads(metadata.data)
    found = fields if isinstance(fields, dict) else {}
    made = {"score": found["score"]} if "score" in found else {}
    if "writes" in found:
        writes = found["writes"]
        is_object = writes is None or isinstance(writes, dict | list)
        made["writes"] = json.dumps(writes, separators=(",", ":")) if is_object else writes
    return made


def write_document(part: WritePart, number: float) -> bytes:
    """The document of a write. `number` is its place in the order of arrival."""
    value = part.value.data
    fields = {
        "thread_id": part.key.thread_id,
        "checkpoint_ns": part.key.checkpoint_ns,
        "checkpoint_id": part.key.checkpoint_id,
        "task_id": part.task_id,
        "idx": part.idx,
        "channel": part.channel,
        "type": "json" if value[:1] in {b"{", b"[", b"n"} else "string",
        "timestamp": number,
        "global_idx": number,
    }
    return document(fields, {} if value == UNDEFINED else {"value": value}, {})


def value_document(owner: CheckpointKey, channel: str, version: str, value: bytes) -> bytes:
    """The document of a separate value, which a checkpoint was the first to have."""
    fields = {
        "thread_id": owner.thread_id,
        "checkpoint_ns": stored_ns(owner.checkpoint_ns),
        "checkpoint_id": owner.checkpoint_id,
        "channel": channel,
        "version": version,
        "type": "json",
    }
    return document(fields, {"value": value}, {})
