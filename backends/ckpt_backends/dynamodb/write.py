"""Changes a table of `DynamoDBSaver`.

A change of up to 100 items is one transaction, which requires that the heads still exist. A longer
one (a fork that copies a long thread) first stores payloads and writes, which nobody sees without
their checkpoints, then the checkpoints, the head last. A longer undo removes whole checkpoints, the
head last. An error takes it back: what was stored is removed, what was removed is put back.

DynamoDB cannot require that no other item exists. So after a transaction the thread is read again:
if an agent has added a checkpoint meanwhile, and not on top of the new one, or something on top of
a removed one, the change is taken back and fails.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from ckpt_backends.base import BaseWritableStore, OnConnection
from ckpt_backends.changes import (
    BACKUPS,
    MOVED,
    Change,
    CopyOfCheckpoint,
    Remaining,
    Remains,
    Removal,
    Removed,
    gone,
    moved,
)
from ckpt_backends.codec import decode
from ckpt_backends.codec.cursor import MAP, write_header
from ckpt_backends.dynamodb.connect import (
    Attributes,
    DynamoConnection,
    Key,
    code_of,
    connect,
    explained,
    explained_change,
    is_conflict,
)
from ckpt_backends.dynamodb.records import (
    BODY,
    CHECKPOINT_PREFIX,
    CHECKPOINTS,
    CHUNK_SORT,
    GZIP,
    IN_S3,
    IN_TABLE,
    METADATA,
    PAYLOAD,
    WRITES,
    CheckpointItem,
    DynamoIndex,
    DynamoItem,
    StoredPair,
    StoredPayload,
    WriteItem,
    checked_rows,
    checkpoint_item,
    checkpoint_place,
    chunk_of,
    heads_of,
    is_partition,
    is_storable,
    key_of,
    object_of,
    pair_of,
    partition_of,
    payloads,
    places_of_rivals,
    read_thread,
    read_writes,
    row_of,
    row_with,
    split_payload,
    value_of,
    why_unreachable,
    write_item,
)
from ckpt_backends.dynamodb.writer import (
    IS_NEW,
    IS_THERE,
    DynamoAction,
    DynamoLease,
    DynamoWriter,
    change_lease,
    check,
    delete,
    fits_together,
    in_transactions,
    purge_lease,
    put,
)
from ckpt_backends.errors import (
    CkptError,
    PartlyDone,
    Refused,
    StoreChanged,
    StoreUnavailable,
    Unsupported,
)
from ckpt_backends.model import (
    CheckpointKey,
    Kind,
    Progress,
    Record,
    TypedBytes,
    in_batches,
    silent,
    time_of,
)
from ckpt_backends.protocol import WritableStore
from ckpt_backends.rows import Restored, Row, RowEdit, conflict, reread
from ckpt_backends.servers import opening, understanding
from ckpt_backends.transfer.form import CannotHold
from ckpt_backends.transfer.parts import Arrival
from ckpt_backends.url import StoreUrl

# A change as items and objects to store and to remove.


_OFFLOADED = 350 * 1024
"""The saver stores longer payloads in S3, if it has a bucket (`S3_OFFLOAD_THRESHOLD`)."""
LONGEST = 398 * 1024
"""DynamoDB's limit for an item is 400 KB with its key."""


