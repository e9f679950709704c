"""The layouts of LangGraph.js: RedisJSON documents, with unchanged values in separate documents.

    checkpoint:THREAD:NS:ID                {thread_id, checkpoint_ns, checkpoint_id,
                                            parent_checkpoint_id, checkpoint: {...},
                                            metadata: {...}, checkpoint_ts, has_writes: "true", ...}
    checkpoint_blob:THREAD:NS:CHANNEL:VERSION
                                           {thread_id, checkpoint_ns, checkpoint_id, channel,
                                            version, type, value}
    checkpoint_write:THREAD:NS:ID:TASK:IDX {thread_id, ..., task_id, idx, channel, type, value,
                                            timestamp, global_idx}
    write_keys_zset:THREAD:NS:ID           the keys of a checkpoint's writes

* The body of a checkpoint contains the values that changed in its step. The other values are found
  by channel and version; versions are numbers. Values in the body take precedence.
* The shallow saver stores one document for each namespace, with all values, under the key
  `checkpoint:THREAD:NS:shallow`.
* Keys contain the plain namespace. In the full saver's documents of checkpoints and values, but not
  of writes, an empty namespace is stored as `__empty__`.
* No key names the head: it is the checkpoint with the greatest id.
* Documents of the Python saver may have keys of the same form. There, `has_writes` is not a text,
  and writes have a task path.

Source: `index.js` and `shallow.js` of @langchain/langgraph-checkpoint-redis 1.0.11.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from ckpt_backends.changes.change import Change
from ckpt_backends.channel_names import is_read
from ckpt_backends.codec.limits import MOST_BYTES, unread
from ckpt_backends.model import (
    Blob,
    BlobKey,
    Checkpoint,
    CheckpointKey,
    Fault,
    TypedBytes,
    Usage,
    Write,
)
from ckpt_backends.read_options import CheckpointQuery
from ckpt_backends.redis.engine.connection import RedisConnection, in_chunks
from ckpt_backends.redis.engine.document_fields import USUAL, fields_of, meant_ns
from ckpt_backends.redis.engine.hidden_writes import hidden_writes, writes_by_checkpoint
from ckpt_backends.redis.engine.json_documents import JsonDocuments
from ckpt_backends.redis.engine.json_keys import DocumentFinder
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
)
from ckpt_backends.redis.engine.layout import RedisLayout
from ckpt_backends.redis.engine.purge_lock import PurgeLock
from ckpt_backends.redis.engine.recognition import RecognisedStore, Recogniser, Sample
from ckpt_backends.redis.engine.search_index import is_of_javascript, prefixes_of
from ckpt_backends.redis.engine.thread_listing import namespaces_of
from ckpt_backends.redis.javascript.declaration import BACKEND
from ckpt_backends.redis.javascript.stored_values import UNDEFINED, blob_name, part_of, versions_of
from ckpt_backends.redis.javascript.write import JavaScriptPlan, JavaScriptRemoval

if TYPE_CHECKING:
    from ckpt_backends.redis.engine.receiving import Reception
    from ckpt_backends.transfer.parts import Arrival

BLOBS = f"{APART}:*"
_JSON = "json"
_KEY = ("$.thread_id", "$.checkpoint_ns", "$.checkpoint_id")
_WRITE = (*_KEY, "$.task_id", "$.idx", "$.channel", "$.task_path")
_BLOB = ("$.thread_id", "$.checkpoint_ns", "$.channel", "$.version")
_SHALLOW = (*_KEY, "$.parent_checkpoint_id", "$.has_writes")


class JavaScriptDocuments(JsonDocuments):
    """The layout of LangGraph.js's RedisSaver, with the full history."""

    name = "redis-js"
    saver = "LangGraph.js, @langchain/langgraph-checkpoint-redis 1.0"
    capabilities = BACKEND.layouts["redis-js"]
    dialect = _JSON
    is_by_arrival = True
    value = "value"

    def __init__(self, connection: RedisConnection) -> None:
        super().__init__(connection, USUAL)
        self._kinds = (*self._kinds, APART)
        self.tables = (*self.tables, BLOBS)

    def finder(self) -> DocumentFinder:
        return DocumentFinder(self)

    def plan(self, change: Change) -> JavaScriptPlan:
        return JavaScriptPlan(self, change)

    def reception(self, arrival: Arrival) -> Reception:
        from ckpt_backends.redis.javascript.receiving import JavaScriptReception

        return JavaScriptReception(self, arrival)

    def removals(self, lock: PurgeLock, thread_ids: Sequence[str]) -> Iterator[KeyRemoval]:
        finder = self.finder()
        return (JavaScriptRemoval(finder, lock, keys) for keys in finder.find(thread_ids))

    def is_own(self, flags: Sequence[object]) -> bool:
        return any(isinstance(one, str) for one in flags)

    def is_own_write(self, paths: Sequence[object]) -> bool:
        return not paths

    def checkpoints(
        self, places: Sequence[CheckpointEntry], asked: CheckpointQuery
    ) -> Iterator[Checkpoint]:
        found = super().checkpoints(places, asked)
        return self._with_blobs(found, asked.values) if asked.body else found

    def _with_blobs(
        self, checkpoints: Iterator[Checkpoint], values: bool | Collection[str]
    ) -> Iterator[Checkpoint]:
        """Add to each checkpoint the values that it names but that are not in its body."""
        sizes: dict[bytes, int | None] = {}
        read: dict[bytes, TypedBytes] = {}
        for one in checkpoints:
            named = {channel: blob_name(one.key, key) for channel, key in _apart(one).items()}
            new = [name for name in named.values() if name not in sizes]
            # Cache them: a checkpoint shares most of its values with the next one.
            sizes = {name: sizes[name] for name in named.values() if name in sizes}
            sizes |= dict(zip(new, self._lengths(new), strict=True))
            there = {channel: name for channel, name in named.items() if sizes[name] is not None}
            wanted = [name for channel, name in there.items() if is_read(channel, values)]
            read = {name: read[name] for name in wanted if name in read}
            for name in wanted:
                if name not in read:
                    read[name] = self._value(name, sizes[name] or 0)
            blobs = {
                channel: _blob(read.get(name), sizes[name] or 0) for channel, name in there.items()
            }
            yield one._replace(blobs=blobs)

    def _lengths(self, names: Sequence[bytes]) -> Iterator[int | None]:
        """The memory of each value in the server; None if it does not exist."""
        asked = (("JSON.DEBUG", "MEMORY", name, "$.value") for name in names)
        for answer in self.connection.ask_all(asked):
            yield int(answer[0]) if answer else None

    def _value(self, name: bytes, size: int) -> TypedBytes:
        if size > MOST_BYTES:
            return unread(_JSON, size)
        return _only(self.connection.ask("JSON.GET", name, "$.value"))

    def blobs(self, found: ThreadKeys) -> Iterator[tuple[bytes, str, BlobKey, int]]:
        told = self.connection.ask_all(("JSON.GET", name, *_BLOB) for name in found.blobs)
        sizes = self._lengths(found.blobs)
        for name, answer, size in zip(found.blobs, list(told), sizes, strict=True):
            match [fields_of(answer).get(path) for path in _BLOB]:
                case [str(thread), str(ns), str(channel), str(version)]:
                    yield name, thread, BlobKey(meant_ns(ns), channel, version), size or 0

    def writes(
        self, places: Sequence[WriteEntry], values: bool | Collection[str]
    ) -> Iterator[Write]:
        numbers = self.connection.ask_all(("JSON.GET", one.name, "$.global_idx") for one in places)
        came = zip(map(_number, numbers), places, strict=True)
        by_arrival = [one for _, one in sorted(came, key=lambda pair: pair[0])]
        for some in in_chunks(by_arrival, self._sizes):
            told = list(self.connection.ask_all(("JSON.GET", one.name, *_WRITE) for one, _ in some))
            stored = self.connection.ask_all(
                ("JSON.GET", one.name, "$.value") for one, size in some if size <= MOST_BYTES
            )
            for (_, size), answer in zip(some, told, strict=True):
                value = unread(_JSON, size) if size > MOST_BYTES else _only(next(stored))
                if (one := _write(fields_of(answer), value, values)) is not None:
                    yield one

    def usage(self, found: ThreadKeys) -> Iterator[tuple[str, Usage]]:
        yield from super().usage(found)
        for _, thread, key, size in self.blobs(found):
            where = (BLOBS, "value", thread, key.checkpoint_ns)
            yield "", Usage(*where, key.channel, _JSON, 1, size)

    def thread_faults(self, thread_id: str, found: ThreadKeys) -> Iterator[Fault]:
        yield from super().thread_faults(thread_id, found)
        yield from hidden_writes(self.connection, writes_by_checkpoint(self, found), "true")

    def sources(self, key: CheckpointKey) -> list[str]:
        if APART not in self._kinds:
            return super().sources(key)
        values = literally(f"{APART}:{key.thread_id}:{key.checkpoint_ns}:")
        return [*super().sources(key), f"SCAN 0 MATCH {quoted(values + b'*')}"]


