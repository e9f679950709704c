"""Open files that must be regular files: never a FIFO, a device or a socket."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from ckpt_backends import shell
from ckpt_backends.errors import Refused, StoreUnavailable

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a symbolic link",
}
_OWN_INPUT = r"/dev/stdin|/(?:dev|proc/self)/fd/[0-9]+"
"""A descriptor of this process, such as that of `<(command)` in a shell."""


def kind_of(mode: int) -> str:
    """What a file that is not regular is, with its article."""
    return _KINDS.get(stat.S_IFMT(mode), "not a regular file")


def check_regular(path: Path) -> None:
    """Raise `StoreUnavailable` if a path exists and is not a regular file. Links are followed."""
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return
    if not stat.S_ISREG(mode):
        raise not_regular(path, mode)


def open_regular(path: Path, *, buffering: int = -1, follow: bool = True) -> BinaryIO:
    """Open a file for reading, without waiting for the writer of a FIFO.

    Without `follow`, a symbolic link is not a regular file. Raises `OSError` if it cannot be
    opened, and `StoreUnavailable` if it is not a regular file.
    """
    # Opening a device may already do something.
    mode = os.stat(path, follow_symlinks=follow).st_mode
    if not stat.S_ISREG(mode):
        raise not_regular(path, mode)
    return os.fdopen(_opened(path, follow=follow), "rb", buffering)


def refuse_shared(path: Path, state: os.stat_result, verb: str) -> None:
    """Raise `Refused` if other users can read an open file that holds a key.

    As ssh does: a key that belongs to someone else may be shared on purpose.
    """
    mode = stat.S_IMODE(state.st_mode)
    if stat.S_ISREG(state.st_mode) and state.st_uid == os.getuid() and mode & 0o077:
        raise Refused(
            f"refusing to {verb} '{path}': other users can read it (mode {mode:04o})",
            hint=f"chmod 600 {shell.word(str(path))}",
        )


def read_regular(
    path: Path, most: int, check: Callable[[os.stat_result], None] | None = None
) -> bytes:
    """Read a whole file that has at most `most` bytes; `check` is given the state of the open one.

    The command line may also name a descriptor of this process, as `<(command)` does. Raises
    `OSError`, and `StoreUnavailable` if the file is not regular or is longer.
    """
    if re.fullmatch(_OWN_INPUT, str(path)) and stat.S_ISFIFO(os.stat(path).st_mode):
        file: BinaryIO = path.open("rb")
    else:
        file = open_regular(path)
    with file:
        if check is not None:
            check(os.fstat(file.fileno()))
        # None if a file of the kernel, such as /proc/kmsg, has no data yet.
        data = file.read(most + 1) or b""
    if len(data) > most:
        raise StoreUnavailable(f"cannot read '{path}': it is longer than {most} bytes")
    return data


def _opened(path: Path, *, follow: bool) -> int:
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW)
    handle = os.open(path, flags)
    mode = os.fstat(handle).st_mode
    if not stat.S_ISREG(mode):
        os.close(handle)
        raise not_regular(path, mode)
    return handle


def not_regular(path: Path, mode: int, *, verb: str = "read") -> StoreUnavailable:
    """The error for a file that is not regular."""
    return StoreUnavailable(
        f"cannot {verb} '{path}': it is {kind_of(mode)}", hint="give a regular file"
    )
