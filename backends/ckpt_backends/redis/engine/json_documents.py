"""RedisJSON documents of checkpoints and writes: what the savers of Python and JavaScript share.

    PREFIX:THREAD:NS:ID                {thread_id, checkpoint_ns, checkpoint_id,
                                        parent_checkpoint_id, checkpoint: {...}, metadata,
                                        has_writes, ...}
    WRITE_PREFIX:THREAD:NS:ID:TASK:IDX {thread_id, ..., task_id, idx, channel, type, ...}
    write_keys_zset:THREAD:NS:ID       the keys of a checkpoint's writes

Keys are not escaped and may be ambiguous, so thread, namespace and id are read from the document.
An empty namespace is stored as `__empty__`, an empty id as the nil UUID. ckpt ignores
`has_writes`: `put` may overwrite the flag that `put_writes` set, and then the saver itself does not
see the writes.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

from ckpt_backends.codec.limits import MOST_BYTES, unread
from ckpt_backends.model import Checkpoint, CheckpointKey, ThreadSize, TypedBytes, Usage
from ckpt_backends.protocol import Store
from ckpt_backends.read_options import CheckpointQuery
from ckpt_backends.redis.engine.connection import RedisConnection, in_chunks, in_parts
from ckpt_backends.redis.engine.document_fields import (
    LISTS,
    Prefixes,
    fields_of,
    meant_id,
    meant_ns,
    member,
)
from ckpt_backends.redis.engine.document_search import DocumentSearch
from ckpt_backends.redis.engine.key_removal import KeyRemoval
from ckpt_backends.redis.engine.keyspace import (
    APART,
    DOCUMENT,
    CheckpointEntry,
    ListedNamespace,
    ThreadKeys,
    WriteEntry,
    literally,
    quoted,
    raw,
    text,
)
from ckpt_backends.redis.engine.layout import RedisLayout
from ckpt_backends.redis.engine.other_layouts import leave_others
from ckpt_backends.redis.engine.purge_lock import PurgeLock
from ckpt_backends.redis.engine.sizes import SummedSizes
from ckpt_backends.redis.engine.store import RedisStore
from ckpt_backends.redis.engine.thread_faults import ThreadKey
from ckpt_backends.redis.engine.thread_listing import namespaces_by_name
from ckpt_backends.url import StoreUrl

_FIELDS = '$["thread_id","checkpoint_ns","checkpoint_id","parent_checkpoint_id","has_writes"]'
"""A single path, because JSON.MGET takes one. The fields are in the order of the documents."""
_PARENT = 3
"""The place of the parent in these fields: behind those that name the checkpoint."""
_SIZED, _SIZED_FIELDS = '$["checkpoint","metadata"]', 2
_FIELDS_OF_WRITE = '$["thread_id","checkpoint_ns","checkpoint_id","task_path"]'
_DOCUMENTS_AT_ONCE, _CHECKPOINTS_AT_ONCE = 500, 50
_PARTS_OF_WRITE = 3
"""Parts at the end of a write's key: checkpoint id, task id and idx. They contain no colon."""


