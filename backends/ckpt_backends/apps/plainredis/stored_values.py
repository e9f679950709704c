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
from dataclasses import dataclass

from ckpt_backends.codec import decode
from ckpt_backends.codec.limits import unread
from ckpt_backends.codec.split import split
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import TypedBytes

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


@dataclass(frozen=True, slots=True)
class CheckpointContents:
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
    parts = {"checkpoint": body.data, "metadata": _msgpack(metadata), "parent_id": _packed(parent)}
    data = bytes([0x80 + len(parts)])
    return wrapped(
        TypedBytes("msgpack", data + b"".join(_packed(key) + one for key, one in parts.items()))
    )


def wrapped_write(task_id: str, channel: str, value: TypedBytes) -> bytes:
    """The stored text of a write. Raises `Unsupported` if msgpack cannot contain its type."""
    parts = (_packed(task_id), _packed(channel), _msgpack(value))
    return wrapped(TypedBytes("msgpack", bytes([0x90 + len(parts)]) + b"".join(parts)))


def _msgpack(value: TypedBytes) -> bytes:
    if value.type == "msgpack":
        return value.data
    if value.type == "null":
        return _packed(None)
    if value.type == "json":
        return _packed(json.loads(value.data))
    if value.type == "bytes":
        return _packed(value.data)
    raise Unsupported(f"cannot write a value of type '{value.type}' into a msgpack body")


def _packed(value: object) -> bytes:
    import ormsgpack

    return ormsgpack.packb(value)


def unread_value(length: int) -> TypedBytes:
    """The placeholder for a value that is too long to read."""
    return unread("", length)
