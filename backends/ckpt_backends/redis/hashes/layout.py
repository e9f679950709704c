"""The layout of plain savers: each checkpoint and each write is a hash. It needs no Redis module.

    checkpoint$THREAD$NS$ID             {type, checkpoint, metadata, parent_checkpoint_id,
                                         checkpoint_id}
    writes$THREAD$NS$ID$TASK$IDX        {channel, type, value}

Source: `agents/graph/redis_checkpoint.py`, quoted by a user of LangGraph; it follows LangGraph's
guide `persistence_redis.ipynb`. An earlier version of that guide uses `:` in place of `$`. Each key
has a separate time to live. The field `checkpoint_id` may be missing. The optional field
`metadata_type` is the type of `metadata`; without it, the type is JSON. Values are the serialized
bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from ckpt_backends.codec.values import MOST_BYTES, unread
from ckpt_backends.errors import Refused
from ckpt_backends.model import (
    Checkpoint,
    CheckpointKey,
    Record,
    ThreadSize,
    TypedBytes,
    Usage,
    Write,
)
from ckpt_backends.protocol import CheckpointQuery
from ckpt_backends.redis.engine.changes import KeyPlan, KeyRemoval
from ckpt_backends.redis.engine.connection import Command, RedisConnection
from ckpt_backends.redis.engine.keyspace import (
    CHECKPOINT,
    HASH,
    MEMBER,
    CheckpointEntry,
    CheckpointKeys,
    ListedNamespace,
    ThreadKeys,
    WriteEntry,
    beginning,
    literally,
    quoted,
    raw,
    row_name,
    text,
    with_contents,
    with_sizes,
)
from ckpt_backends.redis.engine.layout import (
    RecognisedStore,
    Recogniser,
    RedisLayout,
    Sample,
    namespaces_by_name,
    summed,
)
from ckpt_backends.redis.hashes.declaration import BACKEND
from ckpt_backends.redis.hashes.records import (
    COLON,
    DOLLAR,
    WRITES,
    body_and_metadata,
    parsed_checkpoint,
    parsed_write,
)
from ckpt_backends.rows import Row, not_of

# Creates commands that change the layout of hashes in the same form as the saver.


class HashPlan(KeyPlan["Hashes"]):
    """A change of hashes, in the same form as the saver. There are no other keys."""

    def write_name(self, key: CheckpointKey, task_id: str, idx: int) -> bytes:
        place = (WRITES, key.thread_id, key.checkpoint_ns, key.checkpoint_id)
        return raw(self._layout.separator.join((*place, task_id, str(idx))))

    def add(self, record: Record, origin: bytes | None, writes: int) -> Iterator[Command]:  # noqa: ARG002
        name = self._layout.checkpoint_name(record.key)
        if origin is not None:
            # Copy the whole hash, to keep fields that other savers add.
            yield from self._copied(origin, name)
        fields: list[bytes | str] = ["checkpoint_id", raw(record.key.checkpoint_id)]
        fields += ["parent_checkpoint_id", raw(record.parent or "")]
        yield ("HSET", name, *fields, *_values(record.metadata, record.value))

    def add_write(self, record: Record) -> Iterator[Command]:
        name, value = self.write_name(record.key, record.task_id, record.idx), record.value
        yield (
            "HSET",
            name,
            "channel",
            raw(record.channel),
            "type",
            value.type,
            "value",
            value.data,
        )

    def change_copy(
        self,
        key: CheckpointKey,
        metadata: TypedBytes | None,
        body: TypedBytes | None,
        writes: int,  # noqa: ARG002
    ) -> Iterator[Command]:
        if values := _values(metadata, body):
            yield ("HSET", self._layout.checkpoint_name(key), *values)

    def _copied(self, source: bytes, target: bytes) -> Iterator[Command]:
        """Commands that copy a hash. COPY cannot copy to another server of a cluster."""
        if not self._connection.is_cluster:
            yield ("COPY", source, target)
            return
        fields = self._connection.ask("HGETALL", source)
        yield ("HSET", target, *(part for pair in sorted(fields.items()) for part in pair))


def _values(metadata: TypedBytes | None, body: TypedBytes | None) -> list[bytes | str]:
    values: list[bytes | str] = []
    if body is not None:
        values += ["type", body.type, "checkpoint", body.data]
    if metadata is not None:
        values += ["metadata", metadata.data]
        if metadata.type != "json":
            values += ["metadata_type", metadata.type]
    return values


_AT_ONCE = 1000
_PARTS_OF_WRITE = 3
"""Parts at the end of a write's key: checkpoint id, task id, idx. They contain no separator."""


