"""The common model of all checkpoint stores: frozen records.

A store returns bytes together with their type tag (`TypedBytes`); `ckpt_backends.codec` decodes
them when a value is needed. `None` in an optional field means *not read*, unless the field's
docstring says otherwise.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from enum import Flag, IntEnum, StrEnum, auto
from functools import lru_cache
from itertools import islice
from typing import NamedTuple, TypeVar

# The time and step of a checkpoint, read from its id.
#
# Savers make checkpoint ids as UUIDv6 with the step in the clock sequence, so ids sort by time.
# LangGraph.js writes a variant nibble that is not RFC 9562 at step -1; only the version nibble is
# checked.


UUID6 = "([0-9a-f]{8})-([0-9a-f]{4})-6([0-9a-f]{3})-[0-9a-f]{4}-[0-9a-f]{12}"
"""A pattern of ids that contain a time."""
TICKS_TO_1970 = 0x01B21DD213814000
"""100 ns ticks between 1582-10-15, where UUID time begins, and 1970-01-01."""
_MOST = 1 << 60
"""Ticks that do not fit into an id."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_find = re.compile(UUID6, re.ASCII).fullmatch


def ticks_of(checkpoint_id: str) -> int | None:
    """The id's time in 100 ns ticks since 1582-10-15, or None if it is not a UUIDv6."""
    found = _find(checkpoint_id)
    return None if found is None else int("".join(found.groups()), 16)


