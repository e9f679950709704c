"""Reads and writes the values of langgraph-checkpoint-plainredis: JSON with a type and bytes.

    {"t": "msgpack", "d": "<base64>"}

Source: `_pack_typed` in `langgraph_checkpoint_plainredis/saver.py`, 0.1.0. A checkpoint is one
value together with its metadata and its parent's id; a write is one value together with its task
and channel. So if the serializer encrypts a value, all of these are encrypted.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from binascii import Error
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from ckpt_backends.codec import decode
from ckpt_backends.codec.edits import array_of, as_msgpack, msgpack_map, split
from ckpt_backends.codec.lossless import pack_lossless
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import CheckpointKey, Record, TypedBytes
from ckpt_backends.redis.engine.keyspace import ABOUT, CHECKPOINT, MEMBER
from ckpt_backends.rows import Cell, ChangeValue, PlacedValue, Row, ValueKind
from ckpt_backends.transfer.form import CannotHold

HEAD_BYTES = 64
"""The type of a stored value is within this many bytes at its beginning."""
TAIL_BYTES = 4
"""The padding of the base64 is within this many bytes at the end of a stored value."""
_HEAD = re.compile(rb'\{"t": "([^"\\]{0,40})", "d": "')
_END = len(b'"}')
_FORM = "not in the form of langgraph-checkpoint-plainredis"
_TOGETHER = "encrypted together with its checkpoint or write, so it was not decrypted"
UNKNOWN = "?"
"""The channel of a write that cannot be read."""


class CheckpointContents(NamedTuple):
    """The contents of a checkpoint's key."""

    body: TypedBytes
    metadata: TypedBytes
    parent: str | None


def unwrapped(raw: bytes) -> TypedBytes:
    """A stored value; with a `problem` if it does not have the form of this saver."""
    try:
        told = json.loads(raw)
        return TypedBytes(told["t"] + "", b64decode(told["d"], validate=True))
    except (ValueError, TypeError, KeyError, Error, RecursionError):
        return TypedBytes("", raw, problem=_FORM)


def wrapped(value: TypedBytes) -> bytes:
    """The text that the saver would store."""
    return json.dumps({"t": value.type, "d": b64encode(value.data).decode()}).encode()


