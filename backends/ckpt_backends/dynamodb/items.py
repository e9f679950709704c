"""The items of `DynamoDBSaver`, and their keys.

    CHECKPOINT_<thread>                          <ns>#<id>        what a checkpoint is
    WRITES_<thread>#<ns>#<id>                    <task>#<idx>     what a write is
    CHUNK_<thread>#<ns>#<id>[#<task>#<idx>]      CHUNK            the payload of one of them

An item names its payload by `ref_loc` (DYNAMODB or S3) and `ref_key`: the partition of the payload,
or the key of an S3 object without the prefix of the bucket. Source: `unified_repository.py` and
`storage_strategy.py` of `langgraph_checkpoint_aws/checkpoint/dynamodb`, 1.2.6.

Thread ids and namespaces may contain `#`. So the namespace is what precedes the last `#` of a sort
key: ids contain none.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias

from ckpt_backends.dynamodb.connect import Attributes, Key
from ckpt_backends.model import CheckpointKey

CHECKPOINT, WRITES, CHUNK = "CHECKPOINT_", "WRITES_", "CHUNK_"
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
    return CHECKPOINT + thread_id


def checkpoint_place(key: CheckpointKey) -> Key:
    """The key of a checkpoint's item."""
    return CHECKPOINT + key.thread_id, f"{key.checkpoint_ns}#{key.checkpoint_id}"


def writes_partition(key: CheckpointKey) -> str:
    """The partition of a checkpoint's writes."""
    return f"{WRITES}{key.thread_id}#{key.checkpoint_ns}#{key.checkpoint_id}"


def chunk_of(key: CheckpointKey, write: tuple[str, int] | None = None) -> str:
    """The partition of the payload of a checkpoint, or of one of its writes (task id and idx)."""
    start = f"{CHUNK}{key.thread_id}#{key.checkpoint_ns}#{key.checkpoint_id}"
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
    thread_id = attributes["PK"]["S"].removeprefix(CHECKPOINT)
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
