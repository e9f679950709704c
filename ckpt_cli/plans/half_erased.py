"""Files that an erasure had begun to overwrite when it was killed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from ckpt_backends.errors import CkptError
from ckpt_backends.files.regular_file import open_regular

_HEAD = 16


def is_half_erased(path: Path) -> bool:
    """Return whether a file begins with zeros, as no file of `ckpt` does."""
    with suppress(OSError, CkptError), open_regular(path, follow=False) as file:
        return file.read(_HEAD) == bytes(_HEAD)
    return False


def left_over(old: Iterable[Path], new: Path) -> Iterator[Path]:
    """Yield old contents of files that were written anew; not what has another name in `new`."""
    there = set()
    with suppress(OSError):
        there = {one.stat().st_ino for one in new.iterdir() if one not in old}
    for path in old:
        with suppress(OSError):
            if path.lstat().st_ino not in there:
                yield path
