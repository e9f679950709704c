"""Reads the documents of `FirestoreSaver`.

A command on one thread queries the documents of that thread, by the names of the partitions. There
is no index of threads: listing them reads the keys of all checkpoints.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from typing import Any, Unpack

from ckpt_backends.base import BaseStore, OnConnection, ThreadSum
from ckpt_backends.errors import UnknownLayout
from ckpt_backends.firestore.connect import FirestoreConnection
from ckpt_backends.firestore.declaration import BACKEND
from ckpt_backends.firestore.records import (
    COLUMNS,
    PLACE,
    document_of,
    is_id,
    key_of,
    metadata_of,
    path_of,
    row_of_document,
    typed,
)
from ckpt_backends.model import (
    Checkpoint,
    CheckpointKey,
    StoreInfo,
    Thread,
    Usage,
    Write,
    in_chunks,
)
from ckpt_backends.objects import CHECKPOINTS, PARENT, WRITES
from ckpt_backends.protocol import (
    CheckpointOptions,
    CheckpointQuery,
    ReadOptions,
    ScanObserver,
    SilentObserver,
    Store,
    WriteOptions,
    WriteQuery,
    WriteReadOptions,
)
from ckpt_backends.rows import Cell, Row
from ckpt_backends.servers import STORE, checked, opening, understanding
from ckpt_backends.url import StoreUrl

_REMEMBERED, _AT_ONCE = 200, 16
"""Threads whose keys are kept, and documents or queries that are asked for together."""
_TOLD = 1000
"""Documents of a scan after which its observer is told."""


@checked(*STORE)
class FirestoreStore(OnConnection[FirestoreConnection], BaseStore):
    """A collection, opened for reading."""

    columns = COLUMNS

    def __init__(self, connection: FirestoreConnection, url: StoreUrl) -> None:
        super().__init__(connection, url)
        self._known: dict[str, dict[CheckpointKey, str | None]] = {}
        self._threads: list[Thread] | None = None
        self._observer: ScanObserver = SilentObserver()

    def observe_scans(self, observer: ScanObserver) -> None:
        self._observer = observer

    def refresh(self) -> None:
        self._connection.refresh()
        self._known.clear()
        self._threads = None

    def describe(self) -> StoreInfo:
        return StoreInfo(
            layout="firestore",
            url=str(self._url),
            engine="Google Cloud Firestore",
            saver="langgraph-checkpoint-firestore, FirestoreSaver",
            capabilities=BACKEND.layouts["firestore"],
            tables=(self._connection.collection,),
            size=None,
        )

    # Threads

    def _scan(self, group: str) -> Iterator[tuple[CheckpointKey, Any]]:
        """All checkpoints, or those of all writes, while the observer is told."""
        label, number = f"reading the keys of all {group}", 0
        self._observer.scanning(label, 0, None)
        try:
            for one in self._connection.all(group, [PLACE]):
                number += 1
                if number % _TOLD == 0:
                    self._observer.scanning(label, number, None)
                yield key_of(one.reference.path, one.to_dict().get(PLACE)), one
        finally:
            self._observer.scanned(f"read the keys of {number:,} {group}")

    def threads(self, *, limit: int | None = None) -> Iterator[Thread]:
        if self._threads is None:
            found: dict[str, ThreadSum] = {}
            for key, _ in self._scan(CHECKPOINTS):
                found.setdefault(key.thread_id, ThreadSum()).add(key)
            ordered = sorted(sorted(found.items()), key=lambda one: one[1].newest, reverse=True)
            self._threads = [one.thread(thread_id) for thread_id, one in ordered]
        yield from self._threads[:limit]

    def suspect_threads(self) -> Iterator[str]:
        found = {one.thread_id for one in self.threads()}
        # Whoever removes a checkpoint in the console leaves its writes.
        yield from sorted(found.union(key.thread_id for key, _ in self._scan(WRITES)))

    def usage(self, thread_id: str | None = None) -> Iterator[Usage]:
        for one in self.suspect_threads() if thread_id is None else [thread_id]:
            yield from super().usage(one)

    def threads_with_rows(self, thread_ids: Sequence[str]) -> set[str]:
        return {one for one in thread_ids if self.keys(one) or any(self._named(WRITES, one))}

    def _named(
        self, group: str, thread_id: str, ns: str | None = None, fields: Collection[str] = (PLACE,)
    ) -> Iterator[tuple[CheckpointKey, Any]]:
        """The documents of a thread, each with its checkpoint; all fields if none are given."""
        for one in self._connection.of_thread(group, thread_id, ns, fields):
            key = key_of(one.reference.path, one.to_dict().get(PLACE))
            if key.thread_id == thread_id and ns in (None, key.checkpoint_ns):
                yield key, one

    def keys(self, thread_id: str) -> dict[CheckpointKey, str | None]:
        """The checkpoints of a thread by namespace, the newest id first, each with its parent."""
        if thread_id not in self._known:
            while len(self._known) >= _REMEMBERED:
                del self._known[next(iter(self._known))]
            found = [
                (key, _parent(one))
                for key, one in self._named(CHECKPOINTS, thread_id, fields=(PLACE, PARENT))
            ]
            found.sort(key=lambda one: one[0].checkpoint_id, reverse=True)
            self._known[thread_id] = dict(sorted(found, key=lambda one: one[0].checkpoint_ns))
        return self._known[thread_id]

    def written(self, thread_id: str) -> Iterator[tuple[str, Mapping[str, Cell]]]:
        """The writes of a thread, each with its path and the cells of its key."""
        for key, one in self._named(WRITES, thread_id, fields=(PLACE, "task_id", "idx")):
            task_id, idx = _task(one.to_dict())
            yield one.reference.path, {**key._asdict(), "task_id": task_id, "idx": idx}

    # Checkpoints and writes

    def checkpoints(
        self, thread_id: str, **options: Unpack[CheckpointOptions]
    ) -> Iterator[Checkpoint]:
        asked, known = CheckpointQuery(**options), self.keys(thread_id)
        chosen = [one for one in known if _takes(asked, one)]
        if asked.body or asked.metadata:
            yield from self._load(chosen, asked)
        else:
            yield from (Checkpoint(one, known[one]) for one in chosen)

    def checkpoints_at(
        self, keys: Sequence[CheckpointKey], **options: Unpack[ReadOptions]
    ) -> Iterator[Checkpoint]:
        yield from self._load(keys, CheckpointQuery(**options))

    def _load(self, keys: Iterable[CheckpointKey], asked: CheckpointQuery) -> Iterator[Checkpoint]:
        fields = [PARENT, *(("type", "checkpoint") if asked.body else ())]
        fields += ["metadata"] if asked.metadata else []
        for some in in_chunks(filter(_can_be, keys), _AT_ONCE):
            paths = {"/".join(path_of(one._asdict())): one for one in some}
            found = self._connection.get(map(path_of, (one._asdict() for one in some)), fields)
            by_path = {one.reference.path.partition("/")[2]: one for one in found}
            for path, key in paths.items():
                if (one := by_path.get(path)) is not None:
                    stored = one.to_dict()
                    body = typed(stored.get("type"), stored.get("checkpoint"))
                    yield Checkpoint(
                        key,
                        _parent(one),
                        body if asked.body else None,
                        metadata_of(stored) if asked.metadata else None,
                    )

    def writes(self, thread_id: str, **options: Unpack[WriteOptions]) -> Iterator[Write]:
        asked = WriteQuery(**options)
        ns, ids = asked.checkpoint_ns, asked.checkpoint_ids
        if ns is not None and ids is not None:
            yield from self._of_each(
                [CheckpointKey(thread_id, ns, one) for one in sorted(ids)], asked
            )
            return
        found = self._named(WRITES, thread_id, ns, ())
        for key, some in groupby(found, lambda one: one[0]):
            if _takes(asked, key):
                yield from _ordered(key, (one for _, one in some), asked)

    def writes_at(
        self, keys: Sequence[CheckpointKey], **options: Unpack[WriteReadOptions]
    ) -> Iterator[Write]:
        yield from self._of_each(keys, WriteQuery(**options))

    def _of_each(self, keys: Sequence[CheckpointKey], asked: WriteQuery) -> Iterator[Write]:
        def ask(key: CheckpointKey) -> list[Write]:
            found = self._connection.document(*path_of(key._asdict())).collection(WRITES)
            return list(_ordered(key, self._connection.stream(found), asked))

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            for some in in_chunks(filter(_can_be, keys), _AT_ONCE):
                for writes in pool.map(ask, some):
                    yield from writes

    def rows(self, thread_id: str) -> Iterator[Row]:
        for group in COLUMNS:
            for _, one in self._named(group, thread_id, fields=()):
                yield row_of_document(one.reference.path, one.to_dict())

    def own_rows(self, thread_id: str, rows: Iterable[Row]) -> Iterator[Row]:
        for row in super().own_rows(thread_id, rows):
            path_of(row.cells)
            document_of(row)
            yield row

    def sources(self, key: CheckpointKey) -> list[str]:
        found = self._connection
        start = f"projects/{found.project}/databases/{found.database}/documents/{found.collection}"
        path = "/".join([start, *path_of(key._asdict())])
        return [path, f"{path}/{WRITES}"]


def _takes(asked: CheckpointQuery | WriteQuery, key: CheckpointKey) -> bool:
    ns, ids = asked.checkpoint_ns, asked.checkpoint_ids
    return ns in (None, key.checkpoint_ns) and (ids is None or key.checkpoint_id in ids)


def _can_be(key: CheckpointKey) -> bool:
    """Whether there can be a document of a checkpoint."""
    return is_id(f"{key.thread_id}_{key.checkpoint_ns}") and is_id(key.checkpoint_id)


def _parent(document: Any) -> str | None:
    found = document.to_dict().get(PARENT)
    return found if isinstance(found, str) and found else None


def _task(fields: Mapping[str, Any]) -> tuple[str, int]:
    """The task id and idx of a write."""
    idx = fields.get("idx")
    return str(fields.get("task_id")), idx if isinstance(idx, int) else 0


def _ordered(key: CheckpointKey, found: Iterable[Any], asked: WriteQuery) -> Iterator[Write]:
    """The writes of a checkpoint in the order of the protocol."""
    made = []
    for one in found:
        fields = one.to_dict()
        channel, (task_id, idx) = str(fields.get("channel")), _task(fields)
        if asked.channels is None or channel in asked.channels:
            is_read = asked.values if isinstance(asked.values, bool) else channel in asked.values
            value = typed(fields.get("type"), fields.get("value"))
            made.append(
                Write(
                    key,
                    task_id,
                    str(fields.get("task_path", "")),
                    idx,
                    channel,
                    len(value.data),
                    value if is_read else None,
                )
            )
    yield from sorted(made, key=lambda one: (one.task_path, one.task_id, one.idx))


def open_store(url: StoreUrl) -> Store:
    """Open for reading. Raises `UsageError`, `StoreUnavailable` or `UnknownLayout`."""
    with opening(FirestoreConnection(url), url) as connection:
        return understanding(opened(connection, url), url)


def opened(connection: FirestoreConnection, url: StoreUrl) -> FirestoreStore:
    """The store of a collection, which is empty or has checkpoints."""
    others = connection.client.collection(connection.collection).limit(1)
    if any(connection.stream(others)) and not any(connection.all(CHECKPOINTS, [PLACE])):
        raise UnknownLayout(
            f"no checkpoints of FirestoreSaver in '{url}': its collection has other documents",
            hint="name the collection of the saver: ?collection=NAME",
        )
    return FirestoreStore(connection, url)
