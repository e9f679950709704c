"""Open files that must be regular files: never a FIFO, a device or a socket."""

from __future__ import annotations

import atexit
import errno
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_ISREG
from typing import BinaryIO

from ckpt_backends import platform, shell
from ckpt_backends.errors import Refused, StoreUnavailable, reason_of

_KINDS = {
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a FIFO",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFLNK: "a symbolic link",
}


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
    is_own = platform.has_owners() and state.st_uid == platform.user_id()
    if is_own and stat.S_ISREG(state.st_mode) and mode & 0o077:
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
    if platform.is_own_input(path):
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
    flags = os.O_RDONLY | platform.NONBLOCK | platform.PRIVATE
    flags |= 0 if follow else platform.NOFOLLOW
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


# Temporary folders that only their owner can enter, removed when the run ends.
#
# Each folder is locked while it is in use. A folder without a lock was left by a killed run, and
# the next run that makes a folder removes it.


_NAME = re.compile(r"ckpt-private-[0-9a-f]{16}")


class TemporaryFolder:
    """A new folder; removed by `remove`, at the end of a `with` block, or when the run ends."""

    def __init__(self) -> None:
        """Make the folder. Raises `StoreUnavailable`."""
        from tempfile import gettempdir  # late: few commands need a folder

        self._process = os.getpid()
        self._handle: int | None = None
        try:
            parent = Path(gettempdir())
            _remove_left(parent)
            self._make(parent)
        except OSError as error:
            raise StoreUnavailable(
                f"cannot make a temporary folder: {reason_of(error)}",
                hint="set TMPDIR to a folder that is writable",
            ) from error

    def _make(self, parent: Path) -> None:
        while True:
            self.path = parent / f"ckpt-private-{os.urandom(8).hex()}"
            # Added before it is there: a signal may come at any time.
            _ALIVE.add(self)
            try:
                self.path.mkdir(0o700)
            except OSError:
                _ALIVE.discard(self)
                raise
            self._handle = _locked(self.path)
            if self._handle is not None or not platform.has_locks():
                return
            _ALIVE.discard(self)

    def __enter__(self) -> Path:
        return self.path

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Remove the folder with everything in it."""
        # A forked process has the same object, but the folder is not its own.
        if self in _ALIVE and self._process == os.getpid():
            from shutil import rmtree

            rmtree(self.path, ignore_errors=True)
            if self._handle is not None:
                os.close(self._handle)
        _ALIVE.discard(self)


_ALIVE: set[TemporaryFolder] = set()
"""The folders of this process."""


@atexit.register
def remove_all() -> None:
    """Remove all folders of this process."""
    for one in list(_ALIVE):
        one.remove()


def _locked(folder: Path) -> int | None:
    """A descriptor that locks a folder, if that is possible; None if another run removed it."""
    with suppress(FileNotFoundError):
        handle = platform.open_folder(folder)
        if handle is None:
            return None
        with suppress(OSError):
            platform.lock(handle, wait=True)
        if folder.exists():
            return handle
        os.close(handle)
    return None


def _remove_left(parent: Path) -> None:
    """Remove this user's folders of killed runs, if locks tell which. Ignores errors."""
    if not platform.has_locks():
        return
    mode = parent.stat().st_mode
    if mode & 0o022 and not mode & stat.S_ISVTX:
        return  # Others could give any folder of this user such a name.
    with suppress(OSError), os.scandir(parent) as entries:
        for entry in entries:
            if _NAME.fullmatch(entry.name):
                _remove_folder(parent / entry.name)


def _remove_folder(folder: Path) -> None:
    with suppress(OSError):
        handle = platform.open_folder(folder)
        if handle is None:
            return
        try:
            facts = os.fstat(handle)
            if facts.st_uid == platform.user_id() and stat.S_IMODE(facts.st_mode) == 0o700:
                platform.lock(handle)
                from shutil import rmtree

                rmtree(folder, ignore_errors=True)
        finally:
            os.close(handle)


# Files that appear under their name only when they are complete and on disk.
#
# A file is first written as `.NAME.TOKEN.part` in the same folder and then renamed. The writer
# holds a lock on the `.part` file. A `.part` file without a lock was left by a killed run.
#
# No link is followed: a `.part` file is always new, and a rename replaces a link, not its target.


_PART = re.compile(r"\.(?P<name>.+)\.[0-9a-f]+\.part", re.DOTALL)


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
            if platform.moves_open_files():
                _put(part, path, replace=replace)
        if not platform.moves_open_files():
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
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | platform.NOFOLLOW | platform.PRIVATE
        file = os.fdopen(os.open(part, flags, 0o600), "wb")
        with suppress(OSError):
            platform.lock(file.fileno(), wait=True)
        if os.fstat(file.fileno()).st_nlink:
            break
        # Another run removed the file before it was locked: try again.
        file.close()
    if like is not None:
        try:
            platform.share_like(file.fileno(), like)
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
    """Remove this user's `.part` files of killed runs for some file names. Ignores errors.

    Without locks, which tell that a run is over, they stay.
    """
    if not platform.has_locks():
        return
    with suppress(OSError):
        for part in folder.glob(".*.part"):
            found = _PART.fullmatch(part.name)
            if found is not None and is_wanted(found["name"]):
                _remove_part(part)


def sync_folder(folder: Path) -> None:
    """Make sure that a rename is on disk, if the system supports that."""
    with suppress(OSError):
        handle = platform.open_folder(folder, follow=True)
        if handle is None:
            return
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


def _remove_part(part: Path) -> None:
    with suppress(OSError):
        flags = os.O_RDWR | platform.NOFOLLOW | platform.NONBLOCK | platform.PRIVATE
        handle = os.open(part, flags)
        try:
            facts = os.fstat(handle)
            if S_ISREG(facts.st_mode) and facts.st_uid == platform.user_id():
                platform.lock(handle)
                part.unlink()
        finally:
            os.close(handle)


# Locks on a folder, against two changes of its files at the same time.


_LOCK_SECONDS = 5.0
_PAUSE_SECONDS = 0.05


@contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold an exclusive lock on the folder. The system releases it when the process ends.

    Raises `StoreUnavailable` if another process holds it for `_LOCK_SECONDS`.
    """
    with _lock(folder, lambda: platform.open_folder(folder, follow=True), folder):
        yield


@contextmanager
def locked_by(file: Path) -> Iterator[None]:
    """Hold the lock that an application takes on a file to change the folder of that file.

    The file is made if it is missing. Raises `StoreUnavailable`.
    """
    flags = os.O_RDWR | os.O_CREAT | platform.NOFOLLOW | platform.NONBLOCK | platform.PRIVATE
    with _lock(file, lambda: os.open(file, flags, 0o666), file.parent):
        yield


@contextmanager
def _lock(path: Path, open_: Callable[[], int | None], folder: Path) -> Iterator[None]:
    try:
        handle = open_()
    except OSError as error:
        raise StoreUnavailable(f"cannot open '{path}': {reason_of(error)}") from error
    if handle is None:
        yield
        return
    try:
        until = time.monotonic() + _LOCK_SECONDS
        while True:
            with suppress(BlockingIOError):
                platform.lock(handle)
                break
            if time.monotonic() > until:
                raise StoreUnavailable(
                    f"cannot write to '{folder}': another process is writing to it",
                    hint="try again in a moment",
                )
            time.sleep(_PAUSE_SECONDS)
        yield
    finally:
        os.close(handle)
