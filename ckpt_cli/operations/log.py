"""The log of operations: what ckpt changed, when, and how to take it back."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple, TypeAlias

from ckpt_backends.changes import Change, change_from_record, change_record
from ckpt_backends.discovery import backend_of
from ckpt_backends.errors import StoreUnavailable, UsageError, reason_of
from ckpt_backends.files import make_private_folder, open_regular, sync_folder, writing
from ckpt_backends.url import StoreUrl, printable, printable_param
from ckpt_cli.config.folders import state_folder
from ckpt_cli.core.retention import PlannedRemoval, from_plan_line, to_plan_line
from ckpt_cli.core.values import compact_json
from ckpt_cli.operations.memory_parts import (
    ItemEdited,
    ItemsAdded,
    ItemsRemoved,
    ItemsRestored,
    MemoryPart,
    items_of,
    memory_part,
    memory_record,
)

_PATIENCE = 5.0
"""Seconds to wait. A process holds the lock for milliseconds, unless it was stopped."""
_PAUSE = 0.01


def lock(file: IO[bytes]) -> None:
    """Lock a file until it is closed.

    Raises `OSError` if another process keeps it locked for some seconds.
    """
    until = time.monotonic() + _PATIENCE
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() >= until:
                raise OSError(errno.EAGAIN, "another process keeps it locked") from None
            time.sleep(_PAUSE)
        else:
            return


def is_locked(path: Path) -> bool:
    """Return whether a process holds a lock on a file. Raises `OSError` if it cannot be opened."""
    handle = os.open(path, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def store_text(url: StoreUrl) -> str:
    """Return the URL of a store without secrets; the whole path of a file."""
    is_file = not url.params and os.path.lexists(url.path)
    return os.path.abspath(url.path) if is_file else str(url)


def place_of(url: StoreUrl) -> str:
    """Return a digest of where a store is.

    It depends on no password and no user name: who looks may connect as another role.
    """
    from hashlib import sha256  # late: it loads OpenSSL

    where = re.sub(r"^[^:/]*://([^/@]*@)?", "", printable(url.raw)).partition("?")[0]
    backend = backend_of(url.scheme)
    if backend is not None and backend.is_local:
        where = os.path.realpath(url.path)
    scheme = url.scheme if backend is None else backend.schemes[0]
    params = sorted(
        (name, printable_param(url.scheme, name, value))
        for name, value in url.params.items()
        if name != "copy"
    )
    return sha256(json.dumps([scheme, where, params]).encode()).hexdigest()[:32]


# One operation: a change that `ckpt` made to a store, as one line of the log.
#
# {"ckpt_operation": 1, "op": "3f2a9c0b7d41", "at": "...", "user": "anna", "action": "rollback",
#  "store": "postgresql://db/agents", "place": "...", "threads": ["user-42"], "number": 1, ...}


FORMAT = 1
MOST_THREADS = 1000
"""Maximum number of thread ids in the record; the steps name all of them."""


class Operation(NamedTuple):
    """A change of a store, of one thread or of many."""

    op: str
    """Its id: 12 hexadecimal digits."""
    at: datetime
    """When it began, UTC."""
    user: str
    """The name of the user of the operating system."""
    action: str
    """`rollback`, `fork`, `repair`, `undo`, `purge`, ..."""
    store: str
    """URL of the store without secrets."""
    place: str
    """A digest of where the store is; see `place`."""
    threads: tuple[str, ...] = ()
    """The ids of the changed threads, at most `MOST_THREADS`."""
    number: int = 0
    """The number of changed threads, or of changed items of long-term memory."""
    reason: str | None = None
    command: str = ""
    """The command line without secrets and values."""
    undoes: str | None = None
    """The operation that it takes back."""
    cannot_undo: str = ""
    """Why it cannot be taken back; `''` if its steps say how."""
    added: tuple[str, ...] = ()
    """Ids of the checkpoints that it added, at most `MOST_THREADS`."""
    ended: str = ""
    """Why it stopped early, or that it was found by a later run; `''` if it ended as planned."""

    @property
    def keeps_steps(self) -> bool:
        """Whether its steps are kept: to take it back, or to know what an undo left to do."""
        return not self.cannot_undo or self.undoes is not None

    @property
    def why_not_kept(self) -> str:
        """Why it cannot be taken back if its steps do not say how."""
        if self.undoes is not None:
            return "what it removed was not kept; run the original command again"
        return "what it replaced was not kept"


def to_record(one: Operation) -> dict[str, Any]:
    """Return an operation as a line of the log."""
    return {
        "ckpt_operation": FORMAT,
        "op": one.op,
        "at": one.at.isoformat(),
        "user": one.user,
        "action": one.action,
        "store": one.store,
        "place": one.place,
        "threads": list(one.threads),
        "number": one.number,
        "reason": one.reason,
        "command": one.command,
        "undoes": one.undoes,
        "cannot_undo": one.cannot_undo,
        "added": list(one.added),
        "ended": one.ended,
    }


def from_record(record: Mapping[str, Any]) -> Operation:
    """Parse a line of the log. Raises `ValueError`, `KeyError` or `TypeError`."""
    if record["ckpt_operation"] != FORMAT:
        raise ValueError(record["ckpt_operation"])
    texts = ("op", "user", "action", "store", "place", "command", "cannot_undo", "ended")
    return Operation(
        at=datetime.fromisoformat(record["at"]),
        threads=tuple(map(str, record["threads"])),
        number=int(record["number"]),
        reason=_optional(record["reason"]),
        undoes=_optional(record["undoes"]),
        added=tuple(map(str, record["added"])),
        **{name: str(record[name]) for name in texts},
    )


def _optional(text: object) -> str | None:
    return None if text is None else str(text)


# The steps of an operation: for each thread, what was done and what takes it back.
#
# Both are data that can be carried out: a change, a removal, a restore from an archive. The steps
# of an undo are those of the operation that it takes back, turned round.


@dataclass(frozen=True, slots=True)
class AppliedChange:
    """A change was applied. Its `heads` are those of that time."""

    change: Change


@dataclass(frozen=True, slots=True)
class RowsRemoved:
    """Rows of a thread were removed: all of them, or some of its checkpoints."""

    planned: PlannedRemoval


@dataclass(frozen=True, slots=True)
class RowsRestored:
    """The rows of an archive were restored, those that were missing."""

    bundle: Path
    digest: str
    """The SHA-256 of the archive's lines, as `Bundle.digest`."""


