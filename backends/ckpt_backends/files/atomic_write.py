"""Files that appear under their name only when they are complete and on disk.

A file is first written as `.NAME.TOKEN.part` in the same folder and then renamed. The writer holds
a lock on the `.part` file. A `.part` file without a lock was left by a killed run.

No link is followed: a `.part` file is always new, and a rename replaces a link, not its target.
"""

from __future__ import annotations

import errno
import fcntl
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO

from ckpt_backends.files.regular_file import kind_of

_PART = re.compile(r"\.(?P<name>.+)\.[0-9a-f]+\.part", re.DOTALL)
_ACCESS_LIST = "system.posix_acl_access"


def make_private_folder(path: Path) -> None:
    """Make a folder and its missing parents, which only their owner can enter. Raises `OSError`.

    A folder that exists is left as it is.
    """
    if path.is_dir():
        return
    if path.parent != path:
        make_private_folder(path.parent)
    # Another run may make it at the same time.
    try:
        path.mkdir(0o700)
    except FileExistsError:
        if not path.is_dir():
            raise


@contextmanager
def writing(path: Path, *, replace: bool = True) -> Iterator[BinaryIO]:
    """Open a new file that only its owner can read, and rename it to `path` at the end.

    Raises `OSError`: also if `path` exists and is not a regular file, or if it exists and `replace`
    is not set.
    """
    _check_target(path, replace=replace)
    remove_unfinished(path.parent, path.name.__eq__)
    part, file = create_part(path)
    try:
        with file:
            yield file
            to_disk(file)
            _put(part, path, replace=replace)
        sync_folder(path.parent)
    finally:
        with suppress(OSError):
            part.unlink()


def create_part(path: Path, like: Path | None = None) -> tuple[Path, BinaryIO]:
    """Create a new `.part` file for `path`. It stays locked until closed, if that is possible.

    Only its owner can read it. With `like`, it gets the owner, group and mode of that file, as far
    as this is permitted.
    """
    while True:
        part = path.with_name(f".{path.name}.{os.urandom(8).hex()}.part")
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.fdopen(os.open(part, flags, 0o600), "wb")
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        if os.fstat(file.fileno()).st_nlink:
            break
        # Another run removed the file before it was locked: try again.
        file.close()
    if like is not None:
        try:
            _share(file.fileno(), like)
        except OSError:
            file.close()
            part.unlink(missing_ok=True)
            raise
    return part, file


def to_disk(file: BinaryIO) -> None:
    """Write what is buffered, and wait until it is on disk. Raises `OSError`."""
    file.flush()
    os.fsync(file.fileno())


def remove_unfinished(folder: Path, is_wanted: Callable[[str], bool]) -> None:
    """Remove this user's `.part` files of killed runs for some file names. Ignores errors."""
    with suppress(OSError):
        for part in folder.glob(".*.part"):
            found = _PART.fullmatch(part.name)
            if found is not None and is_wanted(found["name"]):
                _remove_unlocked(part)


def sync_folder(folder: Path) -> None:
    """Make sure that a rename is on disk, if the system supports that."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _check_target(path: Path, *, replace: bool) -> None:
    """Raise `OSError` before anything is written if the rename must not happen."""
    if not replace and os.path.lexists(path):
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), str(path))
    try:
        mode = os.stat(path).st_mode
    except OSError:
        return
    if not S_ISREG(mode):
        raise OSError(errno.EINVAL, f"it is {kind_of(mode)}", str(path))


def _put(part: Path, path: Path, *, replace: bool) -> None:
    if not replace:
        try:
            os.link(part, path)
            return
        except FileExistsError:
            raise
        except OSError:
            # A file system without hard links.
            _check_target(path, replace=False)
    part.replace(path)


def _remove_unlocked(part: Path) -> None:
    with suppress(OSError):
        handle = os.open(part, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            facts = os.fstat(handle)
            if S_ISREG(facts.st_mode) and facts.st_uid == os.geteuid():
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                part.unlink()
        finally:
            os.close(handle)


def _share(handle: int, like: Path) -> None:
    """Let the same users read and write a file as another one, or fewer of them."""
    facts = os.stat(like)
    for owner in ((-1, facts.st_gid), (facts.st_uid, -1)):
        with suppress(OSError):
            os.fchown(handle, *owner)
    mode = facts.st_mode & 0o777
    if os.fstat(handle).st_gid != facts.st_gid or not _has_access_list(handle, like):
        # Members of another group are treated like everyone else.
        mode = mode & 0o707 | (mode & 0o007) << 3
    os.fchmod(handle, mode)


def _has_access_list(handle: int, like: Path) -> bool:
    """Copy the access control list of a file; True if it has none."""
    try:
        rights = os.getxattr(like, _ACCESS_LIST)
    except (OSError, AttributeError):
        return True
    try:
        os.setxattr(handle, _ACCESS_LIST, rights)
    except OSError:
        return False
    return True
