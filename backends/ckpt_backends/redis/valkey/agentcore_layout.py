"""The layout of AgentCoreValkeySaver: that of ValkeySaver with actors, and a key for each value.

    agentcore:checkpoint:SESSION:ACTOR:NS:ID        string: a checkpoint as JSON
    agentcore:writes:SESSION:ACTOR:NS:ID            list: its writes as JSON, in order of arrival
    agentcore:channel:SESSION:ACTOR:NS:CHANNEL:ID   string: a channel that changed; never read
    agentcore:session:SESSION:ACTOR:checkpoints     list: the ids, the one stored last in front

Source: `checkpoint/valkey/agentcore/saver.py` of langgraph-checkpoint-aws 1.2.6. SESSION is the
thread id, and in the namespace of a subgraph a hash of thread id and namespace. Nothing is escaped,
so what a key belongs to is told by the JSON of a checkpoint. Heads, expired checkpoints and times
to live are as those of ValkeySaver.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NoReturn

from ckpt_backends.changes import Change, CopyOfCheckpoint
from ckpt_backends.codec import decode
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import BlobKey, CheckpointKey, Record, in_chunks
from ckpt_backends.redis.engine.connection import Command, RedisConnection
from ckpt_backends.redis.engine.keyspace import (
    CHECKPOINT,
    LIST,
    STRING,
    ApartEntry,
    CheckpointEntry,
    CheckpointKeys,
    KeysByCheckpoint,
    ThreadKeys,
    WriteEntry,
    literally,
    quoted,
    raw,
    row_name,
    text,
    with_contents,
)
from ckpt_backends.redis.engine.layout import Owner, ThreadKey
from ckpt_backends.redis.valkey.agentcore_records import (
    CHANNELS,
    START,
    THREADS,
    WRITES,
    ActorSpace,
    Start,
    checkpoint_text,
    dumped,
    new_checkpoint,
    start_of,
    stored_checkpoint,
    stored_writes,
    write_fields,
)
from ckpt_backends.redis.valkey.declaration import BACKEND
from ckpt_backends.redis.valkey.layout import FIRST, ValkeyPlan, ValkeyStrings
from ckpt_backends.redis.valkey.records import CheckpointStart, CheckpointText, WriteRecord
from ckpt_backends.rows import Row, not_of
from ckpt_backends.transfer.copying import Arrival

_OF_CHECKPOINTS = raw(f"{START}:{CHECKPOINT}:")
_AT_ONCE = 500


class AgentCorePlan(ValkeyPlan):
    """The plan of a change. A new thread has the actor of the thread that it is copied from, or the
    one in the metadata of its checkpoints.
    """

    _layout: AgentCoreStrings

    def __init__(self, layout: AgentCoreStrings, change: Change) -> None:
        layout.adopt(change)
        super().__init__(layout, change)


class AgentCoreStrings(ValkeyStrings):
    """The layout of AgentCoreValkeySaver."""

    name = "valkey-agentcore"
    saver = "AgentCoreValkeySaver of langgraph-checkpoint-aws 1.2"
    capabilities = BACKEND.layouts[name]
    tables = (f"{START}:{CHECKPOINT}:*", f"{START}:{WRITES}:*")
    types: Mapping[str, str] = {CHANNELS: STRING, WRITES: LIST, CHECKPOINT: STRING, THREADS: LIST}
    plan = AgentCorePlan

    def __init__(self, connection: RedisConnection, actor: str | None) -> None:
        super().__init__(connection)
        self._actor = actor
        self._actors: dict[str, str] = {}
        """By thread, its actor."""
        self._spaces: dict[bytes, ActorSpace] = {}
        """By the beginning of its checkpoints' keys, what is known of a namespace."""

    # Actors

    def _know(self, space: ActorSpace) -> bool:
        """Remember a namespace. Returns whether the URL asks for its actor.

        Raises `Unsupported` if its thread has another actor, too.
        """
        if self._actor not in {None, space.actor}:
            return False
        if (other := self._actors.setdefault(space.thread_id, space.actor)) != space.actor:
            raise Unsupported(
                f"thread '{space.thread_id}' belongs to several actors, such as '{other}' and"
                f" '{space.actor}'",
                hint="name one in the URL: ?actor=NAME",
            )
        self._spaces[space.name(CHECKPOINT)] = space
        return True

    def _actor_of(self, thread_id: str) -> str:
        """The actor of a thread; `''` if there is no such thread."""
        if self._actor is not None:
            return self._actor
        if thread_id not in self._actors:
            for names in self.connection.scan(_matching(thread_id), STRING):
                any(self._identified(names))
            if thread_id not in self._actors:
                # Its root may have expired; the keys of subgraphs do not begin with its id.
                any(self.namespaces())
        return self._actors.get(thread_id, "")

    def adopt(self, change: Change) -> None:
        """Give the thread of a change an actor, if it does not exist. Raises `Unsupported`."""
        if self._actor_of(change.thread_id) or not change.added:
            return
        found: list[object] = []
        found += (self._actor_of(copy.source.thread_id) for copy in change.copies)
        for fields in (decode(one.metadata) for one in change.checkpoints):
            found.append(fields.get("actor_id") if isinstance(fields, dict) else None)
        actor = next((one for one in found if isinstance(one, str) and one), None)
        if actor is None:
            raise Unsupported(
                f"nothing tells the actor of thread '{change.thread_id}'",
                hint="name one in the URL: ?actor=NAME",
            )
        self._actors[change.thread_id] = actor

    def _space(self, thread_id: str, ns: str) -> ActorSpace:
        return ActorSpace(thread_id, self._actor_of(thread_id), ns)

    # Texts

    def read_start(self, answer: bytes) -> CheckpointStart | None:
        return None if (found := start_of(answer)) is None else found.start

    def read_checkpoint(self, answer: bytes) -> CheckpointText:
        return stored_checkpoint(answer)

    def text_of(self, record: Record) -> bytes:
        return new_checkpoint(record, self._space(*record.key[:2]))

    def text_of_copy(
        self, fields: Mapping[str, Any], target: CheckpointKey, copy: CopyOfCheckpoint
    ) -> bytes:
        return checkpoint_text(fields, self._space(*target[:2]), copy.body, copy.metadata)

    def element_of(self, write: Record) -> dict[str, Any]:
        return write_fields(write)

    def storing(self, key: CheckpointKey, elements: Sequence[dict[str, Any]]) -> Command:
        own = {"checkpoint_id": key.checkpoint_id}
        return ("RPUSH", self.writes_name(key), *(dumped({**one, **own}) for one in elements))

    def _contents(
        self, names: Iterable[bytes]
    ) -> Iterator[tuple[bytes, int, Iterable[WriteRecord]]]:
        for name, size, answer in with_contents(
            self.connection,
            list(names),
            lambda one: ("MEMORY USAGE", one, "SAMPLES", 0),
            lambda one: ("LRANGE", one, 0, -1),
        ):
            yield name, size, stored_writes(answer or ())

    def reception(self, arrival: Arrival) -> NoReturn:
        raise Unsupported(
            f"thread '{arrival.thread_id}' cannot be copied into the layout '{self.name}'"
        )

    # Keys

    def checkpoint_name(self, key: CheckpointKey) -> bytes:
        return self._space(*key[:2]).name(CHECKPOINT, key.checkpoint_id)

    def writes_name(self, key: CheckpointKey) -> bytes:
        return self._space(*key[:2]).name(WRITES, key.checkpoint_id)

    def list_name(self, thread_id: str, ns: str) -> bytes:
        return self._space(thread_id, ns).list_name

    def _pattern(self, kind: str, prefix: str = "") -> bytes:  # noqa: ARG002
        return raw(f"{START}:{kind}:*")

    def _identified(self, names: Sequence[bytes]) -> Iterator[CheckpointEntry]:
        for name, found in zip(names, self._told(names), strict=True):
            own = text(name.rpartition(b":")[2])
            if (
                found is not None
                and found.space.name(CHECKPOINT, own) == name
                and self._know(found.space)
            ):
                key = CheckpointKey(found.space.thread_id, found.space.checkpoint_ns, own)
                yield CheckpointEntry(key, name, found.start.parent)

    def _told(self, names: Sequence[bytes]) -> Iterator[Start | None]:
        """What these checkpoints say of their places."""
        for name, answer in zip(names, self._beginnings(names), strict=True):
            found = start_of(answer) if answer else None
            if answer and found is None:  # another order of members
                ((_, _, whole),) = self._texts([WriteEntry(name, "")])
                found = start_of(whole or b"")
            yield found

    def _key_of(self, name: bytes) -> CheckpointKey | None:
        start, _, own = name.rpartition(b":")
        space = self._spaces.get(start)
        return None if space is None else CheckpointKey(*space[::2], text(own))

    def _owners(self, names: Sequence[bytes]) -> dict[bytes, CheckpointKey]:
        checkpoints = {one: _checkpoint_of(one) for one in names}
        unknown = {
            one.rpartition(b":")[0]: one
            for one in checkpoints.values()
            if one.rpartition(b":")[0] not in self._spaces
        }
        any_of = list(self._identified(list(unknown.values())))
        left = unknown.keys() - {one.name.rpartition(b":")[0] for one in any_of}
        for start in left:
            # No checkpoint tells the namespace: it is the root of a thread, if it is plain.
            session, actor, ns = [*text(start[len(_OF_CHECKPOINTS) :]).split(":", 2), "", ""][:3]
            if not ns and self._actors.get(session, actor) == actor:
                self._know(ActorSpace(session, actor, ""))
        found = ((name, self._key_of(one)) for name, one in checkpoints.items())
        return {name: key for name, key in found if key is not None}

    def find(self, thread_ids: Collection[str]) -> dict[str, ThreadKeys]:
        found = {one: ThreadKeys() for one in thread_ids}
        names: dict[bytes, list[bytes]] = {b"checkpoint": [], b"writes": [], b"channel": []}
        lists: set[bytes] = set()
        for some in self.connection.scan_once(raw(f"{START}:*")):
            for name in some:
                kind = name.split(b":", 2)[1]
                names.get(kind, []).append(name)
                if kind == b"session":
                    lists.add(name)
        checkpoints, writes, channels = map(sorted, names.values())
        places = self._ranked(list(self._of_threads(checkpoints, found)))
        for one in places:
            found[one.key.thread_id].places[one.key[1:]] = one
        for some in in_chunks(writes, _AT_ONCE):
            for name, key in self._owners(some).items():
                if key.thread_id in found:
                    found[key.thread_id].writes.append(WriteEntry(name, key.checkpoint_id))
        for name in channels:
            self._add_channel(name, found)
        self._add_lists(lists, found)
        return found

    def _of_threads(
        self, names: Sequence[bytes], found: Mapping[str, ThreadKeys]
    ) -> Iterator[CheckpointEntry]:
        """The checkpoints of these threads; of each namespace of others, one is looked at."""
        by_start: dict[bytes, list[bytes]] = {}
        for name in names:
            by_start.setdefault(name.rpartition(b":")[0], []).append(name)
        unknown = [some[-1] for start, some in by_start.items() if start not in self._spaces]
        for some in in_chunks(unknown, _AT_ONCE):
            any(self._identified(some))
        for start, some in by_start.items():
            space = self._spaces.get(start)
            if space is None or space.thread_id in found:
                yield from (one for one in self._identified(some) if one.key.thread_id in found)

    def _add_channel(self, name: bytes, found: Mapping[str, ThreadKeys]) -> None:
        start, _, own = name.rpartition(b":")
        parts = start.removeprefix(raw(f"{START}:{CHANNELS}:")).split(b":")
        for place in accumulate(parts[:-1], lambda *pair: b":".join(pair)):
            space = self._spaces.get(_OF_CHECKPOINTS + place)
            if space is not None and space.thread_id in found:
                channel = start[len(f"{START}:{CHANNELS}:") + len(place) + 1 :]
                key = BlobKey(space.checkpoint_ns, text(channel), text(own))
                found[space.thread_id].apart.append(ApartEntry(name, space.thread_id, key))
                return

    def _add_lists(self, lists: Collection[bytes], found: Mapping[str, ThreadKeys]) -> None:
        spaces = {*self._spaces.values()}
        spaces |= {ActorSpace(one, self._actors[one], "") for one in found if one in self._actors}
        named = {
            one.list_name: one
            for one in spaces
            if one.thread_id in found and one.list_name in lists
        }
        heads = self.connection.ask_all(("LINDEX", one, 0) for one in named)
        for (name, space), head in zip(named.items(), heads, strict=True):
            thread_id, _, ns = space
            found[thread_id].lists[ns] = name
            if head and any(there == ns for there, _ in found[thread_id].places):
                key = CheckpointKey(thread_id, ns, text(head))
                entry = CheckpointEntry(key, self.checkpoint_name(key), rank=FIRST)
                found[thread_id].places.setdefault((ns, key.checkpoint_id), entry)

    def _grouped(
        self, thread_id: str, found: ThreadKeys, owners: Iterable[Owner]
    ) -> KeysByCheckpoint:
        grouped = super()._grouped(thread_id, found, owners)
        for one in found.apart:
            at = one.key.checkpoint_ns, one.key.version
            if at not in grouped.groups:
                key = CheckpointKey(thread_id, *at)
                grouped.groups[at] = self.keys_at(key, is_there=False)
            grouped.groups[at].names[CHANNELS].append(one.name)
        return grouped

    def keys_at(self, key: CheckpointKey, *, is_there: bool) -> CheckpointKeys:
        writes, checkpoint = self.writes_name(key), self.checkpoint_name(key)
        names = {CHANNELS: [], WRITES: [writes], CHECKPOINT: [checkpoint]}
        return CheckpointKeys(key, names, is_there)

    def expiring_keys(self, found: ThreadKeys) -> Iterator[ThreadKey]:
        yield from super().expiring_keys(found)
        for one in found.apart:
            if one.key[::2] in found.places:
                yield ThreadKey(one.name, CHANNELS, one.key.checkpoint_ns, one.key.version)

    def sources(self, key: CheckpointKey) -> list[str]:
        return [
            f"GET {quoted(self.checkpoint_name(key))}",
            f"LRANGE {quoted(self.writes_name(key))} 0 -1",
            f"LRANGE {quoted(self.list_name(*key[:2]))} 0 -1",
        ]

    def own_rows(self, thread_id: str, rows: Iterable[Row]) -> Iterator[Row]:
        spaces: set[ActorSpace] = set()
        others: list[tuple[str, bytes]] = []
        for row in rows:
            name = raw(row_name(row, self.types))
            if row.table == CHECKPOINT and isinstance(cell := row.cells["value"], bytes):
                found = start_of(cell)
                told = None if found is None else found.space
                own = text(name.rpartition(b":")[2])
                if (
                    told is None
                    or told.thread_id != thread_id
                    or told.name(CHECKPOINT, own) != name
                ):
                    raise not_of(row.table, None if told is None else told.thread_id, thread_id)
                spaces.add(told)
            else:
                others.append((row.table, name))
            yield row
        for kind, name in others:
            if not any(
                name == one.list_name if kind == THREADS else name.startswith(one.name(kind, ""))
                for one in spaces
            ):
                raise not_of(kind, None, thread_id)


def _matching(thread_id: str) -> bytes:
    """Matches the checkpoints in the root of a thread, whatever the actor."""
    return _OF_CHECKPOINTS + literally(f"{thread_id}:") + b"*"


def _checkpoint_of(name: bytes) -> bytes:
    """The key of the checkpoint of writes with this key."""
    return _OF_CHECKPOINTS + name.split(b":", 2)[2]
