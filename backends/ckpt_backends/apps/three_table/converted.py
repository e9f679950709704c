"""Converts the rows of this layout to the model: checkpoints get a body in LangGraph's form."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from ckpt_backends.apps.three_table.cells import data, digest, moment, number, text
from ckpt_backends.apps.three_table.index import ChannelParts, CheckpointRow, Part
from ckpt_backends.codec.limits import MOST_BYTES, typed, unread
from ckpt_backends.codec.merged import merged
from ckpt_backends.model import Blob, CheckpointKey, TypedBytes, Write

NOT_STORED = "not stored: its thread keeps the values of the newest checkpoint only"
_CUT = "items that come before are not stored"


def own_hash(key: CheckpointKey, parent: str) -> str:
    """The hash for a checkpoint that `ckpt` adds. It is unique, and `is_ours` recognises it."""
    return digest("\0".join(("ckpt", key.thread_id, key.checkpoint_ns, key.checkpoint_id, parent)))


def is_ours(place: CheckpointRow) -> bool:
    """Whether `ckpt` added a checkpoint."""
    return place.parent is not None and place.hash == own_hash(place.key, place.parent)


def fork_of(place: CheckpointRow) -> bytes:
    """The metadata, as JSON, that is shown for a checkpoint that `ckpt` added."""
    told = {"source": "fork", "forked_by": "ckpt", "forked_from": place.parent}
    return json.dumps(told).encode()


def body_of(
    place: CheckpointRow, named: Mapping[str, ChannelParts], *, is_stored: bool
) -> TypedBytes:
    if not is_stored:
        return TypedBytes("json", b"", problem=NOT_STORED)
    body = {
        "id": place.key.checkpoint_id,
        "ts": None if place.at is None else place.at.isoformat(),
        "channel_versions": {name: one.version for name, one in named.items()},
    }
    return TypedBytes("json", json.dumps(body).encode())


def blob_of(one: ChannelParts, fetched: Mapping[Part, bytes] | None) -> Blob:
    """A value. One part is returned as stored; several parts have the type `merged`."""
    size = sum(part.size for part in one.parts)
    found = Blob(
        one.parts[0].type if len(one.parts) == 1 else "merged", size, inherited=one.is_inherited
    )
    if fetched is None:
        return found
    return found._replace(value=_value(one, found, fetched))


def _value(one: ChannelParts, found: Blob, fetched: Mapping[Part, bytes]) -> TypedBytes:
    if one.is_cut:
        return TypedBytes(found.type, b"", problem=_CUT)
    if found.size > MOST_BYTES:
        return unread(found.type, found.size)
    parts = [typed(part.type, part.size, fetched.get(part)) for part in one.parts]
    return parts[0] if len(parts) == 1 else merged(parts)


def write_of(key: CheckpointKey, row: Sequence[Any], values: bool | Collection[str]) -> Write:
    _, _, task_id, path, idx, channel, tag, size, at, value = row
    name = text(channel)
    is_wanted = values if isinstance(values, bool) else name in values
    return Write(
        key,
        text(task_id),
        text(path),
        number(idx),
        name,
        int(size),
        typed(text(tag), int(size), data(value)) if is_wanted else None,
        node=text(task_id),
        at=moment(at),
    )


def cell_of(value: Any) -> Any:
    """A cell for an archive. Types other than numbers, text and bytes become text."""
    if value is None or isinstance(value, int | float | str | bytes):
        return value
    if isinstance(value, bytearray | memoryview):
        return bytes(value)
    return value.isoformat(" ") if hasattr(value, "isoformat") else str(value)
