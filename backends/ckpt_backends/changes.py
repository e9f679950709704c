"""A change of one thread: the rows to add or to remove, and the state that it expects.

A change is planned and shown before anything is written, and is applied whole or not at all.
A change only names the rows to copy; the engine copies them byte for byte.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from ckpt_backends.errors import StoreChanged
from ckpt_backends.model import BlobKey, CheckpointKey, Encryption, Record, TypedBytes


@dataclass(frozen=True, slots=True)
class CopyOfWrites:
    """Copy some of the writes of one checkpoint to another checkpoint."""

    source: CheckpointKey
    target: CheckpointKey
    tasks: tuple[tuple[str, int], ...]
    """The writes to copy, as task id and idx."""


@dataclass(frozen=True, slots=True)
class CopyOfCheckpoint:
    """Copy a checkpoint, with the channel values that it names, to another thread."""

    source: CheckpointKey
    metadata: TypedBytes | None = None
    """Metadata to store in place of the original's."""
    body: TypedBytes | None = None
    """A body to store in place of the original's."""
    writes: tuple[tuple[str, int], ...] | None = None
    """The writes to copy, by task id and idx; None for all of them."""


@dataclass(frozen=True, slots=True)
class Change:
    """What to add to a thread, or to remove from it."""

    thread_id: str
    heads: Mapping[str, str]
    """By namespace, the id of the newest checkpoint of the thread; empty for a new thread."""
    checkpoints: tuple[Record, ...] = ()
    writes: tuple[Record, ...] = ()
    blobs: tuple[Record, ...] = ()
    """Values, in layouts that store them outside of bodies."""
    copies_of_writes: tuple[CopyOfWrites, ...] = ()
    copies: tuple[CopyOfCheckpoint, ...] = ()
    removed: Mapping[CheckpointKey, int] | None = None
    """The checkpoints to remove with all their writes, each with its number of writes."""
    removed_blobs: tuple[BlobKey, ...] = ()
    """The values to remove, each as (namespace, channel, version)."""
    relied_on: tuple[CheckpointKey, ...] = ()
    """Checkpoints from which new ones were made. Engines with transactions check that they still
    exist; a prune may have removed them while the heads stayed."""

    @property
    def records(self) -> tuple[Record, ...]:
        """What it adds besides copies: values and writes before checkpoints."""
        return self.blobs + self.writes + self.checkpoints

    @property
    def added(self) -> list[CheckpointKey]:
        """The checkpoints that it adds."""
        copied = [one.source._replace(thread_id=self.thread_id) for one in self.copies]
        return [*(one.key for one in self.checkpoints), *copied]


def moved(thread_id: str) -> StoreChanged:
    """The error for a thread that changed after the plan was made."""
    return StoreChanged(
        f"thread '{thread_id}' changed meanwhile, so nothing was written",
        hint="an agent may be running; check the thread, then run the command again",
    )


def gone(key: CheckpointKey) -> StoreChanged:
    """The error for a checkpoint that the change refers to but that does not exist."""
    return StoreChanged(
        f"checkpoint '{key.checkpoint_id}' of thread '{key.thread_id}' is gone, so nothing was"
        " written",
        hint="run the command again",
    )


# Removing the rows of whole threads, or of some checkpoints of a thread.
#
# A removal records the state of the thread when it was planned; a thread that has changed since
# is skipped.


MOVED = "changed since the plan was made"
GONE = "no longer exists"


class Inside(NamedTuple):
    """What to remove inside a thread; the thread itself is kept."""

    checkpoints: Mapping[str, tuple[str, ...]]
    """By namespace, the ids of the checkpoints to remove with all their writes."""
    blobs: tuple[BlobKey, ...] = ()
    """Values that no remaining checkpoint names."""


class Removal(NamedTuple):
    """What to remove from one thread, and the state of the thread that the removal expects."""

    thread_id: str
    last_at: datetime | None
    """Time of its newest checkpoint in all namespaces; None if ids contain no time."""
    checkpoints: int
    writes: int
    """Number of its writes."""
    inside: Inside | None = None
    """None to remove the whole thread."""

    def reason_to_skip(self, last_at: datetime | None, checkpoints: int, writes: int) -> str:
        """Why a thread in this state is kept; `''` if it is as it was planned."""
        if self.checkpoints and not checkpoints:
            return GONE
        as_planned = (last_at, checkpoints, writes) == (self.last_at, self.checkpoints, self.writes)
        return "" if as_planned else MOVED


class RemovalBatch(NamedTuple):
    """How much is removed in one batch, unless asked otherwise."""

    threads: int = 200
    rows: int = 5000
    """A batch ends early after this number of checkpoints and writes."""


class Removed(NamedTuple):
    """The result of a removal."""

    thread_id: str
    rows: Mapping[str, int] = {}
    """Number of removed rows, by table."""
    skipped: str = ""
    """Why the thread was skipped; `''` if it was not."""


# What is left of removed data after an erasure, as data for a receipt.


class Remaining(NamedTuple):
    """A place that may still hold removed data."""

    place: str
    """Without an id of a thread or a user: `write-ahead log of the server`."""
    reason: str
    is_reachable: bool = False
    """Whether a later run can erase it; False if a right is missing."""
    needs_rewrite: bool = False
    """Whether it is free space that only `rewrite` erases, which was not asked for."""


