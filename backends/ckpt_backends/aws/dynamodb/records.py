"""Items with their payloads as rows of an archive, and back.

A row is a checkpoint or a write. Its cells are the attributes of its item, with names as in other
layouts; what follows from them (keys and references) is left out. `expires_at` is the attribute
`ttl` in milliseconds. `more` has, as JSON, attributes that no saver stores.
"""

from __future__ import annotations

import gzip
import json
import re
import zlib
from base64 import b64decode, b64encode
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias, TypeVar, cast

from botocore.exceptions import ParamValidationError
from botocore.validate import validate_parameters

from ckpt_backends.aws.dynamodb.connect import Attributes, DynamoConnection, Key, key_attributes
from ckpt_backends.codec.edits import as_msgpack, msgpack_map, split
from ckpt_backends.codec.values import MOST_BYTES, unread
from ckpt_backends.errors import Refused, Unsupported
from ckpt_backends.model import CheckpointKey, Kind, Record, TypedBytes
from ckpt_backends.rows import Cell, ChangeValue, PlacedValue, Row, ValueKind, no_table, not_of
from ckpt_backends.transfer.form import CannotHold

# Opens payloads: decompresses them, and splits those of checkpoints.
#
# The payload of a checkpoint is one value of the serializer with the entries `checkpoint` and
# `metadata`; the bytes of each entry are taken out without decoding it. Compression, if any, is
# the outermost layer, encryption the next one.


BODY, METADATA = "checkpoint", "metadata"
_GZIP = 31
"""The window of zlib for data with gzip's header."""
_MOST_MEMBERS = 1000
"""The saver stores one member."""
_FED = 1 << 16
"""Bytes that zlib gets at once. At the end of a member it copies the rest of them."""


def decompressed(data: bytes) -> bytes | None:
    """The content of gzip data; None if it is longer than `MOST_BYTES`. Raises ValueError."""
    found: list[bytes] = []
    left = MOST_BYTES + 1
    view, start, members = memoryview(data), 0, 0
    while start < len(view):
        members += 1
        if members > _MOST_MEMBERS:
            raise ValueError(f"gzip data of more than {_MOST_MEMBERS} members")
        machine = zlib.decompressobj(_GZIP)
        while not machine.eof:
            piece = view[start : start + _FED]
            if not piece:
                raise ValueError("gzip data that is cut off")
            try:
                found.append(machine.decompress(piece, left))
            except zlib.error:
                raise ValueError("not valid gzip data") from None
            left -= len(found[-1])
            if left <= 0:
                return None
            start += len(piece) - len(machine.unused_data)
    return b"".join(found)


def split_payload(value: TypedBytes) -> tuple[TypedBytes, TypedBytes]:
    """Body and metadata of the payload of a checkpoint; with the problem if it cannot be split."""
    if value.problem:
        return value, value
    if "+" in value.type:
        # They are encrypted together.
        return _part(value, BODY), _part(value, METADATA)
    try:
        parts = split(value)
        if BODY not in parts:
            raise ValueError("no checkpoint in it")
    except ValueError as error:
        broken = TypedBytes(value.type, value.data, problem=str(error))
        return broken, broken
    return parts[BODY], parts.get(METADATA, TypedBytes("json", b"{}"))


def _part(value: TypedBytes, name: str) -> TypedBytes:
    return TypedBytes(value.type, value.data, part=name)


# The records of a thread in the rows of DynamoDB.


def records_of(layout: str, rows: Iterable[Row]) -> Iterator[Record]:  # noqa: ARG001 - one layout
    """The records that the rows of one thread hold. Raises `CannotHold`."""
    for row in rows:
        cells, key = row.cells, key_of(row.cells)
        expires_at = cast("int | None", cells.get("expires_at"))
        if row.table == CHECKPOINTS:
            where = f"checkpoint '{key.checkpoint_id}'"
            body, metadata = split_payload(_payload(row, where))
            if body.problem:
                raise CannotHold(f"{where} cannot be read: {body.problem}")
            parent = cast("str | None", cells.get("parent_checkpoint_id"))
            yield Record.checkpoint(key, parent, body, metadata, expires_at)
        else:
            channel = _text(cells["channel"])
            where = f"the write to '{channel}' at checkpoint '{key.checkpoint_id}'"
            yield Record.write(
                key,
                _text(cells["task_id"]),
                _text(cells.get("task_path", "")),
                cast("int", cells["idx"]),
                channel,
                _payload(row, where),
                expires_at,
            )