class DynamoPlan:
    """What a change of one thread stores and removes."""

    def __init__(
        self, connection: DynamoConnection, change: Change, present: Iterable[CheckpointItem]
    ) -> None:
        self._connection = connection
        self._change = change
        self._index = DynamoIndex(connection)
        self._present = {one.key: one for one in present}

    def removed(self) -> list[DynamoItem]:
        """The items to remove, whose payloads go with them. Raises `StoreChanged`."""
        found: list[DynamoItem] = []
        for key, number in (self._change.removed or {}).items():
            if key not in self._present:
                raise gone(key)
            writes = read_writes(self._connection, key)
            if len(writes) != number:
                raise moved(self._change.thread_id)
            found += [*writes, self._present[key]]
        return found

    def checked(self) -> set[Key]:
        """The keys of the items that must exist when the change is written."""
        thread_id, going = self._change.thread_id, self._change.removed or {}
        heads = {CheckpointKey(thread_id, *one) for one in self._change.heads.items()}
        needed = heads | {*self._change.relied_on}
        return {checkpoint_place(key) for key in needed - going.keys()}

    def added(self) -> Iterator[StoredPair]:
        """What is stored, one pair after the other; a checkpoint comes after its writes."""
        for copy in self._change.copies:
            yield from self._copied(copy)
        for part in self._change.records:
            yield self._new(part)
        for some in self._change.copies_of_writes:
            yield from self._copied_writes(some.source, some.target, some.tasks)

    # New checkpoints and writes

    def _new(self, part: Record) -> StoredPair:
        table, cells, value = _stored(part)
        metadata = part.metadata if part.kind is Kind.CHECKPOINT else None
        like = self._like(key_of(cells), metadata)
        return self._pair(table, {**cells, **like}, value)

    def _like(self, key: CheckpointKey, metadata: TypedBytes | None) -> dict[str, Any]:
        """Time to live and compression of new items: those of the original of a copy."""
        origin = self._present.get(key)
        if metadata is None:
            metadata = next(
                (one.metadata for one in self._change.checkpoints if one.key == key), None
            )
        fields = decode(metadata) if metadata is not None else None
        name = fields.get("forked_from") if isinstance(fields, dict) else None
        if name is None and metadata is not None and metadata.part:
            of_space = (one for one in self._change.relied_on if _is_beside(one, key))
            name = next((one.checkpoint_id for one in of_space), None)
        if isinstance(name, str):
            origin = self._present.get(key._replace(checkpoint_id=name))
        found: dict[str, Any] = {}
        if origin is not None and origin.ref.is_gzip:
            found["compression"] = GZIP
        if origin is not None and origin.expires_at is not None:
            found["expires_at"] = found["payload_expires_at"] = origin.expires_at * 1000
        return found

    def _pair(self, table: str, cells: Mapping[str, Any], value: TypedBytes) -> StoredPair:
        return pair_of(placed_row(self._connection, row_with(table, cells, value)))

    # Copies

    def _copied(self, copy: CopyOfCheckpoint) -> Iterator[StoredPair]:
        found = self._index.at([copy.source])
        if not found:
            raise gone(copy.source)
        target = copy.source._replace(thread_id=self._change.thread_id)
        yield from self._copied_writes(copy.source, target, copy.writes)
        for item, payload in payloads(self._connection, found):
            self._need(item, payload)
            row = row_of(item, payload)
            cells = {**row.cells, **target._asdict()}
            if copy.metadata is None and copy.body is None:
                yield pair_of(Row(CHECKPOINTS, cells))
                continue
            body, metadata = split_payload(value_of(payload))
            yield self._pair(
                CHECKPOINTS, cells, joined(copy.body or body, copy.metadata or metadata)
            )

    def _copied_writes(
        self, source: CheckpointKey, target: CheckpointKey, tasks: Iterable[tuple[str, int]] | None
    ) -> Iterator[StoredPair]:
        wanted = None if tasks is None else set(tasks)
        if wanted is not None and not wanted:
            return
        found = read_writes(self._connection, source)
        if wanted is not None:
            found = [one for one in found if (one.task_id, one.idx) in wanted]
            if len(found) != len(wanted):
                raise gone(source)
        for item, payload in payloads(self._connection, found):
            self._need(item, payload)
            row = row_of(item, payload)
            cells = {**row.cells, **target._asdict()}
            if target.thread_id == source.thread_id:
                cells |= self._expiry_of(target)
            yield pair_of(Row(WRITES, cells))

    def _expiry_of(self, key: CheckpointKey) -> dict[str, Any]:
        """Writes expire with the new checkpoint that they belong to."""
        found = self._like(key, None)
        return {name: one for name, one in found.items() if name != "compression"}

    def _need(self, item: DynamoItem, payload: StoredPayload) -> None:
        """Raise `Unsupported` if a payload exists, but cannot be copied."""
        if payload.problem and not payload.is_missing:
            raise Unsupported(
                f"cannot copy checkpoint '{item.key.checkpoint_id}': {payload.problem}"
            )


def placed_row(connection: DynamoConnection, row: Row) -> Row:
    """A row whose payload is where the saver would store it.

    Raises `Unsupported` if the payload is too long.
    """
    data = row.cells[BODY if row.table == CHECKPOINTS else "value"]
    size = len(data) if isinstance(data, bytes) else 0
    in_s3 = size > _OFFLOADED and connection.bucket is not None
    if not in_s3 and size > LONGEST:
        raise Unsupported(
            f"a payload of {size} bytes is too long for an item of DynamoDB",
            hint="name the bucket of the saver: add ?bucket=NAME to the URL",
        )
    return Row(row.table, {**row.cells, "ref_loc": IN_S3 if in_s3 else IN_TABLE})


def places_of(item: DynamoItem) -> list[Key]:
    """The keys of an item and of its payload, if that is in the table.

    An item that names the payload of another one does not bring it into danger.
    """
    found = [(item.ref.key, CHUNK_SORT)] if _owns(item, IN_TABLE) else []
    return [*found, (item.attributes["PK"]["S"], item.attributes["SK"]["S"])]


def object_keys(connection: DynamoConnection, items: Iterable[DynamoItem]) -> list[str]:
    """The keys of payloads in S3. Raises `Unsupported` if they cannot be reached."""
    found = []
    for one in items:
        if _owns(one, IN_S3):
            if problem := why_unreachable(connection, one.ref):
                raise Unsupported(f"cannot remove '{one.key.checkpoint_id}': {problem}")
            found.append(one.ref.key)
    return found


def _owns(item: DynamoItem, location: str) -> bool:
    """Whether an item names a payload in this place, and its own one."""
    write = (item.task_id, item.idx) if isinstance(item, WriteItem) else None
    own = object_of if location == IN_S3 else chunk_of
    return item.ref.location == location and item.ref.key == own(item.key, write)


def _is_beside(one: CheckpointKey, key: CheckpointKey) -> bool:
    return one.checkpoint_ns == key.checkpoint_ns


def checkpoint_payload(body: TypedBytes, metadata: TypedBytes) -> TypedBytes:
    """The payload of a checkpoint, before compression. Raises `Unsupported`."""
    if "+" in body.type and (body.part, metadata.part) == (BODY, METADATA):
        # Encrypted together, as this layout stores them.
        return TypedBytes(body.type, body.data)
    return joined(body, metadata)


