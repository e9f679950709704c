"""What only some systems have, and what stands in for it elsewhere.

Locks of files, owners and access lists, limits of memory, running processes, and signals: nothing
else imports `fcntl`, `resource`, `pwd` or `grp`, or reads `/proc`. Linux has all of it, macOS most.
Windows has little: there files are locked but no folders, and every file is this user's own.
"""

from __future__ import annotations

import errno
import os
import signal
import stat
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path  # the start of the program has no time for it


def _module(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        return None


_fcntl = _module("fcntl")
_msvcrt: Any = None if _fcntl is not None else _module("msvcrt")
_FAR = 1 << 30
"""The byte that is locked on Windows, where a locked one cannot be read: no file is as long."""

# How a file is opened. What a system lacks is 0: there it has no such files, or no such children.

NOFOLLOW: int = getattr(os, "O_NOFOLLOW", 0)
NONBLOCK: int = getattr(os, "O_NONBLOCK", 0)
PRIVATE: int = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
"""No child process inherits it, and its bytes are read and written as they are."""


def open_folder(path: Path, *, follow: bool = False) -> int | None:
    """Open a folder, to lock or to sync it; None if this system opens only files.

    Without `follow`, it must not be a link. Raises `OSError`.
    """
    only = getattr(os, "O_DIRECTORY", None)
    if only is None:
        return None
    return os.open(path, os.O_RDONLY | only | PRIVATE | (0 if follow else NOFOLLOW))


def moves_open_files() -> bool:
    """Return whether a file can be renamed and removed while it is open."""
    return has_owners()


def has_locks() -> bool:
    """Return whether a lock tells if another process still uses a file."""
    return _fcntl is not None or _msvcrt is not None


def lock(handle: int, *, wait: bool = False) -> None:
    """Lock an open file or folder until it is closed; without locks, do nothing.

    Raises `BlockingIOError` if another process holds it, unless `wait` is set, and `OSError` if
    its file system has no locks.
    """
    if _fcntl is not None:
        _fcntl.flock(handle, _fcntl.LOCK_EX | (0 if wait else _fcntl.LOCK_NB))
    elif _msvcrt is not None:
        _lock_far(handle, _msvcrt.LK_LOCK if wait else _msvcrt.LK_NBLCK)


def _lock_far(handle: int, mode: int) -> None:
    place = os.lseek(handle, 0, os.SEEK_CUR)
    try:
        os.lseek(handle, _FAR, os.SEEK_SET)
        _msvcrt.locking(handle, mode, 1)
    except PermissionError as error:
        raise BlockingIOError(errno.EAGAIN, "another process keeps it locked") from error
    finally:
        os.lseek(handle, place, os.SEEK_SET)


def is_open_elsewhere(handle: int) -> bool:
    """Return whether another process has a file open now. False if the system cannot tell."""
    if not hasattr(_fcntl, "F_SETLEASE"):
        return False
    try:
        # Linux grants this lease only if the file is not open anywhere else.
        _fcntl.fcntl(handle, _fcntl.F_SETSIG, signal.SIGURG)
        _fcntl.fcntl(handle, _fcntl.F_SETLEASE, _fcntl.F_WRLCK)
    except OSError as error:
        return error.errno == errno.EAGAIN
    with suppress(OSError):
        _fcntl.fcntl(handle, _fcntl.F_SETLEASE, _fcntl.F_UNLCK)
    return False


# Who may read and write a file.

_ACCESS_LIST = "system.posix_acl_access"


def has_owners() -> bool:
    """Return whether files have an owner and a mode that say who may read and write them."""
    return hasattr(os, "geteuid")


def user_id() -> int:
    """Return the id of the user of this process; that of every file where they have no owner."""
    return os.geteuid() if has_owners() else 0


def user_name(uid: int) -> str:
    """Return the name of a user, or the id if it has none."""
    pwd = _module("pwd")
    try:
        return str(uid) if pwd is None else str(pwd.getpwuid(uid).pw_name)
    except KeyError:
        return str(uid)


def is_group_of_owner(state: os.stat_result) -> bool:
    """Return whether a file's group has no member except the file's owner."""
    grp, pwd = _module("grp"), _module("pwd")
    if grp is None or pwd is None:
        return False
    try:
        owner, group = pwd.getpwuid(state.st_uid), grp.getgrgid(state.st_gid)
    except KeyError:
        return False
    members = {one.pw_uid for one in pwd.getpwall() if one.pw_gid == state.st_gid}
    return members == {state.st_uid} and set(group.gr_mem) <= {owner.pw_name}


def has_access_list(place: Path) -> bool:
    """Return whether an access list may name more users than the mode says."""
    try:
        return hasattr(os, "listxattr") and _ACCESS_LIST in os.listxattr(place)
    except OSError:
        return True


def set_mode(handle: int, mode: int) -> None:
    """Set who may read and write an open file. Raises `OSError`."""
    if hasattr(os, "fchmod"):
        os.fchmod(handle, mode)


def share_like(handle: int, like: Path) -> None:
    """Let the same users read and write an open file as another one, or fewer of them.

    Raises `OSError`.
    """
    if not hasattr(os, "fchown"):
        return
    facts = os.stat(like)
    for owner in ((-1, facts.st_gid), (facts.st_uid, -1)):
        with suppress(OSError):
            os.fchown(handle, *owner)
    mode = facts.st_mode & 0o777
    if os.fstat(handle).st_gid != facts.st_gid or not _copied_access_list(handle, like):
        # Members of another group are treated like everyone else.
        mode = mode & 0o707 | (mode & 0o007) << 3
    os.fchmod(handle, mode)


def _copied_access_list(handle: int, like: Path) -> bool:
    """Copy the access list of a file; True if it has none."""
    try:
        rights = os.getxattr(like, _ACCESS_LIST)
    except (OSError, AttributeError):
        return True
    try:
        os.setxattr(handle, _ACCESS_LIST, rights)
    except OSError:
        return False
    return True


def is_on_read_only_system(path: Path) -> bool:
    """Return whether a path lies on a file system that is mounted read-only, if that is told."""
    return hasattr(os, "statvfs") and bool(os.statvfs(path).f_flag & os.ST_RDONLY)


# Limits of this process. Only Linux keeps them.


def half_of_memory() -> int:
    """Return half of the machine's memory in bytes; 0 if unknown."""
    if sys.platform != "linux":
        return 0
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 2


def limit_data(most: int) -> None:
    """Limit the bytes that the process may write to, for good.

    Address space (RLIMIT_AS) says little: DuckDB reserves a gigabyte and uses a tenth of it.
    """
    resource = _module("resource")
    if sys.platform != "linux" or resource is None:
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    allowed = [one for one in (most, soft, hard) if one != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(allowed), hard))


