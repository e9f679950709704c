"""Which configuration files may act: recorded, and written by nobody else."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from errno import ELOOP
from hashlib import sha256
from pathlib import Path

from ckpt_backends import platform, shell
from ckpt_backends.declaration import backend_of, bundled
from ckpt_backends.errors import StoreUnavailable, UsageError, reason_of
from ckpt_backends.files import check_regular, make_private_folder, open_regular, writing
from ckpt_backends.url import VARIABLE, parse_url
from ckpt_cli.config.machine import state_folder

# Whether another user could have written a file, or put it where it is.
#
# Every folder on the way counts, and every link: whoever can write to a folder can replace what
# is in it. A folder with the sticky bit, such as `/tmp`, lets its users replace only their own
# files.


_MOST_LINKS = 40


def fault_of(path: Path, opened: os.stat_result, mine: frozenset[int] | None = None) -> str | None:
    """Return why another user could have written an open file; None if no other user could.

    `opened` is the state of the open file, `mine` the ids of the users that are trusted: by default
    this user, root, and the user who called sudo. Where files have no owner, nobody else could.
    Raises `OSError`.
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
    user, caller = platform.user_id(), os.environ.get("SUDO_UID", "")
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
    if not platform.has_owners():
        return None
    if state.st_uid not in mine:
        return f"belongs to user '{platform.user_name(state.st_uid)}'"
    mode = state.st_mode
    if stat.S_ISLNK(mode) or (stat.S_ISDIR(mode) and mode & stat.S_ISVTX):
        return None
    if mode & stat.S_IWOTH:
        return "can be written by every user"
    is_private = platform.is_group_of_owner(state) and not platform.has_access_list(place)
    if mode & stat.S_IWGRP and not is_private:
        return "can be written by other users of its group"
    return None


# What a profile of a configuration that nobody trusted may do: open a local store beside it.
#
# Such a file may come from a stranger. A list says what is allowed; everything else needs `ckpt
# trust`.


_PARAMS = frozenset({"layout"})


def needs_trust(url: str, params: Mapping[str, str], folder: Path) -> str | None:
    """Return what a store of an untrusted configuration does that needs trust; None if nothing.

    The URL and the parameters are as written, and a path is already relative to the right folder.
    Raises `UsageError` if the URL cannot be parsed.
    """
    found = VARIABLE.search(" ".join((url, *params, *params.values())))
    if found is not None:
        return f"uses the environment variable '{found[1]}'"
    parsed = parse_url(url)
    backend = backend_of(parsed.scheme)
    if backend is None or not backend.is_local:
        return "names a server"
    if others := sorted({*parsed.params, *params} - _PARAMS):
        return f"sets '{others[0]}'"
    root = os.path.realpath(folder)
    # A link in a store that is a folder may lead anywhere.
    local = (backend, *(one for one in bundled() if one.is_local))
    inner = ("", *(path for one in local for path in one.inner_paths))
    places = (os.path.realpath(os.path.join(parsed.path, path)) for path in inner)
    if any(os.path.commonpath((place, root)) != root for place in places):
        return "names a file outside its folder"
    return None


_MOST_BYTES = 1_000_000
"""Maximum size of a configuration file."""


@dataclass(frozen=True, slots=True)
class Contents:
    """A file that was read once."""

    path: Path
    data: bytes
    state: os.stat_result

    @property
    def sha256(self) -> str:
        return _sha256(self.data)

    def check_owner(self) -> None:
        """Raise `UsageError` if another user could have written the file or replaced it."""

        try:
            fault = fault_of(self.path, self.state)
        except OSError as error:
            fault = reason_of(error)
        if fault is not None:
            raise NotOurs(self.path, fault)


class NotOurs(UsageError):
    """Another user could have written a configuration file."""

    def __init__(self, path: Path, fault: str) -> None:
        hint = f"`--config {shell.word(str(path))}` uses it anyway"
        super().__init__(f"cannot use '{path}': {fault}", hint=hint)
        self.path = path


@dataclass(frozen=True, slots=True)
class Trusted:
    """One entry of the list of trusted files."""

    path: Path
    sha256: str


def read(path: Path, *, only_regular: bool = True) -> Contents:
    """Read a small file, which must be a regular one unless a person named it.

    Raises `UsageError`.
    """
    try:
        if only_regular:
            check_regular(path)
        with open_regular(path) if only_regular else path.open("rb") as file:
            data = file.read(_MOST_BYTES + 1)
            state = os.fstat(file.fileno())
    except FileNotFoundError:
        raise UsageError(f"cannot read '{path}': no such file") from None
    except OSError as error:
        raise UsageError(f"cannot read '{path}': {(error.strerror or '').lower()}") from error
    except StoreUnavailable as error:
        raise UsageError(error.message, hint=error.hint) from None
    if len(data) > _MOST_BYTES:
        raise UsageError(f"cannot read '{path}': it is larger than {_MOST_BYTES} bytes")
    return Contents(path, data, state)


def distrust(contents: Contents) -> str | None:
    """Return why a file is not trusted; None if it is."""
    entry = _entry(_file_of(contents.path))
    if entry is None or entry.path != contents.path:
        return "is not trusted"
    return None if entry.sha256 == contents.sha256 else "changed since it was trusted"


def record(contents: Contents) -> None:
    """Trust a file with these contents. Raises `UsageError` if that cannot be recorded."""
    file = _file_of(contents.path)
    entry = {"path": str(contents.path), "sha256": contents.sha256}
    try:
        make_private_folder(file.parent)
        with writing(file) as out:
            out.write(json.dumps(entry).encode())
        read(file).check_owner()
    except OSError as error:
        raise UsageError(f"cannot write '{file}': {reason_of(error)}") from error


def remove(path: Path) -> bool:
    """Trust a file no longer; returns False if it was not trusted. Raises `UsageError`."""
    file = _file_of(path)
    try:
        file.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise UsageError(f"cannot remove '{file}': {reason_of(error)}") from error
    return True


def entries() -> Iterator[Trusted]:
    """Yield the trusted files, sorted by path."""
    found = map(_entry, state_folder("trusted").glob("*.json"))
    yield from sorted((one for one in found if one is not None), key=lambda one: one.path)


def standing(entry: Trusted) -> str:
    """Return `trusted`, or why the entry does not count now."""
    try:
        found = read(entry.path)
        found.check_owner()
    except UsageError as error:
        return error.message
    return "trusted" if found.sha256 == entry.sha256 else "changed since it was trusted"


def where_it_lies(path: Path) -> Path:
    """Return the path of a file by which it is trusted. A link itself is not followed."""
    return Path(os.path.realpath(path.absolute().parent)) / path.name


def _file_of(path: Path) -> Path:
    return state_folder("trusted") / f"{_sha256(os.fsencode(path))}.json"


def _sha256(data: bytes) -> str:
    return sha256(data).hexdigest()


def _entry(file: Path) -> Trusted | None:
    """Return one entry; None if there is none, or if another user could have written it."""
    with suppress(UsageError, ValueError, KeyError, TypeError):
        contents = read(file)
        contents.check_owner()
        record = json.loads(contents.data)
        return Trusted(Path(record["path"]), str(record["sha256"]))
    return None
