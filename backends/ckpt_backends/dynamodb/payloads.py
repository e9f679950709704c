"""Reads the payloads of checkpoints and writes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ckpt_backends.codec.limits import MOST_BYTES, unread
from ckpt_backends.dynamodb.connect import Attributes, DynamoConnection
from ckpt_backends.dynamodb.items import (
    CHUNK_SORT,
    IN_S3,
    IN_TABLE,
    PAYLOAD,
    DynamoItem,
    PayloadRef,
    expiry_of,
    is_partition,
)
from ckpt_backends.dynamodb.layers import decompressed
from ckpt_backends.model import TypedBytes

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
        found = connection.get(keys, f"{PAYLOAD}, #ttl")
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


def sizes_of(connection: DynamoConnection, items: Sequence[_Item]) -> Iterator[tuple[_Item, int]]:
    """The stored length of each payload; 0 if it is missing. Of S3 objects, no byte is read."""
    in_table = [one for one in items if one.ref.location == IN_TABLE]
    for one, payload in payloads(connection, in_table):
        yield one, payload.size
    rest = [one for one in items if one.ref.location != IN_TABLE]
    reachable = [one for one in rest if not why_unreachable(connection, one.ref)]
    sizes = connection.together(lambda one: connection.object_size(one.ref.key), reachable)
    yield from ((one, size or 0) for one, size in zip(reachable, sizes, strict=True))
    unreachable = [one for one in rest if why_unreachable(connection, one.ref)]
    yield from ((one, 0) for one in unreachable)


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
