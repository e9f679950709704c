"""Base classes of stores. They derive most methods of the protocols from a few abstract ones.

An adapter implements the abstract methods, and overrides others that its engine does better, such
as sums over an index instead of a read of every value.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from heapq import nsmallest
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ckpt_backends.errors import Closing, StoreUnavailable, Unsupported
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
    Thread,
    ThreadSize,
    TypedBytes,
    Usage,
    Write,
    silent,
    time_of,
)
from ckpt_backends.protocol import Store, WritableStore
from ckpt_backends.url import StoreUrl

if TYPE_CHECKING:
    from typing import Unpack

    from ckpt_backends.changes import Change, Remains, RemovalBatch
    from ckpt_backends.model import StoreInfo, ThreadBounds
    from ckpt_backends.protocol import (
        CheckpointOptions,
        ReadOptions,
        ScanObserver,
        WriteOptions,
        WriteReadOptions,
    )
    from ckpt_backends.rows import Row, RowEdit
    from ckpt_backends.transfer.copying import Arrival


_FEW = 8
"""Number of threads that are looked up one by one."""
_NEVER = datetime.min.replace(tzinfo=UTC)
_Column = tuple[str, str, str, str | None, str]
"""Table, column, namespace, channel and type of stored values; see `Usage`."""
Connection = TypeVar("Connection", bound=Any)


class OnConnection(Closing, Generic[Connection]):
    """Owns the connection to a store, which `close` ends."""

    def __init__(self, connection: Connection, url: StoreUrl) -> None:
        self._url = url
        self._open: Connection | None = connection

    def close(self) -> None:
        if self._open is not None:
            self._open.close()
            self._open = None

    @property
    def _connection(self) -> Connection:
        if self._open is None:
            raise StoreUnavailable(f"'{self._url}' is closed")
        return self._open


class BaseStore(Store):
    """A `Store` that needs five queries. Their promises are those of `ckpt_backends.protocol`."""

    sums_sizes: bool = False
    records_users: bool = False
    document_limit: int | None = None
    refuses_nul: bool = False
    batches_parts: bool = False
    columns: Mapping[str, Collection[str]] = MappingProxyType({})
    """By table, the columns that `rows` returns, with `thread_id` in each table. Archives can bring
    no other rows. Stores with other keys override `own_rows` and `row_key`."""
    heads_at_once: int | None = 500
    """For how many threads `threads_within` reads writes at once; None for all."""

    @property
    def keys_expire(self) -> bool:
        return type(self).expiries is not BaseStore.expiries

    @property
    def lists_by_scan(self) -> bool:
        return type(self).observe_scans is not BaseStore.observe_scans

    @property
    def capabilities(self) -> Capability:
        return self.describe().capabilities

    def notes(self) -> Sequence[str]:
        return ()

    def hidden_rows(self) -> Sequence[HiddenRows]:
        return ()

    def evicted(self) -> str:
        return ""

    def unloaded_heads(self, thread_ids: Collection[str]) -> dict[str, str]:  # noqa: ARG002
        return {}

    def with_named_values(
        self,
        checkpoint: Checkpoint,
        values: bool | Collection[str],  # noqa: ARG002
    ) -> Checkpoint:
        return checkpoint

    def observe_scans(self, observer: ScanObserver) -> None:
        """Nothing to do: threads are listed from an index."""

    def threads_within(self, bounds: ThreadBounds) -> Iterator[Thread]:
        listed = self._listed(bounds)
        if bounds.as_of is not None:
            listed = self._as_of(listed, bounds.as_of)
        found = filter(bounds.admits, listed)
        if bounds.head_channels is None:
            yield from found
        else:
            yield from with_head_writes(self, found, bounds.head_channels, self.heads_at_once)

    def _as_of(self, threads: Iterable[Thread], moment: datetime) -> list[Thread]:
        """These threads without checkpoints that are later, newest first."""
        found = []
        for one in threads:
            if one.last_at is not None and one.last_at <= moment:
                found.append(one)
                continue
            made = (
                (each, each.at or time_of(each.key.checkpoint_id))
                for each in self.checkpoints(one.thread_id)
            )
            earlier = thread_of(
                one.thread_id, [each for each, at in made if at is None or at <= moment], one.user
            )
            if earlier is not None:
                found.append(earlier)
        return sorted(found, key=lambda one: one.last_at or _NEVER, reverse=True)

    def _listed(self, bounds: ThreadBounds) -> Iterable[Thread]:
        """At least the threads within the bounds, newest first."""
        if bounds.ids is None or len(bounds.ids) > _FEW:
            return self.threads()
        found = [one for one in map(self.thread, sorted(bounds.ids)) if one is not None]
        return sorted(found, key=lambda one: one.last_at or _NEVER, reverse=True)

    def thread_ids(self, prefix: str, *, after: str = "", limit: int) -> Iterator[str]:
        ids = (one.thread_id for one in self.threads())
        yield from nsmallest(limit, (one for one in ids if one.startswith(prefix) and one > after))

    def thread(self, thread_id: str) -> Thread | None:
        return thread_of(thread_id, list(self.checkpoints(thread_id)))

    def size(self, thread_id: str) -> ThreadSize:
        (found,) = self.sizes([thread_id])
        return found

    def sizes(self, thread_ids: Sequence[str]) -> list[ThreadSize]:
        return list(map(self._summed, thread_ids))

    def _summed(self, thread_id: str) -> ThreadSize:
        checkpoints = writes = size = blobs = 0
        for _, one in self.checkpoint_sizes(thread_id):
            checkpoints += one.checkpoints
            writes += one.writes
            size += one.bytes
        for _, length in self.blobs(thread_id):
            blobs += 1
            size += length
        return ThreadSize(checkpoints, writes, size, blobs)

    def records_of(self, thread_ids: Sequence[str]) -> Iterator[Record]:
        from ckpt_backends.transfer.copying import records_of_rows

        for one in thread_ids:
            yield from records_of_rows(self._layout_name, self.rows(one))

    @cached_property
    def _layout_name(self) -> str:
        return self.describe().layout

    def threads_with_rows(self, thread_ids: Sequence[str]) -> set[str]:
        return {one for one in thread_ids if any(True for _ in self.rows(one))}

    def metadata_with(
        self, thread_ids: Sequence[str], key: str, *, newest: bool = False
    ) -> Iterator[Checkpoint]:
        for thread_id in thread_ids:
            yield from with_key(self.checkpoints(thread_id, metadata=True), key, newest=newest)

    def checkpoint_sizes(self, thread_id: str) -> Iterator[tuple[CheckpointKey, ThreadSize]]:
        for one in self.checkpoints(thread_id, body=True, metadata=True):
            yield one.key, ThreadSize(1, 0, _length(one.body) + _length(one.metadata))
        for write in self.writes(thread_id):
            yield write.key, ThreadSize(0, 1, write.size)

    def usage(self, thread_id: str | None = None) -> Iterator[Usage]:
        if thread_id is None:
            asked = sorted(one.thread_id for one in self.threads())
        else:
            asked = [thread_id]
        for one in asked:
            found: dict[_Column, list[int]] = {}
            for place, size in self._lengths(one):
                found.setdefault(place, []).append(size)
            for (table, column, ns, channel, tag), sizes in found.items():
                yield Usage(table, column, one, ns, channel, tag, len(sizes), sum(sizes))

    def _lengths(self, thread_id: str) -> Iterator[tuple[_Column, int]]:
        """Each stored value of a thread, with its length in bytes."""
        for one in self.checkpoints(thread_id, body=True, metadata=True):
            for column, value in (("checkpoint", one.body), ("metadata", one.metadata)):
                if value is not None:
                    ns = one.key.checkpoint_ns
                    yield ("checkpoints", column, ns, None, value.type), _length(value)
        for key, size in self.blobs(thread_id):
            yield ("blobs", "value", key.checkpoint_ns, key.channel, ""), size
        for write in self.writes(thread_id, values=True):
            tag = "" if write.value is None else write.value.type
            yield ("writes", "value", write.key.checkpoint_ns, write.channel, tag), write.size

    def namespaces(self, thread_id: str) -> list[str]:
        return sorted({one.key.checkpoint_ns for one in self.checkpoints(thread_id)})

    def checkpoints_at(
        self, keys: Sequence[CheckpointKey], **options: Unpack[ReadOptions]
    ) -> Iterator[Checkpoint]:
        for (thread_id, ns), ids in _by_namespace(keys).items():
            yield from self.checkpoints(thread_id, checkpoint_ns=ns, checkpoint_ids=ids, **options)

    def outlines_at(self, keys: Sequence[CheckpointKey]) -> Iterator[Outline]:
        for one in self.checkpoints_at(keys, body=True, metadata=True):
            yield Outline(one, (one.key,))

    def writes_at(
        self, keys: Sequence[CheckpointKey], **options: Unpack[WriteReadOptions]
    ) -> Iterator[Write]:
        for (thread_id, ns), ids in _by_namespace(keys).items():
            yield from self.writes(thread_id, checkpoint_ns=ns, checkpoint_ids=ids, **options)

    def blobs(self, thread_id: str) -> Iterator[tuple[BlobKey, int]]:  # noqa: ARG002
        """None: values are stored in bodies."""
        return iter(())

    def expiries(
        self,
        thread_id: str,  # noqa: ARG002
        checkpoint_ns: str,  # noqa: ARG002
        checkpoint_ids: Collection[str],  # noqa: ARG002
    ) -> Iterator[Expiry]:
        """None: nothing expires."""
        return iter(())

    def expiry_times(self, keys: Sequence[CheckpointKey]) -> dict[CheckpointKey, datetime]:
        return {
            one.key: one.at
            for (thread_id, ns), ids in _by_namespace(keys).items()
            for one in self.expiries(thread_id, ns, ids)
            if one.at is not None
        }

    def threads_that_may_hold(
        self,
        thread_ids: Sequence[str],
        texts: Collection[str],  # noqa: ARG002
        *,
        ignore_case: bool = False,  # noqa: ARG002
    ) -> set[str]:
        return set(thread_ids)

    def own_rows(self, thread_id: str, rows: Iterable[Row]) -> Iterator[Row]:
        # Here and below, since reading needs no archives.
        from ckpt_backends.rows import own_rows

        return own_rows(thread_id, rows, self.columns)

    def row_key(self, row: Row) -> Hashable:
        from ckpt_backends.rows import sql_key

        return sql_key(row)

    def sources(self, key: CheckpointKey) -> list[str]:
        place, found = key._asdict(), []
        for table, columns in self.columns.items():
            known = [f"{name} = {_literal(one)}" for name, one in place.items() if name in columns]
            found.append(f"SELECT * FROM {table} WHERE {' AND '.join(known)}")
        return found

    def faults(self) -> Iterator[Fault]:
        return iter(())

    def damage(self, *, whole: bool) -> Iterator[Fault]:  # noqa: ARG002
        return iter(())

    def thread_faults(self, thread_id: str) -> Iterator[Fault]:  # noqa: ARG002
        return iter(())

    def faults_of(self, thread_ids: Collection[str]) -> dict[str, list[Fault]]:
        return {one: list(self.thread_faults(one)) for one in thread_ids}

    def suspect_threads(self) -> Iterator[str]:
        return (one.thread_id for one in self.threads())

    def refresh(self) -> None:
        """Nothing to do: each read sees the present state."""


class BaseWritableStore(WritableStore):
    """A `WritableStore` without a place where removed data may be left."""

    @property
    def removal_batch(self) -> RemovalBatch:
        # Late: only writers remove, and all stores load this module.
        from ckpt_backends.changes import RemovalBatch

        return RemovalBatch()

    @property
    def applies_together(self) -> bool:
        return False

    def apply_all(self, changes: Sequence[Change]) -> None:
        for one in changes:
            self.apply(one)

    def receive(self, arrivals: Iterable[Arrival]) -> None:  # noqa: ARG002
        raise Unsupported("threads cannot be copied into this kind of store")

    def replace(self, thread_id: str, edits: Iterable[RowEdit]) -> None:  # noqa: ARG002
        raise Unsupported("values cannot be replaced in this kind of store")

    def vacuum(self) -> None:
        raise Unsupported(
            "this kind of store cannot be vacuumed", hint="run the command without --vacuum"
        )

    def finish_removal(self) -> str:
        return ""

    def begin_erasure(self) -> None:
        """Nothing to prepare."""

    def erase_remains(self, *, rewrite: bool = False, progress: Progress = silent) -> Remains:  # noqa: ARG002
        from ckpt_backends.changes import UNKNOWN_REMAINS

        return UNKNOWN_REMAINS


def thread_of(
    thread_id: str, checkpoints: Sequence[Checkpoint], user: str | None = None
) -> Thread | None:
    """The thread of these checkpoints, each namespace's newest first; None if there are none."""
    if not checkpoints:
        return None
    head = next((key.checkpoint_id for key, *_ in checkpoints if not key.checkpoint_ns), None)
    times = [one.at for one in checkpoints if one.at is not None]
    ids = [one.key.checkpoint_id for one in checkpoints]
    ages = times if len(times) == len(ids) else ids
    spaces = {one.key.checkpoint_ns for one in checkpoints}
    return Thread(thread_id, head, min(ages), max(ages), len(ids), len(spaces), user)


