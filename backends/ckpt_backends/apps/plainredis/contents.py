"""Finds and reads the keys of langgraph-checkpoint-plainredis that no timeline names.

Keys are not escaped and may be ambiguous, so the thread of a key is looked up in the registry.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from ckpt_backends.apps.plainredis.registry_faults import registry_faults
from ckpt_backends.apps.plainredis.separate_values import SeparateValues, measured
from ckpt_backends.apps.plainredis.stored_values import (
    CheckpointContents,
    stored_checkpoint,
    stored_write,
    unread_value,
    unwrapped,
)
from ckpt_backends.apps.plainredis.timelines import (
    NAMES_AT_ONCE,
    NamespaceEntries,
    PlainTimelines,
    by_id,
)
from ckpt_backends.codec import decode_checkpoint
from ckpt_backends.codec.limits import MOST_BYTES
from ckpt_backends.model import BlobKey, Checkpoint, CheckpointKey, Fault, TypedBytes, Usage, Write
from ckpt_backends.read_options import CheckpointQuery
from ckpt_backends.redis.engine.connection import in_chunks
from ckpt_backends.redis.engine.id_lists import gone_from_list
from ckpt_backends.redis.engine.keyspace import (
    CALL,
    CheckpointEntry,
    ThreadKeys,
    WriteEntry,
    beginning,
    literally,
    quoted,
    raw,
    text,
)
from ckpt_backends.redis.engine.thread_faults import ThreadKey

_CHECKPOINTS_AT_ONCE = 50
_CALLS = re.compile(rf"(.*?):({CALL}):(.*)", re.DOTALL)


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


class PlainContents(PlainTimelines):
    """All keys of threads, and what they contain."""

    def find(self, thread_ids: Collection[str]) -> dict[str, PlainThreadKeys]:
        """All keys of some threads, including orphans. Needs one SCAN for writes and values."""
        found = {one: PlainThreadKeys() for one in thread_ids}
        for timeline, places in self.entries_of(self.timelines(thread_ids)):
            one = found[timeline.thread_id]
            one.timelines.append(timeline)
            one.places.update(by_id(places))
        pattern = literally(f"{self.prefix}:") + b"[bw][lr]*:" + beginning(thread_ids)
        pattern += b":*" if len(thread_ids) == 1 else b"*"
        for names in self.connection.scan_once(pattern):
            writes, blobs = self._sorted(names)
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
        for _, places in self.entries_of(self.timelines()):
            yield PlainThreadKeys(mixed=places)
        for names in self.connection.scan_once(literally(f"{self.prefix}:") + b"[bw][lr]*:*"):
            writes, blobs = self._sorted(names)
            yield PlainThreadKeys(writes=[write for write, _ in writes], blob_places=blobs)

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
        known = self.known({suffix for suffix, _, _ in parts.values()})
        found = {}
        for name, (suffix, _, own) in parts.items():
            timeline = known.get(suffix)
            if timeline is not None:
                place = (timeline.thread_id, timeline.checkpoint_ns)
            else:
                place = self.place_of(suffix)
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
        known = self.known({suffix for some in ways.values() for suffix, _ in some})
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
        for timeline, places in self.entries_of(self.timeline(*one) for one in sorted(namespaces)):
            here = (timeline.thread_id, timeline.checkpoint_ns)
            named = {name for _, names in self.named(places) for name in names}
            for name in sorted(named & unsure.keys()):
                for one in unsure[name]:
                    if (one.thread_id, one.key.checkpoint_ns) == here:
                        yield one

    def blobs(self, found: ThreadKeys) -> Iterator[tuple[bytes, str, BlobKey, int]]:
        places = found.blob_places if isinstance(found, PlainThreadKeys) else []
        told = measured(self.connection, [one.name for one in places])
        for one, (_, _, size) in zip(places, told, strict=True):
            yield one.name, one.thread_id, one.key, size

    def named(
        self, places: Sequence[CheckpointEntry]
    ) -> Iterator[tuple[CheckpointEntry, list[bytes]]]:
        """For each checkpoint, the keys of the values that it names; they may not exist."""
        for place, stored in self._stored(places):
            yield place, list(self._blob_names(place.key, stored).values())

    def _blob_names(self, key: CheckpointKey, stored: CheckpointContents) -> dict[str, bytes]:
        """By channel, the key of the value that a checkpoint names."""
        return {
            channel: self.blob_name(key.thread_id, BlobKey(key.checkpoint_ns, channel, version))
            for channel, version in versions_of(decode_checkpoint(stored.body)).items()
        }

    # Contents of keys

    def _stored(
        self, places: Sequence[CheckpointEntry]
    ) -> Iterator[tuple[CheckpointEntry, CheckpointContents]]:
        for some in in_chunks(places, self._lengths):
            answers = self.connection.ask_all(
                ("GET", place.name) for place, size in some if size <= MOST_BYTES
            )
            for place, size in some:
                if size > MOST_BYTES:
                    yield place, stored_checkpoint(unread_value(size))
                elif (answer := next(answers)) is not None:  # expired or deleted since
                    yield place, stored_checkpoint(unwrapped(answer))

    def _lengths(self, places: Sequence[CheckpointEntry | BlobEntry]) -> Iterator[Any]:
        return self.connection.ask_all(("STRLEN", one.name) for one in places)

    def checkpoints(
        self, places: Sequence[CheckpointEntry], asked: CheckpointQuery
    ) -> Iterator[Checkpoint]:
        apart = SeparateValues(self.connection, asked.values)
        stream = self._stored(places)
        while some := list(islice(stream, _CHECKPOINTS_AT_ONCE)):
            named = [self._blob_names(one.key, stored) for one, stored in some if asked.body]
            apart.prepare(named)
            for number, (place, stored) in enumerate(some):
                yield Checkpoint(
                    place.key,
                    stored.parent,
                    stored.body if asked.body else None,
                    stored.metadata if asked.metadata else None,
                    apart.blobs(named[number]) if asked.body else None,
                    missing=apart.missing(named[number]) if asked.body else frozenset(),
                )

    def fields(self, places: Sequence[WriteEntry]) -> Iterator[tuple[WriteEntry, bytes]]:
        """The fields of the hashes of writes. Each field is one write."""
        answers = self.connection.ask_all(("HKEYS", one.name) for one in places)
        for one, answer in zip(places, answers, strict=True):
            yield from ((one, name) for name in sorted(answer or ()))

    def lengths_of_fields(self, items: Sequence[tuple[WriteEntry, bytes]]) -> Iterator[Any]:
        """The stored length of each field."""
        return self.connection.ask_all(("HSTRLEN", one.name, name) for one, name in items)

    def writes(
        self, places: Sequence[WriteEntry], values: bool | Collection[str]
    ) -> Iterator[Write]:
        for start in range(0, len(places), NAMES_AT_ONCE):
            some = places[start : start + NAMES_AT_ONCE]
            keys = self.keys_of([one.name for one in some])
            for place, name, size, answer in self._read_fields(list(self.fields(some))):
                task_id, idx = task_of(name)
                channel, value = _channel_and_value(size, answer)
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
            answers = self.connection.ask_all(
                ("HGET", one.name, name) for (one, name), size in some if size <= MOST_BYTES
            )
            for (one, name), size in some:
                if size > MOST_BYTES:
                    yield one, name, size, None
                elif (answer := next(answers)) is not None:  # gone since
                    yield one, name, size, answer

    def writes_at(self, keys: Collection[CheckpointKey]) -> list[WriteEntry]:
        return [WriteEntry(self.writes_name(key), key.checkpoint_id) for key in keys]

    def owners_of(self, names: Sequence[bytes]) -> Iterator[tuple[bytes, CheckpointKey, bool]]:
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
            channel, value = _channel_and_value(size, answer)
            key = keys[write.name]
            of_write = (wr, "value", key.thread_id, key.checkpoint_ns)
            yield key.checkpoint_id, Usage(*of_write, channel, value.type, 1, size)

    def _measured(
        self, places: Sequence[CheckpointEntry] | Sequence[BlobEntry]
    ) -> Iterator[tuple[str, int, int]]:
        return measured(self.connection, [one.name for one in places])

    def faults(self) -> Iterator[Fault]:
        return registry_faults(self)

    def expiring_keys(self, found: ThreadKeys) -> Iterator[ThreadKey]:
        yield from super().expiring_keys(found)
        if isinstance(found, PlainThreadKeys):
            for one in found.timelines:
                yield ThreadKey(one.name, "idx", one.checkpoint_ns)
            for blob in found.blob_places:
                yield ThreadKey(blob.name, "blob", blob.key.checkpoint_ns)

    def thread_faults(self, thread_id: str, found: ThreadKeys) -> Iterator[Fault]:
        yield from super().thread_faults(thread_id, found)
        for one in found.timelines if isinstance(found, PlainThreadKeys) else ():
            ids: list[bytes] = self.connection.ask("ZRANGE", one.name, 0, -1) or []
            keys = [CheckpointKey(thread_id, one.checkpoint_ns, text(own)) for own in ids[::-1]]
            yield from gone_from_list(self, one.name, keys, "ZREM {}")

    def threads_with_writes(self) -> Iterator[str]:
        for names in self.connection.scan(literally(f"{self.prefix}:wr:") + b"*"):
            yield from (key.thread_id for key in self.keys_of(names).values())

    def sources(self, key: CheckpointKey) -> list[str]:
        timeline = self.timeline(key.thread_id, key.checkpoint_ns)
        start = literally(f"{self.prefix}:blob:") + literally(text(timeline.suffix))
        return [
            f"GET {quoted(self.checkpoint_name(key))}",
            f"HGETALL {quoted(self.writes_name(key))}",
            f"ZREVRANGE {quoted(timeline.name)} 0 -1",
            f"SCAN 0 MATCH {quoted(start + b':*')}",
        ]


def _channel_and_value(size: int, stored: bytes | None) -> tuple[str, TypedBytes]:
    """Channel and value of a write; `stored` is None if it is too long to read."""
    return stored_write(unread_value(size) if stored is None else unwrapped(stored))


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
