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
import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from typing import Any

from redis import exceptions

from ckpt_backends.changes import Change, Removal
from ckpt_backends.codec.values import MOST_BYTES, unread
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import (
    Blob,
    BlobKey,
    Checkpoint,
    CheckpointKey,
    Fault,
    Kind,
    Record,
    TypedBytes,
    Usage,
    Write,
    is_read,
    time_of,
)
from ckpt_backends.protocol import CheckpointQuery
from ckpt_backends.redis.engine.changes import KeyRemoval, ListOfWrites, exact_json
from ckpt_backends.redis.engine.connection import Command, RedisConnection
from ckpt_backends.redis.engine.documents import (
    OF_WRITE,
    JsonDocuments,
    JsonPlan,
    hidden_writes,
    writes_by_checkpoint,
)
from ckpt_backends.redis.engine.keyspace import (
    APART,
    USUAL,
    CheckpointEntry,
    ListedNamespace,
    ThreadKeys,
    WriteEntry,
    fields_at,
    literally,
    meant_ns,
    quoted,
    raw,
    with_contents,
)
from ckpt_backends.redis.engine.layout import (
    KEYS_AT_ONCE,
    NewDocument,
    Reception,
    RecognisedStore,
    Recogniser,
    RedisLayout,
    Sample,
    expiring,
    run,
    unlink,
)
from ckpt_backends.redis.engine.search import indexes, is_of_javascript, prefixes_of
from ckpt_backends.redis.engine.stored_documents import joined, members_of
from ckpt_backends.redis.javascript.declaration import BACKEND
from ckpt_backends.redis.javascript.records import (
    JSON,
    REFUSED,
    UNDEFINED,
    blob_name,
    checkpoint_document,
    part_of,
    place_in_order,
    value_document,
    versions_of,
    write_document,
)
from ckpt_backends.transfer.bodies import version_text
from ckpt_backends.transfer.copying import Arrival
from ckpt_backends.transfer.form import CannotHold

# Changes and removes threads of LangGraph.js in the same form as its saver.


_STORING = timedelta(seconds=2)
"""The saver stores a checkpoint at once after its values. `gc --grace` keeps younger ones, too."""


