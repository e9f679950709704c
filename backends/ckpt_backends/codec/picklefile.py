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
from .picklestack import Machine, Node

_MOST_OPCODES = 20_000_000
"""Some half a million checkpoints; as nodes they take about 2 GB."""
_LONGEST = 256
"""Stored bytes of a text that is taken for a key."""
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
        machine.follow(_operations(file))
        return machine.root
    except PastLimit as error:
        raise ValueError(str(error)) from error
    except (IndexError, KeyError, AttributeError, TypeError) as error:
        raise ValueError(f"no pickle: {error}") from error


_LENGTHS = {
    "BINUNICODE": (4, True),
    "BINUNICODE8": (8, True),
    "BINBYTES": (4, False),
    "BINBYTES8": (8, False),
}
"""The opcodes with what may be long: how many bytes tell its length, and whether it is a text."""
_Known = tuple[str, Callable[[BinaryIO], Any] | None, tuple[int, bool] | None]
_KNOWN: dict[bytes, _Known] = {
    one.code.encode("latin-1"): (
        one.name,
        None if one.arg is None else one.arg.reader,
        _LENGTHS.get(one.name),
    )
    for one in opcodes
}


def _operations(file: BinaryIO) -> Iterator[tuple[str, Any]]:
    end = os.fstat(file.fileno()).st_size
    file.seek(0)
    name = ""
    while name != "STOP":
        known = _KNOWN.get(file.read(1))
        if known is None:
            raise ValueError(f"no pickle opcode at byte {file.tell()}")
        name, reader, length = known
        if length is not None:
            yield name, _literal(file, end, *length)
        else:
            yield name, None if reader is None else reader(file)
    if file.tell() != end:
        raise ValueError(f"{end - file.tell()} bytes behind the end")


def _literal(file: BinaryIO, end: int, digits: int, is_text: bool) -> str | bytes | Place:
    length = int.from_bytes(file.read(digits), "little")
    if length <= _LONGEST:
        found = file.read(length)
        if len(found) != length:
            raise ValueError("cut off")
        return found.decode("utf-8", "surrogatepass") if is_text else found
    offset = file.tell()
    if offset + length > end:
        raise ValueError("cut off")
    if not is_text:
        file.seek(offset + length)
        return Place(offset, length, length, is_text)
    size = 0
    for start in range(0, length, _CHUNK):
        chunk = file.read(min(_CHUNK, length - start))
        size += len(chunk.translate(None, _CONTINUATION))
    return Place(offset, length, size, is_text)
