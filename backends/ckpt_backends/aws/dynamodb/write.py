"""Changes a table of `DynamoDBSaver`, and its bucket.

A change of up to 100 items is one transaction, which requires that the heads still exist. A longer
one first stores payloads and writes, which nobody sees without their checkpoints, then the
checkpoints, 100 at a time, those of subgraphs first and the newest root checkpoint last: until the
end, a saver sees an earlier state of the thread. A longer removal removes whole checkpoints, the
head last. An error takes it back: what was stored is removed, what was removed is put back. What a
killed run left is completed by the next one.

DynamoDB cannot require that no other item exists. So after a transaction the thread is read again:
if an agent has added a checkpoint meanwhile, and not on top of the new one, or something on top of
a removed one, the change is taken back and fails.
"""

from __future__ import annotations

import random
import secrets
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import chain
from operator import attrgetter
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from ckpt_backends.aws.dynamodb.connect import (
    KEYS,
    Attributes,
    DynamoConnection,
    Key,
    checked_session,
    explained,
    explained_change,
    is_conflict,
    key_attributes,
)
from ckpt_backends.aws.dynamodb.records import (
    CHECKPOINT_PREFIX,
    CHECKPOINTS,
    CHUNK_PREFIX,
    CHUNK_SORT,
    GZIP,
    IN_S3,
    IN_TABLE,
    PAYLOAD,
    WRITES,
    WRITES_PREFIX,
    CheckpointItem,
    DynamoItem,
    StoredPair,
    StoredPayload,
    WriteItem,
    cells_of,
    checked_rows,
    checkpoint_item,
    checkpoint_payload,
    checkpoint_place,
    chunk_of,
    heads_of,
    is_partition,
    is_storable,
    key_of,
    new_row,
    no_values,
    object_of,
    pair_of,
    partition_of,
    payloads,
    placed_row,
    places_of_rivals,
    read_at,
    read_thread,
    read_writes,
    row_of,
    split_payload,
    value_of,
    why_unreachable,
    write_item,
)
from ckpt_backends.aws.engine import client_of, code_of
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
from ckpt_backends.errors import (
    CkptError,
    PartlyDone,
    Refused,
    StoreChanged,
    StoreUnavailable,
    Unsupported,
)
from ckpt_backends.model import CheckpointKey, Progress, in_batches, in_chunks, silent, time_of
from ckpt_backends.protocol import WritableStore
from ckpt_backends.records import copied_from
from ckpt_backends.rows import Restored, Row, RowEdit, conflict, reread
from ckpt_backends.servers import opening, understanding
from ckpt_backends.transfer.copying import Arrival
from ckpt_backends.transfer.form import CannotHold, Language
from ckpt_backends.url import StoreUrl

# Writes items and objects: the only place that calls what changes a table or a bucket.


_MOST_ACTIONS, _MOST_BYTES = 100, 3 << 20
"""DynamoDB's limits for a transaction are 100 and 4 MB. Its count of bytes is not quite ours."""
_PER_BATCH = 25
_OBJECTS_PER_REQUEST = 1000
IS_NEW, IS_THERE = "attribute_not_exists(PK)", "attribute_exists(PK)"
_FAILURES = (ClientError, BotoCoreError, OSError, StoreUnavailable)
"""What a request may raise where the first error is the one to tell."""


@dataclass(frozen=True, slots=True)
class DynamoAction:
    """One action of a transaction."""

    kind: str
    """`Put`, `Delete` or `ConditionCheck`."""
    attributes: Attributes
    """The item to put, or the key of the item."""
    condition: str = ""
    values: Attributes = field(default_factory=dict)
    """The values that the condition names."""

    @property
    def key(self) -> Key:
        """The key of the item."""
        return self.attributes["PK"]["S"], self.attributes["SK"]["S"]

    @property
    def size(self) -> int:
        """About the number of bytes that DynamoDB counts."""
        return _size(self.attributes)

    def stated(self, table: str) -> dict[str, Any]:
        """The action in the form of boto3."""
        what = "Item" if self.kind == "Put" else "Key"
        stated: dict[str, Any] = {"TableName": table, what: self.attributes}
        if self.condition:
            stated["ConditionExpression"] = self.condition
        if self.values:
            stated["ExpressionAttributeValues"] = self.values
        return {self.kind: stated}


def _size(value: Any) -> int:
    if isinstance(value, dict):
        return sum(map(_size, chain(value, value.values())))
    if isinstance(value, list):
        return sum(map(_size, value))
    return len(value) if isinstance(value, bytes) else len(str(value).encode(errors="replace"))


