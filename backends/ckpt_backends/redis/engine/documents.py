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
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

from ckpt_backends.codec.json import unique
from ckpt_backends.codec.values import MOST_BYTES, unread
from ckpt_backends.errors import Refused, StoreUnavailable
from ckpt_backends.model import (
    Capability,
    Checkpoint,
    CheckpointKey,
    Fault,
    TypedBytes,
    Usage,
    Write,
    in_chunks,
)
from ckpt_backends.protocol import CheckpointQuery
from ckpt_backends.redis.engine.changes import AddedWrite, KeyPlan, KeyRemoval
from ckpt_backends.redis.engine.connection import Command, RedisConnection
from ckpt_backends.redis.engine.keyspace import (
    APART,
    CHECKPOINT,
    DOCUMENT,
    LISTS,
    MEMBER,
    STRING,
    USUAL,
    ZSET,
    CheckpointEntry,
    CheckpointKeys,
    ListedNamespace,
    Prefixes,
    ThreadKeys,
    WriteEntry,
    fields_at,
    literally,
    meant_id,
    meant_ns,
    member,
    namespace_of,
    parted,
    quoted,
    raw,
    rest_of,
    row_name,
    stored_forms,
    stored_id,
    text,
    with_sizes,
)
from ckpt_backends.redis.engine.layout import (
    RedisLayout,
    ThreadKey,
    expiring,
    namespaces_by_name,
    namespaces_of,
)
from ckpt_backends.redis.engine.search import DocumentSearch
from ckpt_backends.redis.engine.stored_documents import WRITE
from ckpt_backends.rows import Row, not_of

# Which writes and values under a thread's keys belong to checkpoints of another layout.
#
# Several savers may share a database, and then they share the beginnings of their keys:
#
# * RedisSaver and ShallowRedisSaver both store `checkpoint_write:THREAD:...`, but one names a
#   checkpoint `checkpoint:THREAD:NS:ID`, the other `checkpoint:THREAD:NS`;
# * release 0.0 names it by the id of its parent, and its writes and values look like
#   LangGraph.js's;
# * two savers with different prefixes of checkpoints may have one prefix of writes.
#
# A write without a checkpoint in one layout may be a question that waits in another one. So a
# write without a checkpoint is a thread's own only if no document of any layout has that
# checkpoint.


PLACE = ("thread_id", "checkpoint_ns", "checkpoint_id")
"""The fields that name a checkpoint, in the order of the documents."""
_PLACE = '$["thread_id","checkpoint_ns","checkpoint_id"]'
_OWN_ID = "$.checkpoint.id"
"""The id in a checkpoint's body, which release 0.0 stores nowhere else."""


def leave_others(
    layout: JsonDocuments, found: Mapping[str, ThreadKeys], documents: Mapping[str, Sequence[bytes]]
) -> None:
    """Take out of `found` what belongs to other layouts.

    `documents` are the keys that begin as those of each thread's checkpoints do. Nothing more is
    read if each write has its checkpoint, and each document is of this layout.
    """
    alone: dict[bytes, str] = {}
    """Writes without a checkpoint in this layout, with the thread that they were found for."""
    for thread_id, keys in found.items():
        ids = {own for _, own in keys.places}
        alone |= {one.name: thread_id for one in keys.writes if one.checkpoint_id not in ids}
        own = {one.name for one in keys.places.values()}
        if keys.blobs and not own.issuperset(documents[thread_id]):
            # Release 0.0 of Python's saver stores the field `blob`, LangGraph.js does not.
            asked = (("JSON.TYPE", name, "$.blob") for name in keys.blobs)
            types = zip(keys.blobs, layout.connection.ask_all(asked), strict=True)
            keys.blobs = [name for name, kind in types if not kind]
    owners = {
        name: key for name, key, _ in layout.owners_of(list(alone)) if key.thread_id == alone[name]
    }
    if not owners:
        return
    elsewhere = set(_elsewhere(layout, found, documents, list(owners.values())))
    kept = {name for name, key in owners.items() if _is_of_other(layout, key, found, elsewhere)}
    for keys in found.values():
        keys.writes = [one for one in keys.writes if one.name not in kept]