def _payload(row: Row, where: str) -> TypedBytes:
    """The value in a row. Raises `CannotHold`."""
    cells = row.cells
    data = cells.get(BODY if row.table == CHECKPOINTS else "value")
    if not isinstance(data, bytes):
        raise CannotHold(f"the payload of {where} is missing")
    if "more" in cells:
        raise CannotHold(f"{where} has attributes that its saver does not store")
    if "compression" not in cells:
        return TypedBytes(_text(cells["type"]), data)
    try:
        found = decompressed(data)
    except ValueError as error:
        raise CannotHold(f"the payload of {where} cannot be read: {error}") from None
    if found is None:
        raise CannotHold(f"the payload of {where} decompresses to more than {MOST_BYTES >> 20} MiB")
    return TypedBytes(_text(cells["type"]), found)


def _text(cell: Cell) -> str:
    return cast("str", cell)


_OFFLOADED = 350 * 1024
"""The saver stores longer payloads in S3, if it has a bucket (`S3_OFFLOAD_THRESHOLD`)."""
_LONGEST = 398 * 1024
"""DynamoDB's limit for an item is 400 KB with its key."""
_COMPRESSED, _SAVED = 1024, 0.1
"""The saver compresses payloads from this length on, if that saves this part of it."""


def cells_of(record: Record) -> tuple[str, dict[str, Any], TypedBytes]:
    """The table, the cells and the payload of a record. Raises `Unsupported`."""
    if record.kind is Kind.VALUE:
        raise no_values()
    cells: dict[str, Any] = record.key._asdict()
    if record.kind is Kind.CHECKPOINT:
        parent = {"parent_checkpoint_id": record.parent} if record.parent else {}
        return CHECKPOINTS, cells | parent, checkpoint_payload(record.value, record.metadata)
    path = {"task_path": record.task_path} if record.task_path else {}
    task = {"task_id": record.task_id, "idx": record.idx, "channel": record.channel, **path}
    return WRITES, cells | task, record.value


def no_values() -> Unsupported:
    """The error for a value outside of checkpoints."""
    return Unsupported("layout 'dynamodb' stores no values outside of checkpoints")


def checkpoint_payload(body: TypedBytes, metadata: TypedBytes) -> TypedBytes:
    """The payload of a checkpoint, before compression.

    Raises `Unsupported` if the body is not plain `msgpack`.
    """
    if "+" in body.type and (body.part, metadata.part) == (BODY, METADATA):
        # Encrypted together, as this layout stores them.
        return TypedBytes(body.type, body.data)
    if body.problem or body.part or body.type != "msgpack":
        what = "encrypted" if body.part else f"of type '{body.type}'"
        raise Unsupported(
            f"cannot write a checkpoint whose body is {what} here",
            hint="only bodies of type 'msgpack' can be copied",
        )
    entries = {BODY: body.data, METADATA: as_msgpack(metadata)}
    return TypedBytes("msgpack", msgpack_map(entries))


def new_row(
    connection: DynamoConnection, table: str, cells: Mapping[str, Cell], value: TypedBytes
) -> Row:
    """A row with this payload, as the saver would store it. Raises `Unsupported`."""
    if len(value.data) > _LONGEST and connection.bucket is None:
        # The saver reads this, whether it compresses itself or not.
        cells = {**cells, "compression": GZIP}
    return placed_row(connection, row_with(table, cells, value))


def placed_row(connection: DynamoConnection, row: Row) -> Row:
    """A row whose payload is where the saver would store it.

    Raises `Unsupported` if the payload is too long.
    """
    data = row.cells[_BYTES[row.table]]
    size = len(data) if isinstance(data, bytes) else 0
    in_s3 = size > _OFFLOADED and connection.bucket is not None
    if not in_s3 and size > _LONGEST:
        raise Unsupported(
            f"a payload of {size} bytes is too long for an item of DynamoDB",
            hint="name the bucket of the saver: add ?bucket=NAME to the URL",
        )
    return Row(row.table, {**row.cells, "ref_loc": IN_S3 if in_s3 else IN_TABLE})


