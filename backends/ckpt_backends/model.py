"""The common model: what every checkpoint store holds, as frozen values without behaviour.

A store hands out bytes together with their type tag (`TypedBytes`); `ckpt_backends.codec`
turns them into values when someone looks. `None` in an optional field means *not read*,
unless the field says otherwise.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import Flag, StrEnum, auto

NULL_TASK_ID = "00000000-0000-0000-0000-000000000000"
"""Task id of writes that the caller made (`Command(update=..., goto=..., resume=...)`)."""


@dataclass(frozen=True, slots=True)
class TypedBytes:
    """A value as a saver stored it."""

    type: str
    """The serializer's tag: `msgpack`, `json`, `bytes`, `null`, `empty`, `pickle`, `X+aes`, ..."""
    data: bytes
    encrypted: bool = False
    """Stored under `TYPE+aes`; `data` is what was decrypted from it."""
    problem: str = ""
    """Why the value cannot be read, where that is known; `data` is then as stored."""
    whole: int | None = None
    """Length as stored, where that is too long and `data` is empty."""


USERS = frozenset({"__start__", "__root__", "__previous__", "__end__"})
"""Channels with a name like LangGraph's own, that hold what an application passed or returned."""


@dataclass(frozen=True, slots=True)
class Blob:
    """A channel's value that is stored apart from the checkpoint body."""

    type: str
    """The serializer's tag; never `empty`, the tag of a channel without a value."""
    size: int
    """Length of the stored value in bytes, or of its stored parts."""
    value: TypedBytes | None = None
    inherited: bool = False
    """Whether a part of it is stored with an ancestor only, in layouts that store changes."""


@dataclass(frozen=True, slots=True)
class BlobKey:
    """The address of a value that is stored apart, within its thread."""

    checkpoint_ns: str
    channel: str
    version: str


@dataclass(frozen=True, slots=True, order=True)
class CheckpointKey:
    """The address of one checkpoint."""

    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str


@dataclass(frozen=True, slots=True)
class Thread:
    """What the index alone tells about a thread."""

    thread_id: str
    head: str | None
    """The checkpoint that a saver would load in the root namespace; None without one."""
    first_at: datetime | None
    """Time of the oldest checkpoint over all namespaces, UTC; None where ids hold no time."""
    last_at: datetime | None
    """Time of the newest checkpoint over all namespaces, UTC; None where ids hold no time."""
    checkpoints: int
    namespaces: int
    user: str | None = None
    """Its user, in layouts that store one."""


@dataclass(frozen=True, slots=True)
class ThreadSize:
    """Bytes that the values of a thread use, from stored lengths; no value is read.

    Compressed columns, such as PostgreSQL's JSONB, count as they are stored.
    """

    checkpoints: int
    writes: int
    bytes: int
    blobs: int = 0
    """Values that are stored apart from bodies."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Stored bytes of one column, summed up over rows that share all other fields."""

    table: str
    column: str
    thread_id: str
    checkpoint_ns: str
    channel: str | None
    """None for a column that does not belong to one channel."""
    type: str
    """The serializer's tag."""
    rows: int
    """For the column `metadata`, rows that another column counts too."""
    bytes: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """The state of a thread after one superstep, as stored."""

    key: CheckpointKey
    parent_checkpoint_id: str | None
    """None for a first checkpoint."""
    body: TypedBytes | None = None
    """The checkpoint dict: `v`, `ts`, `channel_values`, `channel_versions`, `versions_seen`, ..."""
    metadata: TypedBytes | None = None
    blobs: Mapping[str, Blob] | None = None
    """By channel, the values stored apart from the body; they win over values in the body.

    None where the body was not read, and in layouts that keep all values in it.
    """
    begins_run: bool = False
    """First of a run, in a layout that stores no parent there: its parent is assumed to be the
    checkpoint before it in time."""
    at: datetime | None = None
    """When it was stored, UTC, in layouts that order by it; None if ids hold the time."""


@dataclass(frozen=True, slots=True)
class Write:
    """One value that a task stored on the checkpoint it started from.

    In `BARE` layouts it is stored on the checkpoint that it produced.
    """

    key: CheckpointKey
    task_id: str
    task_path: str
    """`''` where the layout does not store it."""
    idx: int
    channel: str
    size: int
    """Length of the stored value in bytes."""
    value: TypedBytes | None = None
    node: str | None = None
    """The task's node, in layouts that store it."""
    at: datetime | None = None
    """When it was stored, UTC, in layouts that store it."""


class Status(StrEnum):
    """The state of a thread, by its head in the root namespace; the worst comes first."""

    ERROR = "error"
    """A task without output failed, and no error handler took it."""
    INTERRUPTED = "interrupted"
    """A task that has not finished asked a question."""
    PENDING = "pending"
    """Something is next and nothing waits: a run in flight, a crash or a static breakpoint."""
    DONE = "done"
    UNKNOWN = "unknown"
    """What is next cannot be known from what is stored."""
    EMPTY = "empty"
    """The thread has no checkpoint in the root namespace."""


class Capability(Flag):
    """What a layout can do besides listing and loading."""

    HISTORY = auto()
    """Keeps more than the newest checkpoint of a namespace."""
    WRITES = auto()
    """Stores the writes of tasks before they are merged, with their questions and errors."""
    TASK_PATH = auto()
    """Stores each write's task path, hence its node."""
    INLINE_VALUES = auto()
    """Stores all values of a checkpoint in its body, again at each checkpoint."""
    ADDING = auto()
    """`ckpt` can add checkpoints. Missing if an unknown saver created the tables."""
    BARE = auto()
    """Stores only the place and the values of a checkpoint: no metadata, no versions and nothing
    that nodes have seen, so next nodes are unknown. Writes are stored on the checkpoint that they
    produced."""
    LATEST_VALUES = auto()
    """Keeps the values of the newest checkpoint only; for others, their places and writes."""
    SESSIONS = auto()
    """An application may keep its sessions beside the checkpoints."""
    ENFORCED_READ_ONLY = auto()
    """The engine itself refuses writes through a store opened for reading."""


@dataclass(frozen=True, slots=True)
class Space:
    """Bytes that a store uses on disk; None where the engine does not tell."""

    size: int | None
    free: int | None = None
    """Bytes of `size` that hold nothing, until the store is vacuumed."""
    log: int | None = None
    """Bytes of `size` in a log of changes that are not in the store's own file yet."""


@dataclass(frozen=True, slots=True)
class StoreInfo:
    """A description of a store; cheap to ask for."""

    layout: str
    url: str
    """Printable, without a password."""
    engine: str
    """Name and version of the engine, such as `SQLite 3.40.1`."""
    saver: str
    """The saver that wrote the store, as far as the layout shows, in words."""
    capabilities: Capability
    tables: tuple[str, ...]
    size: int | None
    """Bytes that the store uses on disk; None where the engine does not tell."""
    free: int | None = None
    """Bytes of `size` that hold nothing, until the store is vacuumed; None where unknown."""
    log: int | None = None
    """Bytes of `size` in a log of changes; None where the engine has none, or does not tell."""
    notes: tuple[str, ...] = field(default=())
    """Notes for the reader, such as `read from a private copy`."""
