"""Keeps values in a temporary file until the files of `langgraph dev` are written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import BinaryIO

from ckpt_backends.closing import Closing
from ckpt_backends.codec.pickle.file import FilePosition
from ckpt_backends.langgraph_dev.layout import StoredValue
from ckpt_backends.model import TypedBytes

_SHORT = 256
"""Values up to this size in bytes stay in memory."""


@dataclass(frozen=True, slots=True)
class SpooledValue(StoredValue):
    """A value whose bytes are in a file of its own."""

    spool: BinaryIO | None = None

    def bytes(self, file: BinaryIO) -> bytes:
        """The bytes of the value; `file` is not used if they are in the spool."""
        # Not super(): a dataclass with slots is made twice.
        return StoredValue.bytes(self, self.spool or file)


class Spool(Closing):
    """Values in a file without a name, in the folder where there is room for them anyway."""

    def __init__(self, folder: Path) -> None:
        self._file: BinaryIO = TemporaryFile(dir=folder)  # noqa: SIM115
        self._size = 0

    def kept(self, value: TypedBytes) -> StoredValue:
        """The value as an entry of a table. Raises `OSError`."""
        size = len(value.data)
        if size <= _SHORT:
            return StoredValue(value.type, value.data)
        self._file.seek(self._size)
        self._file.write(value.data)
        place = FilePosition(self._size, size, size, is_text=False)
        self._size += size
        return SpooledValue(value.type, place, spool=self._file)

    def close(self) -> None:
        self._file.close()
