"""Decodes values for rewriting. Encoding the decoded value again gives the same bytes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ckpt_backends.codec.json.lossless import dump_like, load_lossless
from ckpt_backends.codec.limits import PastLimit
from ckpt_backends.codec.msgpack.lossless import pack_lossless, unpack_lossless
from ckpt_backends.codec.values import JSON_TYPES
from ckpt_backends.errors import Unsupported

if TYPE_CHECKING:
    from ckpt_backends.model import TypedBytes


def decode_lossless(typed: TypedBytes) -> Any:
    """Decode to plain values, with `Ext` for ext types and tuples for map keys that are arrays.

    Raises `Unsupported` if the type is not `msgpack` or JSON, or if encoding the result would not
    give the same bytes.
    """
    _refuse_others(typed.type)
    try:
        value = (unpack_lossless if typed.type == "msgpack" else load_lossless)(typed.data)
    except (ValueError, PastLimit) as error:
        raise Unsupported(f"cannot read a {typed.type} value: {error}") from error
    if encode_lossless(typed.type, value, like=typed.data) != typed.data:
        raise Unsupported(f"cannot rewrite a {typed.type} value without changing it")
    return value


def encode_lossless(tag: str, value: Any, *, like: bytes = b"") -> bytes:
    """Encode a value for a type tag.

    JSON gets the spelling (spaces and escapes) of `like`, the text that it replaces. Raises
    `Unsupported` if the type is not `msgpack` or JSON, or if it cannot represent the value.
    """
    _refuse_others(tag)
    try:
        return pack_lossless(value) if tag == "msgpack" else dump_like(value, like)
    except (TypeError, ValueError, PastLimit, RecursionError) as error:
        raise Unsupported(f"cannot write a {tag} value: {error}") from error


def _refuse_others(tag: str) -> None:
    if tag != "msgpack" and tag not in JSON_TYPES:
        raise Unsupported(f"cannot rewrite a value of type '{tag}'")
