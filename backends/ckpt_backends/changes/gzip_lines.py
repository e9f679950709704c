"""Gzip files of lines that cannot exhaust the memory of the reader.

The file is packed in pieces of 1 MiB, each at most `_RATIO / 2` times as large as its packed form.
The reader refuses a file that unpacks to more than `_RATIO` times its size, beyond the first
64 MiB. Deflate could reach 1032 times, which only long repetitions of one byte do.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from typing import IO

LONGEST_LINE = 2 << 30
"""The largest row of any engine is 1 GiB (PostgreSQL); base64 adds a third."""
_RATIO = 100
_FREE = 64 << 20
_MAGIC = b"\x1f\x8b"
_PIECE = 1 << 20
_GZIP = 16 + zlib.MAX_WBITS


class Damaged(ValueError):
    """The file is damaged, or unpacks to too much."""


class NotPacked(ValueError):
    """The file is not a gzip file."""


class Packer:
    """Writes a gzip file. `finish` writes the rest."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._waiting = bytearray()

    def write(self, data: bytes) -> None:
        self._waiting += data
        if len(self._waiting) >= _PIECE:
            self.finish()

    def finish(self) -> None:
        for start in range(0, len(self._waiting), _PIECE):
            self._file.write(_packed(self._waiting[start : start + _PIECE]))
        self._waiting.clear()


def lines(file: IO[bytes]) -> Iterator[bytes]:
    """The lines of a gzip file, each with its newline.

    Raises `NotPacked`, `Damaged` and `OSError`.
    """
    if file.read(2) not in {_MAGIC, b""}:
        raise NotPacked
    file.seek(0)
    total = length = 0
    pieces: list[bytes] = []
    try:
        with gzip.GzipFile(fileobj=file, mode="rb") as unpacked:
            while piece := unpacked.readline(_PIECE):
                total += len(piece)
                if total > max(_FREE, _RATIO * file.tell()):
                    raise Damaged(f"it unpacks to more than {_RATIO} times its size")
                length += len(piece)
                if length > LONGEST_LINE:
                    raise Damaged("a line is longer than 2 GiB")
                pieces.append(piece)
                if piece.endswith(b"\n"):
                    line = b"".join(pieces)
                    length = 0
                    pieces.clear()
                    yield line
    except EOFError as error:
        raise Damaged("it is cut off") from error
    except (gzip.BadGzipFile, zlib.error) as error:
        raise Damaged("its compressed data is damaged") from error
    if pieces:
        raise Damaged("a line is cut off")


def _packed(piece: bytearray) -> bytes:
    found = _deflated(piece, zlib.Z_DEFAULT_STRATEGY)
    if len(piece) * 2 <= len(found) * _RATIO:
        return found
    return _deflated(piece, zlib.Z_HUFFMAN_ONLY)  # At most 8 times.


def _deflated(piece: bytearray, strategy: int) -> bytes:
    packer = zlib.compressobj(6, zlib.DEFLATED, _GZIP, zlib.DEF_MEM_LEVEL, strategy)
    return packer.compress(piece) + packer.flush()
