"""Plans changes of threads of langgraph-checkpoint-plainredis in the same form as its saver.

The timeline is watched, because a saver changes it with every checkpoint. The numbers in a timeline
come from a counter that all threads share. They are taken last and, as in the saver, outside of the
transaction. An unused number leaves a harmless gap.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ckpt_backends.apps.plainredis.contents import PlainContents
from ckpt_backends.apps.plainredis.stored_values import (
    stored_checkpoint,
    unwrapped,
    wrapped,
    wrapped_checkpoint,
    wrapped_write,
)
from ckpt_backends.apps.plainredis.timelines import NamespaceEntries
from ckpt_backends.changes.change import Change, CopyOfCheckpoint, gone, moved
from ckpt_backends.model import BlobKey, Checkpoint, CheckpointKey, TypedBytes, Write
from ckpt_backends.redis.engine.command_plan import NO_EXPIRY, CommandPlan, copied_from, expiring
from ckpt_backends.redis.engine.connection import Command
from ckpt_backends.redis.engine.keyspace import CheckpointEntry, raw


@dataclass(frozen=True, slots=True)
class _Added:
    """A checkpoint to add to a timeline."""

    rank: float
    """Its position among the checkpoints that are added together."""
    timeline: NamespaceEntries
    checkpoint_id: str
    expiry: int
    """Time to live in milliseconds for the timeline, if the timeline is new."""


class PlainPlan(CommandPlan):
    """The plan of a change for the layout `redis-plain`."""

    def __init__(self, layout: PlainContents, change: Change) -> None:
        super().__init__(layout.connection, change)
        self._layout = layout
        thread_id = change.thread_id
        self._known = layout.places([thread_id])[thread_id]
        self._added: list[_Added] = []
        self.watched = [layout.timeline(thread_id, ns).name for ns in sorted(change.heads) or [""]]
        self.beside = [layout.threads, layout.seq]

    def _places(self) -> Iterable[CheckpointEntry]:
        thread_id = self._change.thread_id
        return self._layout.places([thread_id])[thread_id].values()

    def commands(self) -> Iterator[Command]:
        yield from self._removals()
        for blob in self._change.blobs:
            key = BlobKey(blob.checkpoint_ns, blob.channel, blob.version)
            name = self._make(self._layout.blob_name(self._change.thread_id, key))
            yield ("SET", name, wrapped(blob.value))
            yield from expiring(name, self._expiry_of_blob(key.checkpoint_ns))
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
                raise moved(self._change)
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
            names += [one.name for one in found.blob_places]
        self._removed = set(names)
        if names:
            yield ("UNLINK", *dict.fromkeys(names))

    # Additions

    def _add(self, one: Checkpoint) -> Iterator[Command]:
        body, metadata = one.body, one.metadata
        assert body is not None  # noqa: S101
        assert metadata is not None  # noqa: S101
        expiry = self._expiry_of(one.key)
        name = self._make(self._layout.checkpoint_name(one.key))
        yield ("SET", name, wrapped_checkpoint(body, metadata, one.parent_checkpoint_id))
        yield from expiring(name, expiry)
        self._come(one.key, expiry, float(len(self._added)))

    def _come(self, key: CheckpointKey, expiry: int, rank: float) -> None:
        timeline = self._layout.timeline(key.thread_id, key.checkpoint_ns)
        self._added.append(_Added(rank, timeline, key.checkpoint_id, expiry))

    def _write(self, write: Write) -> Iterator[Command]:
        name = self._make(self._layout.writes_name(write.key))
        value = write.value or TypedBytes("null", b"")
        own = raw(f"{write.task_id}:{write.idx}")
        yield ("HSET", name, own, wrapped_write(write.task_id, write.channel, value))
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
