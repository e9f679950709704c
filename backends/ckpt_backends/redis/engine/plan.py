"""Plans a change for layouts in which each checkpoint and each write is a key."""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Generic

from ckpt_backends.changes import Change, CopyOfCheckpoint, moved
from ckpt_backends.model import CheckpointKey, TypedBytes, Write
from ckpt_backends.records import new_checkpoints, new_writes
from ckpt_backends.redis.engine.commands import NO_EXPIRY, CommandPlan, copied_from, expiring
from ckpt_backends.redis.engine.connection import Command
from ckpt_backends.redis.engine.documents import JsonDocuments
from ckpt_backends.redis.engine.keyspace import CheckpointEntry, ThreadKeys
from ckpt_backends.redis.engine.layout import LayoutT
from ckpt_backends.transfer.parts import CheckpointPart, WritePart


@dataclass(frozen=True, slots=True)
class AddedWrite:
    """A write that a change adds."""

    name: bytes
    copied: bytes | None = None
    """The key of the original if it is a copy; otherwise None."""
    source: CheckpointKey | None = None
    """The checkpoint of the original."""


class KeyPlan(CommandPlan, Generic[LayoutT]):
    """A change as commands. Subclasses create those that depend on the form of the keys."""

    def __init__(self, layout: LayoutT, change: Change) -> None:
        super().__init__(layout.connection, change)
        self._layout = layout
        self._found = self._keys(change.thread_id)
        self._sources: dict[str, ThreadKeys] = {change.thread_id: self._found}
        self._new: dict[CheckpointKey, list[AddedWrite]] = {}

    @abstractmethod
    def write_name(self, key: CheckpointKey, task_id: str, idx: int) -> bytes:
        """The key of a write."""

    @abstractmethod
    def add(self, part: CheckpointPart, origin: bytes | None, writes: int) -> Iterator[Command]:
        """Add a checkpoint. `origin` is the key of the checkpoint that it is a copy of, or None."""

    @abstractmethod
    def add_write(self, part: WritePart) -> Iterator[Command]:
        """Add a write."""

    @abstractmethod
    def change_copy(
        self, key: CheckpointKey, metadata: TypedBytes | None, body: TypedBytes | None, writes: int
    ) -> Iterator[Command]:
        """Adapt a copied checkpoint to its new key."""

    def change_copied_write(self, name: bytes, key: CheckpointKey) -> Iterator[Command]:  # noqa: ARG002
        """Adapt a copied write to its new key."""
        yield from ()

    def values(self) -> Iterator[Command]:
        """Remove, copy and add separate values."""
        yield from ()

    def register(
        self,
        key: CheckpointKey,  # noqa: ARG002
        added: Sequence[AddedWrite],  # noqa: ARG002
        expiry: int,  # noqa: ARG002
    ) -> Iterator[Command]:
        """Add writes to the saver's list of a checkpoint's writes."""
        yield from ()

    def remove(self, key: CheckpointKey, writes: Sequence[bytes]) -> Iterator[Command]:
        """Remove a checkpoint with its writes."""
        yield ("UNLINK", self._layout.checkpoint_name(key), *writes)

    def point(self, key: CheckpointKey, expiry: int, *, there: bool) -> Iterator[Command]:  # noqa: ARG002
        """Point to this checkpoint as the head of its namespace, or remove the pointer.

        `there` tells whether the namespace still has checkpoints.
        """
        yield from ()

    def _keys(self, thread_id: str) -> ThreadKeys:
        return self._layout.find([thread_id])[thread_id]

    def _places(self) -> Iterable[CheckpointEntry]:
        return self._keys(self._change.thread_id).places.values()

    def commands(self) -> Iterator[Command]:
        change = self._change
        for key, number in (change.removed or {}).items():
            names = [self.write_name(key, one.task_id, one.idx) for one in self._stored_writes(key)]
            if len(names) != number:
                raise moved(change.thread_id)
            self._need(self._layout.checkpoint_name(key), key)
            self._needed.update(names)
            yield from self.remove(key, names)
        yield from self.values()
        for copy in change.copies:
            yield from self._copy(copy)
        for one in new_checkpoints(change):
            name = self._make(self._layout.checkpoint_name(one.key))
            origin = self._origin(one)
            yield from self.add(one, origin, self._writes_to_come(one.key))
            yield from expiring(name, NO_EXPIRY if origin is None else self._left(origin))
        for write in new_writes(change):
            name = self._make(self.write_name(write.key, write.task_id, write.idx))
            yield from self.add_write(write)
            yield from expiring(name, self._expiry_of_new(write.key))
            self._new.setdefault(write.key, []).append(AddedWrite(name))
        for some in change.copies_of_writes:
            for task_id, idx in some.tasks:
                yield from self._copy_write(some.source, some.target, task_id, idx)
        for key, added in self._new.items():
            yield from self.register(key, added, self._expiry_of_new(key))
        yield from self._point()

    def _copy(self, copy: CopyOfCheckpoint) -> Iterator[Command]:
        source = copy.source
        target = source._replace(thread_id=self._change.thread_id)
        old = self._need(self._layout.checkpoint_name(source), source)
        yield ("COPY", old, self._make(self._layout.checkpoint_name(target)))
        tasks = copy.writes
        if tasks is None:
            tasks = tuple((one.task_id, one.idx) for one in self._stored_writes(source))
        yield from self.change_copy(target, copy.metadata, copy.body, len(tasks))
        for task_id, idx in tasks:
            yield from self._copy_write(source, target, task_id, idx)

    def _copy_write(
        self, source: CheckpointKey, target: CheckpointKey, task_id: str, idx: int
    ) -> Iterator[Command]:
        old = self._need(self.write_name(source, task_id, idx), source)
        new = self._make(self.write_name(target, task_id, idx))
        yield ("COPY", old, new)
        yield from self.change_copied_write(new, target)
        self._new.setdefault(target, []).append(AddedWrite(new, old, source))

    def _origin(self, one: CheckpointPart) -> bytes | None:
        """The key of the checkpoint that a new one is a copy of; None if it is not a copy."""
        found = self._found.places.get((one.key.checkpoint_ns, copied_from(one) or ""))
        return None if found is None else found.name

    def _expiry_of_new(self, key: CheckpointKey) -> int:
        """The time to live for a new checkpoint and its writes: that of its original."""
        for one in new_checkpoints(self._change):
            if one.key == key and (origin := self._origin(one)) is not None:
                return self._left(origin)
        for copy in self._change.copies:
            if copy.source._replace(thread_id=key.thread_id) == key:
                return self._left(self._layout.checkpoint_name(copy.source))
        return NO_EXPIRY

    def _writes_to_come(self, key: CheckpointKey) -> int:
        copied = sum(len(one.tasks) for one in self._change.copies_of_writes if one.target == key)
        return copied + sum(one.key == key for one in self._change.writes)

    def _stored_writes(self, key: CheckpointKey) -> list[Write]:
        found = self._sources.get(key.thread_id)
        if found is None:
            found = self._sources[key.thread_id] = self._keys(key.thread_id)
        places = [one for one in found.writes if one.checkpoint_id == key.checkpoint_id]
        return [one for one in self._layout.writes(places, False) if one.key == key]

    def _point(self) -> Iterator[Command]:
        """Make the greatest checkpoint after the change the head of its namespace."""
        change, removed = self._change, self._change.removed or {}
        left = {place.key for place in self._found.places.values()} - removed.keys()
        new = [one.key for one in change.checkpoints]
        new += [one.source._replace(thread_id=change.thread_id) for one in change.copies]
        touched = {key.checkpoint_ns: key for key in (*removed, *new)}
        for ns, any_key in touched.items():
            here = [key for key in (*left, *new) if key.checkpoint_ns == ns]
            if not here:
                yield from self.point(any_key, NO_EXPIRY, there=False)
                continue
            head = max(here)
            name = self._layout.checkpoint_name(head)
            expiry = self._expiry_of_new(head) if head in new else self._left(name)
            yield from self.point(head, expiry, there=True)


