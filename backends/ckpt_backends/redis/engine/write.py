"""Changes a thread in Redis, with one transaction for each change.

The transaction watches the keys that the plan was computed from. If a saver changes one of them
first, nothing is written. The names of new checkpoints are not known and cannot be watched, so they
are searched for right before the transaction.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Protocol

from redis import exceptions

from ckpt_backends.apps.plainredis.layout import Plain
from ckpt_backends.apps.plainredis.removing import remove_plain_threads
from ckpt_backends.apps.plainredis.thread_keys import PlainOwning
from ckpt_backends.apps.plainredis.write import PlainPlan
from ckpt_backends.base import BaseWritableStore
from ckpt_backends.changes.change import Change, CopyOfCheckpoint, gone, moved
from ckpt_backends.changes.removal import Removal, Removed
from ckpt_backends.changes.rows import Restored, Row
from ckpt_backends.errors import PartlyDone, StoreUnavailable, Unsupported
from ckpt_backends.model import Capability, Checkpoint, CheckpointKey, TypedBytes, Write
from ckpt_backends.redis.engine.command_plan import NO_EXPIRY, CommandPlan, copied_from, heads_of
from ckpt_backends.redis.engine.connect import Command, RedisConnection, keys_of
from ckpt_backends.redis.engine.driver_errors import unavailable
from ckpt_backends.redis.engine.keyspace import Added, Layout, ThreadKeys
from ckpt_backends.redis.engine.removing import remove_threads
from ckpt_backends.redis.engine.restoring import restore_rows
from ckpt_backends.redis.engine.thread_keys import Owning
from ckpt_backends.redis.hashes.layout import Hashes
from ckpt_backends.redis.hashes.write import HashWriter
from ckpt_backends.redis.javascript.documents import JavaScriptDocuments
from ckpt_backends.redis.javascript.write import JavaScriptWriter
from ckpt_backends.redis.official.documents import Documents
from ckpt_backends.redis.official.write import DocumentWriter
from ckpt_backends.url import StoreUrl


class Writer(Protocol):
    """Creates the commands that change one layout. The caller watches the keys that they name."""

    def checkpoint_name(self, key: CheckpointKey) -> bytes:
        """The key of a checkpoint."""
        ...

    def write_name(self, key: CheckpointKey, task_id: str, idx: int) -> bytes:
        """The key of a write."""
        ...

    def watched(self, thread_id: str, heads: Mapping[str, str]) -> list[bytes]:
        """The keys that a saver changes when it adds a checkpoint to a thread with these heads."""
        ...

    def add(self, one: Checkpoint, origin: bytes | None, writes: int) -> Iterator[Command]:
        """Add a checkpoint. `origin` is the key of the checkpoint that it is a copy of, or None."""
        ...

    def add_write(self, write: Write) -> Iterator[Command]: ...

    def change_copy(
        self, key: CheckpointKey, metadata: TypedBytes | None, body: TypedBytes | None, writes: int
    ) -> Iterator[Command]:
        """Adapt a copied checkpoint to its new key."""
        ...

    def change_copied_write(self, name: bytes, key: CheckpointKey) -> Iterator[Command]:
        """Adapt a copied write to its new key."""
        ...

    def register(
        self, key: CheckpointKey, added: Sequence[Added], expiry: int
    ) -> Iterator[Command]:
        """Add writes to the saver's list of a checkpoint's writes."""
        ...

    def remove(self, key: CheckpointKey, writes: Sequence[bytes]) -> Iterator[Command]: ...

    def point(self, key: CheckpointKey, expiry: int, *, there: bool) -> Iterator[Command]:
        """Point to this checkpoint as the head of its namespace, or remove the pointer.

        `there` tells whether the namespace still has checkpoints.
        """
        ...


@contextmanager
def explained_change(url: StoreUrl, outcome: str) -> Iterator[None]:
    """Turn the driver's errors into `StoreUnavailable`, with `outcome` in the message."""
    try:
        yield
    except exceptions.WatchError:
        raise
    except (exceptions.RedisError, exceptions.RedisClusterException, OSError) as error:
        raise _refused(url, error, outcome) from None