class Hashes(RedisLayout):
    """The layout of hashes. The parts of a key are joined by `separator`."""

    capabilities = BACKEND.layouts["redis-hash"]
    types: Mapping[str, str] = {CHECKPOINT: HASH, WRITES: HASH}
    removal = KeyRemoval
    plan = HashPlan

    def __init__(self, connection: RedisConnection, separator: str) -> None:
        super().__init__(connection)
        self.separator = separator
        self.name = "redis-hash" if separator == DOLLAR else "redis-hash-colon"
        self.saver = f"a plain saver in the form of LangGraph's guide, keys joined by '{separator}'"
        self.tables = (f"{CHECKPOINT}{separator}*", f"{WRITES}{separator}*")
        self._starts = {kind: raw(kind + separator) for kind in (CHECKPOINT, WRITES)}

    def checkpoint_name(self, key: CheckpointKey) -> bytes:
        """The key of a checkpoint's hash."""
        parts = (CHECKPOINT, key.thread_id, key.checkpoint_ns, key.checkpoint_id)
        return raw(self.separator.join(parts))

    def namespaces(self, prefix: str = "") -> Iterator[ListedNamespace]:
        names = partial(self.connection.scan, self._pattern(CHECKPOINT, [prefix]), HASH)
        return namespaces_by_name(names, self.entries, raw(self.separator))

    def find(self, thread_ids: Collection[str]) -> dict[str, ThreadKeys]:
        start, of_checkpoint = literally(self.separator), self._starts[CHECKPOINT]
        rest = start + b"*" if len(thread_ids) == 1 else b"*"
        pattern = b"*" + start + beginning(thread_ids) + rest
        checkpoints: dict[str, set[bytes]] = {one: set() for one in thread_ids}
        writes: dict[str, dict[bytes, WriteEntry]] = {one: {} for one in thread_ids}
        for names in self.connection.scan(pattern, HASH):
            for name in names:
                key = self.key_of(CHECKPOINT, name) or self.key_of(WRITES, name)
                if key is None or key.thread_id not in checkpoints:
                    continue
                if name.startswith(of_checkpoint):
                    checkpoints[key.thread_id].add(name)
                else:
                    writes[key.thread_id][name] = WriteEntry(name, key.checkpoint_id)
        found = {
            one: ThreadKeys(writes=[of_thread[name] for name in sorted(of_thread)])
            for one, of_thread in writes.items()
        }
        for place in self.entries(sorted(set().union(*checkpoints.values()))):
            key = place.key
            found[key.thread_id].places[key.checkpoint_ns, key.checkpoint_id] = place
        return found

    def key_of(self, kind: str, name: bytes) -> CheckpointKey | None:
        """The checkpoint of a key of this kind; None for other keys."""
        if not name.startswith(self._starts[kind]):
            return None
        if kind == CHECKPOINT:
            return parsed_checkpoint(name, self.separator)
        parsed = parsed_write(name, self.separator)
        return None if parsed is None else parsed[0]

    def writes_at(self, keys: Collection[CheckpointKey]) -> list[WriteEntry]:
        found: dict[bytes, WriteEntry] = {}
        mark, wanted = raw(self.separator), {raw(key.checkpoint_id) for key in keys}
        asked = set(keys)
        start = self._pattern(WRITES, {key.thread_id for key in keys})
        pattern = start + beginning({key.checkpoint_id for key in keys}) + b"*"
        for names in self.connection.scan(pattern, HASH):
            for name in names:
                if wanted.isdisjoint(name.rsplit(mark, _PARTS_OF_WRITE)[1:2]):
                    continue
                key = self.key_of(WRITES, name)
                if key in asked:
                    found[name] = WriteEntry(name, key.checkpoint_id)
        return list(found.values())

    def pages(self) -> Iterator[ThreadKeys]:
        for names in self.connection.scan_once(self._pattern(CHECKPOINT), HASH):
            yield ThreadKeys(mixed=list(self.entries(names)))
        for names in self.connection.scan_once(self._pattern(WRITES), HASH):
            yield ThreadKeys(writes=[WriteEntry(one, "") for one in names])

    def _pattern(self, kind: str, thread_ids: Collection[str] = ()) -> bytes:
        return literally(kind + self.separator) + beginning(thread_ids) + b"*"

    def entries(self, names: Sequence[bytes]) -> Iterator[CheckpointEntry]:
        """The checkpoints among these keys. Hashes without a checkpoint are left out."""
        fields = ("parent_checkpoint_id", "type")
        answers = self.connection.ask_all((("HMGET", one, *fields) for one in names), _AT_ONCE)
        for name, answer in zip(names, answers, strict=True):
            key = parsed_checkpoint(name, self.separator)
            if key is not None and answer is not None and answer[1] is not None:
                yield CheckpointEntry(key, name, text(answer[0] or b"") or None)

    def checkpoints(
        self, places: Sequence[CheckpointEntry], asked: CheckpointQuery
    ) -> Iterator[Checkpoint]:
        names = ["type", *(("metadata", "metadata_type") if asked.metadata else ())]
        whole = [*names, "checkpoint"] if asked.body else names
        for place, size, told in with_contents(
            self.connection,
            places,
            lambda one: ("HSTRLEN", one.name, "checkpoint"),
            lambda one: ("HMGET", one.name, *whole),
        ):
            is_long = size > MOST_BYTES
            answer = self.connection.ask("HMGET", place.name, *names) if is_long else told
            stored = dict(zip(whole, answer or (), strict=False))
            if stored.get("type") is not None:  # expired or deleted since
                body, metadata = body_and_metadata(stored)
                body = unread(body.type, size) if is_long else body
                read = body if asked.body else None, metadata if asked.metadata else None
                yield Checkpoint(place.key, place.parent, *read)

    def _told(self, names: Iterable[bytes]) -> Iterator[tuple[bytes, Write, str | None]]:
        """The writes under these keys without their values, and the types of these.

        The saver sets fields one by one. The type is None if a write is incomplete.
        """
        asked = list(names)
        told = self.connection.ask_all(("HMGET", name, "channel", "type") for name in asked)
        for name, about in zip(asked, told, strict=True):
            parsed = parsed_write(name, self.separator)
            if parsed is not None and about is not None:
                key, task_id, idx = parsed
                channel, tag = (text(one or b"") for one in about)
                write = Write(key, task_id, "", idx, channel, 0)
                yield name, write, None if None in about else tag

    def writes(
        self, places: Sequence[WriteEntry], values: bool | Collection[str]
    ) -> Iterator[Write]:
        ask = self.connection.ask_all
        for some in with_sizes(
            places, lambda part: ask(("HSTRLEN", one.name, "value") for one in part)
        ):
            sizes = {place.name: size for place, size in some}
            found = [(name, one, tag) for name, one, tag in self._told(sizes) if tag is not None]
            read = {
                name: unread(tag, sizes[name])
                for name, one, tag in found
                if (values if isinstance(values, bool) else one.channel in values)
            }
            wanted = [name for name in read if sizes[name] <= MOST_BYTES]
            answers = ask(("HGET", name, "value") for name in wanted)
            for name, answer in zip(wanted, answers, strict=True):
                read[name] = TypedBytes(read[name].type, answer or b"")
            for name, one, _ in found:
                yield one._replace(size=sizes[name], value=read.get(name))

    def owners_of(self, names: Sequence[bytes]) -> Iterator[tuple[bytes, CheckpointKey, bool]]:
        return ((name, one.key, tag is not None) for name, one, tag in self._told(names))

    def usage(self, found: ThreadKeys) -> Iterator[tuple[str, Usage]]:
        places = found.checkpoints
        asked = (("HMGET", one.name, "type", "metadata_type") for one in places)
        return self._lengths(found, self.connection.ask_all(asked))

    def sizes(self, found: ThreadKeys, thread_ids: Sequence[str]) -> list[ThreadSize]:
        return summed(self._lengths(found, [None] * len(found.checkpoints)), thread_ids)

    def _lengths(self, found: ThreadKeys, types: Iterable[Any]) -> Iterator[tuple[str, Usage]]:
        """The usage, with these types of checkpoints and their metadata."""
        ask, places = self.connection.ask_all, found.checkpoints
        columns = ("checkpoint", "metadata")
        sizes = ask(("HSTRLEN", one.name, column) for one in places for column in columns)
        for place, told in zip(places, types, strict=True):
            tag, tag_of_metadata = (text(part or b"") for part in told or (b"", b""))
            for column, kind in zip(columns, (tag, tag_of_metadata or "json"), strict=True):
                key, size = place.key, int(next(sizes) or 0)
                where = (self.tables[0], column, key.thread_id, key.checkpoint_ns)
                yield key.checkpoint_id, Usage(*where, None, kind, 1, size)
        names = [one.name for one in found.writes]
        lengths = dict(zip(names, ask(("HSTRLEN", name, "value") for name in names), strict=True))
        for name, one, of_value in self._told(names):
            if of_value is not None:
                key, size = one.key, int(lengths[name] or 0)
                where = (self.tables[1], "value", key.thread_id, key.checkpoint_ns)
                yield key.checkpoint_id, Usage(*where, one.channel, of_value, 1, size)

    def sources(self, key: CheckpointKey) -> list[str]:
        name = self.checkpoint_name(key)
        writes = self.separator.join(
            (WRITES, key.thread_id, key.checkpoint_ns, key.checkpoint_id, "")
        )
        return [f"HGETALL {quoted(name)}", f"SCAN 0 MATCH {quoted(literally(writes) + b'*')}"]

    def keys_at(self, key: CheckpointKey, *, is_there: bool) -> CheckpointKeys:
        names = {WRITES: [], CHECKPOINT: [self.checkpoint_name(key)]}
        return CheckpointKeys(key, names, is_there)

    def own_rows(self, thread_id: str, rows: Iterable[Row]) -> Iterator[Row]:
        for row in rows:
            name = row_name(row, self.types)
            key = self.key_of(row.table, raw(name))
            if key is None or key.thread_id != thread_id:
                raise not_of(row.table, None if key is None else key.thread_id, thread_id)
            own = row.cells.get(f"{MEMBER}checkpoint_id")
            if isinstance(own, bytes) and own != raw(key.checkpoint_id):
                raise Refused(f"a hash of '{row.table}' has the key of another one: {name}")
            yield row


