"""What an operation did to items of long-term memory, as data that can be carried out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, TypeAlias

from ckpt_backends.memory import Item, ItemKey


@dataclass(frozen=True, slots=True)
class ItemsRemoved:
    """Items were removed, if they were as recorded here."""

    items: tuple[Item, ...]
    """Without their values."""


@dataclass(frozen=True, slots=True)
class ItemsRestored:
    """The items of an archive were restored, those that were missing."""

    bundle: Path
    digest: str
    """The SHA-256 of the archive's lines, as `Bundle.digest`."""
    items: int
    """The number of items that were missing."""


@dataclass(frozen=True, slots=True)
class ItemsAdded:
    """Items were copied from another store, which is not done again."""

    keys: tuple[ItemKey, ...]


@dataclass(frozen=True, slots=True)
class ItemEdited:
    """Fields of an item were set."""

    key: ItemKey
    fields: Mapping[str, Any]
    """What they were set to."""


MemoryPart: TypeAlias = ItemsRemoved | ItemsRestored | ItemsAdded | ItemEdited


def items_of(part: MemoryPart) -> int:
    """Return the number of items that a part concerns."""
    match part:
        case ItemsRemoved(items):
            return len(items)
        case ItemsRestored():
            return part.items
        case ItemsAdded(keys):
            return len(keys)
        case ItemEdited():
            return 1


def memory_record(part: MemoryPart) -> dict[str, Any]:
    """Return a part as JSON."""
    match part:
        case ItemsRemoved(items):
            return {"remove_items": list(map(_item_record, items))}
        case ItemsRestored(bundle, digest, number):
            return {"restore_items": {"bundle": str(bundle), "sha256": digest, "items": number}}
        case ItemsAdded(keys):
            return {"add_items": list(map(_key_record, keys))}
        case ItemEdited(key, fields):
            return {"edit_item": {**_key_record(key), "fields": dict(fields)}}


def memory_part(record: Mapping[str, Any]) -> MemoryPart:
    """Parse a part. Raises `ValueError`, `KeyError`, `TypeError` or `AttributeError`."""
    match record:
        case {"remove_items": items}:
            return ItemsRemoved(tuple(map(_item_from, items)))
        case {"restore_items": {"bundle": bundle, "sha256": digest, "items": number}}:
            return ItemsRestored(Path(bundle), str(digest), int(number))
        case {"add_items": keys}:
            return ItemsAdded(tuple(map(_key_from, keys)))
        case {"edit_item": {"fields": fields} as item}:
            return ItemEdited(_key_from(item), dict(fields))
    raise ValueError("unknown step")


def _item_record(one: Item) -> dict[str, Any]:
    return {
        **_key_record(one.key),
        "updated_at": _time_record(one.updated_at),
        "size": one.size,
        "expires_at": _time_record(one.expires_at),
    }


def _item_from(record: Mapping[str, Any]) -> Item:
    return Item(
        _key_from(record),
        None,
        _time_from(record["updated_at"]),
        int(record["size"]),
        _time_from(record["expires_at"]),
    )


def _key_record(key: ItemKey) -> dict[str, Any]:
    return {"namespace": list(key.namespace), "key": key.key}


def _key_from(record: Mapping[str, Any]) -> ItemKey:
    return ItemKey(tuple(map(str, record["namespace"])), str(record["key"]))


def _time_record(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _time_from(text: Any) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)
