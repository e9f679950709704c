"""The layout of ValkeySaver, and how it is recognised."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import islice
from tempfile import TemporaryFile
from typing import Any, BinaryIO, NamedTuple, TypeVar

from ckpt_backends.changes import Change, CopyOfCheckpoint, gone, moved
from ckpt_backends.codec.values import MOST_BYTES, unread
from ckpt_backends.errors import Refused, UnknownLayout, Unsupported
from ckpt_backends.model import (
    Checkpoint,
    CheckpointKey,
    Fault,
    Kind,
    Record,
    TypedBytes,
    Usage,
    Write,
    in_chunks,
)
from ckpt_backends.protocol import CheckpointQuery
from ckpt_backends.records import copied_from
from ckpt_backends.redis.engine.changes import KeyRemoval, expiring_at
from ckpt_backends.redis.engine.connection import Command
from ckpt_backends.redis.engine.keyspace import (
    CHECKPOINT,
    LIST,
    STRING,
    CheckpointEntry,
    CheckpointKeys,
    KeysByCheckpoint,
    ListedNamespace,
    ThreadKeys,
    WriteEntry,
    beginning,
    literally,
    namespace_of,
    parted,
    quoted,
    raw,
    rest_of,
    row_name,
    text,
    with_contents,
)
from ckpt_backends.redis.engine.layout import (
    NO_EXPIRY,
    CommandPlan,
    NewDocument,
    Owner,
    Reception,
    RecognisedStore,
    Recogniser,
    RedisLayout,
    Sample,
    Step,
    ThreadKey,
    expiring,
    gone_from_list,
    namespaces_by_name,
    unlink,
    watch_tasks,
)
from ckpt_backends.redis.valkey.declaration import BACKEND
from ckpt_backends.redis.valkey.records import (
    ESCAPED,
    START_BYTES,
    THREADS,
    UNKNOWN,
    WRITES,
    CheckpointStart,
    CheckpointText,
    WriteRecord,
    checkpoint_text,
    key_of,
    new_checkpoint,
    start_of,
    stored_checkpoint,
    stored_writes,
    write_fields,
    writes_text,
)
from ckpt_backends.rows import Row, not_of
from ckpt_backends.servers import understood
from ckpt_backends.transfer.copying import Arrival
from ckpt_backends.transfer.form import CannotHold, Language
from ckpt_backends.url import StoreUrl

# Removes threads of ValkeySaver: the lists first, so that it never finds an id without its
# checkpoint.


class ValkeyRemoval(KeyRemoval["ValkeyStrings"]):
    """The removal of one thread, or of a part of it."""

    goes_together = False

    def _run_watched(self, pipe: Any, step: Step, rows: Counter[str]) -> None:
        watch_tasks(pipe, self.keys.heads.values(), WRITES, self._layout.owners_of)
        super()._run_watched(pipe, step, rows)

    def _lists_without(self, owners: Sequence[CheckpointKeys]) -> Iterator[tuple[str, Command]]:
        going: dict[str, set[bytes]] = {}
        for one in owners:
            if one.is_there:
                going.setdefault(one.key.checkpoint_ns, set()).add(raw(one.key.checkpoint_id))
        removed = {one.at for one in owners}
        left = {one.key.checkpoint_ns for one in self.keys.checkpoints if one.at not in removed}
        for ns, leaving in going.items():
            names = self.keys.shared[ns][THREADS]
            if ns not in left:
                # The list may still contain the ids of expired checkpoints.
                yield unlink(THREADS, names)
                continue
            for name, ids in zip(names, self._layout.ids(names), strict=True):
                times = Counter(ids)
                # From the end: the oldest ids are there, and LREM stops after so many.
                yield from (("", ("LREM", name, -times[own], own)) for own in ids if own in leaving)


# Plans changes of threads of ValkeySaver in the same form as the saver.
#
# The lists, and all keys that are copied or removed, are watched before they are read: a saver
# changes the list with each checkpoint, and rewrites all writes of a checkpoint with each task.
#
# A new checkpoint and its writes get the remaining time of the list, because the saver finds no
# thread if the first checkpoint of its list has expired.


_MISSING = -2
"""The answer of PTTL for a missing key."""


class ValkeyPlan(CommandPlan["ValkeyStrings"]):
    """The plan of a change for the layout `valkey`."""

    def __init__(self, layout: ValkeyStrings, change: Change) -> None:
        super().__init__(layout, change)
        self._expiries: dict[CheckpointKey, int] = {}
        """The times to live of the new checkpoints, in milliseconds."""
        read = [*(change.removed or ()), *change.relied_on]
        read += [one.source for one in change.copies]
        read += [some.source for some in change.copies_of_writes]
        spaces = {*change.heads, *(one.checkpoint_ns for one in (*change.added, *read))} or {""}
        self.watched = [
            *(layout.list_name(change.thread_id, ns) for ns in sorted(spaces)),
            *(layout.checkpoint_name(one) for one in dict.fromkeys(read)),
            *(layout.writes_name(one) for one in dict.fromkeys(read)),
        ]

    def commands(self) -> Iterator[Command]:
        change = self._change
        for key in change.relied_on:
            self._need(self._layout.checkpoint_name(key), key)
        yield from self._removals()
        writes: dict[CheckpointKey, list[Any]] = {}
        for copy in self._in_order(change.copies):
            target = copy.source._replace(thread_id=change.thread_id)
            yield from self._copy(copy, target)
            writes[target] = self._chosen(copy.source, copy.writes)
        for one in change.checkpoints:
            yield from self._add(one)
        for write in change.writes:
            writes.setdefault(write.key, []).append(self._layout.element_of(write))
        for some in change.copies_of_writes:
            writes.setdefault(some.target, []).extend(self._chosen(some.source, some.tasks))
        for key, elements in writes.items():
            if elements:
                # They expire with their checkpoint.
                expiry = self._expiries.get(key)
                if expiry is None:
                    expiry = self._left(self._layout.checkpoint_name(key))
                name = self._make(self._layout.writes_name(key))
                yield self._layout.storing(key, elements)
                yield from expiring(name, expiry)
        yield from self._lists()

    # Removals

    def _removals(self) -> Iterator[Command]:
        names: list[bytes] = []
        for key, number in (self._change.removed or {}).items():
            if len(self._stored_writes(key)) != number:
                raise moved(self._change.thread_id)
            names += [self._need(self._layout.checkpoint_name(key), key)]
            names += [self._layout.writes_name(key)]
            listed = self._layout.list_name(key.thread_id, key.checkpoint_ns)
            yield ("LREM", listed, 0, raw(key.checkpoint_id))
        self._removed = set(names)
        if names:
            yield ("UNLINK", *names)

    # Additions

    def _add(self, one: Record) -> Iterator[Command]:
        key = one.key
        origin = self._layout.checkpoint_name(
            key._replace(checkpoint_id=copied_from(one) or key.checkpoint_id)
        )
        left = self._left(self._layout.list_name(key.thread_id, key.checkpoint_ns))
        if left == _MISSING:
            left = max(self._left(origin), NO_EXPIRY)
        yield from self._set(key, self._layout.text_of(one), left)

    def _copy(self, copy: CopyOfCheckpoint, target: CheckpointKey) -> Iterator[Command]:
        old = self._layout.checkpoint_name(copy.source)
        if not self._connection.number_of([old]) and any(self._layout.entries([old])):
            raise Unsupported(
                f"checkpoint '{copy.source.checkpoint_id}' has expired or was removed, so it cannot"
                " be copied",
                hint="copy an earlier checkpoint with `ckpt copy THREAD@CHECKPOINT --as NEW`",
            )
        self._need(old, copy.source)
        stored = self._layout.read_checkpoint(self._connection.ask("GET", old) or b"")
        if not stored.fields:
            raise Unsupported(
                f"checkpoint '{copy.source.checkpoint_id}' cannot be read, so it cannot be copied",
                hint="choose another checkpoint",
            )
        made = self._layout.text_of_copy(stored.fields, target, copy)
        yield from self._set(target, made, self._left(old))

    def _set(self, key: CheckpointKey, made: bytes, expiry: int) -> Iterator[Command]:
        self._expiries[key] = expiry
        name = self._make(self._layout.checkpoint_name(key))
        yield ("SET", name, made)
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
            if self._left(name) == _MISSING and min(expiries) >= 0:
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

    def _in_order(self, copies: Sequence[CopyOfCheckpoint]) -> list[CopyOfCheckpoint]:
        """The same copies, in the order in which the saver stored the originals."""
        names = [self._layout.checkpoint_name(one.source) for one in copies]
        ranks = {one.key: one.rank for one in self._layout.entries(names)}
        return sorted(copies, key=lambda one: (ranks.get(one.source, 0.0), one.source))

    def _stored_writes(self, key: CheckpointKey) -> list[WriteRecord]:
        return [one for _, _, one in self._layout.records([self._layout.writes_name(key)])]

    def _chosen(
        self, source: CheckpointKey, tasks: Sequence[tuple[str, int]] | None
    ) -> list[dict[str, Any]]:
        """The writes of these tasks; all if None. Raises `StoreChanged` if one is gone."""
        found = self._stored_writes(source)
        if tasks is not None:
            wanted = set(tasks)
            found = [one for one in found if (one.task_id, one.idx) in wanted]
            if len(wanted) != len({(one.task_id, one.idx) for one in found}):
                raise gone(source)
        if any(one.fields is None for one in found):
            raise Unsupported(
                f"the writes of checkpoint '{source.checkpoint_id}' cannot be read, so they cannot"
                " be copied",
                hint="choose another checkpoint",
            )
        return [one.fields for one in found]


# The keys of ValkeySaver of langgraph-checkpoint-aws 1.2, and what they contain.
#
#     checkpoint:{THREAD}:NS:ID  string: a checkpoint as JSON
#     writes:{THREAD}:NS:ID      string: its writes as one JSON list, in the order of arrival
#     thread:{THREAD}:NS         list: the ids of its checkpoints, the one stored last in front
#
# Source: `checkpoint/valkey/base.py` and `saver.py`, 1.2.6. The braces are part of the keys: all
# keys of a thread are in one slot of a cluster. Nothing is escaped, so `{a}:b}:c` may be of
# thread `a` or `a}:b`: the JSON of a checkpoint names the thread, but not the namespace.
#
# The head is the first id in the list; an id may be in it twice. If its checkpoint is gone, the
# saver finds no head, so ckpt shows a head that cannot be read. Other ids without a checkpoint
# have expired and are ignored, as in the saver. A checkpoint whose id is in no list is the
# oldest: the saver loads it by its id only. Each key has a time to live of its own; the saver
# renews that of the list with each checkpoint.


_Place = TypeVar("_Place", CheckpointEntry, WriteEntry)
_UNLISTED = float("-inf")
FIRST = 0.0
"""The rank of the first id in a list. Those behind it have negative ranks."""
_UNLISTED_FAULT = "not in the list of its namespace, so the saver loads it only by its id"
_GONE = "expired or removed, but the saver still uses it as the head, so it loads nothing"


class ValkeyStrings(RedisLayout):
    """The layout of ValkeySaver."""

    name = "valkey"
    saver = "ValkeySaver of langgraph-checkpoint-aws 1.2"
    capabilities = BACKEND.layouts["valkey"]
    tables = (f"{CHECKPOINT}:{{*", f"{WRITES}:{{*")
    types: Mapping[str, str] = {WRITES: STRING, CHECKPOINT: STRING, THREADS: LIST}
    is_by_arrival = True
    removal = ValkeyRemoval
    plan: type[ValkeyPlan] = ValkeyPlan

    # What its texts are

    def read_start(self, answer: bytes) -> CheckpointStart | None:
        """What a checkpoint begins with; None if it has another form than the saver's."""
        return start_of(answer)

    def read_checkpoint(self, answer: bytes) -> CheckpointText:
        """The contents of a checkpoint's key."""
        return stored_checkpoint(answer)

    def text_of(self, record: Record) -> bytes:
        """A new checkpoint."""
        return new_checkpoint(record)

    def text_of_copy(
        self, fields: Mapping[str, Any], target: CheckpointKey, copy: CopyOfCheckpoint
    ) -> bytes:
        """A copy of a checkpoint with these fields."""
        copied = {**fields, "thread_id": target.thread_id}
        return checkpoint_text(copied, copy.body, copy.metadata)

    def element_of(self, write: Record) -> dict[str, Any]:
        """A new write, as an element of those of its checkpoint."""
        return write_fields(write)

    def storing(self, key: CheckpointKey, elements: Sequence[dict[str, Any]]) -> Command:
        """The command that stores the writes of a checkpoint that has none."""
        return ("SET", self.writes_name(key), writes_text(elements))

    def _contents(
        self, names: Iterable[bytes]
    ) -> Iterator[tuple[bytes, int, Iterable[WriteRecord]]]:
        """The writes under these keys, with the size of each key."""
        for place, size, answer in self._texts([WriteEntry(one, "") for one in names]):
            yield place.name, size, [] if answer is None else stored_writes(answer)

    def reception(self, arrival: Arrival) -> ValkeyReception:
        return ValkeyReception(self, arrival)

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

    def _pattern(self, kind: str, prefix: str = "") -> bytes:
        """Matches all keys of a kind; may leave out threads whose ids begin otherwise."""
        return literally(f"{kind}:{{{prefix}") + b"*"

    def namespaces(self, prefix: str = "") -> Iterator[ListedNamespace]:
        pattern = self._pattern(CHECKPOINT, prefix)
        names = partial(self.connection.scan, pattern, STRING)
        listed = namespaces_by_name(names, self._identified, b":")
        for some in in_chunks(listed):
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

    def find(self, thread_ids: Collection[str]) -> dict[str, ThreadKeys]:
        found = {one: ThreadKeys() for one in thread_ids}
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
        for name, head in self._owners_of_lists(lists):
            if (keys := found.get(head.thread_id)) is not None:
                _, ns, own = head
                keys.lists[ns] = name
                if any(there == ns for there, _ in keys.places):
                    # Also if it is gone, while others are left.
                    entry = CheckpointEntry(head, self.checkpoint_name(head), rank=FIRST)
                    keys.places.setdefault((ns, own), entry)
        return found

    def pages(self) -> Iterator[ThreadKeys]:
        for names in self.connection.scan_once(self._pattern(CHECKPOINT), STRING):
            yield ThreadKeys(mixed=list(self._identified(names)))
        for names in self.connection.scan_once(self._pattern(WRITES), self.types[WRITES]):
            yield ThreadKeys(writes=[WriteEntry(one, "") for one in names])

    def writes_at(self, keys: Collection[CheckpointKey]) -> list[WriteEntry]:
        return [WriteEntry(self.writes_name(key), key.checkpoint_id) for key in keys]

    def entries(self, names: Sequence[bytes]) -> Iterator[CheckpointEntry]:
        known = {one.name: one for one in self._ranked(list(self._identified(names)))}
        gone = {one: key for one in names if one not in known and (key := self._key_of(one))}
        lists = (self.list_name(one.thread_id, one.checkpoint_ns) for one in gone.values())
        heads = self.connection.ask_all(("LINDEX", one, 0) for one in lists)
        for (name, key), head in zip(gone.items(), heads, strict=True):
            if head == raw(key.checkpoint_id):
                known[name] = CheckpointEntry(key, name, rank=FIRST)
        yield from (known[one] for one in names if one in known)

    def _key_of(self, name: bytes) -> CheckpointKey | None:
        """The checkpoint of a key that does not exist; None if nothing tells it."""
        return key_of(name, None)

    def _identified(self, names: Sequence[bytes]) -> Iterator[CheckpointEntry]:
        """The checkpoints that exist under these keys, without ranks."""
        for name, start in zip(names, self._starts(names), strict=True):
            key = None if start is None else key_of(name, start.thread_id)
            if key is not None and start is not None:
                yield CheckpointEntry(key, name, start.parent)

    def _starts(self, names: Sequence[bytes]) -> Iterator[CheckpointStart | None]:
        """The ids in these checkpoints; None if there is no such string."""
        for name, answer in zip(names, self._beginnings(names), strict=True):
            yield (self.read_start(answer) or self._whole_start(name)) if answer else None

    def _beginnings(self, names: Sequence[bytes]) -> Iterator[bytes]:
        """The beginnings of these checkpoints, with their ids; empty if there is no such string."""
        return self.connection.ask_all(
            ("GETRANGE", one, 0, START_BYTES + ESCAPED * len(one)) for one in names
        )

    def _whole_start(self, name: bytes) -> CheckpointStart:
        """The ids in a checkpoint that another saver wrote, or none if it is too long."""
        ((_, _, answer),) = self._texts([WriteEntry(name, "")])
        return self.read_checkpoint(answer or b"").start

    def _ranked(self, places: Sequence[CheckpointEntry]) -> Iterator[CheckpointEntry]:
        """The same checkpoints, with their places in the lists."""
        by_list: dict[bytes, list[CheckpointEntry]] = {}
        for one in places:
            by_list.setdefault(self.list_name(*one.key[:2]), []).append(one)
        for name, ids in zip(by_list, self.ids(by_list), strict=True):
            ranks = {own: FIRST - place for place, own in reversed(list(enumerate(ids)))}
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
        for name, key, _ in self.records(names):
            yield name, key, True

    # Contents

    def _texts(self, places: Sequence[_Place]) -> Iterator[tuple[_Place, int, bytes | None]]:
        """The places with the sizes and contents of their keys; see `with_contents`."""
        measure, read = (lambda one: ("STRLEN", one.name)), (lambda one: ("GET", one.name))
        return with_contents(self.connection, places, measure, read)

    def checkpoints(
        self, places: Sequence[CheckpointEntry], asked: CheckpointQuery
    ) -> Iterator[Checkpoint]:
        for place, size, answer in self._texts(places):
            parent = place.parent
            if size > MOST_BYTES:
                body = metadata = unread("", size)
            elif answer is not None:
                stored = self.read_checkpoint(answer)
                body, metadata, parent = stored.body, stored.metadata, stored.start.parent
            elif place.rank == FIRST:
                body = metadata = TypedBytes("", b"", problem=_GONE)
            else:  # expired or deleted since
                continue
            yield Checkpoint(
                place.key,
                parent,
                body if asked.body else None,
                metadata if asked.metadata else None,
            )

    def records(self, names: Sequence[bytes]) -> Iterator[tuple[bytes, CheckpointKey, WriteRecord]]:
        """The writes under these keys, in the order of arrival."""
        keys = self._owners(names)
        for name, size, found in self._contents(keys):
            if size > MOST_BYTES:
                found = [WriteRecord("", 0, UNKNOWN, unread("", size), size, None)]  # noqa: PLW2901
            yield from ((name, keys[name], one) for one in found)

    def writes(
        self, places: Sequence[WriteEntry], values: bool | Collection[str]
    ) -> Iterator[Write]:
        for _, key, one in self.records([place.name for place in places]):
            wanted = values if isinstance(values, bool) else one.channel in values
            size = len(one.value.data) if one.value.whole is None else one.value.whole
            value = one.value if wanted else None
            yield Write(key, one.task_id, one.task_path, one.idx, one.channel, size, value)

    def usage(self, found: ThreadKeys) -> Iterator[tuple[str, Usage]]:
        """The lengths of the stored texts. Base64 makes them a third longer than the values."""
        checkpoints = found.checkpoints
        names = [one.name for one in checkpoints]
        sizes = self.connection.ask_all(("STRLEN", one) for one in names)
        for place, start, size in zip(checkpoints, self._starts(names), sizes, strict=True):
            key = place.key
            tag = (start.tag if start is not None else None) or ""
            where = (key.thread_id, key.checkpoint_ns, None)
            length = max(int(size or 0) - (0 if start is None else start.length), 0)
            of_body = (self.tables[0], "checkpoint", *where, tag, 1, length)
            yield key.checkpoint_id, Usage(*of_body)
            # Metadata is stored in the same text.
            yield key.checkpoint_id, Usage(self.tables[0], "metadata", *where, "json", 1, 0)
        for _, key, one in self.records([place.name for place in found.writes]):
            of_write = (self.tables[1], "value", key.thread_id, key.checkpoint_ns)
            yield (key.checkpoint_id, Usage(*of_write, one.channel, one.value.type, 1, one.length))

    def expiring_keys(self, found: ThreadKeys) -> Iterator[ThreadKey]:
        yield from super().expiring_keys(found)
        yield from (ThreadKey(name, THREADS, ns) for ns, name in found.lists.items())

    def thread_faults(self, thread_id: str, found: ThreadKeys) -> Iterator[Fault]:
        yield from super().thread_faults(thread_id, found)
        for ns in sorted({ns for ns, _ in found.places}):
            here = [one.key for (space, _), one in found.places.items() if space == ns]
            name = self.list_name(thread_id, ns)
            (ids,) = self.ids([name])
            listed = [CheckpointKey(thread_id, ns, text(own)) for own in dict.fromkeys(ids)]
            if listed:
                yield from gone_from_list(self, name, listed, "LREM {} 0")
                for one in sorted(set(here) - set(listed)):
                    yield Fault("index-stale", _UNLISTED_FAULT, *one)
                continue
            newest_first = sorted((raw(one.checkpoint_id) for one in here), reverse=True)
            detail = "there is no list of checkpoints, so the saver finds none here"
            fix = f"RPUSH {quoted(name)} {' '.join(map(quoted, newest_first))}"
            yield Fault("index-stale", detail, thread_id, ns, fix=fix)

    def threads_with_writes(self) -> Iterator[str]:
        for names in self.connection.scan(self._pattern(WRITES), self.types[WRITES]):
            yield from (key.thread_id for key in self._owners(names).values())

    def sources(self, key: CheckpointKey) -> list[str]:
        listed = self.list_name(key.thread_id, key.checkpoint_ns)
        return [
            f"GET {quoted(self.checkpoint_name(key))}",
            f"GET {quoted(self.writes_name(key))}",
            f"LRANGE {quoted(listed)} 0 -1",
        ]

    def keys_at(self, key: CheckpointKey, *, is_there: bool) -> CheckpointKeys:
        writes, checkpoint = self.writes_name(key), self.checkpoint_name(key)
        return CheckpointKeys(key, {WRITES: [writes], CHECKPOINT: [checkpoint]}, is_there)

    def _grouped(
        self, thread_id: str, found: ThreadKeys, owners: Iterable[Owner]
    ) -> KeysByCheckpoint:
        groups = self._groups(thread_id, found, owners)
        spaces = {ns: self.list_name(thread_id, ns) for ns, _ in groups} | found.lists
        return KeysByCheckpoint(
            thread_id, groups, {ns: {THREADS: [one]} for ns, one in spaces.items()}
        )

    def named_in(self, some: Sequence[KeysByCheckpoint]) -> list[set[bytes]]:
        found: list[set[bytes]] = []
        for keys in some:
            lists = {ns: name for ns, kinds in keys.shared.items() for name in kinds[THREADS]}
            pairs = zip(lists, self.ids(lists.values()), strict=True)
            listed = (
                CheckpointKey(keys.thread_id, ns, text(own)) for ns, ids in pairs for own in ids
            )
            found.append({self.checkpoint_name(one) for one in listed})
        return found

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


