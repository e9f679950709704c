"""Decodes msgpack with ext types as stored, so that encoding gives the same bytes again."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from ckpt_backends.codec.limits import DEFAULT_LIMITS
from ckpt_backends.codec.msgpack.cursor import depth_bound, skip


@dataclass(frozen=True, slots=True)
class Ext:
    """A msgpack ext type with its payload as stored."""

    code: int
    data: bytes


def unpack_lossless(data: bytes) -> Any:
    """The value with `Ext` for ext types. Raises ValueError and `PastLimit`."""
    unpackb, option = _unpacking()
    if depth_bound(data) > DEFAULT_LIMITS.depth:
        skip(data, 0, DEFAULT_LIMITS)
    return unpackb(data, ext_hook=Ext, option=option)


@cache
def _unpacking() -> tuple[Any, int]:
    from ormsgpack import OPT_NON_STR_KEYS, unpackb  # loaded when needed

    return unpackb, OPT_NON_STR_KEYS


@cache
def _packing() -> tuple[Any, Any, int]:
    import ormsgpack  # loaded when needed

    def on_other(item: Any) -> ormsgpack.Ext:
        if isinstance(item, Ext):
            return ormsgpack.Ext(item.code, item.data)
        raise TypeError(f"cannot store a {type(item).__name__}")

    # `Ext` is a dataclass. Without this option, ormsgpack would write it as a map.
    option = ormsgpack.OPT_NON_STR_KEYS | ormsgpack.OPT_PASSTHROUGH_DATACLASS
    return ormsgpack.packb, on_other, option


def pack_lossless(value: Any) -> bytes:
    """The msgpack of a value. Raises TypeError, ValueError or RecursionError for other values."""
    packb, on_other, option = _packing()
    packed: bytes = packb(value, default=on_other, option=option)
    return packed
