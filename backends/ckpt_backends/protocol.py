"""The interface that every store implements. Its sentences have tests in `testing/conformance`.

A `Store` is read-only: it has no method that changes anything, and it tells the engine to refuse
writes. Commands that change a thread open a `WritableStore` in addition.
Results are iterators; no method loads a whole store into memory. None imports or calls anything
that a store names. Values are decoded only if that is needed to find out how the store saves them.
An adapter never raises an exception of its driver, only those of `ckpt_backends.errors`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypedDict, Unpack

from ckpt_backends.errors import Closing
from ckpt_backends.model import (
    BlobKey,
    Capability,
    Checkpoint,
    CheckpointKey,
    Expiry,
    Fault,
    HiddenRows,
    Outline,
    Progress,
    Record,
    StoreInfo,
    Thread,
    ThreadSize,
    Usage,
    Write,
    silent,
)

if TYPE_CHECKING:
    from ckpt_backends.changes import Change, Remains, Removal, RemovalBatch, Removed
    from ckpt_backends.model import ThreadBounds
    from ckpt_backends.rows import Restored, Row, RowEdit
    from ckpt_backends.transfer.copying import Arrival


class Store(Closing, Protocol):
    """A checkpoint store, opened for reading. Not safe to share between threads."""

    sums_sizes: bool
    """Whether the engine adds up the size of a thread in one query."""
    records_users: bool
    """Whether the layout itself records the users of threads, in `Thread.user`."""
    document_limit: int | None
    """Bytes that the engine stores at most of a checkpoint; None if it has no such limit."""
    refuses_nul: bool
    """Whether the engine refuses a checkpoint with a text that has a NUL character."""
    batches_parts: bool
    """Whether `records_of` some threads needs fewer queries than `records_of` each of them."""

    @property
    def keys_expire(self) -> bool:
        """Whether checkpoints may have a time to live; otherwise `expiries` is empty."""
        ...

    @property
    def lists_by_scan(self) -> bool:
        """Whether `threads` and `usage` without a thread must read a whole table, at most once
        until `refresh`, and tell the observer. Completions, hints and refreshes must not call them.
        """
        ...

    @abstractmethod
    def describe(self) -> StoreInfo:
        """The layout, size and capabilities of the store; reads at most one checkpoint."""
        ...

    @property
    def capabilities(self) -> Capability:
        """Those of `describe`. Reads no more than they need."""
        ...

    def notes(self) -> Sequence[str]:
        """Notes to show to the user of the store; reads no row."""
        ...

    def hidden_rows(self) -> Sequence[HiddenRows]:
        """Why this user may not see all rows of the store; usually empty. Reads no row.

        What looks orphaned may then belong to a checkpoint that is there, so nothing is removed.
        """
        ...

    def evicted(self) -> str:
        """Why the engine itself may have removed rows of a thread, in words; usually `''`.

        Threads may then be left with parts of themselves.
        """
        ...

    def observe_scans(self, observer: ScanObserver) -> None:
        """Tell `observer` about each scan from now on; a store that needs none ignores it."""

    @abstractmethod
    def threads(self, *, limit: int | None = None) -> Iterator[Thread]:
        """All threads, the one with the newest checkpoint first. Reads the index only.

        Threads of equal age are ordered by id. Returns at most `limit` threads if it is given.
        """
        ...

    def threads_within(self, bounds: ThreadBounds) -> Iterator[Thread]:
        """The threads within these bounds, in the order of `threads`.

        The engine compares what it can with its keys. Reads no value, and of writes only those of
        heads, if `head_channels` are given.
        """
        ...

    def thread_ids(self, prefix: str, *, after: str = "", limit: int) -> Iterator[str]:
        """The ids of threads that begin with `prefix`, in the order of their characters.

        At most `limit`, all greater than `after`. Meant for completions: reads the index only.
        """
        ...

    def thread(self, thread_id: str) -> Thread | None:
        """One thread, or None if the store has no checkpoint of that id."""
        ...

    def size(self, thread_id: str) -> ThreadSize:
        """The size of a thread; all zero if it does not exist."""
        ...

    def sizes(self, thread_ids: Sequence[str]) -> list[ThreadSize]:
        """The sizes of several threads in the given order; meant for a few hundred at once."""
        ...

    def metadata_with(
        self, thread_ids: Sequence[str], key: str, *, newest: bool = False
    ) -> Iterator[Checkpoint]:
        """The checkpoints of some threads whose metadata have this key, with their metadata.

        With `newest`, only the one with the greatest id of each thread. The order is undefined.
        Meant for a few hundred threads at once. Reads all metadata of the threads, unless the
        engine can look for the key.
        """
        ...

    def checkpoint_sizes(self, thread_id: str) -> Iterator[tuple[CheckpointKey, ThreadSize]]:
        """The size of each checkpoint of a thread with its writes, counted as in `size`.

        The order is undefined; the sizes of a checkpoint that comes several times must be added.
        Writes without a checkpoint are included. With the sizes of `blobs` the sum equals `size`.
        """
        ...

    def usage(self, thread_id: str | None = None) -> Iterator[Usage]:
        """The space that all threads, or one thread, use, ordered by thread id.

        The engine adds up stored lengths. The sum for a thread equals its `size`, unless it shares
        values with other threads.
        """
        ...

    def namespaces(self, thread_id: str) -> list[str]:
        """The namespaces of a thread, ordered by name; the root is `''`."""
        ...

    @abstractmethod
    def checkpoints(
        self,
        thread_id: str,
        *,
        checkpoint_ns: str | None = None,
        checkpoint_ids: Collection[str] | None = None,
        body: bool = False,
        metadata: bool = False,
        values: bool | Collection[str] = False,
    ) -> Iterator[Checkpoint]:
        """The checkpoints of a thread, newest id first within each namespace.

        If the layout's saver orders checkpoints by the time of storing, so does this method.

        Returns all namespaces, one after the other, unless `checkpoint_ns` names one. With
        `checkpoint_ids`, returns only these checkpoints; missing ids are ignored. Bodies and
        metadata are read only if `body` and `metadata` are set.

        In layouts that store values outside of bodies, each body comes with `blobs`: the type and
        size of every value. LangGraph's control values are always read (channel names that begin
        with `__`, `branch:`, `join:` or `start:`, except `model.USERS`). `values` selects which
        other values are read: True for all, False for none, or a collection of channel names.
        """
        ...

    @abstractmethod
    def writes(
        self,
        thread_id: str,
        *,
        checkpoint_ns: str | None = None,
        checkpoint_ids: Collection[str] | None = None,
        channels: Collection[str] | None = None,
        values: bool | Collection[str] = False,
    ) -> Iterator[Write]:
        """The writes of a thread, filtered as in `checkpoints`, and by channel.

        They are ordered by namespace, checkpoint id, task path, task id and idx. Two exceptions
        for the writes of one checkpoint: if the layout stores the time of each write (`Write.at`),
        they are ordered by time, task id and idx; if the layout's saver uses the order of arrival,
        they come in that order. `values` selects which values are read: True for all, False for
        none, or a collection of channel names.
        """
        ...

    def checkpoints_at(
        self, keys: Sequence[CheckpointKey], **options: Unpack[ReadOptions]
    ) -> Iterator[Checkpoint]:
        """The checkpoints with these keys, as `checkpoints` returns them.

        Meant for a few hundred keys at once, of any threads; few checkpoints are in memory at a
        time if their values are read. The order is undefined; missing checkpoints are left out.
        """
        ...

    def outlines_at(self, keys: Sequence[CheckpointKey]) -> Iterator[Outline]:
        """Outlines of the checkpoints with these keys; each key is in one of them."""
        ...

    def writes_at(
        self, keys: Sequence[CheckpointKey], **options: Unpack[WriteReadOptions]
    ) -> Iterator[Write]:
        """The writes of these checkpoints, filtered, read, and for each ordered as in `writes`.

        The order of the checkpoints is undefined.
        """
        ...

    def blobs(self, thread_id: str) -> Iterator[tuple[BlobKey, int]]:
        """The values of a thread that are stored outside of bodies, with their stored sizes.

        Includes values that no checkpoint names. Empty in layouts that store values in the bodies
        or without a version, such as shallow layouts. A value that is stored in several rows
        appears once for each row.
        """
        ...

    def expiries(
        self, thread_id: str, checkpoint_ns: str, checkpoint_ids: Collection[str]
    ) -> Iterator[Expiry]:
        """The expiry of each of these checkpoints that exist. Reading extends no time to live."""
        ...

    def expiry_times(self, keys: Sequence[CheckpointKey]) -> dict[CheckpointKey, datetime]:
        """When these checkpoints expire, of any threads; without those that do not.

        Their writes may expire earlier. Reading it does not extend a time to live.
        """
        ...

    @abstractmethod
    def rows(self, thread_id: str) -> Iterator[Row]:
        """All rows of a thread as stored, of any size, with one row in memory at a time.

        Rows that other rows depend on come first; checkpoints come last.
        """
        ...

    def records_of(self, thread_ids: Sequence[str]) -> Iterator[Record]:
        """What the rows of some threads hold, as the declaration's function `records` says.

        One thread may be of any size; several may be in memory at once, and their records mixed.
        """
        ...

    def threads_with_rows(self, thread_ids: Sequence[str]) -> set[str]:
        """Those of these threads that have any row."""
        ...

    def threads_that_may_hold(
        self, thread_ids: Sequence[str], texts: Collection[str], *, ignore_case: bool = False
    ) -> set[str]:
        """At least those of these threads with a body, a write or a value that contains one of the
        texts, also in a number or a date as Python's `repr` writes it. Metadata does not count.

        Each text satisfies `codec.stored_text.is_findable`; with `ignore_case`,
        `is_findable_in_any_case`. None is part of `true` or `false`. `StoredTexts` or the engine
        searches the bytes; a store in which that does not pay returns all. Meant for a few hundred
        threads at once.
        """
        ...

    def own_rows(self, thread_id: str, rows: Iterable[Row]) -> Iterator[Row]:
        """The same rows, of an archive that anyone may have written.

        Raises `Refused` unless each is a row of this thread, in the form of `rows`, and
        `Unsupported` if this store cannot hold one.
        """
        ...

    def row_key(self, row: Row) -> Hashable:
        """The unique key of a row. It finds the stored row that an archived row corresponds to."""
        ...

    def sources(self, key: CheckpointKey) -> list[str]:
        """Queries or keys with which a person finds a checkpoint and its writes in the engine."""
        ...

    def faults(self) -> Iterator[Fault]:
        """Faults of the store as a whole: missing indexes, old schemas, large logs, free space.

        Reads the engine's catalogue and statistics, and no checkpoint. Yields nothing for a store
        that its saver set up and no one changed.
        """
        ...

    def damage(self, *, whole: bool) -> Iterator[Fault]:
        """What the engine's own check of its files finds, as one fault; nothing if they are sound.

        Without `whole`, a file that takes long to read is not checked. Yields nothing where the
        engine checks its files itself.
        """
        ...

    def thread_faults(self, thread_id: str) -> Iterator[Fault]:
        """Faults of a thread in rows that only this layout has: pointers, registries, TTLs, hashes.

        Reads keys and index rows only. Yields nothing for a thread that the saver wrote and no one
        changed, also while it writes.
        """
        ...

    def faults_of(self, thread_ids: Collection[str]) -> dict[str, list[Fault]]:
        """The `thread_faults` of each of some threads; meant for a few hundred at once."""
        ...

    def suspect_threads(self) -> Iterator[str]:
        """The ids of threads whose keys may contradict each other, each id once.

        At least those in which a checkpoint names a parent that is not stored or has no smaller id,
        writes belong to no checkpoint, the head has a child, or `thread_faults` yields something.
        An engine that cannot tell yields the ids of all threads, also of those with writes only.
        """
        ...

    def unloaded_heads(self, thread_ids: Collection[str]) -> dict[str, str]:
        """Those of these threads whose head in the root namespace the saver does not load.

        With what it does instead, in words. Usually empty: only where a pointer names the head,
        and is missing or old.
        """
        ...

    def with_named_values(
        self, checkpoint: Checkpoint, values: bool | Collection[str]
    ) -> Checkpoint:
        """A checkpoint of this store, whose body is now decrypted, with the values that it names.

        `values` is as in `checkpoints`. The same checkpoint, unless an encrypted body hides which
        values it names.
        """
        ...

    def refresh(self) -> None:
        """End the current snapshot. The next read starts a new one and sees later changes.

        Between the two, the store holds no lock that blocks a writer. Raises `Unsupported` if the
        store cannot see later changes.
        """
        ...


class WritableStore(Closing, Protocol):
    """A checkpoint store, opened for changes."""

    @property
    def removal_batch(self) -> RemovalBatch:
        """How much one call of `remove` best gets: large where it looks through the whole store."""
        ...

    @abstractmethod
    def apply(self, change: Change) -> None:
        """Apply a change in one transaction, whole or not at all.

        Raises `StoreChanged` if the thread changed since the change was planned, and
        `StoreUnavailable` if the lock cannot be acquired in a few seconds. Nothing is written then.
        """
        ...

    @property
    def applies_together(self) -> bool:
        """Whether `apply_all` applies changes of several threads in one transaction."""
        ...

    def apply_all(self, changes: Sequence[Change]) -> None:
        """Apply changes of different threads as `apply` does: all of them or none, if
        `applies_together`, and otherwise one after another.
        """
        ...

    @abstractmethod
    def remove(self, removals: Sequence[Removal]) -> list[Removed]:
        """Remove the named rows of some threads, in one transaction.

        A thread that changed since its removal was planned is skipped. If the engine has no
        transactions, the threads are removed one by one, and the next run completes an interrupted
        one. Raises `StoreUnavailable`; an engine with transactions has removed nothing then.
        """
        ...

    @abstractmethod
    def restore(self, rows: Iterable[Row]) -> Restored:
        """Restore rows of one thread, all of them or none; equal rows that exist are kept.

        Raises `StoreChanged` if a row exists with different contents, and `Unsupported` if the
        layout cannot store a row.
        """
        ...

    def receive(self, arrivals: Iterable[Arrival]) -> None:
        """Add the records of threads of another store, each thread whole or not at all.

        All in one transaction, if the engine has transactions; otherwise thread by thread, and what
        makes a thread visible to the saver comes last. None of the records is there yet. Raises
        `StoreChanged` if a thread has other heads than its arrival says, or a record is there all
        the same, and `Unsupported` if the layout cannot store a record.
        """
        ...

    def replace(self, thread_id: str, edits: Iterable[RowEdit]) -> None:
        """Replace the contents of rows of a thread: values, and their types.

        All in one transaction, if the engine has transactions; otherwise row by row. Raises
        `StoreChanged` if a row is not stored any more as it was read, and `Unsupported` if this
        kind of store cannot replace values. `edits` are read once, while they are written.
        """
        ...

    def vacuum(self) -> None:
        """Reclaim the space of removed rows, for example with VACUUM. This may take long."""
        ...

    def finish_removal(self) -> str:
        """Erase removed data from other places, such as the engine's log, after all removals.

        Returns a note about data that could not be erased, or `''`.
        """
        ...

    def begin_erasure(self) -> None:
        """Prepare to overwrite the old bytes of everything that is changed from now on.

        Called before the first removal of an erasure, if at all.
        """

    def erase_remains(self, *, rewrite: bool = False, progress: Progress = silent) -> Remains:
        """Do the most that the engine offers to erase what was removed or replaced before.

        Called once after all changes of an erasure, in place of `finish_removal`. With `rewrite`,
        tables are written anew, which may lock them for long. Names each place that may still hold
        removed data, also for a missing right or a busy reader. Raises `StoreUnavailable` only if
        the connection is lost.
        """
        ...


# Who is told about scans, which a store does that has no index of its threads.


class ScanObserver(Protocol):
    """Is told about scans: reads of a whole table, which take time and may cost money.

    All calls come from the thread that reads the store.
    """

    @abstractmethod
    def scanning(self, label: str, done: int, total: int | None) -> None:
        """A scan has read `done` rows of about `total`; `label` says of what, in a few words."""

    @abstractmethod
    def scanned(self, report: str) -> None:
        """A scan has ended, also after an error; `report` says what it read and what it cost."""


class SilentObserver:
    """A `ScanObserver` for a store that nobody observes."""

    def scanning(self, label: str, done: int, total: int | None) -> None:
        """Ignore the progress."""

    def scanned(self, report: str) -> None:
        """Ignore the report."""


# What `Store.checkpoints` and `Store.writes` are asked for, as one value.


class ReadOptions(TypedDict, total=False):
    """What is read of checkpoints: the keyword arguments of `Store.checkpoints_at`."""

    body: bool
    metadata: bool
    values: bool | Collection[str]


class CheckpointOptions(ReadOptions, total=False):
    """The keyword arguments of `Store.checkpoints`."""

    checkpoint_ns: str | None
    checkpoint_ids: Collection[str] | None


class WriteReadOptions(TypedDict, total=False):
    """Which writes are read, and whose values: the keyword arguments of `Store.writes_at`."""

    channels: Collection[str] | None
    values: bool | Collection[str]


class WriteOptions(WriteReadOptions, total=False):
    """The keyword arguments of `Store.writes`."""

    checkpoint_ns: str | None
    checkpoint_ids: Collection[str] | None


class CheckpointQuery(NamedTuple):
    """What `Store.checkpoints` was asked for, with its defaults."""

    checkpoint_ns: str | None = None
    checkpoint_ids: Collection[str] | None = None
    body: bool = False
    metadata: bool = False
    values: bool | Collection[str] = False


class WriteQuery(NamedTuple):
    """What `Store.writes` was asked for, with its defaults."""

    checkpoint_ns: str | None = None
    checkpoint_ids: Collection[str] | None = None
    channels: Collection[str] | None = None
    values: bool | Collection[str] = False
