"""Shared facts about LangGraph's savers for PostgreSQL, MySQL and memory.

They use three tables: checkpoint bodies, writes, and channel values ("blobs"). A body names the
version of each channel's value; the value itself is in the blobs table.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Any

from ckpt_backends.codec.value_limit import MOST_BYTES, unread
from ckpt_backends.model import Checkpoint, TypedBytes

CHECKPOINTS, BLOBS, WRITES = "checkpoints", "checkpoint_blobs", "checkpoint_writes"
NAMES = (CHECKPOINTS, BLOBS, WRITES)

_SHALLOW: Mapping[str, frozenset[str]] = {
    CHECKPOINTS: frozenset({"thread_id", "checkpoint_ns", "checkpoint", "metadata"}),
    BLOBS: frozenset({"thread_id", "checkpoint_ns", "channel", "type", "blob"}),
    WRITES: frozenset(
        {"thread_id", "checkpoint_ns", "checkpoint_id", "task_id", "idx", "channel", "type", "blob"}
    ),
}
_FULL: Mapping[str, frozenset[str]] = {
    CHECKPOINTS: _SHALLOW[CHECKPOINTS] | {"checkpoint_id", "parent_checkpoint_id"},
    BLOBS: _SHALLOW[BLOBS] | {"version"},
    WRITES: _SHALLOW[WRITES],
}


def missing_columns(columns: Mapping[str, Set[str]], *, shallow: bool) -> list[str]:
    """The required columns that are missing from these tables, as `table.column`.

    A column is required if every release of the saver creates it.
    """
    return [
        f"{name}.{column}"
        for name, needed in (_SHALLOW if shallow else _FULL).items()
        for column in sorted(needed - columns.get(name, frozenset()))
    ]


def unknown_columns(
    columns: Mapping[str, Set[str]], also: Mapping[str, frozenset[str]]
) -> list[str]:
    """The columns that no release of the saver creates, as `table.column`.

    `also` lists by table the columns that only some releases create.
    """
    return [
        f"{name}.{column}"
        for name, known in _FULL.items()
        for column in sorted(columns[name] - known - also[name])
    ]


def typed(tag: str, size: int, blob: bytes | None) -> TypedBytes:
    """A value as stored, or a placeholder if it is longer than `MOST_BYTES`."""
    return unread(tag, size) if size > MOST_BYTES else TypedBytes(tag, blob or b"")


def json_bytes(text: str | None) -> TypedBytes:
    """A checkpoint body or metadata from the JSON text that the engine returns."""
    return TypedBytes("json", (text or "null").encode())


def cells_of_checkpoint(one: Checkpoint) -> dict[str, Any]:
    """The query parameters for inserting a checkpoint."""
    assert one.body is not None  # noqa: S101
    assert one.metadata is not None  # noqa: S101
    return {
        "parent": one.parent_checkpoint_id,
        "body": one.body.data.decode(),
        "metadata": one.metadata.data.decode(),
    }


def cells_of_value(value: TypedBytes | None) -> dict[str, Any]:
    """The query parameters for inserting a channel value."""
    assert value is not None  # noqa: S101
    return {"tag": value.type, "blob": None if value.type == "empty" else value.data}