class Remains(NamedTuple):
    """What an erasure did to the old bytes, and where they may still be."""

    done: tuple[str, ...] = ()
    """Statements and steps that were carried out, in order: `VACUUM`."""
    places: tuple[Remaining, ...] = ()


BACKUPS = Remaining("backups", "copies that were made before cannot be reached from here")
FREED_BLOCKS = Remaining(
    "free blocks of the disk",
    "the blocks of deleted and shortened files stay until the system reuses them; snapshots,"
    " copy-on-write file systems and SSDs may keep them longer",
)
UNKNOWN_REMAINS = Remains(
    places=(Remaining("the store", "its backend does not say what it keeps of removed data"),)
)
"""The answer of a backend that cannot erase."""


# A change as JSON: for plans that are shown or saved, and for the log of operations.


_TASK = ("task_id", "task_path", "idx", "channel")


def change_record(change: Change) -> dict[str, Any]:
    """The change as a JSON object; bytes are base64."""
    return {
        "thread_id": change.thread_id,
        "heads": dict(change.heads),
        "checkpoints": list(map(_checkpoint_record, change.checkpoints)),
        "writes": [
            {**one.key._asdict(), **{name: getattr(one, name) for name in _TASK}}
            | {"value": _typed(one.value)}
            for one in change.writes
        ],
        "blobs": [{**one.place._asdict(), "value": _typed(one.value)} for one in change.blobs],
        "copies_of_writes": [
            {
                "from": one.source._asdict(),
                "to": one.target._asdict(),
                "tasks": list(map(list, one.tasks)),
            }
            for one in change.copies_of_writes
        ],
        "copies": [
            {
                "from": one.source._asdict(),
                "metadata": _typed(one.metadata),
                "body": _typed(one.body),
                "writes": None if one.writes is None else list(map(list, one.writes)),
            }
            for one in change.copies
        ],
        "removed": [
            {**key._asdict(), "writes": writes} for key, writes in (change.removed or {}).items()
        ],
        "removed_blobs": [one._asdict() for one in change.removed_blobs],
        "relied_on": [one._asdict() for one in change.relied_on],
    }


def change_from_record(record: Mapping[str, Any]) -> Change:
    """Parse what `change_record` returned.

    Raises `ValueError`, `KeyError`, `TypeError` or `AttributeError` for anything else.
    """
    removed = {_key_from(one): int(one["writes"]) for one in record["removed"]}
    thread_id = str(record["thread_id"])
    return Change(
        thread_id,
        {str(ns): str(head) for ns, head in record["heads"].items()},
        checkpoints=tuple(map(_checkpoint_from, record["checkpoints"])),
        writes=tuple(map(_write_from, record["writes"])),
        blobs=tuple(
            Record.apart(thread_id, *_place_from(one), _typed_from(one["value"]))
            for one in record["blobs"]
        ),
        copies_of_writes=tuple(
            CopyOfWrites(_key_from(one["from"]), _key_from(one["to"]), _tasks_from(one["tasks"]))
            for one in record["copies_of_writes"]
        ),
        copies=tuple(
            CopyOfCheckpoint(
                _key_from(one["from"]),
                None if one["metadata"] is None else _typed_from(one["metadata"]),
                None if one["body"] is None else _typed_from(one["body"]),
                None if one["writes"] is None else _tasks_from(one["writes"]),
            )
            for one in record["copies"]
        ),
        removed=removed or None,
        removed_blobs=tuple(map(_place_from, record["removed_blobs"])),
        relied_on=tuple(map(_key_from, record["relied_on"])),
    )


def _checkpoint_record(one: Record) -> dict[str, Any]:
    return {
        **one.key._asdict(),
        "parent_checkpoint_id": one.parent,
        "body": _typed(one.value),
        "metadata": _typed(one.metadata),
    }


def _checkpoint_from(record: Mapping[str, Any]) -> Record:
    key, parent = _key_from(record), record["parent_checkpoint_id"]
    body, metadata = (_typed_from(record[name]) for name in ("body", "metadata"))
    return Record.checkpoint(key, None if parent is None else str(parent), body, metadata)


def _write_from(record: Mapping[str, Any]) -> Record:
    task_id, path, idx, channel = (record[name] for name in _TASK)
    task = str(task_id), str(path), int(idx), str(channel)
    return Record.write(_key_from(record), *task, _typed_from(record["value"]))


def _place_from(record: Mapping[str, Any]) -> BlobKey:
    return BlobKey(*(str(record[name]) for name in BlobKey._fields))


def _key_from(record: Mapping[str, Any]) -> CheckpointKey:
    return CheckpointKey(*(str(record[name]) for name in CheckpointKey._fields))


def _tasks_from(record: Any) -> tuple[tuple[str, int], ...]:
    return tuple((str(task_id), int(idx)) for task_id, idx in record)


def _typed(value: TypedBytes | None) -> dict[str, Any] | None:
    if value is None:
        return None
    rest = {"encrypted": int(value.encrypted), "part": value.part}
    data = {"type": value.type, "data": b64encode(value.data).decode()}
    return data | {name: one for name, one in rest.items() if one}


def _typed_from(record: Mapping[str, Any]) -> TypedBytes:
    return TypedBytes(
        str(record["type"]),
        b64decode(record["data"], validate=True),
        encrypted=Encryption(record.get("encrypted", 0)),
        part=str(record.get("part", "")),
    )