def _refused(url: StoreUrl, error: Exception, outcome: str) -> StoreUnavailable:
    text = str(error)
    reason, hint = None, None
    if isinstance(error, exceptions.ReadOnlyError) or "READONLY" in text:
        reason, hint = "the server is a read-only replica", "use the URL of its primary"
    elif isinstance(error, exceptions.NoPermissionError):
        reason = "permission denied"
        hint = "a change needs +@write, +@transaction, and the module's commands for documents"
    elif isinstance(error, exceptions.OutOfMemoryError) or "OOM" in text:
        reason = "the server is out of memory"
    elif "EXECABORT" in text or isinstance(error, exceptions.ExecAbortError):
        reason = "the server refused the transaction"
    if reason is not None:
        return StoreUnavailable(f"cannot write to '{url}': {reason}; {outcome}", hint=hint)
    found = unavailable(url, error)
    found.message = f"{found.message}; it is unknown whether anything was written"
    return found


class WritableRedisStore(BaseWritableStore):
    """A Redis database, opened for changing."""

    def __init__(self, connection: RedisConnection, url: StoreUrl, layout: Layout) -> None:
        self._connection = connection
        self._url = url
        self._layout = layout

    def apply(self, change: Change) -> None:
        if Capability.ADDING not in self._layout.capabilities:
            raise Unsupported(
                f"'{self._url}' keeps no history, so no checkpoint can be added",
                hint="it stores only the newest checkpoint of each namespace",
            )
        try:
            with explained_change(self._url, "nothing was written"):
                answers = self._transaction(_plan(self._connection, self._layout, change))
        except exceptions.WatchError:
            raise moved(change) from None
        failed = [one for one in answers if isinstance(one, Exception)]
        if failed:
            raise PartlyDone(
                f"the server refused a part of the change of thread '{change.thread_id}'",
                hint="Redis does not roll back a transaction; check the thread, then run ckpt undo",
            )

    def _transaction(self, plan: CommandPlan) -> Sequence[object]:
        commands: list[Command] = []
        if not plan.watched:
            commands += plan.commands()
        with self._connection.transaction(plan.watched or plan.touched) as pipe:
            _watch(pipe, plan.watched)
            commands = commands or list(plan.commands())
            named = [name for command in commands for name in keys_of(command)]
            self._connection.check_together([*plan.watched, *plan.touched, *plan.beside, *named])
            _watch(pipe, plan.touched)
            plan.check()
            commands += plan.last()
            pipe.multi()
            for command in commands:
                pipe.execute_command(*command)
            found: Sequence[object] = pipe.execute(raise_on_error=False)
            return found

    def remove(self, removals: Sequence[Removal]) -> list[Removed]:
        with explained_change(self._url, "what is left is removed by the next run"):
            if isinstance(self._layout, Plain):
                return remove_plain_threads(self._connection, self._url, self._layout, removals)
            return remove_threads(self._connection, self._url, self._layout, removals)

    def restore(self, rows: Iterable[Row]) -> Restored:
        with explained_change(self._url, "nothing was restored"):
            if isinstance(self._layout, Plain):
                return restore_rows(
                    self._connection, PlainOwning(self._connection, self._layout), rows
                )
            return restore_rows(self._connection, Owning(self._connection, self._layout), rows)

    def vacuum(self) -> None:
        raise Unsupported(
            "Redis frees the memory of removed keys by itself",
            hint="leave --vacuum out; `redis-cli MEMORY PURGE` returns unused memory to the system",
        )

    def close(self) -> None:
        self._connection.close()


def _watch(pipe: Any, names: Sequence[bytes]) -> None:
    if names:
        pipe.watch(*names)