def _checkpoint_of(name: bytes) -> bytes:
    """The key of the checkpoint of writes with this key."""
    return raw(CHECKPOINT) + name[name.index(b":") :]


def _may_be_of(rest: bytes, thread_ids: Collection[str]) -> bool:
    """Whether a key of one of these threads may end with `rest`, which follows its first brace."""
    if rest.count(b"}:") > 1:
        return any(rest.startswith(raw(one) + b"}:") for one in thread_ids)
    return text(rest.partition(b"}:")[0]) in thread_ids


# Stores threads of other stores as ValkeySaver would.
#
# All writes of a checkpoint are one text. They wait in a temporary file until all records have
# come.


_NAMES_AT_ONCE = 1000
_LEAST, _MOST = -(1 << 63), (1 << 64) - 1


class _WaitingWrite(NamedTuple):
    """A write whose text is in the file. Tasks are sorted by the first three fields."""

    order: str
    task_id: str
    idx: int
    start: int
    expires_at: int | None


def _last_of(times: Collection[int | None]) -> int | None:
    """When a key expires that holds several things: with the last of them, if all of them do."""
    known = [one for one in times if one is not None]
    return max(known) if len(known) == len(times) else None


class ValkeyReception(Reception[ValkeyStrings]):
    """The texts of checkpoints and of their writes, and the lists of checkpoints."""

    def __init__(self, layout: ValkeyStrings, arrival: Arrival) -> None:
        super().__init__(layout, arrival)
        self._connection = layout.connection
        self._file: BinaryIO = TemporaryFile()  # noqa: SIM115 - closed with this object
        self._writes: dict[CheckpointKey, list[_WaitingWrite]] = {}
        self._merged: list[CheckpointKey] = []
        """The checkpoints that have writes in the store already."""
        self._new: dict[str, dict[str, int | None]] = {}
        """By namespace, the checkpoints that come, with their times of expiry."""

    def documents(self, record: Record) -> Iterator[NewDocument]:
        if record.kind is Kind.CHECKPOINT:
            _, ns, own = record.key
            name = self._layout.checkpoint_name(record.key)
            self._check_key(record.key, name)
            _check_metadata(record.metadata.data, f"the metadata of checkpoint '{own}'")
            self._new.setdefault(ns, {})[own] = record.expires_at
            yield NewDocument(name, new_checkpoint(record), record.expires_at, is_string=True)
        elif record.kind is Kind.WRITE:
            self._add_write(record)
        else:
            raise CannotHold(f"ValkeySaver stores channel '{record.channel}' in checkpoints only")

    def _add_write(self, record: Record) -> None:
        key = record.key
        self._check_key(key, self._layout.writes_name(key))
        place = record.order, record.task_id, record.idx, self._file.tell()
        self._writes.setdefault(key, []).append(_WaitingWrite(*place, record.expires_at))
        self._file.write(json.dumps(write_fields(record)).encode() + b"\n")

    def _check_key(self, key: CheckpointKey, name: bytes) -> None:
        """Raise `CannotHold` if a key may be that of another thread, or cannot be written."""
        try:
            name.decode()
        except UnicodeDecodeError:
            raise CannotHold(f"'{text(name)}' has a lone surrogate") from None
        if "}:" in key.checkpoint_ns or key_of(name, key.thread_id) != key:
            raise CannotHold(f"the key '{text(name)}' may be one of another thread")

    def rest(self) -> Iterator[NewDocument]:
        for key, waiting in self._writes.items():
            name = self._layout.writes_name(key)
            if self.arrival.heads and self._connection.number_of([name]):
                self._merged.append(key)
            else:
                made = writes_text(self._elements(waiting))
                expires_at = _last_of([one.expires_at for one in waiting])
                yield NewDocument(name, made, expires_at, is_string=True)

    def _elements(self, waiting: Sequence[_WaitingWrite]) -> Iterator[Any]:
        """The writes in the order of the tasks, if it is known, or else as they came."""
        for one in sorted(waiting) if any(one.order for one in waiting) else waiting:
            self._file.seek(one.start)
            yield json.loads(self._file.readline())

    def heads(self) -> dict[str, str]:
        # The lists tell them; finding all keys of a thread takes a SCAN over the database.
        lists = self._lists()
        found = self._connection.ask_all(("LINDEX", name, 0) for name in lists.values())
        return {ns: text(own) for ns, own in zip(lists, found, strict=True) if own}

    def watched(self) -> Sequence[bytes]:
        writes = map(self._layout.writes_name, self._merged)
        return [*self._lists().values(), *writes]

    def _lists(self) -> dict[str, bytes]:
        """By namespace, the key of its list."""
        spaces = sorted({*self.arrival.heads, *self._new} or {""})
        return {ns: self._layout.list_name(self.arrival.thread_id, ns) for ns in spaces}

    def last(self) -> Iterator[Command]:
        for key in self._merged:
            yield from self._merging(key)
        for ns in sorted(self._new, reverse=True):
            yield from self._listing(ns)

    def _merging(self, key: CheckpointKey) -> Iterator[Command]:
        """Add writes behind those that the store has."""
        name = self._layout.writes_name(key)
        stored = [one.fields for one in stored_writes(self._connection.ask("GET", name) or b"[]")]
        new = list(self._elements(self._writes[key]))
        places = [(one["task_id"], one["idx"]) for one in (*stored, *new)]
        if len({*places}) != len(places):
            raise moved(key.thread_id)
        yield ("SET", name, writes_text([*stored, *new]), "KEEPTTL")

    def _listing(self, ns: str) -> Iterator[Command]:
        """Put the new checkpoints into the list of a namespace, the newest in front."""
        name = self._lists()[ns]
        new = sorted(self._new[ns])
        stored = [text(one) for one in self._connection.ask("LRANGE", name, 0, -1) or []]
        if stored and new[0] < stored[0]:
            # Older ones have expired here, and come again.
            new = sorted({*stored, *new})
            yield ("LTRIM", name, 1, 0)
        for some in in_chunks(new, _NAMES_AT_ONCE):
            yield ("LPUSH", name, *map(raw, some))
        left = int(self._connection.ask("PTTL", name)) if stored else 0
        if left != NO_EXPIRY:
            expires_at = _last_of(self._new[ns].values())
            yield from [("PERSIST", name)] if expires_at is None else expiring_at(name, expires_at)