def row_with(table: str, cells: Mapping[str, Cell], value: TypedBytes) -> Row:
    """A row with another payload, compressed as the saver would if `cells` say so."""
    data, kept = value.data, dict(cells)
    if kept.get("compression") == GZIP:
        small = gzip.compress(data, 6, mtime=0) if len(data) >= _COMPRESSED else data
        if len(data) - len(small) >= _SAVED * len(data) > 0:
            data = small
        else:
            del kept["compression"]
    return Row(table, {**kept, "type": value.type, _BYTES[table]: data})


def edited_row(layout: str, row: Row, change: ChangeValue) -> Row:  # noqa: ARG001 - one layout
    """The row with the payload that `change` returns; the same row if it is equal.

    Raises `CannotHold`.
    """
    names = (*_KEY, "task_id", "idx")
    place = "\0".join(str(row.cells.get(name, "")) for name in names)
    kind = ValueKind.WHOLE if row.table == CHECKPOINTS else ValueKind.WRITE
    channel = str(row.cells.get("channel", ""))
    found = _payload(row, f"a row of '{row.table}'")
    made = change(PlacedValue(kind, found, place, channel))
    return row if made is found else row_with(row.table, row.cells, made)


# The items of `DynamoDBSaver`, and their keys.
#
#     CHECKPOINT_<thread>                          <ns>#<id>        what a checkpoint is
#     WRITES_<thread>#<ns>#<id>                    <task>#<idx>     what a write is
#     CHUNK_<thread>#<ns>#<id>[#<task>#<idx>]      CHUNK            the payload of one of them
#
# An item names its payload by `ref_loc` (DYNAMODB or S3) and `ref_key`: the partition of the
# payload, or the key of an S3 object without the prefix of the bucket. Source:
# `unified_repository.py` and `storage_strategy.py` of
# `langgraph_checkpoint_aws/checkpoint/dynamodb`, 1.2.6.
#
# Thread ids and namespaces may contain `#`. So the namespace is what precedes the last `#` of a
# sort key: ids contain none.


CHECKPOINT_PREFIX, WRITES_PREFIX, CHUNK_PREFIX = "CHECKPOINT_", "WRITES_", "CHUNK_"
CHUNK_SORT = "CHUNK"
PAYLOAD = "payload"
IN_TABLE, IN_S3 = "DYNAMODB", "S3"
GZIP = "gzip"
_LONGEST_PARTITION, _LONGEST_SORT = 2048, 1024
"""DynamoDB's limits for keys, in bytes."""
_NUMBER = re.compile(r"0|-?[1-9]\d{0,17}", re.ASCII)
_LATEST = 253402300799
"""The last second of the year 9999."""


@dataclass(frozen=True, slots=True)
class PayloadRef:
    """Where the payload of an item is, and what it is."""

    type: str
    location: str
    key: str
    is_gzip: bool = False


@dataclass(frozen=True, slots=True)
class CheckpointItem:
    """What the table says about a checkpoint."""

    key: CheckpointKey
    parent: str | None
    ref: PayloadRef
    expires_at: int | None
    """Seconds since 1970."""
    attributes: Attributes = field(repr=False)


@dataclass(frozen=True, slots=True)
class WriteItem:
    """What the table says about a write."""

    key: CheckpointKey
    task_id: str
    task_path: str
    idx: int
    channel: str
    ref: PayloadRef
    expires_at: int | None
    attributes: Attributes = field(repr=False)


DynamoItem: TypeAlias = CheckpointItem | WriteItem


def partition_of(thread_id: str) -> str:
    """The partition of a thread's checkpoints."""
    return CHECKPOINT_PREFIX + thread_id


def checkpoint_place(key: CheckpointKey) -> Key:
    """The key of a checkpoint's item."""
    return CHECKPOINT_PREFIX + key.thread_id, f"{key.checkpoint_ns}#{key.checkpoint_id}"


def writes_partition(key: CheckpointKey) -> str:
    """The partition of a checkpoint's writes."""
    return f"{WRITES_PREFIX}{key.thread_id}#{key.checkpoint_ns}#{key.checkpoint_id}"