def told_of(length: int, head: bytes, tail: bytes) -> tuple[str, int]:
    """Type and size of a value, from the length, beginning and end of its stored text."""
    found = _HEAD.match(head)
    if found is None:
        return "", length
    text = length - found.end() - _END
    return found[1].decode("utf-8", "replace"), max(text // 4 * 3 - tail.count(b"="), 0)


def stored_checkpoint(value: TypedBytes) -> CheckpointContents:
    """A checkpoint's body, metadata and parent.

    If it cannot be read, both body and metadata have the `problem`.
    """
    try:
        if value.problem:
            raise ValueError(value.problem)
        parts = split(value)
        parent = decode(parts["parent_id"]) if "parent_id" in parts else None
        if "checkpoint" not in parts:
            raise ValueError("no checkpoint in it")
        metadata = parts.get("metadata", TypedBytes("json", b"{}"))
        return CheckpointContents(
            parts["checkpoint"], metadata, parent if isinstance(parent, str) else None
        )
    except ValueError as error:
        found = _closed(value, str(error))
        return CheckpointContents(found, found, None)


def stored_write(value: TypedBytes) -> tuple[str, TypedBytes]:
    """Channel and value of a write."""
    try:
        if value.problem:
            raise ValueError(value.problem)
        parts = split(value)
        channel = decode(parts[1])
        if not isinstance(channel, str):
            raise ValueError("its channel is no text")
        return channel, parts[2]
    except (ValueError, KeyError) as error:
        return UNKNOWN, _closed(value, str(error))


def _closed(value: TypedBytes, problem: str) -> TypedBytes:
    """The placeholder for a part of a value that cannot be split."""
    if "+" in value.type:
        # Not `data`, which would not be this part when it is decrypted.
        return TypedBytes(value.type, b"", problem=_TOGETHER, whole=value.whole or len(value.data))
    return value._replace(problem=problem)


def wrapped_checkpoint(body: TypedBytes, metadata: TypedBytes, parent: str | None) -> bytes:
    """The stored text of a checkpoint. Raises `Unsupported` if the body is not `msgpack`."""
    if body.type != "msgpack":
        raise Unsupported(
            f"cannot write a checkpoint whose body is of type '{body.type}' here",
            hint="only bodies of type 'msgpack' can be copied",
        )
    entries = {
        "checkpoint": body.data,
        "metadata": as_msgpack(metadata),
        "parent_id": pack_lossless(parent),
    }
    return wrapped(TypedBytes("msgpack", msgpack_map(entries)))


def wrapped_write(task_id: str, channel: str, value: TypedBytes) -> bytes:
    """The stored text of a write. Raises `Unsupported` if msgpack cannot contain its type."""
    parts = [pack_lossless(task_id), pack_lossless(channel), as_msgpack(value)]
    return wrapped(TypedBytes("msgpack", array_of(parts)))


# The records of a thread of langgraph-checkpoint-plainredis. Needs no server.
#
# Keys are not escaped, so the registry tells them apart. `thread_keys` returns its rows first. In
# archives of earlier releases, these rows come later; then all rows before them are in memory.


BLOBS, WRITES, TIMELINE, THREADS = "checkpoint_blobs", "writes", "idx", "threads"
"""The kinds of the keys."""


def records_of(layout: str, rows: Iterable[Row]) -> Iterator[Record]:  # noqa: ARG001
    """The records that the rows of one thread hold. Raises `CannotHold`."""
    registry = _Registry()
    waiting: list[Row] = []
    for row in rows:
        if row.table == THREADS:
            registry.add(row)
        elif row.table == TIMELINE:
            registry.order(row)
        elif not registry.spaces:
            waiting.append(row)
        else:
            yield from map(registry.record, waiting)
            waiting.clear()
            yield registry.record(row)
    yield from map(registry.record, waiting)
    registry.check_heads()


@dataclass
class _Registry:
    """What is known of a thread's namespaces."""

    prefix: str = ""
    spaces: dict[str, tuple[str, str]] = field(default_factory=dict)
    """By the part THREAD:NS of its keys, the thread and the namespace."""
    _scores: dict[str, dict[str, float]] = field(default_factory=dict)
    """By key of a timeline and checkpoint id, its place."""
    _ids: dict[str, set[str]] = field(default_factory=dict)
    """By namespace, the checkpoints that are there."""

    def add(self, row: Row) -> None:
        self.prefix = str(row.cells["key"]).removesuffix(f":{THREADS}")
        told = json.loads(_content(row))
        thread_id, ns = str(told["thread"]), str(told["ns"])
        self.spaces[f"{thread_id}:{ns}"] = thread_id, ns

    def order(self, row: Row) -> None:
        """Remember the order of the checkpoints in a timeline."""
        self._scores[str(row.cells["key"])] = {
            name[1:]: float(str(cell)) for name, cell in row.cells.items() if name not in ABOUT
        }

    def check_heads(self) -> None:
        """Raise `CannotHold` if a head, which was stored last, has not the greatest id.

        Other savers would go on from another checkpoint.
        """
        for place, (_, ns) in self.spaces.items():
            scores = self._scores.get(f"{self.prefix}:idx:{place}", {})
            ids = self._ids.get(ns, set())
            head = max(ids, key=lambda one: (scores.get(one, 0.0), one), default="")
            if head != max(ids, default=""):
                raise CannotHold(
                    f"checkpoint '{head}' was stored last, but has not the greatest id, by which"
                    " other savers find the newest one"
                )

    def record(self, row: Row) -> Record:
        name, at = str(row.cells["key"]), row.cells.get("expires_at")
        expires_at = at if isinstance(at, int) else None
        value = unwrapped(_content(row))
        match row.table:
            case "checkpoint":
                key = self._key(name, "cp")
                self._ids.setdefault(key.checkpoint_ns, set()).add(key.checkpoint_id)
                found, where = stored_checkpoint(value), f"checkpoint '{key.checkpoint_id}'"
                body, metadata = _read(found.body, where), _read(found.metadata, where)
                return Record.checkpoint(key, found.parent, body, metadata, expires_at)
            case "writes":
                task_id, _, idx = field_of(row).rpartition(":")
                channel, stored = stored_write(value)
                key = self._key(name, "wr")
                where = f"a write at checkpoint '{key.checkpoint_id}'"
                return Record.write(
                    key, task_id, "", int(idx), channel, _read(stored, where), expires_at
                )
            case "checkpoint_blobs":
                thread_id, ns, rest = self._place(name, "blob")
                channel, _, version = rest.rpartition(":")
                where = f"version '{version}' of channel '{channel}'"
                return Record.apart(
                    thread_id, ns, channel, version, _read(value, where), expires_at
                )
        raise Unsupported(f"a row of the unknown kind '{row.table}'")

    def _key(self, name: str, kind: str) -> CheckpointKey:
        return CheckpointKey(*self._place(name, kind))

    def _place(self, name: str, kind: str) -> tuple[str, str, str]:
        """Thread, namespace, and the rest of a key. The longest namespace that fits is meant."""
        rest = name.removeprefix(f"{self.prefix}:{kind}:")
        fitting = [one for one in self.spaces if rest.startswith(f"{one}:")]
        if not fitting:
            raise CannotHold(f"the key '{name}' belongs to no namespace of the thread")
        found = max(fitting, key=len)
        return *self.spaces[found], rest[len(found) + 1 :]


def _read(value: TypedBytes, where: str) -> TypedBytes:
    if value.problem:
        raise CannotHold(f"{where} cannot be read: {value.problem}")
    return value


def _content(row: Row) -> bytes:
    found = next(cell for name, cell in row.cells.items() if name not in ABOUT)
    return found if isinstance(found, bytes) else b""


def field_of(row: Row) -> str:
    """The field of a hash that a row contains."""
    name = next(name for name in row.cells if name not in ABOUT)
    return name.removeprefix(MEMBER)


# Changes the values in keys of langgraph-checkpoint-plainredis.


_KINDS = {CHECKPOINT: ValueKind.WHOLE, WRITES: ValueKind.WHOLE_WRITE, BLOBS: ValueKind.VALUE}


def edited_row(layout: str, row: Row, change: ChangeValue) -> Row:  # noqa: ARG001
    """The row with the values that `change` returns; the same row if they are equal.

    Raises `CannotHold` for a value that cannot be read.
    """
    kind = _KINDS.get(row.table)
    if kind is None:
        return row
    cells = {
        name: cell if name in ABOUT else _edited(row, name, cell, kind, change)
        for name, cell in row.cells.items()
    }
    return row if cells == row.cells else Row(row.table, cells)


def _edited(row: Row, name: str, cell: Cell, kind: ValueKind, change: ChangeValue) -> Cell:
    if not isinstance(cell, bytes):
        return cell
    stored = unwrapped(cell)
    key = str(row.cells["key"])
    if stored.problem:
        raise CannotHold(f"the key '{key}' cannot be read: {stored.problem}")
    channel = ""
    if kind is ValueKind.WHOLE_WRITE:
        channel = stored_write(stored)[0]
    elif kind is ValueKind.VALUE:
        # The key ends with the channel and its version. A namespace may contain colons, too.
        channel = key.rsplit(":", 2)[-2]
    made = change(PlacedValue(kind, stored, f"{key}\0{name}", channel))
    return cell if made is stored else wrapped(made)
