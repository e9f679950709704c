"""What every store promises. Each sentence here has a test in `tests/conformance`.

A `Store` is read-only: it has no method that changes anything, and it asks the engine to refuse
writes too. Commands that change a thread open a `WritableStore` besides it.
Streams are iterators from the engine to the screen; nothing collects a whole store.
No method imports or calls anything that a store names, and values are not decoded, except to find
out how a store keeps them.
Driver exceptions never leave an adapter; they are raised as `ckpt_backends.errors`.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from types import TracebackType
from typing import ClassVar, Protocol, Self

from ckpt_backends.change import Change
from ckpt_backends.model import (
    BlobKey,
    Checkpoint,
    CheckpointKey,
    StoreInfo,
    Thread,
    ThreadSize,
    Usage,
    Write,
)
from ckpt_backends.removal import Removal, Removed
from ckpt_backends.rows import Restored, Row
from ckpt_backends.url import StoreUrl


class Store(Protocol):
    """A checkpoint store, opened for reading. Not safe to share between threads."""

    def describe(self) -> StoreInfo:
        """The layout, size and capabilities of the store; reads at most one checkpoint."""
        ...

    def notes(self) -> Sequence[str]:
        """Notes for everyone who reads the store; reads no row."""
        ...

    def threads(self, *, limit: int | None = None) -> Iterator[Thread]:
        """All threads, the one with the newest checkpoint first, from the index alone.

        Threads of equal age are ordered by id. With `limit`, only that many.
        """
        ...

    def thread(self, thread_id: str) -> Thread | None:
        """One thread, or None if the store has no checkpoint of that id."""
        ...

    def size(self, thread_id: str) -> ThreadSize:
        """The size of a thread; all zero if it does not exist."""
        ...

    def sizes(self, thread_ids: Sequence[str]) -> list[ThreadSize]:
        """The sizes of some hundred threads at once, in the given order."""
        ...

    def checkpoint_sizes(self, thread_id: str) -> Iterator[tuple[CheckpointKey, ThreadSize]]:
        """What each checkpoint of a thread takes with its writes, counted as in `size`.

        In no order, and one may come in several parts. Writes come also where their checkpoint is
        missing. With the sizes of `blobs` they add up to `size`.
        """
        ...

    def usage(self, thread_id: str | None = None) -> Iterator[Usage]:
        """The space that each thread, or one thread, uses, ordered by thread id.

        The engine sums up stored lengths. The bytes of a thread add up to those of `size`, unless
        other threads share them.
        """
        ...

    def namespaces(self, thread_id: str) -> list[str]:
        """The namespaces of a thread, ordered by name; the root is `''`."""
        ...

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

        If the layout's own saver orders by the time of storing, so does this.

        All namespaces, one after the other, unless `checkpoint_ns` names one. With
        `checkpoint_ids` only those; ids that are not there are left out. Bodies and metadata
        are read only where asked for.

        Where values are kept apart from bodies, each body comes with the type and size of all
        of them, and with LangGraph's own: those whose names begin with `__`, `branch:`, `join:` or
        `start:`, but for `model.USERS`. `values` tells whether the others are read too, or names
        the channels whose values are.
        """
        ...

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

        In the order (namespace, checkpoint id, task path, task id, idx). Where the layout's own
        saver goes by the order of arrival instead, those of a checkpoint come in that; where the
        layout stores the time of each (`Write.at`), in the order of that time, task id and idx.
        `values` tells whether values are read, or names the channels whose values are.
        """
        ...

    def checkpoints_at(
        self, keys: Sequence[CheckpointKey], *, body: bool = False, metadata: bool = False
    ) -> Iterator[Checkpoint]:
        """Some hundred checkpoints of any threads at once, each as `checkpoints` gives it.

        In no order; what is not there is left out.
        """
        ...

    def writes_at(
        self,
        keys: Sequence[CheckpointKey],
        *,
        channels: Collection[str] | None = None,
        values: bool | Collection[str] = False,
    ) -> Iterator[Write]:
        """The writes of these checkpoints, filtered and read as in `writes`.

        Those of one checkpoint come in the order of `writes`, checkpoints in none.
        """
        ...

    def blobs(self, thread_id: str) -> Iterator[tuple[BlobKey, int]]:
        """The values of a thread that are kept apart from bodies, with their sizes as stored.

        Whether a checkpoint names them or not; none where values stand in the bodies, or have no
        version, as in shallow layouts. A value that is stored in several rows comes once for each.
        """
        ...

    def rows(self, thread_id: str) -> Iterator[Row]:
        """All rows of a thread as they are stored, of any size, one in memory at a time.

        Those that other rows need come first, checkpoints last.
        """
        ...

    def row_key(self, row: Row) -> Hashable:
        """What tells a row from all others, so that an archived row finds the one that exists."""
        ...

    def sources(self, key: CheckpointKey) -> list[str]:
        """Queries or keys that a person can use to find a checkpoint and its writes."""
        ...

    def refresh(self) -> None:
        """End the snapshot: the next read begins a new one.

        Until then the store holds no lock that a writer would wait for. Raises `Unsupported` if
        the store cannot see later changes.
        """
        ...

    def close(self) -> None:
        """Close the connection; closing twice is allowed."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class WritableStore(Protocol):
    """A checkpoint store, opened for changes."""

    def apply(self, change: Change) -> None:
        """Apply a change in one transaction, whole or not at all.

        Raises `StoreChanged` if the thread changed since the change was planned, and
        `StoreUnavailable` if the lock cannot be acquired within some seconds; nothing is written
        then.
        """
        ...

    def remove(self, removals: Sequence[Removal]) -> list[Removed]:
        """Remove the named rows of some threads, in one transaction.

        A thread that changed since its removal was planned is skipped. Without transactions, the
        threads are removed one by one, and the next run finishes what a broken run left. Raises
        `StoreUnavailable`; with transactions nothing is removed then.
        """
        ...

    def restore(self, rows: Iterable[Row]) -> Restored:
        """Restore rows of one thread, all of them or none; equal rows that exist are kept.

        Raises `StoreChanged` if a row exists with other contents, and `Unsupported` if the layout
        has no place for it.
        """
        ...

    def vacuum(self) -> None:
        """Reclaim the space of removed rows, such as by VACUUM; may take long."""
        ...

    def close(self) -> None:
        """Close the connection; closing twice is allowed."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...


class Backend(Protocol):
    """The adapter for a family of layouts."""

    schemes: ClassVar[tuple[str, ...]]
    """URL schemes that it opens, the usual one first."""

    @classmethod
    def open(cls, url: StoreUrl) -> Store:
        """Open for reading; never creates anything.

        Raises `StoreUnavailable` or `UnknownLayout`.
        """
        ...

    @classmethod
    def open_writable(cls, url: StoreUrl) -> WritableStore:
        """Open for changes; never creates a store or alters its tables.

        Raises `StoreUnavailable`, `UnknownLayout` for tables of an unknown, newer saver, or
        `Unsupported` if the layout cannot hold what a change adds.
        """
        ...