def joined(body: TypedBytes, metadata: TypedBytes) -> TypedBytes:
    """The payload of a checkpoint. Raises `Unsupported` if the body is not plain `msgpack`."""
    if body.problem or body.part or body.type != "msgpack":
        what = "encrypted" if body.part else f"of type '{body.type}'"
        raise Unsupported(
            f"cannot write a checkpoint whose body is {what} here",
            hint="only bodies of type 'msgpack' can be copied",
        )
    parts = {BODY: body.data, METADATA: _msgpack(metadata)}
    packed = b"".join(_packed(name) + data for name, data in parts.items())
    return TypedBytes("msgpack", write_header(MAP, len(parts)) + packed)


def _msgpack(value: TypedBytes) -> bytes:
    if value.type == "msgpack" and not value.problem and not value.part:
        return value.data
    if value.type == "json" and not value.problem:
        return _packed(json.loads(value.data))
    raise Unsupported(f"cannot write metadata of type '{value.type}' into a msgpack payload")


def _packed(value: object) -> bytes:
    import ormsgpack

    return ormsgpack.packb(value)


# Checkpoints with their writes and payloads, which are removed together, and put back.


_ROUNDS = 3


@dataclass(frozen=True, slots=True)
class ItemGroup:
    """A checkpoint with its writes; of a missing checkpoint, only its writes."""

    key: CheckpointKey
    item: CheckpointItem | None
    writes: Sequence[WriteItem]

    @property
    def items(self) -> list[DynamoItem]:
        """The writes, then the checkpoint."""
        return [*self.writes, *([self.item] if self.item is not None else [])]

    @property
    def order(self) -> tuple[bool, bool, str]:
        """The order of removing: the newest root checkpoint last."""
        return self.item is not None, not self.key.checkpoint_ns, self.key.checkpoint_id


def groups_of(items: Iterable[DynamoItem]) -> Iterator[ItemGroup]:
    """The groups of a list in which each checkpoint comes after its writes."""
    writes: list[WriteItem] = []
    for one in items:
        if isinstance(one, WriteItem):
            writes.append(one)
        else:
            yield ItemGroup(one.key, one, writes)
            writes = []


def removing_actions(groups: Iterable[ItemGroup], condition: str = "") -> list[DynamoAction]:
    """The actions that remove groups; `condition` is that of the items, not of payloads."""
    places = dict.fromkeys(k for group in groups for one in group.items for k in places_of(one))
    return [delete(key, "" if key[1] == CHUNK_SORT else condition) for key in places]


def removing_steps(groups: Iterable[ItemGroup]) -> Iterator[list[ItemGroup]]:
    """The groups, as many together as fit into a transaction."""
    some: list[ItemGroup] = []
    for one in groups:
        if some and not fits_together(removing_actions([*some, one])):
            yield some
            some = []
        some.append(one)
    if some:
        yield some


class RemovedItems:
    """Removes groups, and keeps in memory what it removed until that is certain."""

    def __init__(self, connection: DynamoConnection) -> None:
        self._connection = connection
        self._writer = DynamoWriter(connection)
        self._items: dict[Key, Attributes] = {}

    def remove(
        self,
        step: Sequence[ItemGroup],
        condition: str = "",
        more: Sequence[DynamoAction] = (),
        *,
        keeps: bool = True,
    ) -> None:
        """Remove the groups of one step, with `more` in the same transaction."""
        actions = removing_actions(step, condition)
        fits = fits_together([*actions, *more])
        kept = self._read(step) if keeps or not fits else {}
        if fits:
            self._writer.transact([*actions, *more])
            self._items.update(kept)
            return
        # One checkpoint with many writes: it goes after them.
        self._items.update(kept)
        self._writer.write(actions[:-2])
        self._writer.transact([*actions[-2:], *more])

    def _read(self, step: Sequence[ItemGroup]) -> dict[Key, Attributes]:
        items = [one for group in step for one in group.items]
        places = [key for one in items for key in places_of(one)]
        found = self._connection.get(key for key in places if key[1] == CHUNK_SORT)
        for one in items:
            found[places_of(one)[-1]] = one.attributes
        return found

    def put_back(self) -> bool:
        """Store again what was removed, and keep what somebody stored meanwhile in its place.

        Returns whether all of it exists.
        """
        for _ in range(_ROUNDS):
            try:
                there = self._connection.get(self._items, "")
                missing = [put(one, IS_NEW) for key, one in self._items.items() if key not in there]
                if not missing:
                    return True
                for some in in_transactions(missing):
                    self._writer.transact(some)
            except (ClientError, BotoCoreError, OSError, StoreUnavailable):
                continue
        return not self._items


# Removes threads, or some of their checkpoints.
#
# Each transaction removes whole checkpoints with their writes and payloads, as many as fit. The
# head of the root namespace comes last, so what a killed run leaves is still listed, and the next
# run removes it. Objects of S3 go after the items that name them, so a checkpoint that exists is
# whole.
#
# After the last transaction the thread is read again. If an agent has added something meanwhile,
# what this transaction removed is put back.


OBJECTS_UNKNOWN = "its payloads in S3 cannot be found: check ?bucket= and ?key_prefix="


def remove_threads(
    connection: DynamoConnection, removals: Sequence[Removal], left: list[str]
) -> list[Removed]:
    """Remove the threads one by one, and add to `left` the objects that could not be removed.

    Raises `Refused`, `Unsupported` and errors of boto3.
    """
    with purge_lease(connection) as lease:
        return [_removed(_Removing(connection, lease, one, left)) for one in removals]


