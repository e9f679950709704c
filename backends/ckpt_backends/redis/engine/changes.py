"""Plans changes, removes and receives threads in layouts with a key for each checkpoint and write.

`write` carries them out. A layout of another form derives from the classes of `layout`.
"""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, compress
from typing import Any, ClassVar, NamedTuple

from redis import exceptions

from ckpt_backends.changes import MOVED, Change, CopyOfCheckpoint, Inside, Removal, Removed, moved
from ckpt_backends.codec.json import measure
from ckpt_backends.errors import PartlyDone
from ckpt_backends.model import CheckpointKey, Record, TypedBytes, Write, in_chunks
from ckpt_backends.records import copied_from
from ckpt_backends.redis.engine.connection import (
    NAMES_AT_ONCE,
    Command,
    RedisConnection,
    Watch,
    keys_of,
)
from ckpt_backends.redis.engine.keyspace import APART, ZSET, CheckpointKeys, ThreadKeys, text
from ckpt_backends.redis.engine.layout import (
    KEYS_AT_ONCE,
    NO_EXPIRY,
    CommandPlan,
    LayoutT,
    NewDocument,
    PurgeLock,
    Reception,
    Step,
    ThreadRemoval,
    expiring,
    removed,
    run,
    run_together,
    unlink,
)
from ckpt_backends.transfer.form import CannotHold, NoEqualForm


@dataclass(frozen=True, slots=True)
class AddedWrite:
    """A write that a change adds."""

    name: bytes
    copied: bytes | None = None
    """The key of the original if it is a copy; otherwise None."""
    source: CheckpointKey | None = None
    """The checkpoint of the original."""


class KeyPlan(CommandPlan[LayoutT]):
    """A change as commands. Subclasses create those that depend on the form of the keys."""

    def __init__(self, layout: LayoutT, change: Change) -> None:
        super().__init__(layout, change)
        self._found = self._keys(change.thread_id)
        self._sources: dict[str, ThreadKeys] = {change.thread_id: self._found}
        self._new: dict[CheckpointKey, list[AddedWrite]] = {}

    @abstractmethod
    def write_name(self, key: CheckpointKey, task_id: str, idx: int) -> bytes:
        """The key of a write."""

    @abstractmethod
    def add(self, record: Record, origin: bytes | None, writes: int) -> Iterator[Command]:
        """Add a checkpoint. `origin` is the key of the checkpoint that it is a copy of, or None."""

    @abstractmethod
    def add_write(self, record: Record) -> Iterator[Command]:
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
        for one in change.checkpoints:
            name = self._make(self._layout.checkpoint_name(one.key))
            origin = self._origin(one)
            yield from self.add(one, origin, self._writes_to_come(one.key))
            yield from expiring(name, NO_EXPIRY if origin is None else self._left(origin))
        for write in change.writes:
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

    def _origin(self, one: Record) -> bytes | None:
        """The key of the checkpoint that a new one is a copy of; None if it is not a copy."""
        found = self._found.places.get((one.key.checkpoint_ns, copied_from(one) or ""))
        return None if found is None else found.name

    def _expiry_of_new(self, key: CheckpointKey) -> int:
        """The time to live for a new checkpoint and its writes: that of its original."""
        for one in self._change.checkpoints:
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


# The order of removal for layouts in which each checkpoint and each write is a key:
#
# * The pointers to the heads are removed first, the head of the root namespace last. So after an
#   interruption, the rest of the thread is still listed with the same status, and the next run
#   removes it in the same way.
# * If a part of a thread is removed, a checkpoint is removed after its parent and after the
#   subgraphs that it called. So no remaining checkpoint looks like the end of a branch.
# * Separate values are removed before the checkpoints of a whole thread, but after the checkpoints
#   if only a part of a thread is removed.
#
# The keys that an agent changes when it continues a thread are watched. Keys that it added between
# the reading of the thread and the WATCH are found through the watched keys, which name them.


