"""The common model of all checkpoint stores: frozen records.

A store returns bytes together with their type tag (`TypedBytes`); `ckpt_backends.codec` decodes
them when a value is needed. `None` in an optional field means *not read*, unless the field's
docstring says otherwise.
"""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import Flag, IntEnum, StrEnum, auto
from typing import NamedTuple

from ckpt_backends.checkpoint_ids import time_of

NULL_TASK_ID = "00000000-0000-0000-0000-000000000000"
"""Task id of writes that the caller made (`Command(update=..., goto=..., resume=...)`)."""


class Encryption(IntEnum):
    """How a value is stored; what is not encrypted is false."""

    NONE = 0
    SERIALIZER = 1
    """As `EncryptedSerializer` of `langgraph` stores it."""
    ENVELOPE = 2
    """In the envelope of Agent Server, which names its key."""


class TypedBytes(NamedTuple):
    """A value as a saver stored it."""

    type: str
    """The serializer's tag: `msgpack`, `json`, `bytes`, `null`, `empty`, `pickle`, `X+aes`, ..."""
    data: bytes
    encrypted: bool | Encryption = False
    """Whether the value is stored as `TYPE+aes`, and in which form; `data` then is decrypted."""
    problem: str = ""
    """Why the value cannot be read; `data` then is as stored. `''` if no problem is known."""
    whole: int | None = None
    """Stored length in bytes of a value that was too long to read; `data` is empty then."""
    part: str = ""
    """The entry of `data` that is this value, if `data` is a map that was encrypted as a whole. It
    is taken out after decryption. `''` if `data` is the value."""


USERS = frozenset({"__start__", "__root__", "__previous__", "__end__"})
"""Channels that hold an application's input or output, though named like LangGraph's channels."""


class Blob(NamedTuple):
    """A channel's value that is stored outside of the checkpoint body."""

    type: str
    """The serializer's tag; never `empty`, the tag of a channel without a value."""
    size: int
    """Length in bytes of the stored value, or of all its stored parts together."""
    value: TypedBytes | None = None
    inherited: bool = False
    """Whether a part of it is stored with an ancestor, in layouts that store only changes."""


class BlobKey(NamedTuple):
    """The address, within a thread, of a value that is stored outside of the checkpoint body."""

    checkpoint_ns: str
    channel: str
    version: str


class CheckpointKey(NamedTuple):
    """The address of one checkpoint."""

    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str


class Thread(NamedTuple):
    """Facts about a thread that a store can read from its index, without any value."""

    thread_id: str
    head: str | None
    """Id of the checkpoint that a saver would load in the root namespace; None if it is empty."""
    first: str | datetime | None
    """The oldest checkpoint in all namespaces: its id, which may contain its time, or its time in
    UTC if the layout stores it."""
    last: str | datetime | None
    """The same for the newest checkpoint."""
    checkpoints: int
    namespaces: int
    user: str | None = None
    """The thread's user, in layouts that store one."""

    @property
    def first_at(self) -> datetime | None:
        """Time of the oldest checkpoint in all namespaces, UTC; None if ids contain no time."""
        return time_of(self.first) if isinstance(self.first, str) else self.first

    @property
    def last_at(self) -> datetime | None:
        """Time of the newest checkpoint in all namespaces, UTC; None if ids contain no time."""
        return time_of(self.last) if isinstance(self.last, str) else self.last


class ThreadSize(NamedTuple):
    """Numbers of rows and stored bytes of a thread. No value is read to compute them.

    A compressed column, such as PostgreSQL's JSONB, counts with its compressed length.
    """

    checkpoints: int
    writes: int
    bytes: int
    blobs: int = 0
    """Number of values that are stored outside of checkpoint bodies."""


class Usage(NamedTuple):
    """Stored bytes of one column, summed over the rows that share all fields before `rows`."""

    table: str
    column: str
    thread_id: str
    checkpoint_ns: str
    channel: str | None
    """None for a column that does not belong to one channel."""
    type: str
    """The serializer's tag."""
    rows: int
    """Number of rows. Those of the column `metadata` are counted by another column too."""
    bytes: int


class Checkpoint(NamedTuple):
    """The state of a thread after one superstep, as stored."""

    key: CheckpointKey
    parent_checkpoint_id: str | None
    """None for the first checkpoint of a namespace."""
    body: TypedBytes | None = None
    """The checkpoint dict: `v`, `ts`, `channel_values`, `channel_versions`, `versions_seen`, ..."""
    metadata: TypedBytes | None = None
    blobs: Mapping[str, Blob] | None = None
    """By channel, the values stored outside of the body; they override values in the body.

    None if the body was not read, and in layouts that store all values in the body.
    """
    begins_run: bool = False
    """Whether this is the first checkpoint of a run, in a layout that stores no parent for it. Its
    parent is assumed to be the checkpoint before it in time."""
    at: datetime | None = None
    """When it was stored, UTC, in layouts that order by this time; None if ids contain the time."""
    missing: frozenset[str] = frozenset()
    """Channels with a version that has neither a value nor the mark of a channel without one.

    Either is missing, or the saver failed on the checkpoint before. Empty if the body was not read,
    and in layouts that store no such mark."""