def chunk_of(key: CheckpointKey, write: tuple[str, int] | None = None) -> str:
    """The partition of the payload of a checkpoint, or of one of its writes (task id and idx)."""
    start = f"{CHUNK_PREFIX}{key.thread_id}#{key.checkpoint_ns}#{key.checkpoint_id}"
    return start if write is None else f"{start}#{write[0]}#{write[1]}"


def object_of(key: CheckpointKey, write: tuple[str, int] | None = None) -> str:
    """The same for a payload in S3, without the prefix of the bucket."""
    start = f"{key.thread_id}/checkpoints/{key.checkpoint_ns}/{key.checkpoint_id}"
    return start if write is None else f"{start}/writes/{write[0]}/{write[1]}"


def is_storable(key: CheckpointKey) -> bool:
    """Whether a checkpoint with this key, and its payload, can exist."""
    return fits(chunk_of(key), _LONGEST_PARTITION) and fits(checkpoint_place(key)[1], _LONGEST_SORT)


def is_partition(text: str) -> bool:
    """Whether a partition can have this key."""
    return bool(text) and fits(text, _LONGEST_PARTITION)


def fits(text: str, most: int) -> bool:
    """Whether a text can be stored as a key of at most so many bytes."""
    try:
        return len(text.encode()) <= most
    except UnicodeEncodeError:
        return False


def split_sort(sort: str) -> tuple[str, str]:
    """Namespace and checkpoint id in the sort key of a checkpoint."""
    ns, _, checkpoint_id = sort.rpartition("#")
    return ns, checkpoint_id


def checkpoint_item(attributes: Attributes) -> CheckpointItem:
    """A checkpoint of an item, whose attributes may have any type except those of the key."""
    thread_id = attributes["PK"]["S"].removeprefix(CHECKPOINT_PREFIX)
    return CheckpointItem(
        CheckpointKey(thread_id, *split_sort(attributes["SK"]["S"])),
        string_of(attributes, "parent_checkpoint_id") or None,
        ref_of(attributes),
        expiry_of(attributes),
        attributes,
    )


def write_item(key: CheckpointKey, attributes: Attributes) -> WriteItem:
    """A write of a checkpoint. The sort key tells task id and idx that the attributes lack."""
    task_id, _, number = attributes["SK"]["S"].rpartition("#")
    idx = number_of(attributes.get("idx"))
    if idx is None:
        idx = int(number) if _NUMBER.fullmatch(number) else 0
    return WriteItem(
        key,
        string_of(attributes, "task_id") or task_id,
        string_of(attributes, "task_path"),
        idx,
        string_of(attributes, "channel"),
        ref_of(attributes),
        expiry_of(attributes),
        attributes,
    )


def ref_of(attributes: Attributes) -> PayloadRef:
    """Where an item says that its payload is."""
    return PayloadRef(
        string_of(attributes, "type"),
        string_of(attributes, "ref_loc"),
        string_of(attributes, "ref_key"),
        string_of(attributes, "compression") == GZIP,
    )


def string_of(attributes: Attributes, name: str) -> str:
    """A string of an item; `''` if it is missing or has another type."""
    found = attributes.get(name)
    value = found.get("S") if isinstance(found, Mapping) else None
    return value if isinstance(value, str) else ""


def number_of(attribute: Any) -> int | None:
    """An integer of an item; None if it is missing, of another type, or very large."""
    value = attribute.get("N") if isinstance(attribute, Mapping) else None
    return int(value) if isinstance(value, str) and _NUMBER.fullmatch(value) else None


def expiry_of(attributes: Attributes) -> int | None:
    """When DynamoDB may delete an item, in seconds since 1970; None if never."""
    found = number_of(attributes.get("ttl"))
    return found if found is not None and 0 < found <= _LATEST else None


def moment(seconds: int | None) -> datetime | None:
    """A time of expiry as a date; None if there is none."""
    return None if seconds is None else datetime.fromtimestamp(seconds, UTC)


# Reads the payloads of checkpoints and writes.


_AT_ONCE = 25
"""Payloads that are in memory together, of at most 400 KB each."""
_SHOWN = 90
_Item = TypeVar("_Item", bound=DynamoItem)