class _Plan:
    """The plan of a change for all layouts except `redis-plain`."""

    def __init__(
        self, connection: RedisConnection, layout: Layout, writer: Writer, change: Change
    ) -> None:
        self._connection = connection
        self._layout = layout
        self._writer = writer
        self._change = change
        self._found = _keys(layout, change.thread_id)
        self._sources: dict[str, ThreadKeys] = {change.thread_id: self._found}
        self._needed: set[bytes] = set()
        self._made: dict[bytes, CheckpointKey] = {}
        self._new: dict[CheckpointKey, list[Added]] = {}
        self.watched = writer.watched(change.thread_id, change.heads)

    @property
    def touched(self) -> list[bytes]:
        """Keys that are read or created."""
        return sorted({*self._needed, *self._made})

    def check(self) -> None:
        """Raise `StoreChanged` if the thread changed since the change was planned."""
        places = _keys(self._layout, self._change.thread_id).places.values()
        if heads_of(places) != dict(self._change.heads):
            raise moved(self._change)
        names = sorted(self._made)
        if any(self._connection.ask_all(("EXISTS", name) for name in names)):
            raise moved(self._change)
        needed = sorted(self._needed)
        there = self._connection.ask_all(("EXISTS", name) for name in needed)
        if not all(there):
            raise moved(self._change)

    beside: Sequence[bytes] = ()

    def last(self) -> Iterator[Command]:
        yield from ()

    def commands(self) -> Iterator[Command]:
        change, writer = self._change, self._writer
        for key, number in (change.removed or {}).items():
            names = self._writes_of(key)
            if len(names) != number:
                raise moved(change)
            self._need(writer.checkpoint_name(key), key)
            self._needed.update(names)
            yield from writer.remove(key, names)
        if isinstance(writer, JavaScriptWriter):
            yield from self._blobs(writer)
        for copy in change.copies:
            yield from self._copy(copy)
        for one in change.checkpoints:
            name = writer.checkpoint_name(one.key)
            self._made[name] = one.key
            origin = self._origin(one)
            yield from writer.add(one, origin, self._writes_to_come(one.key))
            if origin is not None and (expiry := self._expiry(origin)) >= 0:
                yield ("PEXPIRE", name, expiry)
        for write in change.writes:
            name = writer.write_name(write.key, write.task_id, write.idx)
            self._made[name] = write.key
            yield from writer.add_write(write)
            yield from self._as_long(name, write.key)
            self._new.setdefault(write.key, []).append(Added(name))
        for some in change.copies_of_writes:
            for task_id, idx in some.tasks:
                yield from self._copy_write(some.source, some.target, task_id, idx)
        for key, added in self._new.items():
            yield from writer.register(key, added, self._expiry_of_new(key))
        yield from self._point()

    def _blobs(self, writer: JavaScriptWriter) -> Iterator[Command]:
        """Remove, copy and add separate values."""
        change, thread_id = self._change, self._change.thread_id
        removed = {writer.blob_name(thread_id, *place) for place in change.removed_blobs}
        gone_with = (change.removed or {}).keys()
        if gone_with and all(one.key in gone_with for one in self._found.places.values()):
            of_thread = self._layout.blobs(self._found)
            removed.update(name for name, own, _, _ in of_thread if own == thread_id)
        if removed:
            yield ("UNLINK", *sorted(removed))
        for source, old, new in writer.values_of(change.copies, thread_id):
            self._need(old, source)
            self._made[new] = source
            yield ("COPY", old, new)
            yield ("JSON.SET", new, "$.thread_id", json.dumps(thread_id))
        for blob in change.blobs:
            if blob.value.type == "empty":
                continue  # A channel without a value has no key.
            owner = writer.owner_of(blob, change)
            name = writer.blob_name(thread_id, blob.checkpoint_ns, blob.channel, blob.version)
            if name not in removed:
                self._made[name] = owner
            yield from writer.add_blob(name, owner, blob)
            yield from self._as_long(name, owner)

    def _copy(self, copy: CopyOfCheckpoint) -> Iterator[Command]:
        source = copy.source
        target = replace(source, thread_id=self._change.thread_id)
        old, new = self._writer.checkpoint_name(source), self._writer.checkpoint_name(target)
        self._need(old, source)
        self._made[new] = target
        yield ("COPY", old, new)
        tasks = copy.writes
        if tasks is None:
            tasks = tuple((one.task_id, one.idx) for one in self._stored_writes(source))
        yield from self._writer.change_copy(target, copy.metadata, copy.body, len(tasks))
        for task_id, idx in tasks:
            yield from self._copy_write(source, target, task_id, idx)

    def _copy_write(
        self, source: CheckpointKey, target: CheckpointKey, task_id: str, idx: int
    ) -> Iterator[Command]:
        old = self._writer.write_name(source, task_id, idx)
        new = self._writer.write_name(target, task_id, idx)
        self._need(old, source)
        self._made[new] = target
        yield ("COPY", old, new)
        yield from self._writer.change_copied_write(new, target)
        self._new.setdefault(target, []).append(Added(new, old, source))

    def _need(self, name: bytes, key: CheckpointKey) -> None:
        if not self._connection.ask("EXISTS", name):
            raise gone(key)
        self._needed.add(name)

    def _origin(self, one: Checkpoint) -> bytes | None:
        """The key of the checkpoint that a new one is a copy of; None if it is not a copy."""
        known = self._found.places
        copied = copied_from(one)
        ns = one.key.checkpoint_ns
        if copied is not None and (ns, copied) in known:
            return known[ns, copied].name
        return None

    def _as_long(self, name: bytes, key: CheckpointKey) -> Iterator[Command]:
        """Let a new key expire at the same time as its checkpoint."""
        if (expiry := self._expiry_of_new(key)) >= 0:
            yield ("PEXPIRE", name, expiry)

    def _expiry_of_new(self, key: CheckpointKey) -> int:
        for one in self._change.checkpoints:
            if one.key == key and (origin := self._origin(one)) is not None:
                return self._expiry(origin)
        for copy in self._change.copies:
            if copy.source.checkpoint_id == key.checkpoint_id and (
                copy.source.checkpoint_ns == key.checkpoint_ns
            ):
                return self._expiry(self._writer.checkpoint_name(copy.source))
        return NO_EXPIRY

    def _expiry(self, name: bytes) -> int:
        """The remaining time to live in milliseconds; negative if the key does not expire."""
        return int(self._connection.ask("PTTL", name))

    def _writes_to_come(self, key: CheckpointKey) -> int:
        copied = sum(len(one.tasks) for one in self._change.copies_of_writes if one.target == key)
        return copied + sum(one.key == key for one in self._change.writes)

    def _writes_of(self, key: CheckpointKey) -> list[bytes]:
        return [
            self._writer.write_name(key, one.task_id, one.idx) for one in self._stored_writes(key)
        ]

    def _stored_writes(self, key: CheckpointKey) -> list[Write]:
        found = self._sources.get(key.thread_id)
        if found is None:
            found = self._sources[key.thread_id] = _keys(self._layout, key.thread_id)
        places = [one for one in found.writes if one.checkpoint_id == key.checkpoint_id]
        return [one for one in self._layout.writes(places, False) if one.key == key]

    def _point(self) -> Iterator[Command]:
        """Make the greatest checkpoint after the change the head of its namespace."""
        left = {place.key for place in self._found.places.values()}
        left -= (self._change.removed or {}).keys()
        checkpoints = {self._writer.checkpoint_name(one): one for one in left}
        new = [one.key for one in self._change.checkpoints]
        new += [
            CheckpointKey(
                self._change.thread_id, one.source.checkpoint_ns, one.source.checkpoint_id
            )
            for one in self._change.copies
        ]
        touched = {key.checkpoint_ns: key for key in (*(self._change.removed or {}), *new)}
        for ns, any_key in touched.items():
            here = [key for key in (*checkpoints.values(), *new) if key.checkpoint_ns == ns]
            if not here:
                yield from self._writer.point(any_key, NO_EXPIRY, there=False)
                continue
            head = max(here)
            expiry = (
                self._expiry_of_new(head)
                if head in new
                else self._expiry(self._writer.checkpoint_name(head))
            )
            yield from self._writer.point(head, expiry, there=True)


def _keys(layout: Layout, thread_id: str) -> ThreadKeys:
    return layout.find([thread_id])[thread_id]


def _plan(connection: RedisConnection, layout: Layout, change: Change) -> CommandPlan:
    if isinstance(layout, Plain):
        return PlainPlan(connection, layout, change)
    return _Plan(connection, layout, _writer(connection, layout), change)


def _writer(connection: RedisConnection, layout: Layout) -> Writer:
    if isinstance(layout, JavaScriptDocuments):
        return JavaScriptWriter(connection, layout)
    if isinstance(layout, Documents):
        return DocumentWriter(connection, layout)
    if isinstance(layout, Hashes):
        return HashWriter(layout)
    raise Unsupported(f"layout '{layout.name}' is read-only")
