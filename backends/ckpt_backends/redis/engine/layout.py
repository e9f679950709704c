"""The interface of a layout of checkpoints in Redis. The engine knows layouts only through it."""

from __future__ import annotations

import random
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from redis import exceptions

from ckpt_backends.changes import GONE, MOVED, Change, Inside, Removal, Removed, gone, moved
from ckpt_backends.declaration import Backend
from ckpt_backends.errors import Refused, StoreUnavailable, Unsupported
from ckpt_backends.model import (
    BlobKey,
    Capability,
    Checkpoint,
    CheckpointKey,
    Fault,
    Record,
    ThreadSize,
    Usage,
    Write,
    in_chunks,
)
from ckpt_backends.protocol import CheckpointQuery
from ckpt_backends.redis.engine.connection import Command, RedisConnection, keys_of
from ckpt_backends.redis.engine.keyspace import (
    CHECKPOINT,
    DOCUMENT,
    HASH,
    STRING,
    USUAL,
    ZSET,
    CheckpointEntry,
    CheckpointKeys,
    KeysByCheckpoint,
    ListedNamespace,
    ThreadKeys,
    WriteEntry,
    fields_at,
    literally,
    quoted,
    raw,
    rows_of,
    stored_id,
    stored_of,
    text,
)
from ckpt_backends.rows import Cell, Row
from ckpt_backends.url import StoreUrl

if TYPE_CHECKING:
    from ckpt_backends.transfer.copying import Arrival

# Adds up the sizes of threads from single values.


def summed(usage: Iterable[tuple[str, Usage]], thread_ids: Sequence[str]) -> list[ThreadSize]:
    """The sizes of these threads, added up from single values as `RedisLayout.usage` tells them."""
    sums = {one: [0, 0, 0, 0] for one in thread_ids}
    for checkpoint_id, one in usage:
        if (found := sums.get(one.thread_id)) is not None:
            found[0] += one.column == "metadata"
            found[1] += one.channel is not None and checkpoint_id != ""
            found[2] += one.bytes
            found[3] += not checkpoint_id
    return [ThreadSize(*sums[one]) for one in thread_ids]


# Lists the namespaces of a store by the names of keys, with their oldest and newest checkpoint.
#
# The keys of a namespace's checkpoints differ only in the ids at their ends. So one SCAN over all
# keys is enough to count them. Keys are not escaped and may be ambiguous, so thread and namespace
# are read from the newest document of each namespace.


_AT_ONCE = 500
Names = Callable[[], Iterator[list[bytes]]]
Entries = Callable[[Sequence[bytes]], Iterator[CheckpointEntry]]


@dataclass(slots=True)
class _Sum:
    """The oldest id, newest id and number of ids of a namespace so far."""

    oldest: bytes
    newest: bytes
    number: int = 1


def namespaces_by_name(
    names: Names, entries: Entries, separator: bytes
) -> Iterator[ListedNamespace]:
    """The namespaces of a store. The keys of checkpoints end with a separator and an id.

    `names` scans all keys; `entries` returns the checkpoints among some keys. If the newest key of
    a namespace is no checkpoint (left by a crash, or of another layout), all its keys are read.
    Older keys that are not checkpoints are counted anyway. The memory does not depend on
    the number of checkpoints. A key that SCAN returns twice is counted twice; that happens only if
    most keys of the server are removed during the scan.
    """
    sums: dict[bytes, _Sum] = {}
    for some in names():
        for name in some:
            start, _, own = name.rpartition(separator)
            if (sum_ := sums.get(start)) is None:
                sums[start] = _Sum(own, own)
                continue
            sum_.number += 1
            if own > sum_.newest:
                sum_.newest = own
            elif own < sum_.oldest:
                sum_.oldest = own
    unsure: set[bytes] = set()
    for part in in_chunks(sums.items(), _AT_ONCE):
        newest = {start + separator + found.newest: start for start, found in part}
        keys = {newest[place.name]: place.key for place in entries(list(newest))}
        for start, found in part:
            if start in keys:
                thread_id, ns, _ = keys[start]
                ids = text(found.oldest), text(found.newest)
                yield ListedNamespace(thread_id, ns, *ids, found.number)
            else:
                unsure.add(start)
    if unsure:
        yield from namespaces_of(
            place
            for some in names()
            for place in entries([one for one in some if one.rpartition(separator)[0] in unsure])
        )