def _removed(removing: _Removing) -> Removed:
    try:
        skipped = removing.run()
    except ClientError as error:
        if not is_conflict(error):
            raise
        skipped = MOVED
    return Removed(removing.thread_id, removing.rows, skipped)


class _Removing:
    """The removal of one thread, or of a part of it."""

    def __init__(
        self,
        connection: DynamoConnection,
        lease: DynamoLease,
        removal: Removal,
        left_objects: list[str],
    ) -> None:
        self.thread_id = removal.thread_id
        self.rows: Counter[str] = Counter()
        self._connection = connection
        self._writer = DynamoWriter(connection)
        self._lease = lease
        self._removal = removal
        self._left_objects = left_objects
        self._left: set[CheckpointKey] = set()
        """The checkpoints that must exist before the next step."""

    def run(self) -> str:
        """Remove it. Returns why it was skipped, or `''`."""
        self._lease.keep()
        groups = self._groups()
        there = [one for one in groups if one.item is not None]
        self._left = {one.key for one in there}
        newest = max((one.key.checkpoint_id for one in there), default="")
        number = sum(len(one.writes) for one in groups)
        if self._removal.inside is not None:
            # The plan may count writes of missing checkpoints, which only a scan finds.
            number = max(number, self._removal.writes)
        if reason := self._removal.reason_to_skip(time_of(newest), len(there), number):
            return reason
        going = sorted(self._going(groups), key=lambda one: one.order)
        if not self._finds_objects(going):
            return OBJECTS_UNKNOWN
        steps = list(removing_steps(going))
        for step in steps:
            self._lease.keep()
            expected = {one.key: len(one.writes) for one in step}
            if not self._has(expected):
                return MOVED
            if not self._step(step, is_last=step is steps[-1]):
                return MOVED
        return ""

    def _finds_objects(self, going: Sequence[ItemGroup]) -> bool:
        """Whether a payload in S3 is found, if there are any. Raises `Unsupported`."""
        keys = object_keys(self._connection, [item for one in going for item in one.items])
        return not keys or any(self._connection.object_size(key) is not None for key in keys)

    def _groups(self) -> list[ItemGroup]:
        items = {one.key: one for one in read_thread(self._connection, self._removal.thread_id)}
        keys = {*items, *self._named()}
        found = DynamoIndex(self._connection).writes(sorted(keys), sorted(keys))
        return [ItemGroup(key, items.get(key), writes) for key, writes in found]

    def _named(self) -> Iterator[CheckpointKey]:
        """The checkpoints that the removal names, which may be missing."""
        if self._removal.inside is not None:
            for ns, ids in self._removal.inside.checkpoints.items():
                for one in ids:
                    yield CheckpointKey(self._removal.thread_id, ns, one)

    def _going(self, groups: Sequence[ItemGroup]) -> Iterator[ItemGroup]:
        named = set(self._named())
        is_whole = self._removal.inside is None
        return (one for one in groups if is_whole or one.key in named)

    def _has(self, expected: Mapping[CheckpointKey, int]) -> bool:
        """Whether no checkpoint came, and these have so many writes."""
        present = read_thread(self._connection, self._removal.thread_id)
        if {one.key for one in present} != self._left:
            return False
        keys = list(expected)
        found = DynamoIndex(self._connection).writes(keys, keys)
        return all(expected[key] == len(writes) for key, writes in found)

    def _step(self, step: Sequence[ItemGroup], *, is_last: bool) -> bool:
        """Remove some checkpoints. Returns False if an agent continues, so that they stay."""
        # An agent that continues during an earlier step still has the head.
        removed = RemovedItems(self._connection)
        try:
            removed.remove(step, keeps=is_last)
            keys = {one.key for one in step}
            self._left -= keys
            stays = is_last and not self._has(dict.fromkeys(keys, 0))
        except BaseException:
            removed.put_back()
            raise
        if stays and removed.put_back():
            return False
        self.rows[WRITES] += sum(len(one.writes) for one in step)
        self.rows[CHECKPOINTS] += sum(one.item is not None for one in step)
        if stays:
            # Some may have been put back.
            return False
        items = [item for one in step for item in one.items]
        self._left_objects += self._writer.remove_objects(object_keys(self._connection, items))
        return True


# Restores archived checkpoints and writes exactly as they were stored.
#
# All rows are compared with what exists before the first one is stored. Up to 100 items are
# stored in one transaction; of more, the payloads and writes come first and the newest root
# checkpoint last. An import that was killed is completed by the next one.


_AT_ONCE, _BYTES_AT_ONCE = 25, 4 << 20
"""Rows that are compared together; a single one may be longer."""


def restore_rows(connection: DynamoConnection, rows: Iterable[Row]) -> Restored:
    """Store the rows that do not exist yet, all of them or none.

    Raises `StoreChanged` if one exists with different contents, `Refused`, `Unsupported` and errors
    of boto3.
    """
    with reread(rows) as again:
        first = next(again(), None)
        if first is None:
            return Restored(0, 0)
        thread_id = str(first.cells.get("thread_id"))
        with change_lease(connection, thread_id) as lease:
            restoring = RowRestoring(connection, thread_id, lease)
            restoring.run(checked_rows(connection, thread_id, again()), adds=False)
            return restoring.run(checked_rows(connection, thread_id, again()), adds=True)


