"""The interface of a layout of checkpoints in Redis. The engine knows layouts only through it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ckpt_backends.changes.change import Change
from ckpt_backends.changes.rows import Cell, Row
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import (
    BlobKey,
    Capability,
    Checkpoint,
    CheckpointKey,
    Fault,
    ThreadSize,
    Usage,
    Write,
)
from ckpt_backends.protocol import Store
from ckpt_backends.read_options import CheckpointQuery
from ckpt_backends.redis.engine.command_plan import CommandPlan
from ckpt_backends.redis.engine.connection import Command, RedisConnection, in_parts
from ckpt_backends.redis.engine.key_rows import rows_of, stored_of
from ckpt_backends.redis.engine.keyspace import (
    STRING,
    ZSET,
    CheckpointEntry,
    CheckpointKeys,
    KeysByCheckpoint,
    ListedNamespace,
    ThreadKeys,
    WriteEntry,
)
from ckpt_backends.redis.engine.purge_lock import PurgeLock
from ckpt_backends.redis.engine.sizes import summed
from ckpt_backends.redis.engine.thread_faults import ThreadKey, expiry_faults, keys_of_checkpoints
from ckpt_backends.redis.engine.thread_removal import ThreadRemoval
from ckpt_backends.url import StoreUrl

if TYPE_CHECKING:
    from ckpt_backends.redis.engine.receiving import Reception
    from ckpt_backends.transfer.parts import Arrival, PartRewrite


class RedisLayout(ABC):
    """A layout of checkpoints in Redis. Methods read the current data; there is no snapshot."""

    name: str
    saver: str
    capabilities: Capability
    tables: tuple[str, ...]
    is_by_arrival = False
    """Whether the writes of a checkpoint are ordered by the time they were stored."""
    lists_parents = True
    """Whether `entries` contain the parents of checkpoints; otherwise only the bodies do."""
    lists_additions = False
    """Whether a pointer or a list names each checkpoint and write that an agent adds. Otherwise an
    index finds the keys of a thread right before its removal."""

    def __init__(self, connection: RedisConnection) -> None:
        self.connection = connection

    # What the layout brings to open, change and archive a store

    @abstractmethod
    def open(self, url: StoreUrl) -> Store:
        """The store of this layout, opened for reading."""

    def check_writable(self, url: StoreUrl) -> None:  # noqa: B027
        """Raise `Unsupported` if the store of this layout cannot be changed."""

    @abstractmethod
    def finder(self) -> KeyFinder[Any]:
        """Finds the keys of threads for archives and removals."""

    @abstractmethod
    def plan(self, change: Change) -> CommandPlan:
        """The commands of a change."""

    def reception(self, arrival: Arrival) -> Reception:  # noqa: ARG002
        """How this layout stores the parts of a thread of another store. Raises `Unsupported`."""
        raise Unsupported(f"threads cannot be copied into the layout '{self.name}'")

    def rewrite(self, thread_id: str, rewrites: Iterable[PartRewrite]) -> None:  # noqa: ARG002
        """Replace values; see `WritableStore.rewrite`. Raises `Unsupported`."""
        raise Unsupported(f"values cannot be replaced in the layout '{self.name}'")

    @abstractmethod
    def removals(self, lock: PurgeLock, thread_ids: Sequence[str]) -> Iterator[ThreadRemoval]:
        """The removal of each of these threads."""

    # Keys

    @abstractmethod
    def namespaces(self, prefix: str = "") -> Iterator[ListedNamespace]:
        """The namespaces of all threads whose ids begin with a text, in undefined order.

        May include those of other threads.
        """

    @abstractmethod
    def checkpoint_name(self, key: CheckpointKey) -> bytes:
        """The key of a checkpoint."""

    @abstractmethod
    def entries(self, names: Sequence[bytes]) -> Iterator[CheckpointEntry]:
        """The checkpoints among these keys, according to their contents, in the same order."""

    @abstractmethod
    def find(self, thread_ids: Collection[str]) -> Mapping[str, ThreadKeys]:
        """The keys of some threads. Without an index, several threads cost as much as one."""

    @abstractmethod
    def writes_at(self, keys: Collection[CheckpointKey]) -> list[WriteEntry]:
        """The writes of some checkpoints; may include others. Costs as much as `find`."""

    def writes_on(self, channels: Collection[str]) -> list[WriteEntry] | None:  # noqa: ARG002
        """The writes on some channels, from an index; may include others. None without an index."""
        return None

    def is_indexed(self) -> bool:
        """Whether the keys of a thread are found without a SCAN over all keys."""
        return False

    @abstractmethod
    def pages(self) -> Iterator[ThreadKeys]:
        """All keys of the store in batches, each key once."""

    @abstractmethod
    def owners_of(self, names: Sequence[bytes]) -> Iterator[tuple[bytes, CheckpointKey, bool]]:
        """For each write that exists: (key in Redis, its checkpoint, whether it is complete)."""

    @abstractmethod
    def sources(self, key: CheckpointKey) -> list[str]:
        """Redis commands with which a person finds a checkpoint and its writes."""

    # Contents

    @abstractmethod
    def checkpoints(
        self, places: Sequence[CheckpointEntry], asked: CheckpointQuery
    ) -> Iterator[Checkpoint]:
        """The checkpoints in the order of `places`, without those removed meanwhile."""

    def blobs(self, found: ThreadKeys) -> Iterator[tuple[bytes, str, BlobKey, int]]:  # noqa: ARG002
        """The separate values, each as (key in Redis, thread id, blob key, size in bytes)."""
        yield from ()

    @abstractmethod
    def writes(
        self, places: Sequence[WriteEntry], values: bool | Collection[str]
    ) -> Iterator[Write]:
        """The writes, without those removed meanwhile.

        They are ordered by arrival if `is_by_arrival`; otherwise the order is undefined.
        """

    @abstractmethod
    def usage(self, found: ThreadKeys) -> Iterator[tuple[str, Usage]]:
        """The size of each single value, with `rows` 1, in undefined order.

        Each comes with the id of its checkpoint, or `''` for a separate value.
        """

    def sizes(self, found: ThreadKeys, thread_ids: Sequence[str]) -> list[ThreadSize]:
        """The sizes of these threads, as `usage` adds up to."""
        return summed(self.usage(found), thread_ids)

    # Faults

    def faults(self) -> Iterator[Fault]:
        """Faults of the store as a whole, as `Store.faults` returns them."""
        yield from ()

    def thread_faults(self, thread_id: str, found: ThreadKeys) -> Iterator[Fault]:
        """Faults in the keys of a thread, as `find` returned them.

        Some may be such as a saver causes while it writes, or due to keys that were added since.
        """
        yield from expiry_faults(self.connection, thread_id, list(self.expiring_keys(found)))

    def expiring_keys(self, found: ThreadKeys) -> Iterator[ThreadKey]:
        """The keys of a thread to which its saver gives a time to live, if it gives one to any.

        Without those of missing checkpoints: a saver may have stored them without it.
        """
        return keys_of_checkpoints(found)

    def unloaded_head(self, thread_id: str, found: ThreadKeys) -> str:  # noqa: ARG002
        """What the saver does instead of loading the head of a thread with these keys, in words.

        `''` if it loads the head.
        """
        return ""

    def threads_with_writes(self) -> Iterator[str]:
        """The ids of all threads that have writes, without reading values. Ids may repeat."""
        for found in self.pages():
            for _, key, _ in self.owners_of([one.name for one in found.writes]):
                yield key.thread_id


LayoutT = TypeVar("LayoutT", bound=RedisLayout)
Owner = tuple[bytes, CheckpointKey, bool]
"""A write, as `RedisLayout.owners_of` returns it."""
_FOUND_AT_ONCE, _GROUPED_AT_ONCE = 50, 100
"""Number of threads that are found together in an index, and whose writes are read together."""


class KeyFinder(ABC, Generic[LayoutT]):
    """Finds all keys of threads in one layout, and converts them to rows of an archive.

    A checkpoint has a key, the keys of its writes and, in some layouts, a list of its writes. A
    namespace may have a pointer to its head, or a list of writes. Separate values belong to the
    thread, because several checkpoints may share one.
    """

    types: Mapping[str, str]
    """By kind, the type of its keys."""
    kind_of_writes = "writes"

    def __init__(self, layout: LayoutT) -> None:
        self.layout = layout
        self.connection = layout.connection

    @abstractmethod
    def own_rows(self, thread_id: str, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows of an archive, if all are keys of the thread. Raises `Refused`."""

    @abstractmethod
    def _keys_of(self, key: CheckpointKey, *, is_there: bool) -> CheckpointKeys:
        """The keys of a checkpoint, without those of its writes."""

    def _shared(self, thread_id: str, ns: str) -> dict[str, list[bytes]]:  # noqa: ARG002
        """By kind, the keys of a namespace's pointers and lists."""
        return {}

    def find(self, thread_ids: Sequence[str]) -> Iterator[KeysByCheckpoint]:
        """The keys of some threads. Without an index, they are found with one SCAN."""
        if not self.layout.is_indexed():
            found = self.layout.find(thread_ids)
            for some in in_parts(thread_ids, _GROUPED_AT_ONCE):
                yield from self._grouped_all(some, found)
            return
        for some in in_parts(thread_ids, _FOUND_AT_ONCE if self.layout.lists_additions else 1):
            yield from self._grouped_all(some, self.layout.find(some))

    def _grouped_all(
        self, thread_ids: Sequence[str], found: Mapping[str, ThreadKeys]
    ) -> Iterator[KeysByCheckpoint]:
        """The keys of each of some threads. Their writes are looked up together."""
        owners: dict[str, list[Owner]] = {one: [] for one in thread_ids}
        names = dict.fromkeys(write.name for one in thread_ids for write in found[one].writes)
        for owner in self.layout.owners_of(list(names)):
            if (of_thread := owners.get(owner[1].thread_id)) is not None:
                of_thread.append(owner)
        for thread_id in thread_ids:
            yield self._grouped(thread_id, found[thread_id], owners[thread_id])

    def _grouped(
        self, thread_id: str, found: ThreadKeys, owners: Iterable[Owner]
    ) -> KeysByCheckpoint:
        groups = self._groups(thread_id, found, owners)
        apart = {key: name for name, own, key, _ in self.layout.blobs(found) if own == thread_id}
        shared = {ns: self._shared(thread_id, ns) for ns, _ in groups}
        return KeysByCheckpoint(groups, shared, apart)

    def _groups(
        self, thread_id: str, found: ThreadKeys, owners: Iterable[Owner]
    ) -> dict[tuple[str, str], CheckpointKeys]:
        """The keys of a thread by checkpoint. `owners` are those of its writes."""
        groups = {at: self._keys_of(one.key, is_there=True) for at, one in found.places.items()}
        for name, key, is_whole in owners:
            if key.thread_id != thread_id:
                continue
            at = (key.checkpoint_ns, key.checkpoint_id)
            if at not in groups:
                groups[at] = self._keys_of(key, is_there=False)
            known = groups[at].names[self.kind_of_writes]
            if known[-1:] != [name]:  # the writes of a checkpoint may share a key
                known.append(name)
            if is_whole:
                groups[at].writes.append(name)
        return groups

    def named(self, some: Sequence[KeysByCheckpoint]) -> list[set[bytes]]:
        """For each thread, the keys that its pointers and its heads' lists currently contain."""
        asked = [list(self._lists_of(keys)) for keys in some]
        answers = self.connection.ask_all(command for commands in asked for command in commands)
        found: list[set[bytes]] = []
        for commands in asked:
            names: set[bytes] = set()
            for answer in islice(answers, len(commands)):
                names.update(answer if isinstance(answer, list) else [answer] if answer else [])
            found.append(names)
        return found

    def _lists_of(self, keys: KeysByCheckpoint) -> Iterator[Command]:
        """The commands that read the pointers and the lists of the heads of a thread."""
        of_heads = (head.names for head in keys.heads.values())
        for kinds in (*keys.shared.values(), *of_heads):
            for kind, names in kinds.items():
                if self.types[kind] in {STRING, ZSET}:
                    read = ("GET",) if self.types[kind] == STRING else ("ZRANGE",)
                    rest = () if self.types[kind] == STRING else (0, -1)
                    yield from ((*read, name, *rest) for name in names)

    def rows(self, thread_id: str) -> Iterator[Row]:
        """The rows of a thread. Keys that were removed meanwhile are left out."""
        for keys in self.find([thread_id]):
            yield from rows_of(self.connection, self.types, keys.in_order())

    def row_key(self, row: Row) -> Hashable:
        """The unique key of a row."""
        return row.table, row.cells["key"]

    def stored(self, rows: Sequence[Row]) -> Iterator[dict[str, Cell] | None]:
        """The stored contents of these rows; None if a row does not exist."""
        return stored_of(self.connection, rows)

    def also(self, rows: Sequence[Row]) -> Iterator[Command]:  # noqa: ARG002
        """Commands for other keys that must change when rows are restored."""
        yield from ()