@dataclass(frozen=True, slots=True)
class RowsAdded:
    """Rows of a thread were added from another store, which is not done again."""

    checkpoints: int
    """How many checkpoints the store had of the thread before."""
    writes: int


StepPart: TypeAlias = AppliedChange | RowsRemoved | RowsRestored | RowsAdded | MemoryPart


@dataclass(frozen=True, slots=True)
class OperationStep:
    """What an operation did to one thread."""

    thread_id: str | None
    """None for items of long-term memory."""
    done: StepPart | None
    """None if it cannot be done again."""
    back: StepPart | None
    """What takes it back; None if nothing does."""

    @property
    def number(self) -> int:
        """The number of threads, or of items of long-term memory, that it changes."""
        if isinstance(self.done, MemoryPart):
            return items_of(self.done)
        return 1

    def turned(self) -> OperationStep:
        """Return the step of an undo of this step."""
        again = None if isinstance(self.done, RowsAdded | ItemsAdded) else self.done
        return OperationStep(self.thread_id, self.back, again)


def step_record(one: OperationStep) -> dict[str, Any]:
    """Return a step as a line of a file."""
    return {"thread_id": one.thread_id, "done": _record(one.done), "back": _record(one.back)}


def step_line(one: OperationStep) -> str:
    """Return the line for a step. The line of its plan is a part of it, if that is known."""
    if isinstance(one.done, RowsRemoved) and one.done.planned.line:
        thread_id, back = map(compact_json, (one.thread_id, _record(one.back)))
        done = f'{{"remove":{one.done.planned.line}}}'
        return f'{{"thread_id":{thread_id},"done":{done},"back":{back}}}'
    return compact_json(step_record(one))


def step_from_record(record: Mapping[str, Any]) -> OperationStep:
    """Parse a step. Raises `ValueError`, `KeyError`, `TypeError` or `AttributeError`."""
    thread_id = record["thread_id"]
    return OperationStep(
        None if thread_id is None else str(thread_id), _part(record["done"]), _part(record["back"])
    )


