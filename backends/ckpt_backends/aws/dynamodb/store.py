"""Reads the layout of `DynamoDBSaver` of `langgraph-checkpoint-aws` 1.2.

A command on one thread queries the partitions of that thread. Only listing all threads needs a scan
of the table. DynamoDB has no snapshots: what was listed is cached until `refresh`.

The head is the checkpoint with the greatest id, also if its payload is missing. The saver stores
the item first and the payload next. Where the payload of the newest checkpoint is missing, it
silently loads the checkpoint before it. A head that is not the newest one would hide this too. So
the newest one stays the head, and the `problem` of its body says what the saver loads.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, starmap
from typing import Unpack

from ckpt_backends import shell
from ckpt_backends.aws.dynamodb.connect import DynamoConnection, key_attributes
from ckpt_backends.aws.dynamodb.records import (
    CHECKPOINT_PREFIX,
    CHECKPOINTS,
    CHUNK_SORT,
    METADATA,
    WRITES,
    WRITES_PREFIX,
    CheckpointItem,
    DynamoItem,
    StoredPayload,
    WriteItem,
    checked_rows,
    checkpoint_place,
    chunk_of,
    moment,
    payloads,
    read_at,
    read_thread,
    read_writes,
    row_of,
    sized,
    split_payload,
    split_sort,
    value_of,
    writes_partition,
)
from ckpt_backends.base import BaseStore, OnConnection, ThreadSum
from ckpt_backends.errors import StoreUnavailable
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
    in_chunks,
)
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
from ckpt_backends.rows import Row
from ckpt_backends.servers import STORE, checked, opening, understanding
from ckpt_backends.url import StoreUrl

# Lists the threads of a table. There is no index of threads, so this reads the whole table.


def scan_threads(
    connection: DynamoConnection, observer: ScanObserver, *, with_writes: bool
) -> tuple[list[Thread], dict[str, set[CheckpointKey]]]:
    """All threads, the one with the newest checkpoint first.

    And, `with_writes`, by thread the missing checkpoints that have writes; a thread may have
    nothing else.
    """
    threads: dict[str, ThreadSum] = {}
    known: set[int] = set()
    """Hashes of the partitions of writes that belong to a checkpoint."""
    unsure: dict[int, str] = {}
    """The others by their hash: their checkpoints come later in the scan, or are missing."""
    prefixes = [CHECKPOINT_PREFIX, WRITES_PREFIX] if with_writes else [CHECKPOINT_PREFIX]
    for partition, sort in _keys(connection, observer, prefixes):
        if partition.startswith(CHECKPOINT_PREFIX):
            thread_id, place = partition.removeprefix(CHECKPOINT_PREFIX), split_sort(sort)
            threads.setdefault(thread_id, ThreadSum()).add(CheckpointKey(thread_id, *place))
            if with_writes:
                mark = hash(writes_partition(CheckpointKey(thread_id, *place)))
                known.add(mark)
                unsure.pop(mark, None)
        elif (mark := hash(partition)) not in known:
            unsure[mark] = partition
    orphans: dict[str, set[CheckpointKey]] = {}
    for partition in unsure.values():
        key = _owner(partition, threads)
        orphans.setdefault(key.thread_id, set()).add(key)
    ordered = sorted(threads.items())
    ordered.sort(key=lambda one: one[1].newest, reverse=True)
    return [one.thread(thread_id) for thread_id, one in ordered], orphans


def _owner(partition: str, threads: Collection[str]) -> CheckpointKey:
    """The checkpoint that a partition of writes belongs to.

    Thread id and namespace are separated by a `#`, which both may contain. An empty namespace is
    the most frequent one, also of a thread that has no checkpoint yet. Otherwise this is the
    longest thread id that exists, or else the namespace without a `#`.
    """
    rest, _, checkpoint_id = partition.removeprefix(WRITES_PREFIX).rpartition("#")
    if rest.endswith("#") and len(rest) > 1:
        return CheckpointKey(rest[:-1], "", checkpoint_id)
    parts = rest.split("#")
    for end in range(len(parts) - 1, 0, -1):
        if (thread_id := "#".join(parts[:end])) in threads:
            return CheckpointKey(thread_id, "#".join(parts[end:]), checkpoint_id)
    thread_id, _, ns = rest.rpartition("#")
    return CheckpointKey(thread_id, ns, checkpoint_id)


def _keys(
    connection: DynamoConnection, observer: ScanObserver, prefixes: list[str]
) -> Iterator[tuple[str, str]]:
    """The keys of all items with these prefixes, while the observer is told."""
    label, total = f"scanning table '{connection.table}'", connection.about.get("ItemCount")
    estimate = total if isinstance(total, int) and total > 0 else None
    items, units = 0, 0.0
    observer.scanning(label, 0, estimate)
    try:
        for page in connection.scan(prefixes):
            items += int(page.get("ScannedCount", 0))
            units += float(page.get("ConsumedCapacity", {}).get("CapacityUnits", 0))
            observer.scanning(label, items, estimate)
            for one in page["Items"]:
                yield one["PK"]["S"], one["SK"]["S"]
    finally:
        read = f"{items:,} item{'s' * (items != 1)}"
        cost = f"{units:,.10g} read unit{'s' * (units != 1)}"
        observer.scanned(f"scanned table '{connection.table}': {read}, {cost}")


# Faults of the times to live in a table, and keys that contradict each other.


_ATTRIBUTE = "ttl"
_ENABLE = f"Enabled=true,AttributeName={_ATTRIBUTE}"


def table_faults(connection: DynamoConnection) -> Iterator[Fault]:
    """`ttl-partial`, if items have a time to live that DynamoDB does not heed.

    Looks at a few items. Nothing if the user may not read the settings of the table.
    """
    with suppress(StoreUnavailable):
        if connection.expiring_attribute() == _ATTRIBUTE or not connection.has_times_to_live():
            return
        words = ["aws", "dynamodb", "update-time-to-live", "--table-name", connection.table]
        yield Fault(
            "ttl-partial",
            "items have a time to live, but TTL is not enabled for the table, so they stay",
            fix=shell.command(*words, "--time-to-live-specification", _ENABLE),
        )


def has_contradiction(items: Sequence[CheckpointItem]) -> bool:
    """Whether a parent is missing or not older, or some checkpoints expire and others do not."""
    there = {(one.key.checkpoint_ns, one.key.checkpoint_id) for one in items}
    return len({one.expires_at is None for one in items}) > 1 or any(
        (one.key.checkpoint_ns, one.parent) not in there or one.parent >= one.key.checkpoint_id
        for one in items
        if one.parent is not None
    )


def expiry_faults(thread_id: str, items: Sequence[CheckpointItem]) -> Iterator[Fault]:
    """`ttl-partial`, if some checkpoints of a thread expire and others do not."""
    expiring = [one for one in items if one.expires_at is not None]
    staying = [one for one in items if one.expires_at is None]
    if not expiring or not staying:
        return
    fewer = min(staying, expiring, key=len)
    what = "have no time to live" if fewer is staying else "have a time to live"
    detail = f"{len(fewer)} of {len(items)} checkpoints {what}"
    ns = own = None
    if len(fewer) == 1:
        ns, own = fewer[0].key.checkpoint_ns, fewer[0].key.checkpoint_id
    yield Fault("ttl-partial", detail, thread_id, ns, own)


_REMEMBERED = 200
"""Number of threads whose items are cached. A command reads one thread after the other."""
_PARTITIONS_AT_ONCE = 64
_Column = tuple[str, str, str, str | None, str]


@checked(*STORE)
class DynamoStore(OnConnection[DynamoConnection], BaseStore):
    """A table, opened for reading."""

    def __init__(self, connection: DynamoConnection, url: StoreUrl) -> None:
        super().__init__(connection, url)
        self._items: dict[str, list[CheckpointItem]] = {}
        """By thread, its checkpoints by namespace, the newest id first."""
        self._orphans: Mapping[str, Collection[CheckpointKey]] = {}
        """By thread, the missing checkpoints that have writes, as far as a scan has found some."""
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
            self._threads, _ = scan_threads(self._connection, self._observer, with_writes=False)
        yield from self._threads[:limit]

    def _items_of(self, thread_id: str) -> list[CheckpointItem]:
        if thread_id not in self._items:
            found = read_thread(self._connection, thread_id)
            while len(self._items) >= _REMEMBERED:
                del self._items[next(iter(self._items))]
            self._items[thread_id] = found
        return self._items[thread_id]

    def _keys_with_writes(self, thread_id: str) -> list[CheckpointKey]:
        """The checkpoints of a thread that may have writes, in order."""
        there = {one.key for one in self._items_of(thread_id)}
        return sorted(there.union(self._orphans.get(thread_id, ())))

    def expiries(
        self, thread_id: str, checkpoint_ns: str, checkpoint_ids: Collection[str]
    ) -> Iterator[Expiry]:
        is_meant = _condition(checkpoint_ns, checkpoint_ids)
        found = [one for one in self._items_of(thread_id) if is_meant(one.key)]
        of_each = read_writes(self._connection, [one.key for one in found])
        for one, writes in zip(found, of_each, strict=True):
            times = [write.expires_at for write in writes if write.expires_at is not None]
            first = min(times) if times else None
            yield Expiry(one.key, moment(one.expires_at), moment(first))

    def refresh(self) -> None:
        self._items.clear()
        self._orphans = {}
        self._there.clear()
        self._threads = self._all_ids = None

    # Checkpoints

    def checkpoints(
        self, thread_id: str, **options: Unpack[CheckpointOptions]
    ) -> Iterator[Checkpoint]:
        asked = CheckpointQuery(**options)
        is_meant = _condition(asked.checkpoint_ns, asked.checkpoint_ids)
        found = [one for one in self._items_of(thread_id) if is_meant(one.key)]
        yield from self._load(found, asked)

    def checkpoints_at(
        self, keys: Sequence[CheckpointKey], **options: Unpack[ReadOptions]
    ) -> Iterator[Checkpoint]:
        # The values are in the bodies.
        found = list(read_at(self._connection, keys))
        yield from self._load(found, CheckpointQuery(**options))

    def _load(
        self, items: Sequence[CheckpointItem], asked: CheckpointQuery
    ) -> Iterator[Checkpoint]:
        if not asked.body and not asked.metadata:
            yield from (Checkpoint(one.key, one.parent) for one in items)
            return
        for one, payload in payloads(self._connection, items):
            value = value_of(payload)
            if payload.is_missing or not (payload.data or payload.problem):
                value = self._lost(one, value)
            parts = split_payload(value)
            body, metadata = parts[0] if asked.body else None, parts[1] if asked.metadata else None
            yield Checkpoint(one.key, one.parent, body, metadata)

    def _lost(self, item: CheckpointItem, value: TypedBytes) -> TypedBytes:
        """The value of a checkpoint without a payload. It says what the saver does then."""
        is_beside = _condition(item.key.checkpoint_ns)
        others = [
            one
            for one in self._items_of(item.key.thread_id)
            if is_beside(one.key) and one.key != item.key
        ]
        there = next((one.key for one in others if self._is_there(one)), None)
        if there is None:
            what = "finds no checkpoint here"
        elif there > item.key:
            what = "leaves this checkpoint out"
        else:
            what = f"loads {there.checkpoint_id} before it instead"
        problem = value.problem or "payload is empty"
        return value._replace(problem=f"{problem}; the saver {what}")

    def _is_there(self, item: CheckpointItem) -> bool:
        """Whether the payload of a checkpoint exists."""
        if item.key not in self._there:
            found = sized(self._connection, [item])
            self._there[item.key] = any(payload.size for _, payload in found)
        return self._there[item.key]

    # Writes

    def writes(self, thread_id: str, **options: Unpack[WriteOptions]) -> Iterator[Write]:
        asked = WriteQuery(**options)
        is_meant = _condition(asked.checkpoint_ns, asked.checkpoint_ids)
        keys = list(filter(is_meant, self._keys_with_writes(thread_id)))
        yield from self._writes(keys, asked)

    def writes_at(
        self, keys: Sequence[CheckpointKey], **options: Unpack[WriteReadOptions]
    ) -> Iterator[Write]:
        yield from self._writes(keys, WriteQuery(**options))

    def _writes(self, keys: Sequence[CheckpointKey], asked: WriteQuery) -> Iterator[Write]:
        channels, values = asked.channels, asked.values
        for items in self._write_items(keys):
            found = [one for one in items if channels is None or one.channel in channels]
            for one, payload in payloads(self._connection, found):
                is_read = values if isinstance(values, bool) else one.channel in values
                yield _write(one, payload, is_read=is_read)

    def _write_items(self, keys: Sequence[CheckpointKey]) -> Iterator[list[WriteItem]]:
        """The writes of some checkpoints at a time, those of each in the order of the protocol."""
        for some in in_chunks(keys, _PARTITIONS_AT_ONCE):
            yield list(chain.from_iterable(read_writes(self._connection, some)))

    # Sizes

    def checkpoint_sizes(self, thread_id: str) -> Iterator[tuple[CheckpointKey, ThreadSize]]:
        for one, payload in self._sized(thread_id):
            number = (0, 1) if isinstance(one, WriteItem) else (1, 0)
            yield one.key, ThreadSize(*number, payload.size)

    def _sized(self, thread_id: str) -> Iterator[tuple[DynamoItem, StoredPayload]]:
        """The items of a thread with the lengths of their payloads."""
        yield from sized(self._connection, self._items_of(thread_id))
        for items in self._write_items(self._keys_with_writes(thread_id)):
            yield from sized(self._connection, items)

    def usage(self, thread_id: str | None = None) -> Iterator[Usage]:
        if thread_id is not None:
            yield from super().usage(thread_id)
            return
        for one in self._everyone():
            yield from super().usage(one)

    def _everyone(self) -> list[str]:
        """The ids of all threads, also of those with nothing but writes."""
        if self._all_ids is None:
            self._threads, self._orphans = scan_threads(
                self._connection, self._observer, with_writes=True
            )
            ids = {one.thread_id for one in self._threads} | self._orphans.keys()
            self._all_ids = sorted(ids, key=lambda one: one.encode(errors="surrogatepass"))
        return self._all_ids

    # Faults

    def faults(self) -> Iterator[Fault]:
        return table_faults(self._connection)

    def thread_faults(self, thread_id: str) -> Iterator[Fault]:
        return expiry_faults(thread_id, self._items_of(thread_id))

    def suspect_threads(self) -> Iterator[str]:
        """The scan finds writes without a checkpoint; the rest needs one query for each thread."""
        for thread_id in self._everyone():
            if thread_id in self._orphans or has_contradiction(self._items_of(thread_id)):
                yield thread_id

    def _lengths(self, thread_id: str) -> Iterator[tuple[_Column, int]]:
        """Body and metadata are one stored value; its rest counts as the body.

        The length of metadata is known only where the payload is not compressed and in the table.
        """
        for one, payload in self._sized(thread_id):
            ns, tag = one.key.checkpoint_ns, one.ref.type
            if isinstance(one, WriteItem):
                yield (WRITES, "value", ns, one.channel, tag), payload.size
            else:
                metadata = _metadata_length(payload)
                yield (CHECKPOINTS, "checkpoint", ns, None, tag), payload.size - metadata
                yield (CHECKPOINTS, METADATA, ns, None, tag), metadata

    # Rows

    def rows(self, thread_id: str) -> Iterator[Row]:
        for items in self._write_items(self._keys_with_writes(thread_id)):
            yield from starmap(row_of, payloads(self._connection, items))
        yield from starmap(row_of, payloads(self._connection, self._items_of(thread_id)[::-1]))

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


def _condition(
    checkpoint_ns: str | None, checkpoint_ids: Collection[str] | None = None
) -> Callable[[CheckpointKey], bool]:
    """Whether a checkpoint is in a namespace and one of these, as far as they are given."""
    ids = None if checkpoint_ids is None else set(checkpoint_ids)
    return lambda key: (
        checkpoint_ns in (None, key.checkpoint_ns) and (ids is None or key.checkpoint_id in ids)
    )


def _metadata_length(payload: StoredPayload) -> int:
    if payload.ref.is_gzip or payload.problem:
        return 0
    metadata = split_payload(value_of(payload))[1]
    return 0 if metadata.problem or metadata.part else len(metadata.data)


def open_store(url: StoreUrl) -> Store:
    """Open for reading. Raises `UsageError`, `StoreUnavailable` or `UnknownLayout`."""
    with opening(DynamoConnection(url), url) as connection:
        return understanding(DynamoStore(connection, url), url)
