"""Lists the threads of a table. There is no index of threads, so this reads the whole table."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

from ckpt_backends.dynamodb.connect import DynamoConnection
from ckpt_backends.dynamodb.items import CHECKPOINT, WRITES, split_sort, writes_partition
from ckpt_backends.model import CheckpointKey, Thread
from ckpt_backends.scan_observer import ScanObserver


class SilentObserver:
    """A `ScanObserver` for a store that nobody observes."""

    def scanning(self, label: str, done: int, total: int | None) -> None:
        """Ignore the progress."""

    def scanned(self, report: str) -> None:
        """Ignore the report."""


@dataclass(slots=True)
class _Sum:
    """What is known of a thread so far. Ids are in the order of time."""

    head: str | None = None
    oldest: str = ""
    newest: str = ""
    checkpoints: int = 0
    namespaces: set[str] = field(default_factory=set)

    def add(self, ns: str, checkpoint_id: str) -> None:
        if not self.checkpoints:
            self.oldest = self.newest = checkpoint_id
        self.oldest = min(self.oldest, checkpoint_id)
        self.newest = max(self.newest, checkpoint_id)
        self.checkpoints += 1
        self.namespaces.add(ns)
        if not ns and (self.head is None or self.head < checkpoint_id):
            self.head = checkpoint_id

    def thread(self, thread_id: str) -> Thread:
        return Thread(
            thread_id, self.head, self.oldest, self.newest, self.checkpoints, len(self.namespaces)
        )


def thread_of(thread_id: str, keys: Iterator[CheckpointKey]) -> Thread | None:
    """The thread that has these checkpoints; None if there are none."""
    found = _Sum()
    for key in keys:
        found.add(key.checkpoint_ns, key.checkpoint_id)
    return found.thread(thread_id) if found.checkpoints else None


def scan_threads(connection: DynamoConnection, observer: ScanObserver) -> list[Thread]:
    """All threads, the one with the newest checkpoint first."""
    found: dict[str, _Sum] = {}
    for partition, sort in _keys(connection, observer, [CHECKPOINT]):
        thread_id = partition.removeprefix(CHECKPOINT)
        found.setdefault(thread_id, _Sum()).add(*split_sort(sort))
    return _in_order(found)


def _in_order(found: Mapping[str, _Sum]) -> list[Thread]:
    ordered = sorted(found.items())
    ordered.sort(key=lambda one: one[1].newest, reverse=True)
    return [one.thread(thread_id) for thread_id, one in ordered]


def scan_orphans(
    connection: DynamoConnection, observer: ScanObserver
) -> tuple[list[Thread], dict[str, set[CheckpointKey]]]:
    """All threads as `scan_threads` returns them, and the missing checkpoints that have writes.

    These are by thread; a thread may have nothing else.
    """
    threads: dict[str, _Sum] = {}
    known: set[int] = set()
    """Hashes of the partitions of writes that belong to a checkpoint."""
    unsure: dict[int, str] = {}
    """The others by their hash: their checkpoints come later in the scan, or are missing."""
    for partition, sort in _keys(connection, observer, [CHECKPOINT, WRITES]):
        if partition.startswith(CHECKPOINT):
            thread_id, place = partition.removeprefix(CHECKPOINT), split_sort(sort)
            threads.setdefault(thread_id, _Sum()).add(*place)
            mark = hash(writes_partition(CheckpointKey(thread_id, *place)))
            known.add(mark)
            unsure.pop(mark, None)
        elif (mark := hash(partition)) not in known:
            unsure[mark] = partition
    orphans: dict[str, set[CheckpointKey]] = {}
    for partition in unsure.values():
        key = _owner(partition, threads)
        orphans.setdefault(key.thread_id, set()).add(key)
    return _in_order(threads), orphans


def _owner(partition: str, threads: Collection[str]) -> CheckpointKey:
    """The checkpoint that a partition of writes belongs to.

    Thread id and namespace are separated by a `#`, which both may contain. An empty namespace is
    the most frequent one, also of a thread that has no checkpoint yet. Otherwise this is the
    longest thread id that exists, or else the namespace without a `#`.
    """
    rest, _, checkpoint_id = partition.removeprefix(WRITES).rpartition("#")
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
            items += page.scanned
            units += page.units
            observer.scanning(label, items, estimate)
            for one in page.items:
                yield one["PK"]["S"], one["SK"]["S"]
    finally:
        read = f"{items:,} item{'s' * (items != 1)}"
        cost = f"{units:,.10g} read unit{'s' * (units != 1)}"
        observer.scanned(f"scanned table '{connection.table}': {read}, {cost}")
