"""Plans changes of threads of ValkeySaver in the same form as the saver.

The lists, and all keys that are copied or removed, are watched before they are read: a saver
changes the list with each checkpoint, and rewrites all writes of a checkpoint with each task.

A new checkpoint and its writes get the remaining time of the list, because the saver finds no
thread if the first checkpoint of its list has expired.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from ckpt_backends.changes.change import Change, CopyOfCheckpoint, gone, moved
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import Checkpoint, CheckpointKey
from ckpt_backends.redis.engine.command_plan import NO_EXPIRY, CommandPlan, copied_from, expiring
from ckpt_backends.redis.engine.connection import Command
from ckpt_backends.redis.engine.keyspace import CheckpointEntry, raw
from ckpt_backends.redis.valkey.contents import ValkeyContents
from ckpt_backends.redis.valkey.stored_values import (
    WriteRecord,
    checkpoint_text,
    stored_checkpoint,
    stored_writes,
    write_fields,
    writes_text,
)

_GONE = -2
"""The answer of PTTL for a missing key."""


class ValkeyPlan(CommandPlan):
    """The plan of a change for the layout `valkey`."""

    def __init__(self, layout: ValkeyContents, change: Change) -> None:
        super().__init__(layout.connection, change)
        self._layout = layout
        self._expiries: dict[CheckpointKey, int] = {}
        """The times to live of the new checkpoints, in milliseconds."""
        new = [one.source._replace(thread_id=change.thread_id) for one in change.copies]
        new += [one.key for one in change.checkpoints]
        read = [*(change.removed or ()), *change.relied_on]
        read += [one.source for one in change.copies]
        read += [some.source for some in change.copies_of_writes]
        spaces = {*change.heads, *(one.checkpoint_ns for one in (*new, *read))} or {""}
        self.watched = [
            *(layout.list_name(change.thread_id, ns) for ns in sorted(spaces)),
            *(layout.checkpoint_name(one) for one in dict.fromkeys(read)),
            *(layout.writes_name(one) for one in dict.fromkeys(read)),
        ]

    def _places(self) -> Iterable[CheckpointEntry]:
        thread_id = self._change.thread_id
        return self._layout.find([thread_id])[thread_id].places.values()

    def commands(self) -> Iterator[Command]:
        change = self._change
        for key in change.relied_on:
            self._need(self._layout.checkpoint_name(key), key)
        yield from self._removals()
        writes: dict[CheckpointKey, list[Any]] = {}
        for copy in self._in_order(change.copies):
            target = copy.source._replace(thread_id=change.thread_id)
            yield from self._copy(copy, target)
            found = self._stored_writes(copy.source)
            writes[target] = [one.fields for one in _chosen(copy.source, found, copy.writes)]
        for one in change.checkpoints:
            yield from self._add(one)
        for write in change.writes:
            writes.setdefault(write.key, []).append(write_fields(write))
        for some in change.copies_of_writes:
            found = _chosen(some.source, self._stored_writes(some.source), some.tasks)
            writes.setdefault(some.target, []).extend(one.fields for one in found)
        for key, elements in writes.items():
            if elements:
                name = self._make(self._layout.writes_name(key))
                yield ("SET", name, writes_text(elements))
                yield from expiring(name, self._expiry_of(key))
        yield from self._lists()

    # Removals

    def _removals(self) -> Iterator[Command]:
        names: list[bytes] = []
        for key, number in (self._change.removed or {}).items():
            if len(self._stored_writes(key)) != number:
                raise moved(self._change)
            names += [self._need(self._layout.checkpoint_name(key), key)]
            names += [self._layout.writes_name(key)]
            listed = self._layout.list_name(key.thread_id, key.checkpoint_ns)
            yield ("LREM", listed, 0, raw(key.checkpoint_id))
        self._removed = set(names)
        if names:
            yield ("UNLINK", *names)

    # Additions

    def _add(self, one: Checkpoint) -> Iterator[Command]:
        key = one.key
        fields: dict[str, Any] = {"thread_id": key.thread_id}
        fields["checkpoint_id"] = key.checkpoint_id
        fields["parent_checkpoint_id"] = one.parent_checkpoint_id
        origin = self._layout.checkpoint_name(
            key._replace(checkpoint_id=copied_from(one) or key.checkpoint_id)
        )
        left = self._left(self._layout.list_name(key.thread_id, key.checkpoint_ns))
        if left == _GONE:
            left = max(self._left(origin), NO_EXPIRY)
        name = self._make(self._layout.checkpoint_name(key))
        yield ("SET", name, checkpoint_text(fields, one.body, one.metadata))
        yield from self._come(key, name, left)

    def _copy(self, copy: CopyOfCheckpoint, target: CheckpointKey) -> Iterator[Command]:
        old = self._layout.checkpoint_name(copy.source)
        if not self._connection.number_of([old]) and any(self._layout.entries([old])):
            raise Unsupported(
                f"checkpoint '{copy.source.checkpoint_id}' has expired or was removed, so it cannot"
                " be copied",
                hint="copy an earlier checkpoint with `ckpt copy THREAD@CHECKPOINT --as NEW`",
            )
        self._need(old, copy.source)
        stored = stored_checkpoint(self._connection.ask("GET", old) or b"")
        if not stored.fields:
            raise Unsupported(
                f"checkpoint '{copy.source.checkpoint_id}' cannot be read, so it cannot be copied",
                hint="choose another checkpoint",
            )
        fields = {**stored.fields, "thread_id": target.thread_id}
        name = self._make(self._layout.checkpoint_name(target))
        yield ("SET", name, checkpoint_text(fields, copy.body, copy.metadata))
        yield from self._come(target, name, self._left(old))

    def _come(self, key: CheckpointKey, name: bytes, expiry: int) -> Iterator[Command]:
        self._expiries[key] = expiry
        yield from expiring(name, expiry)

    def _lists(self) -> Iterator[Command]:
        """Put the new checkpoints in front, as the saver does. A new list expires with them."""
        new: dict[bytes, list[CheckpointKey]] = {}
        for key in self._expiries:
            if self._change.heads.get(key.checkpoint_ns, "") > key.checkpoint_id:
                yield self._inserted(key)
                continue
            new.setdefault(self._layout.list_name(key.thread_id, key.checkpoint_ns), []).append(key)
        for name, keys in new.items():
            yield ("LPUSH", name, *(raw(one.checkpoint_id) for one in keys))
            expiries = [self._expiries[one] for one in keys]
            if self._left(name) == _GONE and min(expiries) >= 0:
                yield from expiring(name, max(expiries))

    def _inserted(self, key: CheckpointKey) -> Command:
        """Put a checkpoint that is older than the head behind all newer ones."""
        name = self._layout.list_name(key.thread_id, key.checkpoint_ns)
        own = raw(key.checkpoint_id)
        for one in self._connection.ask("LRANGE", name, 0, -1):
            if one < own:
                return ("LINSERT", name, "BEFORE", one, own)
        return ("RPUSH", name, own)

    # What is read

    def _expiry_of(self, key: CheckpointKey) -> int:
        """The time to live for new writes: that of their checkpoint."""
        known = self._expiries.get(key)
        return self._left(self._layout.checkpoint_name(key)) if known is None else known

    def _in_order(self, copies: Sequence[CopyOfCheckpoint]) -> list[CopyOfCheckpoint]:
        """The same copies, in the order in which the saver stored the originals."""
        names = [self._layout.checkpoint_name(one.source) for one in copies]
        ranks = {one.name: one.rank for one in self._layout.entries(names)}
        pairs = sorted(
            zip(names, copies, strict=True),
            key=lambda one: (ranks.get(one[0], 0.0), one[1].source.checkpoint_id),
        )
        return [copy for _, copy in pairs]

    def _stored_writes(self, key: CheckpointKey) -> list[WriteRecord]:
        (answer,) = self._connection.ask_all([("GET", self._layout.writes_name(key))])
        return stored_writes(answer) if answer else []


def _chosen(
    source: CheckpointKey, found: Sequence[WriteRecord], tasks: Sequence[tuple[str, int]] | None
) -> list[WriteRecord]:
    """The writes of these tasks; all if None. Raises `StoreChanged` if one is gone."""
    if tasks is not None:
        wanted = set(tasks)
        if wanted - {(one.task_id, one.idx) for one in found}:
            raise gone(source)
        found = [one for one in found if (one.task_id, one.idx) in wanted]
    if any(one.fields is None for one in found):
        raise Unsupported(
            f"the writes of checkpoint '{source.checkpoint_id}' cannot be read, so they cannot be"
            " copied",
            hint="choose another checkpoint",
        )
    return list(found)
