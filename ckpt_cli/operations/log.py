"""The log of operations: what ckpt changed, when, and how to take it back."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple, TypeAlias

from ckpt_backends import platform
from ckpt_backends.changes import Change, change_from_record, change_record
from ckpt_backends.declaration import backend_of
from ckpt_backends.errors import Refused, StoreUnavailable, UsageError, reason_of
from ckpt_backends.files import make_private_folder, open_regular, sync_folder, writing
from ckpt_backends.memory import Item, ItemKey
from ckpt_backends.url import StoreUrl, printable, printable_param
from ckpt_cli.config.machine import state_folder
from ckpt_cli.config.trust import fault_of_file
from ckpt_cli.core.retention import PlannedRemoval, from_plan_line, to_plan_line
from ckpt_cli.core.values import compact_json

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
            platform.lock(file.fileno())
        except BlockingIOError:
            if time.monotonic() >= until:
                raise OSError(errno.EAGAIN, "another process keeps it locked") from None
            time.sleep(_PAUSE)
        else:
            return


def is_locked(path: Path) -> bool:
    """Return whether a process holds a lock on a file. Raises `OSError` if it cannot be opened."""
    handle = os.open(path, os.O_RDWR | platform.NOFOLLOW | platform.NONBLOCK | platform.PRIVATE)
    try:
        platform.lock(handle)
    except BlockingIOError:
        return True
    finally:
        os.close(handle)
    return False


def _opened(path: Path, more: int = 0) -> BinaryIO:
    """Open a file of this user to read and to write. No link is followed. Raises `OSError`."""
    flags = os.O_RDWR | platform.NOFOLLOW | platform.PRIVATE | more
    return os.fdopen(os.open(path, flags, 0o600), "r+b")


def _add(file: BinaryIO, lines: Iterable[str]) -> None:
    """Write lines at the end of a file, and wait until they are on disk. Raises `OSError`."""
    file.seek(0, os.SEEK_END)
    file.writelines(one.encode() + b"\n" for one in lines)
    file.flush()
    os.fsync(file.fileno())


def json_of(line: bytes) -> Any:
    """Return the JSON value of a line; None if it is damaged, or null."""
    with suppress(ValueError, RecursionError):
        return json.loads(line)


def user_name() -> str:
    """Return the name of the user of the operating system; `''` if it has none."""
    import getpass  # late: only what changes a store records it

    try:
        return getpass.getuser()
    except (KeyError, OSError, ImportError):  # Where there is no list of users.
        return ""


def store_text(url: StoreUrl) -> str:
    """Return the URL of a store without secrets; the whole path of a file."""
    is_file = not url.params and os.path.lexists(url.path)
    return os.path.abspath(url.path) if is_file else str(url)


def place_of(url: StoreUrl) -> str:
    """Return a digest of where a store is.

    It depends on no password and no user name: who looks may connect as another role.
    """
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
    return {"ckpt_operation": FORMAT, **one._asdict(), "at": one.at.isoformat()}


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


@dataclass(frozen=True, slots=True)
class ItemsRemoved:
    """Items were removed, if they were as recorded here."""

    items: tuple[Item, ...]
    """Without their values."""


@dataclass(frozen=True, slots=True)
class ItemsRestored:
    """The items of an archive were restored, those that were missing."""

    bundle: Path
    digest: str
    """The SHA-256 of the archive's lines, as `Bundle.digest`."""
    items: int
    """The number of items that were missing."""


@dataclass(frozen=True, slots=True)
class ItemsAdded:
    """Items were copied from another store, which is not done again."""

    keys: tuple[ItemKey, ...]


@dataclass(frozen=True, slots=True)
class ItemEdited:
    """Fields of an item were set."""

    key: ItemKey
    fields: Mapping[str, Any]
    """What they were set to."""


MemoryPart: TypeAlias = ItemsRemoved | ItemsRestored | ItemsAdded | ItemEdited


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
        match self.done:
            case ItemsRemoved(found) | ItemsAdded(found):
                return len(found)
            case ItemsRestored():
                return self.done.items
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
        case ItemsRemoved(items):
            return {"remove_items": list(map(_item_record, items))}
        case ItemsRestored(bundle, digest, number):
            return {"restore_items": {"bundle": str(bundle), "sha256": digest, "items": number}}
        case ItemsAdded(keys):
            return {"add_items": list(map(_key_record, keys))}
        case ItemEdited(key, fields):
            return {"edit_item": {**_key_record(key), "fields": dict(fields)}}


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
        case {"remove_items": items}:
            return ItemsRemoved(tuple(map(_item_from, items)))
        case {"restore_items": {"bundle": bundle, "sha256": digest, "items": number}}:
            return ItemsRestored(Path(bundle), str(digest), int(number))
        case {"add_items": keys}:
            return ItemsAdded(tuple(map(_key_from, keys)))
        case {"edit_item": {"fields": fields} as item}:
            return ItemEdited(_key_from(item), dict(fields))
    raise ValueError("unknown step")