def _check_metadata(data: bytes, where: str) -> None:
    """Raise `CannotHold` if the saver's JSON library, orjson, refuses or changes a text."""
    try:
        found = json.loads(data, parse_constant=_refused, parse_int=_integer)
        json.dumps(found, ensure_ascii=False).encode()
    except (ValueError, RecursionError) as error:
        raise CannotHold(f"{where} cannot be stored for ValkeySaver: {error}") from None


def _refused(word: str) -> object:
    raise ValueError(f"{word} is no JSON")


def _integer(digits: str) -> int:
    if not _LEAST <= (found := int(digits)) <= _MOST:
        raise ValueError("an integer has more than 64 bits")
    return found


_WITH_ACTORS, _OF_ACTORS, _FEW_TURNS = "valkey-agentcore", b"agentcore:checkpoint:*", 3
"""A layout, its keys, and how many times SCAN looks for them if there may be others."""


class ValkeyRecogniser(Recogniser):
    """Finds the stores of ValkeySaver and of AgentCoreValkeySaver.

    Other layouts have keys `checkpoint:...` too, but no strings that begin like its checkpoints.
    """

    rank = 4
    layouts = ("valkey", _WITH_ACTORS)
    separators = (":{",)

    def recognise(self, sample: Sample) -> Iterator[tuple[bytes, str]]:
        names = [one for one in sample.strings if one.startswith(b"checkpoint:{")]
        starts = self.connection.ask_all(("GETRANGE", one, 0, START_BYTES) for one in names)
        for name, start in zip(names, starts, strict=True):
            if start is not None and start.lstrip()[:1] == b"{" and b'"thread_id"' in start:
                yield name, "valkey"

    def named(self, layout: str, prefix: str | None, write_prefix: str | None) -> RecognisedStore:  # noqa: ARG002
        def opened() -> ValkeyStrings:
            if layout == "valkey":
                return ValkeyStrings(self.connection)
            from ckpt_backends.redis.valkey.agentcore_layout import AgentCoreStrings

            return AgentCoreStrings(self.connection, self.database.params.get("actor"))

        return RecognisedStore(layout, opened)

    def stores(self) -> list[RecognisedStore]:
        # The beginning of its keys is not looked for by others. A search of all keys takes long.
        found = super().stores()
        return found + list(self._of_actors(islice(self.connection.scan(_OF_ACTORS), _FEW_TURNS)))

    def stores_if_alone(self) -> list[RecognisedStore]:
        return list(self._of_actors(self.connection.scan(_OF_ACTORS)))

    def _of_actors(self, names: Iterable[object]) -> Iterator[RecognisedStore]:
        if any(names):
            yield self.named(_WITH_ACTORS, None, None)

    def expected(self, prefix: str | None) -> str:  # noqa: ARG002
        return "checkpoint:{*"


# Checks that a database is free for ValkeySaver, which needs nothing in it.


def create_store(url: StoreUrl, language: Language) -> None:  # noqa: ARG001 - Python only
    """Check that a database is empty or has this layout. Raises `Refused` if it has other keys."""
    from ckpt_backends.redis.engine.connection import connect
    from ckpt_backends.redis.engine.store import open_layout

    with understood(url), closing(connect(url)) as connection:
        try:
            if not any(connection.scan(b"*")):
                return
            found = open_layout(connection, url).name
        except UnknownLayout:
            found = "none that ckpt knows"
    if found != "valkey":
        raise Refused(
            f"cannot make a store in '{url}': the database has other keys; their layout: {found}",
            hint=f"name an empty database: {url.scheme}://HOST:PORT/N",
        )
