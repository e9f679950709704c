"""Erases in pickles, which are parsed and never run.

Texts and bytes are replaced opcode by opcode, and the lengths of frames follow. The names of
classes are kept, also those that `STACK_GLOBAL` takes from the stack.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pickletools import genops
from typing import Any

from ckpt_backends.codec.limits import DEFAULT_LIMITS, PastLimit
from ckpt_backends.erasing.changes import ChangedPlaces, Spot
from ckpt_backends.erasing.erasure import Erasure

_TEXTS = frozenset({"UNICODE", "SHORT_BINUNICODE", "BINUNICODE", "BINUNICODE8"})
_BYTES = frozenset({"SHORT_BINBYTES", "BINBYTES", "BINBYTES8", "BYTEARRAY8"})
_OLD_STRINGS = frozenset({"STRING", "SHORT_BINSTRING", "BINSTRING"})
"""Texts of protocols 0 and 1 in Python 2."""
_PUTS = frozenset({"MEMOIZE", "PUT", "BINPUT", "LONG_BINPUT"})
_GETS = frozenset({"GET", "BINGET", "LONG_BINGET"})
_FRAME = "FRAME"
_FRAME_HEAD = 9
_MOST_OPCODES = 16 * DEFAULT_LIMITS.nodes


@dataclass(slots=True)
class _Opcode:
    name: str
    argument: Any
    start: int
    end: int
    is_name: bool = False
    """Whether it is the name of a class or module."""


def erased_pickle(data: bytes, erasure: Erasure, spot: Spot, changed: ChangedPlaces) -> bytes:
    """The pickle without what is erased; the same object if nothing is. Raises ValueError."""
    if not erasure.hits(data) and b"\\" not in data:
        return data
    opcodes = _opcodes(data)
    _mark_names(opcodes)
    made: list[bytes] = []
    frames: list[tuple[int, int]] = []
    for one in opcodes:
        if one.name == _FRAME:
            frames.append((len(made), one.end + one.argument))
        made.append(_new(data[one.start : one.end], one, erasure))
    if b"".join(made) == data:
        return data
    changed.steps.append(spot.steps)
    starts = [one.start for one in opcodes]
    sizes = [0, *accumulate(map(len, made))]
    for index, end in frames:
        size = sizes[bisect_left(starts, end)] - sizes[index + 1]
        made[index] = made[index][: -(_FRAME_HEAD - 1)] + struct.pack("<Q", size)
    return b"".join(made)


def _opcodes(data: bytes) -> list[_Opcode]:
    """The opcodes with their places. Raises ValueError, and `PastLimit` if there are too many."""
    found: list[_Opcode] = []
    for opcode, argument, place in genops(data):
        if len(found) > _MOST_OPCODES:
            raise PastLimit(f"more than {_MOST_OPCODES} opcodes")
        found.append(_Opcode(opcode.name, argument, place or 0, 0))
    for one, after in pairwise(found):
        one.end = after.start
    found[-1].end = found[-1].start + 1
    if found[-1].end != len(data):
        raise ValueError("bytes behind the end of the pickle")
    return found


def _mark_names(opcodes: list[_Opcode]) -> None:
    """Mark the texts that are taken as names. Raises ValueError if they cannot be told."""
    memo: dict[int, _Opcode] = {}
    pushed: list[_Opcode] = []
    for one in opcodes:
        if one.name in _PUTS:
            number = len(memo) if one.name == "MEMOIZE" else int(one.argument)
            memo[number] = pushed[-1] if pushed else one
        elif one.name in _GETS:
            pushed.append(memo.get(int(one.argument), one))
        elif one.name == "STACK_GLOBAL":
            names = pushed[-2:]
            if len(names) != 2 or any(name.name not in _TEXTS for name in names):
                raise ValueError("a pickle with a class whose name is computed")
            for name in names:
                name.is_name = True
            pushed = [*pushed[:-2], one]
        elif one.name != _FRAME:
            pushed.append(one)


def _new(stored: bytes, one: _Opcode, erasure: Erasure) -> bytes:
    """The new bytes of one opcode."""
    if one.is_name:
        return stored
    if one.name in _TEXTS:
        made = erasure.replaced(one.argument)
        return stored if made is one.argument else _text(one.name, made)
    if one.name in _BYTES:
        data = bytes(one.argument)
        new = erasure.replaced_bytes(data)
        return stored if new == data else stored[: len(stored) - len(data)] + new
    if one.name in _OLD_STRINGS:
        # `genops` gives these as text of one byte per character.
        new = erasure.replaced_bytes(stored)
        return new if len(new) == len(stored) else stored
    return stored


def _text(name: str, text: str) -> bytes:
    """The opcode of a text; a short text may become longer than its opcode allows."""
    if name == "UNICODE":
        escaped = text.replace("\\", "\\u005c").replace("\0", "\\u0000").replace("\n", "\\u000a")
        escaped = escaped.replace("\r", "\\u000d").replace("\x1a", "\\u001a")
        return b"V" + escaped.encode("raw-unicode-escape") + b"\n"
    data = text.encode("utf-8", "surrogatepass")
    if name == "SHORT_BINUNICODE" and len(data) < 256:
        return b"\x8c" + bytes([len(data)]) + data
    if name == "BINUNICODE8":
        return b"\x8d" + struct.pack("<Q", len(data)) + data
    return b"X" + struct.pack("<I", len(data)) + data
