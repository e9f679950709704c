"""The layout of langgraph-checkpoint-redis 0.1 to 0.5: each checkpoint is a RedisJSON document.

    checkpoint:THREAD:NS:ID                  {thread_id, checkpoint_ns, checkpoint_id,
                                              parent_checkpoint_id, checkpoint: {...},
                                              metadata: "JSON text", has_writes, source, step, ...}
    checkpoint_latest:THREAD:NS              the key of the head
    checkpoint_write:THREAD:NS:ID:TASK:IDX   {thread_id, ..., task_id, task_path, idx, channel,
                                              type, blob}
    write_keys_zset:THREAD:NS:ID             the keys of a checkpoint's writes

Source: `put`, `put_writes` and `_make_redis_checkpoint_key` in `langgraph/checkpoint/redis`, 0.1.0
to 0.5.2. Keys are not escaped and may be ambiguous, so thread, namespace and id are read from the
document. An empty namespace is stored as `__empty__`, an empty id as the nil UUID. ckpt ignores
`has_writes`: `put` may overwrite the flag that `put_writes` set, and then the saver itself does not
see the writes.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any, NamedTuple

from ckpt_backends.changes import Change
from ckpt_backends.codec.values import MOST_BYTES, REDIS_JSON, unread
from ckpt_backends.errors import StoreUnavailable, Unsupported
from ckpt_backends.model import Capability, CheckpointKey, Fault, Kind, Record, Write, time_of
from ckpt_backends.redis.engine.changes import AddedWrite, ListOfWrites, exact_json, expiring_at
from ckpt_backends.redis.engine.connection import Command, RedisConnection
from ckpt_backends.redis.engine.documents import (
    OF_WRITE,
    PLACE,
    POINTERS,
    REGISTRIES,
    JsonDocuments,
    JsonPlan,
    checkpoint_names,
    hidden_writes,
    writes_by_checkpoint,
)
from ckpt_backends.redis.engine.keyspace import (
    APART,
    CHECKPOINT,
    DOCUMENT,
    LISTS,
    USUAL,
    CheckpointEntry,
    ListedNamespace,
    Prefixes,
    ThreadKeys,
    WriteEntry,
    fields_at,
    fields_of,
    literally,
    meant_id,
    meant_ns,
    quoted,
    raw,
    rows_of,
    stored_forms,
    stored_id,
    stored_ns,
    text,
    with_sizes,
)
from ckpt_backends.redis.engine.layout import (
    NewDocument,
    Reception,
    RecognisedStore,
    Recogniser,
    RedisLayout,
    Sample,
    ThreadKey,
    expiring,
    keys_of_checkpoints,
)
from ckpt_backends.redis.engine.search import indexes, is_of_javascript, prefixes_of
from ckpt_backends.redis.engine.store import RedisStore
from ckpt_backends.redis.official.declaration import BACKEND, SHALLOW
from ckpt_backends.redis.official.records import checkpoint_document, stored_value, write_document
from ckpt_backends.rows import Row
from ckpt_backends.transfer.copying import Arrival
from ckpt_backends.transfer.form import CannotHold
from ckpt_backends.url import StoreUrl

# Finds the prefixes of the savers in a database, and pairs prefixes of checkpoints and writes.
#
# langgraph-checkpoint-redis has two independent prefixes, one for checkpoints and one for writes.
# The prefixes are read from the search indexes or, without the search module, from the keys. Two
# facts pair them: the list of a checkpoint's writes (`write_keys_zset:...`, `write_registry:...`)
# contains the keys of these writes, and each write names its checkpoint. Source:
# `checkpoints_schema` and `writes_schema` in `base.py` of langgraph-checkpoint-redis 0.5.2.


_SAMPLED = 20
_INDEXED = {*PLACE, "parent_checkpoint_id"}
_INDEXED_OF_WRITE = {*PLACE, "task_id", "channel"}
"""What the indexes of checkpoints and of writes have at least."""


class KnownPrefixes(NamedTuple):
    """The prefixes in a database. The default prefixes are always included."""

    checkpoints: set[str]
    writes: set[str]


def known_prefixes(connection: RedisConnection) -> KnownPrefixes:
    """The prefixes of all savers, from the search indexes; without the module, from the keys."""
    known = KnownPrefixes({USUAL.checkpoint}, {USUAL.write})
    found = indexes(connection)
    if found is None:
        _add_from_keys(connection, known)
    for prefix, tags in prefixes_of(found or ()):
        if tags >= _INDEXED_OF_WRITE:
            known.writes.add(prefix)
        elif tags >= _INDEXED:
            known.checkpoints.add(prefix)
    return known


def _add_from_keys(connection: RedisConnection, known: KnownPrefixes) -> None:
    """Add the prefixes found in the keys. Examines some keys of each different first part."""
    if connection.find("JSON.MGET", raw(USUAL.checkpoint), "$") is None:
        return  # the server has no JSON documents
    looked_at: Counter[bytes] = Counter()
    starts: tuple[bytes, ...] = (raw(f"{USUAL.checkpoint}:"), raw(f"{USUAL.write}:"))
    for names in connection.scan(b"*", DOCUMENT):
        for name in names:
            first = name.partition(b":")[0]
            if name.startswith(starts) or looked_at[first] >= _SAMPLED:
                continue
            looked_at[first] += 1
            paths = [f"$.{one}" for one in (*PLACE, "task_id", "idx")]
            fields = fields_of(connection.find("JSON.GET", name, *paths))
            match [fields.get(path) for path in paths]:
                case [str(thread), str(ns), str(own), str(task), int(idx)]:
                    found, ends = known.writes, [f":{thread}:{ns}:{own}:{task}:{idx}"]
                case [str(thread), str(ns), str(own), None, None]:
                    found = known.checkpoints
                    ends = [f":{thread}:{ns}:{own}", f":{thread}:{meant_ns(ns)}"]
                case _:
                    continue
            for end in map(raw, ends):
                if name.endswith(end):
                    found.add(text(name.removesuffix(end)))
                    starts = (*starts, name.removesuffix(end) + b":")
                    break


def pair(
    connection: RedisConnection,
    known: KnownPrefixes,
    stores: Mapping[tuple[str, str], Sequence[bytes]],
) -> dict[tuple[str, str], list[str]]:
    """By store, the prefix of its writes; several if that is ambiguous.

    A store is a layout and a prefix of checkpoints, with the keys of some of its checkpoints.
    """
    writes = {one: list(_sample(connection, one)) for one in sorted(known.writes)}
    there = [one for one, some in writes.items() if some]
    found: dict[tuple[str, str], list[str]] = {}
    for store, names in stores.items():
        listed = sorted(listed_prefixes(connection, store[0], names))
        found[store] = listed or [
            one for one in there if _name_a_checkpoint(connection, store[1], writes[one])
        ]
    sure = {one[0] for one in found.values() if len(one) == 1}
    for (layout, prefix), some in found.items():
        if not some:
            usual = USUAL.write if prefix == USUAL.checkpoint else f"{prefix}_write"
            left = [one for one in there if one not in sure]
            # If no writes are left, the guess does no harm.
            found[layout, prefix] = [usual] if usual in left or not left else left
    return found


def listed_prefixes(connection: RedisConnection, layout: str, names: Sequence[bytes]) -> set[str]:
    """The prefixes of the writes in the lists of these checkpoints."""
    lists: list[tuple[bytes, str]] = []
    for _, fields in fields_at(connection, names, PLACE):
        match fields:
            case [str(thread), str(ns), str(own)]:
                for space in stored_forms(ns):
                    place = f"{thread}:{space}"
                    name = (
                        f"{REGISTRIES}:{place}:shallow"
                        if layout == SHALLOW
                        else f"{LISTS}:{place}:{own}"
                    )
                    # A shallow saver's list has writes of all checkpoints and all prefixes.
                    lists.append((raw(name), f":{thread}:{stored_ns(ns)}:{own}:"))
    members = connection.ask_all([("ZRANGE", name, 0, -1) for name, _ in lists])
    return {
        text(member).partition(at)[0]
        for (_, at), some in zip(lists, members, strict=True)
        for member in some or ()
        if at in text(member)
    }


def _sample(connection: RedisConnection, prefix: str) -> Iterator[CheckpointKey]:
    """The checkpoints that some writes name."""
    names = next(iter(connection.scan(literally(f"{prefix}:") + b"*", DOCUMENT)), [])
    some = names[:: len(names) // _SAMPLED + 1]
    # The user may have access to the keys of one store only.
    with suppress(StoreUnavailable):
        for _, fields in fields_at(connection, some, (*PLACE, "task_id")):
            match fields:
                case [str(thread), str(ns), str(own), str()]:
                    yield CheckpointKey(thread, ns, own)


def _name_a_checkpoint(
    connection: RedisConnection, prefix: str, keys: Sequence[CheckpointKey]
) -> bool:
    """Whether one of these checkpoints is stored with this prefix."""
    names = [name for key in keys for name in checkpoint_names(prefix, key)]
    ids = {key.checkpoint_id for key in keys}
    return any(fields[-1] in ids for _, fields in fields_at(connection, names, PLACE))


# Faults in the keys by which RedisSaver finds the head of a namespace and the writes of a
# checkpoint: pointers, lists and the field `has_writes`.
#
# Source: `put`, `put_writes` and `_load_pending_writes_with_registry_check` in
# `langgraph/checkpoint/redis/__init__.py`, 0.1.0 to 0.5.2.


_FEW = 3
"""Maximum number of keys that a fix names."""


def pointer_fault(
    connection: RedisConnection, pointer: bytes, here: Mapping[str, CheckpointEntry]
) -> Iterator[Fault]:
    """What is wrong with the pointer to the head of a namespace with these checkpoints, by id."""
    newest = here[max(here)]
    fix = f"SET {quoted(pointer)} {quoted(newest.name)} KEEPTTL"
    thread_id, ns = newest.key.thread_id, newest.key.checkpoint_ns
    name = connection.ask("GET", pointer)
    named = next((one for one in here.values() if one.name == name), None)
    if named == newest:
        return
    if named is None:
        if name is None:
            detail = "there is no pointer to the head, so the saver finds no checkpoint here"
        elif connection.number_of([name]):
            return  # a checkpoint that was stored after the others were listed
        else:
            detail = "the pointer to the head names a checkpoint that is not stored, so the saver"
            detail += " finds no checkpoint here"
        yield Fault("index-stale", detail, thread_id, ns, fix=fix, is_error=True)
        return
    if newest.key.checkpoint_id in _ancestors(named, here):
        return  # the ids are wrong, not the pointer
    own = named.key.checkpoint_id
    detail = f"the pointer to the head names this checkpoint, not {newest.key.checkpoint_id}"
    has_child = any(one.parent == own for one in here.values())
    code = "head-not-newest" if has_child else "index-stale"
    yield Fault(code, detail, thread_id, ns, own, fix=fix)


def other_head(
    connection: RedisConnection, pointer: bytes, here: Mapping[str, CheckpointEntry]
) -> str:
    """What the saver does instead of loading the newest of these checkpoints, in words."""
    name = connection.ask("GET", pointer)
    if name == here[max(here)].name:
        return ""
    if name is None:
        return "the saver finds no checkpoint: there is no pointer to this one"
    own = next((own for own, one in here.items() if one.name == name), None)
    if own is not None:
        return f"the saver loads {own} instead, which the pointer to the head names"
    if connection.number_of([name]):
        return ""  # a checkpoint that was stored after the others were listed
    return "the saver finds no checkpoint: the pointer names one that is not stored"


def _ancestors(one: CheckpointEntry, here: Mapping[str, CheckpointEntry]) -> set[str]:
    found: set[str] = set()
    while one.parent is not None and one.parent in here and one.parent not in found:
        found.add(one.parent)
        one = here[one.parent]
    return found


def list_faults(
    connection: RedisConnection,
    owner: CheckpointEntry,
    lists: Mapping[bytes, Sequence[bytes]],
    writes: Sequence[bytes],
    *,
    is_whole: bool = True,
) -> Iterator[Fault]:
    """What is wrong with the lists of a checkpoint's writes; `writes` are those that are stored.

    Keys that expire do so one by one, so what is missing then is no fault. `is_whole` is False for
    a list that may name writes of other checkpoints.
    """
    listed = {name for names in lists.values() for name in names}
    place = (owner.key.thread_id, owner.key.checkpoint_ns, owner.key.checkpoint_id)
    own = next(iter(lists))
    lost = staying(connection, [one for one in writes if one not in listed])
    if lost:
        members = " ".join(f"0 {quoted(one)}" for one in lost)
        detail = f"{len(lost)} of {len(writes)} writes are not in the list of writes, so the saver"
        detail += " does not find them"
        fix = f"ZADD {quoted(own)} {members}" if len(lost) <= _FEW else ""
        yield Fault("index-stale", detail, *place, fix=fix)
    stored = set(writes)
    for name, members_of in lists.items() if is_whole else ():
        gone = [one for one in members_of if one not in stored]
        if gone and not connection.number_of(gone) and staying(connection, [name]):
            members = " ".join(map(quoted, gone))
            detail = f"the list of writes names {len(gone)} that are not stored"
            fix = f"ZREM {quoted(name)} {members}" if len(gone) <= _FEW else ""
            yield Fault("index-stale", detail, *place, fix=fix)


def staying(connection: RedisConnection, names: Iterable[bytes]) -> list[bytes]:
    """Those of these keys that exist and do not expire."""
    asked = list(names)
    left = connection.ask_all(("PTTL", one) for one in asked)
    return [name for name, ms in zip(asked, left, strict=True) if ms == -1]


def members_of(connection: RedisConnection, lists: Sequence[bytes]) -> Iterator[list[bytes]]:
    """The writes that each of these lists names; empty if there is no such list."""
    return (one or [] for one in connection.ask_all(("ZRANGE", name, 0, -1) for name in lists))


# Creates commands that change the layout of `documents` in the same form as the saver.


class DocumentPlan(JsonPlan):
    """A change of documents, of the pointer to each head, and of the lists of writes."""

    def __init__(self, layout: JsonDocuments, change: Change) -> None:
        super().__init__(layout, change)
        self.watched = [self._pointer(ns) for ns in sorted(change.heads) or [""]]
        self._order: dict[bytes, bytes] = {}
        """By key of a copied write, its place in the list of the original."""

    def _pointer(self, ns: str) -> bytes:
        (names,) = self._layout.pointers(self._change.thread_id, ns).values()
        return names[-1]

    def add(self, record: Record, origin: bytes | None, writes: int) -> Iterator[Command]:  # noqa: ARG002
        stored = checkpoint_document(record, _stored_at(record.key), has_writes=writes > 0)
        yield ("JSON.SET", self._layout.checkpoint_name(record.key), "$", stored)

    def add_write(self, record: Record) -> Iterator[Command]:
        name = self.write_name(record.key, record.task_id, record.idx)
        yield ("JSON.SET", name, "$", write_document(record))

    def register(
        self, key: CheckpointKey, added: Sequence[AddedWrite], expiry: int
    ) -> Iterator[Command]:
        self._order = {}
        for source in {one.source for one in added if one.source is not None}:
            listed = self._layout.lists(source)[0]
            found = self._connection.ask("ZRANGE", listed, 0, -1, "WITHSCORES")
            self._order |= dict(zip(found[::2], found[1::2], strict=True))
        return super().register(key, added, expiry)

    def score(self, number: int, one: AddedWrite) -> bytes:
        return self._order.get(one.copied or b"", str(number).encode())

    def point(self, key: CheckpointKey, expiry: int, *, there: bool) -> Iterator[Command]:
        pointer = self._pointer(key.checkpoint_ns)
        if not there:
            yield ("UNLINK", pointer)
            return
        yield ("SET", pointer, self._layout.checkpoint_name(key))
        yield from expiring(pointer, expiry)


def _stored_at(key: CheckpointKey) -> float:
    """Return the time of a checkpoint in milliseconds: the same if it is added again."""
    at = time_of(key.checkpoint_id)
    return time.time() * 1000 if at is None else at.timestamp() * 1000


class Documents(JsonDocuments):
    """The layout of RedisSaver and AsyncRedisSaver, with the full history."""

    name = "redis"
    saver = "langgraph-checkpoint-redis 0.1 or later"
    capabilities = BACKEND.layouts["redis"]
    lists_additions = True
    plan = DocumentPlan
    dialect = REDIS_JSON
    is_of_python = True
    value = "blob"

    def reception(self, arrival: Arrival) -> Reception[Any]:

        return DocumentReception(self, arrival)

    def stored_thread(self, thread_id: str) -> str:
        return stored_id(thread_id)

    def meant_thread(self, stored: str) -> str:
        return meant_id(stored)

    def place(self, key: CheckpointKey) -> str:
        return f"{stored_id(key.thread_id)}:{stored_ns(key.checkpoint_ns)}:{key.checkpoint_id}"

    def lists(self, key: CheckpointKey) -> list[bytes]:
        """There may be two: until 0.1.2, an empty namespace was stored as `""` in these keys."""
        start, end = f"{LISTS}:{stored_id(key.thread_id)}", key.checkpoint_id
        return [raw(f"{start}:{ns}:{end}") for ns in stored_forms(key.checkpoint_ns)]

    @cached_property
    def other_prefixes(self) -> Collection[str]:
        return sorted(known_prefixes(self.connection).checkpoints - {self.prefixes.checkpoint})

    def pointers(self, thread_id: str, ns: str) -> dict[str, list[bytes]]:
        """The keys of the pointers to a namespace's head.

        Before 0.5, the pointer always had the default prefix. If such a pointer exists and belongs
        to this saver, it is the last one.
        """
        place, prefix = f"{stored_id(thread_id)}:{stored_ns(ns)}", self.prefixes.checkpoint
        own, usual = (raw(f"{one}_latest:{place}") for one in (prefix, USUAL.checkpoint))
        if own == usual:
            return {POINTERS: [own]}
        named = self.connection.ask("GET", usual) or b""
        return {POINTERS: [own, usual] if named.startswith(raw(f"{prefix}:")) else [own]}

    def expiring_keys(self, found: ThreadKeys) -> Iterator[ThreadKey]:
        yield from super().expiring_keys(found)
        threads = {(one.key.thread_id, one.key.checkpoint_ns) for one in found.places.values()}
        for thread_id, ns in sorted(threads):
            for kind, names in self.pointers(thread_id, ns).items():
                yield from (ThreadKey(name, kind, ns) for name in names)

    def faults(self) -> Iterator[Fault]:
        """`index-missing` and `index-stale`. Nothing if the server has no search module."""
        known = indexes(self.connection)
        if known is None or not all(one.prefixes for one in known):
            return
        for prefix in (self.prefixes.checkpoint, self.prefixes.write):
            name = raw(f"{prefix}:")
            fitting = [
                one
                for one in known
                if name.startswith(tuple(one.prefixes)) and one.tags.issuperset(PLACE)
            ]
            if not fitting:
                detail = f"no search index covers the keys {quoted(name + b'*')}, so the saver can"
                detail += " neither list nor delete them; its setup() creates one"
                yield Fault("index-missing", detail, is_error=True)
            elif all(one.failures for one in fitting):
                detail = f"{fitting[0].failures} documents could not be added to the search index"
                detail += f" '{text(fitting[0].name)}', so the saver does not list them"
                yield Fault("index-stale", detail)

    def thread_faults(self, thread_id: str, found: ThreadKeys) -> Iterator[Fault]:
        yield from super().thread_faults(thread_id, found)
        for ns in sorted({ns for ns, _ in found.places}):
            here = {own: one for (space, own), one in found.places.items() if space == ns}
            pointer = self.pointers(thread_id, ns)[POINTERS][-1]
            yield from pointer_fault(self.connection, pointer, here)
        writes = writes_by_checkpoint(self, found)
        names = [name for one in writes for name in self.lists(one.key)]
        members = dict(zip(names, members_of(self.connection, names), strict=True))
        for one, stored in writes.items():
            lists = {name: members[name] for name in self.lists(one.key)}
            yield from list_faults(self.connection, one, lists, stored)
        yield from hidden_writes(self, writes)

    def unloaded_head(self, thread_id: str, found: ThreadKeys) -> str:
        here = {own: one for (ns, own), one in found.places.items() if not ns}
        pointers = self.pointers(thread_id, "").get(POINTERS)
        return other_head(self.connection, pointers[-1], here) if here and pointers else ""

    def writes(
        self, places: Sequence[WriteEntry], values: bool | Collection[str]
    ) -> Iterator[Write]:
        for some in with_sizes(places, self._sizes):
            # One command for many whole documents, which takes much less time in the driver.
            told = dict(self.fields([one.name for one, size in some if size <= MOST_BYTES], "$"))
            large = [one.name for one, size in some if size > MOST_BYTES]
            beginnings = dict(fields_at(self.connection, large, (*OF_WRITE, "type")))
            for place, size in some:
                if size > MOST_BYTES:
                    *fields, tag = beginnings[place.name]
                    stored = unread(str(tag), size)
                else:
                    (found,) = told[place.name] or [{}]
                    found = found if isinstance(found, dict) else {}
                    fields = [found.get(name) for name in OF_WRITE]
                    stored = stored_value(str(found.get("type") or ""), found.get("blob"))
                if (one := self.write(fields, stored, values)) is not None:
                    yield one


# The layout of langgraph-checkpoint-redis 0.0: a document's key contains the id of the parent.
#
#     checkpoint:THREAD:NS:PARENT              {thread_id, checkpoint_ns, checkpoint_id: PARENT,
#                                               parent_checkpoint_id: PARENT, checkpoint: {id, ...},
#                                               metadata: "JSON text", source, step}
#     checkpoint_write:THREAD:NS:ID:TASK:IDX   as in 0.1, with the id of the checkpoint
#     checkpoint_blob:THREAD:NS:CHANNEL:VERSION  {thread_id, ..., type, blob}
#
# Source: `put` in `langgraph/checkpoint/redis/__init__.py`, 0.0.1 to 0.0.8. The body of a
# checkpoint contains its id and all its values. Each value is also stored as a blob, which ckpt
# does not read. The saver itself reads such a store with wrong ids, without parents and without
# writes. The key of a first checkpoint has the nil UUID as parent; in 0.0.1 and 0.0.2 it has an
# empty text.


class OldRedisStore(RedisStore):
    """A Redis database with this layout, opened for reading."""

    def _named(self, keys: Sequence[CheckpointKey]) -> list[CheckpointEntry]:
        """Search the thread: the key of a checkpoint cannot be computed from its id."""
        found = []
        for key in dict.fromkeys(keys):
            place = self._find(key.thread_id).places.get((key.checkpoint_ns, key.checkpoint_id))
            found += [place] if place is not None else []
        return found


class OldDocuments(Documents):
    """The layout of RedisSaver and AsyncRedisSaver 0.0. It is read-only here."""

    saver = "langgraph-checkpoint-redis 0.0"
    capabilities = Documents.capabilities & ~Capability.ADDING
    store = OldRedisStore

    def __init__(self, connection: RedisConnection, prefixes: Prefixes = USUAL) -> None:
        super().__init__(connection, prefixes)
        self.tables = (*self.tables, f"{APART}:*")

    def check_writable(self, url: StoreUrl) -> None:
        raise Unsupported(
            f"'{url}' was written by {self.saver}, which ckpt can only read:"
            " that release stores each checkpoint under the id of its parent",
            hint="delete threads with `delete_thread` of that release",
        )

    def rows(self, thread_id: str) -> Iterator[Row]:
        found = self.find([thread_id])[thread_id]
        names = [(APART, name) for name in self.blob_names(thread_id)]
        names += [
            (self.kind_of_writes, name)
            for name, key, _ in self.owners_of([one.name for one in found.writes])
            if key.thread_id == thread_id
        ]
        names += [(CHECKPOINT, one.name) for one in found.checkpoints]
        return rows_of(self.connection, self.types, names)

    def namespaces(self, prefix: str = "") -> Iterator[ListedNamespace]:
        return self._read_namespaces(prefix)

    def entries(self, names: Sequence[bytes]) -> Iterator[CheckpointEntry]:
        for name, fields in fields_at(self.connection, names, (*PLACE, "checkpoint.id")):
            match fields:
                case [str(thread), str(ns), str(before), str(own)]:
                    if name == raw(f"{self.prefixes.checkpoint}:{thread}:{ns}:{before}"):
                        key = CheckpointKey(meant_id(thread), meant_ns(ns), own)
                        yield CheckpointEntry(key, name, meant_id(before) or None)

    def name_of(self, document: Mapping[str, Any]) -> bytes | None:
        match document:
            case {"thread_id": str(thread), "checkpoint_ns": str(ns), "checkpoint_id": str(before)}:
                return raw(f"{self.prefixes.checkpoint}:{thread}:{ns}:{before}")
        return None

    def blob_names(self, thread_id: str) -> list[bytes]:
        """The keys of the separate values of a thread."""
        pattern = literally(f"{APART}:{stored_id(thread_id)}:") + b"*"
        names = {name for some in self.connection.scan(pattern, DOCUMENT) for name in some}
        told = fields_at(self.connection, sorted(names), PLACE)
        return [name for name, (own, *_) in told if own in {thread_id, stored_id(thread_id)}]

    def thread_faults(self, thread_id: str, found: ThreadKeys) -> Iterator[Fault]:
        """Only those of times to live: this release had no pointers and no lists of writes."""
        return RedisLayout.thread_faults(self, thread_id, found)

    def unloaded_head(self, thread_id: str, found: ThreadKeys) -> str:
        return RedisLayout.unloaded_head(self, thread_id, found)

    def expiring_keys(self, found: ThreadKeys) -> Iterator[ThreadKey]:
        return keys_of_checkpoints(found)

    def sources(self, key: CheckpointKey) -> list[str]:
        found = self.find([key.thread_id])[key.thread_id]
        places = [one for one in found.places.values() if one.key == key]
        writes = literally(f"{self.prefixes.write}:{stored_id(key.thread_id)}:")
        return [
            *(f"JSON.GET {quoted(one.name)}" for one in places),
            f"SCAN 0 MATCH {quoted(writes + b'*:' + literally(key.checkpoint_id) + b':*')}",
        ]


# The layout of ShallowRedisSaver: a RedisJSON document with the newest checkpoint of a namespace.
#
#     checkpoint:THREAD:NS    {thread_id, checkpoint_ns, checkpoint_id, checkpoint, metadata: {...}}
#
# Writes are stored as in `documents`, and the writes of overwritten checkpoints stay. An empty
# namespace is `""` in the key and `__empty__` in the document. Source: `shallow.py` of
# langgraph-checkpoint-redis 0.1.0 to 0.5.2.


class ShallowDocuments(Documents):
    """The newest checkpoint of each namespace."""

    name = SHALLOW
    saver = "langgraph-checkpoint-redis, ShallowRedisSaver"
    capabilities = BACKEND.layouts[SHALLOW]

    def reception(self, arrival: Arrival) -> Reception[Any]:
        return RedisLayout.reception(self, arrival)

    def checkpoint_name(self, key: CheckpointKey) -> bytes:
        parts = (self.prefixes.checkpoint, stored_id(key.thread_id), key.checkpoint_ns)
        return raw(":".join(parts))

    def lists(self, key: CheckpointKey) -> list[bytes]:  # noqa: ARG002
        """Empty: a namespace has one list for the writes of all its checkpoints."""
        return []

    def pointers(self, thread_id: str, ns: str) -> dict[str, list[bytes]]:
        """Until 0.1.x, an empty namespace was stored as `""` in these keys."""
        start = f"{REGISTRIES}:{stored_id(thread_id)}"
        return {REGISTRIES: [raw(f"{start}:{space}:shallow") for space in stored_forms(ns)]}

    def thread_faults(self, thread_id: str, found: ThreadKeys) -> Iterator[Fault]:
        yield from RedisLayout.thread_faults(self, thread_id, found)
        for one, stored in writes_by_checkpoint(self, found).items():
            names = self.pointers(thread_id, one.key.checkpoint_ns)[REGISTRIES]
            members = zip(names, members_of(self.connection, names), strict=True)
            yield from list_faults(self.connection, one, dict(members), stored, is_whole=False)

    def sources(self, key: CheckpointKey) -> list[str]:
        place = f"{stored_id(key.thread_id)}:{stored_ns(key.checkpoint_ns)}"
        start = literally(f"{self.prefixes.write}:{place}:{key.checkpoint_id}:")
        return [
            f"JSON.GET {quoted(self.checkpoint_name(key))}",
            f"ZRANGE {quoted(raw(f'write_registry:{place}:shallow'))} 0 -1",
            f"SCAN 0 MATCH {quoted(start + b'*')}",
        ]

    def namespaces(self, prefix: str = "") -> Iterator[ListedNamespace]:
        return self._read_namespaces(prefix)

    def entries(self, names: Sequence[bytes]) -> Iterator[CheckpointEntry]:
        return (one._replace(parent=None) for one in super().entries(names))


# Recognises the stores of langgraph-checkpoint-redis, and finds their prefixes.


_OLD = "old"
_Samples = dict[tuple[str, str], Sequence[bytes]]
"""By layout and prefix of checkpoints, the keys of some checkpoints."""


class DocumentRecogniser(Recogniser):
    """Finds the stores of RedisSaver and ShallowRedisSaver.

    A checkpoint of RedisSaver has its metadata as a text, one of ShallowRedisSaver as an object.
    Release 0.0 stores no `has_writes`. Checkpoints and writes have prefixes of their own, so one
    database may have several stores.
    """

    rank = 0
    layouts = (Documents.name, ShallowDocuments.name)

    @cached_property
    def _known(self) -> KnownPrefixes:
        return known_prefixes(self.connection)

    def recognise(self, sample: Sample) -> Iterator[tuple[bytes, str]]:
        for one in sample.documents:
            if not isinstance(one.has_writes, str):
                full = Documents.name if isinstance(one.has_writes, bool) else _OLD
                yield one.name, full if one.has_text else ShallowDocuments.name

    def is_certain(self, layout: str) -> bool:  # noqa: ARG002
        return False

    def named(self, layout: str, prefix: str | None, write_prefix: str | None) -> RecognisedStore:
        prefixes = Prefixes(prefix or USUAL.checkpoint, write_prefix or USUAL.write)
        kind = ShallowDocuments if layout == ShallowDocuments.name else Documents
        return RecognisedStore(
            layout,
            lambda: kind(self.connection, prefixes),
            prefixes.checkpoint,
            prefixes.write,
            prefixes == USUAL,
        )

    def stores(self) -> list[RecognisedStore]:
        asked = self.database.prefix
        found = self._paired(self._sampled(self._known.checkpoints if asked is None else {asked}))
        return [self.named(*store, one) for store, writes in found.items() for one in writes]

    def stores_if_alone(self) -> list[RecognisedStore]:
        """A store without threads has the saver's search indexes."""
        indexed = prefixes_of(indexes(self.connection) or ())
        if is_of_javascript(indexed) or self.connection.database != 0:
            return []
        asked, asked_writes = self.database.prefix, self.database.write_prefix
        checkpoints = [one for one, tags in indexed if tags >= _INDEXED]
        writes = [one for one, tags in indexed if tags >= _INDEXED_OF_WRITE]
        return [
            self.named(Documents.name, prefix, writing)
            for prefix in checkpoints
            for writing in writes
            if asked in {None, prefix} and asked_writes in {None, writing}
        ]

    def _sampled(self, prefixes: set[str]) -> _Samples:
        return {
            (layout, prefix): names
            for prefix in sorted(prefixes)
            for layout, names in self.database.sampled(prefix).items()
            if layout in self.layouts
        }

    def _paired(self, stores: _Samples) -> Mapping[tuple[str, str], list[str]]:
        """By store, the possible prefixes of its writes; only one if it is certain."""
        asked = self.database.write_prefix
        if asked is not None:
            listed = {one: listed_prefixes(self.connection, one[0], stores[one]) for one in stores}
            return {one: [asked] for one in stores if asked in (listed[one] or {asked})}
        is_usual = {USUAL.checkpoint}.issuperset(prefix for _, prefix in stores)
        if is_usual and self._known == ({USUAL.checkpoint}, {USUAL.write}):
            return {store: [USUAL.write] for store in stores}
        found = pair(self.connection, self._known, stores)
        if any(len(one) > 1 for one in found.values()) and self.database.prefix is not None:
            # Pair all stores: writes of another store cannot belong to this one.
            every = self._sampled(self._known.checkpoints) | stores
            paired = pair(self.connection, self._known, every)
            found = {store: paired[store] for store in stores}
        return found

    def fallback(self) -> RedisLayout | None:
        return OldDocuments(self.connection) if _OLD in self.database.kinds else None

    def expected(self, prefix: str | None) -> str:
        return f"{prefix or USUAL.checkpoint}:*"