@dataclass(frozen=True, slots=True)
class StoredPayload:
    """The bytes of a payload as stored, which may be compressed."""

    ref: PayloadRef
    data: bytes
    size: int
    """Stored length in bytes."""
    problem: str = ""
    """Why there are no bytes; `''` if there are."""
    is_missing: bool = False
    """Whether the payload is not stored at all."""
    expires_at: int | None = None


def payloads(
    connection: DynamoConnection, items: Sequence[_Item]
) -> Iterator[tuple[_Item, StoredPayload]]:
    """The payload of each item, in the order of the items."""
    for start in range(0, len(items), _AT_ONCE):
        some = items[start : start + _AT_ONCE]
        refs = [one.ref for one in some if one.ref.location == IN_TABLE]
        keys = [(one.key, CHUNK_SORT) for one in refs if is_partition(one.key)]
        found = connection.get(keys, (PAYLOAD, "ttl"))
        for one in some:
            if one.ref.location == IN_TABLE:
                chunk = found.get((one.ref.key, CHUNK_SORT))
                yield one, _of_chunk(one.ref, chunk)
            else:
                yield one, _of_object(connection, one.ref)


def _of_chunk(ref: PayloadRef, chunk: Attributes | None) -> StoredPayload:
    if chunk is None:
        return _missing(ref)
    attribute = chunk.get(PAYLOAD)
    data = attribute.get("B") if isinstance(attribute, dict) else None
    if not isinstance(data, bytes):
        return StoredPayload(ref, b"", 0, f"payload {_short(ref.key)} is not bytes")
    return StoredPayload(ref, data, len(data), expires_at=expiry_of(chunk))


def _of_object(connection: DynamoConnection, ref: PayloadRef) -> StoredPayload:
    if problem := why_unreachable(connection, ref):
        return StoredPayload(ref, b"", 0, problem)
    found = connection.object(ref.key)
    if found is None:
        return _missing(ref)
    if found.data is None:
        told = unread(ref.type, found.size)
        return StoredPayload(ref, b"", found.size, told.problem)
    return StoredPayload(ref, found.data, found.size)


def why_unreachable(connection: DynamoConnection, ref: PayloadRef) -> str:
    """Why a payload that is not in the table cannot be read; `''` if it can."""
    if ref.location != IN_S3:
        return f"payload is in an unknown place, {_short(ref.location)}"
    if connection.bucket is None:
        return "payload is in S3: add ?bucket=NAME to the URL"
    return "" if ref.key else "payload has no key"


def _missing(ref: PayloadRef) -> StoredPayload:
    where = "S3 object" if ref.location == IN_S3 else "payload"
    return StoredPayload(ref, b"", 0, f"{where} {_short(ref.key)} is missing", is_missing=True)


def _short(text: str) -> str:
    return f"'{text}'" if len(text) <= _SHOWN else f"'{text[: _SHOWN - 40]}…{text[-39:]}'"


def sized(
    connection: DynamoConnection, items: Sequence[_Item]
) -> Iterator[tuple[_Item, StoredPayload]]:
    """The payload of each item, in undefined order. Of S3 objects, only the length is read."""

    def size(item: DynamoItem) -> int:
        is_there = not why_unreachable(connection, item.ref)
        return (is_there and connection.object_size(item.ref.key)) or 0

    yield from payloads(connection, [one for one in items if one.ref.location == IN_TABLE])
    others = [one for one in items if one.ref.location != IN_TABLE]
    for one, length in zip(others, connection.together(size, others), strict=True):
        yield one, StoredPayload(one.ref, b"", length)


def value_of(payload: StoredPayload) -> TypedBytes:
    """The value that a payload holds; with a `problem` if it cannot be read."""
    tag = payload.ref.type
    if payload.problem:
        whole = payload.size or None
        return TypedBytes(tag, b"", problem=payload.problem, whole=whole)
    if not payload.ref.is_gzip:
        return TypedBytes(tag, payload.data)
    try:
        data = decompressed(payload.data)
    except ValueError as error:
        return TypedBytes(tag, payload.data, problem=str(error))
    if data is None:
        problem = f"decompresses to more than {MOST_BYTES >> 20} MiB, not read"
        return TypedBytes(tag, b"", problem=problem, whole=payload.size)
    return TypedBytes(tag, data)