@dataclass(slots=True)
class ThreadSum:
    """What is known of a thread so far. Ids are in the order of time."""

    head: str | None = None
    oldest: str = ""
    newest: str = ""
    checkpoints: int = 0
    namespaces: set[str] = field(default_factory=set)

    def add(self, key: CheckpointKey) -> None:
        """Count a checkpoint."""
        _, ns, checkpoint_id = key
        if not self.checkpoints:
            self.oldest = self.newest = checkpoint_id
        self.oldest = min(self.oldest, checkpoint_id)
        self.newest = max(self.newest, checkpoint_id)
        self.checkpoints += 1
        self.namespaces.add(ns)
        if not ns and (self.head is None or self.head < checkpoint_id):
            self.head = checkpoint_id

    def thread(self, thread_id: str) -> Thread:
        """The thread of these checkpoints, of which there is at least one."""
        return Thread(
            thread_id, self.head, self.oldest, self.newest, self.checkpoints, len(self.namespaces)
        )


def with_key(checkpoints: Iterable[Checkpoint], key: str, *, newest: bool) -> Iterator[Checkpoint]:
    """Those of one thread's checkpoints whose metadata have a key, or the newest of these."""
    # Late: few commands ask for a key.
    from ckpt_backends.codec import decode

    def has_key(one: Checkpoint) -> bool:
        found = None if one.metadata is None else decode(one.metadata)
        return isinstance(found, dict) and key in found

    found = filter(has_key, checkpoints)
    if not newest:
        yield from found
    elif (last := max(found, key=lambda one: one.key.checkpoint_id, default=None)) is not None:
        yield last