def put(item: Attributes, condition: str = "", values: Attributes | None = None) -> DynamoAction:
    """The action that stores an item."""
    return DynamoAction("Put", item, condition, values or {})


def delete(key: Key, condition: str = "") -> DynamoAction:
    """The action that removes an item."""
    return DynamoAction("Delete", key_attributes(key), condition)


def check(key: Key) -> DynamoAction:
    """The condition that an item exists."""
    return DynamoAction("ConditionCheck", key_attributes(key), IS_THERE)


def fits_together(actions: Sequence[DynamoAction]) -> bool:
    """Whether one transaction can hold these actions."""
    return len(actions) <= _MOST_ACTIONS and sum(one.size for one in actions) <= _MOST_BYTES


def in_transactions(actions: Iterable[DynamoAction]) -> Iterator[list[DynamoAction]]:
    """The actions in as few transactions as their order allows."""
    return in_batches(actions, attrgetter("size"), _MOST_BYTES, _MOST_ACTIONS)


class DynamoWriter(DynamoConnection):
    """A connection that writes to the table and its bucket, and then raises errors of boto3."""

    def transact(self, actions: Sequence[DynamoAction]) -> None:
        """Carry out the actions, all of them or none. Their conditions must hold."""
        stated = [one.stated(self.table) for one in actions]
        self.client.transact_write_items(TransactItems=stated)

    def delete(self, keys: Iterable[Key]) -> None:
        """Remove items one by one, in undefined order."""
        for some in in_chunks(keys, _PER_BATCH):
            asked = [{"DeleteRequest": {"Key": key_attributes(one)}} for one in some]
            deque(self.answers(self.client.batch_write_item, asked, "UnprocessedItems"), maxlen=0)

    def put_object(self, ref_key: str, data: bytes) -> None:
        """Store an object in the bucket."""
        self.s3.put_object(Bucket=self.bucket, Key=self.object_key(ref_key), Body=data)

    def remove_objects(self, ref_keys: Sequence[str]) -> list[str]:
        """Remove objects whose items are gone. Returns those that could not be removed."""
        for start in range(0, len(ref_keys), _OBJECTS_PER_REQUEST):
            some = ref_keys[start : start + _OBJECTS_PER_REQUEST]
            keys = [{"Key": self.object_key(one)} for one in some]
            asked = {"Objects": keys, "Quiet": True}
            try:
                answer = self.s3.delete_objects(Bucket=self.bucket, Delete=asked)
            except _FAILURES:
                answer = {"Errors": keys}
            if answer.get("Errors"):
                return list(ref_keys[start:])
        return []


# Leases: only one purge of a table, and one change of a thread, at a time.
#
# A lease is an item with an end, which the next one may replace after that. It only prevents two
# runs of `ckpt` from doing the same work; savers do not know it.


PARTITION = "CKPT_LOCK"
_HELD = 20_000
"""Milliseconds. A killed run blocks others for at most this time."""
_KEPT = 5.0
"""Seconds between two extensions."""
_PATIENCE = 6.0
"""Seconds to wait for another run."""
_DAY = 86_400