def _is_of_other(
    layout: JsonDocuments,
    key: CheckpointKey,
    found: Mapping[str, ThreadKeys],
    elsewhere: set[CheckpointKey],
) -> bool:
    """Whether a write of this checkpoint, which this layout does not have, is another layout's."""
    spaces = {one.checkpoint_ns for one in elsewhere if one.thread_id == key.thread_id}
    own = {ns for ns, _ in found[key.thread_id].places}
    if key in elsewhere or (spaces and not own):
        return True
    # A shallow saver leaves writes of checkpoints that it replaced, and lists them as its own. So
    # a layout without history has them, and one with history does not.
    has_history = Capability.HISTORY in layout.capabilities
    return key.checkpoint_ns in spaces and (has_history or key.checkpoint_ns not in own)


def _elsewhere(
    layout: JsonDocuments,
    found: Mapping[str, ThreadKeys],
    documents: Mapping[str, Sequence[bytes]],
    wanted: Sequence[CheckpointKey],
) -> Iterator[CheckpointKey]:
    """The checkpoints of other layouts among the threads of `wanted`."""
    threads = sorted({key.thread_id for key in wanted})
    own = {one.name for thread_id in threads for one in found[thread_id].places.values()}
    names = dict.fromkeys(name for thread_id in threads for name in documents[thread_id])
    # A search index may lack documents of savers that did not create it.
    prefix = layout.prefixes.checkpoint
    names |= dict.fromkeys(name for key in wanted for name in checkpoint_names(prefix, key))
    yield from _read(layout, list(names), own)
    others = dict.fromkeys(
        name
        for prefix in layout.other_prefixes
        for key in wanted
        for name in checkpoint_names(prefix, key)
    )
    try:
        yield from _read(layout, list(others), ())
    except StoreUnavailable:
        # A user without rights to the keys of other savers cannot tell, so nothing is an orphan.
        yield from wanted


def _read(
    layout: JsonDocuments, names: Sequence[bytes], own: Collection[bytes]
) -> Iterator[CheckpointKey]:
    """The checkpoints in these documents; of a layout's own ones, only those with another id."""
    ids = dict(layout.fields(names, _OWN_ID))
    for name, fields in layout.fields(names, _PLACE):
        if (key := layout.key_in(fields)) is None:
            continue
        for one in ids[name]:
            if isinstance(one, str) and one != key.checkpoint_id:
                yield key._replace(checkpoint_id=one)
        if name not in own:
            yield key


def checkpoint_names(prefix: str, key: CheckpointKey) -> Iterator[bytes]:
    """The keys that a checkpoint has in the layouts of documents."""
    for ns in stored_forms(key.checkpoint_ns):
        place = f"{prefix}:{stored_id(key.thread_id)}:{ns}"
        yield from map(raw, (f"{place}:{key.checkpoint_id}", place, f"{place}:shallow"))


_FIELDS = '$["thread_id","checkpoint_ns","checkpoint_id","parent_checkpoint_id","has_writes"]'
"""A single path, because JSON.MGET takes one. The fields are in the order of the documents."""
_PARENT = 3
"""The place of the parent in these fields: behind those that name the checkpoint."""
_SIZED = '$["checkpoint","metadata"]'
_FIELDS_OF_WRITE = '$["thread_id","checkpoint_ns","checkpoint_id","task_path"]'
OF_WRITE = (*PLACE, "task_id", "task_path", "idx", "channel")
"""The fields of a write but its value."""
_DOCUMENTS_AT_ONCE, _CHECKPOINTS_AT_ONCE = 500, 50
_PARTS_OF_WRITE = 3
"""Parts at the end of a write's key: checkpoint id, task id and idx. They contain no colon."""
POINTERS, REGISTRIES = "checkpoint_latest", "write_registry"
"""The kinds of the keys that name a namespace's head, and of those that list its writes."""


