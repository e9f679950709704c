"""The configuration files that this user trusts: `ckpt trust` records the path and the contents.

Each trusted file has one small file in `$XDG_STATE_HOME/ckpt/trusted`, so that two runs at the same
time cannot lose each other's entries.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ckpt_backends import shell
from ckpt_backends.errors import StoreUnavailable, UsageError
from ckpt_backends.files.regular_file import check_regular, open_regular
from ckpt_cli.config.folders import state_folder

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
        from ckpt_cli.config.ownership import fault_of

        try:
            fault = fault_of(self.path, self.state)
        except OSError as error:
            fault = (error.strerror or str(error)).lower()
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
    from ckpt_backends.files.atomic_write import make_private_folder, writing

    file = _file_of(contents.path)
    entry = {"path": str(contents.path), "sha256": contents.sha256}
    try:
        make_private_folder(file.parent)
        with writing(file) as out:
            out.write(json.dumps(entry).encode())
        read(file).check_owner()
    except OSError as error:
        raise UsageError(
            f"cannot write '{file}': {(error.strerror or str(error)).lower()}"
        ) from error


def remove(path: Path) -> bool:
    """Trust a file no longer; returns False if it was not trusted. Raises `UsageError`."""
    file = _file_of(path)
    try:
        file.unlink()
    except FileNotFoundError:
        return False
    except OSError as error:
        raise UsageError(
            f"cannot remove '{file}': {(error.strerror or str(error)).lower()}"
        ) from error
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
    from hashlib import sha256  # late: it loads OpenSSL, and most files need no trust

    return sha256(data).hexdigest()


def _entry(file: Path) -> Trusted | None:
    """Return one entry; None if there is none, or if another user could have written it."""
    with suppress(UsageError, ValueError, KeyError, TypeError):
        contents = read(file)
        contents.check_owner()
        record = json.loads(contents.data)
        return Trusted(Path(record["path"]), str(record["sha256"]))
    return None