class KeyRemoval(ThreadRemoval[LayoutT]):
    """The removal for layouts with pointers and lists that name other keys."""

    goes_together: ClassVar[bool] = True
    """Whether `are_unchanged` checks all that a removal depends on."""

    def _run_watched(self, pipe: Any, step: Step, rows: Counter[str]) -> None:
        if watched := self.watched:
            pipe.watch(*watched)
        if self.are_unchanged([self]) != [True]:
            raise exceptions.WatchError("something was added, or a head is gone")
        run(pipe, step, rows)

    @property
    def watched(self) -> list[bytes]:
        """The keys that an agent changes when it continues the thread."""
        keys = self.keys
        return [
            name
            for kinds in (*keys.shared.values(), *(one.names for one in keys.heads.values()))
            for names in kinds.values()
            for name in names
        ]

    def are_unchanged(self, some: Sequence[KeyRemoval[Any]]) -> list[bool]:
        """Whether each thread is as its keys were found. Its keys are watched already."""
        heads = [[head.key for head in one.keys.heads.values()] for one in some]
        named = self._layout.named_in([one.keys for one in some])
        for one, names in zip(some, named, strict=True):
            names.difference_update(name for _, name in one.keys.in_order())
        added = sorted(set().union(*named))
        exist = {name for name, there in zip(added, self._existing(added), strict=True) if there}
        stored = [self._layout.checkpoint_name(key) for keys in heads for key in keys]
        there = {place.key for place in self._layout.entries(stored)}
        return [
            names.isdisjoint(exist) and there.issuperset(keys)
            for names, keys in zip(named, heads, strict=True)
        ]

    def only_step(self, removal: Removal) -> Step | None:
        layout = self._layout
        # What no list names, an agent may have added while others were found for the transaction.
        waits = layout.lists_additions or not layout.is_indexed()
        if not (self.goes_together and waits and self.keys.checkpoints) or removal.inside:
            return None
        steps = self._steps(None) if self._is_as_planned(removal) else []
        if len(steps) != 1:
            return None
        names: dict[str, list[bytes]] = {}
        for kind, command in steps[0]:
            names.setdefault(kind, []).extend(keys_of(command))
        return [unlink(kind, some) for kind, some in names.items()]

    def _steps(self, inside: Inside | None) -> list[Step]:
        keys = self.keys
        owners = list(keys.groups.values())
        if inside is None:
            step = [
                unlink(kind, names)
                for kinds in keys.shared.values()
                for kind, names in kinds.items()
            ]
        else:
            named = {(ns, one) for ns, ids in inside.checkpoints.items() for one in ids}
            owners = [one for at, one in keys.groups.items() if at in named]
            step = list(self._lists_without(owners))
        groups = [owner.names for owner in sorted(owners, key=_order)]
        if inside is None:
            groups = [*({APART: [name]} for name in keys.blobs.values()), *groups]
        steps, number = [step], 0
        for names in groups:
            size = sum(map(len, names.values()))
            if number + size > KEYS_AT_ONCE and number:
                steps.append([])
                number = 0
            number += size
            steps[-1] += [unlink(kind, some) for kind, some in names.items() if some]
        return steps

    def _lists_without(self, owners: Sequence[CheckpointKeys]) -> Iterator[tuple[str, Command]]:
        """Commands that remove these checkpoints and their writes from pointers and lists."""
        going = {(one.key.checkpoint_ns, one.key.checkpoint_id) for one in owners}
        for ns, kinds in self.keys.shared.items():
            here = [one for one in self.keys.checkpoints if one.key.checkpoint_ns == ns]
            left = [one for one in here if (ns, one.key.checkpoint_id) not in going]
            head = self.keys.heads.get(ns)
            for kind, names in kinds.items():
                if self._layout.types[kind] == ZSET:
                    writes = [
                        name
                        for one in owners
                        if one.key.checkpoint_ns == ns
                        for name in one.names[self._layout.kind_of_writes]
                    ]
                    for name in names if writes else ():
                        if set(writes).issuperset(self._connection.ask("ZRANGE", name, 0, -1)):
                            yield unlink(kind, [name])
                        else:
                            yield "", ("ZREM", name, *writes)
                elif here and not left:
                    yield unlink(kind, names)
                elif head is not None and head in owners:
                    newest = self._layout.checkpoint_name(max(one.key for one in left))
                    for name in names:
                        yield "", ("SET", name, newest, "XX", "KEEPTTL")


def _order(owner: CheckpointKeys) -> tuple[bool, bool, str]:
    """The order of removal: orphaned writes, subgraphs, root namespace; each oldest first."""
    return owner.is_there, not owner.key.checkpoint_ns, owner.key.checkpoint_id


