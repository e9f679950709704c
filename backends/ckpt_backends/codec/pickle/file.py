"""Parses a file with one pickle and leaves its long values in the file.

Texts and bytes longer than `_LONGEST` become a `Place` and are read when they are needed. So the
memory for a file depends on the number of its values, not on their length.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pickletools import opcodes
from typing import Any, BinaryIO

from ckpt_backends.codec.limits import PastLimit
from ckpt_backends.codec.pickle.machine import STEPS, Machine, Node, Step

_MOST_OPCODES = 20_000_000
"""Enough for about half a million checkpoints; their nodes take about 2 GB."""
_LONGEST = 256
"""Texts and bytes up to this many stored bytes are read; longer ones become a `Place`."""
_MOST_HEAD = 16 + _LONGEST
"""Maximum bytes of an opcode with its number or its short literal."""
_CHUNK = 1 << 20
_CONTINUATION = bytes(range(0x80, 0xC0))
"""The continuation bytes of UTF-8: those that do not begin a character."""


@dataclass(frozen=True, slots=True)
class FilePosition:
    """The position in the file of a long text or long bytes."""

    offset: int
    length: int
    """Stored bytes."""
    size: int
    """Length in characters of a text, in bytes of `bytes`."""
    is_text: bool

    def read(self, file: BinaryIO) -> bytes:
        """The stored bytes; UTF-8 for a text. Raises OSError, and ValueError if cut off."""
        file.seek(self.offset)
        found = file.read(self.length)
        if len(found) != self.length:
            raise ValueError("the file is shorter than it was")
        return found


def read_pickle_file(file: BinaryIO) -> Node:
    """The value of a pickle file, with long texts and bytes as `Place`. Raises ValueError."""
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
"""The opcodes with a literal that may be long, and whether it is text."""
_NUMBERS = {"BINPUT": 1, "BINGET": 1, "BININT1": 1, "LONG_BINPUT": 4, "LONG_BINGET": 4}
"""The most frequent opcodes with a number, and how many bytes the number has."""


@dataclass(frozen=True, slots=True)
class _Opcode:
    step: Step
    number: int
    """Bytes of its number, or of the length of its literal; 0 if it has neither."""
    is_text: bool | None
    """Whether its literal is text; None if it has no literal."""
    read: Callable[[BinaryIO], Any] | None
    """Reads an argument of another kind; None if there is none."""


def _known() -> list[_Opcode | None]:
    """A table of the opcodes by their byte; None for unknown bytes."""
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
    """The opcodes of the file with their arguments, read in chunks."""
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
                    argument = FilePosition(begin + at, length, length, opcode.is_text)
                elif length > _LONGEST:
                    inside = window[at : at + length]
                    size = len(inside.translate(None, _CONTINUATION))
                    size += _characters(file, begin + len(window), length - len(inside))
                    argument = FilePosition(begin + at, length, size, opcode.is_text)
                else:
                    short = window[at : at + length]
                    argument = short.decode("utf-8", "surrogatepass") if opcode.is_text else short
                at += length
        yield opcode.step, argument
    if begin + at != end:
        raise ValueError(f"{end - begin - at} bytes behind the end")


def _characters(file: BinaryIO, offset: int, length: int) -> int:
    """The number of characters in a part of a UTF-8 text."""
    found = 0
    if length > 0:
        file.seek(offset)
        for start in range(0, length, _CHUNK):
            chunk = file.read(min(_CHUNK, length - start))
            found += len(chunk.translate(None, _CONTINUATION))
    return found
