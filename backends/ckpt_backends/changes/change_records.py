"""A change as JSON: for plans that are shown or saved, and for the log of operations."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any

from ckpt_backends.changes.change import Change, CopyOfCheckpoint, CopyOfWrites, NewBlob
from ckpt_backends.model import Checkpoint, CheckpointKey, Encryption, TypedBytes, Write


def change_record(change: Change) -> dict[str, Any]:
    """The change as a JSON object; bytes are base64."""
    return {
        "thread_id": change.thread_id,
        "heads": dict(change.heads),
        "checkpoints": list(map(_checkpoint_record, change.checkpoints)),
        "writes": [
            {
                **_key(one.key),
                "task_id": one.task_id,
                "task_path": one.task_path,
                "idx": one.idx,
                "channel": one.channel,
                "value": _typed(one.value),
                **({} if one.node is None else {"node": one.node}),
            }
            for one in change.writes
        ],
        "blobs": [
            {
                "checkpoint_ns": one.checkpoint_ns,
                "channel": one.channel,
                "version": one.version,
                "value": _typed(one.value),
            }
            for one in change.blobs
        ],
        "copies_of_writes": [
            {
                "from": _key(one.source),
                "to": _key(one.target),
                "tasks": [list(task) for task in one.tasks],
            }
            for one in change.copies_of_writes
        ],
        "copies": [
            {
                "from": _key(one.source),
                "metadata": _typed(one.metadata),
                "body": _typed(one.body),
                "writes": None if one.writes is None else [list(task) for task in one.writes],
            }
            for one in change.copies
        ],
        "removed": [
            {**_key(key), "writes": writes} for key, writes in (change.removed or {}).items()
        ],
        "removed_blobs": [
            {"checkpoint_ns": ns, "channel": channel, "version": version}
            for ns, channel, version in change.removed_blobs
        ],
        "relied_on": [_key(one) for one in change.relied_on],
    }


def change_from_record(record: Mapping[str, Any]) -> Change:
    """Parse what `change_record` returned.

    Raises `ValueError`, `KeyError`, `TypeError` or `AttributeError` for anything else.
    """
    removed = {_key_from(one): int(one["writes"]) for one in record["removed"]}
    return Change(
        str(record["thread_id"]),
        {str(ns): str(head) for ns, head in record["heads"].items()},
        checkpoints=tuple(map(_checkpoint_from, record["checkpoints"])),
        writes=tuple(map(_write_from, record["writes"])),
        blobs=tuple(
            NewBlob(
                str(one["checkpoint_ns"]),
                str(one["channel"]),
                str(one["version"]),
                _present(_typed_from(one["value"])),
            )
            for one in record["blobs"]
        ),
        copies_of_writes=tuple(
            CopyOfWrites(_key_from(one["from"]), _key_from(one["to"]), _tasks_from(one["tasks"]))
            for one in record["copies_of_writes"]
        ),
        copies=tuple(
            CopyOfCheckpoint(
                _key_from(one["from"]),
                _typed_from(one["metadata"]),
                _typed_from(one["body"]),
                None if one["writes"] is None else _tasks_from(one["writes"]),
            )
            for one in record["copies"]
        ),
        removed=removed or None,
        removed_blobs=tuple(
            (str(one["checkpoint_ns"]), str(one["channel"]), str(one["version"]))
            for one in record["removed_blobs"]
        ),
        relied_on=tuple(map(_key_from, record["relied_on"])),
    )


def _checkpoint_record(one: Checkpoint) -> dict[str, Any]:
    return {
        **_key(one.key),
        "parent_checkpoint_id": one.parent_checkpoint_id,
        "body": _typed(one.body),
        "metadata": _typed(one.metadata),
    }


def _checkpoint_from(record: Mapping[str, Any]) -> Checkpoint:
    parent = record["parent_checkpoint_id"]
    return Checkpoint(
        _key_from(record),
        None if parent is None else str(parent),
        _typed_from(record["body"]),
        _typed_from(record["metadata"]),
    )


def _write_from(record: Mapping[str, Any]) -> Write:
    value, node = _present(_typed_from(record["value"])), record.get("node")
    return Write(
        _key_from(record),
        str(record["task_id"]),
        str(record["task_path"]),
        int(record["idx"]),
        str(record["channel"]),
        len(value.data),
        value,
        None if node is None else str(node),
    )


def _key(key: CheckpointKey) -> dict[str, str]:
    return {
        "thread_id": key.thread_id,
        "checkpoint_ns": key.checkpoint_ns,
        "checkpoint_id": key.checkpoint_id,
    }


def _key_from(record: Mapping[str, Any]) -> CheckpointKey:
    names = ("thread_id", "checkpoint_ns", "checkpoint_id")
    return CheckpointKey(*(str(record[name]) for name in names))


def _tasks_from(record: Any) -> tuple[tuple[str, int], ...]:
    return tuple((str(task_id), int(idx)) for task_id, idx in record)


def _typed(value: TypedBytes | None) -> dict[str, Any] | None:
    if value is None:
        return None
    return {
        "type": value.type,
        "data": b64encode(value.data).decode(),
        **({"encrypted": int(value.encrypted)} if value.encrypted else {}),
        **({"part": value.part} if value.part else {}),
    }


def _typed_from(record: Mapping[str, Any] | None) -> TypedBytes | None:
    if record is None:
        return None
    return TypedBytes(
        str(record["type"]),
        b64decode(record["data"], validate=True),
        encrypted=Encryption(record.get("encrypted", 0)),
        part=str(record.get("part", "")),
    )


def _present(value: TypedBytes | None) -> TypedBytes:
    if value is None:
        raise ValueError("a value is missing")
    return value