# Plans changes of JSON documents: what the savers of Python and JavaScript share.


class JsonPlan(KeyPlan[JsonDocuments]):
    """A change of documents, and of the list of each checkpoint's writes."""

    @abstractmethod
    def flag(self, writes: int) -> bool | str:
        """The field `has_writes` of a checkpoint with so many writes."""

    @abstractmethod
    def score(self, number: int, one: AddedWrite) -> bytes | int:
        """The place of a write in the list of its checkpoint; `number` is its place here."""

    @abstractmethod
    def metadata(self, metadata: TypedBytes) -> bytes | str:
        """Metadata as JSON for a document."""

    def write_name(self, key: CheckpointKey, task_id: str, idx: int) -> bytes:
        return self._layout.write_name(key, task_id, idx)

    def change_copy(
        self, key: CheckpointKey, metadata: TypedBytes | None, body: TypedBytes | None, writes: int
    ) -> Iterator[Command]:
        name = self._layout.checkpoint_name(key)
        thread = self._layout.stored_thread(key.thread_id)
        yield ("JSON.SET", name, "$.thread_id", json.dumps(thread))
        yield ("JSON.SET", name, "$.has_writes", json.dumps(self.flag(writes)))
        if metadata is not None:
            yield ("JSON.SET", name, "$.metadata", self.metadata(metadata))
        if body is not None:
            yield ("JSON.SET", name, "$.checkpoint", body.data)

    def change_copied_write(self, name: bytes, key: CheckpointKey) -> Iterator[Command]:
        thread = self._layout.stored_thread(key.thread_id)
        yield ("JSON.SET", name, "$.thread_id", json.dumps(thread))
        yield ("JSON.SET", name, "$.checkpoint_id", json.dumps(key.checkpoint_id))

    def register(
        self, key: CheckpointKey, added: Sequence[AddedWrite], expiry: int
    ) -> Iterator[Command]:
        listed = self._layout.lists(key)[0]
        for number, one in enumerate(added):
            yield ("ZADD", listed, self.score(number, one), one.name)
        yield from expiring(listed, expiry)

    def remove(self, key: CheckpointKey, writes: Sequence[bytes]) -> Iterator[Command]:
        listed = self._layout.lists(key)[0]
        yield ("UNLINK", self._layout.checkpoint_name(key), listed, *writes)