class JsonDocuments(RedisLayout):
    """A layout of documents, with the full history. Subclasses know the form of one saver."""

    kind_of_writes = WRITE
    types: Mapping[str, str] = {
        CHECKPOINT: DOCUMENT,
        WRITE: DOCUMENT,
        LISTS: ZSET,
        REGISTRIES: ZSET,
        POINTERS: STRING,
        APART: DOCUMENT,
    }
    removal = KeyRemoval
    dialect: str
    """Type tag of the JSON in the documents."""
    is_of_python: bool
    """Whether the saver is one of Python. Only these store the task path of a write, and only those
    of LangGraph.js store `has_writes` as a text."""
    value: str
    """The field of a write that contains its value."""

    def __init__(self, connection: RedisConnection, prefixes: Prefixes) -> None:
        super().__init__(connection)
        self.prefixes = prefixes
        self._kinds: tuple[str, ...] = (prefixes.checkpoint, prefixes.write)
        self.tables = tuple(f"{one}:*" for one in self._kinds)

    def flag(self, has_writes: bool) -> bool | str:
        """The field `has_writes` of a checkpoint."""
        return has_writes if self.is_of_python else json.dumps(has_writes)

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

    def keys_at(self, key: CheckpointKey, *, is_there: bool) -> CheckpointKeys:
        # In shallow layouts, all checkpoints of a namespace have the same key. In others,
        # `put_writes` may have created the key even if the checkpoint was never stored.
        has_key = is_there or Capability.HISTORY in self.capabilities
        names = {
            self.kind_of_writes: [],
            LISTS: self.lists(key),
            CHECKPOINT: [self.checkpoint_name(key)] if has_key else [],
        }
        return CheckpointKeys(key, names, is_there)

    def own_rows(self, thread_id: str, rows: Iterable[Row]) -> Iterator[Row]:
        return _Archived(self, self.types, thread_id).checked(rows)

    @property
    def other_prefixes(self) -> Collection[str]:
        """The prefixes of other savers' checkpoints in the database, whose writes may be here."""
        return ()

    def namespaces(self, prefix: str = "") -> Iterator[ListedNamespace]:
        return namespaces_by_name(partial(self._names, prefix), self.entries, b":")

    def _read_namespaces(self, prefix: str) -> Iterator[ListedNamespace]:
        """As `namespaces`, if the names of keys do not tell them."""
        return namespaces_of(one for some in self._names(prefix) for one in self.entries(some))

    def _names(self, prefix: str) -> Iterator[list[bytes]]:
        pattern = literally(f"{self.prefixes.checkpoint}:{prefix}") + b"*"
        return self.connection.scan(pattern, DOCUMENT)

    def find(self, thread_ids: Collection[str]) -> dict[str, ThreadKeys]:
        return self._found(self._search.names_of(list(thread_ids)))

    def writes_at(self, keys: Collection[CheckpointKey]) -> list[WriteEntry]:
        index, found, rest = self._search.indexes[1], set[bytes](), list[CheckpointKey]()
        for some in in_chunks(keys, _CHECKPOINTS_AT_ONCE):
            wanted = [
                {"thread_id": self.stored_thread(one.thread_id), "checkpoint_id": one.checkpoint_id}
                for one in some
            ]
            names = None if index is None else index.names(self.connection, wanted)
            found.update(names or ())
            rest += some if names is None else ()
        return list(map(_write_place, sorted(found.union(self._scanned_writes(rest)))))

    def writes_on(self, channels: Collection[str]) -> list[WriteEntry] | None:
        index = self._search.indexes[1]
        wanted = [{"channel": one} for one in sorted(channels)]
        names = None if index is None else index.names(self.connection, wanted)
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
        """By thread, its keys among those that may be of it; see `leave_others`."""
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
            if (key := self.key_in(fields)) is None:
                continue
            parent = fields[_PARENT] if len(fields) > _PARENT else None
            is_own = (str in map(type, fields[_PARENT + 1 :])) != self.is_of_python
            is_parent = parent is None or isinstance(parent, str)
            if is_parent and is_own and self.checkpoint_name(key) == name:
                yield CheckpointEntry(key, name, parent if meant_id(parent or "") else None)

    def key_in(self, fields: Any) -> CheckpointKey | None:
        """The checkpoint that the first fields of a document name; None if they name none."""
        # A pattern of `match` takes three times as long, for each document of a store.
        is_list = isinstance(fields, list) and len(fields) >= _PARENT
        if not is_list or set(map(type, fields[:_PARENT])) != {str}:
            return None
        thread, ns, own = fields[:_PARENT]
        return CheckpointKey(self.meant_thread(thread), meant_ns(ns), own)

    def fields(self, names: Sequence[bytes], path: str) -> Iterator[tuple[bytes, list[Any]]]:
        """The values at a path of several fields; empty for a missing document."""
        for some in in_chunks(names, _DOCUMENTS_AT_ONCE):
            answers = self.connection.ask("JSON.MGET", *some, path)
            # Parse all answers as one list, which is much faster.
            told = json.loads(b"[" + b",".join(one or b"[]" for one in answers) + b"]")
            yield from zip(some, told, strict=True)

    def checkpoints(
        self, places: Sequence[CheckpointEntry], asked: CheckpointQuery
    ) -> Iterator[Checkpoint]:
        paths = ["$.checkpoint"] if asked.body else []
        paths += ["$.metadata"] if asked.metadata else []
        for some in with_sizes(places, self._sizes):
            names = [place.name for place, size in some if size <= MOST_BYTES]
            # One command for all is read in much less time than one for each.
            told = {one: self.connection.ask("JSON.MGET", *names, one) for one in paths if names}
            answers = {path: iter(found) for path, found in told.items()}
            for place, size in some:
                values = [
                    self._part(place.name, path)
                    if size > MOST_BYTES
                    else self._typed(next(answers[path]))
                    for path in paths
                ]
                if None not in values:  # deleted or expired since
                    body = values[0] if asked.body else None
                    metadata = values[-1] if asked.metadata else None
                    yield Checkpoint(place.key, place.parent, body, metadata)

    def _part(self, name: bytes, path: str) -> TypedBytes | None:
        """A part of a large document; None if it does not exist."""
        asked = [("JSON.DEBUG", "MEMORY", name, path), ("JSON.GET", name, path)]
        (told,) = self.connection.ask_all(asked[:1])
        if told and int(told[0]) > MOST_BYTES:
            return unread(self.dialect, int(told[0]))
        return self._typed(*self.connection.ask_all(asked[1:]))

    def _typed(self, answer: bytes | None) -> TypedBytes | None:
        return None if answer is None else TypedBytes(self.dialect, member(answer))

    def _sizes(self, places: Sequence[CheckpointEntry] | Sequence[WriteEntry]) -> Iterator[Any]:
        """The memory of each document in the server, which is about the size of its JSON."""
        return self.connection.ask_all(("MEMORY USAGE", one.name) for one in places)

    def owners_of(self, names: Sequence[bytes]) -> Iterator[tuple[bytes, CheckpointKey, bool]]:
        for name, fields in self.fields(names, _FIELDS_OF_WRITE):
            key = self.key_in(fields)
            if key is not None and (len(fields) > _PARENT) == self.is_of_python:
                yield name, key, True

    def write(
        self, fields: Sequence[Any], stored: TypedBytes, values: bool | Collection[str]
    ) -> Write | None:
        """A write from the fields `OF_WRITE`; None if it is gone or another saver's."""
        thread, ns, own, task, path, idx, channel = fields
        is_write = isinstance(thread, str) and isinstance(channel, str)
        if not is_write or (path is not None) != self.is_of_python:
            return None
        read = values if isinstance(values, bool) else channel in values
        return Write(
            CheckpointKey(self.meant_thread(thread), meant_ns(str(ns or "")), str(own or "")),
            str(task or ""),
            str(path or ""),
            idx if isinstance(idx, int) else 0,
            channel,
            len(stored.data) if stored.whole is None else stored.whole,
            stored if read else None,
        )

    def usage(self, found: ThreadKeys) -> Iterator[tuple[str, Usage]]:
        ask, places = self.connection.ask_all, found.checkpoints
        names = [one.name for one in found.writes]
        sizes = ask(("JSON.DEBUG", "MEMORY", one.name, _SIZED) for one in places)
        for place, told in zip(places, sizes, strict=True):
            for column, size in zip(("checkpoint", "metadata"), told or (), strict=False):
                key, table = place.key, self.tables[0]
                where = (table, column, key.thread_id, key.checkpoint_ns)
                yield key.checkpoint_id, Usage(*where, None, "json", 1, int(size))
        # The channel and the type may be missing.
        read = fields_at(self.connection, names, (*PLACE, "channel", "type", "task_path"))
        sizes = ask(("JSON.DEBUG", "MEMORY", name, f"$.{self.value}") for name in names)
        for (_, fields), told in zip(read, sizes, strict=True):
            match fields:
                case [str(thread), str(ns), str(own), channel, tag, path] if (
                    told is not None and (path is not None) == self.is_of_python
                ):
                    at = (self.meant_thread(thread), meant_ns(ns), str(channel or ""))
                    number = int(told[0]) if told else 0
                    yield own, Usage(self.tables[1], self.value, *at, str(tag or ""), 1, number)

    # Faults

    def expiring_keys(self, found: ThreadKeys) -> Iterator[ThreadKey]:
        yield from super().expiring_keys(found)
        for (ns, own), one in found.places.items():
            yield from (ThreadKey(name, LISTS, ns, own) for name in self.lists(one.key))
        yield from (ThreadKey(one, APART, "") for one in found.blobs)

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


