"""The layout of langgraph-checkpoint-plainredis, and how it is recognised."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from redis import exceptions

from ckpt_backends.apps.plainredis.declaration import BACKEND
from ckpt_backends.apps.plainredis.records import (
    BLOBS,
    HEAD_BYTES,
    TAIL_BYTES,
    THREADS,
    TIMELINE,
    WRITES,
    CheckpointContents,
    field_of,
    stored_checkpoint,
    stored_write,
    told_of,
    unwrapped,
    wrapped,
    wrapped_checkpoint,
    wrapped_write,
)
from ckpt_backends.changes import Change, CopyOfCheckpoint, Inside, gone, moved
from ckpt_backends.codec import decode_checkpoint
from ckpt_backends.codec.values import MOST_BYTES, unread
from ckpt_backends.errors import Refused
from ckpt_backends.model import (
    Blob,
    BlobKey,
    Checkpoint,
    CheckpointKey,
    Fault,
    Record,
    ThreadSize,
    TypedBytes,
    Usage,
    Write,
    in_chunks,
    is_read,
)
from ckpt_backends.protocol import CheckpointQuery
from ckpt_backends.records import copied_from
from ckpt_backends.redis.engine.connection import Command, RedisConnection
from ckpt_backends.redis.engine.keyspace import (
    CALL,
    CHECKPOINT,
    HASH,
    MEMBER,
    STRING,
    ZSET,
    ApartEntry,
    CheckpointEntry,
    CheckpointKeys,
    KeysByCheckpoint,
    ListedNamespace,
    ThreadKeys,
    WriteEntry,
    beginning,
    cells_of,
    expiries_of,
    literally,
    namespace_of,
    parted,
    quoted,
    raw,
    rest_of,
    row_name,
    text,
    with_contents,
    with_sizes,
)
from ckpt_backends.redis.engine.layout import (
    KEYS_AT_ONCE,
    NO_EXPIRY,
    CommandPlan,
    Owner,
    PurgeLock,
    RecognisedStore,
    Recogniser,
    RedisLayout,
    Step,
    ThreadKey,
    ThreadRemoval,
    expiring,
    gone_from_list,
    namespaces_of,
    run,
    summed,
    unlink,
    watch_tasks,
)
from ckpt_backends.redis.engine.store import RedisStore
from ckpt_backends.rows import Cell, Row, not_of
from ckpt_backends.url import StoreUrl

# The keys of langgraph-checkpoint-plainredis 0.1: only strings, hashes and sorted sets.
#
#     lg:cp:THREAD:NS:ID                 string: a checkpoint without values, metadata and parent
#     lg:blob:THREAD:NS:CHANNEL:VERSION  string: a channel's value at one version
#     lg:wr:THREAD:NS:ID                 hash: a checkpoint's writes, by `TASK:IDX`
#     lg:idx:THREAD:NS                   sorted set, the "timeline": ids in the order of storing
#     lg:threads                         hash, the "registry": a timeline's key to {"thread", "ns"}
#     lg:seq                             string: the last number that was used in a timeline
#
# Source: `langgraph_checkpoint_plainredis/saver.py`, 0.1.0. `lg` is the default prefix. The head
# is the checkpoint that was stored last. Keys are not escaped and may be ambiguous, so the thread
# of a key is looked up in the registry. An expired checkpoint leaves its id in the timeline; the
# saver and ckpt ignore such ids. Versions are numbers.


USUAL_PREFIX = "lg"
_TIMELINES_AT_ONCE = 100
NAMES_AT_ONCE = 500
_CHECKPOINTS_AT_ONCE = 50
_CALLS = re.compile(rf"(.*?):({CALL}):(.*)", re.DOTALL)
_CALLED = re.compile(rf"(.*?):({CALL})", re.DOTALL)
_BY_FIELD = frozenset({WRITES, THREADS})
"""Kinds for which a row is one field of a hash."""
_Item = tuple[str, bytes, bytes]
"""Kind, key, and the field for kinds in `_BY_FIELD`; otherwise `b""`."""


class NamespaceEntries(NamedTuple):
    """A namespace of a thread."""

    thread_id: str
    checkpoint_ns: str
    name: bytes
    """The key of its sorted set, and its field in the registry."""

    @property
    def suffix(self) -> bytes:
        """The part THREAD:NS, which all its keys have in common."""
        return raw(f"{self.thread_id}:{self.checkpoint_ns}")


# Removes keys of threads of langgraph-checkpoint-plainredis.
#
# A thread with few keys is removed in one transaction. A thread with many keys is removed in
# several, oldest checkpoint first. Each checkpoint is removed together with its writes, its entry
# in the timeline, and the values that no remaining checkpoint names. So an interrupted removal
# leaves the newest checkpoints intact. They are still listed, and the next run removes them in
# the same way.


class PlainRemoval(ThreadRemoval["Plain"]):
    """The removal of one thread, or of a part of it."""

    def __init__(self, layout: Plain, lock: PurgeLock, keys: KeysByCheckpoint) -> None:
        super().__init__(layout, lock, keys)
        self._left = {one.at for one in keys.checkpoints}
        """The checkpoints that must exist when the next step runs."""
        self._going: list[set[tuple[str, str]]] = [set()]
        """For each step, the checkpoints that it removes."""

    def _run_watched(self, pipe: Any, step: Step, rows: Counter[str]) -> None:
        if timelines := [name for kinds in self.keys.shared.values() for name in kinds[TIMELINE]]:
            pipe.watch(*timelines)
        there = self._layout.listed([self.keys.thread_id])[self.keys.thread_id].places
        if there.keys() != self._left:
            raise exceptions.WatchError("a checkpoint was added, or is gone")
        heads = [one for one in self.keys.heads.values() if one.at in self._left]
        watch_tasks(pipe, heads, WRITES, self._layout.owners_of)
        run(pipe, step, rows)
        self._left -= self._going.pop(0)

    def _run_next(self, pipe: Any, step: Step, rows: Counter[str]) -> None:
        # The head exists until the last step, so an agent may continue the thread meanwhile.
        self._run_watched(pipe, step, rows)

    def _steps(self, inside: Inside | None) -> list[Step]:
        owners, going = list(self.keys.groups.values()), sorted(self.keys.blobs.values())
        if inside is not None:
            wanted = {(ns, one) for ns, ids in inside.checkpoints.items() for one in ids}
            owners = [one for one in owners if one.at in wanted]
            going = [self._layout.blob_name(self.keys.thread_id, key) for key in inside.blobs]
        # The groups of a namespace are in the order of storing.
        owners.sort(key=lambda one: (one.is_there, not one.key.checkpoint_ns))
        last = self._last_to_name(owners, set(going))
        first = [name for name in going if name not in last]
        steps: list[Step] = [[unlink(BLOBS, first)] if first else []]
        number = len(first)
        for owner in owners:
            blobs = [name for name in going if last.get(name) == owner.key]
            size = sum(map(len, owner.names.values())) + len(blobs)
            if number + size > KEYS_AT_ONCE and number:
                steps.append([])
                self._going.append(set())
                number = 0
            number += size
            steps[-1] += self._commands(owner, blobs)
            if owner.is_there:
                self._going[-1].add(owner.at)
        steps[-1] += list(self._ends())
        return steps

    def _last_to_name(
        self, owners: Sequence[CheckpointKeys], blobs: set[bytes]
    ) -> dict[bytes, CheckpointKey]:
        """By value, the last checkpoint in this order that names it; both are removed together."""
        ordered = [
            CheckpointEntry(one.key, one.names[CHECKPOINT][0]) for one in owners if one.is_there
        ]
        last: dict[bytes, CheckpointKey] = {}
        for place, names in self._layout.named(ordered):
            last.update({name: place.key for name in names if name in blobs})
        return last

    def _commands(self, owner: CheckpointKeys, blobs: Sequence[bytes]) -> Step:
        found = [unlink(BLOBS, blobs)] if blobs else []
        found += [unlink(WRITES, owner.names[WRITES])]
        if owner.is_there:
            found += [unlink(CHECKPOINT, owner.names[CHECKPOINT])]
            timeline = self._layout.timeline(owner.key.thread_id, owner.key.checkpoint_ns)
            found += [("", ("ZREM", timeline.name, owner.key.checkpoint_id))]
        return found

    def _ends(self) -> Iterator[tuple[str, Command]]:
        """Commands that remove the timelines without remaining checkpoints, the root's last."""
        left = {at[0] for at in self._left.difference(*self._going)}
        for ns in sorted(self.keys.shared.keys() - left, reverse=True):
            # The timeline may still contain ids of expired checkpoints.
            for name in self.keys.shared[ns][TIMELINE]:
                yield unlink("", [name])
                yield THREADS, ("HDEL", self._layout.threads, name)


