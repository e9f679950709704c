"""Decodes numpy arrays to nested lists without importing numpy."""

from __future__ import annotations

import re
import struct
from math import prod
from typing import TYPE_CHECKING

from ckpt_backends.codec.values import Tagged, Value

if TYPE_CHECKING:
    from collections.abc import Sequence

NDARRAY = "numpy.ndarray"

_DTYPE = re.compile(r"([<>|=])([biufcSU])(\d{1,9})")
_CODES = {
    "b1": "?",
    **{f"i{1 << power}": code for power, code in enumerate("bhiq")},
    **{f"u{1 << power}": code for power, code in enumerate("BHIQ")},
    "f2": "e",
    "f4": "f",
    "f8": "d",
    "c8": "f",
    "c16": "d",
}
_MAX_DIMENSIONS = 32


def ndarray(dtype: str, shape: Sequence[int], order: str, data: bytes, room: int) -> Tagged:
    """A `Tagged` array with its data as nested lists, or as bytes if they cannot be decoded.

    `room` is the maximum number of elements and lists to create. `order` is `C` or `F`.
    """
    lists = sum(prod(shape[:axis]) for axis in range(len(shape) + 1))
    content: Value = data
    if len(shape) <= _MAX_DIMENSIONS and lists <= room and order in ("C", "F"):
        flat = _elements(dtype, data)
        if flat is not None and len(flat) == prod(shape):
            content = _nested(flat, shape, order)
    return Tagged(NDARRAY, {"dtype": dtype, "shape": list(shape), "order": order, "data": content})


def _elements(dtype: str, data: bytes) -> list[Value] | None:
    match = _DTYPE.fullmatch(dtype)
    if match is None:
        return None
    mark, kind, size = match[1], match[2], int(match[3])
    little = mark != ">"
    width = size * 4 if kind == "U" else size
    if width == 0 or len(data) % width:
        return None
    if kind in "SU":
        cells = [data[at : at + width] for at in range(0, len(data), width)]
        if kind == "S":
            return [cell.rstrip(b"\0") for cell in cells]
        try:
            return [
                cell.decode("utf-32-le" if little else "utf-32-be").rstrip("\0") for cell in cells
            ]
        except UnicodeDecodeError:
            return None
    code = _CODES.get(f"{kind}{size}")
    if code is None:
        return None
    numbers = struct.unpack(
        f"{'<' if little else '>'}{len(data) // struct.calcsize('=' + code)}{code}", data
    )
    if kind == "c":
        pairs = zip(numbers[::2], numbers[1::2], strict=True)
        return [Tagged("builtins.complex", [real, imaginary]) for real, imaginary in pairs]
    return list(numbers)


def _nested(flat: list[Value], shape: Sequence[int], order: str) -> Value:
    strides = [
        prod(shape[axis + 1 :] if order == "C" else shape[:axis]) for axis in range(len(shape))
    ]

    def part(axis: int, start: int) -> Value:
        if axis == len(shape):
            return flat[start]
        return [part(axis + 1, start + i * strides[axis]) for i in range(shape[axis])]

    return part(0, 0)