def with_head_writes(
    store: Store, threads: Iterable[Thread], channels: Collection[str], at_once: int | None = 500
) -> Iterator[Thread]:
    """Those of these threads that have a write on one of the channels at their root head.

    Reads the writes of so many heads at once; None for all.
    """
    remaining = iter(threads)
    while some := list(islice(remaining, at_once)):
        keys = [CheckpointKey(one.thread_id, "", one.head) for one in some if one.head is not None]
        found = store.writes_at(keys, channels=channels) if keys else ()
        having = {write.key.thread_id for write in found}
        yield from (one for one in some if one.thread_id in having)


def _literal(text: str) -> str:
    """A text in SQL."""
    return "'" + text.replace("'", "''") + "'"


def _length(value: TypedBytes | None) -> int:
    """The stored length of a value, also of one that was too long to read."""
    if value is None:
        return 0
    return len(value.data) if value.whole is None else value.whole


def _by_namespace(keys: Sequence[CheckpointKey]) -> Mapping[tuple[str, str], list[str]]:
    """The ids of checkpoints by thread and namespace."""
    found: dict[tuple[str, str], list[str]] = {}
    for key in keys:
        found.setdefault((key.thread_id, key.checkpoint_ns), []).append(key.checkpoint_id)
    return found


# A store that passes every call to another store: the base class of wrappers.