class JavaScriptPlan(JsonPlan):
    """A change of documents, of the lists of writes, and of separate values."""

    def __init__(self, layout: JsonDocuments, change: Change) -> None:
        super().__init__(layout, change)
        thread_id = change.thread_id
        if REFUSED.search(thread_id):
            raise Unsupported(
                f"LangGraph.js rejects the thread id '{thread_id}' on Redis",
                hint="use an id without * ? [ ] and \\",
            )
        # The saver changes a head's document when one of its tasks stores a write.
        self.watched = [
            layout.checkpoint_name(CheckpointKey(thread_id, ns, head))
            for ns, head in change.heads.items()
        ]

    def add(self, record: Record, origin: bytes | None, writes: int) -> Iterator[Command]:  # noqa: ARG002
        now = time.time_ns() // 1_000_000
        name = self._layout.checkpoint_name(record.key)
        yield ("JSON.SET", name, "$", checkpoint_document(record, now, has_writes=writes > 0))

    def add_write(self, record: Record) -> Iterator[Command]:
        # The saver's clock starts at 0 with its process, so this time sorts after its writes.
        now = time.time() * 1e6
        name = self.write_name(record.key, record.task_id, record.idx)
        yield ("JSON.SET", name, "$", write_document(record, now + record.idx))

    def values(self) -> Iterator[Command]:
        change, thread_id = self._change, self._change.thread_id
        removed = {
            blob_name(CheckpointKey(thread_id, ns, ""), (channel, version))
            for ns, channel, version in change.removed_blobs
        }
        gone_with = (change.removed or {}).keys()
        if gone_with and all(one.key in gone_with for one in self._found.places.values()):
            of_thread = self._layout.blobs(self._found)
            removed.update(name for name, own, _, _ in of_thread if own == thread_id)
        if removed:
            yield ("UNLINK", *sorted(removed))
        yield from self._copied_values()
        for blob in change.blobs:
            if blob.value.type == "empty":
                continue  # A channel without a value has no key.
            owner = self._owner_of(blob)
            name = blob_name(owner, (blob.channel, blob.version))
            if name not in removed:
                self._make(name)
            yield self._added(name, owner, blob)
            yield from expiring(name, self._expiry_of_new(owner))

    def _copied_values(self) -> Iterator[Command]:
        """Copy the values that the copied checkpoints name, each once."""
        copies, thread_id = self._change.copies, self._change.thread_id
        versions = self._connection.ask_all(
            ("JSON.GET", self._layout.checkpoint_name(one.source), "$.checkpoint.channel_versions")
            for one in copies
        )
        known: set[bytes] = set()
        for copy, answer in zip(copies, list(versions), strict=True):
            named = TypedBytes("json", b'{"channel_versions":' + (answer or b"[{}]")[1:-1] + b"}")
            places = {blob_name(copy.source, one): one for one in versions_of(named).values()}
            new = [name for name in places if name not in known]
            known.update(new)
            there = self._connection.ask_all(("EXISTS", name) for name in new)
            for name, is_there in zip(new, list(there), strict=True):
                if is_there:
                    target = CheckpointKey(thread_id, copy.source.checkpoint_ns, "")
                    copied = self._make(blob_name(target, places[name]))
                    yield ("COPY", self._need(name, copy.source), copied)
                    yield ("JSON.SET", copied, "$.thread_id", json.dumps(thread_id))

    def _owner_of(self, blob: Record) -> CheckpointKey:
        """The new checkpoint that names a value, or the head if the value is restored."""
        change, at = self._change, (blob.channel, blob.version)
        for one in change.checkpoints:
            if (
                one.key.checkpoint_ns == blob.key.checkpoint_ns
                and versions_of(one.value).get(blob.channel) == at
            ):
                return one.key
        head = change.heads.get(blob.key.checkpoint_ns, "")
        return blob.key._replace(checkpoint_id=head)

    def _added(self, name: bytes, owner: CheckpointKey, blob: Record) -> Command:
        stored = value_document(owner, blob.channel, blob.version, blob.value.data)
        return ("JSON.SET", name, "$", stored)


class JavaScriptRemoval(KeyRemoval[JsonDocuments]):
    """The removal of one thread, or of a part of it."""

    def _run_last(self, removal: Removal, rows: Counter[str]) -> None:
        """Remove values, except those that an agent has stored again meanwhile.

        Two branches may use the same version of a channel, and a saver stores values before the
        checkpoint that names them. So the checkpoint id in each value is checked: a value of a
        newer checkpoint goes only if the checkpoint is not there after 2 seconds, in which it would
        have been stored.
        """
        known, thread_id = self.keys.blobs, removal.thread_id
        blobs = removal.inside.blobs if removal.inside else ()
        planned = {known[key]: key for key in blobs if key in known}
        late = self._owners(thread_id, planned).values()
        if not all(time_of(one.checkpoint_id) is None or _is_stored(one) for one in late):
            self._lock.keep()
            time.sleep(_STORING.total_seconds())
        names = list(planned)
        for start in range(0, len(names), KEYS_AT_ONCE):
            some = names[start : start + KEYS_AT_ONCE]
            self._lock.keep()
            with (
                suppress(exceptions.WatchError),  # they were stored again: keep them
                self._connection.transaction(some, loose=True) as pipe,
            ):
                pipe.watch(*some)
                owners = self._owners(thread_id, {name: planned[name] for name in some})
                checkpoints = {one: self._layout.checkpoint_name(one) for one in owners.values()}
                asked = (("EXISTS", one) for one in checkpoints.values())
                there = dict(zip(checkpoints, self._connection.ask_all(asked), strict=True))
                kept = {name for name, one in owners.items() if there[one] or not _is_stored(one)}
                if old := [name for name in some if name not in kept]:
                    run(pipe, [unlink(APART, old)], rows)

    def _owners(
        self, thread_id: str, planned: Mapping[bytes, BlobKey]
    ) -> dict[bytes, CheckpointKey]:
        """Return the checkpoints of values, if they are newer than all that were found."""
        newest = max((one.key.checkpoint_id for one in self.keys.checkpoints), default=None)
        asked = (("JSON.GET", name, "$.checkpoint_id") for name in planned)
        found: dict[bytes, CheckpointKey] = {}
        for (name, key), answer in zip(
            planned.items(), self._connection.ask_all(asked), strict=True
        ):
            for one in json.loads(answer or b"[]"):
                if not isinstance(one, str) or newest is None or one > newest:
                    found[name] = CheckpointKey(thread_id, key.checkpoint_ns, str(one))
        return found


