"""A store that passes every call to another store: the base class of wrappers."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from ckpt_backends.closing import Closing

if TYPE_CHECKING:
    from datetime import datetime
    from typing import Unpack

    from ckpt_backends.changes.rows import Row
    from ckpt_backends.model import (
        BlobKey,
        Capability,
        Checkpoint,
        CheckpointKey,
        Expiry,
        Fault,
        HiddenRows,
        Outline,
        StoreInfo,
        Thread,
        ThreadSize,
        Usage,
        Write,
    )
    from ckpt_backends.protocol import Store
    from ckpt_backends.read_options import CheckpointOptions, WriteOptions
    from ckpt_backends.scan_observer import ScanObserver
    from ckpt_backends.thread_bounds import ThreadBounds
    from ckpt_backends.transfer.parts import Part


class WrappedStore(Closing):
    """Passes every call to `inner`. Subclasses override some methods."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.sums_sizes = inner.sums_sizes
        self.batches_parts = inner.batches_parts
        self.keys_expire = inner.keys_expire
        self.lists_by_scan = inner.lists_by_scan

    def describe(self) -> StoreInfo:
        return self.inner.describe()

    @property
    def capabilities(self) -> Capability:
        return self.inner.capabilities

    def notes(self) -> Sequence[str]:
        return self.inner.notes()

    def hidden_rows(self) -> Sequence[HiddenRows]:
        return self.inner.hidden_rows()

    def evicted(self) -> str:
        return self.inner.evicted()

    def observe_scans(self, observer: ScanObserver) -> None:
        self.inner.observe_scans(observer)

    def threads(self, *, limit: int | None = None) -> Iterator[Thread]:
        return self.inner.threads(limit=limit)

    def threads_within(self, bounds: ThreadBounds) -> Iterator[Thread]:
        return self.inner.threads_within(bounds)

    def thread_ids(self, prefix: str, *, after: str = "", limit: int) -> Iterator[str]:
        return self.inner.thread_ids(prefix, after=after, limit=limit)

    def thread(self, thread_id: str) -> Thread | None:
        return self.inner.thread(thread_id)

    def size(self, thread_id: str) -> ThreadSize:
        return self.inner.size(thread_id)

    def sizes(self, thread_ids: Sequence[str]) -> list[ThreadSize]:
        return self.inner.sizes(thread_ids)

    def checkpoint_sizes(self, thread_id: str) -> Iterator[tuple[CheckpointKey, ThreadSize]]:
        return self.inner.checkpoint_sizes(thread_id)

    def usage(self, thread_id: str | None = None) -> Iterator[Usage]:
        return self.inner.usage(thread_id)

    def namespaces(self, thread_id: str) -> list[str]:
        return self.inner.namespaces(thread_id)

    def checkpoints(
        self, thread_id: str, **options: Unpack[CheckpointOptions]
    ) -> Iterator[Checkpoint]:
        return self.inner.checkpoints(thread_id, **options)

    def writes(self, thread_id: str, **options: Unpack[WriteOptions]) -> Iterator[Write]:
        return self.inner.writes(thread_id, **options)

    def checkpoints_at(
        self,
        keys: Sequence[CheckpointKey],
        *,
        body: bool = False,
        metadata: bool = False,
        values: bool | Collection[str] = False,
    ) -> Iterator[Checkpoint]:
        return self.inner.checkpoints_at(keys, body=body, metadata=metadata, values=values)

    def outlines_at(self, keys: Sequence[CheckpointKey]) -> Iterator[Outline]:
        return self.inner.outlines_at(keys)

    def writes_at(
        self,
        keys: Sequence[CheckpointKey],
        *,
        channels: Collection[str] | None = None,
        values: bool | Collection[str] = False,
    ) -> Iterator[Write]:
        return self.inner.writes_at(keys, channels=channels, values=values)

    def blobs(self, thread_id: str) -> Iterator[tuple[BlobKey, int]]:
        return self.inner.blobs(thread_id)

    def expiries(
        self, thread_id: str, checkpoint_ns: str, checkpoint_ids: Collection[str]
    ) -> Iterator[Expiry]:
        return self.inner.expiries(thread_id, checkpoint_ns, checkpoint_ids)

    def expiry_times(self, keys: Sequence[CheckpointKey]) -> dict[CheckpointKey, datetime]:
        return self.inner.expiry_times(keys)

    def rows(self, thread_id: str) -> Iterator[Row]:
        return self.inner.rows(thread_id)

    def parts_of(self, thread_ids: Sequence[str]) -> Iterator[Part]:
        return self.inner.parts_of(thread_ids)

    def cells_of(self, thread_ids: Sequence[str]) -> Iterator[Sequence[object]]:
        return self.inner.cells_of(thread_ids)

    def threads_with_rows(self, thread_ids: Sequence[str]) -> set[str]:
        return self.inner.threads_with_rows(thread_ids)

    def threads_that_may_hold(
        self, thread_ids: Sequence[str], texts: Collection[str], *, ignore_case: bool = False
    ) -> set[str]:
        return self.inner.threads_that_may_hold(thread_ids, texts, ignore_case=ignore_case)

    def own_rows(self, thread_id: str, rows: Iterable[Row]) -> Iterator[Row]:
        return self.inner.own_rows(thread_id, rows)

    def row_key(self, row: Row) -> Hashable:
        return self.inner.row_key(row)

    def sources(self, key: CheckpointKey) -> list[str]:
        return self.inner.sources(key)

    def faults(self) -> Iterator[Fault]:
        return self.inner.faults()

    def damage(self, *, whole: bool) -> Iterator[Fault]:
        return self.inner.damage(whole=whole)

    def thread_faults(self, thread_id: str) -> Iterator[Fault]:
        return self.inner.thread_faults(thread_id)

    def faults_of(self, thread_ids: Collection[str]) -> dict[str, list[Fault]]:
        return self.inner.faults_of(thread_ids)

    def suspect_threads(self) -> Iterator[str]:
        return self.inner.suspect_threads()

    def unloaded_heads(self, thread_ids: Collection[str]) -> dict[str, str]:
        return self.inner.unloaded_heads(thread_ids)

    def refresh(self) -> None:
        self.inner.refresh()

    def close(self) -> None:
        self.inner.close()
