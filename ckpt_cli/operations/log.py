"""The log of operations: `$XDG_STATE_HOME/ckpt/operations/log.ndjson`, one JSON line each.

Lines are only added. At `_LONGEST` the file is renamed to `log.N.ndjson`, and the oldest of more
than `_FILES` such files is removed, with the steps of its operations. A line that was cut off by a
crash is skipped. Files of other users are not used.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

from ckpt_backends.errors import StoreUnavailable, UsageError
from ckpt_backends.files.atomic_write import make_private_folder, sync_folder, writing
from ckpt_backends.files.regular_file import open_regular
from ckpt_cli.config.folders import state_folder
from ckpt_cli.operations.file_lock import lock
from ckpt_cli.operations.record import Operation, from_record, to_record

_LONGEST = 8 << 20
_FILES = 9
_NAME = "log.ndjson"


class OperationLog:
    """The log of this user. Nothing is created before the first operation."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @classmethod
    def of_user(cls) -> OperationLog:
        """Return the log in the user's state folder. Raises `UsageError` if there is none."""
        return cls(state_folder("operations"))

    def append(self, one: Operation) -> None:
        """Add an operation, and wait until it is on disk. Raises `UsageError`."""
        line = json.dumps(to_record(one), separators=(",", ":")).encode() + b"\n"
        try:
            make_private_folder(self.folder)
            with self._locked():
                self._rotate(len(line))
                path = self.folder / _NAME
                flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_NOFOLLOW | os.O_CLOEXEC
                with os.fdopen(os.open(path, flags, 0o600), "r+b", buffering=0) as file:
                    if _is_cut_off(file.fileno()):
                        line = b"\n" + line
                    file.write(line)
                    os.fsync(file.fileno())
            sync_folder(self.folder)
        except OSError as error:
            raise unwritable(self.folder, error) from error

    def newest_first(self) -> Iterator[Operation]:
        """Yield all operations, the newest first. Damaged lines are skipped.

        Raises `UsageError` if the log cannot be read.
        """
        for path in self._files():
            yield from _operations_in(path)

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of all files as they are."""
        for path in self._files():
            with suppress(FileNotFoundError), open_regular(path) as file:
                yield from file

    def rewrite(self, turn: Callable[[bytes], bytes]) -> Iterator[Path]:
        """Write each file anew with its lines turned, and yield where its old contents are.

        Files whose lines stay the same are left as they are. Raises `UsageError`.
        """
        try:
            with self._locked():
                for path in self._files():
                    if (old := _written_anew(path, turn)) is not None:
                        yield old
        except OSError as error:
            raise unwritable(self.folder, error) from error

    def _files(self) -> list[Path]:
        older = sorted(self.folder.glob("log.*.ndjson"), key=_number, reverse=True)
        return [self.folder / _NAME, *older]

    def _rotate(self, more: int) -> None:
        path = self.folder / _NAME
        if not path.exists() or path.stat().st_size + more <= _LONGEST:
            return
        older = self._files()[1:]
        path.rename(self.folder / f"log.{_number(older[0]) + 1 if older else 1}.ndjson")
        for one in older[_FILES - 2 :]:
            for operation in _operations_in(one):
                (self.folder / "steps" / f"{operation.op}.ndjson").unlink(missing_ok=True)
            one.unlink(missing_ok=True)

    @contextmanager
    def _locked(self) -> Iterator[None]:
        flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        with os.fdopen(os.open(self.folder / "lock", flags, 0o600), "wb") as file:
            lock(file)
            yield


def _operations_in(path: Path) -> Iterator[Operation]:
    """Yield the operations of one file, the newest first. Raises `UsageError`."""
    try:
        with open_regular(path) as file:
            check_owner(path, file)
            lines = file.read().split(b"\n")
    except FileNotFoundError:
        return
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise UsageError(
            f"cannot read '{path}': {reason}", hint="export XDG_STATE_HOME=FOLDER"
        ) from error
    except StoreUnavailable as error:
        raise UsageError(error.message, hint="export XDG_STATE_HOME=FOLDER") from error
    for line in reversed(lines):
        with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
            yield from_record(json.loads(line))


def check_owner(path: Path, file: IO[bytes]) -> None:
    """Raise `UsageError` if another user owns a file of the log: its steps would be carried out."""
    if os.fstat(file.fileno()).st_uid not in {os.geteuid(), 0}:
        raise UsageError(
            f"cannot use '{path}': another user owns it", hint="export XDG_STATE_HOME=FOLDER"
        )


def unwritable(folder: Path, error: OSError) -> UsageError:
    """Return the error for a log that cannot be written."""
    reason = (error.strerror or str(error)).lower()
    return UsageError(
        f"cannot record operations in '{folder}': {reason}", hint="export XDG_STATE_HOME=FOLDER"
    )


def _written_anew(path: Path, turn: Callable[[bytes], bytes]) -> Path | None:
    """Write a file anew with its lines turned. Returns where the old one is; None if nothing
    changed.
    """
    with suppress(FileNotFoundError):
        lines = path.read_bytes().splitlines(keepends=True)
        turned = list(map(turn, lines))
        if turned == lines:
            return None
        old = path.with_name(f"old.{path.name}")
        with suppress(FileExistsError):
            os.link(path, old)
        with writing(path) as file:
            file.writelines(turned)
        return old
    return None


def _number(path: Path) -> int:
    text = path.name.split(".")[1]
    return int(text) if text.isdecimal() else 0


def _is_cut_off(handle: int) -> bool:
    """Return whether a file ends within a line."""
    size = os.fstat(handle).st_size
    return size > 0 and os.pread(handle, 1, size - 1) != b"\n"