def _is_stored(key: CheckpointKey) -> bool:
    """Return whether a checkpoint would have been stored by now."""
    at = time_of(key.checkpoint_id)
    return at is not None and at < datetime.now(UTC) - _STORING


BLOBS = f"{APART}:*"
_BLOB = ("thread_id", "checkpoint_ns", "channel", "version")


class JavaScriptDocuments(JsonDocuments):
    """The layout of LangGraph.js's RedisSaver, with the full history."""

    name = "redis-js"
    saver = "LangGraph.js, @langchain/langgraph-checkpoint-redis 1.0"
    capabilities = BACKEND.layouts["redis-js"]
    removal = JavaScriptRemoval
    plan = JavaScriptPlan
    dialect = JSON
    is_of_python = False
    is_by_arrival = True
    value = "value"

    def __init__(self, connection: RedisConnection) -> None:
        super().__init__(connection, USUAL)
        self._kinds = (*self._kinds, APART)
        self.tables = (*self.tables, BLOBS)

    def reception(self, arrival: Arrival) -> Reception[Any]:

        return JavaScriptReception(self, arrival)

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
            # A checkpoint shares most of its values with the one before.
            sizes = {name: sizes[name] for name in named.values() if name in sizes}
            new = [name for name in named.values() if name not in sizes]
            sizes |= dict(zip(new, self._lengths(new), strict=True))
            there = [(*at, size) for at in named.items() if (size := sizes[at[1]]) is not None]
            read = {
                name: read.get(name) or self._value(name, size)
                for channel, name, size in there
                if is_read(channel, values)
            }
            blobs = {channel: _blob(read.get(name), size) for channel, name, size in there}
            yield one._replace(blobs=blobs)

    def _lengths(self, names: Sequence[bytes]) -> Iterator[int | None]:
        """The memory of each value in the server; None if it does not exist."""
        asked = (("JSON.DEBUG", "MEMORY", name, "$.value") for name in names)
        for answer in self.connection.ask_all(asked):
            yield int(answer[0]) if answer else None

    def _value(self, name: bytes, size: int) -> TypedBytes:
        if size > MOST_BYTES:
            return unread(JSON, size)
        return _only(self.connection.ask("JSON.GET", name, "$.value"))

    def blobs(self, found: ThreadKeys) -> Iterator[tuple[bytes, str, BlobKey, int]]:
        told = list(fields_at(self.connection, found.blobs, _BLOB))
        for (name, fields), size in zip(told, self._lengths(found.blobs), strict=True):
            match fields:
                case [str(thread), str(ns), str(channel), str(version)]:
                    yield name, thread, BlobKey(meant_ns(ns), channel, version), size or 0

    def writes(
        self, places: Sequence[WriteEntry], values: bool | Collection[str]
    ) -> Iterator[Write]:
        names = [one.name for one in places]
        told = list(fields_at(self.connection, names, (*OF_WRITE, "global_idx")))
        told.sort(key=lambda one: place_in_order(one[1][-1]))
        for (_, (*fields, _)), size, answer in with_contents(
            self.connection,
            told,
            lambda one: ("MEMORY USAGE", one[0]),
            lambda one: ("JSON.GET", one[0], "$.value"),
        ):
            value = unread(JSON, size) if size > MOST_BYTES else _only(answer)
            if (found := self.write(fields, value, values)) is not None:
                yield found

    def usage(self, found: ThreadKeys) -> Iterator[tuple[str, Usage]]:
        yield from super().usage(found)
        for _, thread, key, size in self.blobs(found):
            where = (BLOBS, "value", thread, key.checkpoint_ns)
            yield "", Usage(*where, key.channel, JSON, 1, size)

    def thread_faults(self, thread_id: str, found: ThreadKeys) -> Iterator[Fault]:
        yield from super().thread_faults(thread_id, found)
        yield from hidden_writes(self, writes_by_checkpoint(self, found))

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

    def reception(self, arrival: Arrival) -> Reception[Any]:
        return RedisLayout.reception(self, arrival)

    def checkpoint_name(self, key: CheckpointKey) -> bytes:
        parts = (self.prefixes.checkpoint, key.thread_id, key.checkpoint_ns, "shallow")
        return raw(":".join(parts))

    def namespaces(self, prefix: str = "") -> Iterator[ListedNamespace]:
        return self._read_namespaces(prefix)

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
        return Blob(JSON, size)
    return Blob(JSON, len(value.data) if value.whole is None else value.whole, value)


