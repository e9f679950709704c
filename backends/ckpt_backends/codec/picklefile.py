"""A file that is one pickle, run by the inert machine without its long values.

What is longer than a key stays in the file as a `Place`, and is read when someone looks at it. So
the memory that a file takes hangs on how many values it holds, and not on how long they are.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pickletools import opcodes
from typing import Any, BinaryIO

from .limits import PastLimit
from .picklestack import STEPS, Machine, Node, Step

_MOST_OPCODES = 20_000_000
"""Some half a million checkpoints; as nodes they take about 2 GB."""
_LONGEST = 256
"""Stored bytes of a text that is taken for a key."""
_MOST_HEAD = 16 + _LONGEST
"""Bytes of an opcode with its number or its short literal."""
_CHUNK = 1 << 20
_CONTINUATION = bytes(range(0x80, 0xC0))
"""The bytes of UTF-8 that begin no character."""


@dataclass(frozen=True, slots=True)
class Place:
    """A long text or a long `bytes`, where it stands in its file."""

    offset: int
    length: int
    """Stored bytes."""
    size: int
    """Characters of a text, bytes of a `bytes`."""
    is_text: bool

    def read(self, file: BinaryIO) -> bytes:
        """What is stored; a text in UTF-8. Raises OSError and ValueError."""
        file.seek(self.offset)
        found = file.read(self.length)
        if len(found) != self.length:
            raise ValueError("the file is shorter than it was")
        return found


def read_pickle_file(file: BinaryIO) -> Node:
    """The value of a pickle file, its long texts and bytes as places. Raises ValueError."""
    machine = Machine(_MOST_OPCODES)
    try:
        machine.follow(_steps(file))
        return machine.root
    except PastLimit as error:
        raise ValueError(str(error)) from error
    except (IndexError, KeyError, AttributeError, TypeError) as error:
        raise ValueError(f"no pickle: {error}") from error


_LITERALS = {
    **dict.fromkeys(("BINUNICODE", "BINUNICODE8"), True),
    **dict.fromkeys(("BINBYTES", "BINBYTES8", "BYTEARRAY8"), False),
}
"""The opcodes with what may be long, and whether it is a text."""
_NUMBERS = {"BINPUT": 1, "BINGET": 1, "BININT1": 1, "LONG_BINPUT": 4, "LONG_BINGET": 4}
"""The most frequent ones with a number: how many bytes it takes."""


@dataclass(frozen=True, slots=True)
class _Opcode:
    step: Step
    number: int
    """Bytes of its number, or of the length of its literal; 0 where neither follows."""
    is_text: bool | None
    """None where no literal follows."""
    read: Callable[[BinaryIO], Any] | None
    """Reads an argument of another kind."""


def _known() -> list[_Opcode | None]:
    """For each byte, the opcode that it is."""
    table: list[_Opcode | None] = [None] * 256
    for one in opcodes:
        step, is_text = STEPS[one.name], _LITERALS.get(one.name)
        if is_text is not None:
            entry = _Opcode(step, 8 if one.name.endswith("8") else 4, is_text, None)
        elif one.name in _NUMBERS:
            entry = _Opcode(step, _NUMBERS[one.name], None, None)
        else:
            entry = _Opcode(step, 0, None, None if one.arg is None else one.arg.reader)
        table[ord(one.code)] = entry
    return table


_KNOWN = _known()
_STOP = ord(".")


def _steps(file: BinaryIO) -> Iterator[tuple[Step, Any]]:
    """The opcodes, read through a window that moves over the file."""
    end = os.fstat(file.fileno()).st_size
    window, begin, at, code = b"", 0, 0, -1
    while code != _STOP:
        if at + _MOST_HEAD > len(window) and begin + len(window) < end:
            begin += at
            file.seek(begin)
            window, at = file.read(_CHUNK), 0
        code = window[at]
        opcode = _KNOWN[code]
        if opcode is None:
            raise ValueError(f"no opcode at byte {begin + at}")
        at += 1
        number = opcode.number
        if number == 0:
            argument = None
            if opcode.read is not None:
                file.seek(begin + at)
                argument = opcode.read(file)
                at = file.tell() - begin
        else:
            if at + number > len(window):
                raise ValueError("cut off")
            argument = (
                window[at] if number == 1 else int.from_bytes(window[at : at + number], "little")
            )
            at += number
            if opcode.is_text is not None:
                length = argument
                if begin + at + length > end:
                    raise ValueError("cut off")
                if length > _LONGEST and not opcode.is_text:
                    argument = Place(begin + at, length, length, opcode.is_text)
                elif length > _LONGEST:
                    inside = window[at : at + length]
                    size = len(inside.translate(None, _CONTINUATION))
                    size += _characters(file, begin + len(window), length - len(inside))
                    argument = Place(begin + at, length, size, opcode.is_text)
                else:
                    short = window[at : at + length]
                    argument = short.decode("utf-8", "surrogatepass") if opcode.is_text else short
                at += length
        yield opcode.step, argument
    if begin + at != end:
        raise ValueError(f"{end - begin - at} bytes behind the end")


def _characters(file: BinaryIO, offset: int, length: int) -> int:
    """How many characters a part of a text has."""
    found = 0
    if length > 0:
        file.seek(offset)
        for start in range(0, length, _CHUNK):
            chunk = file.read(min(_CHUNK, length - start))
            found += len(chunk.translate(None, _CONTINUATION))
    return found