# Stores threads of other stores as langgraph-checkpoint-redis would.
#
# RedisSaver reads the writes of a checkpoint only if its field `has_writes` is true. A copied one
# always has it, so that the same checkpoint becomes the same document, whether its writes come
# with it or later. RedisSaver finds the head of a thread by its pointer.


_READ = frozenset({REDIS_JSON, "msgpack", "null", "bytes", "bytearray"})
"""The types of writes that RedisSaver reads."""


class DocumentReception(Reception[JsonDocuments]):
    """Documents, the lists of writes, and the pointers to heads."""

    def __init__(self, layout: JsonDocuments, arrival: Arrival) -> None:
        super().__init__(layout, arrival)
        self._lists: dict[CheckpointKey, ListOfWrites] = {}
        self._heads: dict[str, tuple[CheckpointKey, int | None]] = {}
        """By namespace, the newest checkpoint that comes, and when it expires."""
        if meant_id(arrival.thread_id) != arrival.thread_id:
            raise CannotHold(f"RedisSaver takes the id '{arrival.thread_id}' for an empty one")

    def documents(self, record: Record) -> Iterator[NewDocument]:
        if record.kind is Kind.CHECKPOINT:
            yield self._checkpoint(record)
        elif record.kind is Kind.WRITE:
            yield self._write(record)
        else:
            raise CannotHold(f"RedisSaver stores channel '{record.channel}' in checkpoints only")

    def _checkpoint(self, record: Record) -> NewDocument:
        key = record.key
        if meant_ns(key.checkpoint_ns) != key.checkpoint_ns:
            raise CannotHold(f"RedisSaver takes the namespace '{key.checkpoint_ns}' for the root")
        known = self._heads.get(key.checkpoint_ns)
        if known is None or known[0] < key:
            self._heads[key.checkpoint_ns] = key, record.expires_at
        exact = record._replace(value=exact_json(record.value, f"checkpoint '{key.checkpoint_id}'"))
        at = time_of(key.checkpoint_id)
        stored = checkpoint_document(
            exact, 0.0 if at is None else at.timestamp() * 1000, has_writes=True
        )
        return NewDocument(self._layout.checkpoint_name(key), stored, record.expires_at)

    def _write(self, record: Record) -> NewDocument:
        if record.value.type not in _READ:
            raise CannotHold(
                f"RedisSaver cannot read a write to '{record.channel}' of type"
                f" '{record.value.type}' at checkpoint '{record.key.checkpoint_id}'"
            )
        name = self._layout.write_name(record.key, record.task_id, record.idx)
        # The saver's number is the place in a call of `put_writes`, which `idx` is for most writes.
        self._lists.setdefault(record.key, ListOfWrites()).add(
            name, max(record.idx, 0), record.expires_at
        )
        return NewDocument(name, write_document(record), record.expires_at)

    def watched(self) -> Sequence[bytes]:
        spaces = sorted({*self.arrival.heads, *self._heads})
        return [self._pointer(ns) for ns in spaces]

    def last(self) -> Iterator[Command]:
        for key, some in self._lists.items():
            yield from some.commands(self._layout.lists(key)[0])
        old: Mapping[str, str] = self.arrival.heads
        for ns in sorted(self._heads, reverse=True):
            head, expires_at = self._heads[ns]
            if head.checkpoint_id > old.get(ns, ""):
                pointer = self._pointer(ns)
                yield ("SET", pointer, self._layout.checkpoint_name(head))
                yield from expiring_at(pointer, expires_at)

    def _pointer(self, ns: str) -> bytes:
        (names,) = self._layout.pointers(self.arrival.thread_id, ns).values()
        return names[-1]