CHECKPOINTS, WRITES = "checkpoints", "writes"
"""The tables of `rows` and `usage`, which are kinds of items in one table."""
_KEY = ("thread_id", "checkpoint_ns", "checkpoint_id")
_SHARED: dict[str, type] = {
    **dict.fromkeys((*_KEY, "type", "ref_loc", "compression", "more"), str),
    **dict.fromkeys(("expires_at", "payload_expires_at"), int),
}
_CELLS: Mapping[str, Mapping[str, type]] = {
    CHECKPOINTS: {**_SHARED, "parent_checkpoint_id": str, "checkpoint": bytes},
    WRITES: {
        **_SHARED,
        **dict.fromkeys(("task_id", "task_path", "channel"), str),
        "idx": int,
        "value": bytes,
    },
}
_NEEDED = {*_KEY, "type", "ref_loc", "task_id", "idx", "channel"}
"""Cells that each row has whose table has them."""
_WORDS = {str: "text", int: "a number", bytes: "bytes"}
_BYTES = {CHECKPOINTS: "checkpoint", WRITES: "value"}
_OWN = frozenset(
    {"PK", "SK", "id", "ns", "type", "ref_loc", "ref_key", "parent_checkpoint_id", "compression"}
    | {"ttl", "task_id", "channel", "idx", "checkpoint_id", "task_path", PAYLOAD}
)
"""Attributes that the saver stores."""
_SECOND = 1000
_MOST_HASHES = 16
"""In thread id and namespace together: each one makes the keys of another thread possible."""
_ITEM_BYTES = 400 * 1024 - 4096
"""DynamoDB's limit for an item is 400 KB with its names."""


@dataclass(frozen=True, slots=True)
class StoredPair:
    """The item of a checkpoint or write, and its payload, as they are stored."""

    item: Attributes
    chunk: Attributes | None
    """The item of the payload; None if it is missing or in S3."""
    object: tuple[str, bytes] | None = None
    """The key and the bytes of the payload in S3."""

    @property
    def key(self) -> Key:
        """The key of the item."""
        return self.item["PK"]["S"], self.item["SK"]["S"]

    @property
    def payload_key(self) -> Key:
        """The key of its payload, if that is in the table."""
        return self.item["ref_key"]["S"], CHUNK_SORT

    @property
    def payload(self) -> Any:
        """The bytes of an object, or the attribute with the payload; None if it is missing."""
        if self.object is not None:
            return self.object[1]
        return None if self.chunk is None else self.chunk[PAYLOAD]


def row_of(item: DynamoItem, payload: StoredPayload) -> Row:
    """The row of a checkpoint or write."""
    table = WRITES if isinstance(item, WriteItem) else CHECKPOINTS
    stored, key = item.attributes, item.key
    cells: dict[str, Cell] = {name: getattr(key, name) for name in _KEY}
    if isinstance(item, WriteItem):
        cells |= {"task_id": item.task_id, "idx": item.idx}
    for name in ("type", "ref_loc", "compression", "parent_checkpoint_id", "task_path", "channel"):
        if (value := stored.get(name, {}).get("S")) is not None:
            cells[name] = value
    if item.expires_at is not None:
        cells["expires_at"] = item.expires_at * _SECOND
    if payload.expires_at is not None:
        cells["payload_expires_at"] = payload.expires_at * _SECOND
    if not payload.problem:
        cells[_BYTES[table]] = payload.data
    canonical = _attributes(table, cells)
    if more := {name: one for name, one in stored.items() if canonical.get(name) != one}:
        cells["more"] = json.dumps(more, default=_base64, sort_keys=True)
    return Row(table, {name: cell for name, cell in cells.items() if name in _CELLS[table]})


def _base64(value: bytes) -> dict[str, str]:
    """Bytes of an attribute in JSON, which has no others."""
    return {"base64": b64encode(value).decode()}


def key_of(cells: Mapping[str, Any]) -> CheckpointKey:
    """The checkpoint of a row, by its cells."""
    return CheckpointKey(*(cells[name] for name in _KEY))


