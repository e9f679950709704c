"""A write-ahead log whose database is missing: what it is, and the database that its pages make.

Until the first checkpoint of the log, it holds every page, and the database may be an empty file.
If only one of the two was copied or committed, the log may still be all that is needed. Format:
https://www.sqlite.org/fileformat2.html#the_write_ahead_log
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from struct import iter_unpack, unpack
from typing import BinaryIO

from ckpt_backends.errors import StoreUnavailable
from ckpt_backends.files.regular_file import open_regular
from ckpt_backends.sqlite.declaration import LOG_SUFFIX
from ckpt_backends.sqlite.journals import log_of

_MAGIC = 0x377F0682
"""With the lowest bit set, checksums are of big-endian words."""
_HEADER, _FRAME = 32, 24
_PAGES = range(512, 65537)
_MODES = slice(18, 20)
"""Where a database says that it needs a log to be read (2), or not (1)."""


def lone_log(path: Path) -> Path | None:
    """The log that a path stands for: itself, or beside a database that is missing or empty.

    None if the path names anything else.
    """
    if not path.name.endswith(LOG_SUFFIX):
        return log_of(path) if not _size(path) and _size(log_of(path)) > _HEADER else None
    database = path.with_name(path.name.removesuffix(LOG_SUFFIX))
    return path if not _size(database) and _size(path) > _HEADER else None


def what_is(log: Path) -> StoreUnavailable:
    """The error for a log that is opened without `--copy`."""
    name = log.name.removesuffix(LOG_SUFFIX)
    return StoreUnavailable(
        f"cannot open '{log}': it is the write-ahead log of '{name}', which is missing or empty",
        hint="add --copy to rebuild the database from the log, in a private copy",
    )


def rebuild(log: Path, target: Path) -> int:
    """Write the database that the committed pages of a log make. Returns the number of pages.

    Raises `StoreUnavailable` if pages are missing, and OSError.
    """
    with open_regular(log) as file:
        size, pages, count = _committed(file)
        missing = count - sum(number <= count for number in pages)
        if not count or missing:
            held = (
                f"{count - missing:,} of its {count:,} pages" if count else "no whole transaction"
            )
            raise StoreUnavailable(
                f"cannot rebuild '{log.name.removesuffix(LOG_SUFFIX)}': its log holds {held}",
                hint="the rest was in the database file; look for a copy of it",
            )
        with open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as out:
            for number in range(1, count + 1):
                file.seek(pages[number])
                page = bytearray(file.read(size))
                if number == 1:
                    page[_MODES] = b"\x01\x01"
                out.write(page)
    return count


def _committed(file: BinaryIO) -> tuple[int, dict[int, int], int]:
    """The size of a page, where the newest committed page of each number stands, and their count.

    The count is 0 if the file is no log or has no commit.
    """
    header = file.read(_HEADER)
    magic, _, size, *_ = unpack(">8I", header.ljust(_HEADER, b"\0"))
    order = ">" if magic & 1 else "<"
    if magic & ~1 != _MAGIC or size not in _PAGES or size & (size - 1):
        return 0, {}, 0
    sums = _checksum((0, 0), header[:24], order)
    if sums != unpack(">2I", header[24:]):
        return 0, {}, 0
    committed: dict[int, int] = {}
    pending: dict[int, int] = {}
    count = 0
    for number, pages_then, place in _frames(file, size, header[16:24], sums, order):
        pending[number] = place
        if pages_then:
            committed |= pending
            pending.clear()
            count = pages_then
    return size, committed, count


def _frames(
    file: BinaryIO, size: int, salt: bytes, sums: tuple[int, int], order: str
) -> Iterator[tuple[int, int, int]]:
    """Yield number, size of the database after a commit or 0, and place of each valid page."""
    place = _HEADER
    while len(frame := file.read(_FRAME + size)) == _FRAME + size:
        sums = _checksum(_checksum(sums, frame[:8], order), frame[_FRAME:], order)
        number, pages_then = unpack(">2I", frame[:8])
        # What a former use of the file left behind has another salt.
        if frame[8:16] != salt or sums != unpack(">2I", frame[16:24]) or not number:
            return
        yield number, pages_then, place + _FRAME
        place += len(frame)


def _checksum(sums: tuple[int, int], data: bytes, order: str) -> tuple[int, int]:
    one, two = sums
    for first, second in iter_unpack(f"{order}2I", data):
        one = (one + first + two) & 0xFFFFFFFF
        two = (two + second + one) & 0xFFFFFFFF
    return one, two


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0