# Removes several threads with few keys in one transaction, which saves most of the waiting.


class _Part(NamedTuple):
    """A thread that is removed together with others."""

    removal: Removal
    thread: Any
    step: Step


def carry_out_all(
    connection: RedisConnection,
    lock: PurgeLock,
    removals: Sequence[Removal],
    threads: Iterable[ThreadRemoval[Any]],
) -> Iterator[Removed]:
    """Remove each thread, those with few keys in common transactions.

    On a cluster, each thread has a transaction of its own: a common one must not span its servers.
    """
    some: list[_Part] = []
    number = 0
    for removal, thread in zip(removals, threads, strict=True):
        step = None if connection.is_cluster else thread.only_step(removal)
        size = sum(len(command) for _, command in step or ())
        is_double = any(one.removal.thread_id == removal.thread_id for one in some)
        if some and (step is None or is_double or number + size > KEYS_AT_ONCE):
            yield from _together(connection, lock, some)
            some, number = [], 0
        if step is None:
            yield thread.carry_out(removal)
        else:
            some.append(_Part(removal, thread, step))
            number += size
    if some:
        yield from _together(connection, lock, some)


def _together(connection: RedisConnection, lock: PurgeLock, some: Sequence[_Part]) -> list[Removed]:
    """Remove these threads in one transaction, without those that an agent has continued."""
    lock.keep()
    parts: list[tuple[Step, Counter[str]]] = [(one.step, Counter()) for one in some]
    try:
        with connection.transaction([]) as pipe:
            if watched := [name for one in some for name in one.thread.watched]:
                pipe.watch(*watched)
            unchanged = some[0].thread.are_unchanged([one.thread for one in some])
            lock.keep()
            run_together(pipe, list(compress(parts, unchanged)))
    except exceptions.WatchError:
        # One of them was continued just now, and alone each tells whether it was.
        return [one.thread.carry_out(one.removal) for one in some]
    return [
        removed(one.removal, rows) if goes else Removed(one.removal.thread_id, skipped=MOVED)
        for one, (_, rows), goes in zip(some, parts, unchanged, strict=True)
    ]


# Adds threads of other stores, each whole or not at all.
#
# A small thread is added in one transaction. A large one cannot: the server ends a connection whose
# transaction has more bytes than `client-query-buffer-limit`, which is 1 GB. Its documents are
# first created under names that no saver reads, and expire after a day. Then one transaction gives
# them their own names, and adds them to lists and pointers. What an interrupted run left is
# overwritten by the next one, or expires.


# Finds JSON texts that RedisJSON would refuse or change, and spells numbers as it needs them.


_FLOAT = re.compile(rb"[:,\[]\s?-?(?:[0-9.]{15,}|[0-9.]+[eE])")
"""Found before each number that RedisJSON might not read exactly."""
_DEEPEST = 127
_UNSURE = re.compile(rb"\d{19}|\\u[dD]|\xed")
"""Found in each large integer, at the beginning of each surrogate, and of some characters."""
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1