class DynamoLease:
    """A lease that this run holds. Acquiring it raises its refusal, and errors of boto3."""

    def __init__(self, connection: DynamoWriter, name: str, refusal: CkptError) -> None:
        self._connection = connection
        self._key = key_attributes((PARTITION, name))
        self._refusal = refusal
        self._token = secrets.token_hex(8)
        self._again = 0.0
        """When it must be extended, as `time.monotonic`."""

    def __enter__(self) -> DynamoLease:
        self._take()
        return self

    def _take(self) -> None:
        """Acquire it. Raises its refusal if another run holds it for `_PATIENCE` seconds."""
        until = time.monotonic() + _PATIENCE
        while not self._taken():
            if time.monotonic() > until:
                raise self._refusal
            time.sleep(random.uniform(0.05, 0.2))  # noqa: S311
        self._again = time.monotonic() + _KEPT

    def keep(self) -> None:
        """Extend it if it is time."""
        if time.monotonic() >= self._again:
            self._take()

    def _taken(self) -> bool:
        now = int(time.time() * 1000)
        item: Attributes = {
            **self._key,
            "lease_holder": {"S": self._token},
            "held_until": {"N": str(now + _HELD)},
            # DynamoDB removes what a killed run left, if the table has times to live.
            "ttl": {"N": str(now // 1000 + _DAY)},
        }
        try:
            self._connection.client.put_item(
                TableName=self._connection.table,
                Item=item,
                ConditionExpression="attribute_not_exists(PK) OR held_until < :now"
                " OR lease_holder = :own",
                ExpressionAttributeValues={":now": {"N": str(now)}, ":own": {"S": self._token}},
            )
        except ClientError as error:
            if code_of(error) != "ConditionalCheckFailedException":
                raise
            return False
        return True

    def __exit__(self, *_: object) -> None:
        # If releasing fails, or another run holds it by now, it ends by itself.
        with suppress(*_FAILURES):
            self._connection.client.delete_item(
                TableName=self._connection.table,
                Key=self._key,
                ConditionExpression="lease_holder = :own",
                ExpressionAttributeValues={":own": {"S": self._token}},
            )


def purge_lease(connection: DynamoWriter) -> DynamoLease:
    """The lease for removing, whose refusal is `Refused`."""
    refusal = Refused(
        f"another purge of '{connection.url}' is running",
        hint="run the command again when it has finished; the lock of a killed run"
        f" (an item of {PARTITION}) expires after {_HELD // 1000} s",
    )
    return DynamoLease(connection, "purge", refusal)


def change_lease(connection: DynamoWriter, thread_id: str) -> DynamoLease:
    """The lease for changing a thread, whose refusal is `StoreUnavailable`."""
    refusal = StoreUnavailable(
        f"thread '{thread_id}' is being changed by another command, so nothing was written",
        hint="run the command again when it has finished; the lock of a killed run"
        f" (an item of {PARTITION}) expires after {_HELD // 1000} s",
    )
    name = sha256(thread_id.encode(errors="surrogatepass")).hexdigest()
    return DynamoLease(connection, f"thread#{name}", refusal)


# Checkpoints with their writes and payloads, which are removed together.


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


def removing_actions(groups: Iterable[ItemGroup], condition: str = "") -> list[DynamoAction]:
    """The actions that remove groups; `condition` is that of the items, not of payloads."""
    places = dict.fromkeys(k for group in groups for one in group.items for k in places_of(one))
    return [delete(key, "" if key[1] == CHUNK_SORT else condition) for key in places]


def removing_steps(groups: Iterable[ItemGroup]) -> Iterator[list[ItemGroup]]:
    """The groups, as many together as fit into a transaction. Their keys are short enough."""
    return in_batches(groups, lambda one: len(removing_actions([one])), _MOST_ACTIONS)


def places_of(item: DynamoItem) -> list[Key]:
    """The keys of an item and of its payload, if that is in the table.

    An item that names the payload of another one does not bring it into danger.
    """
    found = [(item.ref.key, CHUNK_SORT)] if _owns(item, IN_TABLE) else []
    return [*found, (item.attributes["PK"]["S"], item.attributes["SK"]["S"])]


def object_keys(connection: DynamoConnection, groups: Iterable[ItemGroup]) -> list[str]:
    """The keys of payloads in S3. Raises `Unsupported` if they cannot be reached."""
    found = []
    for one in (item for group in groups for item in group.items):
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


# One change of a thread, which is taken back if it fails.


_ROUNDS = 3


class ThreadChange:
    """What a change has stored and removed so far."""

    def __init__(
        self, connection: DynamoWriter, lease: DynamoLease, *, replaces: bool = False
    ) -> None:
        self._connection = connection
        self._lease = lease
        self._replaces = replaces
        """Whether it replaces payloads, and writes of a long change, that a killed run left."""
        self.stored: list[Key] = []
        self._objects: list[str] = []
        self._removed: dict[Key, Attributes] = {}

    @property
    def is_visible(self) -> bool:
        """Whether a checkpoint was stored."""
        return any(key[0].startswith(CHECKPOINT_PREFIX) for key in self.stored)

    def carry_out(
        self,
        pairs: Iterable[StoredPair],
        checks: Iterable[Key] = (),
        going: Sequence[ItemGroup] = (),
    ) -> None:
        """Store pairs and remove groups, if the items with the keys `checks` exist."""
        visible: list[DynamoAction] = []
        waiting: list[DynamoAction] = []
        for some in in_transactions(self._hidden(pairs, visible)):
            self._store_hidden(waiting)
            waiting = some
        last = [*map(check, checks), *sorted(visible, key=_visible_last)]
        if fits_together([*removing_actions(going, IS_THERE), *waiting, *last]):
            self.remove(going, IS_THERE, [*waiting, *last])
            return
        self._store_hidden(waiting)
        for some in in_transactions(last):
            self._transact(some)
        # The saver reads a whole thread until its head goes.
        for step in removing_steps(going):
            self.remove(step, IS_THERE)

    def _hidden(
        self, pairs: Iterable[StoredPair], visible: list[DynamoAction]
    ) -> Iterator[DynamoAction]:
        """What nobody sees without its checkpoint. Adds the checkpoints to `visible`."""
        for pair in pairs:
            if pair.object is not None:
                self._objects.append(pair.object[0])
                self._connection.put_object(*pair.object)
            if pair.chunk is not None:
                yield put(pair.chunk, "" if self._replaces else IS_NEW)
            if pair.key[0].startswith(CHECKPOINT_PREFIX):
                visible.append(put(pair.item, IS_NEW))
            else:
                yield put(pair.item, IS_NEW)

    def _store_hidden(self, actions: Sequence[DynamoAction]) -> None:
        condition = "" if self._replaces else IS_NEW
        self._transact([replace(one, condition=condition) for one in actions])

    def _transact(self, actions: Sequence[DynamoAction]) -> None:
        if not actions:
            return
        self._lease.keep()
        self._connection.transact(actions)
        self.stored += [one.key for one in actions if one.kind == "Put"]

    def remove(
        self,
        step: Sequence[ItemGroup],
        condition: str = "",
        more: Sequence[DynamoAction] = (),
        *,
        keeps: bool = True,
    ) -> None:
        """Remove the groups of one step, with `more` in the same transaction.

        `keeps` in memory what it removes, to put it back.
        """
        actions = removing_actions(step, condition)
        fits = fits_together([*actions, *more])
        kept = self._read(step) if keeps or not fits else {}
        if not fits:
            # One checkpoint with many writes: it goes after them.
            self._removed |= kept
            self._connection.delete(one.key for one in actions[:-2])
            actions = actions[-2:]
        self._transact([*actions, *more])
        self._removed |= kept

    def _read(self, step: Sequence[ItemGroup]) -> dict[Key, Attributes]:
        places = {places_of(item)[-1]: item for group in step for item in group.items}
        chunks = (key for one in places.values() for key in places_of(one)[:-1])
        return self._connection.get(chunks) | {at: one.attributes for at, one in places.items()}

    def back(self) -> bool:
        """Remove what was stored, and put back what was removed. Returns whether that is done.

        What somebody stored meanwhile in the place of a removed item stays. Payloads and writes
        without a checkpoint may be left.
        """
        with suppress(*_FAILURES):
            self._connection.delete(reversed(self.stored))
            self.stored.clear()
        self._connection.remove_objects(self._objects)
        for _ in range(_ROUNDS):
            with suppress(*_FAILURES):
                there = self._connection.get(self._removed, ())
                missing = [one for key, one in self._removed.items() if key not in there]
                if not missing:
                    return not self.is_visible
                for some in in_transactions(put(one, IS_NEW) for one in missing):
                    self._connection.transact(some)
        return not self._removed and not self.is_visible


def _visible_last(action: DynamoAction) -> tuple[bool, str]:
    """The order in which a long change becomes visible: the newest root checkpoint last."""
    ns, _, checkpoint_id = action.key[1].rpartition("#")
    return not ns, checkpoint_id


# A change of the plan of a command, as pairs to store and groups to remove.


class DynamoPlan:
    """What a change of one thread stores and removes."""

    def __init__(
        self, connection: DynamoConnection, change: Change, present: Iterable[CheckpointItem]
    ) -> None:
        self._connection = connection
        self._change = change
        self._present = {one.key: one for one in present}

    def removed(self) -> list[ItemGroup]:
        """What is removed, in order. Raises `StoreChanged`."""
        numbers = self._change.removed or {}
        for key in numbers:
            if key not in self._present:
                raise gone(key)
        found = [
            ItemGroup(key, self._present[key], writes)
            for key, writes in zip(
                numbers, read_writes(self._connection, list(numbers)), strict=True
            )
        ]
        if any(len(one.writes) != numbers[one.key] for one in found):
            raise moved(self._change.thread_id)
        return sorted(found, key=attrgetter("order"))

    def checked(self) -> list[Key]:
        """The keys of the items that must exist when the change is written."""
        thread_id, going = self._change.thread_id, self._change.removed or {}
        heads = {CheckpointKey(thread_id, *one) for one in self._change.heads.items()}
        needed = heads | {*self._change.relied_on}
        return sorted(checkpoint_place(key) for key in needed - going.keys())

    def added(self) -> Iterator[StoredPair]:
        """What is stored, one pair after the other; a checkpoint comes after its writes."""
        for copy in self._change.copies:
            yield from self._copied(copy)
        for part in self._change.records:
            table, cells, value = cells_of(part)
            like = self._like(key_of(cells))
            yield pair_of(new_row(self._connection, table, {**cells, **like}, value))
        for some in self._change.copies_of_writes:
            yield from self._copied_writes(some.source, some.target, some.tasks)

    def check_nothing_came(self) -> None:
        """Raise `StoreChanged` if somebody else added a checkpoint, unless it is based on ours."""
        ours, going = {*self._change.added}, list(self._change.removed or ())
        if not ours and not going:
            return
        thread_id = self._change.thread_id
        known = (ours | self._present.keys()) - {*going}
        others = [one for one in read_thread(self._connection, thread_id) if one.key not in known]
        ids = {key.checkpoint_id for key in ours}
        if others and not any(one.parent in ids for one in others):
            raise moved(thread_id)
        if any(read_writes(self._connection, going)):
            raise moved(thread_id)

    def _like(self, key: CheckpointKey) -> dict[str, Any]:
        """Time to live and compression of new items: those of the original of a copy."""
        origin = self._present.get(key)
        new = next((one for one in self._change.checkpoints if one.key == key), None)
        if new is not None:
            name = copied_from(new)
            if name is None and new.metadata.part:
                # It is encrypted, so it does not tell.
                beside = (k for k in self._change.relied_on if k.checkpoint_ns == key.checkpoint_ns)
                name = next((one.checkpoint_id for one in beside), None)
            origin = self._present.get(key._replace(checkpoint_id=name or ""))
        found: dict[str, Any] = {}
        if origin is not None and origin.ref.is_gzip:
            found["compression"] = GZIP
        if origin is not None and origin.expires_at is not None:
            found["expires_at"] = found["payload_expires_at"] = origin.expires_at * 1000
        return found

    # Copies

    def _copied(self, copy: CopyOfCheckpoint) -> Iterator[StoredPair]:
        found = list(read_at(self._connection, [copy.source]))
        if not found:
            raise gone(copy.source)
        target = copy.source._replace(thread_id=self._change.thread_id)
        yield from self._copied_writes(copy.source, target, copy.writes)
        for payload, row in self._rows(found, target):
            if copy.metadata is None and copy.body is None:
                yield pair_of(row)
                continue
            body, metadata = split_payload(value_of(payload))
            value = checkpoint_payload(copy.body or body, copy.metadata or metadata)
            yield pair_of(new_row(self._connection, CHECKPOINTS, row.cells, value))

    def _copied_writes(
        self, source: CheckpointKey, target: CheckpointKey, tasks: Iterable[tuple[str, int]] | None
    ) -> Iterator[StoredPair]:
        wanted = None if tasks is None else set(tasks)
        if wanted is not None and not wanted:
            return
        (found,) = read_writes(self._connection, [source])
        if wanted is not None:
            found = [one for one in found if (one.task_id, one.idx) in wanted]
            if len(found) != len(wanted):
                raise gone(source)
        like: dict[str, Any] = {}
        if target.thread_id == source.thread_id:
            # Writes expire with the new checkpoint that they belong to.
            like = self._like(target)
            like.pop("compression", None)
        for _, row in self._rows(found, target):
            yield pair_of(replace(row, cells={**row.cells, **like}))

    def _rows(
        self, items: Sequence[DynamoItem], target: CheckpointKey
    ) -> Iterator[tuple[StoredPayload, Row]]:
        """The payloads of items, and their rows with another key."""
        for item, payload in payloads(self._connection, items):
            if payload.problem and not payload.is_missing:
                raise Unsupported(
                    f"cannot copy checkpoint '{item.key.checkpoint_id}': {payload.problem}"
                )
            row = row_of(item, payload)
            yield payload, replace(row, cells={**row.cells, **target._asdict()})


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


class _Removing:
    """The removal of one thread, or of a part of it."""

    def __init__(self, connection: DynamoWriter, lease: DynamoLease, removal: Removal) -> None:
        self._connection = connection
        self._lease = lease
        self._removal = removal
        self._rows: Counter[str] = Counter()
        self.left_objects: list[str] = []
        """Payloads in S3 that were not removed with their items."""
        self._left: set[CheckpointKey] = set()
        """The checkpoints that must exist before the next step."""

    def removed(self) -> Removed:
        """Remove it. Raises `Unsupported` and errors of boto3."""
        try:
            skipped = self._run()
        except ClientError as error:
            if not is_conflict(error):
                raise
            skipped = MOVED
        return Removed(self._removal.thread_id, self._rows, skipped)

    def _run(self) -> str:
        """Remove it. Returns why it was skipped, or `''`."""
        thread_id, inside = self._removal.thread_id, self._removal.inside
        self._lease.keep()
        items = {one.key: one for one in read_thread(self._connection, thread_id)}
        self._left = {*items}
        named = {
            CheckpointKey(thread_id, ns, one)
            for ns, ids in (inside.checkpoints if inside is not None else {}).items()
            for one in ids
        }
        keys = sorted(self._left | named)
        groups = [
            ItemGroup(key, items.get(key), writes)
            for key, writes in zip(keys, read_writes(self._connection, keys), strict=True)
        ]
        newest = max((key.checkpoint_id for key in items), default="")
        number = sum(len(one.writes) for one in groups)
        if inside is not None:
            # The plan may count writes of missing checkpoints, which only a scan finds.
            number = max(number, self._removal.writes)
            groups = [one for one in groups if one.key in named]
        if reason := self._removal.reason_to_skip(time_of(newest), len(items), number):
            return reason
        going = sorted(groups, key=attrgetter("order"))
        objects = object_keys(self._connection, going)
        if objects and not any(map(self._is_object, objects)):
            return OBJECTS_UNKNOWN
        steps = list(removing_steps(going))
        for step in steps:
            self._lease.keep()
            expected = {one.key: len(one.writes) for one in step}
            if not self._has(expected) or not self._step(step, is_last=step is steps[-1]):
                return MOVED
        return ""

    def _is_object(self, ref_key: str) -> bool:
        return self._connection.object_size(ref_key) is not None

    def _has(self, expected: Mapping[CheckpointKey, int]) -> bool:
        """Whether no checkpoint came, and these have so many writes."""
        present = read_thread(self._connection, self._removal.thread_id)
        if {one.key for one in present} != self._left:
            return False
        found = read_writes(self._connection, list(expected))
        return list(map(len, found)) == list(expected.values())

    def _step(self, step: Sequence[ItemGroup], *, is_last: bool) -> bool:
        """Remove some checkpoints. Returns False if an agent continues, so that they stay."""
        # An agent that continues during an earlier step still has the head.
        act = ThreadChange(self._connection, self._lease)
        try:
            act.remove(step, keeps=is_last)
            keys = {one.key for one in step}
            self._left -= keys
            stays = is_last and not self._has(dict.fromkeys(keys, 0))
        except BaseException:
            act.back()
            raise
        if stays and act.back():
            return False
        self._rows[WRITES] += sum(len(one.writes) for one in step)
        self._rows[CHECKPOINTS] += sum(one.item is not None for one in step)
        if stays:
            # Some may have been put back.
            return False
        objects = object_keys(self._connection, step)
        self.left_objects += self._connection.remove_objects(objects)
        return True


# Adds checkpoints and writes exactly as they were stored, or as records of another store become.
#
# All rows of an archive are compared with what exists before the first one is stored.


_AT_ONCE, _BYTES_AT_ONCE = 25, 4 << 20
"""Rows that are compared together; a single one may be longer."""


def restore_rows(connection: DynamoWriter, rows: Iterable[Row]) -> Restored:
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
            checked = MissingRows(connection, lease)
            deque(checked.pairs(checked_rows(connection, thread_id, again())), maxlen=0)
            missing = MissingRows(connection, lease)
            change = ThreadChange(connection, lease)
            with _named_part(change, thread_id):
                change.carry_out(missing.pairs(checked_rows(connection, thread_id, again())))
            return missing.restored


def receive_thread(connection: DynamoWriter, arrival: Arrival) -> None:
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
        rows = _rows_of(connection, arrival)
        missing = MissingRows(connection, lease, keeps_expired=True)
        change = ThreadChange(connection, lease)
        with _named_part(change, thread_id):
            try:
                change.carry_out(missing.pairs(checked_rows(connection, thread_id, rows)))
            except Exception as error:
                if not change.is_visible:
                    change.back()
                if isinstance(error, Refused | Unsupported):
                    raise CannotHold(error.message, hint=error.hint) from None
                raise


@contextmanager
def _named_part(change: ThreadChange, thread_id: str) -> Iterator[None]:
    """Say of a conflict that a record is stored, if it is."""
    try:
        yield
    except ClientError as error:
        if change.stored and is_conflict(error):
            raise StoreChanged(
                f"thread '{thread_id}' changed meanwhile, and a part of it is stored",
                hint="run the command again: the rest is added",
            ) from None
        raise


def _rows_of(connection: DynamoConnection, arrival: Arrival) -> Iterator[Row]:
    """The records of a thread as rows. Raises `Unsupported`."""
    for record in arrival.records:
        table, cells, value = cells_of(record)
        if record.expires_at is not None:
            cells["expires_at"] = cells["payload_expires_at"] = record.expires_at
        yield new_row(connection, table, cells, value)


class MissingRows:
    """Compares rows of one thread with what exists, and counts them."""

    def __init__(
        self, connection: DynamoConnection, lease: DynamoLease, *, keeps_expired: bool = False
    ) -> None:
        self._connection = connection
        self._lease = lease
        self._keeps_expired = keeps_expired
        """Whether rows whose time has come are stored too; DynamoDB removes them when it likes."""
        self._seen: set[int] = set()
        """Hashes of the keys of the rows and of their payloads."""
        self.restored = Restored(0, 0)

    def pairs(self, rows: Iterable[Row]) -> Iterator[StoredPair]:
        """What is missing of these rows, which were checked.

        Raises `StoreChanged` if one has different contents, and `Refused` if a row comes twice, or
        if another thread has its keys.
        """
        now = time.time() * 1000
        for some in in_batches(rows, attrgetter("size"), _BYTES_AT_ONCE, _AT_ONCE):
            self._lease.keep()
            kept = [one for one in some if self._keeps_expired or not _is_over(one, now)]
            missing = list(self._missing(kept))
            self.restored = Restored(
                self.restored.added + len(missing),
                self.restored.there + len(kept) - len(missing),
                self.restored.expired + len(some) - len(kept),
            )
            yield from missing

    def _missing(self, rows: Sequence[Row]) -> Iterator[StoredPair]:
        """The rows without an item, each without a payload that is stored already."""
        pairs = [pair_of(one) for one in rows]
        for row, pair in zip(rows, pairs, strict=True):
            self._remember(row, pair)
        rivals = {place for one in rows for place in places_of_rivals(one)}
        stored = self._connection.get(
            [*rivals, *(key for one in pairs for key in (one.key, one.payload_key))]
        )
        if not rivals.isdisjoint(stored):
            raise Refused(
                "a checkpoint of another thread has the same keys, because ids contain '#'"
            )
        for row, pair in zip(rows, pairs, strict=True):
            found, item = self._payload(pair, stored), stored.get(pair.key)
            if item is not None:
                if _lasting(item) != _lasting(pair.item) or found != pair.payload:
                    raise conflict(row.table)
            elif found is None or pair.payload is None:
                yield pair
            elif found == pair.payload:
                # Such as by an import that was killed.
                yield replace(pair, chunk=None, object=None)
            else:
                # It may be that of another thread.
                raise conflict(row.table)

    def _payload(self, pair: StoredPair, stored: Mapping[Key, Attributes]) -> Any:
        """The payload that is stored in the place of a pair's; None if there is none."""
        if pair.object is None:
            return stored.get(pair.payload_key, {}).get(PAYLOAD)
        found = self._connection.object(pair.object[0])
        return None if found is None else found.data or b""

    def _remember(self, row: Row, pair: StoredPair) -> None:
        """Raise `Refused` if an earlier row of the archive has one of the keys of this one."""
        for key in (pair.key, pair.payload_key):
            mark = hash(key)
            if mark in self._seen:
                raise Refused(f"a row of '{row.table}' comes twice")
            self._seen.add(mark)


def _lasting(item: Attributes) -> Attributes:
    return {name: one for name, one in item.items() if name != "ttl"}


def _is_over(row: Row, now: float) -> bool:
    expires_at = row.cells.get("expires_at")
    return isinstance(expires_at, int) and expires_at <= now


# Replaces payloads of a table, one after the other.
#
# An item and its payload in the table are replaced in one transaction, which requires that the
# payload is as it was read.


def replace_rows(connection: DynamoWriter, thread_id: str, edits: Iterable[RowEdit]) -> None:
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


def _replace(connection: DynamoWriter, one: RowEdit) -> None:
    """Store an item anew with its payload, which may move between table and bucket."""
    item = _item_of(connection, one.stored)
    found = [] if item is None else list(payloads(connection, [item]))
    if item is None or row_of(item, found[0][1]) != one.stored:
        raise moved(str(one.stored.cells["thread_id"]))
    made = pair_of(placed_row(connection, one.new))
    was_in_s3 = item.ref.location == IN_S3
    if made.object is not None:
        if was_in_s3 and made.item != item.attributes:
            raise Unsupported(
                f"the payload of checkpoint '{item.key.checkpoint_id}' is in S3, where it and its"
                " type cannot be replaced together",
                hint="copy the thread to another table with `ckpt copy`",
            )
        connection.put_object(*made.object)
    actions = [put(made.item, IS_THERE)]
    if made.chunk is not None:
        old = {":old": {"B": found[0][1].data}}
        condition = "" if was_in_s3 else f"{PAYLOAD} = :old"
        actions.append(put(made.chunk, condition, {} if was_in_s3 else old))
    elif not was_in_s3:
        actions.append(delete((item.ref.key, CHUNK_SORT)))
    connection.transact(actions)
    if was_in_s3 and made.object is None:
        connection.remove_objects([item.ref.key])


def _item_of(connection: DynamoConnection, row: Row) -> DynamoItem | None:
    """The item that a row was read from; None if it is gone."""
    place = pair_of(row).key
    found = connection.get([place]).get(place)
    if found is None:
        return None
    if row.table == CHECKPOINTS:
        return checkpoint_item(found)
    return write_item(key_of(row.cells), found)


class WritableDynamoStore(OnConnection[DynamoWriter], BaseWritableStore):
    """A table, opened for changing."""

    def __init__(self, connection: DynamoWriter, url: StoreUrl) -> None:
        super().__init__(connection, url)
        self._left_objects: list[str] = []
        """Payloads in S3 that were not removed with their items."""

    def apply(self, change: Change) -> None:
        if change.blobs or change.removed_blobs:
            raise no_values()
        if not all(is_storable(one.key) for one in change.checkpoints):
            raise Unsupported(f"DynamoDB cannot store the thread id '{change.thread_id}'")
        connection = self._connection
        with explained_change(self._url), change_lease(connection, change.thread_id) as lease:
            present = read_thread(connection, change.thread_id)
            if heads_of(present) != dict(change.heads):
                raise moved(change.thread_id)
            plan = DynamoPlan(connection, change, present)
            made = ThreadChange(connection, lease, replaces=True)
            try:
                going = plan.removed()
                objects = object_keys(connection, going)
                made.carry_out(plan.added(), plan.checked(), going)
                plan.check_nothing_came()
            except BaseException as error:
                if not made.back() and isinstance(error, Exception):
                    raise _partly(change) from error
                raise
            self._left_objects += connection.remove_objects(objects)

    def remove(self, removals: Sequence[Removal]) -> list[Removed]:
        done: list[Removed] = []
        with explained_change(self._url), purge_lease(self._connection) as lease:
            for one in removals:
                removing = _Removing(self._connection, lease, one)
                try:
                    done.append(removing.removed())
                finally:
                    self._left_objects += removing.left_objects
        return done

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


# Makes tables as the CloudFormation template of `langgraph-checkpoint-aws` does.
#
# The saver itself makes none. Of the template's settings, point-in-time recovery and tags are left
# out: they belong to a deployment, and recovery costs money.


_OWN = (CHECKPOINT_PREFIX, WRITES_PREFIX, CHUNK_PREFIX, PARTITION)
"""How the partitions of the saver and of `ckpt` begin."""
_SAMPLED = 25
_WAIT = {"Delay": 2, "MaxAttempts": 90}


def create_table(url: StoreUrl, language: Language) -> None:  # noqa: ARG001 - Python only
    """Make a table for the saver, unless there is one.

    The bucket for long payloads must exist, if the URL names one. Raises `UsageError`,
    `StoreUnavailable`, and `Refused` if the table has other items.
    """
    session = checked_session(url)
    with explained(url, "create"):
        client = client_of(url, session, "dynamodb")
        try:
            if not _is_there(client, url):
                _create(client, url.path)
        finally:
            client.close()


def _is_there(client: Any, url: StoreUrl) -> bool:
    """Whether the table exists. Raises `Refused` if it is not one of the saver."""
    try:
        about = client.describe_table(TableName=url.path)["Table"]
    except ClientError as error:
        if code_of(error) == "ResourceNotFoundException":
            return False
        raise
    keys = {one["AttributeName"]: one["KeyType"] for one in about["KeySchema"]}
    found = client.scan(TableName=url.path, Limit=_SAMPLED)["Items"] if keys == KEYS else []
    if keys != KEYS or not all(one["PK"].get("S", "").startswith(_OWN) for one in found):
        raise Refused(
            f"cannot make a store in '{url}': the table holds other items",
            hint="name a table that does not exist",
        )
    return True


def _create(client: Any, table: str) -> None:
    client.create_table(
        TableName=table,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in KEYS],
        KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in KEYS.items()],
    )
    client.get_waiter("table_exists").wait(TableName=table, WaiterConfig=_WAIT)
    client.update_time_to_live(
        TableName=table, TimeToLiveSpecification={"Enabled": True, "AttributeName": "ttl"}
    )


def open_writable(url: StoreUrl) -> WritableStore:
    """Open for changing. Raises the errors of `store.open_store`."""
    with opening(DynamoWriter(url), url) as connection:
        return understanding(WritableDynamoStore(connection, url), url)