# Plans changes of threads of langgraph-checkpoint-plainredis in the same form as its saver.
#
# The timeline is watched, because a saver changes it with every checkpoint. The numbers in a
# timeline come from a counter that all threads share. They are taken last and, as in the saver,
# outside of the transaction. An unused number leaves a harmless gap.


class _Added(NamedTuple):
    """A checkpoint to add to a timeline."""

    rank: float
    """Its position among the checkpoints that are added together."""
    timeline: NamespaceEntries
    checkpoint_id: str
    expiry: int
    """Time to live in milliseconds for the timeline, if the timeline is new."""


class PlainPlan(CommandPlan["Plain"]):
    """The plan of a change for the layout `redis-plain`."""

    def __init__(self, layout: Plain, change: Change) -> None:
        super().__init__(layout, change)
        thread_id = change.thread_id
        self._known = layout.listed([thread_id])[thread_id].places
        self._added: list[_Added] = []
        self.watched = [layout.timeline(thread_id, ns).name for ns in sorted(change.heads) or [""]]
        self.beside = [layout.threads, layout.seq]

    def _places(self) -> Iterable[CheckpointEntry]:
        thread_id = self._change.thread_id
        return self._layout.listed([thread_id])[thread_id].places.values()

    def commands(self) -> Iterator[Command]:
        yield from self._removals()
        for blob in self._change.blobs:
            name = self._make(self._layout.blob_name(self._change.thread_id, blob.place))
            yield ("SET", name, wrapped(blob.value))
            yield from expiring(name, self._expiry_of_blob(blob.key.checkpoint_ns))
        for copy in sorted(self._change.copies, key=self._rank_of):
            yield from self._copy(copy)
        for one in self._change.checkpoints:
            yield from self._add(one)
        for write in self._change.writes:
            yield from self._write(write)
        for some in self._change.copies_of_writes:
            yield from self._copy_writes(
                some.source, some.target, some.tasks, self._expiry_of(some.target)
            )

    def last(self) -> Iterator[Command]:
        if not self._added:
            return
        number = len(self._added)
        counted = int(self._connection.client_of(self._layout.seq).incrby(self._layout.seq, number))
        self._added.sort(key=lambda one: one.rank)
        for score, one in enumerate(self._added, counted - number + 1):
            timeline = one.timeline
            about = {"thread": timeline.thread_id, "ns": timeline.checkpoint_ns}
            is_new = not any(ns == timeline.checkpoint_ns for ns, _ in self._known)
            place = self._place_below(one)
            own = str(score) if place is None else repr(place)
            yield ("ZADD", timeline.name, own, raw(one.checkpoint_id))
            told = json.dumps(about, ensure_ascii=False)
            yield ("HSET", self._layout.threads, timeline.name, raw(told))
            yield from expiring(timeline.name, one.expiry if is_new else NO_EXPIRY)

    def _place_below(self, added: _Added) -> float | None:
        """The score of a checkpoint that is older than the head; None if it is the newest."""
        ns = added.timeline.checkpoint_ns
        here = [one for (space, _), one in self._known.items() if space == ns]
        newer = [one.rank for one in here if one.key.checkpoint_id > added.checkpoint_id]
        if not newer:
            return None
        end = min(newer)
        start = max((one.rank for one in here if one.rank < end), default=end - 2)
        middle = (start + end) / 2
        return float(int(middle)) if int(middle) > start else middle

    # Removals

    def _removals(self) -> Iterator[Command]:
        removed = self._change.removed or {}
        names: list[bytes] = []
        for key, number in removed.items():
            writes = self._layout.writes_name(key)
            if len(self._connection.ask("HKEYS", writes)) != number:
                raise moved(self._change.thread_id)
            names += [self._need(self._layout.checkpoint_name(key), key), writes]
            timeline = self._layout.timeline(key.thread_id, key.checkpoint_ns)
            yield ("ZREM", timeline.name, raw(key.checkpoint_id))
        left = {at for at, one in self._known.items() if one.key not in removed}
        for ns in sorted({ns for ns, _ in self._known} - {ns for ns, _ in left}):
            name = self._layout.timeline(self._change.thread_id, ns).name
            names.append(name)
            yield ("HDEL", self._layout.threads, name)
        names += [
            self._layout.blob_name(self._change.thread_id, BlobKey(*one))
            for one in self._change.removed_blobs
        ]
        if removed and not left:
            # The last checkpoint of the thread is removed, so remove all its values.
            found = self._layout.find([self._change.thread_id])[self._change.thread_id]
            names += [one.name for one in found.apart]
        self._removed = set(names)
        if names:
            yield ("UNLINK", *dict.fromkeys(names))

    # Additions

    def _add(self, one: Record) -> Iterator[Command]:
        expiry = self._expiry_of(one.key)
        name = self._make(self._layout.checkpoint_name(one.key))
        yield ("SET", name, wrapped_checkpoint(one.value, one.metadata, one.parent))
        yield from expiring(name, expiry)
        self._come(one.key, expiry, float(len(self._added)))

    def _come(self, key: CheckpointKey, expiry: int, rank: float) -> None:
        timeline = self._layout.timeline(key.thread_id, key.checkpoint_ns)
        self._added.append(_Added(rank, timeline, key.checkpoint_id, expiry))

    def _write(self, write: Record) -> Iterator[Command]:
        name = self._make(self._layout.writes_name(write.key))
        own = raw(f"{write.task_id}:{write.idx}")
        yield ("HSET", name, own, wrapped_write(write.task_id, write.channel, write.value))
        yield from expiring(name, self._expiry_of(write.key))

    def _copy(self, copy: CopyOfCheckpoint) -> Iterator[Command]:
        layout, source = self._layout, copy.source
        target = source._replace(thread_id=self._change.thread_id)
        old = self._need(layout.checkpoint_name(source), source)
        new = self._make(layout.checkpoint_name(target))
        expiry = self._left(old)
        if copy.metadata is None and copy.body is None:
            yield ("COPY", old, new)
        else:
            stored = stored_checkpoint(unwrapped(self._connection.ask("GET", old) or b""))
            body, metadata = copy.body or stored.body, copy.metadata or stored.metadata
            yield ("SET", new, wrapped_checkpoint(body, metadata, stored.parent))
            yield from expiring(new, expiry)
        yield from self._copy_values(CheckpointEntry(source, old))
        if copy.writes is None:
            writes = layout.writes_name(source)
            if self._connection.number_of([writes]):
                made = self._make(layout.writes_name(target))
                yield ("COPY", self._need(writes, source), made)
        else:
            yield from self._copy_writes(source, target, copy.writes, expiry)
        self._come(target, expiry, self._rank_of(copy))

    def _copy_values(self, place: CheckpointEntry) -> Iterator[Command]:
        """Copy the values that a checkpoint names, except those that were already copied."""
        start = raw(f"{self._layout.prefix}:blob:{place.key.thread_id}:")
        new_start = raw(f"{self._layout.prefix}:blob:{self._change.thread_id}:")
        for _, names in self._layout.named([place]):
            new = {name: new_start + name[len(start) :] for name in names}
            rest = [name for name in names if new[name] not in self._made]
            there = self._connection.ask_all(("EXISTS", name) for name in rest)
            for name, is_there in zip(rest, list(there), strict=True):
                if is_there:
                    self._needed.add(name)
                    yield ("COPY", name, self._make(new[name]))

    def _copy_writes(
        self,
        source: CheckpointKey,
        target: CheckpointKey,
        tasks: Sequence[tuple[str, int]],
        expiry: int,
    ) -> Iterator[Command]:
        if not tasks:
            return
        fields = [raw(f"{task_id}:{idx}") for task_id, idx in tasks]
        old = self._need(self._layout.writes_name(source), source)
        held = self._connection.ask("HMGET", old, *fields)
        if None in held:
            raise gone(source)
        name = self._make(self._layout.writes_name(target))
        pairs = [part for pair in zip(fields, held, strict=True) for part in pair]
        yield ("HSET", name, *pairs)
        yield from expiring(name, expiry)

    # Times to live

    def _rank_of(self, copy: CopyOfCheckpoint) -> float:
        """The position of the original in its timeline."""
        timeline = self._layout.timeline(copy.source.thread_id, copy.source.checkpoint_ns)
        score = self._connection.ask("ZSCORE", timeline.name, raw(copy.source.checkpoint_id))
        return float(score or 0)

    def _expiry_of(self, key: CheckpointKey) -> int:
        """The time to live for a new checkpoint: the remaining time of its original."""
        for one in self._change.checkpoints:
            copied = copied_from(one) if one.key == key else None
            origin = self._known.get((key.checkpoint_ns, copied or ""))
            if origin is not None:
                return self._left(origin.name)
        return NO_EXPIRY

    def _expiry_of_blob(self, ns: str) -> int:
        """The time to live for a new value: that of its new checkpoint, or of the head."""
        for one in self._change.checkpoints:
            if one.key.checkpoint_ns == ns:
                return self._expiry_of(one.key)
        head = self._known.get((ns, self._change.heads.get(ns, "")))
        return NO_EXPIRY if head is None else self._left(head.name)