def _attributes(table: str, cells: Mapping[str, Any]) -> Attributes:
    """The attributes of an item as the saver stores them."""
    key = key_of(cells)
    write = (cells["task_id"], cells["idx"]) if table == WRITES else None
    if write is None:
        place = checkpoint_place(key)
        own = {"id": key.checkpoint_id, "ns": key.checkpoint_ns}
        names = ["parent_checkpoint_id"]
    else:
        place = (writes_partition(key), f"{write[0]}#{write[1]}")
        own = {"task_id": write[0], "checkpoint_id": key.checkpoint_id}
        names = ["channel", "task_path"]
    in_s3 = cells.get("ref_loc") == IN_S3
    own["ref_key"] = object_of(key, write) if in_s3 else chunk_of(key, write)
    names += ["type", "ref_loc", "compression"]
    own |= {name: cells[name] for name in names if name in cells}
    found = {**key_attributes(place), **{name: {"S": value} for name, value in own.items()}}
    if write is not None:
        found["idx"] = {"N": str(write[1])}
    if "expires_at" in cells:
        found["ttl"] = {"N": str(cells["expires_at"] // _SECOND)}
    return found


def pair_of(row: Row) -> StoredPair:
    """What a row was made of. The row must be checked."""
    item = _attributes(row.table, row.cells)
    more = row.cells.get("more")
    if isinstance(more, str):
        item = {**_more(more), **item}
    data = row.cells.get(_BYTES[row.table])
    if not isinstance(data, bytes):
        return StoredPair(item, None)
    ref_key = item["ref_key"]["S"]
    if item["ref_loc"]["S"] == IN_S3:
        return StoredPair(item, None, (ref_key, data))
    chunk = {**key_attributes((ref_key, CHUNK_SORT)), PAYLOAD: {"B": data}}
    expires_at = row.cells.get("payload_expires_at")
    if isinstance(expires_at, int):
        chunk["ttl"] = {"N": str(expires_at // _SECOND)}
    return StoredPair(item, chunk)


def places_of_rivals(row: Row) -> list[Key]:
    """The keys of checkpoints that would share the writes and payloads of a row's checkpoint.

    Keys join thread id and namespace by a `#`, which both may contain. The row must be checked.
    """
    key = key_of(row.cells)
    names = f"{key.thread_id}#{key.checkpoint_ns}".split("#")
    ways = (("#".join(names[:end]), "#".join(names[end:])) for end in range(1, len(names)))
    rivals = (CheckpointKey(*way, key.checkpoint_id) for way in ways if way[0])
    return [checkpoint_place(one) for one in rivals if one != key and is_storable(one)]


def _more(text: str) -> Attributes:
    def hook(value: dict[str, Any]) -> Any:
        if value.keys() == {"base64"} and isinstance(value["base64"], str):
            return b64decode(value["base64"])
        return value

    found: Attributes = json.loads(text, object_hook=hook)
    return found


def checked_rows(
    connection: DynamoConnection, thread_id: str, rows: Iterable[Row]
) -> Iterator[Row]:
    """The same rows, if all are rows of a thread. Raises `Refused` and `Unsupported`.

    A partition of writes does not tell a `#` in a thread id from one in a namespace. So writes in
    a namespace with a `#` must come with their checkpoint.
    """
    ambiguous: set[Hashable] = set()
    for row in rows:
        _check(row, connection)
        if row.cells["thread_id"] != thread_id:
            raise not_of(row.table, row.cells["thread_id"], thread_id)
        key = key_of(row.cells)
        if row.table == CHECKPOINTS:
            ambiguous.discard(key)
        elif "#" in key.checkpoint_ns:
            ambiguous.add(key)
        yield row
    if ambiguous:
        raise Refused("the archive has writes without their checkpoint, in a namespace with '#'")


def _check(row: Row, connection: DynamoConnection) -> None:
    """Raise `Refused` or `Unsupported` unless a row has the form of `_row`."""
    cells = row.cells
    if row.table not in _CELLS:
        raise no_table(row.table)
    kinds = _CELLS[row.table]
    if unknown := cells.keys() - kinds.keys():
        raise Unsupported(f"'{row.table}' has no column '{min(unknown)}' here")
    for name in sorted({*cells} | (_NEEDED & kinds.keys())):
        cell = cells.get(name)
        if type(cell) is not kinds[name] or (isinstance(cell, int) and abs(cell) > 1 << 53):
            raise Refused(f"a row of '{row.table}': '{name}' is not {_WORDS[kinds[name]]}")
    _check_place(row, connection)
    _check_more(row, connection)


def _check_place(row: Row, connection: DynamoConnection) -> None:
    cells, key = row.cells, key_of(row.cells)
    texts = [cell for cell in cells.values() if isinstance(cell, str)]
    if f"{key.thread_id}{key.checkpoint_ns}".count("#") > _MOST_HASHES:
        raise Unsupported(f"a row of '{row.table}' has a key with more than {_MOST_HASHES} '#'")
    if "#" in key.checkpoint_id or not key.checkpoint_id or not key.thread_id:
        raise Refused(f"a row of '{row.table}' has no valid id")
    if not is_storable(key) or not all(fits(one, _ITEM_BYTES) for one in texts):
        raise Unsupported(f"DynamoDB cannot store a row of '{row.table}'")
    if row.table == WRITES:
        sort = "#".join([str(cells["task_id"]), str(cells["idx"])])
        if not fits(sort, 1024) or not fits(f"{chunk_of(key)}#{sort}", 2048):
            raise Unsupported("DynamoDB cannot store a write with such a task id")
    if cells.get("compression", GZIP) != GZIP:
        raise Refused(f"a row of '{row.table}' has an unknown compression")
    data = cells.get(_BYTES[row.table], b"")
    if cells["ref_loc"] == IN_S3:
        if connection.bucket is None:
            raise Unsupported(
                "a payload of the archive belongs in S3", hint="add ?bucket=NAME to the URL"
            )
    elif cells["ref_loc"] != IN_TABLE:
        raise Refused(f"a row of '{row.table}' has an unknown place for its payload")
    elif isinstance(data, bytes) and len(data) > _ITEM_BYTES:
        raise Unsupported(f"a payload of {len(data)} bytes is too long for an item of DynamoDB")


def _check_more(row: Row, connection: DynamoConnection) -> None:
    """Raise `Refused` unless the other attributes have boto3's form, and names of their own."""
    if "more" not in row.cells:
        return
    try:
        found = _more(str(row.cells["more"]))
        form = connection.client.meta.service_model.shape_for("AttributeMap")
        validate_parameters(found, form)
    except (ValueError, TypeError, RecursionError, ParamValidationError):
        raise Refused(f"a row of '{row.table}' has attributes that are not valid") from None
    if found.keys() & _OWN:
        raise Refused(
            f"a row of '{row.table}' has attributes in a form that the saver never writes"
        )


# The items of a thread without payloads, read from the partitions of that thread only.


def read_thread(connection: DynamoConnection, thread_id: str) -> list[CheckpointItem]:
    """The present checkpoints of a thread by namespace, the newest id first."""
    partition = partition_of(thread_id)
    found = map(checkpoint_item, connection.query(partition)) if is_partition(partition) else ()
    ordered = sorted(found, key=lambda one: one.key.checkpoint_id, reverse=True)
    ordered.sort(key=lambda one: one.key.checkpoint_ns)
    return ordered


def read_at(
    connection: DynamoConnection, keys: Iterable[CheckpointKey]
) -> Iterator[CheckpointItem]:
    """The present checkpoints with these keys, of any threads; missing ones are left out."""
    places = dict.fromkeys(checkpoint_place(key) for key in keys if is_storable(key))
    found = connection.get(places)
    return (checkpoint_item(found[place]) for place in places if place in found)


def heads_of(present: Iterable[CheckpointItem]) -> dict[str, str]:
    """By namespace, the greatest id."""
    found: dict[str, str] = {}
    for one in present:
        key = one.key
        found[key.checkpoint_ns] = max(found.get(key.checkpoint_ns, ""), key.checkpoint_id)
    return found


def read_writes(
    connection: DynamoConnection, keys: Sequence[CheckpointKey]
) -> Iterator[list[WriteItem]]:
    """The present writes of each of these checkpoints, in the order of the protocol."""

    def read(key: CheckpointKey) -> list[WriteItem]:
        partition = writes_partition(key)
        stored = connection.query(partition) if is_partition(partition) else ()
        found = (write_item(key, one) for one in stored)
        return sorted(found, key=lambda one: (one.task_path, one.task_id, one.idx))

    return connection.together(read, keys)
