"""The steps of operations: written before each step is carried out, so that a kill loses nothing.

While an operation runs, its file is `running/OP.ndjson`, which is locked: the first line is the
operation as it is planned, then follow its steps, and `{"not_done": N}` for a step that was not
carried out after all. At its end, the operation is added to the log, and the file moves to
`steps/`. A file in `running/` without a lock was left by a run that was killed; the store tells
which of its steps were carried out.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import IO

from ckpt_backends.errors import UsageError
from ckpt_backends.files.atomic_write import make_private_folder, sync_folder
from ckpt_cli.core.compact_json import compact_json
from ckpt_cli.operations.log import OperationLog, unwritable
from ckpt_cli.operations.record import Operation, to_record
from ckpt_cli.operations.steps import OperationStep, step_from_record, step_line
from ckpt_cli.operations.unfinished import records_in


class Journal:
    """The file of one running operation."""

    def __init__(self, log: OperationLog, planned: Operation, audit: str = "") -> None:
        """Create it. Raises `UsageError`. `audit` is where the operation is also appended."""
        self._log = log
        self._path = log.folder / "running" / f"{planned.op}.ndjson"
        try:
            make_private_folder(self._path.parent)
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file: IO[bytes] = os.fdopen(os.open(self._path, flags, 0o600), "wb")
            fcntl.flock(self._file, fcntl.LOCK_EX)
            first = {**to_record(planned), **({"audit": audit} if audit else {})}
            self._write([compact_json(first)])
            sync_folder(self._path.parent)
        except OSError as error:
            raise unwritable(log.folder, error) from error

    def intend(self, steps: Iterable[OperationStep]) -> None:
        """Write steps to disk that are about to be carried out. Raises `UsageError`."""
        self._write(map(step_line, steps))

    def not_done(self, numbers: Iterable[int], instead: Iterable[OperationStep] = ()) -> None:
        """Write which steps, counted from 0, were not carried out, and what was done instead.

        Raises `UsageError`.
        """
        gone = ({"not_done": one} for one in numbers)
        self._write([*map(step_line, instead), *map(compact_json, gone)])

    def record(self, done: Operation) -> None:
        """Add the operation to the log. Raises `UsageError`."""
        self._log.append(done)

    def close(self, *, keep: bool) -> None:
        """Remove the file; `keep` moves the steps to where those of the log are."""
        with suppress(OSError):
            close_journal(self._log, self._path, keep=keep)
        self._file.close()

    def leave(self) -> None:
        """Leave it for the next run, which finds out what was carried out."""
        self._file.close()

    def _write(self, lines: Iterable[str]) -> None:
        try:
            for one in lines:
                self._file.write(one.encode() + b"\n")
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise unwritable(self._log.folder, error) from error


def close_journal(log: OperationLog, path: Path, *, keep: bool) -> None:
    """Remove the file of an operation, or keep its steps. Raises `OSError`."""
    if keep:
        folder = log.folder / "steps"
        make_private_folder(folder)
        path.rename(folder / path.name)
    else:
        path.unlink(missing_ok=True)


def steps_path(log: OperationLog, op: str) -> Path:
    """Return where the steps of an operation are kept."""
    return log.folder / "steps" / f"{op}.ndjson"


def has_steps(log: OperationLog, op: str) -> bool:
    """Return whether the steps of an operation are kept, and may be looked for."""
    return os.path.exists(steps_path(log, op))


def steps_of(log: OperationLog, op: str) -> Iterator[OperationStep]:
    """Yield the steps that an operation carried out, in their order.

    Raises `UsageError` if they are not kept, or damaged.
    """
    yield from read_steps(steps_path(log, op))


def read_steps(path: Path) -> Iterator[OperationStep]:
    """Yield the steps in a file that were carried out. Raises `UsageError`."""
    for _, step in read_numbered(path):
        yield step


def read_numbered(path: Path) -> Iterator[tuple[int, OperationStep]]:
    """Yield the steps in a file that were carried out, with their numbers. Raises `UsageError`."""
    skipped = {
        int(record["not_done"]) for _, record in records_in(path) if record.keys() == {"not_done"}
    }
    number = 0
    for line, record in records_in(path):
        if line == 0 or "not_done" in record:
            continue
        if number not in skipped:
            try:
                yield number, step_from_record(record)
            except (ValueError, KeyError, TypeError, AttributeError) as error:
                raise UsageError(f"cannot read '{path}': line {line + 1} is damaged") from error
        number += 1
