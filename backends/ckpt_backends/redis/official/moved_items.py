"""Items of other Stores as documents of RedisStore.

The library finds an item by its search index, which ignores case, so items whose names differ only
in case replace each other.
"""

from __future__ import annotations

import json
import re
from collections.abc import Hashable
from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import blake2b

from ckpt_backends.codec.values import REDIS_JSON
from ckpt_backends.memory import dotted_namespaces
from ckpt_backends.memory.moving import as_json, check_labels, check_whole, compact, is_unicode
from ckpt_backends.memory.protocol import Item, ItemKey
from ckpt_backends.model import TypedBytes
from ckpt_backends.redis.official.item_fields import EPOCH
from ckpt_backends.transfer.errors import CannotHold

_SPECIAL = re.compile(r"[,.<>{}\[\]\\\"':;!@#$%^&*()\-+=~/ ?]")
"""What the library escapes in a namespace. Source: `TokenEscaper` of redisvl 0.28."""
_WRAPPER = {"__serde_type__", "__serde_data__"}
_LETTERS = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def fitted_item(item: Item) -> Item:
    """An item as the library stores it. Raises `CannotHold`."""
    check_labels(item.key.namespace, dotted_namespaces.DOT)
    if item.created_at is None or item.updated_at is None:
        raise CannotHold("its times are unknown")
    value = item.value
    if value is None or value.problem or not _is_wrapped(value):
        found = as_json(value)
        if found.keys() == _WRAPPER:
            raise CannotHold("RedisStore would take its value for a serialised object")
        check_whole(found, -(1 << 63), (1 << 63) - 1)
        value = compact(found)
    if not all(map(is_unicode, (*item.key.namespace, item.key.key))):
        raise CannotHold("its namespace or key is not Unicode")
    return replace(item, value=value, lifetime=None, vectors=())


def _is_wrapped(value: TypedBytes) -> bool:
    """Whether a value is one that RedisStore itself serialised."""
    return value.type in {REDIS_JSON, "msgpack", "bytes", "bytearray"}


def identity_of(key: ItemKey) -> Hashable:
    """The namespace and key as the search index compares them."""
    return tuple(one.casefold() for one in (*key.namespace, key.key))


def key_name(prefix: bytes, item: Item) -> bytes:
    """The key of an item's document: always the same for the same item and time."""
    updated = milliseconds(item.updated_at) if item.updated_at is not None else 0
    name = "\0".join((*item.key.namespace, item.key.key)).encode()
    number = (updated & ((1 << 48) - 1)) << 80
    number |= int.from_bytes(blake2b(name, digest_size=10).digest())
    return b"%s:%s" % (prefix, _ulid(number).encode())


def _ulid(number: int) -> str:
    """128 bits in the letters of a ULID (https://github.com/ulid/spec)."""
    return "".join(_LETTERS[number >> 5 * place & 31] for place in reversed(range(26)))


def document_of(item: Item) -> str:
    """The JSON document of an item that was fitted."""
    value = item.value or TypedBytes("json", b"{}")
    if value.type == "json":
        stored = value.data.decode()
    else:
        data = value.data.decode() if value.type == REDIS_JSON else value.data.hex()
        tag = "json" if value.type == REDIS_JSON else value.type
        stored = json.dumps({"__serde_type__": tag, "__serde_data__": data})
    escaped = _SPECIAL.sub(r"\\\g<0>", dotted_namespaces.joined(item.key.namespace) or "")
    fields = {
        "prefix": json.dumps(escaped),
        "key": json.dumps(item.key.key),
        "value": stored,
        "created_at": str(_microseconds(item.created_at)),
        "updated_at": str(_microseconds(item.updated_at)),
    }
    return "{" + ",".join(f'"{name}":{text}' for name, text in fields.items()) + "}"


def milliseconds(at: datetime) -> int:
    """Milliseconds since 1970."""
    return (at - EPOCH) // timedelta(milliseconds=1)


def _microseconds(at: datetime | None) -> int:
    return 0 if at is None else (at - EPOCH) // timedelta(microseconds=1)