class RowRestoring:
    """Stores rows of one thread."""

    def __init__(
        self,
        connection: DynamoConnection,
        thread_id: str,
        lease: DynamoLease,
        *,
        keeps_expired: bool = False,
    ) -> None:
        self._connection = connection
        self._thread_id = thread_id
        self._lease = lease
        self._keeps_expired = keeps_expired
        """Whether rows whose time has come are stored too; DynamoDB removes them when it likes."""
        self._writer = DynamoWriter(connection)
        self._stored: list[Key] = []
        """The items of the transactions that have been committed, if there are several."""
        self._objects: list[str] = []
        self._seen: set[int] = set()
        """Hashes of the keys of the rows and of their payloads in this pass."""

    def run(self, rows: Iterable[Row], *, adds: bool) -> Restored:
        """Compare checked rows with what exists; with `adds`, store the missing ones."""
        added = there = expired = 0
        hidden: list[DynamoAction] = []
        last: list[DynamoAction] = []
        now = time.time() * 1000
        self._seen.clear()
        for some in in_batches(rows, attrgetter("size"), _BYTES_AT_ONCE, _AT_ONCE):
            self._lease.keep()
            kept = [one for one in some if self._keeps_expired or not _is_over(one, now)]
            expired += len(some) - len(kept)
            missing = list(self._missing(kept))
            added += len(missing)
            there += len(kept) - len(missing)
            if not adds:
                continue
            for row, pair in missing:
                if pair.object is not None:
                    self._objects.append(pair.object[0])
                    self._writer.put_object(*pair.object)
                if pair.chunk is not None:
                    hidden.append(put(pair.chunk, IS_NEW))
                (last if row.table == CHECKPOINTS else hidden).append(put(pair.item, IS_NEW))
            if not fits_together(hidden):
                self._store(hidden)
                hidden = []
        if fits_together([*hidden, *last]):
            self._writer.transact([*hidden, *last])
            return Restored(added, there, expired)
        self._store(hidden)
        last.sort(key=lambda one: (not one.key[1].rpartition("#")[0], one.key[1]))
        self._store(last)
        return Restored(added, there, expired)

    def _store(self, actions: Sequence[DynamoAction]) -> None:
        for some in in_transactions(actions):
            self._lease.keep()
            try:
                self._writer.transact(some)
            except ClientError as error:
                if self._stored and is_conflict(error):
                    raise StoreChanged(
                        f"thread '{self._thread_id}' changed meanwhile, and a part of it is stored",
                        hint="run the command again: the rest is added",
                    ) from None
                raise
            self._stored += [one.key for one in some]

    def take_back_hidden(self) -> None:
        """Remove what was stored so far, unless a checkpoint of it is visible already.

        Raises errors of boto3.
        """
        if any(key[0].startswith(CHECKPOINT_PREFIX) for key in self._stored):
            return
        self._writer.write([delete(key) for key in self._stored])
        self._writer.remove_objects(self._objects)

    def _missing(self, rows: Sequence[Row]) -> Iterator[tuple[Row, StoredPair]]:
        """The rows that do not exist, without payloads that are stored already.

        Raises `StoreChanged` if one has different contents, and `Refused` if a row comes twice, or
        if another thread has its keys.
        """
        pairs = [pair_of(one) for one in rows]
        for row, pair in zip(rows, pairs, strict=True):
            self._remember(row, pair)
        rivals = {place for one in rows for place in places_of_rivals(one)}
        keys: list[Key] = [one.key for one in pairs]
        keys += [(one.item["ref_key"]["S"], CHUNK_SORT) for one in pairs]
        stored = self._connection.get([*keys, *rivals])
        if not rivals.isdisjoint(stored):
            raise Refused(
                "a checkpoint of another thread has the same keys, because ids contain '#'"
            )
        for row, pair in zip(rows, pairs, strict=True):
            item = stored.get(pair.key)
            if item is None:
                yield row, self._without_stored(row, pair, stored)
            elif not self._is_same(pair, item, stored):
                raise conflict(row.table)

    def _remember(self, row: Row, pair: StoredPair) -> None:
        """Raise `Refused` if an earlier row of the archive has one of the keys of this one."""
        for key in (pair.key, pair.item["ref_key"]["S"]):
            mark = hash(key)
            if mark in self._seen:
                raise Refused(f"a row of '{row.table}' comes twice")
            self._seen.add(mark)

    def _without_stored(
        self, row: Row, pair: StoredPair, stored: dict[Key, Attributes]
    ) -> StoredPair:
        """The pair without a payload that is stored already, such as by an import that was killed.

        Raises `StoreChanged` if the stored one is different: it may be that of another thread.
        """
        ref_key = pair.item["ref_key"]["S"]
        if pair.object is not None:
            found = self._connection.object(ref_key)
            if found is None:
                return pair
            if found.data != pair.object[1]:
                raise conflict(row.table)
            return replace(pair, object=None)
        chunk = stored.get((ref_key, CHUNK_SORT))
        if chunk is None or pair.chunk is None:
            return pair
        if chunk.get(PAYLOAD) != pair.chunk.get(PAYLOAD):
            raise conflict(row.table)
        return replace(pair, chunk=None)

    def _is_same(self, pair: StoredPair, item: Attributes, stored: dict[Key, Attributes]) -> bool:
        """Whether a pair exists with the same contents, whenever it expires."""
        if _lasting(item) != _lasting(pair.item):
            return False
        ref_key = pair.item["ref_key"]["S"]
        if pair.object is not None:
            found = self._connection.object(ref_key)
            return found is not None and found.data == pair.object[1]
        chunk = stored.get((ref_key, CHUNK_SORT), {})
        return chunk.get(PAYLOAD) == (pair.chunk or {}).get(PAYLOAD)


