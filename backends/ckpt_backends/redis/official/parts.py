"""The parts of a thread in the documents of langgraph-checkpoint-redis. Needs no server."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ckpt_backends.changes.rows import Row
from ckpt_backends.codec.values import REDIS_JSON
from ckpt_backends.model import CheckpointKey, TypedBytes
from ckpt_backends.redis.engine.document_fields import meant_id, meant_ns
from ckpt_backends.redis.engine.document_parts import WRITE, StoredDocument, place_of, rows_of_heads
from ckpt_backends.redis.engine.keyspace import CHECKPOINT
from ckpt_backends.redis.official.stored_values import run_of, stored_value
from ckpt_backends.transfer.errors import CannotHold
from ckpt_backends.transfer.parts import CheckpointPart, Part, WritePart

_OF_CHECKPOINT = frozenset(
    {"thread_id", "run_id", "checkpoint_ns", "checkpoint_id", "parent_checkpoint_id", "checkpoint"}
    | {"checkpoint_ts", "metadata", "has_writes", "source", "step"}
)
_OF_WRITE = frozenset(
    {"thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "task_path", "idx", "channel"}
    | {"type", "blob"}
)


def parts_of(layout: str, rows: Iterable[Row]) -> Iterator[Part]:
    """The parts that the rows of one thread hold. Raises `CannotHold`.

    Pointers and lists of writes follow from the documents; so do the separate values of release
    0.0, which also stores all values in bodies.
    """
    for row in rows_of_heads(rows) if layout == "redis-shallow" else rows:
        if row.table not in {CHECKPOINT, WRITE}:
            continue
        found = StoredDocument(row)
        if row.table == WRITE:
            yield _write(found)
        elif "thread_id" in found.members:  # else `put_writes` came before `put`
            yield _checkpoint(found)


def _checkpoint(found: StoredDocument) -> CheckpointPart:
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
    return CheckpointPart(
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


def _write(found: StoredDocument) -> WritePart:
    found.check_members(_OF_WRITE)
    idx = found.get("idx")
    return WritePart(
        place_of(found, meant_id(found.text("thread_id"))),
        found.text("task_id"),
        found.text("task_path"),
        idx if isinstance(idx, int) else 0,
        found.text("channel"),
        stored_value(found.text("type"), found.get("blob")),
        found.expires_at,
    )