@contextmanager
def limited_allocation(room: int) -> Iterator[None]:
    """Let the process allocate only so many bytes more.

    What is larger raises `MemoryError`, or the error of the library that asked for it.
    """
    resource = _module("resource")
    if sys.platform != "linux" or resource is None:
        yield
        return
    before = resource.getrlimit(resource.RLIMIT_AS)
    with open("/proc/self/statm", encoding="ascii") as file:
        pages = int(file.read().split()[0])
    limit = pages * resource.getpagesize() + room
    if before[0] != resource.RLIM_INFINITY:
        limit = min(limit, before[0])
    resource.setrlimit(resource.RLIMIT_AS, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)


# Running processes, which only `/proc` of Linux shows.


def processes() -> Iterator[tuple[str, list[str]]]:
    """Yield the visible processes: (process id, arguments of the command line)."""
    try:
        pids = [name for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return
    for pid in pids:
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                line = file.read()
        except OSError:
            continue
        yield pid, os.fsdecode(line).split("\0")


def works_in(pid: str, folder: Path) -> bool:
    """Return whether a folder is the working folder of a process, as far as that is told."""
    try:
        return os.path.samefile(f"/proc/{pid}/cwd", folder)
    except OSError:
        return False


def is_own_input(path: Path) -> bool:
    """Return whether a path is a pipe of this process, such as that of `<(command)` in a shell."""
    text = str(path)
    before, _, number = text.rpartition("/")
    named = text == "/dev/stdin" or (before in {"/dev/fd", "/proc/self/fd"} and number.isdecimal())
    return named and stat.S_ISFIFO(os.stat(path).st_mode)


# Signals. Windows has Ctrl-C and an end without cleaning up.

ENDING = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name))
"""The signals that end a process after it has cleaned up."""


@contextmanager
def signals_held(numbers: Iterable[signal.Signals]) -> Iterator[None]:
    """Let signals wait until the context ends, if the system can."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {*numbers})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def let_signals_through(numbers: Iterable[signal.Signals]) -> None:
    """Receive signals that the parent process held back when it started this one."""
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {*numbers})


def end_at_once() -> None:
    """End this process without cleaning up."""
    os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