@lru_cache(1000)
def time_of(checkpoint_id: str) -> datetime | None:
    """When the checkpoint was made, UTC, or None if its id contains no time."""
    ticks = ticks_of(checkpoint_id)
    if ticks is None:
        return None
    # By position, which takes half the time.
    return _EPOCH + timedelta(0, 0, (ticks - TICKS_TO_1970) // 10)


def ticks_at(moment: datetime) -> int:
    """A moment in 100 ns ticks since 1582-10-15."""
    return (moment - _EPOCH) // timedelta(microseconds=1) * 10 + TICKS_TO_1970


def make_id(ticks: int, step: int, node: int) -> str:
    """A checkpoint id in the form that savers use: a UUIDv6 with the step in its clock sequence.

    `node` is a random number of 48 bits.
    """
    sequence = 0x8000 | step & 0x3FFF
    return f"{_begin(ticks)}-{sequence:04x}-{node & (1 << 48) - 1:012x}"


def ids_between(since: datetime | None, until: datetime | None) -> tuple[str, str]:
    """The bounds of all ids with a time from `since` to `until`, both inclusive.

    Such an id is not less than the first bound, and less than the second. A bound is `''` if there
    is none.
    """
    first = 0 if since is None else ticks_at(since)
    end = 0 if until is None else ticks_at(until) + 10
    return _begin(first) if 0 < first < _MOST else "", _begin(end) if 0 < end < _MOST else ""


def _begin(ticks: int) -> str:
    """The characters of an id that hold its time."""
    return f"{ticks >> 28:08x}-{ticks >> 12 & 0xFFFF:04x}-6{ticks & 0xFFF:03x}"


def step_of(checkpoint_id: str) -> int | None:
    """The step in the id's clock sequence (14 bit, signed), or None if it is not a UUIDv6.

    It is one less than `metadata.step` on forks that `update_state(as_node="__copy__")` wrote.
    """
    if _find(checkpoint_id) is None:
        return None
    sequence = int(checkpoint_id[19:23], 16) & 0x3FFF
    return sequence - 0x4000 if sequence & 0x2000 else sequence


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

    def record(self) -> Record:
        """The row of the checkpoint, which was read with body and metadata."""
        if self.body is None or self.metadata is None:
            raise ValueError("a checkpoint was not read as a whole")
        return Record.checkpoint(self.key, self.parent_checkpoint_id, self.body, self.metadata)


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

    def record(self) -> Record:
        """The row of the write, whose value was read."""
        if self.value is None:
            raise ValueError("the value of a write was not read")
        task = self.task_id, self.task_path, self.idx
        return Record.write(self.key, *task, self.channel, self.value)


class Kind(StrEnum):
    """What a row holds."""

    CHECKPOINT = "checkpoint"
    WRITE = "write"
    VALUE = "value"
    """The value of a channel at one version, outside of bodies."""


_NOTHING = TypedBytes("", b"")


class Record(NamedTuple):
    """One row of a thread in the form that all layouts share."""

    kind: Kind
    key: CheckpointKey
    """Of a value, the checkpoint id is `''`."""
    value: TypedBytes
    """Of a checkpoint, its body as stored, with the values that the layout stores in bodies."""
    metadata: TypedBytes = _NOTHING
    parent: str | None = None
    task_id: str = ""
    task_path: str = ""
    idx: int = 0
    channel: str = ""
    version: str = ""
    expires_at: int | None = None
    """Milliseconds since 1970; None if it does not expire."""
    order: str = ""
    """The task path in the source, for a layout that stores only the order that it gives."""

    @classmethod
    def checkpoint(
        cls,
        key: CheckpointKey,
        parent: str | None,
        body: TypedBytes,
        metadata: TypedBytes,
        expires_at: int | None = None,
    ) -> Record:
        """A checkpoint, without writes."""
        return cls(Kind.CHECKPOINT, key, body, metadata, parent, expires_at=expires_at)

    @classmethod
    def write(
        cls,
        key: CheckpointKey,
        task_id: str,
        task_path: str,
        idx: int,
        channel: str,
        value: TypedBytes,
        expires_at: int | None = None,
    ) -> Record:
        """One write of a task."""
        task = task_id, task_path, idx
        return cls(Kind.WRITE, key, value, _NOTHING, None, *task, channel, "", expires_at)

    @classmethod
    def apart(
        cls,
        thread_id: str,
        checkpoint_ns: str,
        channel: str,
        version: str,
        value: TypedBytes,
        expires_at: int | None = None,
    ) -> Record:
        """A channel's value at one version, which is stored outside of bodies."""
        key = CheckpointKey(thread_id, checkpoint_ns, "")
        return cls(Kind.VALUE, key, value, _NOTHING, None, "", "", 0, channel, version, expires_at)

    @property
    def place(self) -> BlobKey:
        """Where a value is stored within its thread."""
        return BlobKey(self.key.checkpoint_ns, self.channel, self.version)


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


# Tells from a channel's name whether its value is read with its checkpoint.


_CONTROL = re.compile(r"__|branch:|join:|start:")


def is_read(channel: str, values: bool | Collection[str]) -> bool:
    """Whether the value of a channel is read with its checkpoint.

    `values` is the parameter of `Store.checkpoints`.
    """
    if values is True or (values is not False and channel in values):
        return True
    return is_control(channel)


def is_control(channel: str) -> bool:
    """Whether LangGraph uses a channel for its own control flow, such as `branch:to:NODE`."""
    return is_reserved(channel) and channel not in USERS


def is_reserved(channel: str) -> bool:
    """Whether a channel is named like LangGraph's channels, also one of `USERS`."""
    return _CONTROL.match(channel) is not None


_MARGIN = 6
"""Before format 4 each node has a channel of the same name, with the node's name as its value.
Such a value is at most this many bytes longer than the channel's name when serialised."""


def is_wanted(channel: str, blob: Blob, values: bool | Collection[str], *, is_old: bool) -> bool:
    """Whether a channel's value is read with its checkpoint.

    `values` is the parameter of `Store.checkpoints`; `is_old` means a checkpoint format before 4.
    """
    margin = len(channel.encode("utf-8", "surrogatepass")) + _MARGIN
    return is_read(channel, values) or (is_old and blob.size < margin)


# Which threads a question can be about, as far as keys and indexes show.


_LAST = chr(sys.maxunicode)
_SURROGATES = range(0xD800, 0xE000)


class ThreadBounds(NamedTuple):
    """Conditions for threads; all that are given must hold."""

    ids: frozenset[str] | None = None
    prefix: str = ""
    """What the thread id begins with."""
    since: datetime | None = None
    until: datetime | None = None
    """Bounds of the time of the newest checkpoint, both inclusive. A thread without this time is
    outside of both."""
    users: frozenset[str] | None = None
    """The thread's user must be one of these."""
    head_channels: frozenset[str] | None = None
    """A write on one of these channels must be stored with the root head."""
    as_of: datetime | None = None
    """Checkpoints whose ids, or times of storing, are later do not count."""

    def admits(self, thread: Thread) -> bool:
        """Whether a thread is within all bounds except `head_channels`."""
        if self.ids is not None and thread.thread_id not in self.ids:
            return False
        if not thread.thread_id.startswith(self.prefix):
            return False
        if self.users is not None and thread.user not in self.users:
            return False
        at = thread.last_at
        if self.since is not None and (at is None or at < self.since):
            return False
        return self.until is None or (at is not None and at <= self.until)


ALL_THREADS = ThreadBounds()


def end_of_prefix(prefix: str) -> str | None:
    """The least text after all that begin with a prefix, also with broken characters.

    Returns None if there is none, or if it cannot be told.
    """
    kept = prefix.rstrip(_LAST)
    if not kept or ord(kept[-1]) in _SURROGATES:
        return None
    following = ord(kept[-1]) + 1
    return kept[:-1] + chr(_SURROGATES.stop if following in _SURROGATES else following)


# Lists that are short enough for one query or request.


_AT_ONCE = 200
"""Items in one list. Old SQLite releases allow at most 999 parameters."""
T = TypeVar("T")


def in_chunks(items: Iterable[T], at_once: int = _AT_ONCE) -> Iterator[list[T]]:
    """Yield the items in lists that are short enough for one query."""
    left = iter(items)
    while chunk := list(islice(left, at_once)):
        yield chunk


def in_batches(
    items: Iterable[T], size_of: Callable[[T], int], most_size: int, at_once: int = sys.maxsize
) -> Iterator[list[T]]:
    """Yield the items in lists whose sizes add up to at most so much; a larger one comes alone."""
    batch: list[T] = []
    total = 0
    for item in items:
        size = size_of(item)
        if batch and (len(batch) == at_once or total + size > most_size):
            yield batch
            batch, total = [], 0
        batch.append(item)
        total += size
    if batch:
        yield batch


def first_of(
    items: Iterator[T], size_of: Callable[[T], int], most_size: int
) -> tuple[list[T], bool]:
    """The first items, until they add up to more than so much, and whether these are all."""
    found: list[T] = []
    total = 0
    for item in items:
        found.append(item)
        total += size_of(item)
        if total > most_size:
            return found, False
    return found, True


# Who is told what an erasure does.


Progress = Callable[[str], None]
"""Is told each step of an erasure before it begins."""


def silent(step: str) -> None:
    """Tell nobody about a step."""
