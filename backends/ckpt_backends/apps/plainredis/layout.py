"""The layout of langgraph-checkpoint-plainredis 0.1: only strings, hashes and sorted sets.

    lg:cp:THREAD:NS:ID                 string: a checkpoint without values, metadata and parent
    lg:blob:THREAD:NS:CHANNEL:VERSION  string: a channel's value at one version
    lg:wr:THREAD:NS:ID                 hash: a checkpoint's writes, by `TASK:IDX`
    lg:idx:THREAD:NS                   sorted set, the "timeline": ids in the order of storing
    lg:threads                         hash, the "registry": a timeline's key to {"thread", "ns"}
    lg:seq                             string: the last number that was used in a timeline

Source: `langgraph_checkpoint_plainredis/saver.py`, 0.1.0. `lg` is the default prefix. The head is
the checkpoint that was stored last. Keys are not escaped and may be ambiguous, so the thread of a
key is looked up in the registry. An expired checkpoint leaves its id in the timeline; the saver and
ckpt ignore such ids. Versions are numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from ckpt_backends.apps.plainredis.declaration import BACKEND
from ckpt_backends.apps.plainredis.stored_values import (
    HEAD_BYTES,
    TAIL_BYTES,
    StoredCheckpoint,
    stored_checkpoint,
    stored_write,
    told_of,
    unread_value,
    unwrapped,
)
from ckpt_backends.codec import decode_checkpoint
from ckpt_backends.codec.value_limit import MOST_BYTES
from ckpt_backends.model import USERS, Blob, BlobKey, Checkpoint, CheckpointKey, Usage, Write
from ckpt_backends.redis.engine.connect import RedisConnection, in_chunks
from ckpt_backends.redis.engine.keyspace import (
    CALL,
    CheckpointEntry,
    ListedNamespace,
    ThreadKeys,
    WriteEntry,
    beginning,
    literally,
    raw,
    text,
)
from ckpt_backends.redis.official.documents import quoted

USUAL_PREFIX = "lg"
EMPTY = "empty"
"""Type of the entry for a channel without a value."""
_CONTROL = ("__", "branch:", "join:", "start:")
_TIMELINES_AT_ONCE, _CHECKPOINTS_AT_ONCE, _NAMES_AT_ONCE = 100, 50, 500
_SMALL, _KEPT = 4096, 10_000
"""Values up to `_SMALL` bytes are read together and cached for the next checkpoints that have them.
The cache is cleared when it has more than `_KEPT` values."""
_CALLS = re.compile(rf"(.*?):({CALL}):(.*)", re.DOTALL)
_CALLED = re.compile(rf"(.*?):({CALL})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class NamespaceEntries:
    """A namespace of a thread."""

    thread_id: str
    checkpoint_ns: str
    name: bytes
    """The key of its sorted set, and its field in the registry."""

    @property
    def suffix(self) -> bytes:
        """The part THREAD:NS, which all its keys have in common."""
        return raw(f"{self.thread_id}:{self.checkpoint_ns}")


@dataclass(frozen=True, slots=True)
class BlobEntry:
    """A separate value."""

    name: bytes
    thread_id: str
    key: BlobKey


@dataclass(slots=True)
class PlainThreadKeys(ThreadKeys):
    """The keys of one thread, including those of its values."""

    blob_places: list[BlobEntry] = field(default_factory=list)
    timelines: list[NamespaceEntries] = field(default_factory=list)


class Plain:
    """The layout of langgraph-checkpoint-plainredis."""

    name = "redis-plain"
    saver = "langgraph-checkpoint-plainredis 0.1"
    capabilities = BACKEND.layouts["redis-plain"]
    is_by_arrival = False

    def __init__(self, connection: RedisConnection, prefix: str = USUAL_PREFIX) -> None:
        self._connection = connection
        self.prefix = prefix
        self.threads = raw(f"{prefix}:threads")
        self.seq = raw(f"{prefix}:seq")
        self.tables: tuple[str, ...] = (f"{prefix}:cp:*", f"{prefix}:blob:*", f"{prefix}:wr:*")

    def checkpoint_name(self, key: CheckpointKey) -> bytes:
        """The key of a checkpoint."""
        return self._name("cp", key.thread_id, key.checkpoint_ns, key.checkpoint_id)

    def writes_name(self, key: CheckpointKey) -> bytes:
        """The key of the hash with all writes of a checkpoint."""
        return self._name("wr", key.thread_id, key.checkpoint_ns, key.checkpoint_id)

    def blob_name(self, thread_id: str, key: BlobKey) -> bytes:
        """The key of a value."""
        return self._name("blob", thread_id, key.checkpoint_ns, key.channel, key.version)

    def timeline(self, thread_id: str, ns: str) -> NamespaceEntries:
        """The timeline of a namespace; it may not exist."""
        return NamespaceEntries(thread_id, ns, self._name("idx", thread_id, ns))

    def _name(self, *parts: str) -> bytes:
        return raw(":".join((self.prefix, *parts)))

    # Timelines

    def timelines(self, thread_ids: Collection[str] | None = None) -> Iterator[NamespaceEntries]:
        """The registered timelines of some threads or of all threads, each once."""
        pattern = literally(f"{self.prefix}:idx:") + beginning(thread_ids or ())
        pattern += b":*" if thread_ids is not None and len(thread_ids) == 1 else b"*"
        seen: set[bytes] = set()
        after = ("MATCH", pattern, "COUNT", _NAMES_AT_ONCE)
        for fields in self._connection.turns("HSCAN", [self.threads], after):
            for name, told in fields.items():
                found = None if name in seen else timeline_of(name, told)
                if found is not None and (thread_ids is None or found.thread_id in thread_ids):
                    seen.add(name)
                    yield found

    def _known(self, suffixes: Collection[bytes]) -> dict[bytes, NamespaceEntries]:
        """By suffix (THREAD:NS), its timeline, for the suffixes that are registered."""
        found: dict[bytes, NamespaceEntries] = {}
        start, ordered = raw(f"{self.prefix}:idx:"), sorted(suffixes)
        for at in range(0, len(ordered), _NAMES_AT_ONCE):
            some = ordered[at : at + _NAMES_AT_ONCE]
            answer = self._connection.ask("HMGET", self.threads, *(start + one for one in some))
            for suffix, told in zip(some, answer, strict=True):
                timeline = None if told is None else timeline_of(start + suffix, told)
                if timeline is not None:
                    found[suffix] = timeline
        return found

    def _places(
        self, timelines: Iterable[NamespaceEntries]
    ) -> Iterator[tuple[NamespaceEntries, list[CheckpointEntry]]]:
        """The checkpoints of each timeline, in the order of storing."""
        stream = iter(timelines)
        while some := list(islice(stream, _TIMELINES_AT_ONCE)):
            answers = self._connection.ask_all(
                ("ZRANGE", one.name, 0, -1, "WITHSCORES") for one in some
            )
            for one, answer in zip(some, list(answers), strict=True):
                pairs = zip(answer[::2], answer[1::2], strict=True) if answer else ()
                places = [self._place(one, text(own), float(score)) for own, score in pairs]
                yield one, self._there(places)

    def _place(self, timeline: NamespaceEntries, own: str, score: float) -> CheckpointEntry:
        key = CheckpointKey(timeline.thread_id, timeline.checkpoint_ns, own)
        return CheckpointEntry(key, self.checkpoint_name(key), rank=score)

    def _there(self, places: list[CheckpointEntry]) -> list[CheckpointEntry]:
        """The checkpoints that still exist, without expired ones."""
        found: list[CheckpointEntry] = []
        for start in range(0, len(places), _NAMES_AT_ONCE):
            some = places[start : start + _NAMES_AT_ONCE]
            if self._connection.number_of([one.name for one in some]) == len(some):
                found += some
                continue
            there = self._connection.ask_all(("EXISTS", one.name) for one in some)
            found += [one for one, is_there in zip(some, there, strict=True) if is_there]
        return found

    def lines(self) -> Iterator[ListedNamespace]:
        for timeline, places in self._places(self.timelines()):
            if places:
                yield line(timeline, places)

    def places(
        self, thread_ids: Collection[str]
    ) -> dict[str, dict[tuple[str, str], CheckpointEntry]]:
        """By thread, its checkpoints by namespace and id. Does not search for values."""
        found: dict[str, dict[tuple[str, str], CheckpointEntry]] = {one: {} for one in thread_ids}
        for timeline, places in self._places(self.timelines(thread_ids)):
            found[timeline.thread_id].update(_by_id(places))
        return found

    def told(self, names: Sequence[bytes]) -> Iterator[CheckpointEntry]:
        start = raw(f"{self.prefix}:cp:")
        parts = {
            name: name[len(start) :].rpartition(b":") for name in names if name.startswith(start)
        }
        known = self._known({suffix for suffix, _, _ in parts.values()})
        asked = [(known[suffix], text(own)) for suffix, _, own in parts.values() if suffix in known]
        scores = self._connection.ask_all(("ZSCORE", one.name, raw(own)) for one, own in asked)
        places = [
            self._place(one, own, float(score))
            for (one, own), score in zip(asked, list(scores), strict=True)
            if score is not None
        ]
        there = self._connection.ask_all(("EXISTS", one.name) for one in places)
        yield from (one for one, is_there in zip(places, there, strict=True) if is_there)

    # All keys of a thread

    def find(self, thread_ids: Collection[str]) -> dict[str, ThreadKeys]:
        return dict(self.whole(thread_ids))

    def whole(self, thread_ids: Collection[str]) -> dict[str, PlainThreadKeys]:
        """All keys of some threads, including orphans. Needs one SCAN for writes and values."""
        found = {one: PlainThreadKeys() for one in thread_ids}
        for timeline, places in self._places(self.timelines(thread_ids)):
            one = found[timeline.thread_id]
            one.timelines.append(timeline)
            one.places.update(_by_id(places))
        pattern = literally(f"{self.prefix}:") + b"[bw][lr]*:" + beginning(thread_ids)
        pattern += b":*" if len(thread_ids) == 1 else b"*"
        seen: set[bytes] = set()
        for names in self._connection.scan(pattern):
            new = [one for one in dict.fromkeys(names) if one not in seen]
            seen.update(new)
            writes, blobs = self._sorted(new)
            for write, key in writes:
                if key.thread_id in found:
                    found[key.thread_id].writes.append(write)
            for blob in blobs:
                if blob.thread_id in found:
                    found[blob.thread_id].blob_places.append(blob)
        for one in found.values():
            one.writes.sort(key=lambda write: write.name)
            one.blob_places.sort(key=lambda blob: blob.name)
        return found

    def pages(self) -> Iterator[ThreadKeys]:
        stream = self._places(self.timelines())
        for _, places in stream:
            yield PlainThreadKeys(mixed=places)
        seen: set[bytes] = set()
        for names in self._connection.scan(literally(f"{self.prefix}:") + b"[bw][lr]*:*"):
            new = [one for one in dict.fromkeys(names) if one not in seen]
            seen.update(new)
            writes, blobs = self._sorted(new)
            yield PlainThreadKeys(writes=[write for write, _ in writes], blob_places=list(blobs))

    def is_indexed(self) -> bool:
        return False

    def _sorted(
        self, names: Sequence[bytes]
    ) -> tuple[list[tuple[WriteEntry, CheckpointKey]], list[BlobEntry]]:
        """The writes and the values among these keys, with their threads."""
        write = raw(f"{self.prefix}:wr:")
        keys = self.keys_of([one for one in names if one.startswith(write)])
        writes = [(WriteEntry(name, key.checkpoint_id), key) for name, key in keys.items()]
        blob = raw(f"{self.prefix}:blob:")
        return writes, list(self._blobs_of([one for one in names if one.startswith(blob)]))

    def keys_of(self, names: Sequence[bytes]) -> dict[bytes, CheckpointKey]:
        """By key of writes, its checkpoint; it may not exist."""
        start = len(raw(f"{self.prefix}:wr:"))
        parts = {name: name[start:].rpartition(b":") for name in names}
        known = self._known({suffix for suffix, _, _ in parts.values()})
        found = {}
        for name, (suffix, _, own) in parts.items():
            timeline = known.get(suffix)
            if timeline is not None:
                place = (timeline.thread_id, timeline.checkpoint_ns)
            elif called := _CALLED.fullmatch(text(suffix)):
                place = (called[1], called[2])
            else:
                thread_id, _, ns = text(suffix).rpartition(":")
                place = (thread_id, ns)
            found[name] = CheckpointKey(*place, text(own))
        return found

    def _blobs_of(self, names: Sequence[bytes]) -> Iterator[BlobEntry]:
        """The values with these keys, with their threads and channels.

        Every part of a key except the version may contain colons, so a key may be ambiguous. Then
        the checkpoints are read to find the one that names the value. If none does, the value is
        left out.
        """
        start = len(raw(f"{self.prefix}:blob:"))
        places = {name: name[start:].rpartition(b":")[0] for name in names}
        ways = {name: list(_ways(place)) for name, place in places.items()}
        known = self._known({suffix for some in ways.values() for suffix, _ in some})
        unsure: dict[bytes, list[BlobEntry]] = {}
        for name, some in ways.items():
            version = text(name.rpartition(b":")[2])
            may_be = [
                BlobEntry(
                    name,
                    known[suffix].thread_id,
                    BlobKey(known[suffix].checkpoint_ns, text(channel), version),
                )
                for suffix, channel in some
                if suffix in known
            ]
            if len(may_be) == 1:
                yield may_be[0]
            elif may_be:
                unsure[name] = may_be
            elif (place := _guessed(text(places[name]))) is not None:
                thread_id, ns, channel = place
                yield BlobEntry(name, thread_id, BlobKey(ns, channel, version))
        yield from self._settled(unsure)

    def _settled(self, unsure: Mapping[bytes, Sequence[BlobEntry]]) -> Iterator[BlobEntry]:
        namespaces = {
            (one.thread_id, one.key.checkpoint_ns) for some in unsure.values() for one in some
        }
        for timeline, places in self._places(self.timeline(*one) for one in sorted(namespaces)):
            here = (timeline.thread_id, timeline.checkpoint_ns)
            named = {name for _, names in self.named(places) for name in names}
            for name in sorted(named & unsure.keys()):
                for one in unsure[name]:
                    if (one.thread_id, one.key.checkpoint_ns) == here:
                        yield one

    def blobs(self, found: ThreadKeys) -> Iterator[tuple[bytes, str, BlobKey, int]]:
        places = found.blob_places if isinstance(found, PlainThreadKeys) else []
        told = measured(self._connection, [one.name for one in places])
        for one, (_, _, size) in zip(places, told, strict=True):
            yield one.name, one.thread_id, one.key, size

    def named(
        self, places: Sequence[CheckpointEntry]
    ) -> Iterator[tuple[CheckpointEntry, list[bytes]]]:
        """For each checkpoint, the keys of the values that it names; they may not exist."""
        for place, stored in self._stored(places):
            names = [
                self.blob_name(
                    place.key.thread_id, BlobKey(place.key.checkpoint_ns, channel, version)
                )
                for channel, version in _versions(stored).items()
            ]
            yield place, names

    # Contents of keys

    def _stored(
        self, places: Sequence[CheckpointEntry]
    ) -> Iterator[tuple[CheckpointEntry, StoredCheckpoint]]:
        for some in in_chunks(places, self._lengths):
            answers = self._connection.ask_all(
                ("GET", place.name) for place, size in some if size <= MOST_BYTES
            )
            for place, size in some:
                if size > MOST_BYTES:
                    yield place, stored_checkpoint(unread_value(size))
                elif (answer := next(answers)) is not None:  # expired or deleted since
                    yield place, stored_checkpoint(unwrapped(answer))

    def _lengths(self, places: Sequence[CheckpointEntry | BlobEntry]) -> Iterator[Any]:
        return self._connection.ask_all(("STRLEN", one.name) for one in places)

    def checkpoints(
        self,
        places: Sequence[CheckpointEntry],
        *,
        body: bool,
        metadata: bool,
        values: bool | Collection[str] = False,
    ) -> Iterator[Checkpoint]:
        apart = _Values(self._connection, values)
        stream = self._stored(places)
        while some := list(islice(stream, _CHECKPOINTS_AT_ONCE)):
            named = []
            for place, stored in some if body else ():
                versions = _versions(stored).items()
                where = (place.key.thread_id, place.key.checkpoint_ns)
                named.append(
                    {
                        channel: self.blob_name(where[0], BlobKey(where[1], channel, version))
                        for channel, version in versions
                    }
                )
            apart.prepare(named)
            for number, (place, stored) in enumerate(some):
                yield Checkpoint(
                    place.key,
                    stored.parent,
                    stored.body if body else None,
                    stored.metadata if metadata else None,
                    apart.blobs(named[number]) if body else None,
                )

    def fields(self, places: Sequence[WriteEntry]) -> Iterator[tuple[WriteEntry, bytes]]:
        """The fields of the hashes of writes. Each field is one write."""
        answers = self._connection.ask_all(("HKEYS", one.name) for one in places)
        for one, answer in zip(places, answers, strict=True):
            yield from ((one, name) for name in sorted(answer or ()))

    def lengths_of_fields(self, items: Sequence[tuple[WriteEntry, bytes]]) -> Iterator[Any]:
        """The stored length of each field."""
        return self._connection.ask_all(("HSTRLEN", one.name, name) for one, name in items)

    def writes(
        self, places: Sequence[WriteEntry], values: bool | Collection[str]
    ) -> Iterator[Write]:
        for start in range(0, len(places), _NAMES_AT_ONCE):
            some = places[start : start + _NAMES_AT_ONCE]
            keys = self.keys_of([one.name for one in some])
            for place, name, size, answer in self._read_fields(list(self.fields(some))):
                task_id, idx = task_of(name)
                typed = unread_value(size) if answer is None else unwrapped(answer)
                channel, value = stored_write(typed)
                wanted = values if isinstance(values, bool) else channel in values
                length = len(value.data) if value.whole is None else value.whole
                yield Write(
                    *(keys[place.name], task_id, "", idx, channel, length),
                    value if wanted else None,
                )

    def _read_fields(
        self, items: Sequence[tuple[WriteEntry, bytes]]
    ) -> Iterator[tuple[WriteEntry, bytes, int, bytes | None]]:
        """The fields with their lengths and contents; None if the contents are too long."""
        for some in in_chunks(items, self.lengths_of_fields):
            answers = self._connection.ask_all(
                ("HGET", one.name, name) for (one, name), size in some if size <= MOST_BYTES
            )
            for (one, name), size in some:
                if size > MOST_BYTES:
                    yield one, name, size, None
                elif (answer := next(answers)) is not None:  # gone since
                    yield one, name, size, answer

    def writes_at(self, keys: Collection[CheckpointKey]) -> list[WriteEntry]:
        return [WriteEntry(self.writes_name(key), key.checkpoint_id) for key in keys]

    def written(self, names: Sequence[bytes]) -> Iterator[tuple[bytes, CheckpointKey, bool]]:
        keys = self.keys_of(names)
        places = [WriteEntry(name, keys[name].checkpoint_id) for name in names]
        for place, _ in self.fields(places):
            yield place.name, keys[place.name], True

    def usage(self, found: ThreadKeys) -> Iterator[tuple[str, Usage]]:
        """The lengths of the stored texts. Base64 makes them a third longer than the values."""
        cp, blob, wr = self.tables
        checkpoints = found.checkpoints
        for place, (tag, _, size) in zip(checkpoints, self._measured(checkpoints), strict=True):
            where = (place.key.thread_id, place.key.checkpoint_ns, None, tag, 1)
            if size:  # otherwise it was removed meanwhile
                own = place.key.checkpoint_id
                yield own, Usage(cp, "checkpoint", *where, size)
                # Metadata is stored in the same text.
                yield own, Usage(cp, "metadata", *where, 0)
        blobs = found.blob_places if isinstance(found, PlainThreadKeys) else []
        for one, (tag, _, size) in zip(blobs, self._measured(blobs), strict=True):
            if size:
                ns, channel = one.key.checkpoint_ns, one.key.channel
                yield "", Usage(blob, "value", one.thread_id, ns, channel, tag, 1, size)
        keys = self.keys_of([one.name for one in found.writes])
        for write, _, size, answer in self._read_fields(list(self.fields(found.writes))):
            channel, value = stored_write(
                unread_value(size) if answer is None else unwrapped(answer)
            )
            key = keys[write.name]
            of_write = (wr, "value", key.thread_id, key.checkpoint_ns)
            yield key.checkpoint_id, Usage(*of_write, channel, value.type, 1, size)

    def _measured(
        self, places: Sequence[CheckpointEntry] | Sequence[BlobEntry]
    ) -> Iterator[tuple[str, int, int]]:
        return measured(self._connection, [one.name for one in places])

    def sources(self, key: CheckpointKey) -> list[str]:
        timeline = self.timeline(key.thread_id, key.checkpoint_ns)
        start = literally(f"{self.prefix}:blob:") + literally(text(timeline.suffix))
        return [
            f"GET {quoted(self.checkpoint_name(key))}",
            f"HGETALL {quoted(self.writes_name(key))}",
            f"ZREVRANGE {quoted(timeline.name)} 0 -1",
            f"SCAN 0 MATCH {quoted(start + b':*')}",
        ]


class _Values:
    """Reads separate values that are asked for, and caches small ones."""

    def __init__(self, connection: RedisConnection, wanted: bool | Collection[str]) -> None:
        self._connection = connection
        self._wanted = wanted
        self._heads: dict[bytes, tuple[str, int, int]] = {}
        """By key, the type, size of the value, and length of the text."""
        self._small: dict[bytes, Any] = {}

    def prepare(self, named: Sequence[Mapping[str, bytes]]) -> None:
        """Read the types and sizes of the values of several checkpoints, and small values."""
        if len(self._heads) > _KEPT:
            self._heads.clear()
            self._small.clear()
        every = {name for names in named for name in names.values()}
        new = sorted(every - self._heads.keys())
        self._heads.update(zip(new, measured(self._connection, new), strict=True))
        wanted = {
            name
            for names in named
            for channel, name in names.items()
            if self._is_wanted(channel) and 0 < self._heads[name][2] <= _SMALL
        }
        small = sorted(wanted - self._small.keys())
        found = self._connection.ask_all(("GET", name) for name in small)
        self._small.update(zip(small, found, strict=True))

    def blobs(self, names: Mapping[str, bytes]) -> dict[str, Blob]:
        """The values of one checkpoint, by channel."""
        found: dict[str, Blob] = {}
        for channel, name in names.items():
            tag, size, length = self._heads[name]
            if not length or tag == EMPTY:
                continue
            if not self._is_wanted(channel):
                found[channel] = Blob(tag, size)
            elif length > MOST_BYTES:
                found[channel] = Blob(tag, size, unread_value(length))
            else:
                kept = self._small.get(name) if name in self._small else None
                answer = kept or self._connection.ask("GET", name)
                if answer is not None:
                    value = unwrapped(answer)
                    found[channel] = Blob(value.type, len(value.data), value)
        return found

    def _is_wanted(self, channel: str) -> bool:
        if channel.startswith(_CONTROL) and channel not in USERS:
            return True
        return self._wanted if isinstance(self._wanted, bool) else channel in self._wanted


def measured(connection: RedisConnection, names: Sequence[bytes]) -> Iterator[tuple[str, int, int]]:
    """For each key: type, size of the value, and length of the text (0 if it does not exist)."""
    commands = (
        command
        for name in names
        for command in (
            ("STRLEN", name),
            ("GETRANGE", name, 0, HEAD_BYTES - 1),
            ("GETRANGE", name, -TAIL_BYTES, -1),
        )
    )
    answers = connection.ask_all(commands)
    for _ in names:
        length, head, tail = (next(answers) for _ in range(3))
        yield (*told_of(length or 0, head or b"", tail or b""), length or 0)


def line(timeline: NamespaceEntries, places: Sequence[CheckpointEntry]) -> ListedNamespace:
    """The listing of a namespace with these checkpoints; there must be at least one."""
    ids = [one.key.checkpoint_id for one in places]
    head = max(places, key=lambda one: (one.rank, one.key)).key.checkpoint_id
    place = (timeline.thread_id, timeline.checkpoint_ns)
    return ListedNamespace(*place, min(ids), max(ids), len(ids), head)


def _by_id(places: Sequence[CheckpointEntry]) -> dict[tuple[str, str], CheckpointEntry]:
    return {(one.key.checkpoint_ns, one.key.checkpoint_id): one for one in places}


def task_of(name: bytes) -> tuple[str, int]:
    """Task id and idx of a write, from the name of its field."""
    task_id, _, idx = text(name).rpartition(":")
    return (task_id, int(idx)) if re.fullmatch(r"-?\d+", idx) else (text(name), 0)


def versions_of(body: Any) -> dict[str, str]:
    """By channel, its version in a decoded body, as text like in the keys."""
    found = body.get("channel_versions") if isinstance(body, dict) else None
    return {
        channel: str(version)
        for channel, version in (found if isinstance(found, dict) else {}).items()
        if isinstance(channel, str)
    }


def _versions(stored: StoredCheckpoint) -> dict[str, str]:
    return versions_of(decode_checkpoint(stored.body))


def timeline_of(name: bytes, told: bytes) -> NamespaceEntries | None:
    """The timeline of an entry in the registry; None if the entry has another form."""
    try:
        match json.loads(told):
            case {"thread": str() | int() as thread, "ns": str(ns)}:
                found = NamespaceEntries(str(thread), ns, name)
                return found if name.endswith(b":idx:" + found.suffix) else None
    except (ValueError, RecursionError):
        pass
    return None


def _ways(place: bytes) -> Iterator[tuple[bytes, bytes]]:
    """All ways to split THREAD:NS:CHANNEL into THREAD:NS and CHANNEL."""
    end = place.find(b":")
    while (end := place.find(b":", end + 1)) >= 0:
        yield place[:end], place[end + 1 :]


def _guessed(place: str) -> tuple[str, str, str] | None:
    """Thread, namespace and channel of a value in an unregistered namespace; None if ambiguous."""
    if called := _CALLS.fullmatch(place):
        return called[1], called[2], called[3]
    thread_id, is_root, channel = place.partition("::")
    return (thread_id, "", channel) if is_root else None
