"""The layout of langgraph-checkpoint-redis 0.1 to 0.5: each checkpoint is a RedisJSON document.

    checkpoint:THREAD:NS:ID                  {thread_id, checkpoint_ns, checkpoint_id,
                                              parent_checkpoint_id, checkpoint: {...},
                                              metadata: "JSON text", has_writes, source, step, ...}
    checkpoint_latest:THREAD:NS              the key of the head
    checkpoint_write:THREAD:NS:ID:TASK:IDX   {thread_id, ..., task_id, task_path, idx, channel,
                                              type, blob}
    write_keys_zset:THREAD:NS:ID             the keys of a checkpoint's writes

Source: `put`, `put_writes` and `_make_redis_checkpoint_key` in `langgraph/checkpoint/redis`, 0.1.0
to 0.5.2. Keys are not escaped and may be ambiguous, so thread, namespace and id are read from the
document. An empty namespace is stored as `__empty__`, an empty id as the nil UUID. ckpt ignores
`has_writes`: `put` may overwrite the flag that `put_writes` set, and then the saver itself does not
see the writes.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ckpt_backends.codec.value_limit import MOST_BYTES, unread
from ckpt_backends.codec.values import REDIS_JSON
from ckpt_backends.model import (
    BlobKey,
    Checkpoint,
    CheckpointKey,
    TypedBytes,
    Usage,
    Write,
)
from ckpt_backends.redis.engine.connect import RedisConnection, in_chunks
from ckpt_backends.redis.engine.keyspace import (
    CheckpointEntry,
    ListedNamespace,
    ThreadKeys,
    WriteEntry,
    beginning,
    literally,
    raw,
    text,
)
from ckpt_backends.redis.engine.search_index import SearchIndex, index_of
from ckpt_backends.redis.engine.thread_listing import lines_by_name
from ckpt_backends.redis.official.declaration import BACKEND

EMPTY_NS, EMPTY_ID = "__empty__", "00000000-0000-0000-0000-000000000000"
JSON_TYPE = "ReJSON-RL"
DIALECT = REDIS_JSON
"""The type tag for values that are stored as `json`."""
_FIELDS = '$["thread_id","checkpoint_ns","checkpoint_id","parent_checkpoint_id","has_writes"]'
"""A single path, because JSON.MGET takes one. The fields are in the order of the documents."""
_FIELDS_OF_WRITE = '$["thread_id","checkpoint_ns","checkpoint_id","task_path"]'
_DOCUMENTS_AT_ONCE = 500
_WRITE: tuple[str, ...] = (
    "$.thread_id",
    "$.checkpoint_ns",
    "$.checkpoint_id",
    "$.task_id",
    "$.task_path",
)
_WRITE += ("$.idx", "$.channel", "$.type", "$.blob")
_PARTS_OF_WRITE = 3
"""Parts at the end of a write's key: checkpoint id, task id and idx. They contain no colon."""


@dataclass(frozen=True, slots=True)
class Prefixes:
    """The prefixes of a saver's keys."""

    checkpoint: str = "checkpoint"
    write: str = "checkpoint_write"


USUAL = Prefixes()


def stored_ns(ns: str) -> str:
    return ns or EMPTY_NS


def meant_ns(stored: str) -> str:
    return "" if stored == EMPTY_NS else stored


def stored_id(identity: str) -> str:
    return identity or EMPTY_ID


def meant_id(stored: str) -> str:
    return "" if stored == EMPTY_ID else stored


