"""Names and finds the separate values of LangGraph.js."""

from __future__ import annotations

import json
from typing import Any

from ckpt_backends.model import CheckpointKey, TypedBytes
from ckpt_backends.redis.engine.keyspace import APART, raw


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