class ShallowJavaScriptDocuments(JavaScriptDocuments):
    """The layout of LangGraph.js's ShallowRedisSaver: the newest checkpoint of each namespace."""

    name = "redis-js-shallow"
    saver = "LangGraph.js, @langchain/langgraph-checkpoint-redis 1.0, ShallowRedisSaver"
    capabilities = BACKEND.layouts["redis-js-shallow"]

    def __init__(self, connection: RedisConnection) -> None:
        super().__init__(connection)
        self._kinds, self.tables = self._kinds[:-1], self.tables[:-1]

    def reception(self, arrival: Arrival) -> Reception:
        return RedisLayout.reception(self, arrival)

    def checkpoint_name(self, key: CheckpointKey) -> bytes:
        parts = (self.prefixes.checkpoint, key.thread_id, key.checkpoint_ns, "shallow")
        return raw(":".join(parts))

    def namespaces(self, prefix: str = "") -> Iterator[ListedNamespace]:
        pattern = literally(f"{self.prefixes.checkpoint}:{prefix}") + b"*:shallow"
        names = self.connection.scan(pattern, DOCUMENT)
        return namespaces_of(place for some in names for place in self.entries(some))

    def entries(self, names: Sequence[bytes]) -> Iterator[CheckpointEntry]:
        answers = self.connection.ask_all(("JSON.GET", name, *_SHALLOW) for name in names)
        for name, answer in zip(names, answers, strict=True):
            match [fields_of(answer).get(path) for path in _SHALLOW]:
                case [str(thread), str(ns), str(own), str() | None as parent, str()]:
                    key = CheckpointKey(thread, ns, own)
                    if self.checkpoint_name(key) == name:
                        yield CheckpointEntry(key, name, parent)

    def _with_blobs(
        self,
        checkpoints: Iterator[Checkpoint],
        values: bool | Collection[str],  # noqa: ARG002  (they are in the body)
    ) -> Iterator[Checkpoint]:
        return checkpoints


