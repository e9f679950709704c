"""Helpers for the names of keys, and what is known of a key by its name."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, field
from datetime import datetime
from os.path import commonprefix
from typing import Any, NamedTuple

from ckpt_backends.checkpoint_ids import time_of
from ckpt_backends.model import BlobKey, CheckpointKey

CHECKPOINT, APART = "checkpoint", "checkpoint_blob"
"""The kinds of the keys of checkpoints and of separate values, as archives name them."""
DOCUMENT, HASH, ZSET, STRING, LIST = "ReJSON-RL", "hash", "zset", "string", "list"
"""The types of keys, as TYPE returns them."""
UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
CALL = rf"[^:|]+:{UUID}(?:\|[^:|]+:{UUID})*"
"""A pattern for the namespace of a subgraph's call. Such a namespace contains colons."""
_SPECIAL = re.compile(rb"([*?\[\]\\])")


def text(name: bytes) -> str:
    """A key or field as text. Bytes that are not UTF-8 survive a round trip with `raw`."""
    return name.decode("utf-8", "surrogateescape")


def raw(name: str) -> bytes:
    """A text as the bytes of a key or field."""
    try:
        return name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a lone surrogate; no saver can store it, so it matches no key
        return name.encode("utf-8", "surrogatepass")


def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object of JSON. Raises `ValueError` if a name appears twice: readers may differ then."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name appears twice")
    return found


def literally(name: str) -> bytes:
    """A part of a SCAN pattern that matches exactly this text."""
    return _SPECIAL.sub(rb"\\\1", raw(name))


def beginning(names: Collection[str]) -> bytes:
    """A part of a SCAN pattern for the common beginning of all names, to receive fewer keys."""
    return literally(commonprefix(list(names)))  # noqa: RUF071  (characters are meant)


def quoted(name: bytes) -> str:
    """A key for redis-cli. Unprintable characters are written as hex."""
    shown = "".join(
        chr(byte) if 0x20 <= byte < 0x7F and byte not in b'"\\' else f"\\x{byte:02x}"
        for byte in name
    )
    return f'"{shown}"'


class CheckpointEntry(NamedTuple):
    """A stored checkpoint."""

    key: CheckpointKey
    name: bytes
    """The key in Redis."""
    parent: str | None = None
    rank: float = 0.0
    """The saver sorts the checkpoints of a namespace by this number, then by id."""


@dataclass(frozen=True, slots=True)
class ListedNamespace:
    """A namespace of a thread, as listed: its oldest, newest and number of checkpoints."""

    thread_id: str
    checkpoint_ns: str
    oldest: str
    newest: str
    checkpoints: int
    head: str | None = None
    """The checkpoint that the saver loads, if it may differ from the newest; otherwise None."""


class WriteEntry(NamedTuple):
    """A stored write, known by its key only."""

    name: bytes
    checkpoint_id: str
    """The checkpoint id in the key. The document may contain another one, which counts."""


@dataclass(slots=True)
class ThreadKeys:
    """The keys of one thread, or some keys of all threads."""

    places: dict[tuple[str, str], CheckpointEntry] = field(default_factory=dict)
    """By namespace and checkpoint id."""
    writes: list[WriteEntry] = field(default_factory=list)
    mixed: list[CheckpointEntry] = field(default_factory=list)
    """Checkpoints of several threads."""
    blobs: list[bytes] = field(default_factory=list)
    """Keys of separate values. Their thread is in their contents."""

    @property
    def checkpoints(self) -> list[CheckpointEntry]:
        """All checkpoints."""
        return [*self.places.values(), *self.mixed]


@dataclass(frozen=True, slots=True)
class CheckpointKeys:
    """A checkpoint with all its keys, or the orphaned writes of a missing checkpoint."""

    key: CheckpointKey
    names: dict[str, list[bytes]]
    """By kind, its keys, in the order of restoring. Some of the keys may not exist."""
    is_there: bool
    """Whether the checkpoint exists."""
    writes: list[bytes] = field(default_factory=list)
    """The keys of its complete writes. (Savers of hashes may set the fields one by one.)"""

    @property
    def at(self) -> tuple[str, str]:
        """Namespace and checkpoint id."""
        return self.key.checkpoint_ns, self.key.checkpoint_id


@dataclass(slots=True)
class KeysByCheckpoint:
    """The keys of a thread, grouped by checkpoint."""

    groups: dict[tuple[str, str], CheckpointKeys]
    """By namespace and checkpoint id."""
    shared: dict[str, dict[str, list[bytes]]]
    """By namespace and kind, the keys of pointers and lists."""
    blobs: dict[BlobKey, bytes] = field(default_factory=dict)
    """The keys of the separate values."""

    @property
    def checkpoints(self) -> list[CheckpointKeys]:
        return [one for one in self.groups.values() if one.is_there]

    @property
    def writes(self) -> int:
        """The number of complete writes."""
        return sum(len(one.writes) for one in self.groups.values())

    @property
    def last_at(self) -> datetime | None:
        """Time of the newest checkpoint in all namespaces."""
        ids = [one.key.checkpoint_id for one in self.checkpoints]
        return time_of(max(ids)) if ids else None

    @property
    def heads(self) -> dict[str, CheckpointKeys]:
        """By namespace, its newest checkpoint."""
        found: dict[str, CheckpointKeys] = {}
        for one in self.checkpoints:
            known = found.get(one.key.checkpoint_ns)
            if known is None or known.key < one.key:
                found[one.key.checkpoint_ns] = one
        return found

    def in_order(self) -> list[tuple[str, bytes]]:
        """(kind, key) of all keys, in the order of restoring.

        Separate values come first. Pointers to heads come last, the root's pointer at the very end.
        """
        groups = sorted(self.groups.values(), key=lambda one: (not one.key.checkpoint_ns, one.key))
        kinds = list(dict.fromkeys(kind for one in groups for kind in one.names))
        found = [(APART, name) for name in sorted(self.blobs.values())]
        found += [(kind, name) for kind in kinds for one in groups for name in one.names[kind]]
        for ns in sorted(self.shared, reverse=True):
            found += [(kind, name) for kind, names in self.shared[ns].items() for name in names]
        return found