_FIRST = "first"


class HashRecogniser(Recogniser):
    """Finds the stores of hashes, with either separator.

    A key `checkpoint:...` may be of another layout, so its hash must have the field `type`.
    """

    rank = 2
    layouts = ("redis-hash", "redis-hash-colon")
    separators = DOLLAR + COLON

    def recognise(self, sample: Sample) -> Iterator[tuple[bytes, str]]:
        told = self.connection.ask_all(("HMGET", one, "type", "parent_ts") for one in sample.hashes)
        for name, fields in zip(sample.hashes, told, strict=True):
            tag, parent_ts = fields or (None, None)
            if name.startswith(b"checkpoint$"):
                yield name, "redis-hash"
            elif tag is not None:
                yield name, "redis-hash-colon"
            elif parent_ts is not None:
                yield name, _FIRST

    def named(self, layout: str, prefix: str | None, write_prefix: str | None) -> RecognisedStore:  # noqa: ARG002
        separator = DOLLAR if layout == "redis-hash" else COLON
        return RecognisedStore(layout, lambda: Hashes(self.connection, separator))

    def unreadable(self) -> str:
        if _FIRST not in self.database.kinds:
            return ""
        return "hashes of LangGraph's guide of early 2024, with 'parent_ts'"

    def expected(self, prefix: str | None) -> str:  # noqa: ARG002
        return "checkpoint$*"