def _item_record(one: Item) -> dict[str, Any]:
    return {
        **_key_record(one.key),
        "updated_at": _time_record(one.updated_at),
        "size": one.size,
        "expires_at": _time_record(one.expires_at),
    }


def _item_from(record: Mapping[str, Any]) -> Item:
    return Item(
        _key_from(record),
        None,
        _time_from(record["updated_at"]),
        int(record["size"]),
        _time_from(record["expires_at"]),
    )


def _key_record(key: ItemKey) -> dict[str, Any]:
    return {"namespace": list(key.namespace), "key": key.key}


def _key_from(record: Mapping[str, Any]) -> ItemKey:
    return ItemKey(tuple(map(str, record["namespace"])), str(record["key"]))


def _time_record(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def _time_from(text: Any) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


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
        line = compact_json(to_record(one))
        try:
            make_private_folder(self.folder)
            with self._locked():
                self._rotate(len(line) + 1)
                with _opened(self.folder / _NAME, os.O_CREAT | os.O_APPEND) as file:
                    last = _last_line(file)
                    # Where a crash has cut off the last line, it becomes a line of its own.
                    _add(file, ["", line] if last and not last.endswith(b"\n") else [line])
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
        with _opened(self.folder / "lock", os.O_CREAT) as file:
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
    if os.fstat(file.fileno()).st_uid not in {platform.user_id(), 0}:
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
            self._file = _opened(self._path, os.O_CREAT | os.O_EXCL)
            platform.lock(self._file.fileno(), wait=True)
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
        if not platform.moves_open_files():
            self._file.close()
        with suppress(OSError):
            close_journal(self._log, self._path, keep=keep)
        self._file.close()

    def leave(self) -> None:
        """Leave it for the next run, which finds out what was carried out."""
        self._file.close()

    def _write(self, lines: Iterable[str]) -> None:
        try:
            _add(self._file, lines)
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
    for _, step in read_numbered(steps_path(log, op)):
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
            _add(self.file, (compact_json({"not_done": one}) for one in numbers))
        except OSError as error:
            raise unwritable(self.log.folder, error) from error

    def close(self, *, keep: bool) -> None:
        """Remove the file, or keep the steps. Raises `UsageError`."""
        if not platform.moves_open_files():
            self.file.close()
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
    with _opened(path, platform.NONBLOCK) as file:
        try:
            platform.lock(file.fileno())
            is_ours = os.path.samestat(os.stat(path), os.fstat(file.fileno()))
        except OSError:
            is_ours = False
        yield file if is_ours else None


def _audit_of(file: BinaryIO) -> Path | None:
    file.seek(0)
    found = _text_in(json_of(file.readline()), "audit")
    return Path(found) if found else None


def _remove_empty(log: OperationLog) -> None:
    """Remove files of runs that were killed before they wrote anything."""
    for path in running(log):
        with suppress(OSError, UsageError):
            state = os.stat(path)
            if state.st_size == 0 and time.time() - state.st_mtime > _OLD:
                path.unlink()


# The audit file: the operations of a user as a chain of hashes, for `--audit FILE`.
#
# Each line is an operation as in the log, with `prev`, the SHA-256 of the line before it, newline
# included; 64 zeros in the first line. Who changes or removes a line must change all later lines.


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
                if last and not last.endswith(b"\n"):
                    # Cut off by a crash. It becomes a line, so that the chain goes on.
                    _add(file, [""])
                    last += b"\n"
                prev = sha256(last).hexdigest() if last else FIRST
                _add(file, [compact_json({**to_record(one), "prev": prev})])
        except OSError as error:
            raise UsageError(self._said(error)) from error

    def holds(self, op: str) -> bool:
        """Return whether an operation was appended."""
        try:
            with open_regular(self.path) as file:
                return any(_text_in(json_of(line), "op") == op for line in file)
        except (OSError, StoreUnavailable):
            return False

    @contextmanager
    def _opened(self) -> Iterator[BinaryIO]:
        if self.path.is_symlink():
            raise OSError(errno.ELOOP, "it is a symbolic link")
        with _opened(self.path, os.O_CREAT | os.O_APPEND | platform.NONBLOCK) as file:
            state = os.fstat(file.fileno())
            if not stat.S_ISREG(state.st_mode):
                raise OSError(0, "not a regular file")
            if state.st_nlink > 1:
                # Where others may link files, it may be one of this user's for something else.
                raise OSError(errno.EPERM, "the file has other names, too")
            if (fault := fault_of_file(self.path, state)) is not None:
                raise OSError(errno.EPERM, f"it {fault}")
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
    return _text_in(record, "prev") if line.endswith(b"\n") else ""


def _text_in(record: object, name: str) -> str:
    """Return the text under a name of a record; `''` if there is none."""
    found = record.get(name) if isinstance(record, dict) else None
    return found if isinstance(found, str) else ""


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
