"""Reads the channel values of checkpoints from `checkpoint_blobs`."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ckpt_backends.channel_names import is_reserved, is_wanted
from ckpt_backends.codec.limits import MOST_BYTES, typed
from ckpt_backends.model import Blob, Checkpoint, TypedBytes
from ckpt_backends.mysql.fetch import Fetcher
from ckpt_backends.mysql.layout import MySQLLayout
from ckpt_backends.sql.blob_tables import STORED

SMALL = 1024
"""Values of at most this many bytes are read together with their keys."""
Place = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Named:
    """The channel values that a body names."""

    places: Mapping[str, Place]
    """By channel, the key of its value."""
    is_old: bool
    """Whether the body has a checkpoint format before 4."""
    is_marked: bool = False
    """Whether its saver stores a mark for channels without a value, as until 2.0.16 and in the
    shallow layout. Later savers store small values in the body instead."""
    seen: object = None
    """The body's `versions_seen`."""

    def triggers(self) -> Iterator[tuple[str, Place]]:
        """The channels that may make a node run, with the keys of their values."""
        seen = self.seen if isinstance(self.seen, dict) else {}
        read = {name for one in seen.values() if isinstance(one, dict) for name in one}
        for channel, place in self.places.items():
            if channel in read or is_reserved(channel):
                yield channel, place


def read_blobs(
    fetcher: Fetcher,
    layout: MySQLLayout,
    checkpoints: Sequence[Checkpoint],
    values: bool | Collection[str],
) -> Iterator[Checkpoint]:
    """The checkpoints with the blobs that they name.

    `values` is the parameter of `Store.checkpoints`.
    """
    named = [_named(one, layout) for one in checkpoints]
    key = _key(layout)
    places = {place: None for one in named for place in one.places.values()}
    small = f"CASE WHEN OCTET_LENGTH(c.`blob`) <= {SMALL} THEN c.`blob` END"
    columns = [*(f"c.{name}" for name in key), "c.type", "OCTET_LENGTH(c.`blob`)", small]
    stored = {
        tuple(row): Blob(tag or "", size or 0, TypedBytes(tag or "", blob or b""))
        for *row, tag, size, blob in fetcher.rows(layout.blobs.sql, key, columns, places)
    }
    found = {place: blob for place, blob in stored.items() if blob.type != "empty"}
    wanted = {
        place: None
        for one in named
        for channel, place in one.places.items()
        if place in found and is_wanted(channel, found[place], values, is_old=one.is_old)
    }
    large = [
        (found[place].size, place) for place in wanted if SMALL < found[place].size <= MOST_BYTES
    ]
    fetched = fetcher.values(layout.blobs.sql, key, large)
    read = {place: blob for (_, place), blob in zip(large, fetched, strict=True)}
    for checkpoint, one in zip(checkpoints, named, strict=True):
        yield checkpoint._replace(
            blobs={
                channel: _blob(found[place], read.get(place), is_read=place in wanted)
                for channel, place in one.places.items()
                if place in found
            },
            missing=frozenset(
                channel
                for channel, place in one.places.items()
                if one.is_marked and place not in stored
            ),
        )


def name_blobs(
    fetcher: Fetcher, layout: MySQLLayout, checkpoints: Sequence[Checkpoint]
) -> Iterator[Checkpoint]:
    """The checkpoints with the names of the blobs that an `Outline` needs."""
    named = [dict(_named(one, layout).triggers()) for one in checkpoints]
    key = _key(layout)
    places = {place: None for one in named for place in one.values()}
    columns = [*(f"c.{name}" for name in key), "c.type"]
    found = {
        tuple(row)
        for *row, tag in fetcher.rows(layout.blobs.sql, key, columns, places)
        if tag != "empty"
    }
    for checkpoint, one in zip(checkpoints, named, strict=True):
        blobs = {channel: STORED for channel, place in one.items() if place in found}
        yield checkpoint._replace(blobs=blobs)


def _key(layout: MySQLLayout) -> tuple[str, ...]:
    """The columns with which a value is found."""
    return ("thread_id", layout.ns, "channel", *([] if layout.shallow else ["version"]))


def _blob(found: Blob, data: bytes | None, *, is_read: bool) -> Blob:
    if not is_read:
        return found._replace(value=None)
    if found.size <= SMALL:
        return found
    return found._replace(value=typed(found.type, found.size, data))


def _named(checkpoint: Checkpoint, layout: MySQLLayout) -> _Named:
    """The keys of the values that a checkpoint names; none if its body cannot be read."""
    body: Any = None
    if checkpoint.body is not None:
        try:
            body = json.loads(checkpoint.body.data)
        except (ValueError, RecursionError):
            body = None
    versions = body.get("channel_versions") if isinstance(body, dict) else None
    if not isinstance(versions, dict):
        return _Named({}, is_old=False)
    key = checkpoint.key
    ns = layout.ns_key(key.checkpoint_ns)
    places = {
        channel: (key.thread_id, ns, channel, *([] if layout.shallow else [str(version)]))
        for channel, version in _storable(versions.items())
    }
    is_old, is_marked = body.get("v") in {1, 2, 3}, "channel_values" not in body
    return _Named(places, is_old, is_marked, body.get("versions_seen"))


def _storable(items: Iterable[tuple[str, Any]]) -> Iterator[tuple[str, Any]]:
    """The channels with a valid version, without texts that the server cannot store."""
    for channel, version in items:
        if isinstance(version, str | int | float):
            try:
                f"{channel}{version}".encode()
            except UnicodeEncodeError:
                continue
            yield channel, version
