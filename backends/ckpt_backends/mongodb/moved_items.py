"""Items of other Stores as documents of MongoDBStore.

A TTL index removes each document a fixed time after `updated_at`, and the library sets `updated_at`
when it reads an item. So an item that expires gets the `updated_at` at which its life began.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import blake2b
from typing import Any

from bson import ObjectId, encode
from bson.errors import BSONError, InvalidDocument
from bson.raw_bson import RawBSONDocument

from ckpt_backends.memory.moving import (
    PLAIN_BSON,
    as_json,
    check_labels,
    check_whole,
    is_unicode,
    lifetime_of,
    whole_milliseconds,
)
from ckpt_backends.memory.protocol import Item
from ckpt_backends.model import TypedBytes
from ckpt_backends.transfer.errors import CannotHold

_LARGEST = (16 << 20) - (16 << 10)
"""Bytes of a value. A document has at most 16 MiB, with the namespace and the key."""
_MINUTE = 60


def fitted_item(item: Item, separator: str, lifetime: float | None) -> Item:
    """An item as a collection stores it, whose documents live for some seconds.

    Raises `CannotHold`.
    """
    check_labels(item.key.namespace, separator)
    if not all(map(is_unicode, (*item.key.namespace, item.key.key))):
        raise CannotHold("its namespace or key is not Unicode")
    if item.created_at is None or item.updated_at is None:
        raise CannotHold("its times are unknown")
    value = _document(item.value)
    updated = whole_milliseconds(_began(item, item.updated_at, lifetime))
    return replace(
        item,
        value=value,
        created_at=whole_milliseconds(item.created_at),
        updated_at=updated,
        expires_at=None if lifetime is None else updated + timedelta(seconds=lifetime),
        lifetime=None if lifetime is None else lifetime / _MINUTE,
        vectors=(),
    )


def _began(item: Item, updated_at: datetime, lifetime: float | None) -> datetime:
    """When the life of an item began, if the collection's lifetime is its own."""
    if item.expires_at is None:
        if lifetime is not None:
            raise CannotHold(
                f"it never expires; the target removes every item {lifetime:g} seconds after its"
                " last update"
            )
        return updated_at
    if lifetime is None:
        raise CannotHold(
            "it expires, and the target has no TTL index: open it once with MongoDBStore and"
            " ttl_config"
        )
    own = lifetime_of(item)
    if own is None or abs(own * _MINUTE - lifetime) > 1:
        raise CannotHold(
            f"it lives for {(own or 0) * _MINUTE:g} seconds, each item of the target for"
            f" {lifetime:g}"
        )
    return item.expires_at - timedelta(seconds=lifetime)


def _document(value: TypedBytes | None) -> TypedBytes:
    if value is not None and value.type == PLAIN_BSON and not value.problem:
        return value
    found = as_json(value)
    check_whole(found, -(1 << 63), (1 << 63) - 1)
    try:
        data = encode(found)
    except (BSONError, InvalidDocument, OverflowError, RecursionError) as error:
        raise CannotHold(f"its value has no form in BSON: {error}") from None
    if len(data) > _LARGEST:
        raise CannotHold("its value is too large for a document of MongoDB")
    return TypedBytes(PLAIN_BSON, data)


def document_of(item: Item, separator: str) -> dict[str, Any]:
    """The document of an item that was fitted. Its `_id` is always the same."""
    namespace = list(item.key.namespace)
    name = "\0".join((*namespace, item.key.key))
    seconds = int(item.created_at.timestamp()) if item.created_at is not None else 0
    return {
        "_id": ObjectId(
            (seconds & 0xFFFFFFFF).to_bytes(4) + blake2b(name.encode(), digest_size=8).digest()
        ),
        "key": item.key.key,
        "namespace_str": separator.join(namespace),
        "created_at": item.created_at,
        "namespace": namespace,
        "updated_at": item.updated_at,
        "value": RawBSONDocument(item.value.data if item.value is not None else b""),
    }