def _lasting(item: Attributes) -> Attributes:
    return {name: one for name, one in item.items() if name != "ttl"}


def _is_over(row: Row, now: float) -> bool:
    expires_at = row.cells.get("expires_at")
    return isinstance(expires_at, int) and expires_at <= now


# Adds the parts of threads to a table.
#
# What a checkpoint needs, its payload and its writes, is stored before its item. So a thread of
# up to 100 checkpoints becomes visible in one transaction. A longer one becomes visible 100
# checkpoints at a time, subgraphs first and the newest root checkpoint last: until the end, a
# saver sees an earlier state of the thread. A killed run is completed by the next one.


_SECOND = 1000


def receive_thread(connection: DynamoConnection, arrival: Arrival) -> None:
    """Add a thread, or what is missing of it.

    Raises `StoreChanged`, `CannotHold` and errors of boto3; nothing new is visible then, unless the
    thread has more than 100 new checkpoints.
    """
    thread_id = arrival.thread_id
    if not is_partition(partition_of(thread_id)):
        raise CannotHold(f"DynamoDB cannot store the thread id '{thread_id}'")
    with change_lease(connection, thread_id) as lease:
        present = read_thread(connection, thread_id)
        if heads_of(present) != dict(arrival.heads):
            raise moved(thread_id)
        rows = (_row(connection, part) for part in arrival.parts)
        adding = RowRestoring(connection, thread_id, lease, keeps_expired=True)
        try:
            adding.run(checked_rows(connection, thread_id, rows), adds=True)
        except CkptError as error:
            with suppress(ClientError, BotoCoreError, OSError, StoreUnavailable):
                adding.take_back_hidden()
            if isinstance(error, Refused | Unsupported):
                raise CannotHold(error.message, hint=error.hint) from None
            raise


def _row(connection: DynamoConnection, part: Record) -> Row:
    """A part as a row. Raises `Unsupported`."""
    table, cells, value = _stored(part)
    if part.expires_at is not None:
        cells["expires_at"] = cells["payload_expires_at"] = part.expires_at
    if len(value.data) > LONGEST and connection.bucket is None:
        # The saver reads this, whether it compresses itself or not.
        cells["compression"] = GZIP
    return placed_row(connection, row_with(table, cells, value))


def _stored(part: Record) -> tuple[str, dict[str, Any], TypedBytes]:
    """The table, the cells and the payload of a part. Raises `Unsupported`."""
    if part.kind is Kind.VALUE:
        raise _no_values()
    cells: dict[str, Any] = part.key._asdict()
    if part.kind is Kind.CHECKPOINT:
        parent = {"parent_checkpoint_id": part.parent} if part.parent else {}
        return CHECKPOINTS, cells | parent, checkpoint_payload(part.value, part.metadata)
    path = {"task_path": part.task_path} if part.task_path else {}
    task = {"task_id": part.task_id, "idx": part.idx, "channel": part.channel, **path}
    return WRITES, cells | task, part.value


def _no_values() -> Unsupported:
    return Unsupported("layout 'dynamodb' stores no values outside of checkpoints")


# Replaces payloads of a table, one after the other.
#
# An item and its payload in the table are replaced in one transaction, which requires that the
# payload is as it was read.


def replace_rows(connection: DynamoConnection, thread_id: str, edits: Iterable[RowEdit]) -> None:
    """See `WritableStore.replace`. Raises errors of boto3, too."""
    with change_lease(connection, thread_id) as lease:
        for one in edits:
            lease.keep()
            try:
                _replace(connection, one)
            except ClientError as error:
                if code_of(error) != "TransactionCanceledException":
                    raise
                raise moved(thread_id) from None


def _replace(connection: DynamoConnection, one: RowEdit) -> None:
    """Store an item anew with its payload, which may move between table and bucket."""
    item = _item_of(connection, one.stored)
    found = [] if item is None else list(payloads(connection, [item]))
    if item is None or row_of(item, found[0][1]) != one.stored:
        raise moved(str(one.stored.cells["thread_id"]))
    writer, made = DynamoWriter(connection), pair_of(placed_row(connection, one.new))
    was_in_s3 = item.ref.location == IN_S3
    if made.object is not None:
        if was_in_s3 and made.item != item.attributes:
            raise Unsupported(
                f"the payload of checkpoint '{item.key.checkpoint_id}' is in S3, where it and its"
                " type cannot be replaced together",
                hint="copy the thread to another table with `ckpt copy`",
            )
        writer.put_object(*made.object)
    actions = [put(made.item, IS_THERE)]
    if made.chunk is not None:
        old = {":old": {"B": found[0][1].data}}
        condition = "" if was_in_s3 else f"{PAYLOAD} = :old"
        actions.append(put(made.chunk, condition, {} if was_in_s3 else old))
    elif not was_in_s3:
        actions.append(delete((item.ref.key, CHUNK_SORT)))
    writer.transact(actions)
    if was_in_s3 and made.object is None:
        writer.remove_objects([item.ref.key])


def _item_of(connection: DynamoConnection, row: Row) -> DynamoItem | None:
    """The item that a row was read from; None if it is gone."""
    place = pair_of(row).key
    found = connection.get([place]).get(place)
    if found is None:
        return None
    if row.table == CHECKPOINTS:
        return checkpoint_item(found)
    return write_item(key_of(row.cells), found)