def _only(answer: Any) -> TypedBytes:
    """The value from the answer of JSON.GET with one path, with the server's exact bytes."""
    data = bytes(answer or b"")[1:-1]
    return TypedBytes(JSON, data) if data else TypedBytes(JSON, UNDEFINED)


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
        indexed = prefixes_of(indexes(self.connection) or ())
        is_own = self.connection.database == 0 and is_of_javascript(indexed)
        return [self.named(self.layouts[0], None, None)] if is_own else []

    def named(self, layout: str, prefix: str | None, write_prefix: str | None) -> RecognisedStore:  # noqa: ARG002
        is_full = layout == JavaScriptDocuments.name
        kind = JavaScriptDocuments if is_full else ShallowJavaScriptDocuments
        return RecognisedStore(layout, lambda: kind(self.connection))


# Stores threads of other stores as LangGraph.js would.
#
# A value is stored under its version, which all checkpoints of the namespace share, and in the
# body of the first checkpoint that comes with it. Versions are numbers, so branches may use the
# same version for different values. Such a thread is refused: the saver would read the value of
# another branch.


_ABSENT = b""
"""In place of the digest of a value: the version has none."""


class JavaScriptReception(Reception[JsonDocuments]):
    """Documents of checkpoints, writes and values, and the lists of writes."""

    def __init__(self, layout: JsonDocuments, arrival: Arrival) -> None:
        super().__init__(layout, arrival)
        self._lists: dict[CheckpointKey, ListOfWrites] = {}
        self._next: dict[CheckpointKey, float] = {}
        """By checkpoint, the place of its next write in the order of arrival."""
        self._values: dict[tuple[str, str, str], bytes] = {}
        """By namespace, channel and version, the digest of the value."""
        self._checkpoints: set[CheckpointKey] = set()
        """Those that come, and those that the thread already has."""
        if REFUSED.search(arrival.thread_id):
            raise CannotHold(f"LangGraph.js rejects the thread id '{arrival.thread_id}' on Redis")

    def documents(self, record: Record) -> Iterator[NewDocument]:
        if record.kind is Kind.CHECKPOINT:
            yield from self._checkpoint(record)
        elif record.kind is Kind.WRITE:
            yield self._write(record)
        else:
            raise CannotHold(f"the value of channel '{record.channel}' came without its checkpoint")

    def _checkpoint(self, record: Record) -> Iterator[NewDocument]:
        key, where = record.key, f"checkpoint '{record.key.checkpoint_id}'"
        ns = key.checkpoint_ns
        if REFUSED.search(ns + key.checkpoint_id) or meant_ns(ns) != ns:
            raise CannotHold(f"LangGraph.js cannot store {where} of namespace '{ns}' on Redis")
        self._checkpoints.add(key)
        body = exact_json(record.value, where)
        fields = members_of(body.data.decode("utf-8", "surrogatepass"))
        inside = members_of(fields.get("channel_values", "{}"))
        versions = json.loads(fields.get("channel_versions", "{}"))
        for channel, version in versions.items():
            named = f"channel '{channel}' of {where}"
            place = (ns, channel, version_text(version))
            value = inside.get(channel)
            if not self._is_new(key, place, value, named):
                inside.pop(channel, None)
            elif value is not None:
                data = value.encode("utf-8", "surrogatepass")
                document = value_document(key, *place[1:], data)
                yield NewDocument(blob_name(key, place[1:]), document, record.expires_at)
        fields["channel_values"] = joined(inside)
        stored = TypedBytes("json", joined(fields).encode("utf-8", "surrogatepass"))
        metadata = exact_json(record.metadata, f"the metadata of {where}")
        at = time_of(key.checkpoint_id)
        document = checkpoint_document(
            record._replace(value=stored, metadata=metadata),
            0.0 if at is None else at.timestamp() * 1000,
            has_writes=False,
        )
        yield NewDocument(self._layout.checkpoint_name(key), document, record.expires_at)

    def _is_new(
        self, key: CheckpointKey, place: tuple[str, str, str], value: str | None, named: str
    ) -> bool:
        """Whether a version is new. Raises `CannotHold` if it has another value."""
        known = self._values.get(place)
        if known is None and self.arrival.heads:
            known = self._stored(key, place)
        digest = self._values[place] = _digest(value)
        if known not in {None, digest}:
            raise CannotHold(
                f"{named} has another value than version '{place[2]}' elsewhere in the thread"
            )
        return known is None

    def _stored(self, key: CheckpointKey, place: tuple[str, str, str]) -> bytes | None:
        """The digest of the value that the thread already has for a version."""
        (found,) = self._layout.connection.ask_all(
            [("JSON.GET", blob_name(key, place[1:]), "$.value")]
        )
        if found is None:
            return None
        text = bytes(found)[1:-1].decode("utf-8", "surrogatepass")
        return _digest(text or None)

    def _write(self, record: Record) -> NewDocument:
        where = f"the write to '{record.channel}' at checkpoint '{record.key.checkpoint_id}'"
        if record.value.type != "json":
            raise CannotHold(f"{where} has the type '{record.value.type}', and Redis needs JSON")
        if REFUSED.search(record.task_id):
            raise CannotHold(f"LangGraph.js rejects the task id of {where} on Redis")
        number = self._next.get(record.key)
        if number is None:
            number = self._first_free(record.key) if self.arrival.heads else 0.0
            name = self._layout.checkpoint_name(record.key)
            if self.arrival.heads and self._layout.connection.number_of([name]):
                self._checkpoints.add(record.key)
        self._next[record.key] = number + 1
        name = self._layout.write_name(record.key, record.task_id, record.idx)
        self._lists.setdefault(record.key, ListOfWrites()).add(name, number, record.expires_at)
        exact = record._replace(value=exact_json(record.value, where))
        return NewDocument(name, write_document(exact, number), record.expires_at)

    def _first_free(self, key: CheckpointKey) -> float:
        """The place after the writes that a checkpoint already has."""
        (listed,) = self._layout.lists(key)
        scores = self._layout.connection.ask("ZRANGE", listed, 0, -1, "WITHSCORES")[1::2]
        return max(map(float, scores), default=-1.0) + 1

    def watched(self) -> Sequence[bytes]:
        # The saver changes a head's document when one of its tasks stores a write.
        thread_id = self.arrival.thread_id
        return [
            self._layout.checkpoint_name(CheckpointKey(thread_id, ns, head))
            for ns, head in self.arrival.heads.items()
        ]

    def last(self) -> Iterator[Command]:
        for key, some in self._lists.items():
            yield from some.commands(self._layout.lists(key)[0])
            if key in self._checkpoints:
                name = self._layout.checkpoint_name(key)
                yield ("JSON.SET", name, "$.has_writes", json.dumps("true"))


def _digest(value: str | None) -> bytes:
    """A digest of a JSON text that does not depend on its spelling."""
    if value is None:
        return _ABSENT
    canonical = json.dumps(json.loads(value), sort_keys=True)
    return blake2b(canonical.encode("utf-8", "surrogatepass"), digest_size=16).digest()