def check_json(data: bytes, name: bytes) -> None:
    """Raise `CannotHold` if RedisJSON cannot hold a document as it is.

    It refuses more than 127 levels and lone surrogates, and makes floats of integers that do not
    fit into 64 bits. (RedisJSON 2.8)
    """
    if (
        data.count(b"[") + data.count(b"{") > _DEEPEST
        and measure(data.decode("utf-8", "surrogatepass"), 0).depth > _DEEPEST
    ):
        raise CannotHold(f"'{text(name)}' would have more than {_DEEPEST} levels")
    if _UNSURE.search(data):
        found = json.loads(
            data.decode("utf-8", "surrogatepass"),
            parse_int=lambda digits: _checked_integer(digits, name),
        )
        try:
            json.dumps(found, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise CannotHold(f"'{text(name)}' would have a lone surrogate") from None


def exact_json(value: TypedBytes, where: str) -> TypedBytes:
    """The same JSON, spelled so that RedisJSON reads its numbers exactly. Raises `CannotHold`."""
    if not _FLOAT.search(b"," + value.data):
        return value
    from ckpt_backends.transfer.values import exact_floats

    try:
        spelled = exact_floats(value.data.decode("utf-8", "surrogatepass"))
    except NoEqualForm as problem:
        raise CannotHold(f"{where} {problem}") from None
    return value._replace(data=spelled.encode("utf-8", "surrogatepass"))


def _checked_integer(digits: str, name: bytes) -> int:
    found = int(digits)
    if not _LEAST <= found <= _MOST:
        raise CannotHold(f"'{text(name)}' would have an integer of more than 64 bits")
    return found


_AT_ONCE = 4 << 20
"""Bytes of documents that are sent together; a thread with more is not added directly."""
STAGED = b"ckpt-copy:"
"""The beginning of the names of documents that do not yet have their own. It keeps the slot."""
_A_DAY = 86_400_000


class ListOfWrites:
    """The members of the list of a checkpoint's writes."""

    def __init__(self) -> None:
        self._members: list[tuple[float, bytes]] = []
        self._expires_at: int | None = 0

    def add(self, name: bytes, score: float, expires_at: int | None) -> None:
        """Add the key of a write. The list expires with the last of them, if all expire."""
        self._members.append((score, name))
        if self._expires_at is not None:
            self._expires_at = None if expires_at is None else max(self._expires_at, expires_at)

    def commands(self, listed: bytes) -> Iterator[Command]:
        """Commands that add the members to the list with this key."""
        for some in in_chunks(self._members, NAMES_AT_ONCE):
            yield ("ZADD", listed, *(one for pair in some for one in (repr(pair[0]), pair[1])))
        yield from expiring_at(listed, self._expires_at)


def receive_thread(connection: RedisConnection, reception: Reception[Any]) -> None:
    """Add one thread. Raises `StoreChanged`, `CannotHold`, and the driver's errors."""
    made: list[NewDocument] = []
    staged: list[NewDocument] = []
    """Without their data, which is in the store."""
    size = 0
    documents = map(reception.documents, reception.arrival.records)
    for one in chain(chain.from_iterable(documents), reception.rest()):
        if not one.is_string:
            check_json(one.data, one.name)
        made.append(one)
        size += len(one.data)
        if size > _AT_ONCE:
            staged += _stage(connection, made)
            made, size = [], 0
    if staged and made:
        staged += _stage(connection, made)
    commands = _renaming(staged) if staged else _creating(made)
    _finish(connection, reception, [one.name for one in staged or made], commands)


def _stage(connection: RedisConnection, some: Sequence[NewDocument]) -> Iterator[NewDocument]:
    """Create documents under other names."""
    connection.check_together(one.name for one in some)
    with connection.client_of(some[0].name).pipeline(transaction=False) as pipe:
        for one in some:
            pipe.execute_command(*one.command(STAGED))
            pipe.execute_command("PEXPIRE", STAGED + one.name, _A_DAY)
        pipe.execute()
    return (replace(one, data=b"") for one in some)


def _renaming(staged: Iterable[NewDocument]) -> Iterator[Command]:
    for one in staged:
        yield ("RENAMENX", STAGED + one.name, one.name)
        yield ("PERSIST", one.name)
        yield from expiring_at(one.name, one.expires_at)


def _creating(made: Iterable[NewDocument]) -> Iterator[Command]:
    for one in made:
        yield one.command(b"", "NX")
        yield from expiring_at(one.name, one.expires_at)


def expiring_at(name: bytes, expires_at: int | None) -> Iterator[Command]:
    """Let a key expire at a time in milliseconds since 1970, if one is given."""
    if expires_at is not None:
        yield ("PEXPIREAT", name, expires_at)


def _finish(
    connection: RedisConnection,
    reception: Reception[Any],
    names: Sequence[bytes],
    commands: Iterable[Command],
) -> None:
    """Make the thread visible in one transaction. `commands` give the documents these names."""
    thread_id, heads = reception.arrival.thread_id, dict(reception.arrival.heads)
    watched = reception.watched()
    connection.check_together([*watched, *names])

    def checked(_: Watch) -> Iterator[Command]:
        if connection.number_of(names) or reception.heads() != heads:
            raise moved(thread_id)
        yield from commands
        yield from reception.last()

    try:
        answers = connection.change(watched, checked, names[:1])
    except exceptions.WatchError:
        raise moved(thread_id) from None
    failed = [one for one in answers if isinstance(one, Exception)]
    if failed:
        raise PartlyDone(
            f"the server refused a part of thread '{thread_id}': {failed[0]}",
            hint="Redis does not roll back a transaction; copy the thread again with --replace",
        )