def _record(part: StepPart | None) -> dict[str, Any] | None:
    match part:
        case None:
            return None
        case AppliedChange(change):
            return {"change": change_record(change)}
        case RowsRemoved(planned):
            return {"remove": to_plan_line(planned)}
        case RowsRestored(bundle, digest):
            return {"restore": {"bundle": str(bundle), "sha256": digest}}
        case RowsAdded(checkpoints, writes):
            return {"add": {"checkpoints": checkpoints, "writes": writes}}
        case ItemsRemoved() | ItemsRestored() | ItemsAdded() | ItemEdited():
            return memory_record(part)


def _part(record: Mapping[str, Any] | None) -> StepPart | None:
    match record:
        case None:
            return None
        case {"change": change}:
            return AppliedChange(change_from_record(change))
        case {"remove": planned}:
            return RowsRemoved(from_plan_line(planned))
        case {"restore": {"bundle": bundle, "sha256": digest}}:
            return RowsRestored(Path(bundle), str(digest))
        case {"add": {"checkpoints": checkpoints, "writes": writes}}:
            return RowsAdded(int(checkpoints), int(writes))
    return memory_part(record)


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
        """Yield the lines of all files as they are. Raises `UsageError`."""
        for path in self._files():
            yield from _lines_in(path)

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
    for line in reversed(_lines_in(path)):
        with suppress(ValueError, KeyError, TypeError, AttributeError, RecursionError):
            yield from_record(json.loads(line))


def _lines_in(path: Path) -> list[bytes]:
    """Return the lines of one file; none if it is not there. Raises `UsageError`."""
    try:
        with open_regular(path) as file:
            check_owner(path, file)
            return file.readlines()
    except FileNotFoundError:
        return []
    except OSError as error:
        raise UsageError(
            f"cannot read '{path}': {reason_of(error)}", hint="export XDG_STATE_HOME=FOLDER"
        ) from error
    except StoreUnavailable as error:
        raise UsageError(error.message, hint="export XDG_STATE_HOME=FOLDER") from error


def check_owner(path: Path, file: IO[bytes]) -> None:
    """Raise `UsageError` if another user owns a file of the log: its steps would be carried out."""
    if os.fstat(file.fileno()).st_uid not in {os.geteuid(), 0}:
        raise UsageError(
            f"cannot use '{path}': another user owns it", hint="export XDG_STATE_HOME=FOLDER"
        )


def unwritable(folder: Path, error: OSError) -> UsageError:
    """Return the error for a log that cannot be written."""
    reason = reason_of(error)
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


# Operations whose runs were killed: files in `running/` that no process holds a lock on.
#
# Reading them needs nothing of their steps: every run that opens a store looks for them.


def unfinished(log: OperationLog, place: str | None = None) -> list[Operation]:
    """Return the operations that were not recorded, of one store or of all. Opens no store."""
    if not running(log):
        return []
    found = (one for _, one in left_behind(log))
    return [one for one in found if place is None or one.place == place]


def running(log: OperationLog) -> list[Path]:
    """Return the files of operations that run, or whose runs were killed."""
    try:
        with os.scandir(log.folder / "running") as entries:
            return [Path(one.path) for one in entries if one.name.endswith(".ndjson")]
    except OSError:
        return []


def left_behind(log: OperationLog) -> Iterator[tuple[Path, Operation]]:
    """Yield the operations of runs that were killed, each with its file."""
    for path in sorted((log.folder / "running").glob("*.ndjson")):
        with suppress(OSError, StopIteration, UsageError, KeyError, ValueError, TypeError):
            if is_locked(path):
                continue
            _, first = next(records_in(path))
            yield path, from_record(first)


def records_in(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the lines of a file with their numbers; a last line that was cut off is left out."""
    try:
        with open_regular(path, follow=False) as file:
            check_owner(path, file)
            for number, line in enumerate(file):
                if not line.endswith(b"\n"):
                    return
                yield number, json.loads(line)
    except OSError as error:
        raise UsageError(f"cannot read '{path}': {reason_of(error)}") from error
    except StoreUnavailable as error:
        raise UsageError(error.message) from error
    except (ValueError, RecursionError) as error:
        raise UsageError(f"cannot read '{path}': a line is not JSON") from error


# The steps of operations: written before each step is carried out, so that a kill loses nothing.
#
# While an operation runs, its file is `running/OP.ndjson`, which is locked: the first line is the
# operation as it is planned, then follow its steps, and `{"not_done": N}` for a step that was not
# carried out after all. At its end, the operation is added to the log, and the file moves to
# `steps/`. A file in `running/` without a lock was left by a run that was killed; the store tells
# which of its steps were carried out.


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
