"""Whether another user could have written a file, or put it where it is.

Every folder on the way counts, and every link: whoever can write to a folder can replace what is
in it. A folder with the sticky bit, such as `/tmp`, lets its users replace only their own files.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from errno import ELOOP
from pathlib import Path

_MOST_LINKS = 40


def fault_of(path: Path, opened: os.stat_result, mine: frozenset[int] | None = None) -> str | None:
    """Return why another user could have written an open file; None if no other user could.

    `opened` is the state of the open file, `mine` the ids of the users that are trusted: by default
    this user, root, and the user who called sudo. Raises `OSError`.
    """
    mine = _mine() if mine is None else mine
    place, state = path, opened
    for place, state in _way(path):
        if (fault := _fault(state, place, mine)) is not None:
            return f"it {fault}" if place == path else f"'{place}' {fault}"
    return None if os.path.samestat(state, opened) else "it was replaced while it was read"


def fault_of_file(path: Path, opened: os.stat_result) -> str | None:
    """Return why another user can write into an open file; None if no other user can."""
    return _fault(opened, path, _mine())


def _mine() -> frozenset[int]:
    user, caller = os.geteuid(), os.environ.get("SUDO_UID", "")
    return frozenset({user, 0, *([int(caller)] if user == 0 and caller.isdecimal() else ())})


def _way(path: Path) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield every folder and link from `/` down to a file, and the file."""
    left, links = list(reversed(path.absolute().parts)), 0
    place = Path(left.pop())
    yield place, os.lstat(place)
    while left:
        if (name := left.pop()) == "..":
            place = place.parent
            continue
        state = os.lstat(place / name)
        yield place / name, state
        if not stat.S_ISLNK(state.st_mode):
            place /= name
            continue
        links += 1
        if links > _MOST_LINKS:
            raise OSError(ELOOP, os.strerror(ELOOP), str(path))
        target = Path(os.readlink(place / name))
        left.extend(reversed(target.parts[1:] if target.is_absolute() else target.parts))
        if target.is_absolute():
            place = Path(target.anchor)


def _fault(state: os.stat_result, place: Path, mine: frozenset[int]) -> str | None:
    if state.st_uid not in mine:
        return f"belongs to user '{_user(state.st_uid)}'"
    mode = state.st_mode
    if stat.S_ISLNK(mode) or (stat.S_ISDIR(mode) and mode & stat.S_ISVTX):
        return None
    if mode & stat.S_IWOTH:
        return "can be written by every user"
    if mode & stat.S_IWGRP and not (_is_private(state) and not _has_acl(place)):
        return "can be written by other users of its group"
    return None


def _is_private(state: os.stat_result) -> bool:
    """Whether a file's group has no member except the file's owner."""
    import grp
    import pwd

    try:
        owner, group = pwd.getpwuid(state.st_uid), grp.getgrgid(state.st_gid)
    except KeyError:
        return False
    members = {one.pw_uid for one in pwd.getpwall() if one.pw_gid == state.st_gid}
    return members == {state.st_uid} and set(group.gr_mem) <= {owner.pw_name}


def _has_acl(place: Path) -> bool:
    """Whether an access control list may name more users: its limit is in the group's bits."""
    try:
        return hasattr(os, "listxattr") and "system.posix_acl_access" in os.listxattr(place)
    except OSError:
        return True


def _user(uid: int) -> str:
    import pwd

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)
