"""Decodes values for rewriting. Encoding the decoded value again gives the same bytes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from ckpt_backends.codec.limits import DEFAULT_LIMITS, PastLimit
from ckpt_backends.codec.values import JSON_TYPES
from ckpt_backends.errors import Unsupported

if TYPE_CHECKING:
    from ckpt_backends.model import TypedBytes


@dataclass(frozen=True, slots=True)
class Ext:
    """A msgpack ext type with its payload as stored."""

    code: int
    data: bytes


@dataclass(frozen=True, slots=True)
class _Style:
    """The spelling of a JSON text: its separators, and whether non-ASCII text is escaped."""

    separators: tuple[str, str]
    escaped: bool

    def spell(self, value: Any) -> bytes:
        text = json.dumps(value, ensure_ascii=self.escaped, separators=self.separators)
        return text.encode("utf-8", "surrogatepass")


_STYLES = tuple(
    _Style(separators, escaped)
    for separators in ((", ", ": "), (",", ":"))
    for escaped in (False, True)
)


def decode_lossless(typed: TypedBytes) -> Any:
    """Decode to plain values, with `Ext` for ext types and tuples for map keys that are arrays.

    Raises `Unsupported` if the type is not `msgpack` or JSON, or if encoding the result would not
    give the same bytes.
    """
    _refuse_others(typed.type)
    try:
        value = _unpack(typed.data) if typed.type == "msgpack" else _load(typed.data)
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
        return _pack(value) if tag == "msgpack" else _style_of(like).spell(value)
    except (TypeError, ValueError, PastLimit, RecursionError) as error:
        raise Unsupported(f"cannot write a {tag} value: {error}") from error


def _refuse_others(tag: str) -> None:
    if tag != "msgpack" and tag not in JSON_TYPES:
        raise Unsupported(f"cannot rewrite a value of type '{tag}'")


def _unpack(data: bytes) -> Any:
    from ormsgpack import OPT_NON_STR_KEYS, unpackb  # loaded when needed

    from ckpt_backends.codec.msgpack.scan import heads, scan

    if heads(data) > DEFAULT_LIMITS.depth:
        scan(data, 0, DEFAULT_LIMITS)
    return unpackb(data, ext_hook=Ext, option=OPT_NON_STR_KEYS)


def _pack(value: Any) -> bytes:
    import ormsgpack  # loaded when needed

    def on_other(item: Any) -> ormsgpack.Ext:
        if isinstance(item, Ext):
            return ormsgpack.Ext(item.code, item.data)
        raise TypeError(f"cannot store a {type(item).__name__}")

    # `Ext` is a dataclass. Without this option, ormsgpack would write it as a map.
    option = ormsgpack.OPT_NON_STR_KEYS | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    return ormsgpack.packb(value, default=on_other, option=option)


def _load(data: bytes) -> Any:
    from ckpt_backends.codec.json.json_plus import check

    text = data.decode("utf-8", "surrogatepass")
    check(text, DEFAULT_LIMITS)
    return json.loads(text)


def _style_of(data: bytes) -> _Style:
    if not data:
        return _STYLES[0]
    value = _load(data)
    for style in _STYLES:
        if style.spell(value) == data:
            return style
    raise ValueError("unknown number format")