class Outline(NamedTuple):
    """A checkpoint with body and metadata that stands for all that are like it.

    They have the same format, source, channels with a value, channels that each node has seen,
    types of versions, and `__pregel_tasks` in the body. All else may differ.
    """

    checkpoint: Checkpoint
    """Its `blobs` may have only names, no types and sizes, and only of channels that a node has
    seen or that are named like LangGraph's."""
    alike: Sequence[CheckpointKey]
    """The checkpoints that it stands for, itself included."""


class Expiry(NamedTuple):
    """When a checkpoint and its writes expire; None if they do not."""

    key: CheckpointKey
    at: datetime | None
    writes_at: datetime | None
    """When the first of its writes expires."""


class Write(NamedTuple):
    """One value that a task wrote, stored with the checkpoint that the task started from.

    In `VALUES_ONLY` layouts it is stored with the checkpoint that the task produced.
    """

    key: CheckpointKey
    task_id: str
    task_path: str
    """`''` if the layout does not store it."""
    idx: int
    channel: str
    size: int
    """Length of the stored value in bytes."""
    value: TypedBytes | None = None
    node: str | None = None
    """Name of the task's node, in layouts that store it."""
    at: datetime | None = None
    """When the write was stored, UTC, in layouts that store this time."""


class Fault(NamedTuple):
    """Something wrong that an adapter found in its engine or in its own kinds of rows."""

    code: str
    """One of the codes of `ckpt doctor`, such as `index-missing`; docs/doctor.md lists them."""
    detail: str
    """What is wrong, in a few words with names and numbers, and without values."""
    thread_id: str | None = None
    """The thread; None if it concerns the whole store."""
    checkpoint_ns: str | None = None
    checkpoint_id: str | None = None
    channel: str | None = None
    task_id: str | None = None
    fix: str = ""
    """A statement or command of the engine that mends it; `''` if none is known."""
    is_info: bool = False
    """Whether the saver itself may cause it, so that it is no warning."""
    is_error: bool = False
    """Whether the saver cannot load or save because of it, so that it is more than a warning."""


class HiddenRows(NamedTuple):
    """Why a user may not see all rows of a store."""

    reason: str
    """Such as: row-level security is active on table 'checkpoints' for role 'ops'."""
    remedy: str
    """What to do to see all rows."""

    @property
    def note(self) -> str:
        return f"rows may be hidden, so this may be incomplete: {self.reason}"


class Status(StrEnum):
    """The state of a thread, taken from its head in the root namespace. Worst state first."""

    ERROR = "error"
    """A task failed without output, and no error handler caught the error."""
    INTERRUPTED = "interrupted"
    """A task called `interrupt()` and has not finished."""
    PENDING = "pending"
    """Nodes are next and no task waits: a running graph, a crash or a static breakpoint."""
    DONE = "done"
    UNKNOWN = "unknown"
    """The store has too little data to compute the next nodes."""
    EMPTY = "empty"
    """The thread has no checkpoint in the root namespace."""


class Capability(Flag):
    """What a layout can do besides listing and loading checkpoints."""

    HISTORY = auto()
    """Stores all checkpoints of a namespace, not only the newest."""
    WRITES = auto()
    """Stores the writes of each task, with its interrupts and errors."""
    TASK_PATH = auto()
    """Stores the task path of each write, which names its node."""
    INLINE_VALUES = auto()
    """Stores all values of a checkpoint in its body, even those that did not change."""
    ADDING = auto()
    """`ckpt` can add checkpoints. Missing if an unknown saver created the tables."""
    VALUES_ONLY = auto()
    """Stores only the address and the values of a checkpoint: no metadata, no channel versions and
    no `versions_seen`, so next nodes are unknown. Writes are stored with the checkpoint that they
    produced."""
    LATEST_VALUES = auto()
    """Stores the values of the newest checkpoint only; of the others, the addresses and writes."""
    SESSIONS = auto()
    """An application may store its sessions in the same database."""
    READ_ONLY = auto()
    """`ckpt` changes nothing here: the server keeps all of it in memory and overwrites the file."""
    ENFORCED_READ_ONLY = auto()
    """The engine itself refuses writes through a store opened for reading."""


class Space(NamedTuple):
    """Bytes that a store uses on disk; None if the engine does not report it."""

    size: int | None
    free: int | None = None
    """Unused bytes of `size`; a vacuum frees them."""
    log: int | None = None
    """Bytes of `size` in a log of changes that are not yet in the store's main file."""


COPY_INSTEAD = "ckpt only reads it; `ckpt copy THREAD --to STORE` takes threads to another store"


class StoreInfo(NamedTuple):
    """A description of a store that is cheap to read."""

    layout: str
    url: str
    """Printable, without a password."""
    engine: str
    """Name and version of the engine, such as `SQLite 3.40.1`."""
    saver: str
    """The saver that wrote the store, in words, as far as the layout shows it."""
    capabilities: Capability
    tables: tuple[str, ...]
    size: int | None
    """Bytes that the store uses on disk; None if the engine does not report it."""
    free: int | None = None
    """Unused bytes of `size`, which a vacuum frees; None if unknown."""
    log: int | None = None
    """Bytes of `size` in a log of changes; None if there is no log or its size is unknown."""
    notes: tuple[str, ...] = ()
    """Notes for the reader, such as `read from a private copy`."""
    only_read: str = ""
    """Why `ckpt` adds nothing to it, such as a column that must have a value; `''` if it does, or
    if its layout never admits it."""