def namespaces_of(entries: Iterable[CheckpointEntry]) -> Iterator[ListedNamespace]:
    """The namespaces of these checkpoints."""
    groups: dict[tuple[str, str], list[CheckpointEntry]] = {}
    for one in entries:
        groups.setdefault(one.key[:2], []).append(one)
    for group, some in groups.items():
        head = max(some, key=lambda one: (one.rank, one.key)).key.checkpoint_id
        ids = sorted(raw(one.key.checkpoint_id) for one in some)
        yield ListedNamespace(*group, text(ids[0]), text(ids[-1]), len(some), head)


# Faults in the keys of one thread that all layouts on Redis can have: times to live.


_STAYS = -1
"""The answer of PTTL for a key without an expiry."""


@dataclass(frozen=True, slots=True)
class ThreadKey:
    """A key of a thread."""

    name: bytes
    kind: str
    checkpoint_ns: str
    checkpoint_id: str | None = None
    """None for a key that belongs to a whole namespace, or to several checkpoints."""


def keys_of_checkpoints(found: ThreadKeys) -> Iterator[ThreadKey]:
    """The keys of the checkpoints of a thread, and those of their writes."""
    spaces = {own: ns for ns, own in found.places}
    for (ns, own), one in found.places.items():
        yield ThreadKey(one.name, CHECKPOINT, ns, own)
    for write in found.writes:
        if (own := write.checkpoint_id) in spaces:
            yield ThreadKey(write.name, "writes", spaces[own], own)


def expiry_faults(
    connection: RedisConnection, thread_id: str, keys: Sequence[ThreadKey]
) -> Iterator[Fault]:
    """`ttl-partial`, if some of these keys expire and others do not."""
    left = list(connection.ask_all(("PTTL", one.name) for one in keys))
    expiring = [one for one, ms in zip(keys, left, strict=True) if ms is not None and ms >= 0]
    staying = [one for one, ms in zip(keys, left, strict=True) if ms == _STAYS]
    if not expiring or not staying:
        return
    fewer = min(staying, expiring, key=len)
    places = {(one.checkpoint_ns, one.checkpoint_id) for one in fewer}
    ns, own = places.pop() if len(places) == 1 else (None, None)
    total = len(expiring) + len(staying)
    counted = sorted(Counter(one.kind for one in fewer).items())
    kinds = ", ".join(f"{number} {kind}" for kind, number in counted)
    do = "does" if len(fewer) == 1 else "do"
    what = f"{do} not expire" if fewer is staying else "expires" if do == "does" else "expire"
    fix = ""
    if len(fewer) == 1:
        seconds = max(int(ms) for ms in left if ms is not None) // 1000
        fix = f"EXPIRE {{}} {seconds}" if fewer is staying else "PERSIST {}"
        fix = fix.format(quoted(fewer[0].name))
    detail = f"{len(fewer)} of {total} keys {what}: {kinds}"
    yield Fault("ttl-partial", detail, thread_id, ns, own, fix=fix)


Owner = tuple[bytes, CheckpointKey, bool]
"""A write, as `RedisLayout.owners_of` returns it."""
_FOUND_AT_ONCE, _GROUPED_AT_ONCE = 50, 100
"""Number of threads that are found together in an index, and whose writes are read together."""