# Checks archived keys of threads that consist of JSON documents.
#
# A document names its thread, and its key must be the key that the saver gives such a document.
# All other keys must be those of a namespace or checkpoint of the thread.


_PLACE_IN_LIST = re.compile(r"[^:]*:[^:]*:[^:]*")
"""The end of a write's key: checkpoint id, task id and idx."""


class _Archived:
    """The keys of a thread in an archive, as far as they were read."""

    def __init__(self, layout: JsonDocuments, types: Mapping[str, str], thread_id: str) -> None:
        self._layout, self._types, self._thread_id = layout, types, thread_id
        self._thread = layout.stored_thread(thread_id)
        self._spaces: set[str] = set()
        self._there: set[tuple[str, str]] = set()
        """Namespaces and checkpoints that a document names."""
        self._listed: set[tuple[str, str]] = set()
        """Checkpoints whose key is in the archive, but may be of another thread."""
        self._pointed: set[str] = set()

    def checked(self, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows. Raises `Refused` unless all are keys of the thread."""
        for row in rows:
            name = row_name(row, self._types)
            if self._types[row.table] == DOCUMENT:
                self._check_document(row, name)
            elif row.table == POINTERS:
                self._check_pointer(row, name)
            else:
                self._check_list(row, name)
            yield row
        if self._listed - self._there or self._pointed - self._spaces:
            raise Refused(f"it has keys that no document of thread '{self._thread_id}' belongs to")

    def _check_document(self, row: Row, name: str) -> None:
        document = _document(row)
        if row.table == CHECKPOINT and "thread_id" not in document:
            # `put_writes` stores `{"has_writes": true}` if there is no checkpoint yet.
            start = f"{self._layout.prefixes.checkpoint}:{self._thread}:"
            ns, own = parted(row, name, start, meant_ns)
            self._listed.add((meant_ns(ns), own))
            return
        stored = document.get("thread_id")
        if not isinstance(stored, str) or self._layout.meant_thread(stored) != self._thread_id:
            raise not_of(row.table, stored, self._thread_id)
        ns = meant_ns(_text(row, document, "checkpoint_ns"))
        self._spaces.add(namespace_of(row, ns))
        if row.table != APART:
            self._there.add((ns, _text(row, document, "checkpoint_id")))
        if name not in self._names(row, document):
            raise Refused(f"a document of '{row.table}' has the key of another one: {name}")

    def _names(self, row: Row, document: Mapping[str, Any]) -> Iterator[str]:
        """The keys that this document may have. A namespace has two forms."""
        if row.table == CHECKPOINT:
            name = self._layout.name_of(document)
            yield from () if name is None else (text(name),)
            return
        start, parts = self._layout.prefixes.write, ["checkpoint_id", "task_id", "idx"]
        if row.table == APART:
            start, parts = APART, ["channel", "version"]
        for ns in stored_forms(document["checkpoint_ns"]):
            rest = (str(document.get(part, "")) for part in parts)
            yield ":".join((start, document["thread_id"], ns, *rest))

    def _check_list(self, row: Row, name: str) -> None:
        """Check that a list of writes names only writes of one namespace."""
        of_namespace = row.table == REGISTRIES
        end = "shallow" if of_namespace else None
        ns, own = parted(row, name, f"{row.table}:{self._thread}:", meant_ns, end)
        if of_namespace:
            self._pointed.add(meant_ns(ns))
        else:
            self._listed.add((meant_ns(ns), own))
        start = f"{MEMBER}{self._layout.prefixes.write}:{self._thread}:"
        starts = tuple(f"{start}{one}:" for one in stored_forms(ns))
        for entry in row.cells:
            if entry.startswith(MEMBER):
                rest = next((entry[len(one) :] for one in starts if entry.startswith(one)), None)
                if (
                    rest is None
                    or not _PLACE_IN_LIST.fullmatch(rest)
                    or not (of_namespace or rest.startswith(f"{own}:"))
                ):
                    raise Refused(f"a row of '{row.table}' names a write of another thread")

    def _check_pointer(self, row: Row, name: str) -> None:
        place, prefix = f"_latest:{self._thread}:", self._layout.prefixes.checkpoint
        start = prefix if name.startswith(prefix + place) else USUAL.checkpoint
        ns = rest_of(row, name, start + place)
        self._pointed.add(meant_ns(ns))
        named = row.cells["value"]
        head = raw(f"{prefix}:{self._thread}:{ns}:")
        if (
            not (isinstance(named, bytes) and named.startswith(head))
            or b":" in (named[len(head) :])
        ):
            raise Refused(f"a row of '{row.table}' names a checkpoint of another thread")


def _document(row: Row) -> dict[str, Any]:
    try:
        found = json.loads(str(row.cells["value"]), object_pairs_hook=unique)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Refused(f"a row of '{row.table}' is not a document")
    return found


def _text(row: Row, document: Mapping[str, Any], name: str) -> str:
    found = document.get(name)
    if not isinstance(found, str):
        raise Refused(f"a document of '{row.table}' has no '{name}'")
    return found


# Writes of a thread's head that RedisSaver, of Python or of LangGraph.js, does not read.
#
# It reads them only if the field `has_writes` is true. `put` overwrites the field that
# `put_writes` set, if a task is faster than the storing of its checkpoint. Then RedisSaver
# returns no writes (AsyncRedisSaver does): a question is not shown, and a finished task runs
# again.
#
# Source: `put_writes` and `_load_pending_writes_with_registry_check` in
# `langgraph/checkpoint/redis/__init__.py`; `putWrites` and `loadCheckpointWithWrites` in
# `index.js`, and `getTuple` in `shallow.js`, of @langchain/langgraph-checkpoint-redis 1.0.


_ERROR = b":-1"
"""The end of the key of a task's error: the idx of such a write."""
WritesByCheckpoint = Mapping[CheckpointEntry, Sequence[bytes]]
"""By checkpoint, the keys of its writes."""


def writes_by_checkpoint(layout: JsonDocuments, found: ThreadKeys) -> WritesByCheckpoint:
    """The stored writes of each checkpoint of a thread, by the names of keys."""
    names: dict[str, list[bytes]] = {}
    for write in found.writes:
        names.setdefault(write.checkpoint_id, []).append(write.name)
    by_checkpoint = {}
    for (_, own), one in found.places.items():
        # The same id may exist in a copy of the thread, such as `a:b` of `a`.
        start = raw(f"{layout.prefixes.write}:{layout.place(one.key)}:")
        by_checkpoint[one] = [name for name in names.get(own, ()) if name.startswith(start)]
    return by_checkpoint


def hidden_writes(layout: JsonDocuments, writes: WritesByCheckpoint) -> Iterator[Fault]:
    """`index-stale`, if `has_writes` of a thread's head is not set, though it has writes.

    Errors do not count: a failed task runs again, whether its error is read or not. Heads of
    subgraphs do not count either: the task that called the subgraph runs again.
    """
    root = [one for one in writes if not one.key.checkpoint_ns]
    if not root:
        return
    head = max(root, key=lambda one: one.key)
    number = sum(not name.endswith(_ERROR) for name in writes[head])
    answer = layout.connection.find("JSON.GET", head.name, "$.has_writes") if number else None
    if answer is not None and json.loads(answer) != [layout.flag(True)]:
        key, flag = head.key, json.dumps(layout.flag(True))
        yield Fault(
            "index-stale",
            f"has_writes is not set, so the saver does not find {number} of its writes",
            key.thread_id,
            key.checkpoint_ns,
            key.checkpoint_id,
            fix=f"JSON.SET {quoted(head.name)} $.has_writes {quoted(raw(flag))}",
            is_info=True,
        )


# Plans changes of JSON documents: what the savers of Python and JavaScript share.


class JsonPlan(KeyPlan[JsonDocuments]):
    """A change of documents, and of the list of each checkpoint's writes."""

    def score(self, number: int, one: AddedWrite) -> bytes | int:  # noqa: ARG002
        """The place of a write in the list of its checkpoint; `number` is its place here."""
        return number

    def write_name(self, key: CheckpointKey, task_id: str, idx: int) -> bytes:
        return self._layout.write_name(key, task_id, idx)

    def change_copy(
        self, key: CheckpointKey, metadata: TypedBytes | None, body: TypedBytes | None, writes: int
    ) -> Iterator[Command]:
        name = self._layout.checkpoint_name(key)
        thread = self._layout.stored_thread(key.thread_id)
        yield ("JSON.SET", name, "$.thread_id", json.dumps(thread))
        yield ("JSON.SET", name, "$.has_writes", json.dumps(self._layout.flag(writes > 0)))
        if metadata is not None:
            stored: bytes | str = metadata.data
            if self._layout.is_of_python:
                # RedisSaver stores the JSON as a text.
                stored = json.dumps(metadata.data.decode("utf-8", "surrogatepass"))
            yield ("JSON.SET", name, "$.metadata", stored)
        if body is not None:
            yield ("JSON.SET", name, "$.checkpoint", body.data)

    def change_copied_write(self, name: bytes, key: CheckpointKey) -> Iterator[Command]:
        thread = self._layout.stored_thread(key.thread_id)
        yield ("JSON.SET", name, "$.thread_id", json.dumps(thread))
        yield ("JSON.SET", name, "$.checkpoint_id", json.dumps(key.checkpoint_id))

    def register(
        self, key: CheckpointKey, added: Sequence[AddedWrite], expiry: int
    ) -> Iterator[Command]:
        listed = self._layout.lists(key)[0]
        for number, one in enumerate(added):
            yield ("ZADD", listed, self.score(number, one), one.name)
        yield from expiring(listed, expiry)

    def remove(self, key: CheckpointKey, writes: Sequence[bytes]) -> Iterator[Command]:
        listed = self._layout.lists(key)[0]
        yield ("UNLINK", self._layout.checkpoint_name(key), listed, *writes)
