"""The documents of langgraph-checkpoint-redis and the records in them. Imports no driver."""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable, Iterator
from typing import Any

from ckpt_backends.codec.values import REDIS_JSON
from ckpt_backends.model import CheckpointKey, Record, TypedBytes
from ckpt_backends.redis.engine.keyspace import (
    APART,
    CHECKPOINT,
    document,
    meant_id,
    meant_ns,
    source_and_step,
    stored_id,
    stored_ns,
)
from ckpt_backends.redis.engine.stored_documents import (
    WRITE,
    StoredDocument,
    edited_member,
    edited_text,
    place_of,
    rows_of_heads,
    with_members,
)
from ckpt_backends.rows import ChangeValue, PlacedValue, Row, ValueKind
from ckpt_backends.transfer.form import CannotHold


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


def checkpoint_document(record: Record, ts: float, *, has_writes: bool) -> bytes:
    """The document of a checkpoint. `ts` is its time, in milliseconds since 1970."""
    first = {
        "thread_id": stored_id(record.key.thread_id),
        "run_id": run_of(record.metadata.data),
        "checkpoint_ns": stored_ns(record.key.checkpoint_ns),
        "checkpoint_id": record.key.checkpoint_id,
        "parent_checkpoint_id": record.parent or "",
        "checkpoint_ts": ts,
    }
    metadata = record.metadata.data.decode("utf-8", "surrogatepass")
    last = {"metadata": metadata, "has_writes": has_writes}
    last |= source_and_step(record.metadata)
    return document(first, {"checkpoint": record.value.data}, last)


def run_of(metadata: bytes) -> str:
    """The run id that RedisSaver takes from metadata; `''` if there is none."""
    fields = json.loads(metadata)
    run_id = fields.get("run_id") if isinstance(fields, dict) else None
    return run_id if isinstance(run_id, str) else ""


def write_document(record: Record) -> bytes:
    """The document of a write."""
    value = record.value
    fields = {
        "thread_id": stored_id(record.key.thread_id),
        "checkpoint_ns": stored_ns(record.key.checkpoint_ns),
        "checkpoint_id": record.key.checkpoint_id,
        "task_id": record.task_id,
        "task_path": record.task_path,
        "idx": record.idx,
        "channel": record.channel,
        "type": "json" if value.type == REDIS_JSON else value.type,
        "blob": b64encode(value.data).decode(),
    }
    return json.dumps(fields).encode()


# The records of a thread in the documents of langgraph-checkpoint-redis. Needs no server.


_OF_CHECKPOINT = frozenset(
    {"thread_id", "run_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id", "checkpoint"}
    | {"checkpoint_ts", "metadata", "has_writes", "source", "step"}
)
_OF_WRITE = frozenset(
    {"thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "task_path", "idx", "channel"}
    | {"type", "blob"}
)


def records_of(layout: str, rows: Iterable[Row]) -> Iterator[Record]:
    """The records that the rows of one thread hold. Raises `CannotHold`.

    Pointers and lists of writes follow from the documents; so do the separate values of release
    0.0, which also stores all values in bodies.
    """
    for row in rows_of_heads(rows) if layout == "redis-shallow" else rows:
        if row.table not in {CHECKPOINT, WRITE}:
            continue
        found = StoredDocument(row)
        if row.table == WRITE:
            yield _write_record(found)
        elif "thread_id" in found.members:  # else `put_writes` came before `put`
            yield _checkpoint_record(found)


def _checkpoint_record(found: StoredDocument) -> Record:
    found.check_members(_OF_CHECKPOINT)
    thread_id = meant_id(found.text("thread_id"))
    stored = found.get("metadata")
    # RedisSaver stores metadata as a text, ShallowRedisSaver as an object.
    metadata = stored.encode("utf-8", "surrogatepass") if isinstance(stored, str) else None
    if "has_writes" not in found.members and metadata is not None:
        key, parent = _of_first_release(found, thread_id)
    else:
        key = place_of(found, thread_id)
        parent = meant_id(found.text("parent_checkpoint_id")) or None
    metadata = found.raw("metadata") if metadata is None else metadata
    _check_run(found, key, metadata)
    return Record.checkpoint(
        key,
        parent,
        TypedBytes(REDIS_JSON, found.raw("checkpoint")),
        TypedBytes(REDIS_JSON, metadata),
        found.expires_at,
    )


def _of_first_release(found: StoredDocument, thread_id: str) -> tuple[CheckpointKey, str | None]:
    """Release 0.0 stores each checkpoint under the id of its parent."""
    body = found.get("checkpoint")
    own = body.get("id") if isinstance(body, dict) else None
    if not isinstance(own, str):
        raise CannotHold(f"the document '{found.name}' has no id in its checkpoint")
    key = CheckpointKey(thread_id, meant_ns(found.text("checkpoint_ns")), own)
    return key, meant_id(found.text("checkpoint_id")) or None


def _check_run(found: StoredDocument, key: CheckpointKey, metadata: bytes) -> None:
    """Raise `CannotHold` if the document has a run id that does not follow from its metadata."""
    run_id = meant_id(found.text("run_id"))
    if run_id and run_of(metadata) != run_id:
        raise CannotHold(
            f"checkpoint '{key.checkpoint_id}' has the run id '{run_id}' beside its metadata"
        )


def _write_record(found: StoredDocument) -> Record:
    found.check_members(_OF_WRITE)
    idx = found.get("idx")
    return Record.write(
        place_of(found, meant_id(found.text("thread_id"))),
        found.text("task_id"),
        found.text("task_path"),
        idx if isinstance(idx, int) else 0,
        found.text("channel"),
        stored_value(found.text("type"), found.get("blob")),
        found.expires_at,
    )


# Changes the values in documents of langgraph-checkpoint-redis.


def edited_row(layout: str, row: Row, change: ChangeValue) -> Row:  # noqa: ARG001
    """The row with the values that `change` returns; the same row if they are equal."""
    if row.table == CHECKPOINT:
        return _edit_checkpoint(row, change)
    if row.table == WRITE:
        return _value(row, ValueKind.WRITE, change)
    if row.table == APART:
        return _value(row, ValueKind.VALUE, change)
    return row


def _edit_checkpoint(row: Row, change: ChangeValue) -> Row:
    found = StoredDocument(row)
    body = edited_member(found, "checkpoint", REDIS_JSON, ValueKind.BODY, change)
    # RedisSaver stores metadata as a text, ShallowRedisSaver as an object.
    is_text = isinstance(found.get("metadata"), str)
    edited = edited_text if is_text else edited_member
    metadata = edited(found, "metadata", REDIS_JSON, ValueKind.METADATA, change)
    return with_members(row, found, {"checkpoint": body, "metadata": metadata})


def _value(row: Row, kind: ValueKind, change: ChangeValue) -> Row:
    found = StoredDocument(row)
    blob = found.get("blob")
    stored = stored_value(found.text("type"), blob)
    made = change(PlacedValue(kind, stored, found.name, found.text("channel")))
    if made is stored:
        return row
    # Before release 0.2, the blob was the text itself.
    is_text = isinstance(blob, str) and stored.data == blob.encode("utf-8", "surrogatepass")
    new = made.data.decode("utf-8", "surrogatepass") if is_text else b64encode(made.data).decode()
    return with_members(row, found, {"blob": json.dumps(new)})
