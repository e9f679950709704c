"""Makes the documents of langgraph-checkpoint-redis, and reads the values of its writes."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from typing import Any

from ckpt_backends.codec.values import REDIS_JSON
from ckpt_backends.model import TypedBytes
from ckpt_backends.redis.engine.document_fields import (
    document,
    source_and_step,
    stored_id,
    stored_ns,
)
from ckpt_backends.transfer.parts import CheckpointPart, WritePart


def stored_value(tag: str, blob: Any) -> TypedBytes:
    """The value of a write: base64 since 0.2, JSON text before.

    Some JSON texts, such as `true`, are also valid base64, but then the decoded bytes are not JSON.
    Before 0.2, the type of bytes was `base64`.
    """
    stored = blob if isinstance(blob, str) else ""
    data = stored.encode("utf-8", "surrogatepass")
    try:
        decoded = b64decode(data, validate=True)
        if tag == "json":
            json.loads(decoded)
    except ValueError:
        decoded = data
    return TypedBytes({"json": REDIS_JSON, "base64": "bytes"}.get(tag, tag), decoded)


def checkpoint_document(part: CheckpointPart, ts: float, *, has_writes: bool) -> bytes:
    """The document of a checkpoint. `ts` is its time, in milliseconds since 1970."""
    first = {
        "thread_id": stored_id(part.key.thread_id),
        "run_id": run_of(part.metadata.data),
        "checkpoint_ns": stored_ns(part.key.checkpoint_ns),
        "checkpoint_id": part.key.checkpoint_id,
        "parent_checkpoint_id": part.parent or "",
        "checkpoint_ts": ts,
    }
    last = {"metadata": metadata_text(part.metadata), "has_writes": has_writes}
    last |= source_and_step(part.metadata)
    return document(first, {"checkpoint": part.body.data}, last)


def metadata_text(metadata: TypedBytes) -> str:
    """Metadata as the text that a document has."""
    return metadata.data.decode("utf-8", "surrogatepass")


def run_of(metadata: bytes) -> str:
    """The run id that RedisSaver takes from metadata; `''` if there is none."""
    fields = json.loads(metadata)
    run_id = fields.get("run_id") if isinstance(fields, dict) else None
    return run_id if isinstance(run_id, str) else ""


def write_document(part: WritePart) -> bytes:
    """The document of a write."""
    value = part.value
    fields = {
        "thread_id": stored_id(part.key.thread_id),
        "checkpoint_ns": stored_ns(part.key.checkpoint_ns),
        "checkpoint_id": part.key.checkpoint_id,
        "task_id": part.task_id,
        "task_path": part.task_path,
        "idx": part.idx,
        "channel": part.channel,
        "type": "json" if value.type == REDIS_JSON else value.type,
        "blob": b64encode(value.data).decode(),
    }
    return json.dumps(fields).encode()
