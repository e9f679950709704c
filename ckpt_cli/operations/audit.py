"""The audit file: the operations of a user as a chain of hashes, for `--audit FILE`.

Each line is an operation as in the log, with `prev`, the SHA-256 of the line before it, newline
included; 64 zeros in the first line. Who changes or removes a line must change all later lines.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from errno import ELOOP, EPERM
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

from ckpt_backends.errors import Refused, StoreUnavailable, UsageError, reason_of
from ckpt_backends.files import open_regular
from ckpt_cli.config.trust import fault_of_file
from ckpt_cli.operations.log import Operation, lock, to_record

FIRST = "0" * 64
"""`prev` of the first line."""
_NOT_FIRST = "it is not the first line of an audit file"
_NOT_NEXT = "it does not follow from the line before"
_BLOCK = 1 << 16


class AuditFile:
    """A file to which operations are appended. Several processes may append at once.

    It is refused if it is a link, or if another user can write into it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()

    def check(self) -> None:
        """Create it unless it exists. Raises `Refused` if it cannot be written."""
        try:
            with self._opened():
                pass
        except OSError as error:
            raise Refused(
                f"{self._said(error)}; nothing was written",
                hint="run without --audit, or give a file that can be written",
            ) from error

    def append(self, one: Operation) -> None:
        """Add an operation, and wait until it is on disk. Raises `UsageError`."""
        try:
            with self._opened() as file:
                last = _last_line(file)
                prev = sha256(last).hexdigest() if last else FIRST
                if last and not last.endswith(b"\n"):
                    # Cut off by a crash. It becomes a line, so that the chain goes on.
                    file.write(b"\n")
                    prev = sha256(last + b"\n").hexdigest()
                record = {**to_record(one), "prev": prev}
                file.write(json.dumps(record, separators=(",", ":")).encode() + b"\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise UsageError(self._said(error)) from error

    def holds(self, op: str) -> bool:
        """Return whether an operation was appended."""
        try:
            with open_regular(self.path) as file:
                return any(_op_of(line) == op for line in file)
        except (OSError, StoreUnavailable):
            return False

    @contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NONBLOCK | os.O_CLOEXEC
        if self.path.is_symlink():
            raise OSError(ELOOP, "it is a symbolic link")
        with os.fdopen(os.open(self.path, flags | os.O_NOFOLLOW, 0o600), "r+b") as file:
            state = os.fstat(file.fileno())
            if not stat.S_ISREG(state.st_mode):
                raise OSError(0, "not a regular file")
            if state.st_nlink > 1:
                # Where others may link files, it may be one of this user's for something else.
                raise OSError(EPERM, "the file has other names, too")
            if (fault := fault_of_file(self.path, state)) is not None:
                raise OSError(EPERM, f"it {fault}")
            lock(file)
            yield file

    def _said(self, error: OSError) -> str:
        return f"cannot write the audit file '{self.path}': {(error.strerror or '').lower()}"


@dataclass(frozen=True, slots=True)
class Chain:
    """What was found in an audit file."""

    lines: int
    """Number of lines up to the first broken one."""
    head: str
    """The SHA-256 of the last of them."""
    broken: str
    """What is wrong with the next line; `''` if the chain is whole."""
    torn: tuple[int, ...]
    """Lines that were cut off when they were written."""
    has_known: bool
    """Whether the known hash is that of a line."""


def verified(path: Path, known: str | None = None) -> Chain:
    """Check the chain of an audit file. Raises `UsageError` if it cannot be read.

    `known` is the hash of a line that was noted before: it tells whether lines were cut off.
    """
    number, prev, has_known, torn = 0, FIRST, known == FIRST, []
    try:
        with open_regular(path) as file:
            for line in file:
                found = _prev_of(line)
                if found is None:
                    torn.append(number + 1)
                elif found != prev:
                    broken = _NOT_NEXT if number else _NOT_FIRST
                    return Chain(number, prev, broken, tuple(torn), has_known)
                number, prev = number + 1, sha256(line).hexdigest()
                has_known |= prev == known
    except OSError as error:
        raise UsageError(f"cannot read '{path}': {reason_of(error)}") from error
    except StoreUnavailable as error:
        raise UsageError(error.message) from error
    return Chain(number, prev, "", tuple(torn), has_known)


def _prev_of(line: bytes) -> str | None:
    """Return what a line says of the line before; None if it was cut off."""
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    found = record.get("prev") if isinstance(record, dict) else None
    return found if isinstance(found, str) and line.endswith(b"\n") else ""


def _op_of(line: bytes) -> str | None:
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return None
    found = record.get("op") if isinstance(record, dict) else None
    return found if isinstance(found, str) else None


def _last_line(file: BinaryIO) -> bytes:
    """Return the last line, with its newline if it has one."""
    at = file.seek(0, os.SEEK_END)
    found = b""
    while at > 0 and b"\n" not in found[:-1]:
        size = min(_BLOCK, at)
        at -= size
        file.seek(at)
        found = file.read(size) + found
    return found[found[:-1].rfind(b"\n") + 1 :]