class Documents:
    """The layout of RedisSaver and AsyncRedisSaver, with the full history."""

    name = "redis"
    saver = "langgraph-checkpoint-redis 0.1 or later"
    capabilities = BACKEND.layouts["redis"]
    dialect = DIALECT
    """Type tag of the JSON in the documents."""
    has_pointers = True
    """Whether each namespace has a key with the name of its head."""
    is_by_arrival = False
    value = "blob"
    """The field of a write that contains its value."""

    def __init__(self, connection: RedisConnection, prefixes: Prefixes) -> None:
        self._connection = connection
        self.prefixes = prefixes
        self._kinds: tuple[str, ...] = (prefixes.checkpoint, prefixes.write)
        self._indexes: list[SearchIndex | None] | None = None
        self.tables: tuple[str, ...] = tuple(f"{one}:*" for one in self._kinds)

    def stored_thread(self, thread_id: str) -> str:
        return stored_id(thread_id)

    def meant_thread(self, stored: str) -> str:
        return meant_id(stored)

    def is_own(self, flags: Sequence[object]) -> bool:
        """Whether `has_writes` of a document has the type that this saver stores.

        `flags` is empty if the document has no such field.
        """
        return not any(isinstance(one, str) for one in flags)

    def is_own_write(self, paths: Sequence[object]) -> bool:
        """Whether this saver stored a write. `paths` has its task path, or is empty."""
        return bool(paths)

    def checkpoint_name(self, key: CheckpointKey) -> bytes:
        """The key of a checkpoint's document."""
        parts = (stored_id(key.thread_id), stored_ns(key.checkpoint_ns), key.checkpoint_id)
        return raw(":".join((self.prefixes.checkpoint, *parts)))

    def name_of(self, document: Mapping[str, Any]) -> bytes | None:
        """The key that a checkpoint's document must have; None if a part is missing."""
        match document:
            case {"thread_id": str(thread), "checkpoint_ns": str(ns), "checkpoint_id": str(own)}:
                key = CheckpointKey(self.meant_thread(thread), meant_ns(ns), own)
                return self.checkpoint_name(key)
        return None

    def registries(self, key: CheckpointKey) -> list[bytes]:
        """The keys that list a checkpoint's writes.

        There may be two: until 0.1.2, an empty namespace was stored as `""` in these keys.
        """
        thread, spaces = stored_id(key.thread_id), (stored_ns(key.checkpoint_ns), key.checkpoint_ns)
        return [
            raw(f"write_keys_zset:{thread}:{ns}:{key.checkpoint_id}")
            for ns in dict.fromkeys(spaces)
        ]

    def lines(self) -> Iterator[ListedNamespace]:
        return lines_by_name(self._names, self.told, b":")

    def _names(self) -> Iterator[list[bytes]]:
        return self._connection.scan(raw(f"{self.prefixes.checkpoint}:*"), JSON_TYPE)

    def find(self, thread_ids: Collection[str]) -> dict[str, ThreadKeys]:
        names: dict[str, set[bytes]] = {}
        for thread_id in thread_ids:
            indexed = self._indexed(self.stored_thread(thread_id))
            if indexed is not None:
                names[thread_id] = indexed
        rest = [one for one in thread_ids if one not in names]
        names |= self._scanned(rest) if rest else {}
        return {thread_id: self._found(thread_id, names[thread_id]) for thread_id in thread_ids}

    def writes_at(self, keys: Collection[CheckpointKey]) -> list[WriteEntry]:
        found: set[bytes] = set()
        rest = []
        index = self._known_indexes()[1]
        for key in keys:
            stored = self.stored_thread(key.thread_id)
            names = None if index is None else index.names(stored, key.checkpoint_id)
            if names is None:
                rest.append(key)
            else:
                found.update(names)
        return list(map(_write_place, sorted(found.union(self._scanned_writes(rest)))))

    def _scanned_writes(self, keys: Collection[CheckpointKey]) -> Iterator[bytes]:
        starts: dict[str, tuple[bytes, ...]] = {}
        for key in keys:
            start = raw(f"{self.prefixes.write}:{self.stored_thread(key.thread_id)}:")
            starts[key.checkpoint_id] = (*starts.get(key.checkpoint_id, ()), start)
        if starts:
            for names in self._connection.scan(raw(f"{self.prefixes.write}:*"), JSON_TYPE):
                for place in map(_write_place, names):
                    if place.name.startswith(starts.get(place.checkpoint_id, ())):
                        yield place.name

    def is_indexed(self) -> bool:
        return None not in self._known_indexes()

    def _known_indexes(self) -> list[SearchIndex | None]:
        if self._indexes is None:
            self._indexes = [index_of(self._connection, one) for one in self._kinds]
        return self._indexes

    def _indexed(self, stored: str) -> set[bytes] | None:
        """The keys of a thread from the search indexes; None if they cannot be trusted."""
        found: set[bytes] = set()
        for index in self._known_indexes():
            names = None if index is None else index.names(stored)
            if names is None:
                return None
            found.update(names)
        return found

    def _scanned(self, thread_ids: Sequence[str]) -> dict[str, set[bytes]]:
        """By thread, its keys, found with one SCAN over all keys."""
        starts = {
            raw(f"{kind}:{self.stored_thread(thread_id)}:"): thread_id
            for thread_id in thread_ids
            for kind in self._kinds
        }
        pattern = b"*:" + beginning(list(map(self.stored_thread, thread_ids)))
        pattern += b":*" if len(thread_ids) == 1 else b"*"
        names: dict[str, set[bytes]] = {one: set() for one in thread_ids}
        for some in self._connection.scan(pattern, JSON_TYPE):
            for name in some:
                # A key may belong to one of several threads, such as `a` and `a:b`.
                for end in _ends(name):
                    thread_id = starts.get(name[:end])
                    if thread_id is not None:
                        names[thread_id].add(name)
        return names

    def _found(self, thread_id: str, names: Collection[bytes]) -> ThreadKeys:
        found = ThreadKeys()
        # The search may return keys of other threads; a pattern for `a` also finds those of `a:b`.
        starts = [raw(f"{kind}:{self.stored_thread(thread_id)}:") for kind in self._kinds]
        checkpoints, writes, *apart = (
            sorted(one for one in names if one.startswith(start)) for start in starts
        )
        for place in self.told(checkpoints):
            if place.key.thread_id == thread_id:
                found.places[place.key.checkpoint_ns, place.key.checkpoint_id] = place
        found.writes += map(_write_place, writes)
        found.blobs += (one for names in apart for one in names)
        return found

    def pages(self) -> Iterator[ThreadKeys]:
        seen: set[bytes] = set()
        for kind in self._kinds:
            for names in self._connection.scan(raw(f"{kind}:*"), JSON_TYPE):
                new = [one for one in dict.fromkeys(names) if one not in seen]
                seen.update(new)
                if kind == self.prefixes.checkpoint:
                    yield ThreadKeys(mixed=list(self.told(new)))
                elif kind == self.prefixes.write:
                    yield ThreadKeys(writes=list(map(_write_place, new)))
                else:
                    yield ThreadKeys(blobs=new)

    def told(self, names: Sequence[bytes]) -> Iterator[CheckpointEntry]:
        """The checkpoints among these keys, according to their documents.

        Other documents are left out, for example `{"has_writes": true}`: `put_writes` stores that
        if the checkpoint was not stored yet.
        """
        for start in range(0, len(names), _DOCUMENTS_AT_ONCE):
            some = names[start : start + _DOCUMENTS_AT_ONCE]
            answers = self._connection.ask("JSON.MGET", *some, _FIELDS)
            # Parse all answers as one list, which is much faster.
            told = json.loads(b"[" + b",".join(one or b"[]" for one in answers) + b"]")
            for name, fields in zip(some, told, strict=True):
                match fields:
                    case [str(thread), str(ns), str(own), str() | None as parent, *flags]:
                        key = CheckpointKey(self.meant_thread(thread), meant_ns(ns), own)
                        if self.checkpoint_name(key) == name and self.is_own(flags):
                            yield CheckpointEntry(
                                key, name, parent if meant_id(parent or "") else None
                            )

    def checkpoints(
        self,
        places: Sequence[CheckpointEntry],
        *,
        body: bool,
        metadata: bool,
        values: bool | Collection[str],  # noqa: ARG002  (they are in the body)
    ) -> Iterator[Checkpoint]:
        paths = (["$.checkpoint"] if body else []) + (["$.metadata"] if metadata else [])
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
        return self._connection.ask_all(("MEMORY USAGE", one.name) for one in places)

    def _members(
        self, some: Sequence[tuple[CheckpointEntry, int]], paths: Sequence[str]
    ) -> Iterator[TypedBytes | None]:
        """For each document, the value at each path; None if it does not exist."""
        wanted = [(place.name, path) for place, _ in some for path in paths]
        large = {place.name for place, size in some if size > MOST_BYTES}
        closer = [one for one in wanted if one[0] in large]
        sizes = self._connection.ask_all(("JSON.DEBUG", "MEMORY", *one) for one in closer)
        too_large = {
            one: int(size[0])
            for one, size in zip(closer, sizes, strict=True)
            if size and int(size[0]) > MOST_BYTES
        }
        answers = self._connection.ask_all(
            ("JSON.GET", *one) for one in wanted if one not in too_large
        )
        for one in wanted:
            if one in too_large:
                yield unread(self.dialect, too_large[one])
            else:
                answer = next(answers)
                yield None if answer is None else TypedBytes(self.dialect, _member(answer))

    def writes(
        self, places: Sequence[WriteEntry], values: bool | Collection[str]
    ) -> Iterator[Write]:
        for some in in_chunks(places, self._sizes):
            answers = self._connection.ask_all(
                ("JSON.GET", place.name, *(_WRITE if size <= MOST_BYTES else _WRITE[:-1]))
                for place, size in some
            )
            for (_, size), answer in zip(some, answers, strict=True):
                if (one := _write(answer, values, size)) is not None:
                    yield one

    def written(self, names: Sequence[bytes]) -> Iterator[tuple[bytes, CheckpointKey, bool]]:
        for start in range(0, len(names), _DOCUMENTS_AT_ONCE):
            some = names[start : start + _DOCUMENTS_AT_ONCE]
            answers = self._connection.ask("JSON.MGET", *some, _FIELDS_OF_WRITE)
            for name, answer in zip(some, answers, strict=True):
                match json.loads(answer or b"[]"):
                    case [str(thread), str(ns), str(own), *paths] if self.is_own_write(paths):
                        key = CheckpointKey(self.meant_thread(thread), meant_ns(ns), own)
                        yield name, key, True

    def blobs(self, found: ThreadKeys) -> Iterator[tuple[bytes, str, BlobKey, int]]:  # noqa: ARG002
        """Empty: all values are in the bodies."""
        yield from ()

    def usage(self, found: ThreadKeys) -> Iterator[tuple[str, Usage]]:
        yield from self._usage_of_checkpoints(found.checkpoints)
        for start in range(0, len(found.writes), _DOCUMENTS_AT_ONCE):
            some = found.writes[start : start + _DOCUMENTS_AT_ONCE]
            yield from self._usage_of_writes([one.name for one in some])

    def _usage_of_checkpoints(
        self, places: Sequence[CheckpointEntry]
    ) -> Iterator[tuple[str, Usage]]:
        columns = ("checkpoint", "metadata")
        sizes = self._connection.ask_all(
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
        """The usage of the writes that `written` returns, even if fields are missing."""
        paths = ("$.thread_id", "$.checkpoint_ns", "$.checkpoint_id")
        told = list(
            self._connection.ask_all(
                ("JSON.GET", one, *paths, "$.channel", "$.type", "$.task_path") for one in names
            )
        )
        asked = [("JSON.DEBUG", "MEMORY", name, f"$.{self.value}") for name in names]
        for answer, size in zip(told, self._connection.ask_all(asked), strict=True):
            fields = fields_of(answer)
            is_own = self.is_own_write([fields[one] for one in ["$.task_path"] if one in fields])
            match [fields.get(path) for path in paths]:
                case [str(thread), str(ns), str(own)] if size is not None and is_own:
                    channel, tag = (str(fields.get(path, "")) for path in ("$.channel", "$.type"))
                    place = (self.meant_thread(thread), meant_ns(ns), channel)
                    number = int(size[0]) if size else 0
                    yield own, Usage(self.tables[1], self.value, *place, tag, 1, number)

    def sources(self, key: CheckpointKey) -> list[str]:
        name = self.checkpoint_name(key)
        start = name[len(self.prefixes.checkpoint) :]
        return [
            f"JSON.GET {quoted(name)}",
            f"ZRANGE {quoted(b'write_keys_zset' + start)} 0 -1",
            f"SCAN 0 MATCH {quoted(raw(self.prefixes.write) + literally(text(start)) + b':*')}",
        ]


def _ends(name: bytes) -> Iterator[int]:
    """The ends of possible prefixes with a thread id: after each colon except the first."""
    end = name.find(b":") + 1
    while end := name.find(b":", end) + 1:
        yield end


def _write_place(name: bytes) -> WriteEntry:
    parts = name.rsplit(b":", _PARTS_OF_WRITE)
    return WriteEntry(name, text(parts[1]) if len(parts) > 1 else "")


def fields_of(answer: Any) -> dict[str, Any]:
    """By path, the value from the answer of JSON.GET with several paths."""
    if not isinstance(answer, bytes):
        return {}
    found = json.loads(answer)
    return {path: values[0] for path, values in found.items() if values}


def _member(answer: bytes) -> bytes:
    """The value from the answer of JSON.GET with one path, with the server's exact bytes.

    Metadata is a JSON text inside a JSON string. A document without metadata gives `{}`.
    """
    if answer.startswith(b'["'):
        return bytes(json.loads(answer)[0].encode("utf-8", "surrogatepass"))
    return answer[1:-1] or b"{}"


def _write(answer: Any, values: bool | Collection[str], size: int) -> Write | None:
    fields = fields_of(answer)
    thread, ns, own, task, path, idx, channel, tag, blob = (fields.get(one) for one in _WRITE)
    if not isinstance(thread, str) or not isinstance(channel, str) or path is None:
        return None  # removed meanwhile, or written by LangGraph.js
    value = unread(str(tag), size) if size > MOST_BYTES else _value(str(tag or ""), blob)
    read = values if isinstance(values, bool) else channel in values
    return Write(
        CheckpointKey(meant_id(thread), meant_ns(str(ns or "")), str(own or "")),
        str(task or ""),
        str(path or ""),
        idx if isinstance(idx, int) else 0,
        channel,
        len(value.data) if value.whole is None else value.whole,
        value if read else None,
    )


def _value(tag: str, blob: Any) -> TypedBytes:
    """The value of a write: base64 since 0.2, JSON text before.

    Some JSON texts, such as `true`, are also valid base64, but then the decoded bytes are not JSON.
    Before 0.2, the type of bytes was `base64`.
    """
    stored = blob if isinstance(blob, str) else ""
    data = stored.encode("utf-8", "surrogatepass")
    try:
        decoded = b64decode(data, validate=True)
        if tag == "json":
            json.loads(decoded)
    except ValueError:
        decoded = data
    return TypedBytes({"json": DIALECT, "base64": "bytes"}.get(tag, tag), decoded)


def quoted(name: bytes) -> str:
    """A key for redis-cli. Unprintable characters are written as hex."""
    shown = "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte not in b'"\\' else f"\\x{byte:02x}"
        for byte in name
    )
    return f'"{shown}"'
