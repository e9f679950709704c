"""The keys of ValkeySaver of langgraph-checkpoint-aws 1.2, and what they contain.

    checkpoint:{THREAD}:NS:ID  string: a checkpoint as JSON
    writes:{THREAD}:NS:ID      string: its writes as one JSON list, in the order of arrival
    thread:{THREAD}:NS         list: the ids of its checkpoints, the one stored last in front

Source: `checkpoint/valkey/base.py` and `saver.py`, 1.2.6. The braces are part of the keys: all keys
of a thread are in one slot of a cluster. Nothing is escaped, so `{a}:b}:c` may be of thread `a` or
`a}:b`: the JSON of a checkpoint names the thread, but not the namespace.

The head is the first id in the list; an id may be in it twice. If its checkpoint is gone, the saver
finds no head, so ckpt shows a head that cannot be read. Other ids without a checkpoint have expired
and are ignored, as in the saver. A checkpoint whose id is in no list is the oldest: the saver loads
it by its id only. Each key has a time to live of its own; the saver renews that of the list with
each checkpoint.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import Any

from ckpt_backends.codec.limits import MOST_BYTES, unread
from ckpt_backends.model import Checkpoint, CheckpointKey, Fault, TypedBytes, Usage, Write
from ckpt_backends.read_options import CheckpointQuery
from ckpt_backends.redis.engine.connection import in_chunks
from ckpt_backends.redis.engine.keyspace import (
    CHECKPOINT,
    STRING,
    CheckpointEntry,
    ListedNamespace,
    ThreadKeys,
    WriteEntry,
    beginning,
    literally,
    quoted,
    raw,
    text,
)
from ckpt_backends.redis.engine.layout import RedisLayout
from ckpt_backends.redis.engine.thread_faults import ThreadKey
from ckpt_backends.redis.engine.thread_listing import namespaces_by_name
from ckpt_backends.redis.valkey.declaration import BACKEND
from ckpt_backends.redis.valkey.key_names import THREADS, WRITES, key_of
from ckpt_backends.redis.valkey.list_faults import list_faults
from ckpt_backends.redis.valkey.stored_values import (
    ESCAPED,
    START_BYTES,
    UNKNOWN,
    CheckpointStart,
    WriteRecord,
    start_of,
    stored_checkpoint,
    stored_writes,
)

_AT_ONCE = 500
_UNLISTED = float("-inf")
_FIRST = 0.0
"""The rank of the first id in a list. Those behind it have negative ranks."""
_GONE = "expired or removed, but the saver still uses it as the head, so it loads nothing"


@dataclass(slots=True)
class ValkeyThreadKeys(ThreadKeys):
    """The keys of one thread, with its lists."""

    lists: dict[str, bytes] = field(default_factory=dict)
    """By namespace, the key of its list."""


class ValkeyContents(RedisLayout):
    """All keys of threads, and what they contain."""

    name = "valkey"
    saver = "ValkeySaver of langgraph-checkpoint-aws 1.2"
    capabilities = BACKEND.layouts["valkey"]
    tables = (f"{CHECKPOINT}:{{*", f"{WRITES}:{{*")
    is_by_arrival = True

    # Keys

    def checkpoint_name(self, key: CheckpointKey) -> bytes:
        """The key of a checkpoint."""
        return raw(f"{CHECKPOINT}:{{{key.thread_id}}}:{key.checkpoint_ns}:{key.checkpoint_id}")

    def writes_name(self, key: CheckpointKey) -> bytes:
        """The key of all writes of a checkpoint."""
        return raw(f"{WRITES}:{{{key.thread_id}}}:{key.checkpoint_ns}:{key.checkpoint_id}")

    def list_name(self, thread_id: str, ns: str) -> bytes:
        """The key of the list of a namespace's checkpoints."""
        return raw(f"{THREADS}:{{{thread_id}}}:{ns}")

    def namespaces(self, prefix: str = "") -> Iterator[ListedNamespace]:
        names = partial(self.connection.scan, literally(f"{CHECKPOINT}:{{{prefix}") + b"*", STRING)
        listed = namespaces_by_name(names, self._identified, b":")
        while some := list(islice(listed, _AT_ONCE)):
            heads = self.connection.ask_all(
                ("LINDEX", self.list_name(one.thread_id, one.checkpoint_ns), 0) for one in some
            )
            found = [
                CheckpointKey(one.thread_id, one.checkpoint_ns, text(head or raw(one.newest)))
                for one, head in zip(some, heads, strict=True)
            ]
            there = self.connection.ask_all(("EXISTS", self.checkpoint_name(one)) for one in found)
            for one, key, is_there in zip(some, found, there, strict=True):
                head = key.checkpoint_id
                number = one.checkpoints + (not is_there)
                newest = max(one.newest, head)
                yield replace(one, head=head, newest=newest, checkpoints=number)

    def find(self, thread_ids: Collection[str]) -> dict[str, ValkeyThreadKeys]:
        found = {one: ValkeyThreadKeys() for one in thread_ids}
        pattern = b"*:{" + beginning(thread_ids) + (b"}:*" if len(thread_ids) == 1 else b"*")
        names: dict[bytes, list[bytes]] = {
            raw(f"{kind}:{{"): [] for kind in (CHECKPOINT, WRITES, THREADS)
        }
        for some in self.connection.scan_once(pattern):
            for name in some:
                kind, mark, rest = name.partition(b"{")
                if kind + mark in names and _may_be_of(rest, found):
                    names[kind + mark].append(name)
        checkpoints, writes, lists = map(sorted, names.values())
        entries = [one for one in self._identified(checkpoints) if one.key.thread_id in found]
        for one in self._ranked(entries):
            places = found[one.key.thread_id].places
            places[one.key.checkpoint_ns, one.key.checkpoint_id] = one
        for name, key in self._owners(writes).items():
            if key.thread_id in found:
                found[key.thread_id].writes.append(WriteEntry(name, key.checkpoint_id))
        for name, key in self._owners_of_lists(lists):
            if key.thread_id in found:
                found[key.thread_id].lists[key.checkpoint_ns] = name
                self._add_gone_head(found[key.thread_id], key)
        return found

    def _add_gone_head(self, found: ValkeyThreadKeys, head: CheckpointKey) -> None:
        """Add the head that a list names, if its checkpoint is gone and others are left."""
        at = (head.checkpoint_ns, head.checkpoint_id)
        if at not in found.places and any(ns == head.checkpoint_ns for ns, _ in found.places):
            found.places[at] = CheckpointEntry(head, self.checkpoint_name(head), rank=_FIRST)

    def pages(self) -> Iterator[ThreadKeys]:
        for names in self.connection.scan_once(raw(f"{CHECKPOINT}:{{*"), STRING):
            yield ThreadKeys(mixed=list(self._identified(names)))
        for names in self.connection.scan_once(raw(f"{WRITES}:{{*"), STRING):
            yield ThreadKeys(writes=[WriteEntry(one, "") for one in names])

    def writes_at(self, keys: Collection[CheckpointKey]) -> list[WriteEntry]:
        return [WriteEntry(self.writes_name(key), key.checkpoint_id) for key in keys]

    def entries(self, names: Sequence[bytes]) -> Iterator[CheckpointEntry]:
        known = {one.name: one for one in self._ranked(list(self._identified(names)))}
        gone = [one for one in names if one not in known]
        heads = self.connection.ask_all(("LINDEX", _list_of(one), 0) for one in gone)
        for name, head in zip(gone, heads, strict=True):
            key = key_of(name, None)
            if key is not None and head == raw(key.checkpoint_id):
                known[name] = CheckpointEntry(key, name, rank=_FIRST)
        yield from (known[one] for one in names if one in known)

    def _identified(self, names: Sequence[bytes]) -> Iterator[CheckpointEntry]:
        """The checkpoints that exist under these keys, without ranks."""
        for name, start in zip(names, self._starts(names), strict=True):
            key = None if start is None else key_of(name, start.thread_id)
            if key is not None and start is not None:
                yield CheckpointEntry(key, name, start.parent)

    def _starts(self, names: Sequence[bytes]) -> Iterator[CheckpointStart | None]:
        """The ids in these checkpoints; None if there is no such string."""
        answers = self.connection.ask_all(
            ("GETRANGE", one, 0, START_BYTES + ESCAPED * len(one)) for one in names
        )
        for name, answer in zip(names, answers, strict=True):
            yield (start_of(answer) or self._whole_start(name)) if answer else None

    def _whole_start(self, name: bytes) -> CheckpointStart:
        """The ids in a checkpoint that another saver wrote, or none if it is too long."""
        (size,) = self.connection.ask_all([("STRLEN", name)])
        if int(size or 0) <= MOST_BYTES:
            (answer,) = self.connection.ask_all([("GET", name)])
            return stored_checkpoint(answer or b"").start
        return CheckpointStart(None, None, None)

    def _ranked(self, places: Sequence[CheckpointEntry]) -> Iterator[CheckpointEntry]:
        """The same checkpoints, with their places in the lists."""
        by_list: dict[bytes, list[CheckpointEntry]] = {}
        for one in places:
            by_list.setdefault(_list_of(one.name), []).append(one)
        alone = {name: some[0] for name, some in by_list.items() if len(some) == 1}
        found = self.connection.ask_all(
            ("LPOS", name, raw(one.key.checkpoint_id)) for name, one in alone.items()
        )
        for one, place in zip(alone.values(), found, strict=True):
            yield one._replace(rank=_UNLISTED if place is None else _FIRST - place)
        many = [name for name in by_list if name not in alone]
        for name, ids in zip(many, self.ids(many), strict=True):
            ranks = {own: _FIRST - place for place, own in reversed(list(enumerate(ids)))}
            for one in by_list[name]:
                yield one._replace(rank=ranks.get(raw(one.key.checkpoint_id), _UNLISTED))

    def ids(self, names: Iterable[bytes]) -> Iterator[list[bytes]]:
        """The ids in each of these lists; empty if there is no such list."""
        return (one or [] for one in self.connection.ask_all(("LRANGE", a, 0, -1) for a in names))

    def _owners(self, names: Sequence[bytes]) -> dict[bytes, CheckpointKey]:
        """By key of writes, its checkpoint; it may not exist."""
        unsure = [one for one in names if one.count(b"}:") > 1]
        starts = self._starts([_checkpoint_of(one) for one in unsure])
        known = dict(zip(unsure, starts, strict=True))
        threads = {name: one.thread_id for name, one in known.items() if one is not None}
        found = ((name, key_of(name, threads.get(name))) for name in names)
        return {name: key for name, key in found if key is not None}

    def _owners_of_lists(self, names: Sequence[bytes]) -> Iterator[tuple[bytes, CheckpointKey]]:
        """The lists that exist, each with the checkpoint that it begins with."""
        heads = self.connection.ask_all(("LINDEX", one, 0) for one in names)
        first = {name + b":" + own: name for name, own in zip(names, heads, strict=True) if own}
        for name, key in self._owners(list(first)).items():
            yield first[name], key

    def owners_of(self, names: Sequence[bytes]) -> Iterator[tuple[bytes, CheckpointKey, bool]]:
        for name, key, _ in self._records(names):
            yield name, key, True

    # Contents

    def _lengths(self, places: Sequence[CheckpointEntry | WriteEntry]) -> Iterator[Any]:
        return self.connection.ask_all(("STRLEN", one.name) for one in places)

    def checkpoints(
        self, places: Sequence[CheckpointEntry], asked: CheckpointQuery
    ) -> Iterator[Checkpoint]:
        for some in in_chunks(places, self._lengths):
            answers = self.connection.ask_all(
                ("GET", place.name) for place, size in some if size <= MOST_BYTES
            )
            for place, size in some:
                parent = place.parent
                if size > MOST_BYTES:
                    body = metadata = unread("", size)
                elif (answer := next(answers)) is not None:
                    stored = stored_checkpoint(answer)
                    body, metadata, parent = stored.body, stored.metadata, stored.start.parent
                elif place.rank == _FIRST:
                    body = metadata = TypedBytes("", b"", problem=_GONE)
                else:  # expired or deleted since
                    continue
                yield Checkpoint(
                    place.key,
                    parent,
                    body if asked.body else None,
                    metadata if asked.metadata else None,
                )

    def _records(
        self, names: Sequence[bytes]
    ) -> Iterator[tuple[bytes, CheckpointKey, WriteRecord]]:
        """The writes under these keys, in the order of arrival."""
        keys = self._owners(names)
        places = [WriteEntry(one, "") for one in keys]
        for some in in_chunks(places, self._lengths):
            answers = self.connection.ask_all(
                ("GET", place.name) for place, size in some if size <= MOST_BYTES
            )
            for place, size in some:
                if size > MOST_BYTES:
                    found = [WriteRecord("", 0, UNKNOWN, unread("", size), size, None)]
                else:
                    answer = next(answers)
                    found = [] if answer is None else stored_writes(answer)
                yield from ((place.name, keys[place.name], one) for one in found)

    def writes(
        self, places: Sequence[WriteEntry], values: bool | Collection[str]
    ) -> Iterator[Write]:
        for _, key, one in self._records([place.name for place in places]):
            wanted = values if isinstance(values, bool) else one.channel in values
            size = len(one.value.data) if one.value.whole is None else one.value.whole
            value = one.value if wanted else None
            yield Write(key, one.task_id, "", one.idx, one.channel, size, value)

    def usage(self, found: ThreadKeys) -> Iterator[tuple[str, Usage]]:
        """The lengths of the stored texts. Base64 makes them a third longer than the values."""
        checkpoints = found.checkpoints
        names = [one.name for one in checkpoints]
        for place, start, size in zip(
            checkpoints, self._starts(names), self._lengths(checkpoints), strict=True
        ):
            key = place.key
            tag = (start.tag if start is not None else None) or ""
            where = (key.thread_id, key.checkpoint_ns, None)
            of_body = (self.tables[0], "checkpoint", *where, tag, 1, int(size or 0))
            yield key.checkpoint_id, Usage(*of_body)
            # Metadata is stored in the same text.
            yield key.checkpoint_id, Usage(self.tables[0], "metadata", *where, "json", 1, 0)
        for _, key, one in self._records([place.name for place in found.writes]):
            of_write = (self.tables[1], "value", key.thread_id, key.checkpoint_ns)
            yield (key.checkpoint_id, Usage(*of_write, one.channel, one.value.type, 1, one.length))

    def expiring_keys(self, found: ThreadKeys) -> Iterator[ThreadKey]:
        yield from super().expiring_keys(found)
        if isinstance(found, ValkeyThreadKeys):
            yield from (ThreadKey(name, THREADS, ns) for ns, name in found.lists.items())

    def thread_faults(self, thread_id: str, found: ThreadKeys) -> Iterator[Fault]:
        yield from super().thread_faults(thread_id, found)
        for ns in sorted({ns for ns, _ in found.places}):
            here = [one for (space, _), one in found.places.items() if space == ns]
            yield from list_faults(self, self.list_name(thread_id, ns), here)

    def threads_with_writes(self) -> Iterator[str]:
        for names in self.connection.scan(raw(f"{WRITES}:{{*"), STRING):
            yield from (key.thread_id for key in self._owners(names).values())

    def sources(self, key: CheckpointKey) -> list[str]:
        listed = self.list_name(key.thread_id, key.checkpoint_ns)
        return [
            f"GET {quoted(self.checkpoint_name(key))}",
            f"GET {quoted(self.writes_name(key))}",
            f"LRANGE {quoted(listed)} 0 -1",
        ]


def _list_of(name: bytes) -> bytes:
    """The key of the list that should contain a checkpoint with this key."""
    return raw(THREADS) + name.removeprefix(raw(CHECKPOINT)).rpartition(b":")[0]


def _checkpoint_of(name: bytes) -> bytes:
    """The key of the checkpoint to which the writes with this key belong."""
    return raw(CHECKPOINT) + name[name.index(b":") :]


def _may_be_of(rest: bytes, thread_ids: Collection[str]) -> bool:
    """Whether a key of one of these threads may end with `rest`, which follows its first brace."""
    if rest.count(b"}:") > 1:
        return any(rest.startswith(raw(one) + b"}:") for one in thread_ids)
    return text(rest.partition(b"}:")[0]) in thread_ids