class RedisLayout(ABC):
    """A layout of checkpoints in Redis. Methods read the current data; there is no snapshot."""

    name: str
    saver: str
    capabilities: Capability
    tables: tuple[str, ...]
    types: Mapping[str, str]
    """By kind of its keys, their type."""
    kind_of_writes = "writes"
    store: type[Any] | None = None
    """The store for reading; None if it is `RedisStore`."""
    removal: type[Any]
    """How a thread is removed: a `ThreadRemoval`."""
    plan: type[Any]
    """How a change becomes commands: a `CommandPlan`."""
    is_by_arrival = False
    """Whether the writes of a checkpoint are ordered by the time they were stored."""
    lists_parents = True
    """Whether `entries` contain the parents of checkpoints; otherwise only the bodies do."""
    lists_additions = False
    """Whether a pointer or a list names each checkpoint and write that an agent adds. Otherwise an
    index finds the keys of a thread right before its removal."""

    def __init__(self, connection: RedisConnection) -> None:
        self.connection = connection

    # What the layout brings to change and archive a store

    def check_writable(self, url: StoreUrl) -> None:  # noqa: B027
        """Raise `Unsupported` if the store of this layout cannot be changed."""

    def reception(self, arrival: Arrival) -> Reception[Any]:  # noqa: ARG002
        """How this layout stores the records of a thread of another store. Raises `Unsupported`."""
        raise Unsupported(f"threads cannot be copied into the layout '{self.name}'")

    def removals(self, lock: PurgeLock, thread_ids: Sequence[str]) -> Iterator[ThreadRemoval[Any]]:
        """The removal of each of these threads."""
        return (self.removal(self, lock, keys) for keys in self.grouped(thread_ids))

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

    # All keys of threads, for archives and removals
    #
    # A checkpoint has a key, the keys of its writes and, in some layouts, a list of its writes. A
    # namespace may have a pointer to its head, or a list of writes. Separate values belong to the
    # thread, because several checkpoints may share one.

    @abstractmethod
    def own_rows(self, thread_id: str, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows of an archive, if all are keys of the thread. Raises `Refused`."""

    @abstractmethod
    def keys_at(self, key: CheckpointKey, *, is_there: bool) -> CheckpointKeys:
        """The keys of a checkpoint, without those of its writes."""

    def pointers(self, thread_id: str, ns: str) -> dict[str, list[bytes]]:  # noqa: ARG002
        """By kind, the keys of a namespace that name its head, or list its writes."""
        return {}

    def grouped(self, thread_ids: Sequence[str]) -> Iterator[KeysByCheckpoint]:
        """The keys of some threads. Without an index, they are found with one SCAN."""
        if not self.is_indexed():
            found = self.find(thread_ids)
            for some in in_chunks(thread_ids, _GROUPED_AT_ONCE):
                yield from self._grouped_all(some, found)
            return
        for some in in_chunks(thread_ids, _FOUND_AT_ONCE if self.lists_additions else 1):
            yield from self._grouped_all(some, self.find(some))

    def _grouped_all(
        self, thread_ids: Sequence[str], found: Mapping[str, ThreadKeys]
    ) -> Iterator[KeysByCheckpoint]:
        """The keys of each of some threads. Their writes are looked up together."""
        owners: dict[str, list[Owner]] = {one: [] for one in thread_ids}
        names = dict.fromkeys(write.name for one in thread_ids for write in found[one].writes)
        for owner in self.owners_of(list(names)):
            if (of_thread := owners.get(owner[1].thread_id)) is not None:
                of_thread.append(owner)
        for thread_id in thread_ids:
            yield self._grouped(thread_id, found[thread_id], owners[thread_id])

    def _grouped(
        self, thread_id: str, found: ThreadKeys, owners: Iterable[Owner]
    ) -> KeysByCheckpoint:
        groups = self._groups(thread_id, found, owners)
        apart = {key: name for name, own, key, _ in self.blobs(found) if own == thread_id}
        shared = {ns: self.pointers(thread_id, ns) for ns, _ in groups}
        return KeysByCheckpoint(thread_id, groups, shared, apart)

    def _groups(
        self, thread_id: str, found: ThreadKeys, owners: Iterable[Owner]
    ) -> dict[tuple[str, str], CheckpointKeys]:
        """The keys of a thread by checkpoint. `owners` are those of its writes."""
        groups = {at: self.keys_at(one.key, is_there=True) for at, one in found.places.items()}
        for name, key, is_whole in owners:
            if key.thread_id != thread_id:
                continue
            at = (key.checkpoint_ns, key.checkpoint_id)
            if at not in groups:
                groups[at] = self.keys_at(key, is_there=False)
            known = groups[at].names[self.kind_of_writes]
            if known[-1:] != [name]:  # the writes of a checkpoint may share a key
                known.append(name)
            if is_whole:
                groups[at].writes.append(name)
        return groups

    def named_in(self, some: Sequence[KeysByCheckpoint]) -> list[set[bytes]]:
        """For each thread, the keys that its pointers and its heads' lists currently contain."""
        asked = [
            (number, ("GET", name) if self.types[kind] == STRING else ("ZRANGE", name, 0, -1))
            for number, keys in enumerate(some)
            for kinds in (*keys.shared.values(), *(head.names for head in keys.heads.values()))
            for kind, names in kinds.items()
            if self.types[kind] in {STRING, ZSET}
            for name in names
        ]
        found: list[set[bytes]] = [set() for _ in some]
        answers = self.connection.ask_all(command for _, command in asked)
        for (number, _), answer in zip(asked, answers, strict=True):
            found[number].update(answer if isinstance(answer, list) else [answer] if answer else [])
        return found

    def rows(self, thread_id: str) -> Iterator[Row]:
        """The rows of a thread. Keys that were removed meanwhile are left out."""
        for keys in self.grouped([thread_id]):
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


LayoutT = TypeVar("LayoutT", bound=RedisLayout)


# How layouts find their stores in a database.
#
# The declaration of a layout's package names a `Recogniser` in its field `recognise`. The engine
# creates one of each for a database, and asks all of them; see `store`.


_TURNS, _SAMPLED = 10, 20
"""SCAN stops after this many batches if a layout was found; keys to examine in each batch."""


@dataclass(frozen=True, slots=True)
class RecognisedStore:
    """A store, identified by the values of URL parameters."""

    layout: str
    open: Callable[[], RedisLayout] = field(compare=False)
    prefix: str | None = None
    """None for a layout without prefixes."""
    write_prefix: str | None = None
    is_usual: bool = True
    """Whether its saver uses the default prefixes."""

    def params(self, stores: Sequence[RecognisedStore]) -> dict[str, str]:
        """The URL parameters that select this store and none of the others."""
        others = [one for one in stores if one != self]
        found = {"layout": self.layout} if any(one.layout != self.layout for one in others) else {}
        same = [one for one in others if one.layout == self.layout]
        named = {"prefix": self.prefix, "write_prefix": self.write_prefix}
        if not self.is_usual or same:
            found |= {name: one for name, one in named.items() if one is not None}
        return found

    def __str__(self) -> str:
        if self.is_usual:
            return self.layout
        writes = f", writes '{self.write_prefix}'" if self.write_prefix else ""
        return f"{self.layout} (prefix '{self.prefix}'{writes})"


@dataclass(frozen=True, slots=True)
class SampledDocument:
    """A JSON document that names its thread."""

    name: bytes
    has_writes: object
    """The value of this field; None if there is none."""
    has_text: bool
    """Whether the metadata is a text."""


@dataclass(frozen=True, slots=True)
class Sample:
    """Some keys with one prefix, by their types."""

    documents: Sequence[SampledDocument]
    hashes: Sequence[bytes]
    strings: Sequence[bytes]


class KeyDatabase:
    """A database, with the prefixes that the URL names."""

    def __init__(
        self,
        connection: RedisConnection,
        backends: Sequence[Backend],
        prefix: str | None,
        write_prefix: str | None,
        params: Mapping[str, str],
    ) -> None:
        self.connection = connection
        self.prefix, self.write_prefix = prefix, write_prefix
        self.params = params
        """All parameters of the URL."""
        self._backends = backends
        self.recognisers = recognisers(backends, self)
        self._samples: dict[str, dict[str, list[bytes]]] = {}

    @property
    def kinds(self) -> set[str]:
        """The layouts of the sampled keys, including layouts that ckpt cannot read."""
        return {kind for found in self._samples.values() for kind in found}

    def stores(self) -> list[RecognisedStore]:
        """The stores that match the URL, in the order of listing."""
        found = [store for one in self.recognisers for store in one.stores()]
        if not found and not self.kinds:
            found = [store for one in self.recognisers for store in one.stores_if_alone()]
        order = [layout for one in self.recognisers for layout in one.layouts]
        return sorted(found, key=lambda one: (order.index(one.layout), str(one)))

    def elsewhere(self) -> list[RecognisedStore]:
        """The stores with any prefixes, if the URL has a prefix; otherwise empty."""
        if self.prefix is None and self.write_prefix is None:
            return []
        return self.at(self.connection).stores()

    def at(self, connection: RedisConnection) -> KeyDatabase:
        """Another database, or this one, with any prefixes."""
        return KeyDatabase(connection, self._backends, None, None, self.params)

    def sampled(self, prefix: str) -> Mapping[str, Sequence[bytes]]:
        """By layout, the keys of some checkpoints with this prefix.

        If keys cannot be read, they are ignored, unless the prefix is the default or in the URL:
        the user may have access to the keys of one store only.
        """
        if prefix not in self._samples:
            self._samples[prefix] = {}
            is_needed = prefix in {self.prefix, USUAL.checkpoint}
            with suppress(*(() if is_needed else (StoreUnavailable,))):
                self._sample(prefix, self._samples[prefix])
        return self._samples[prefix]

    def _sample(self, prefix: str, found: dict[str, list[bytes]]) -> None:
        marks = [":"]
        if prefix == USUAL.checkpoint:
            marks = sorted({mark for one in self.recognisers for mark in one.separators})
        pattern = literally(prefix) + f"[{''.join(one[0] for one in marks)}]*".encode()
        starts = [raw(prefix + mark) for mark in marks]
        for turn, names in enumerate(self.connection.scan(pattern)):
            for start in starts:
                some = [one for one in names if one.startswith(start)]
                sample = self._read(prefix, some[:: len(some) // _SAMPLED + 1])
                for recogniser in self.recognisers:
                    for name, layout in recogniser.recognise(sample):
                        found.setdefault(layout, []).append(name)
            if found and turn >= _TURNS:
                break

    def _read(self, prefix: str, names: Sequence[bytes]) -> Sample:
        types = list(self.connection.ask_all(("TYPE", name) for name in names))
        by_type = {
            kind: [one for one, found in zip(names, types, strict=True) if found == kind.encode()]
            for kind in (DOCUMENT, HASH, STRING)
        }
        documents = list(self._documents(prefix, by_type[DOCUMENT]))
        return Sample(documents, by_type[HASH], by_type[STRING])

    def _documents(self, prefix: str, names: Sequence[bytes]) -> Iterator[SampledDocument]:
        told = list(fields_at(self.connection, names, ("thread_id", "has_writes")))
        types = self.connection.ask_all(("JSON.TYPE", name, "$.metadata") for name in names)
        for (name, (thread, has_writes)), kind in zip(told, types, strict=True):
            starts = (f"{prefix}:{thread}:", f"{prefix}:{stored_id(str(thread))}:")
            # Without a type it was removed meanwhile, and nothing tells the layout.
            if None not in (kind, thread) and name.startswith(tuple(map(raw, starts))):
                yield SampledDocument(name, has_writes, kind == [b"string"])


class Recogniser(ABC):
    """Finds the stores of some layouts in a database."""

    layouts: Sequence[str]
    """The names of its layouts, in the order of listing."""
    rank = 100
    """Where its layouts are listed: those of lower numbers first."""
    separators: Sequence[str] = ":"
    """What may follow the default prefix in its keys. Keys with each of these are sampled."""

    def __init__(self, database: KeyDatabase) -> None:
        self.database = database
        self.connection = database.connection

    def recognise(self, sample: Sample) -> Iterator[tuple[bytes, str]]:  # noqa: ARG002
        """The checkpoints of its layouts among these keys, each with the layout.

        A layout that is not in `layouts` is one that ckpt can only tell apart.
        """
        yield from ()

    @abstractmethod
    def named(self, layout: str, prefix: str | None, write_prefix: str | None) -> RecognisedStore:
        """The store that these URL parameters name; it may not exist."""

    def is_certain(self, layout: str) -> bool:  # noqa: ARG002
        """Whether the URL names one store if it names this layout, so that no search is needed."""
        return True

    def stores(self) -> list[RecognisedStore]:
        """The stores that match the URL."""
        found = self.database.sampled(self.database.prefix or USUAL.checkpoint)
        return [self.named(one, None, None) for one in self.layouts if one in found]

    def stores_if_alone(self) -> list[RecognisedStore]:
        """The stores that match the URL, if no layout was found. This may search all keys."""
        return []

    def fallback(self) -> RedisLayout | None:
        """The layout to open if the database has no other store; None if there is none."""
        return None

    def unreadable(self) -> str:
        """What is in the database that ckpt cannot read; `''` if nothing was found."""
        return ""

    def expected(self, prefix: str | None) -> str:  # noqa: ARG002
        """The keys to look for, for a hint; `''` if another layout has the same."""
        return ""


def recognisers(backends: Iterable[Backend], database: KeyDatabase) -> list[Recogniser]:
    """The recognisers of those backends that the engine `redis` serves, in the order of listing."""
    found: list[Recogniser] = []
    for one in backends:
        if one.engine == "redis":
            module, _, name = one.recognise.partition(":")
            found.append(getattr(import_module(module), name)(database))
    return sorted(found, key=lambda one: one.rank)


# Faults of the lists by which savers find the checkpoints of a namespace, the head first.


def gone_from_list(
    layout: RedisLayout, name: bytes, keys: Sequence[CheckpointKey], remove: str
) -> Iterator[Fault]:
    """`index-stale`, if checkpoints are gone that the list with this name contains, newest first.

    An expired checkpoint leaves its id in the list. If it was the head, the saver finds none.
    `remove` is the beginning of the command that removes an id from a list, up to the list's name
    as `{}`.
    """
    connection = layout.connection
    answers = connection.ask_all(("EXISTS", layout.checkpoint_name(one)) for one in keys)
    gone = [key for key, is_there in zip(keys, answers, strict=True) if not is_there]
    if not gone or len(gone) == len(keys):
        return
    is_headless = keys[0] in gone
    if not is_headless and not stays(connection, name):
        return
    detail = f"{len(gone)} of {len(keys)} checkpoints in the list of the namespace are not stored"
    if is_headless:
        detail += "; one of them is the head, so the saver finds no checkpoint here"
    own, fix = None, ""
    if len(gone) == 1:
        own = gone[0].checkpoint_id
        fix = f"{remove.format(quoted(name))} {quoted(own.encode())}"
    yield Fault("index-stale", detail, keys[0].thread_id, keys[0].checkpoint_ns, own, fix=fix)


def stays(connection: RedisConnection, name: bytes) -> bool:
    """Whether a key exists and does not expire."""
    return bool(connection.ask("PTTL", name) == _STAYS)


# What a thread of another store becomes here.


@dataclass(frozen=True, slots=True)
class NewDocument:
    """A document to create."""

    name: bytes
    data: bytes
    """JSON."""
    expires_at: int | None
    """Milliseconds since 1970."""
    is_string: bool = False
    """Whether it is stored as a string, for which RedisJSON is not needed."""

    def command(self, start: bytes = b"", *words: str) -> Command:
        """The command that creates it under its name behind `start`."""
        name = start + self.name
        if self.is_string:
            return ("SET", name, self.data, *words)
        return ("JSON.SET", name, "$", self.data, *words)


class Reception(ABC, Generic[LayoutT]):
    """What one layout makes of the records of one thread."""

    def __init__(self, layout: LayoutT, arrival: Arrival) -> None:
        self._layout = layout
        self.arrival = arrival

    @abstractmethod
    def documents(self, record: Record) -> Iterator[NewDocument]:
        """The documents of a record. Raises `CannotHold`."""

    def rest(self) -> Iterator[NewDocument]:
        """The documents that are known only after all records. Raises `CannotHold`."""
        yield from ()

    def heads(self) -> dict[str, str]:
        """By namespace, the id of the head that the store has. Called after all records."""
        thread_id = self.arrival.thread_id
        return heads_of(self._layout.find([thread_id])[thread_id].places.values())

    @abstractmethod
    def watched(self) -> Sequence[bytes]:
        """Keys that a saver touches when it adds a checkpoint. Called after all records."""

    @abstractmethod
    def last(self) -> Iterator[Command]:
        """Commands for lists of writes and for pointers to heads, after all documents."""


# What the plans of a change of all layouts do alike: find, check and watch the keys it needs.


NO_EXPIRY = -1


class CommandPlan(ABC, Generic[LayoutT]):
    """A change as Redis commands, with checks that must hold when they run."""

    watched: Sequence[bytes] = ()
    """Keys that a saver touches whenever it adds a checkpoint."""
    beside: Sequence[bytes] = ()
    """Keys that the change also modifies but does not watch: all threads share them."""

    def __init__(self, layout: LayoutT, change: Change) -> None:
        self._layout = layout
        self._connection = layout.connection
        self._change = change
        self._needed: set[bytes] = set()
        self._made: set[bytes] = set()
        self._removed: set[bytes] = set()

    @abstractmethod
    def commands(self) -> Iterator[Command]:
        """The commands of the change. Raises `StoreChanged` and `Unsupported`."""

    def last(self) -> Iterator[Command]:
        """Commands that can only be computed after `check`."""
        yield from ()

    def _places(self) -> Iterable[CheckpointEntry]:
        """The current checkpoints of the thread."""
        thread_id = self._change.thread_id
        return self._layout.find([thread_id])[thread_id].places.values()

    @property
    def touched(self) -> Sequence[bytes]:
        """Keys that these commands read or create."""
        return sorted(self._needed | self._made)

    def check(self) -> None:
        """Raise `StoreChanged` if the thread changed since the change was planned."""
        if heads_of(self._places()) != dict(self._change.heads):
            raise moved(self._change.thread_id)
        made, needed = sorted(self._made - self._removed), sorted(self._needed)
        if self._connection.number_of(made) or self._connection.number_of(needed) != len(needed):
            raise moved(self._change.thread_id)

    def _make(self, name: bytes) -> bytes:
        self._made.add(name)
        return name

    def _need(self, name: bytes, key: CheckpointKey) -> bytes:
        if not self._connection.number_of([name]):
            raise gone(key)
        self._needed.add(name)
        return name

    def _left(self, name: bytes) -> int:
        """The remaining time to live in milliseconds; negative if the key does not expire."""
        return int(self._connection.ask("PTTL", name))


def expiring(name: bytes, expiry: int) -> Iterator[Command]:
    """Let a key expire after so many milliseconds; never if the number is negative."""
    if expiry >= 0:
        yield ("PEXPIRE", name, expiry)


def heads_of(places: Iterable[CheckpointEntry]) -> dict[str, str]:
    """By namespace, the id of its head."""
    heads: dict[str, CheckpointEntry] = {}
    for one in places:
        known = heads.setdefault(one.key.checkpoint_ns, one)
        if (known.rank, known.key) < (one.rank, one.key):
            heads[one.key.checkpoint_ns] = one
    return {ns: one.key.checkpoint_id for ns, one in heads.items()}


# A lock that allows only one purge at a time: a key that expires if its owner is killed.


LOCK = b"ckpt:purge-lock"
_HELD = 3000
"""Time to live of the key in milliseconds. A killed run blocks others for at most this time."""
_KEPT = 0.5
"""Seconds between two extensions of the time to live."""
_PATIENCE = 6.0
"""Seconds that another run waits for the lock."""


class PurgeLock:
    """The lock, held by this run."""

    def __init__(self, driver: Any, url: StoreUrl) -> None:
        self._driver = driver
        self._url = url
        import secrets  # late: readers do not need it

        self._token = secrets.token_hex(8).encode()
        self._again = 0.0
        """When the time to live must be extended again, as `time.monotonic`."""

    def keep(self) -> None:
        """Extend the time to live. If the lock was lost, take it again; raises `Refused`.

        The lock only prevents two runs from doing the same work. Removing is safe without it.
        """
        if time.monotonic() < self._again:
            return
        if self._driver.get(LOCK) == self._token:
            self._driver.pexpire(LOCK, _HELD)
            self._again = time.monotonic() + _KEPT
        else:
            self.take()

    def take(self) -> None:
        """Acquire the lock. Raises `Refused` if another run holds it for `_PATIENCE` seconds."""
        until = time.monotonic() + _PATIENCE
        while not self._driver.set(LOCK, self._token, nx=True, px=_HELD):
            if time.monotonic() > until:
                raise Refused(
                    f"another purge of '{self._url}' is running",
                    hint="run the command again when it has finished; its lock is the key"
                    f" '{LOCK.decode()}', which expires a few seconds later",
                )
            time.sleep(random.uniform(0.01, 0.05))  # noqa: S311
        self._again = time.monotonic() + _KEPT

    def release(self) -> None:
        """Release the lock if this run still holds it."""
        with self._driver.pipeline(transaction=True) as pipe:
            pipe.watch(LOCK)
            if pipe.get(LOCK) == self._token:
                pipe.multi()
                pipe.unlink(LOCK)
                pipe.execute()


@contextmanager
def purge_lock(connection: RedisConnection, url: StoreUrl) -> Iterator[PurgeLock]:
    """Hold the lock inside the `with` block. Raises `Refused` and the driver's errors."""
    lock = PurgeLock(connection.client_of(LOCK), url)
    lock.take()
    try:
        yield lock
    finally:
        # If releasing fails, the lock expires.
        with suppress(exceptions.RedisError, OSError):
            lock.release()


# The removal of the keys of one thread, and what all layouts do alike.
#
# A thread with few keys is removed in one transaction. One transaction with many keys would block
# Redis for long, so a large thread is removed in several steps. The order of the steps is the
# layout's; an interrupted removal leaves a thread that the next run removes in the same way.


KEYS_AT_ONCE = 1000
Step = list[tuple[str, Command]]
"""The commands of one transaction, each with a kind of keys, or `''`.

A command with a kind returns the number of removed keys of that kind.
"""


class ThreadRemoval(ABC, Generic[LayoutT]):
    """The removal of one thread, or of a part of it."""

    def __init__(self, layout: LayoutT, lock: PurgeLock, keys: KeysByCheckpoint) -> None:
        self._layout = layout
        self._connection = layout.connection
        self._lock = lock
        self.keys = keys

    def carry_out(self, removal: Removal) -> Removed:
        keys = self.keys
        if removal.checkpoints and not keys.checkpoints:
            return Removed(removal.thread_id, skipped=GONE)
        if not self._is_as_planned(removal):
            return Removed(removal.thread_id, skipped=MOVED)
        self._lock.keep()
        steps = self._steps(removal.inside)
        names = [one for step in steps for _, command in step for one in keys_of(command)]
        rows: Counter[str] = Counter()
        run_step = self._run_watched
        try:
            for step in steps:
                self._lock.keep()
                with self._connection.transaction(names, loose=True) as pipe:
                    run_step(pipe, step, rows)
                run_step = self._run_next
        except exceptions.WatchError:
            return removed(removal, rows)._replace(skipped=MOVED)
        self._run_last(removal, rows)
        return removed(removal, rows)

    def only_step(self, removal: Removal) -> Step | None:  # noqa: ARG002
        """The step that removes a whole thread, for a transaction that it shares with others.

        None if it must be removed alone.
        """
        return None

    @abstractmethod
    def _steps(self, inside: Inside | None) -> list[Step]:
        """The commands of each transaction. There is at least one step; it may be empty."""

    @abstractmethod
    def _run_watched(self, pipe: Any, step: Step, rows: Counter[str]) -> None:
        """Run the first step. Raises `WatchError` if an agent has continued the thread."""

    def _run_next(self, pipe: Any, step: Step, rows: Counter[str]) -> None:
        """Run a later step. Raises `WatchError` if an agent has continued the thread."""
        run(pipe, step, rows)

    def _run_last(self, removal: Removal, rows: Counter[str]) -> None:
        """Remove the keys that must be checked again."""

    def _is_as_planned(self, removal: Removal) -> bool:
        keys = self.keys
        if (keys.last_at, keys.writes) != (removal.last_at, removal.writes):
            return False
        number = len(keys.checkpoints)
        if number == removal.checkpoints:
            return True
        # The plan may have counted keys of checkpoints that the saver did not store completely.
        names = [name for one in keys.groups.values() for name in one.names[CHECKPOINT]]
        return removal.checkpoints == sum(self._existing(names))

    def _existing(self, names: Iterable[bytes]) -> Iterator[bool]:
        return (bool(one) for one in self._connection.ask_all(("EXISTS", name) for name in names))


def watch_tasks(
    pipe: Any, heads: Iterable[CheckpointKeys], kind: str, owners_of: Callable[..., Iterable[Owner]]
) -> None:
    """Watch the keys of the writes of heads, where all writes of a checkpoint share one.

    A new write adds no key then. `kind` is that of the writes, `owners_of` a method of the layout.
    Raises `WatchError` if a task has gone on.
    """
    known = {name: one.writes.count(name) for one in heads for name in one.names[kind]}
    if known:
        pipe.watch(*known)
        if Counter(name for name, _, _ in owners_of(list(known))) != Counter(known):
            raise exceptions.WatchError("a task went on")


def unlink(kind: str, names: Sequence[bytes]) -> tuple[str, Command]:
    """The command that removes keys of a kind."""
    return kind, ("UNLINK", *names)


def removed(removal: Removal, rows: Counter[str]) -> Removed:
    """The result of a removal that was carried out."""
    return Removed(removal.thread_id, {kind: number for kind, number in rows.items() if number})


def run(pipe: Any, step: Step, rows: Counter[str]) -> None:
    """Run a transaction and count the removed keys by kind. Raises `WatchError`."""
    run_together(pipe, [(step, rows)])


def run_together(pipe: Any, parts: Sequence[tuple[Step, Counter[str]]]) -> None:
    """Run steps of several threads in one transaction, and count the removed keys of each by kind.

    Raises `WatchError`.
    """
    pipe.multi()
    for step, _ in parts:
        for _, command in step:
            pipe.execute_command(*command)
    kinds = [(kind, rows) for step, rows in parts for kind, _ in step]
    for (kind, rows), answer in zip(kinds, pipe.execute(), strict=True):
        if kind:
            rows[kind] += int(answer)
