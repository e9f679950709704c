"""The layout of langgraph-checkpoint-redis 0.0: a document's key contains the id of the parent.

    checkpoint:THREAD:NS:PARENT              {thread_id, checkpoint_ns, checkpoint_id: PARENT,
                                              parent_checkpoint_id: PARENT, checkpoint: {id, ...},
                                              metadata: "JSON text", source, step}
    checkpoint_write:THREAD:NS:ID:TASK:IDX   as in 0.1, with the id of the checkpoint
    checkpoint_blob:THREAD:NS:CHANNEL:VERSION  {thread_id, ..., type, blob}

Source: `put` in `langgraph/checkpoint/redis/__init__.py`, 0.0.1 to 0.0.8. The body of a checkpoint
contains its id and all its values. Each value is also stored as a blob, which ckpt does not read.
The saver itself reads such a store with wrong ids, without parents and without writes. The key of a
first checkpoint has the nil UUID as parent; in 0.0.1 and 0.0.2 it has an empty text.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ckpt_backends.changes.rows import Row
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import Capability, CheckpointKey, Fault
from ckpt_backends.protocol import Store
from ckpt_backends.redis.engine.connection import RedisConnection
from ckpt_backends.redis.engine.document_fields import (
    USUAL,
    Prefixes,
    fields_of,
    meant_id,
    meant_ns,
    stored_id,
)
from ckpt_backends.redis.engine.json_keys import DocumentFinder
from ckpt_backends.redis.engine.key_rows import rows_of
from ckpt_backends.redis.engine.keyspace import (
    APART,
    CHECKPOINT,
    DOCUMENT,
    CheckpointEntry,
    ListedNamespace,
    ThreadKeys,
    literally,
    quoted,
    raw,
)
from ckpt_backends.redis.engine.layout import RedisLayout
from ckpt_backends.redis.engine.store import RedisStore
from ckpt_backends.redis.engine.thread_faults import ThreadKey, keys_of_checkpoints
from ckpt_backends.redis.engine.thread_listing import namespaces_of
from ckpt_backends.redis.official.documents import Documents
from ckpt_backends.url import StoreUrl

_FIELDS = ("$.thread_id", "$.checkpoint_ns", "$.checkpoint.id", "$.checkpoint_id")


class OldDocuments(Documents):
    """The layout of RedisSaver and AsyncRedisSaver 0.0. It is read-only here."""

    saver = "langgraph-checkpoint-redis 0.0"
    capabilities = Documents.capabilities & ~Capability.ADDING

    def __init__(self, connection: RedisConnection, prefixes: Prefixes = USUAL) -> None:
        super().__init__(connection, prefixes)
        self.tables = (*self.tables, f"{APART}:*")

    def open(self, url: StoreUrl) -> Store:
        return OldRedisStore(self, url)

    def check_writable(self, url: StoreUrl) -> None:
        raise Unsupported(
            f"'{url}' was written by {self.saver}, which ckpt can only read:"
            " that release stores each checkpoint under the id of its parent",
            hint="delete threads with `delete_thread` of that release",
        )

    def finder(self) -> DocumentFinder:
        return OldDocumentFinder(self)

    def namespaces(self, prefix: str = "") -> Iterator[ListedNamespace]:
        names = self._names(prefix)
        return namespaces_of(place for some in names for place in self.entries(some))

    def entries(self, names: Sequence[bytes]) -> Iterator[CheckpointEntry]:
        answers = self.connection.ask_all(("JSON.GET", name, *_FIELDS) for name in names)
        for name, answer in zip(names, answers, strict=True):
            match [fields_of(answer).get(path) for path in _FIELDS]:
                case [str(thread), str(ns), str(own), str(before)]:
                    if name == raw(f"{self.prefixes.checkpoint}:{thread}:{ns}:{before}"):
                        key = CheckpointKey(meant_id(thread), meant_ns(ns), own)
                        yield CheckpointEntry(key, name, meant_id(before) or None)

    def name_of(self, document: Mapping[str, Any]) -> bytes | None:
        match document:
            case {"thread_id": str(thread), "checkpoint_ns": str(ns), "checkpoint_id": str(before)}:
                return raw(f"{self.prefixes.checkpoint}:{thread}:{ns}:{before}")
        return None

    def blob_names(self, thread_id: str) -> list[bytes]:
        """The keys of the separate values of a thread."""
        pattern = literally(f"{APART}:{stored_id(thread_id)}:") + b"*"
        names = {name for some in self.connection.scan(pattern, DOCUMENT) for name in some}
        ordered = sorted(names)
        told = self.connection.ask_all(("JSON.GET", name, *_FIELDS[:2]) for name in ordered)
        return [
            name
            for name, answer in zip(ordered, told, strict=True)
            if fields_of(answer).get(_FIELDS[0]) in {thread_id, stored_id(thread_id)}
        ]

    def thread_faults(self, thread_id: str, found: ThreadKeys) -> Iterator[Fault]:
        """Only those of times to live: this release had no pointers and no lists of writes."""
        return RedisLayout.thread_faults(self, thread_id, found)

    def unloaded_head(self, thread_id: str, found: ThreadKeys) -> str:
        return RedisLayout.unloaded_head(self, thread_id, found)

    def expiring_keys(self, found: ThreadKeys) -> Iterator[ThreadKey]:
        return keys_of_checkpoints(found)

    def sources(self, key: CheckpointKey) -> list[str]:
        found = self.find([key.thread_id])[key.thread_id]
        places = [one for one in found.places.values() if one.key == key]
        writes = literally(f"{self.prefixes.write}:{stored_id(key.thread_id)}:")
        return [
            *(f"JSON.GET {quoted(one.name)}" for one in places),
            f"SCAN 0 MATCH {quoted(writes + b'*:' + literally(key.checkpoint_id) + b':*')}",
        ]


class OldDocumentFinder(DocumentFinder):
    """Finds the keys of threads for archives."""

    def __init__(self, layout: OldDocuments) -> None:
        super().__init__(layout)
        self._old = layout

    def rows(self, thread_id: str) -> Iterator[Row]:
        found = self._old.find([thread_id])[thread_id]
        names = [(APART, name) for name in self._old.blob_names(thread_id)]
        names += [
            (self.kind_of_writes, name)
            for name, key, _ in self._old.owners_of([one.name for one in found.writes])
            if key.thread_id == thread_id
        ]
        names += [(CHECKPOINT, one.name) for one in found.checkpoints]
        return rows_of(self.connection, self.types, names)


class OldRedisStore(RedisStore):
    """A Redis database with this layout, opened for reading."""

    def _named(self, keys: Sequence[CheckpointKey]) -> list[CheckpointEntry]:
        """Search the thread: the key of a checkpoint cannot be computed from its id."""
        found = []
        for key in dict.fromkeys(keys):
            place = self._find(key.thread_id).places.get((key.checkpoint_ns, key.checkpoint_id))
            found += [place] if place is not None else []
        return found
