"""Items with their payloads as rows of an archive, and back.

A row is a checkpoint or a write. Its cells are the attributes of its item, with names as in other
layouts; what follows from them (keys and references) is left out. `expires_at` is the attribute
`ttl` in milliseconds. `more` has, as JSON, attributes that no saver stores.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from ckpt_backends.changes.rows import Cell, Row, no_table, not_of
from ckpt_backends.dynamodb.connect import Attributes, DynamoConnection, Key, key_attributes
from ckpt_backends.dynamodb.items import (
    CHUNK_SORT,
    GZIP,
    IN_S3,
    IN_TABLE,
    PAYLOAD,
    CheckpointItem,
    WriteItem,
    checkpoint_place,
    chunk_of,
    fits,
    is_storable,
    object_of,
    writes_partition,
)
from ckpt_backends.dynamodb.payloads import StoredPayload
from ckpt_backends.errors import Refused, Unsupported
from ckpt_backends.model import CheckpointKey

CHECKPOINTS, WRITES = "checkpoints", "writes"
"""The tables of `rows` and `usage`, which are kinds of items in one table."""
_KEY = ("thread_id", "checkpoint_ns", "checkpoint_id")
_SHARED = (*_KEY, "type", "ref_loc", "compression", "expires_at", "payload_expires_at", "more")
_CELLS = {
    CHECKPOINTS: {*_SHARED, "parent_checkpoint_id", "checkpoint"},
    WRITES: {*_SHARED, "task_id", "idx", "task_path", "channel", "value"},
}
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


def checkpoint_row(item: CheckpointItem, payload: StoredPayload) -> Row:
    """The row of a checkpoint."""
    return _row(CHECKPOINTS, item, payload)


def write_row(item: WriteItem, payload: StoredPayload) -> Row:
    """The row of a write."""
    return _row(WRITES, item, payload)


def _row(table: str, item: CheckpointItem | WriteItem, payload: StoredPayload) -> Row:
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


def _base64(value: object) -> Any:
    """Bytes of an attribute, in the form of DynamoDB's JSON; a set as a list."""
    if isinstance(value, bytes):
        return {"base64": b64encode(value).decode()}
    return sorted(value, key=repr) if isinstance(value, set | frozenset) else str(value)


def _key_of(cells: Mapping[str, Any]) -> CheckpointKey:
    return CheckpointKey(*(cells[name] for name in _KEY))


def _attributes(table: str, cells: Mapping[str, Any]) -> Attributes:
    """The attributes of an item as the saver stores them."""
    key = _key_of(cells)
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
    key = _key_of(row.cells)
    parts = f"{key.thread_id}#{key.checkpoint_ns}".split("#")
    ways = (("#".join(parts[:end]), "#".join(parts[end:])) for end in range(1, len(parts)))
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
        key = _key_of(row.cells)
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
    if unknown := cells.keys() - _CELLS[row.table]:
        raise Unsupported(f"'{row.table}' has no column '{min(unknown)}' here")
    for name in _texts(row.table):
        if not isinstance(cells.get(name), str):
            raise Refused(f"a row of '{row.table}': '{name}' is not text")
    for name in ("compression", "parent_checkpoint_id", "task_path", "more"):
        if not isinstance(cells.get(name, ""), str):
            raise Refused(f"a row of '{row.table}': '{name}' is not text")
    for name in ("expires_at", "payload_expires_at", *(("idx",) if row.table == WRITES else ())):
        value = cells.get(name, 0 if name != "idx" else None)
        if type(value) is not int or abs(value) > 1 << 53:
            raise Refused(f"a row of '{row.table}' has no number as '{name}'")
    _check_place(row, connection)
    _check_more(row)


def _texts(table: str) -> tuple[str, ...]:
    shared = (*_KEY, "type", "ref_loc")
    return (*shared, "task_id", "channel") if table == WRITES else shared


def _check_place(row: Row, connection: DynamoConnection) -> None:
    cells, key = row.cells, _key_of(row.cells)
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
    data = cells.get(_BYTES[row.table])
    if data is not None and not isinstance(data, bytes):
        raise Refused(f"a row of '{row.table}' has no bytes as value")
    if cells["ref_loc"] == IN_S3:
        if connection.bucket is None:
            raise Unsupported(
                "a payload of the archive belongs in S3", hint="add ?bucket=NAME to the URL"
            )
    elif cells["ref_loc"] != IN_TABLE:
        raise Refused(f"a row of '{row.table}' has an unknown place for its payload")
    elif data is not None and len(data) > _ITEM_BYTES:
        raise Unsupported(f"a payload of {len(data)} bytes is too long for an item of DynamoDB")


def _check_more(row: Row) -> None:
    more = row.cells.get("more")
    if more is None:
        return
    try:
        found = _more(str(more))
        names = found.keys()
        fine = all(_is_attribute(one, 8) for one in found.values())
    except (ValueError, TypeError, AttributeError, RecursionError):
        raise Refused(f"a row of '{row.table}' has attributes that are not valid") from None
    if not fine or names & _OWN:
        raise Refused(
            f"a row of '{row.table}' has attributes in a form that the saver never writes"
        )


def _is_attribute(value: object, depth: int) -> bool:
    """Whether a value has the form of an attribute, nested at most so deep."""
    if not isinstance(value, dict) or len(value) != 1 or not depth:
        return False
    ((kind, one),) = value.items()
    match kind:
        case "S" | "N":
            return isinstance(one, str)
        case "B":
            return isinstance(one, bytes)
        case "BOOL" | "NULL":
            return isinstance(one, bool)
        case "SS" | "NS":
            return isinstance(one, list) and all(isinstance(item, str) for item in one)
        case "BS":
            return isinstance(one, list) and all(isinstance(item, bytes) for item in one)
        case "L":
            return isinstance(one, list) and all(_is_attribute(item, depth - 1) for item in one)
        case "M":
            return isinstance(one, dict) and all(
                _is_attribute(item, depth - 1) for item in one.values()
            )
    return False
