"""Finds all keys of a thread, and converts their contents to rows.

A checkpoint has a key, the keys of its writes and, in the JSON layouts, a list of its writes. A
namespace has a pointer to its head, or a list of writes. Separate values belong to the thread,
because several checkpoints may share one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ckpt_backends.changes.rows import Cell, Row
from ckpt_backends.checkpoint_ids import time_of
from ckpt_backends.model import BlobKey, Capability, CheckpointKey
from ckpt_backends.redis.engine.connect import Command, RedisConnection, in_chunks
from ckpt_backends.redis.engine.keyspace import Layout, ThreadKeys, raw, text
from ckpt_backends.redis.hashes.layout import Hashes
from ckpt_backends.redis.official.documents import USUAL, Documents, stored_id, stored_ns
from ckpt_backends.redis.official.shallow import ShallowDocuments

CHECKPOINT, APART = "checkpoint", "checkpoint_blob"
DOCUMENT, HASH, ZSET, STRING = "ReJSON-RL", "hash", "zset", "string"
"""The types of keys, as TYPE returns them."""
READ: Mapping[str, tuple[tuple[str, ...], tuple[str | int, ...]]] = {
    DOCUMENT: (("JSON.GET",), ()),
    HASH: (("HGETALL",), ()),
    ZSET: (("ZRANGE",), (0, -1, "WITHSCORES")),
    STRING: (("GET",), ()),
}
"""By type, the parts before and after the key of the command that reads the whole key."""
ABOUT = frozenset({"key", "type", "expires_at"})
"""Cells of a row that describe its key; all others are its contents."""
MEMBER = "."
"""Prefix of the cell names for fields of a hash and for members of a sorted set."""


@dataclass(frozen=True, slots=True)
class Owner:
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
class Owned:
    """The keys of a thread."""

    owners: dict[tuple[str, str], Owner]
    """By namespace and checkpoint id."""
    shared: dict[str, dict[str, list[bytes]]]
    """By namespace and kind, the keys of pointers and lists."""
    blobs: dict[BlobKey, bytes] = field(default_factory=dict)
    """The keys of the separate values."""

    @property
    def checkpoints(self) -> list[Owner]:
        return [one for one in self.owners.values() if one.is_there]

    @property
    def writes(self) -> int:
        """The number of complete writes."""
        return sum(len(one.writes) for one in self.owners.values())

    @property
    def last_at(self) -> datetime | None:
        """Time of the newest checkpoint in all namespaces."""
        ids = [one.key.checkpoint_id for one in self.checkpoints]
        return time_of(max(ids)) if ids else None

    @property
    def heads(self) -> dict[str, Owner]:
        """By namespace, its newest checkpoint."""
        found: dict[str, Owner] = {}
        for one in self.checkpoints:
            known = found.get(one.key.checkpoint_ns)
            if known is None or known.key < one.key:
                found[one.key.checkpoint_ns] = one
        return found

    def in_order(self) -> list[tuple[str, bytes]]:
        """(kind, key) of all keys, in the order of restoring.

        Separate values come first. Pointers to heads come last, the root's pointer at the very end.
        """
        owners = sorted(self.owners.values(), key=lambda one: (not one.key.checkpoint_ns, one.key))
        kinds = list(dict.fromkeys(kind for one in owners for kind in one.names))
        found = [(APART, name) for name in sorted(self.blobs.values())]
        found += [(kind, name) for kind in kinds for one in owners for name in one.names[kind]]
        for ns in sorted(self.shared, reverse=True):
            found += [(kind, name) for kind, names in self.shared[ns].items() for name in names]
        return found


class Owning:
    """Finds the keys of a thread in one layout."""

    def __init__(self, connection: RedisConnection, layout: Layout) -> None:
        self._connection = connection
        self._layout = layout
        first = HASH if isinstance(layout, Hashes) else DOCUMENT
        self.types: Mapping[str, str] = {
            CHECKPOINT: first,
            "writes": HASH,
            "checkpoint_write": DOCUMENT,
            "write_keys_zset": ZSET,
            "write_registry": ZSET,
            "checkpoint_latest": STRING,
            APART: DOCUMENT,
        }
        """By kind, the type of its keys."""

    def of(self, thread_ids: Sequence[str]) -> Iterator[Owned]:
        """The keys of some threads. Without an index, they are found with one SCAN."""
        if self._layout.is_indexed():
            for thread_id in thread_ids:
                yield self._owned(thread_id, self._layout.find([thread_id])[thread_id])
            return
        found = self._layout.find(thread_ids)
        for thread_id in thread_ids:
            yield self._owned(thread_id, found[thread_id])

    def _owned(self, thread_id: str, found: ThreadKeys) -> Owned:
        owners = {at: self._owner(place.key, is_there=True) for at, place in found.places.items()}
        written = self._layout.written([one.name for one in found.writes])
        for name, key, is_whole in written:
            if key.thread_id != thread_id:
                continue
            at = (key.checkpoint_ns, key.checkpoint_id)
            if at not in owners:
                owners[at] = self._owner(key, is_there=False)
            owners[at].names[self._writes].append(name)
            if is_whole:
                owners[at].writes.append(name)
        names = dict.fromkeys(ns for ns, _ in owners)
        apart = {key: name for name, own, key, _ in self._layout.blobs(found) if own == thread_id}
        return Owned(owners, {ns: self._shared(thread_id, ns) for ns in names}, apart)

    @property
    def _writes(self) -> str:
        return "writes" if isinstance(self._layout, Hashes) else "checkpoint_write"

    def _owner(self, key: CheckpointKey, *, is_there: bool) -> Owner:
        names: dict[str, list[bytes]] = {self._writes: []}
        if isinstance(self._layout, Documents):
            names["write_keys_zset"] = self._layout.registries(key)
        if Capability.HISTORY not in self._layout.capabilities:
            # In shallow layouts, all checkpoints of a namespace have the same key.
            names[CHECKPOINT] = [self._layout.checkpoint_name(key)] if is_there else []
            return Owner(key, names, is_there)
        # `put_writes` may have created this key even if the checkpoint was never stored.
        names[CHECKPOINT] = [self._layout.checkpoint_name(key)]
        return Owner(key, names, is_there)

    def _shared(self, thread_id: str, ns: str) -> dict[str, list[bytes]]:
        thread, spaces = stored_id(thread_id), dict.fromkeys([stored_ns(ns), ns])
        if isinstance(self._layout, ShallowDocuments):
            # Until 0.1.x, an empty namespace was stored as `""` in these keys.
            names = [raw(f"write_registry:{thread}:{space}:shallow") for space in spaces]
            return {"write_registry": names}
        if isinstance(self._layout, Documents) and self._layout.has_pointers:
            return {"checkpoint_latest": self._pointers(self._layout, f"{thread}:{stored_ns(ns)}")}
        return {}

    def _pointers(self, layout: Documents, place: str) -> list[bytes]:
        """The keys of the pointers to a namespace's head.

        Before 0.5, the pointer always had the default prefix.
        """
        prefix = layout.prefixes.checkpoint
        own, usual = (raw(f"{one}_latest:{place}") for one in (prefix, USUAL.checkpoint))
        if own == usual:
            return [own]
        named = self._connection.ask("GET", usual) or b""
        return [own, usual] if named.startswith(raw(f"{prefix}:")) else [own]

    def named(self, owned: Owned) -> set[bytes]:
        """The keys that the thread's pointers and its heads' lists currently contain."""
        lists = [
            (kind, name)
            for kinds in owned.shared.values()
            for kind, names in kinds.items()
            for name in names
        ]
        lists += [
            ("write_keys_zset", name)
            for head in owned.heads.values()
            for name in head.names.get("write_keys_zset", ())
        ]
        answers = self._connection.ask_all(
            ("GET", name) if self.types[kind] == STRING else ("ZRANGE", name, 0, -1)
            for kind, name in lists
        )
        found: set[bytes] = set()
        for answer in answers:
            found.update(answer if isinstance(answer, list) else [answer] if answer else [])
        return found

    def rows(self, owned: Owned) -> Iterator[Row]:
        """The rows of a thread. Keys that were removed meanwhile are left out."""
        yield from rows_of(self._connection, self.types, owned.in_order())

    def stored(self, rows: Sequence[Row]) -> Iterator[dict[str, Cell] | None]:
        """The stored contents of these rows; None if a row does not exist."""
        yield from stored_of(self._connection, rows)

    def also(self, rows: Sequence[Row]) -> Iterator[Command]:  # noqa: ARG002
        """Commands for other keys that must change when rows are restored."""
        yield from ()


def rows_of(
    connection: RedisConnection, types: Mapping[str, str], names: Sequence[tuple[str, bytes]]
) -> Iterator[Row]:
    """One row for each key, given as (kind, key). The kind is the table of the row. Its cells:

        key         the name of the key
        type        the result of TYPE: `string`, `hash`, `zset` or `ReJSON-RL`
        expires_at  milliseconds since 1970, or None
        value       the JSON text of a document, or the bytes of a string
        .NAME       the bytes of a hash's field, or the score of a sorted set's member, as text

    Keys that were removed meanwhile are left out.
    """

    def sizes(some: Sequence[tuple[str, bytes]]) -> Iterator[Any]:
        return connection.ask_all(("MEMORY USAGE", name) for _, name in some)

    for some in in_chunks(names, sizes):
        kinds = [kind for (kind, _), _ in some]
        keys = [name for (_, name), _ in some]
        contents = contents_of(connection, [(types[kind], name) for (kind, name), _ in some])
        for kind, name, cells, expiry in zip(
            kinds, keys, contents, expiries_of(connection, keys), strict=True
        ):
            if cells is not None:
                about = {"key": text(name), "type": types[kind], "expires_at": expiry}
                yield Row(kind, {**about, **cells})


def contents_of(
    connection: RedisConnection, names: Sequence[tuple[str, bytes]]
) -> Iterator[dict[str, Cell] | None]:
    """The contents of keys, given as (type, key); None if a key is missing or of another type."""
    answers = connection.ask_all((*READ[kind][0], name, *READ[kind][1]) for kind, name in names)
    for (kind, _), answer in zip(names, answers, strict=True):
        yield _cells(kind, answer)


def stored_of(connection: RedisConnection, rows: Sequence[Row]) -> Iterator[dict[str, Cell] | None]:
    """The stored contents of these rows; None if a row does not exist."""
    names = [(str(row.cells["type"]), raw(str(row.cells["key"]))) for row in rows]
    for (_, name), cells in zip(names, contents_of(connection, names), strict=True):
        # A key of another type exists: return contents that differ from the row.
        yield {} if cells is None and connection.ask("EXISTS", name) else cells


def expiries_of(connection: RedisConnection, names: Sequence[bytes]) -> Iterator[int | None]:
    """When keys expire, in milliseconds since 1970; None if they do not expire."""
    moments = list(connection.ask_all(("PEXPIRETIME", name) for name in names))
    if None in moments:  # before Redis 7
        now = int(connection.ask("INFO", "server")["server_time_usec"]) // 1000
        left = connection.ask_all(("PTTL", name) for name in names)
        moments = [-1 if one is None or one < 0 else now + int(one) for one in left]
    for one in moments:
        yield int(one) if int(one) >= 0 else None


def _cells(kind: str, answer: Any) -> dict[str, Cell] | None:
    if not answer:
        # The key does not exist. (No saver stores an empty string.)
        return None
    if kind == DOCUMENT:
        return {"value": text(answer)}
    if kind == STRING:
        return {"value": bytes(answer)}
    if kind == HASH:
        return {MEMBER + text(name): bytes(value) for name, value in sorted(answer.items())}
    pairs = zip(answer[::2], answer[1::2], strict=True)
    return {MEMBER + text(name): text(score) for name, score in pairs}


def commands_of(kind: str, name: bytes, cells: Mapping[str, Cell]) -> Iterator[Command]:
    """Commands that create a key with these contents, or add them to an existing key."""
    if kind == DOCUMENT:
        yield ("JSON.SET", name, "$", _bytes(cells["value"]), "NX")
        return
    if kind == STRING:
        yield ("SET", name, _bytes(cells["value"]), "NX")
        return
    for field_name, value in cells.items():
        if field_name.startswith(MEMBER):
            own = raw(field_name.removeprefix(MEMBER))
            if kind == HASH:
                yield ("HSETNX", name, own, _bytes(value))
            else:
                yield ("ZADD", name, "NX", _bytes(value), own)


def _bytes(cell: Cell) -> bytes:
    return cell if isinstance(cell, bytes) else raw(str(cell))