class WritableDynamoStore(OnConnection[DynamoConnection], BaseWritableStore):
    """A table, opened for changing."""

    def __init__(self, connection: DynamoConnection, url: StoreUrl) -> None:
        super().__init__(connection, url)
        self._left_objects: list[str] = []
        """Payloads in S3 that were not removed with their items."""

    def apply(self, change: Change) -> None:
        if change.blobs or change.removed_blobs:
            raise _no_values()
        if not all(is_storable(one.key) for one in change.checkpoints):
            raise Unsupported(f"DynamoDB cannot store the thread id '{change.thread_id}'")
        connection = self._connection
        with explained_change(self._url), change_lease(connection, change.thread_id) as lease:
            present = read_thread(connection, change.thread_id)
            if heads_of(present) != dict(change.heads):
                raise moved(change.thread_id)
            plan = DynamoPlan(connection, change, present)
            carried = _Carrying(connection, change, lease)
            try:
                carried.out(plan)
                carried.check_nothing_came(present)
            except Exception as error:
                if not carried.back():
                    raise _partly(change) from error
                raise
            except BaseException:
                carried.back()
                raise
            self._left_objects += carried.remove_objects()

    def remove(self, removals: Sequence[Removal]) -> list[Removed]:
        with explained_change(self._url):
            return remove_threads(self._connection, removals, self._left_objects)

    def finish_removal(self) -> str:
        if not self._left_objects:
            return ""
        number, first = len(self._left_objects), self._connection.object_key(self._left_objects[0])
        what = "object" if number == 1 else "objects"
        return (
            f"{number} {what} could not be removed from bucket '{self._connection.bucket}', such as"
            f" '{first}'; grant s3:DeleteObject, and remove them there"
        )

    def erase_remains(self, *, rewrite: bool = False, progress: Progress = silent) -> Remains:  # noqa: ARG002

        return remains_of(self._connection, self.finish_removal())

    def restore(self, rows: Iterable[Row]) -> Restored:
        with explained_change(self._url):
            return restore_rows(self._connection, rows)

    def receive(self, arrivals: Iterable[Arrival]) -> None:
        with explained_change(self._url):
            for arrival in arrivals:
                receive_thread(self._connection, arrival)

    def replace(self, thread_id: str, edits: Iterable[RowEdit]) -> None:
        with explained_change(self._url):
            replace_rows(self._connection, thread_id, edits)

    def vacuum(self) -> None:
        raise Unsupported(
            f"'{self._url}' cannot be vacuumed: DynamoDB bills only what is stored",
            hint="run the command without --vacuum",
        )


def _partly(change: Change) -> PartlyDone:
    return PartlyDone(
        f"thread '{change.thread_id}' was changed in part, and taking that back failed",
        hint="check the thread with `ckpt history`, then run the command again, or `ckpt threads"
        " delete THREAD` if the thread was to be removed",
    )


class _Carrying:
    """Carries out one change, and takes it back if that fails."""

    def __init__(self, connection: DynamoConnection, change: Change, lease: DynamoLease) -> None:
        self._connection = connection
        self._writer = DynamoWriter(connection)
        self._change = change
        self._lease = lease
        self._hidden: list[DynamoAction] = []
        """Payloads and writes that wait; nobody sees them without their checkpoints."""
        self._last: list[DynamoAction] = []
        """What makes the change visible."""
        self._stored: list[Key] = []
        self._objects: list[str] = []
        self._removed = RemovedItems(connection)
        self._old_objects: list[str] = []

    def out(self, plan: DynamoPlan) -> None:
        """Write all of it."""
        going = plan.removed()
        self._old_objects = object_keys(self._connection, going)
        groups = sorted(groups_of(going), key=lambda one: one.order)
        removing = removing_actions(groups, IS_THERE)
        self._last += map(check, sorted(plan.checked()))
        for pair in plan.added():
            if pair.object is not None:
                self._objects.append(pair.object[0])
                self._writer.put_object(*pair.object)
            if pair.chunk is not None:
                self._hidden.append(put(pair.chunk))
            is_checkpoint = "id" in pair.item
            (self._last if is_checkpoint else self._hidden).append(put(pair.item, IS_NEW))
            if not fits_together([*self._hidden, *_most(self._last)]):
                self._store_hidden()
        if fits_together([*removing, *self._hidden, *self._last]):
            self._lease.keep()
            added = [*self._hidden, *self._last]
            if groups:
                self._removed.remove(groups, IS_THERE, added)
            else:
                self._writer.transact(added)
            self._stored += [one.key for one in added if one.kind == "Put"]
            return
        self._store_hidden()
        self._last.sort(key=_visible_last)
        for some in in_transactions(self._last):
            self._transact(some)
        # The saver reads a whole thread until its head goes.
        for step in removing_steps(groups):
            self._lease.keep()
            self._removed.remove(step, IS_THERE)

    def remove_objects(self) -> list[str]:
        """Remove the objects of removed payloads. Returns those that could not be removed."""
        return self._writer.remove_objects(self._old_objects)

    def _store_hidden(self) -> None:
        self._lease.keep()
        self._stored += [one.key for one in self._hidden]
        self._writer.write(self._hidden)
        self._hidden = []

    def _transact(self, actions: Sequence[DynamoAction]) -> None:
        self._lease.keep()
        self._writer.transact(actions)
        self._stored += [one.key for one in actions if one.kind == "Put"]

    def check_nothing_came(self, before: Iterable[CheckpointItem]) -> None:
        """Raise `StoreChanged` if somebody else added a checkpoint, unless it is based on ours."""
        ours = {one.key for one in self._change.checkpoints}
        thread_id = self._change.thread_id
        ours |= {
            CheckpointKey(thread_id, one.source.checkpoint_ns, one.source.checkpoint_id)
            for one in self._change.copies
        }
        gone = list(self._change.removed or ())
        if not ours and not gone:
            return
        known = (ours | {one.key for one in before}) - {*gone}
        others = [one for one in read_thread(self._connection, thread_id) if one.key not in known]
        ids = {key.checkpoint_id for key in ours}
        if others and (gone or not any(one.parent in ids for one in others)):
            raise moved(self._change.thread_id)
        written = DynamoIndex(self._connection).writes(gone, gone)
        if any(writes for _, writes in written):
            raise moved(self._change.thread_id)

    def back(self) -> bool:
        """Remove what was stored, and store what was removed. Returns whether that is done."""
        # The first error is the one to tell.
        is_clean = not any(key[0].startswith(CHECKPOINT_PREFIX) for key in self._stored)
        with suppress(ClientError, BotoCoreError, OSError, StoreUnavailable):
            self._writer.write([delete(key) for key in reversed(self._stored)])
            is_clean = True
            self._writer.delete_objects(self._objects)
        return self._removed.put_back() and is_clean


