"""Killed runs that this process settles: their files, each locked."""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from ckpt_backends.errors import UsageError
from ckpt_cli.operations.journal import close_journal, read_numbered
from ckpt_cli.operations.log import OperationLog, unwritable
from ckpt_cli.operations.record import Operation
from ckpt_cli.operations.steps import OperationStep
from ckpt_cli.operations.unfinished import left_behind, running

_OLD = 3600
"""Seconds after which a file without a first line is not being written any more."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A file of a killed run that only this process may settle."""

    log: OperationLog
    path: Path
    planned: Operation
    audit_path: Path | None
    """The file to which it is also appended."""
    file: BinaryIO

    def steps(self) -> dict[int, OperationStep]:
        """Return the steps that were intended, by number, without those known not to be done."""
        return dict(read_numbered(self.path))

    def not_done(self, numbers: Collection[int]) -> None:
        """Write which steps were not carried out. Raises `UsageError`."""
        try:
            self._cut()
            lines = (json.dumps({"not_done": one}).encode() + b"\n" for one in numbers)
            self.file.seek(0, os.SEEK_END)
            self.file.write(b"".join(lines))
            self.file.flush()
            os.fsync(self.file.fileno())
        except OSError as error:
            raise unwritable(self.log.folder, error) from error

    def close(self, *, keep: bool) -> None:
        """Remove the file, or keep the steps. Raises `UsageError`."""
        try:
            close_journal(self.log, self.path, keep=keep)
        except OSError as error:
            raise unwritable(self.log.folder, error) from error

    def _cut(self) -> None:
        """Remove a last line that was cut off: what it says was not begun."""
        self.file.seek(0)
        end = 0
        for line in self.file:
            end += len(line) if line.endswith(b"\n") else 0
        self.file.truncate(end)


def claims(log: OperationLog, place: str) -> Iterator[Claim]:
    """Yield the files of killed runs on one store, each locked until the next one is asked for."""
    if not running(log):
        return
    _remove_empty(log)
    for path, planned in list(left_behind(log)):
        if planned.place != place:
            continue
        with suppress(OSError), _locked(path) as file:
            if file is not None:
                yield Claim(log, path, planned, _audit_of(file), file)


@contextmanager
def _locked(path: Path) -> Iterator[BinaryIO | None]:
    """Lock a file; None if another process settles it, or did."""
    handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    with os.fdopen(handle, "r+b") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            is_ours = os.path.samestat(os.stat(path), os.fstat(file.fileno()))
        except OSError:
            is_ours = False
        yield file if is_ours else None


def _audit_of(file: BinaryIO) -> Path | None:
    file.seek(0)
    try:
        found = json.loads(file.readline()).get("audit")
    except (ValueError, AttributeError):
        return None
    return Path(found) if isinstance(found, str) else None


def _remove_empty(log: OperationLog) -> None:
    """Remove files of runs that were killed before they wrote anything."""
    for path in running(log):
        with suppress(OSError, UsageError):
            state = os.stat(path)
            if state.st_size == 0 and time.time() - state.st_mtime > _OLD:
                path.unlink()