# Reads checkpoints of langgraph-checkpoint-plainredis.
#
# The keys of checkpoints and their writes are known from the timelines. A SCAN over all keys is
# needed only for orphaned writes and for sizes.


class PlainRedisStore(RedisStore):
    """A Redis database with this layout, opened for reading."""

    def __init__(self, layout: Plain, url: StoreUrl) -> None:
        super().__init__(layout, url)
        self._plain = layout
        self._quick: dict[str, ThreadKeys] = {}

    def refresh(self) -> None:
        super().refresh()
        self._quick.clear()

    def _places_of(self, thread_id: str) -> Mapping[tuple[str, str], CheckpointEntry]:
        return self._remembered(self._quick, thread_id, self._plain.listed).places

    def _write_places(self, thread_id: str, wanted: Collection[str] | None) -> list[WriteEntry]:
        if wanted is None:
            return self._find(thread_id).writes
        places = self._places_of(thread_id).values()
        keys = [one.key for one in places if one.key.checkpoint_id in wanted]
        return self._plain.writes_at(keys)


class Plain(RedisLayout):
    """The layout of langgraph-checkpoint-plainredis."""

    name = "redis-plain"
    saver = "langgraph-checkpoint-plainredis 0.1"
    capabilities = BACKEND.layouts["redis-plain"]
    types: Mapping[str, str] = {
        BLOBS: STRING,
        WRITES: HASH,
        TIMELINE: ZSET,
        THREADS: HASH,
        CHECKPOINT: STRING,
    }
    lists_parents = False
    store = PlainRedisStore
    removal = PlainRemoval
    plan = PlainPlan

    def __init__(self, connection: RedisConnection, prefix: str = USUAL_PREFIX) -> None:
        super().__init__(connection)
        self.prefix = prefix
        self.threads = raw(f"{prefix}:threads")
        self.seq = raw(f"{prefix}:seq")
        self.tables = (f"{prefix}:cp:*", f"{prefix}:blob:*", f"{prefix}:wr:*")

    # Keys and timelines

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

    def place_of(self, suffix: bytes) -> tuple[str, str]:
        """The thread and the namespace that THREAD:NS most likely means."""
        if called := _CALLED.fullmatch(text(suffix)):
            return called[1], called[2]
        thread_id, _, ns = text(suffix).rpartition(":")
        return thread_id, ns

    def _name(self, *parts: str) -> bytes:
        return raw(":".join((self.prefix, *parts)))

    def timelines(self, thread_ids: Collection[str] | None = None) -> Iterator[NamespaceEntries]:
        """The registered timelines of some threads or of all threads, each once."""
        pattern = literally(f"{self.prefix}:idx:") + beginning(thread_ids or ())
        pattern += b":*" if thread_ids is not None and len(thread_ids) == 1 else b"*"
        seen: set[bytes] = set()
        after = ("MATCH", pattern, "COUNT", NAMES_AT_ONCE)
        for fields in self.connection.turns("HSCAN", [self.threads], after):
            for name, told in fields.items():
                found = None if name in seen else timeline_of(name, told)
                if found is not None and (thread_ids is None or found.thread_id in thread_ids):
                    seen.add(name)
                    yield found

    def known(self, suffixes: Collection[bytes]) -> dict[bytes, NamespaceEntries]:
        """By suffix (THREAD:NS), its timeline, for the suffixes that are registered."""
        found: dict[bytes, NamespaceEntries] = {}
        start = raw(f"{self.prefix}:idx:")
        for some in in_chunks(sorted(suffixes), NAMES_AT_ONCE):
            answer = self.connection.ask("HMGET", self.threads, *(start + one for one in some))
            for suffix, told in zip(some, answer, strict=True):
                timeline = None if told is None else timeline_of(start + suffix, told)
                if timeline is not None:
                    found[suffix] = timeline
        return found

    def entries_of(
        self, timelines: Iterable[NamespaceEntries]
    ) -> Iterator[tuple[NamespaceEntries, list[CheckpointEntry]]]:
        """The checkpoints of each timeline, in the order of storing."""
        for some in in_chunks(timelines, _TIMELINES_AT_ONCE):
            answers = self.connection.ask_all(
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
        for some in in_chunks(places, NAMES_AT_ONCE):
            if self.connection.number_of([one.name for one in some]) == len(some):
                found += some
                continue
            there = self.connection.ask_all(("EXISTS", one.name) for one in some)
            found += [one for one, is_there in zip(some, there, strict=True) if is_there]
        return found

    def namespaces(self, prefix: str = "") -> Iterator[ListedNamespace]:  # noqa: ARG002
        for _, places in self.entries_of(self.timelines()):
            yield from namespaces_of(places)

    def listed(self, thread_ids: Collection[str]) -> dict[str, ThreadKeys]:
        """The timelines of some threads and their checkpoints, in the order of storing."""
        found = {one: ThreadKeys() for one in thread_ids}
        for timeline, places in self.entries_of(self.timelines(thread_ids)):
            one, ns = found[timeline.thread_id], timeline.checkpoint_ns
            one.lists[ns] = timeline.name
            one.places |= {(ns, place.key.checkpoint_id): place for place in places}
        return found

    def entries(self, names: Sequence[bytes]) -> Iterator[CheckpointEntry]:
        start = raw(f"{self.prefix}:cp:")
        parts = {
            name: name[len(start) :].rpartition(b":") for name in names if name.startswith(start)
        }
        known = self.known({suffix for suffix, _, _ in parts.values()})
        asked = [(known[suffix], text(own)) for suffix, _, own in parts.values() if suffix in known]
        scores = self.connection.ask_all(("ZSCORE", one.name, raw(own)) for one, own in asked)
        places = [
            self._place(one, own, float(score))
            for (one, own), score in zip(asked, list(scores), strict=True)
            if score is not None
        ]
        yield from self._there(places)

    # What no timeline names. Keys are not escaped and may be ambiguous, so the thread of a key is
    # looked up in the registry.

    def find(self, thread_ids: Collection[str]) -> dict[str, ThreadKeys]:
        """All keys of some threads, including orphans. Needs one SCAN for writes and values."""
        found = self.listed(thread_ids)
        pattern = literally(f"{self.prefix}:") + b"[bw][lr]*:" + beginning(thread_ids)
        pattern += b":*" if len(thread_ids) == 1 else b"*"
        for names in self.connection.scan_once(pattern):
            writes, blobs = self._sorted(names)
            for write, key in writes:
                if key.thread_id in found:
                    found[key.thread_id].writes.append(write)
            for blob in blobs:
                if blob.thread_id in found:
                    found[blob.thread_id].apart.append(blob)
        for one in found.values():
            one.writes.sort(key=lambda write: write.name)
            one.apart.sort()
        return found

    def pages(self) -> Iterator[ThreadKeys]:
        for _, places in self.entries_of(self.timelines()):
            yield ThreadKeys(mixed=places)
        for names in self.connection.scan_once(literally(f"{self.prefix}:") + b"[bw][lr]*:*"):
            writes, blobs = self._sorted(names)
            yield ThreadKeys(writes=[write for write, _ in writes], apart=blobs)

    def _sorted(
        self, names: Sequence[bytes]
    ) -> tuple[list[tuple[WriteEntry, CheckpointKey]], list[ApartEntry]]:
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
            place = known[suffix][:2] if suffix in known else self.place_of(suffix)
            found[name] = CheckpointKey(*place, text(own))
        return found

    def _blobs_of(self, names: Sequence[bytes]) -> Iterator[ApartEntry]:
        """The values with these keys, with their threads and channels.

        Every part of a key except the version may contain colons, so a key may be ambiguous. Then
        the checkpoints are read to find the one that names the value. If none does, the value is
        left out.
        """
        start = len(raw(f"{self.prefix}:blob:"))
        places = {name: name[start:].rpartition(b":")[0] for name in names}
        ways = {name: list(_ways(place)) for name, place in places.items()}
        known = self.known({suffix for some in ways.values() for suffix, _ in some})
        unsure: dict[bytes, list[ApartEntry]] = {}
        for name, some in ways.items():
            version = text(name.rpartition(b":")[2])
            may_be = [
                _apart(name, *known[suffix][:2], text(channel), version)
                for suffix, channel in some
                if suffix in known
            ]
            if len(may_be) == 1:
                yield may_be[0]
            elif may_be:
                unsure[name] = may_be
            elif (place := _guessed(text(places[name]))) is not None:
                yield _apart(name, *place, version)
        yield from self._settled(unsure)

    def _settled(self, unsure: Mapping[bytes, Sequence[ApartEntry]]) -> Iterator[ApartEntry]:
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
        told = measured(self.connection, [one.name for one in found.apart])
        for one, (_, _, size) in zip(found.apart, told, strict=True):
            yield *one, size

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
        for place, size, answer in with_contents(
            self.connection, places, lambda one: ("STRLEN", one.name), lambda one: ("GET", one.name)
        ):
            if size > MOST_BYTES:
                yield place, stored_checkpoint(unread("", size))
            elif answer is not None:  # otherwise expired or deleted since
                yield place, stored_checkpoint(unwrapped(answer))

    def checkpoints(
        self, places: Sequence[CheckpointEntry], asked: CheckpointQuery
    ) -> Iterator[Checkpoint]:
        apart = SeparateValues(self.connection, asked.values)
        for some in in_chunks(self._stored(places), _CHECKPOINTS_AT_ONCE):
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

    def _fields(self, places: Sequence[WriteEntry]) -> Iterator[tuple[WriteEntry, bytes]]:
        """The fields of the hashes of writes. Each field is one write."""
        answers = self.connection.ask_all(("HKEYS", one.name) for one in places)
        for one, answer in zip(places, answers, strict=True):
            yield from ((one, name) for name in sorted(answer or ()))

    def writes(
        self, places: Sequence[WriteEntry], values: bool | Collection[str]
    ) -> Iterator[Write]:
        for some in in_chunks(places, NAMES_AT_ONCE):
            for key, own, _, channel, value in self._stored_writes(some):
                task_id, idx = task_of(own)
                wanted = values if isinstance(values, bool) else channel in values
                length = len(value.data) if value.whole is None else value.whole
                yield Write(key, task_id, "", idx, channel, length, value if wanted else None)

    def _stored_writes(
        self, places: Sequence[WriteEntry]
    ) -> Iterator[tuple[CheckpointKey, bytes, int, str, TypedBytes]]:
        """The writes in these hashes: field, length of the text, channel and value."""
        keys = self.keys_of([one.name for one in places])
        for (place, own), size, answer in with_contents(
            self.connection,
            list(self._fields(places)),
            lambda one: ("HSTRLEN", one[0].name, one[1]),
            lambda one: ("HGET", one[0].name, one[1]),
        ):
            if size > MOST_BYTES:
                yield keys[place.name], own, size, *stored_write(unread("", size))
            elif answer is not None:  # otherwise gone since
                yield keys[place.name], own, size, *stored_write(unwrapped(answer))

    def writes_at(self, keys: Collection[CheckpointKey]) -> list[WriteEntry]:
        return [WriteEntry(self.writes_name(key), key.checkpoint_id) for key in keys]

    def owners_of(self, names: Sequence[bytes]) -> Iterator[tuple[bytes, CheckpointKey, bool]]:
        keys = self.keys_of(names)
        places = [WriteEntry(name, keys[name].checkpoint_id) for name in names]
        for place, _ in self._fields(places):
            yield place.name, keys[place.name], True

    def usage(self, found: ThreadKeys) -> Iterator[tuple[str, Usage]]:
        """The lengths of the stored texts. Base64 makes them a third longer than the values."""
        cp, blob, wr = self.tables
        told = measured(self.connection, [one.name for one in found.checkpoints])
        for place, (tag, _, size) in zip(found.checkpoints, told, strict=True):
            where = (place.key.thread_id, place.key.checkpoint_ns, None, tag, 1)
            if size:  # otherwise it was removed meanwhile
                own = place.key.checkpoint_id
                yield own, Usage(cp, "checkpoint", *where, size)
                # Metadata is stored in the same text.
                yield own, Usage(cp, "metadata", *where, 0)
        told = measured(self.connection, [one.name for one in found.apart])
        for one, (tag, _, size) in zip(found.apart, told, strict=True):
            if size:
                ns, channel = one.key.checkpoint_ns, one.key.channel
                yield "", Usage(blob, "value", one.thread_id, ns, channel, tag, 1, size)
        for key, _, size, channel, value in self._stored_writes(found.writes):
            of_write = (wr, "value", key.thread_id, key.checkpoint_ns)
            yield key.checkpoint_id, Usage(*of_write, channel, value.type, 1, size)

    def sizes(self, found: ThreadKeys, thread_ids: Sequence[str]) -> list[ThreadSize]:
        return summed(self._lengths(found), thread_ids)

    def _lengths(self, found: ThreadKeys) -> Iterator[tuple[str, Usage]]:
        """As `usage`, but without types and channels, so that no value is read."""
        checkpoints = [(one.key, one.name, "metadata", None) for one in found.checkpoints]
        apart = [(CheckpointKey(one.thread_id, "", ""), one.name, "", "") for one in found.apart]
        texts = [*checkpoints, *apart]
        lengths = self.connection.ask_all(("STRLEN", name) for _, name, *_ in texts)
        for (key, _, column, channel), length in zip(texts, lengths, strict=True):
            where = ("", column, key.thread_id, "", channel, "")
            yield key.checkpoint_id, Usage(*where, 1, int(length or 0))
        keys = self.keys_of([one.name for one in found.writes])
        fields = list(self._fields(found.writes))
        lengths = self.connection.ask_all(("HSTRLEN", write.name, own) for write, own in fields)
        for (write, _), length in zip(fields, lengths, strict=True):
            key = keys[write.name]
            where = ("", "", key.thread_id, "", "", "")
            yield key.checkpoint_id, Usage(*where, 1, int(length or 0))

    def faults(self) -> Iterator[Fault]:
        """`index-stale` for each timeline that is not in the registry."""
        start = raw(f"{self.prefix}:idx:")
        for names in self.connection.scan(literally(f"{self.prefix}:idx:") + b"*", ZSET):
            told = self.connection.ask("HMGET", self.threads, *names)
            for name in [one for one, entry in zip(names, told, strict=True) if entry is None]:
                thread_id, ns = self.place_of(name.removeprefix(start))
                entry = json.dumps({"thread": thread_id, "ns": ns}, ensure_ascii=False)
                yield Fault(
                    "index-stale",
                    "the namespace is not in the registry of threads, so the saver does not list"
                    " it",
                    thread_id,
                    ns,
                    fix=f"HSET {quoted(self.threads)} {quoted(name)} {quoted(raw(entry))}",
                )

    def expiring_keys(self, found: ThreadKeys) -> Iterator[ThreadKey]:
        yield from super().expiring_keys(found)
        yield from (ThreadKey(name, "idx", ns) for ns, name in found.lists.items())
        yield from (ThreadKey(one.name, "blob", one.key.checkpoint_ns) for one in found.apart)

    def thread_faults(self, thread_id: str, found: ThreadKeys) -> Iterator[Fault]:
        yield from super().thread_faults(thread_id, found)
        for ns, name in found.lists.items():
            ids: list[bytes] = self.connection.ask("ZRANGE", name, 0, -1) or []
            keys = [CheckpointKey(thread_id, ns, text(own)) for own in ids[::-1]]
            yield from gone_from_list(self, name, keys, "ZREM {}")

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

    # All keys of a thread, as rows: a hash of writes becomes one row for each write. All threads
    # share the registry, so a thread has one row for each of its fields there.

    def _grouped(
        self, thread_id: str, found: ThreadKeys, owners: Iterable[Owner]
    ) -> KeysByCheckpoint:
        groups = self._groups(thread_id, found, owners)
        lists = {ns: {TIMELINE: [name]} for ns, name in found.lists.items()}
        return KeysByCheckpoint(
            thread_id, groups, lists, {one.key: one.name for one in found.apart}
        )

    def keys_at(self, key: CheckpointKey, *, is_there: bool) -> CheckpointKeys:
        checkpoint = self.checkpoint_name(key)
        names = {WRITES: [self.writes_name(key)], CHECKPOINT: [checkpoint]}
        return CheckpointKeys(key, names, is_there)

    def rows(self, thread_id: str) -> Iterator[Row]:
        """One row for each key or field, in the same form as `rows_of`."""
        (keys,) = self.grouped([thread_id])
        for some in with_sizes(list(self._items(keys)), self._lengths_of):
            items = [item for item, _ in some]
            answers = self.connection.ask_all(map(_read, items))
            expiries = expiries_of(self.connection, [name for _, name, _ in items])
            for (kind, name, own), answer, expiry in zip(items, answers, expiries, strict=True):
                if answer:
                    about = {"key": text(name), "type": self.types[kind], "expires_at": expiry}
                    yield Row(kind, {**about, **self._cells(kind, own, answer)})

    def _items(self, keys: KeysByCheckpoint) -> Iterator[_Item]:
        # First, because `parts` tells other keys apart by them.
        for kinds in keys.shared.values():
            for name in kinds[TIMELINE]:
                yield TIMELINE, name, b""
                yield THREADS, self.threads, name
        yield from ((BLOBS, name, b"") for name in sorted(keys.blobs.values()))
        names = sorted({name for one in keys.groups.values() for name in one.names[WRITES]})
        found = self.connection.ask_all(("HKEYS", name) for name in names)
        for name, own in zip(names, found, strict=True):
            yield from ((WRITES, name, one) for one in sorted(own or ()))
        # In the order of storing, so that each head comes last.
        for owner in sorted(keys.checkpoints, key=lambda one: not one.key.checkpoint_ns):
            yield CHECKPOINT, owner.names[CHECKPOINT][0], b""

    def _lengths_of(self, items: Sequence[_Item]) -> Iterator[Any]:
        return self.connection.ask_all(
            ("HSTRLEN", name, own) if own else ("MEMORY USAGE", name) for _, name, own in items
        )

    def stored(self, rows: Sequence[Row]) -> Iterator[dict[str, Cell] | None]:
        items = [(row.table, raw(str(row.cells["key"])), own_field(row)) for row in rows]
        answers = self.connection.ask_all(map(_read, items))
        for row, (kind, name, own), answer in zip(rows, items, answers, strict=True):
            if answer:
                yield self._cells(kind, own, answer)
            else:
                # If a key of another type exists, return contents that differ from the row.
                differs = row.table not in _BY_FIELD and self.connection.ask("EXISTS", name)
                yield {} if differs else None

    def _cells(self, kind: str, own: bytes, answer: Any) -> dict[str, Cell]:
        if kind in _BY_FIELD:
            return {MEMBER + text(own): bytes(answer)}
        return cells_of(self.types[kind], answer) or {}

    def row_key(self, row: Row) -> Hashable:
        return row.table, row.cells["key"], own_field(row)

    def own_rows(self, thread_id: str, rows: Iterable[Row]) -> Iterator[Row]:
        start = f"{self.prefix}:{{}}:{thread_id}:".format
        spaces: set[str] = set()
        values: list[str] = []
        for row in rows:
            name = row_name(row, self.types, {THREADS})
            if row.table == THREADS:
                self._check_entry(thread_id, row, name)
            elif row.table == TIMELINE:
                spaces.add(namespace_of(row, rest_of(row, name, start("idx"))))
            elif row.table == BLOBS:
                values.append(rest_of(row, name, start("blob")))
            else:
                spaces.add(parted(row, name, start("wr" if row.table == WRITES else "cp"))[0])
            yield row
        for rest in values:
            if _beginnings(rest).isdisjoint(spaces):
                raise Refused(
                    f"it has a value that belongs to no checkpoint of thread '{thread_id}'"
                )

    def _check_entry(self, thread_id: str, row: Row, name: str) -> None:
        """Check an entry of the registry, which all threads share."""
        ((own, told),) = ((one, cell) for one, cell in row.cells.items() if one.startswith(MEMBER))
        found = timeline_of(raw(own.removeprefix(MEMBER)), told if isinstance(told, bytes) else b"")
        if raw(name) != self.threads or found is None or found.thread_id != thread_id:
            raise not_of(row.table, None if found is None else found.thread_id, thread_id)
        if found.name != self.timeline(thread_id, found.checkpoint_ns).name:
            raise Refused(f"a row of '{row.table}' names the key of another thread")
        namespace_of(row, found.checkpoint_ns)

    def also(self, rows: Sequence[Row]) -> Iterator[Command]:
        """Raise the counter, so that later checkpoints come after the restored ones."""
        scores = [
            float(cell)
            for row in rows
            if row.table == TIMELINE
            for name, cell in row.cells.items()
            if name.startswith(MEMBER) and isinstance(cell, str)
        ]
        if not scores:
            return
        missing = math.ceil(max(scores)) - int(self.connection.ask("GET", self.seq) or 0)
        if missing > 0:
            # INCRBY is safe even if savers use the counter at the same time. If it comes several
            # times in a transaction, the numbers between are not used, which is harmless.
            yield ("INCRBY", self.seq, missing)


def timeline_of(name: bytes, told: bytes) -> NamespaceEntries | None:
    """The timeline of an entry in the registry; None if the entry has another form."""
    with suppress(ValueError, RecursionError):
        match json.loads(told):
            case {"thread": str() | int() as thread, "ns": str(ns)}:
                found = NamespaceEntries(str(thread), ns, name)
                return found if name.endswith(b":idx:" + found.suffix) else None
    return None


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


def _apart(name: bytes, thread_id: str, ns: str, channel: str, version: str) -> ApartEntry:
    return ApartEntry(name, thread_id, BlobKey(ns, channel, version))


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


# Reads the separate values of langgraph-checkpoint-plainredis.


EMPTY = "empty"
"""Type of the entry for a channel without a value."""
_SMALL, _KEPT = 4096, 10_000
"""Values up to `_SMALL` bytes are read together and cached for the next checkpoints that have them.
The cache is cleared when it has more than `_KEPT` values."""


class SeparateValues:
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
            if is_read(channel, self._wanted) and 0 < self._heads[name][2] <= _SMALL
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
            if not is_read(channel, self._wanted):
                found[channel] = Blob(tag, size)
            elif length > MOST_BYTES:
                found[channel] = Blob(tag, size, unread("", length))
            elif answer := self._small.get(name) or self._connection.ask("GET", name):
                value = unwrapped(answer)
                found[channel] = Blob(value.type, len(value.data), value)
        return found

    def missing(self, names: Mapping[str, bytes]) -> frozenset[str]:
        """The channels of a checkpoint that have no entry, not even that of an empty channel."""
        return frozenset(channel for channel, name in names.items() if not self._heads[name][2])


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


def own_field(row: Row) -> bytes:
    """The field that a row contains; `b""` if it contains a whole key."""
    return raw(field_of(row)) if row.table in _BY_FIELD else b""


def _read(item: _Item) -> Command:
    kind, name, own = item
    if kind in _BY_FIELD:
        return ("HGET", name, own)
    return ("ZRANGE", name, 0, -1, "WITHSCORES") if kind == TIMELINE else ("GET", name)


def _beginnings(rest: str) -> set[str]:
    """The namespaces that NS:CHANNEL:VERSION may begin with."""
    return {rest[: found.start()] for found in re.finditer(":", rest)}


class PlainRecogniser(Recogniser):
    """Finds the stores of langgraph-checkpoint-plainredis by their registries."""

    rank = 3
    layouts = ("redis-plain",)

    def named(self, layout: str, prefix: str | None, write_prefix: str | None) -> RecognisedStore:  # noqa: ARG002
        return self._store((prefix or USUAL_PREFIX).rstrip(":"))

    def _store(self, prefix: str) -> RecognisedStore:
        return RecognisedStore(
            "redis-plain",
            lambda: Plain(self.connection, prefix),
            prefix,
            None,
            prefix == USUAL_PREFIX,
        )

    def is_certain(self, layout: str) -> bool:  # noqa: ARG002
        return self.database.prefix is not None

    def stores(self) -> list[RecognisedStore]:
        if self.database.write_prefix is None and self._has_threads(self._prefix):
            return [self._store(self._prefix)]
        return []

    def stores_if_alone(self) -> list[RecognisedStore]:
        """A store without threads has a counter. Also search all prefixes, if none is named."""
        names = (raw(f"{self._prefix}:threads"), raw(f"{self._prefix}:seq"))
        kinds = list(self.connection.ask_all(("TYPE", name) for name in names))
        if self.database.write_prefix is None and kinds == [b"none", b"string"]:
            return [self._store(self._prefix)]
        if self.database.prefix is not None:
            return []
        end = b":threads"
        found = {
            text(name.removesuffix(end))
            for names in self.connection.scan(b"*" + end, HASH)
            for name in names
        }
        return [self._store(one) for one in sorted(found) if self._has_threads(one)]

    @property
    def _prefix(self) -> str:
        asked = self.database.prefix
        return USUAL_PREFIX if asked is None else asked.rstrip(":")

    def _has_threads(self, prefix: str) -> bool:
        registry = raw(f"{prefix}:threads")
        if self.connection.ask("TYPE", registry) != b"hash":
            return False
        pattern = literally(f"{prefix}:idx:") + b"*"
        return any(self.connection.turns("HSCAN", [registry], ["MATCH", pattern, "COUNT", 1000]))

    def expected(self, prefix: str | None) -> str:
        return f"{prefix or USUAL_PREFIX}:threads"