def _apart(one: Checkpoint) -> dict[str, tuple[str, str]]:
    """By channel, (channel, version) of the values that are not in the checkpoint's body."""
    inside = part_of(one.body, "channel_values")
    return {name: at for name, at in versions_of(one.body).items() if name not in inside}


def _blob(value: TypedBytes | None, size: int) -> Blob:
    if value is None:
        return Blob(_JSON, size)
    return Blob(_JSON, len(value.data) if value.whole is None else value.whole, value)


def _number(answer: Any) -> float:
    """The order number of a write, from a clock that starts with the saver's process.

    0 if there is none: the shallow saver does not store it.
    """
    match json.loads(answer or b"[]"):
        case [int() | float() as number]:
            return number
    return 0


def _only(answer: Any) -> TypedBytes:
    """The value from the answer of JSON.GET with one path, with the server's exact bytes."""
    data = bytes(answer or b"")[1:-1]
    return TypedBytes(_JSON, data) if data else TypedBytes(_JSON, UNDEFINED)


def _write(
    fields: dict[str, Any], value: TypedBytes, values: bool | Collection[str]
) -> Write | None:
    """A write from its document; None if it was removed meanwhile or is of the Python saver."""
    thread, ns, own, task, idx, channel, path = (fields.get(one) for one in _WRITE)
    if not isinstance(thread, str) or not isinstance(channel, str) or path is not None:
        return None
    read = values if isinstance(values, bool) else channel in values
    return Write(
        CheckpointKey(thread, meant_ns(str(ns or "")), str(own or "")),
        str(task or ""),
        "",
        idx if isinstance(idx, int) else 0,
        channel,
        len(value.data) if value.whole is None else value.whole,
        value if read else None,
    )


class JavaScriptRecogniser(Recogniser):
    """Finds the stores of LangGraph.js: only its savers store `has_writes` as a text."""

    rank = 1
    layouts = (JavaScriptDocuments.name, ShallowJavaScriptDocuments.name)

    def recognise(self, sample: Sample) -> Iterator[tuple[bytes, str]]:
        for one in sample.documents:
            if isinstance(one.has_writes, str):
                yield one.name, self.layouts[one.name.endswith(b":shallow")]

    def stores_if_alone(self) -> list[RecognisedStore]:
        """A store without threads has the saver's search indexes."""
        indexed = prefixes_of(self.connection) or []
        is_own = self.connection.database == 0 and is_of_javascript(indexed)
        return [self.named(self.layouts[0], None, None)] if is_own else []

    def named(self, layout: str, prefix: str | None, write_prefix: str | None) -> RecognisedStore:  # noqa: ARG002
        is_full = layout == JavaScriptDocuments.name
        kind = JavaScriptDocuments if is_full else ShallowJavaScriptDocuments
        return RecognisedStore(layout, lambda: kind(self.connection))