def _most(actions: Sequence[DynamoAction]) -> Sequence[DynamoAction]:
    """As many of the actions as matter to find out whether a transaction can hold them."""
    return actions[:101]


def _visible_last(action: DynamoAction) -> tuple[bool, bool, str]:
    """The order in which a long change becomes visible: the newest root checkpoint last."""
    ns, _, checkpoint_id = action.key[1].rpartition("#")
    return action.kind == "Put", not ns, checkpoint_id


# Names the places where AWS may still hold removed items and payloads.
#
# DynamoDB offers nothing that erases them.


_DAYS = 35
"""The longest time for which AWS keeps the past of a table, and its default."""
_STORAGE = Remaining("storage of AWS", "AWS does not say when it overwrites freed storage")


def remains_of(connection: DynamoConnection, left_objects: str) -> Remains:
    """The places that may hold what was removed. Raises `StoreUnavailable`.

    `left_objects` says which payloads in S3 could not be removed; `''` if all were.
    """
    places = []
    if left_objects:
        places.append(Remaining("objects in S3", left_objects, is_reachable=True))
    with explained(connection.url):
        places += _of_table(connection)
        places += _of_bucket(connection)
    return Remains(places=(*places, _STORAGE, BACKUPS))


def _of_table(connection: DynamoConnection) -> Iterator[Remaining]:
    client, table = connection.client, connection.table
    recovery = _asked(lambda: client.describe_continuous_backups(TableName=table))
    if recovery is None:
        yield Remaining("point-in-time recovery", _untold("dynamodb:DescribeContinuousBackups"))
    else:
        about = recovery.get("ContinuousBackupsDescription", {})
        about = about.get("PointInTimeRecoveryDescription", {})
        if about.get("PointInTimeRecoveryStatus") == "ENABLED":
            days = about.get("RecoveryPeriodInDays", _DAYS)
            yield Remaining(
                "point-in-time recovery", f"AWS can restore the table of the last {days} days"
            )
    backups = _asked(lambda: client.list_backups(TableName=table))
    if backups is None:
        yield Remaining("backups of the table", _untold("dynamodb:ListBackups"))
    elif number := len(backups.get("BackupSummaries", ())):
        more = " or more" if backups.get("LastEvaluatedBackupArn") else ""
        yield Remaining("backups of the table", f"it has {number}{more}; delete them in AWS")
    if connection.about.get("StreamSpecification", {}).get("StreamEnabled"):
        yield Remaining("stream of the table", "it holds changes for 24 hours; its readers copy")
    if number := len(connection.about.get("Replicas", ())):
        yield Remaining("replicas in other regions", f"it has {number}; each has its own backups")
    streams = _asked(lambda: client.describe_kinesis_streaming_destination(TableName=table))
    if streams is None:
        reason = _untold("dynamodb:DescribeKinesisStreamingDestination")
        yield Remaining("streams in Kinesis", reason)
    elif number := len(streams.get("KinesisDataStreamDestinations", ())):
        yield Remaining("streams in Kinesis", f"it has {number}; each holds copies of changes")


def _of_bucket(connection: DynamoConnection) -> Iterator[Remaining]:
    if connection.bucket is None:
        return
    told = _asked(lambda: connection.s3.get_bucket_versioning(Bucket=connection.bucket))
    if told is None:
        yield Remaining("older versions of objects in S3", _untold("s3:GetBucketVersioning"))
    elif told.get("Status"):
        yield Remaining(
            "older versions of objects in S3",
            "the bucket keeps versions, also of deleted objects; delete them in AWS",
        )


def _asked(ask: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The answer of AWS; None if it refuses the request."""
    try:
        return ask()
    except ClientError:
        return None


def _untold(action: str) -> str:
    return f"unknown: the user may not ask, which needs {action}"


def open_writable(url: StoreUrl) -> WritableStore:
    """Open for changing. Raises the errors of `store.open_store`."""
    with opening(connect(url), url) as connection:
        return understanding(WritableDynamoStore(connection, url), url)
