"""Finds all keys of a thread of ValkeySaver, converts them to rows, and removes them.

The lists are removed first, so that the saver never finds an id without its checkpoint.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from redis import exceptions

from ckpt_backends.changes.rows import Row, not_of
from ckpt_backends.errors import Refused
from ckpt_backends.model import CheckpointKey
from ckpt_backends.redis.engine.archived_keys import namespace_of, parted, rest_of, row_name
from ckpt_backends.redis.engine.connection import Command
from ckpt_backends.redis.engine.key_removal import KeyRemoval
from ckpt_backends.redis.engine.keyspace import (
    CHECKPOINT,
    LIST,
    STRING,
    CheckpointKeys,
    KeysByCheckpoint,
    ThreadKeys,
    raw,
)
from ckpt_backends.redis.engine.layout import KeyFinder, Owner
from ckpt_backends.redis.engine.thread_removal import Step, unlink
from ckpt_backends.redis.valkey.contents import ValkeyContents, ValkeyThreadKeys
from ckpt_backends.redis.valkey.key_names import THREADS, WRITES, key_of
from ckpt_backends.redis.valkey.stored_values import stored_checkpoint


class ValkeyKeyFinder(KeyFinder[ValkeyContents]):
    """Finds the keys of threads in this layout."""

    types: Mapping[str, str] = {WRITES: STRING, CHECKPOINT: STRING, THREADS: LIST}

    def _keys_of(self, key: CheckpointKey, *, is_there: bool) -> CheckpointKeys:
        writes, checkpoint = self.layout.writes_name(key), self.layout.checkpoint_name(key)
        return CheckpointKeys(key, {WRITES: [writes], CHECKPOINT: [checkpoint]}, is_there)

    def _grouped(
        self, thread_id: str, found: ThreadKeys, owners: Iterable[Owner]
    ) -> KeysByCheckpoint:
        groups = self._groups(thread_id, found, owners)
        spaces = {ns: self.layout.list_name(thread_id, ns) for ns, _ in groups}
        if isinstance(found, ValkeyThreadKeys):
            spaces |= found.lists
        return KeysByCheckpoint(groups, {ns: {THREADS: [one]} for ns, one in spaces.items()})

    def named(self, some: Sequence[KeysByCheckpoint]) -> list[set[bytes]]:
        return list(map(self._listed, some))

    def _listed(self, keys: KeysByCheckpoint) -> set[bytes]:
        lists = [name for kinds in keys.shared.values() for name in kinds[THREADS]]
        return {
            raw(CHECKPOINT) + name.removeprefix(raw(THREADS)) + b":" + own
            for name, ids in zip(lists, self.layout.ids(lists), strict=True)
            for own in ids
        }

    def own_rows(self, thread_id: str, rows: Iterable[Row]) -> Iterator[Row]:
        for row in rows:
            name = row_name(row, self.types)
            start = f"{row.table}:{{{thread_id}}}:"
            if row.table == THREADS:
                ns = namespace_of(row, rest_of(row, name, start))
            else:
                ns, _ = parted(row, name, start)
            if "}:" in ns:
                raise Refused(f"a row of '{row.table}' may be the key of another thread: {name}")
            if row.table == CHECKPOINT and isinstance(cell := row.cells["value"], bytes):
                told = stored_checkpoint(cell).start.thread_id
                key = key_of(raw(name), told)
                if key is None or key.thread_id != thread_id:
                    raise not_of(row.table, told, thread_id)
            yield row


class ValkeyRemoval(KeyRemoval):
    """The removal of one thread, or of a part of it."""

    goes_together = False

    def _run_watched(self, pipe: Any, step: Step, rows: Counter[str]) -> None:
        known = {
            name: one.writes.count(name)
            for one in self.keys.heads.values()
            for name in one.names[WRITES]
        }
        if known:
            # All writes of a checkpoint share a key, so a new one adds no key.
            pipe.watch(*known)
            now = Counter(name for name, _, _ in self._layout.owners_of(list(known)))
            if now != Counter(known):
                raise exceptions.WatchError("a task went on")
        super()._run_watched(pipe, step, rows)

    def _lists_without(self, owners: Sequence[CheckpointKeys]) -> Iterator[tuple[str, Command]]:
        going: dict[str, set[bytes]] = {}
        for one in owners:
            if one.is_there:
                going.setdefault(one.key.checkpoint_ns, set()).add(raw(one.key.checkpoint_id))
        removed = {one.at for one in owners}
        left = {one.key.checkpoint_ns for one in self.keys.checkpoints if one.at not in removed}
        for ns, gone in going.items():
            names = self.keys.shared[ns][THREADS]
            if ns not in left:
                # The list may still contain the ids of expired checkpoints.
                yield unlink(THREADS, names)
                continue
            for name, ids in zip(names, self._layout.ids(names), strict=True):
                times = Counter(ids)
                # From the end: the oldest ids are there, and LREM stops after so many.
                yield from (("", ("LREM", name, -times[own], own)) for own in ids if own in gone)
