"""Reads the layout of `DynamoDBSaver` of `langgraph-checkpoint-aws` 1.2.

A command on one thread queries the partitions of that thread. Only listing all threads needs a scan
of the table. DynamoDB has no snapshots: what was listed is cached until `refresh`.

The head is the checkpoint with the greatest id, also if its payload is missing. The saver stores
the item first and the payload next. Where the payload of the newest checkpoint is missing, it
silently loads the checkpoint before it. A head that is not the newest one would hide this too. So
the newest one stays the head, and the `problem` of its body says what the saver loads.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import Unpack

from ckpt_backends import shell
from ckpt_backends.base import BaseStore, OnConnection
from ckpt_backends.changes.rows import Row
from ckpt_backends.dynamodb.archive import (
    CHECKPOINTS,
    WRITES,
    checked_rows,
    checkpoint_row,
    write_row,
)
from ckpt_backends.dynamodb.connect import DynamoConnection, key_attributes
from ckpt_backends.dynamodb.faults import expiry_faults, has_contradiction, table_faults
from ckpt_backends.dynamodb.index import DynamoIndex
from ckpt_backends.dynamodb.items import (
    CHUNK_SORT,
    IN_TABLE,
    CheckpointItem,
    WriteItem,
    checkpoint_place,
    chunk_of,
    is_partition,
    moment,
    writes_partition,
)
from ckpt_backends.dynamodb.layers import METADATA, split_payload
from ckpt_backends.dynamodb.listing import SilentObserver, scan_orphans, scan_threads, thread_of
from ckpt_backends.dynamodb.payloads import StoredPayload, payloads, sizes_of, value_of
from ckpt_backends.model import (
    Capability,
    Checkpoint,
    CheckpointKey,
    Expiry,
    Fault,
    StoreInfo,
    Thread,
    ThreadSize,
    TypedBytes,
    Usage,
    Write,
)
from ckpt_backends.read_options import CheckpointOptions, CheckpointQuery, WriteOptions, WriteQuery
from ckpt_backends.scan_observer import ScanObserver
from ckpt_backends.servers.answer_types import STORE, checked
from ckpt_backends.url import StoreUrl

_PARTITIONS_AT_ONCE = 64
_Column = tuple[str, str, str, str | None, str]


@checked(*STORE)
class DynamoStore(OnConnection[DynamoConnection], BaseStore):
    """A table, opened for reading."""

    keys_expire = True
    lists_by_scan = True

    def __init__(self, connection: DynamoConnection, url: StoreUrl) -> None:
        super().__init__(connection, url)
        self._index = DynamoIndex(connection)
        self._observer: ScanObserver = SilentObserver()
        self._there: dict[CheckpointKey, bool] = {}
        """Whether the payloads exist that were looked for, because another one is missing."""
        self._threads: list[Thread] | None = None
        self._all_ids: list[str] | None = None
        """The ids of all threads, also of those with nothing but writes."""

    def observe_scans(self, observer: ScanObserver) -> None:
        self._observer = observer

    def describe(self) -> StoreInfo:
        about = self._connection.about
        items, size = about.get("ItemCount"), about.get("TableSizeBytes")
        told = f" (about {items:,} items)" if isinstance(items, int) else ""
        return StoreInfo(
            layout="dynamodb",
            url=str(self._url),
            engine=f"Amazon DynamoDB{told}",
            saver="langgraph-checkpoint-aws, DynamoDBSaver",
            capabilities=_CAPABILITIES,
            tables=(self._connection.table,),
            # An estimate that DynamoDB updates every six hours.
            size=size if isinstance(size, int) and size > 0 else None,
        )

    # Threads

    def threads(self, *, limit: int | None = None) -> Iterator[Thread]:
        if self._threads is None:
            self._threads = scan_threads(self._connection, self._observer)
        yield from self._threads[:limit]

    def thread(self, thread_id: str) -> Thread | None:
        return thread_of(thread_id, (one.key for one in self._index.thread(thread_id)))

    def namespaces(self, thread_id: str) -> list[str]:
        return sorted({one.key.checkpoint_ns for one in self._index.thread(thread_id)})

    def expiries(
        self, thread_id: str, checkpoint_ns: str, checkpoint_ids: Collection[str]
    ) -> Iterator[Expiry]:
        wanted = set(checkpoint_ids)
        found = [
            one
            for one in self._index.thread(thread_id)
            if one.key.checkpoint_ns == checkpoint_ns and one.key.checkpoint_id in wanted
        ]
        for one, writes in self._index.writes([one.key for one in found], found):
            times = [write.expires_at for write in writes if write.expires_at is not None]
            first = min(times) if times else None
            yield Expiry(one.key, moment(one.expires_at), moment(first))

    def refresh(self) -> None:
        self._index.forget()
        self._there.clear()
        self._threads = self._all_ids = None

    # Checkpoints

    def checkpoints(
        self, thread_id: str, **options: Unpack[CheckpointOptions]
    ) -> Iterator[Checkpoint]:
        asked = CheckpointQuery(**options)
        ids = None if asked.checkpoint_ids is None else set(asked.checkpoint_ids)
        found = [
            one
            for one in self._index.thread(thread_id)
            if asked.checkpoint_ns in (None, one.key.checkpoint_ns)
            and (ids is None or one.key.checkpoint_id in ids)
        ]
        yield from self._load(found, body=asked.body, metadata=asked.metadata)

    def checkpoints_at(
        self,
        keys: Sequence[CheckpointKey],
        *,
        body: bool = False,
        metadata: bool = False,
        values: bool | Collection[str] = False,  # noqa: ARG002 - they are in the bodies
    ) -> Iterator[Checkpoint]:
        yield from self._load(self._index.at(keys), body=body, metadata=metadata)

    def _load(
        self, items: Sequence[CheckpointItem], *, body: bool, metadata: bool
    ) -> Iterator[Checkpoint]:
        if not body and not metadata:
            yield from (Checkpoint(one.key, one.parent) for one in items)
            return
        for one, payload in payloads(self._connection, items):
            value = value_of(payload)
            if payload.is_missing or not (payload.data or payload.problem):
                value = self._lost(one, value)
            parts = split_payload(value)
            yield Checkpoint(
                one.key, one.parent, parts[0] if body else None, parts[1] if metadata else None
            )

    def _lost(self, item: CheckpointItem, value: TypedBytes) -> TypedBytes:
        """The value of a checkpoint without a payload. It says what the saver does then."""
        problem = value.problem or "payload is empty"
        of_ns = [
            one
            for one in self._index.thread(item.key.thread_id)
            if one.key.checkpoint_ns == item.key.checkpoint_ns
        ]
        newer = [one for one in of_ns if one.key > item.key]
        older = [one for one in of_ns if one.key < item.key]
        if any(self._is_there(one) for one in newer):
            return value._replace(problem=f"{problem}; the saver leaves this checkpoint out")
        loaded = next((one.key.checkpoint_id for one in older if self._is_there(one)), None)
        if loaded is None:
            return value._replace(problem=f"{problem}; the saver finds no checkpoint here")
        return value._replace(problem=f"{problem}; the saver loads {loaded} before it instead")

    def _is_there(self, item: CheckpointItem) -> bool:
        """Whether the payload of a checkpoint exists."""
        if item.key not in self._there:
            ref = item.ref
            if ref.location != IN_TABLE:
                found = any(size for _, size in sizes_of(self._connection, [item]))
            else:
                keys = [(ref.key, CHUNK_SORT)] if is_partition(ref.key) else []
                found = bool(self._connection.get(keys, ""))
            self._there[item.key] = found
        return self._there[item.key]

    # Writes

    def writes(self, thread_id: str, **options: Unpack[WriteOptions]) -> Iterator[Write]:
        asked = WriteQuery(**options)
        ids = None if asked.checkpoint_ids is None else set(asked.checkpoint_ids)
        keys = sorted(
            key
            for key in self._index.keys_with_orphans(thread_id)
            if asked.checkpoint_ns in (None, key.checkpoint_ns)
            and (ids is None or key.checkpoint_id in ids)
        )
        yield from self._writes(keys, asked.channels, asked.values)

    def writes_at(
        self,
        keys: Sequence[CheckpointKey],
        *,
        channels: Collection[str] | None = None,
        values: bool | Collection[str] = False,
    ) -> Iterator[Write]:
        yield from self._writes(keys, channels, values)

    def _writes(
        self,
        keys: Sequence[CheckpointKey],
        channels: Collection[str] | None,
        values: bool | Collection[str],
    ) -> Iterator[Write]:
        for items in self._write_items(keys):
            found = [one for one in items if channels is None or one.channel in channels]
            for one, payload in payloads(self._connection, found):
                is_read = values if isinstance(values, bool) else one.channel in values
                yield _write(one, payload, is_read=is_read)

    def _write_items(self, keys: Sequence[CheckpointKey]) -> Iterator[list[WriteItem]]:
        """The writes of some checkpoints at a time, those of each in the order of the protocol."""
        for start in range(0, len(keys), _PARTITIONS_AT_ONCE):
            some = keys[start : start + _PARTITIONS_AT_ONCE]
            yield [write for _, writes in self._index.writes(some, some) for write in writes]

    # Sizes

    def checkpoint_sizes(self, thread_id: str) -> Iterator[tuple[CheckpointKey, ThreadSize]]:
        for one, size in sizes_of(self._connection, self._index.thread(thread_id)):
            yield one.key, ThreadSize(1, 0, size)
        for items in self._write_items(sorted(self._index.keys_with_orphans(thread_id))):
            for write, size in sizes_of(self._connection, items):
                yield write.key, ThreadSize(0, 1, size)

    def usage(self, thread_id: str | None = None) -> Iterator[Usage]:
        if thread_id is not None:
            yield from super().usage(thread_id)
            return
        for one in self._everyone():
            yield from super().usage(one)

    def _everyone(self) -> list[str]:
        """The ids of all threads, also of those with nothing but writes."""
        if self._all_ids is None:
            self._threads, self._index.orphans = scan_orphans(self._connection, self._observer)
            ids = {one.thread_id for one in self._threads} | self._index.orphans.keys()
            self._all_ids = sorted(ids, key=lambda one: one.encode(errors="surrogatepass"))
        return self._all_ids

    # Faults

    def faults(self) -> Iterator[Fault]:
        return table_faults(self._connection)

    def thread_faults(self, thread_id: str) -> Iterator[Fault]:
        return expiry_faults(thread_id, self._index.thread(thread_id))

    def suspect_threads(self) -> Iterator[str]:
        """The scan finds writes without a checkpoint; the rest needs one query for each thread."""
        for thread_id in self._everyone():
            items = self._index.thread(thread_id)
            if thread_id in self._index.orphans or has_contradiction(items):
                yield thread_id

    def _lengths(self, thread_id: str) -> Iterator[tuple[_Column, int]]:
        """Body and metadata are one stored value; its rest counts as the body.

        The length of metadata is known only where the payload is not compressed and in the table.
        """
        items = self._index.thread(thread_id)
        for one, payload in payloads(
            self._connection, [one for one in items if one.ref.location == IN_TABLE]
        ):
            yield from _columns(one, payload.size, _metadata_length(payload))
        others = [one for one in items if one.ref.location != IN_TABLE]
        for one, size in sizes_of(self._connection, others):
            yield from _columns(one, size, 0)
        for writes in self._write_items(sorted(self._index.keys_with_orphans(thread_id))):
            for write, size in sizes_of(self._connection, writes):
                ns = write.key.checkpoint_ns
                yield (WRITES, "value", ns, write.channel, write.ref.type), size

    # Rows

    def rows(self, thread_id: str) -> Iterator[Row]:
        for items in self._write_items(sorted(self._index.keys_with_orphans(thread_id))):
            for write, payload in payloads(self._connection, items):
                yield write_row(write, payload)
        for one, payload in payloads(self._connection, self._index.thread(thread_id)[::-1]):
            yield checkpoint_row(one, payload)

    def own_rows(self, thread_id: str, rows: Iterable[Row]) -> Iterator[Row]:
        return checked_rows(self._connection, thread_id, rows)

    def sources(self, key: CheckpointKey) -> list[str]:
        words = ["aws", "dynamodb"]
        table = ["--table-name", self._connection.table]
        places = [checkpoint_place(key), (chunk_of(key), CHUNK_SORT)]
        found = [
            shell.command(*words, "get-item", *table, "--key", _json(key_attributes(place)))
            for place in places
        ]
        values = _json({":p": {"S": writes_partition(key)}})
        condition = ["--key-condition-expression", "PK = :p"]
        values_of = ["--expression-attribute-values", values]
        return [*found, shell.command(*words, "query", *table, *condition, *values_of)]


_CAPABILITIES = (
    Capability.HISTORY
    | Capability.WRITES
    | Capability.TASK_PATH
    | Capability.ADDING
    | Capability.INLINE_VALUES
)


def _json(value: object) -> str:
    import json  # only for a person who asks where a checkpoint is

    return json.dumps(value, ensure_ascii=False)


def _write(item: WriteItem, payload: StoredPayload, *, is_read: bool) -> Write:
    value = value_of(payload) if is_read else None
    if value is not None and payload.is_missing:
        value = value._replace(problem=f"{value.problem}; the saver ignores this write")
    return Write(
        item.key, item.task_id, item.task_path, item.idx, item.channel, payload.size, value
    )


def _columns(item: CheckpointItem, size: int, metadata: int) -> Iterator[tuple[_Column, int]]:
    ns = item.key.checkpoint_ns
    yield (CHECKPOINTS, "checkpoint", ns, None, item.ref.type), size - metadata
    yield (CHECKPOINTS, METADATA, ns, None, item.ref.type), metadata


def _metadata_length(payload: StoredPayload) -> int:
    if payload.ref.is_gzip or payload.problem:
        return 0
    metadata = split_payload(value_of(payload))[1]
    return 0 if metadata.problem or metadata.part else len(metadata.data)