if TYPE_CHECKING:
    _Passing = BaseStore
else:
    # Without the methods of `BaseStore`, so that those of the other store are found.
    _Passing = Closing


class WrappedStore(_Passing):
    """Passes every call to `inner`. Subclasses override some methods."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            return getattr(self.inner, name)

    def describe(self) -> StoreInfo:
        return self.inner.describe()

    def threads(self, *, limit: int | None = None) -> Iterator[Thread]:
        return self.inner.threads(limit=limit)

    def checkpoints(
        self, thread_id: str, **options: Unpack[CheckpointOptions]
    ) -> Iterator[Checkpoint]:
        return self.inner.checkpoints(thread_id, **options)

    def writes(self, thread_id: str, **options: Unpack[WriteOptions]) -> Iterator[Write]:
        return self.inner.writes(thread_id, **options)

    def rows(self, thread_id: str) -> Iterator[Row]:
        return self.inner.rows(thread_id)

    def close(self) -> None:
        self.inner.close()


Wrapper = TypeVar("Wrapper", bound=WrappedStore)


def wrapper_of(store: Store, kind: type[Wrapper]) -> Wrapper | None:
    """Return the wrapper of this kind around a store; None if there is none."""
    found = store
    while isinstance(found, WrappedStore):
        if isinstance(found, kind):
            return found
        found = found.inner
    return None
