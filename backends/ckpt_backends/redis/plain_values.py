"""How langgraph-checkpoint-plainredis stores a value: a JSON text with its type and its bytes.

    {"t": "msgpack", "d": "<base64>"}

Source: `_pack_typed` in `langgraph_checkpoint_plainredis/saver.py`, 0.1.0. A checkpoint goes in
with its metadata and its parent's id, and a write with its task and channel, so that what the
serializer does to a value, such as encrypting it, is done to all of that.
"""

from __future__ import annotations

import json
import re
from base64 import b64decode, b64encode
from binascii import Error
from dataclasses import dataclass, replace

from ckpt_backends.codec import decode
from ckpt_backends.codec.parts import parts_of
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import TypedBytes
from ckpt_backends.oversize import unread

HEAD_BYTES = 64
"""Bytes at the beginning of a stored value that tell its type."""
TAIL_BYTES = 4
"""Characters at its end that tell how many bytes they stand for."""
_HEAD = re.compile(rb'\{"t": "([^"\\]{0,40})", "d": "')
_END = len(b'"}')
_FORM = "not in the form of langgraph-checkpoint-plainredis"
_TOGETHER = "encrypted together with what it belongs to: not opened"
UNKNOWN = "?"
"""The channel of a write that cannot be read."""


@dataclass(frozen=True, slots=True)
class Stored:
    """What a checkpoint's key holds."""

    body: TypedBytes
    metadata: TypedBytes
    parent: str | None


def unwrapped(raw: bytes) -> TypedBytes:
    """A stored value; with its problem, where it is not in the form of this saver."""
    try:
        told = json.loads(raw)
        return TypedBytes(told["t"] + "", b64decode(told["d"], validate=True))
    except (ValueError, TypeError, KeyError, Error, RecursionError):
        return TypedBytes("", raw, problem=_FORM)


def wrapped(value: TypedBytes) -> bytes:
    """The text that the saver would store."""
    return json.dumps({"t": value.type, "d": b64encode(value.data).decode()}).encode()


def told_of(length: int, head: bytes, tail: bytes) -> tuple[str, int]:
    """Type and length of a value, from the length of its text, its beginning and its end."""
    found = _HEAD.match(head)
    if found is None:
        return "", length
    text = length - found.end() - _END
    return found[1].decode("utf-8", "replace"), max(text // 4 * 3 - tail.count(b"="), 0)


def stored_checkpoint(value: TypedBytes) -> Stored:
    """A checkpoint's body, metadata and parent; both with the problem, where there is one."""
    try:
        if value.problem:
            raise ValueError(value.problem)
        parts = parts_of(value)
        parent = decode(parts["parent_id"]) if "parent_id" in parts else None
        if "checkpoint" not in parts:
            raise ValueError("no checkpoint in it")
        metadata = parts.get("metadata", TypedBytes("json", b"{}"))
        return Stored(parts["checkpoint"], metadata, parent if isinstance(parent, str) else None)
    except ValueError as error:
        found = _closed(value, str(error))
        return Stored(found, found, None)


def stored_write(value: TypedBytes) -> tuple[str, TypedBytes]:
    """Channel and value of a write."""
    try:
        if value.problem:
            raise ValueError(value.problem)
        parts = parts_of(value)
        channel = decode(parts[1])
        if not isinstance(channel, str):
            raise ValueError("its channel is no text")
        return channel, parts[2]
    except (ValueError, KeyError) as error:
        return UNKNOWN, _closed(value, str(error))


def _closed(value: TypedBytes, problem: str) -> TypedBytes:
    """What stands for a part of a value that cannot be taken apart."""
    if "+" in value.type:
        # Not `data`, which would not be this part when it is decrypted.
        return TypedBytes(value.type, b"", problem=_TOGETHER, whole=value.whole or len(value.data))
    return replace(value, problem=problem)


def wrapped_checkpoint(body: TypedBytes, metadata: TypedBytes, parent: str | None) -> bytes:
    """A checkpoint's key. Raises `Unsupported` for a body of another type than `msgpack`."""
    if body.type != "msgpack":
        raise Unsupported(
            f"cannot write a checkpoint whose body is of type '{body.type}' here",
            hint="only bodies of type 'msgpack' can be copied",
        )
    parts = {
        "checkpoint": body.data,
        "metadata": _msgpack(metadata),
        "parent_id": _packed(parent),
    }
    data = bytes([0x80 + len(parts)])
    return wrapped(
        TypedBytes("msgpack", data + b"".join(_packed(key) + one for key, one in parts.items()))
    )


def wrapped_write(task_id: str, channel: str, value: TypedBytes) -> bytes:
    """A write's field. Raises `Unsupported` for a type that has no place in msgpack."""
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


def unread_value(length: int, head: bytes = b"", tail: bytes = b"") -> TypedBytes:
    """What stands for a value whose text is too long to be read."""
    tag, size = told_of(length, head, tail)
    return unread(tag, size)
