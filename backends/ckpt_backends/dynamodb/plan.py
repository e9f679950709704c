"""A change as items and objects to store and to remove."""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ckpt_backends.changes.change import Change, CopyOfCheckpoint, gone, moved
from ckpt_backends.changes.rows import Row
from ckpt_backends.codec import decode
from ckpt_backends.codec.msgpack.cursor import MAP, write_header
from ckpt_backends.dynamodb.archive import (
    CHECKPOINTS,
    WRITES,
    StoredPair,
    checkpoint_row,
    pair_of,
    write_row,
)
from ckpt_backends.dynamodb.connect import DynamoConnection, Key
from ckpt_backends.dynamodb.index import DynamoIndex, read_writes
from ckpt_backends.dynamodb.items import (
    CHUNK_SORT,
    GZIP,
    IN_S3,
    IN_TABLE,
    CheckpointItem,
    DynamoItem,
    WriteItem,
    checkpoint_place,
    chunk_of,
    object_of,
)
from ckpt_backends.dynamodb.layers import BODY, METADATA, split_payload
from ckpt_backends.dynamodb.payloads import StoredPayload, payloads, value_of, why_unreachable
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import Checkpoint, CheckpointKey, TypedBytes, Write

_OFFLOADED = 350 * 1024
"""The saver stores longer payloads in S3, if it has a bucket (`S3_OFFLOAD_THRESHOLD`)."""
LONGEST = 398 * 1024
"""DynamoDB's limit for an item is 400 KB with its key."""
_COMPRESSED, _SAVED = 1024, 0.1
"""The saver compresses payloads from this length on, if that saves this part of it."""


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
                raise moved(self._change)
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
        for one in self._change.checkpoints:
            yield self._new(one)
        for write in self._change.writes:
            yield self._new_write(write)
        for some in self._change.copies_of_writes:
            yield from self._copied_writes(some.source, some.target, some.tasks)

    # New checkpoints and writes

    def _new(self, one: Checkpoint) -> StoredPair:
        assert one.body is not None  # noqa: S101
        assert one.metadata is not None  # noqa: S101
        tag, data = checkpoint_payload(one.body, one.metadata)
        cells = {**cells_of(one.key), "type": tag, **self._like(one.key, one.metadata)}
        if one.parent_checkpoint_id:
            cells["parent_checkpoint_id"] = one.parent_checkpoint_id
        return self._pair(CHECKPOINTS, cells, data)

    def _new_write(self, write: Write) -> StoredPair:
        value = write.value or TypedBytes("null", b"")
        cells = {**cells_of(write.key), "type": value.type, **self._like(write.key, None)}
        cells |= {"task_id": write.task_id, "idx": write.idx, "channel": write.channel}
        if write.task_path:
            cells["task_path"] = write.task_path
        return self._pair(WRITES, cells, value.data)

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

    def _pair(self, table: str, cells: dict[str, Any], data: bytes) -> StoredPair:
        return pair_of(placed_row(self._connection, table, cells, data))

    # Copies

    def _copied(self, copy: CopyOfCheckpoint) -> Iterator[StoredPair]:
        found = self._index.at([copy.source])
        if not found:
            raise gone(copy.source)
        target = copy.source._replace(thread_id=self._change.thread_id)
        yield from self._copied_writes(copy.source, target, copy.writes)
        for item, payload in payloads(self._connection, found):
            self._need(item, payload)
            row = checkpoint_row(item, payload)
            cells = {**row.cells, **cells_of(target)}
            if copy.metadata is None and copy.body is None:
                yield pair_of(Row(CHECKPOINTS, cells))
                continue
            body, metadata = split_payload(value_of(payload))
            data = joined(copy.body or body, copy.metadata or metadata)
            yield self._pair(CHECKPOINTS, {**cells, "type": "msgpack"}, data)

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
            row = write_row(item, payload)
            cells = {**row.cells, **cells_of(target)}
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


def placed_row(connection: DynamoConnection, table: str, cells: dict[str, Any], data: bytes) -> Row:
    """The row for a new payload, compressed and placed as the saver would.

    Raises `Unsupported` if the payload is too long.
    """
    if cells.get("compression") == GZIP:
        small = gzip.compress(data, 6, mtime=0) if len(data) >= _COMPRESSED else data
        if len(data) - len(small) >= _SAVED * len(data) > 0:
            data = small
        else:
            del cells["compression"]
    in_s3 = len(data) > _OFFLOADED and connection.bucket is not None
    if not in_s3 and len(data) > LONGEST:
        raise Unsupported(
            f"a payload of {len(data)} bytes is too long for an item of DynamoDB",
            hint="name the bucket of the saver: add ?bucket=NAME to the URL",
        )
    cells["ref_loc"] = IN_S3 if in_s3 else IN_TABLE
    cells[BODY if table == CHECKPOINTS else "value"] = data
    return Row(table, cells)


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


def checkpoint_payload(body: TypedBytes, metadata: TypedBytes) -> tuple[str, bytes]:
    """The type and the bytes of the payload of a checkpoint. Raises `Unsupported`."""
    if "+" in body.type and (body.part, metadata.part) == (BODY, METADATA):
        # Encrypted together, as this layout stores them.
        return body.type, body.data
    return "msgpack", joined(body, metadata)


def joined(body: TypedBytes, metadata: TypedBytes) -> bytes:
    """The payload of a checkpoint. Raises `Unsupported` if the body is not plain `msgpack`."""
    if body.problem or body.part or body.type != "msgpack":
        what = "encrypted" if body.part else f"of type '{body.type}'"
        raise Unsupported(
            f"cannot write a checkpoint whose body is {what} here",
            hint="only bodies of type 'msgpack' can be copied",
        )
    parts = {BODY: body.data, METADATA: _msgpack(metadata)}
    packed = b"".join(_packed(name) + data for name, data in parts.items())
    return write_header(MAP, len(parts)) + packed


def _msgpack(value: TypedBytes) -> bytes:
    if value.type == "msgpack" and not value.problem and not value.part:
        return value.data
    if value.type == "json" and not value.problem:
        return _packed(json.loads(value.data))
    raise Unsupported(f"cannot write metadata of type '{value.type}' into a msgpack payload")


def _packed(value: object) -> bytes:
    import ormsgpack

    return ormsgpack.packb(value)


def cells_of(key: CheckpointKey) -> Mapping[str, str]:
    """The cells that tell the checkpoint of a row."""
    return {
        "thread_id": key.thread_id,
        "checkpoint_ns": key.checkpoint_ns,
        "checkpoint_id": key.checkpoint_id,
    }
