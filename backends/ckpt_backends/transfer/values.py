"""Converts a value from one serializer's form to another's. Never changes what it means.

A value that the other serializer cannot hold raises `CannotHold`.
"""

from __future__ import annotations

from ckpt_backends.codec.msgpack.lossless import pack_lossless
from ckpt_backends.model import TypedBytes
from ckpt_backends.transfer.errors import CannotHold
from ckpt_backends.transfer.form import Serializer

_EXT = {bytes([0xD4 + n]): 1 for n in range(5)} | {b"\xc7": 2, b"\xc8": 3, b"\xc9": 5}
"""By first byte of msgpack's ext types, the place of the code."""
_SNAPSHOT = 7


def converted_value(
    value: TypedBytes, source: Serializer, target: Serializer, where: str
) -> TypedBytes:
    """A value that is stored by itself, in the form of another serializer.

    `where` names the value in messages. Raises `CannotHold`.
    """
    if source is target:
        return value
    raise CannotHold(f"{where} cannot be converted from {source} to {target}")


def as_type(value: TypedBytes, tag: str, where: str) -> TypedBytes:
    """A value of the same serializer with the type of the body that it becomes a part of.

    Raises `CannotHold` if this type has no equal value: for example, msgpack has no `bytearray`.
    """
    if value.type == tag:
        return value
    if tag == "msgpack" and value.type == "null":
        return TypedBytes(tag, b"\xc0")
    if tag == "msgpack" and value.type == "bytes":
        return TypedBytes(tag, pack_lossless(value.data))
    if tag == "json" and value.type == "null":
        return TypedBytes(tag, b"null")
    raise CannotHold(f"{where} has the type '{value.type}', which has no form in a {tag} body")


def apart_type(value: TypedBytes) -> TypedBytes:
    """A value that was a part of a body, as its serializer stores it by itself.

    `JsonPlusSerializer` has types of its own for None and for bytes.
    """
    if value.type == "msgpack":
        if value.data == b"\xc0":
            return TypedBytes("null", b"")
        if value.data[:1] in (b"\xc4", b"\xc5", b"\xc6"):
            width = 1 << (value.data[0] - 0xC4)
            return TypedBytes("bytes", value.data[1 + width :])
    return value


def is_snapshot(value: TypedBytes) -> bool:
    """Whether a value is the snapshot of a DeltaChannel: msgpack's ext type 7."""
    if value.type != "msgpack" or value.data[:1] not in _EXT:
        return False
    return value.data[_EXT[value.data[:1]]] == _SNAPSHOT