class JsonDocuments(RedisLayout):
    """A layout of documents, with the full history. Subclasses know the form of one saver."""

    dialect: str
    """Type tag of the JSON in the documents."""
    value: str
    """The field of a write that contains its value."""

    def __init__(self, connection: RedisConnection, prefixes: Prefixes) -> None:
        super().__init__(connection)
        self.prefixes = prefixes
        self._kinds: tuple[str, ...] = (prefixes.checkpoint, prefixes.write)
        self.tables = tuple(f"{one}:*" for one in self._kinds)

    def open(self, url: StoreUrl) -> Store:
        return RedisStore(self, url)

    def removals(self, lock: PurgeLock, thread_ids: Sequence[str]) -> Iterator[KeyRemoval]:
        finder = self.finder()
        return (KeyRemoval(finder, lock, keys) for keys in finder.find(thread_ids))

    @abstractmethod
    def is_own(self, flags: Sequence[object]) -> bool:
        """Whether `has_writes` of a document has the type that this saver stores.

        `flags` is empty if the document has no such field.
        """

    @abstractmethod
    def is_own_write(self, paths: Sequence[object]) -> bool:
        """Whether this saver stored a write. `paths` has its task path, or is empty."""

    def stored_thread(self, thread_id: str) -> str:
        """A thread id as the documents contain it."""
        return thread_id

    def meant_thread(self, stored: str) -> str:
        """The thread id of a document."""
        return stored

    def place(self, key: CheckpointKey) -> str:
        """The part THREAD:NS:ID of the keys of a checkpoint."""
        return f"{key.thread_id}:{key.checkpoint_ns}:{key.checkpoint_id}"

    def checkpoint_name(self, key: CheckpointKey) -> bytes:
        return raw(f"{self.prefixes.checkpoint}:{self.place(key)}")

    def write_name(self, key: CheckpointKey, task_id: str, idx: int) -> bytes:
        """The key of a write's document."""
        return raw(f"{self.prefixes.write}:{self.place(key)}:{task_id}:{idx}")

    def name_of(self, document: Mapping[str, Any]) -> bytes | None:
        """The key that a checkpoint's document must have; None if a part is missing."""
        match document:
            case {"thread_id": str(thread), "checkpoint_ns": str(ns), "checkpoint_id": str(own)}:
                key = CheckpointKey(self.meant_thread(thread), meant_ns(ns), own)
                return self.checkpoint_name(key)
        return None

    def lists(self, key: CheckpointKey) -> list[bytes]:
        """The keys that list a checkpoint's writes, the current one first."""
        return [raw(f"{LISTS}:{self.place(key)}")]

    @property
    def other_prefixes(self) -> Collection[str]:
        """The prefixes of other savers' checkpoints in the database, whose writes may be here."""
        return ()

    def pointers(self, thread_id: str, ns: str) -> dict[str, list[bytes]]:  # noqa: ARG002
        """By kind, the keys of a namespace that name its head or its writes."""
        return {}

    def namespaces(self, prefix: str = "") -> Iterator[ListedNamespace]:
        return namespaces_by_name(partial(self._names, prefix), self.entries, b":")

    def _names(self, prefix: str) -> Iterator[list[bytes]]:
        pattern = literally(f"{self.prefixes.checkpoint}:{prefix}") + b"*"
        return self.connection.scan(pattern, DOCUMENT)

    def find(self, thread_ids: Collection[str]) -> dict[str, ThreadKeys]:
        return self._found(self._search.names_of(list(thread_ids)))

    def writes_at(self, keys: Collection[CheckpointKey]) -> list[WriteEntry]:
        index, found = self._search.indexes[1], set[bytes]()
        ids = {key: (self.stored_thread(key.thread_id), key.checkpoint_id) for key in keys}
        asked = [key for key, one in ids.items() if index is not None and index.takes(*one)]
        rest = ids.keys() - asked
        for some in in_parts(asked, _CHECKPOINTS_AT_ONCE):
            names = None if index is None else index.names_at(map(ids.__getitem__, some))
            rest |= set(some if names is None else ())
            found.update(names or ())
        return list(map(_write_place, sorted(found.union(self._scanned_writes(rest)))))

    def writes_on(self, channels: Collection[str]) -> list[WriteEntry] | None:
        index = self._search.indexes[1]
        names = None if index is None else index.names_on(sorted(channels))
        return None if names is None else list(map(_write_place, sorted(names)))

    def _scanned_writes(self, keys: Collection[CheckpointKey]) -> Iterator[bytes]:
        starts: dict[str, tuple[bytes, ...]] = {}
        for key in keys:
            start = raw(f"{self.prefixes.write}:{self.stored_thread(key.thread_id)}:")
            starts[key.checkpoint_id] = (*starts.get(key.checkpoint_id, ()), start)
        if starts:
            for names in self.connection.scan(raw(f"{self.prefixes.write}:*"), DOCUMENT):
                for place in map(_write_place, names):
                    if place.name.startswith(starts.get(place.checkpoint_id, ())):
                        yield place.name

    def is_indexed(self) -> bool:
        return None not in self._search.indexes

    @cached_property
    def _search(self) -> DocumentSearch:
        return DocumentSearch(self.connection, self._kinds, self.stored_thread)

    def _found(self, names: Mapping[str, Collection[bytes]]) -> dict[str, ThreadKeys]:
        """By thread, its keys among those that may be of it; see `other_layouts`."""
        found: dict[str, ThreadKeys] = {}
        documents: dict[str, list[bytes]] = {}
        for thread_id, some in names.items():
            # The search may return keys of other threads; a pattern for `a` also finds those of
            # `a:b`.
            starts = [raw(f"{kind}:{self.stored_thread(thread_id)}:") for kind in self._kinds]
            checkpoints, writes, *apart = (
                sorted(one for one in some if one.startswith(start)) for start in starts
            )
            documents[thread_id] = checkpoints
            blobs = [one for some in apart for one in some]
            found[thread_id] = ThreadKeys(writes=list(map(_write_place, writes)), blobs=blobs)
        known = dict.fromkeys(name for some in documents.values() for name in some)
        for place in self.entries(list(known)):
            if (keys := found.get(place.key.thread_id)) is not None:
                keys.places[place.key.checkpoint_ns, place.key.checkpoint_id] = place
        leave_others(self, found, documents)
        return found

    def pages(self) -> Iterator[ThreadKeys]:
        for kind in self._kinds:
            for names in self.connection.scan_once(raw(f"{kind}:*"), DOCUMENT):
                if kind == self.prefixes.checkpoint:
                    yield ThreadKeys(mixed=list(self.entries(names)))
                elif kind == self.prefixes.write:
                    yield ThreadKeys(writes=list(map(_write_place, names)))
                else:
                    yield ThreadKeys(blobs=names)

    def entries(self, names: Sequence[bytes]) -> Iterator[CheckpointEntry]:
        """The checkpoints among these keys, according to their documents.

        Other documents are left out, for example `{"has_writes": true}`: `put_writes` stores that
        if the checkpoint was not stored yet.
        """
        for name, fields in self.fields(names, _FIELDS):
            if (key := self._key_in(fields)) is None or len(fields) <= _PARENT:
                continue
            parent, flags = fields[_PARENT], fields[_PARENT + 1 :]
            is_parent = parent is None or isinstance(parent, str)
            if is_parent and self.is_own(flags) and self.checkpoint_name(key) == name:
                yield CheckpointEntry(key, name, parent if meant_id(parent or "") else None)

    def _key_in(self, fields: Any) -> CheckpointKey | None:
        """The checkpoint that the first fields of a document name; None if they name none."""
        # A pattern of `match` takes three times as long, for each document of a store.
        is_list = isinstance(fields, list) and len(fields) >= _PARENT
        if not is_list or set(map(type, fields[:_PARENT])) != {str}:
            return None
        thread, ns, own = fields[:_PARENT]
        return CheckpointKey(self.meant_thread(thread), meant_ns(ns), own)

    def fields(self, names: Sequence[bytes], path: str) -> Iterator[tuple[bytes, list[Any]]]:
        """The values at a path of several fields; empty for a missing document."""
        for some in in_parts(names, _DOCUMENTS_AT_ONCE):
            answers = self.connection.ask("JSON.MGET", *some, path)
            # Parse all answers as one list, which is much faster.
            told = json.loads(b"[" + b",".join(one or b"[]" for one in answers) + b"]")
            yield from zip(some, told, strict=True)

    def checkpoints(
        self, places: Sequence[CheckpointEntry], asked: CheckpointQuery
    ) -> Iterator[Checkpoint]:
        paths = ["$.checkpoint"] if asked.body else []
        paths += ["$.metadata"] if asked.metadata else []
        for some in in_chunks(places, self._sizes):
            answers = self._members(some, paths)
            for place, _ in some:
                mine = {path: next(answers) for path in paths}
                if None not in mine.values():  # deleted or expired since
                    yield Checkpoint(
                        place.key, place.parent, mine.get("$.checkpoint"), mine.get("$.metadata")
                    )

    def _sizes(self, places: Sequence[CheckpointEntry] | Sequence[WriteEntry]) -> Iterator[Any]:
        """The memory of each document in the server, which is about the size of its JSON."""
        return self.connection.ask_all(("MEMORY USAGE", one.name) for one in places)

    def _members(
        self, some: Sequence[tuple[CheckpointEntry, int]], paths: Sequence[str]
    ) -> Iterator[TypedBytes | None]:
        """For each document, the value at each path; None if it does not exist."""
        wanted = [(place.name, path) for place, _ in some for path in paths]
        large = {place.name for place, size in some if size > MOST_BYTES}
        closer = [one for one in wanted if one[0] in large]
        sizes = self.connection.ask_all(("JSON.DEBUG", "MEMORY", *one) for one in closer)
        too_large = {
            one: int(size[0])
            for one, size in zip(closer, sizes, strict=True)
            if size and int(size[0]) > MOST_BYTES
        }
        answers: dict[tuple[bytes, str], bytes | None] = {}
        for path in paths:
            # One command for all is read in much less time than one for each.
            names = [place.name for place, _ in some if (place.name, path) not in too_large]
            found = self.connection.ask("JSON.MGET", *names, path) if names else []
            answers |= {(name, path): one for name, one in zip(names, found, strict=True)}
        for one in wanted:
            if one in too_large:
                yield unread(self.dialect, too_large[one])
            else:
                answer = answers[one]
                yield None if answer is None else TypedBytes(self.dialect, member(answer))

    def owners_of(self, names: Sequence[bytes]) -> Iterator[tuple[bytes, CheckpointKey, bool]]:
        for name, fields in self.fields(names, _FIELDS_OF_WRITE):
            key = self._key_in(fields)
            if key is not None and self.is_own_write(fields[_PARENT:]):
                yield name, key, True

    def usage(self, found: ThreadKeys) -> Iterator[tuple[str, Usage]]:
        yield from self._usage_of_checkpoints(found.checkpoints)
        for some in in_parts(found.writes, _DOCUMENTS_AT_ONCE):
            yield from self._usage_of_writes([one.name for one in some])

    def sizes(self, found: ThreadKeys, thread_ids: Sequence[str]) -> list[ThreadSize]:
        sizes = SummedSizes(thread_ids)
        places = found.checkpoints
        asked = (("JSON.DEBUG", "MEMORY", one.name, _SIZED) for one in places)
        unsure = []
        for place, told in zip(places, self.connection.ask_all(asked), strict=True):
            if told and len(told) == _SIZED_FIELDS:
                sizes.add(place.key.thread_id, sum(map(int, told)), checkpoints=1)
            elif told is not None:
                unsure.append(place)
        for _, one in self._usage_of_checkpoints(unsure):
            sizes.add(one.thread_id, one.bytes, checkpoints=one.column == "metadata")
        for some in in_parts(found.writes, _DOCUMENTS_AT_ONCE):
            owners = list(self.owners_of([one.name for one in some]))
            asked = (("JSON.DEBUG", "MEMORY", name, f"$.{self.value}") for name, _, _ in owners)
            for (_, key, _), told in zip(owners, self.connection.ask_all(asked), strict=True):
                if told is not None:
                    sizes.add(key.thread_id, sum(map(int, told)), writes=1)
        for _, thread_id, _, size in self.blobs(found):
            sizes.add(thread_id, size, blobs=1)
        return sizes.of(thread_ids)

    def _usage_of_checkpoints(
        self, places: Sequence[CheckpointEntry]
    ) -> Iterator[tuple[str, Usage]]:
        columns = ("checkpoint", "metadata")
        sizes = self.connection.ask_all(
            ("JSON.DEBUG", "MEMORY", place.name, f"$.{column}")
            for place in places
            for column in columns
        )
        for place in places:
            for column in columns:
                if size := next(sizes):
                    key, table = place.key, self.tables[0]
                    where = (table, column, key.thread_id, key.checkpoint_ns)
                    yield key.checkpoint_id, Usage(*where, None, "json", 1, int(size[0]))

    def _usage_of_writes(self, names: Sequence[bytes]) -> Iterator[tuple[str, Usage]]:
        """The usage of the writes that `owners_of` returns, even if fields are missing."""
        paths = ("$.thread_id", "$.checkpoint_ns", "$.checkpoint_id")
        told = list(
            self.connection.ask_all(
                ("JSON.GET", one, *paths, "$.channel", "$.type", "$.task_path") for one in names
            )
        )
        asked = [("JSON.DEBUG", "MEMORY", name, f"$.{self.value}") for name in names]
        for answer, size in zip(told, self.connection.ask_all(asked), strict=True):
            fields = fields_of(answer)
            is_own = self.is_own_write([fields[one] for one in ["$.task_path"] if one in fields])
            match [fields.get(path) for path in paths]:
                case [str(thread), str(ns), str(own)] if size is not None and is_own:
                    channel, tag = (str(fields.get(path, "")) for path in ("$.channel", "$.type"))
                    place = (self.meant_thread(thread), meant_ns(ns), channel)
                    number = int(size[0]) if size else 0
                    yield own, Usage(self.tables[1], self.value, *place, tag, 1, number)

    # Faults

    def expiring_keys(self, found: ThreadKeys) -> Iterator[ThreadKey]:
        yield from super().expiring_keys(found)
        for (ns, own), one in found.places.items():
            yield from (ThreadKey(name, LISTS, ns, own) for name in self.lists(one.key))
        yield from (ThreadKey(one, APART, "") for one in found.blobs)

    def threads_with_writes(self) -> Iterator[str]:
        """Reads one write of each namespace, because all have keys with the same beginning."""
        known: set[bytes] = set()
        for names in self.connection.scan(raw(f"{self.prefixes.write}:*"), DOCUMENT):
            first = {one.rsplit(b":", _PARTS_OF_WRITE)[0]: one for one in names}
            new = [name for start, name in first.items() if start not in known]
            known.update(first)
            for _, key, _ in self.owners_of(new):
                yield key.thread_id

    def sources(self, key: CheckpointKey) -> list[str]:
        writes = literally(f"{self.prefixes.write}:{self.place(key)}:")
        return [
            f"JSON.GET {quoted(self.checkpoint_name(key))}",
            *(f"ZRANGE {quoted(one)} 0 -1" for one in self.lists(key)[:1]),
            f"SCAN 0 MATCH {quoted(writes + b'*')}",
        ]


def _write_place(name: bytes) -> WriteEntry:
    parts = name.rsplit(b":", _PARTS_OF_WRITE)
    return WriteEntry(name, text(parts[1]) if len(parts) > 1 else "")
