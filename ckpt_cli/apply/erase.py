"""Carries out an erasure."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from ckpt_backends.app_sessions import AppSession, WritableSessions
from ckpt_backends.archive import check_bundle, write_bundle
from ckpt_backends.changes import Remaining
from ckpt_backends.errors import (
    CkptError,
    PartlyDone,
    StoreChanged,
    StoreUnavailable,
    UsageError,
    reason_of,
)
from ckpt_backends.files import make_private_folder, open_regular, read_regular, writing
from ckpt_backends.memory import Item, WritableMemoryStore
from ckpt_backends.model import Progress, in_chunks, silent
from ckpt_backends.open_for_writing import open_writable_memory, open_writable_sessions
from ckpt_backends.overwriting import overwrite_and_remove
from ckpt_backends.protocol import Store, WritableStore
from ckpt_backends.rows import RowEdit
from ckpt_backends.transfer.form import CannotHold
from ckpt_backends.url import StoreUrl
from ckpt_cli.apply.purge import removal_batches
from ckpt_cli.apply.recording import Recording, writable_store
from ckpt_cli.config.machine import old_history, state_folder
from ckpt_cli.core.erasure import (
    ErasedIds,
    ErasurePlace,
    ErasureReport,
    PlaceState,
    ids_from_record,
    ids_record,
    left_place,
    without_queries,
)
from ckpt_cli.core.retention import PlannedRemoval
from ckpt_cli.operations.log import OperationLog, OperationStep, is_locked
from ckpt_cli.plans.erase import AnyRow, ErasurePlan, FoundFile, FoundRows, LogNaming, by_folder
from ckpt_cli.plans.erase_value import EraseValuePlan, ErasingSide, unreadable

# Erasures that did not end, as digests in `$XDG_STATE_HOME/ckpt/erasures`.
#
# The next run of the same erasure finds with them what belongs to threads that are gone already.
# A file holds no id and no name.


_FORMAT = 1
_LONGEST = 256 << 20


@dataclass(slots=True)
class UnfinishedErasure:
    """The digests of one erasure, on disk until it is complete."""

    ids: ErasedIds
    place: str
    """A digest of where the store is."""
    request: str
    """What was asked for, as canonical text; only its digest is stored."""
    path: Path | None = None
    """Its file; None before it is written."""

    def write(self, note: Callable[[str], None]) -> None:
        """Write it, so that another run can go on. Notes it if it cannot be written."""
        record = {
            "ckpt_unfinished_erasure": _FORMAT,
            "place": self.place,
            "request": self.ids.digest("request", self.request),
            **ids_record(self.ids),
        }
        try:
            path = self.path or state_folder("erasures") / f"{os.urandom(8).hex()}.json"
            make_private_folder(path.parent)
            with writing(path) as file:
                file.write(json.dumps(record, separators=(",", ":")).encode())
        except (OSError, UsageError) as error:
            note(f"cannot record that this erasure began: {error}")
            return
        self.path = path

    def remove(self) -> None:
        """Remove it from the disk: the erasure is complete."""
        if self.path is not None:
            with suppress(OSError):
                self.path.unlink()


def unfinished_erasure(place: str, request: str) -> UnfinishedErasure:
    """Return the erasure that an earlier run of the same request began; otherwise a new one."""
    with suppress(UsageError):
        for path in sorted(state_folder("erasures").glob("*.json")):
            with suppress(OSError, CkptError, ValueError, KeyError, TypeError, RecursionError):
                record = json.loads(read_regular(path, _LONGEST))
                if (record["ckpt_unfinished_erasure"], record["place"]) != (_FORMAT, place):
                    continue
                ids = ids_from_record(record)
                if record["request"] == ids.digest("request", request):
                    return UnfinishedErasure(ids, place, request, path)
    return UnfinishedErasure(ErasedIds(), place, request)


def check_receipt_path(path: Path) -> None:
    """Raise `UsageError` if a receipt could not be written there after the erasure."""
    if path.is_dir():
        raise UsageError(f"cannot write the receipt '{path}': it is a folder")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise UsageError(
            f"cannot write the receipt '{path}': its folder does not exist or is not writable",
            hint="give a file in another folder",
        )


def write_receipt(path: Path, record: Mapping[str, Any]) -> None:
    """Write a receipt that only its owner can read. Raises `PartlyDone` if that fails."""
    try:
        with writing(path) as file:
            file.write(json.dumps(record, indent=2).encode() + b"\n")
    except OSError as error:
        reason = reason_of(error)
        raise PartlyDone(f"the erasure was carried out, but not its receipt: {reason}") from error


_OVERWRITTEN = "files overwritten with zeros"
_ITEMS_AT_ONCE = 500
_NOTHING_KNOWN = OperationStep(None, None, None)
"""The record of an erasure says nothing about what was erased."""
_STOPPED = "stopped before it"
_ARCHIVES_LEFT = "its steps name folders with archives that are left"
_AUDITED = "its lines are chained by hashes, and whoever asked for it has to keep it"
_ELSEWHERE = ErasurePlace(
    "copies elsewhere",
    "other",
    None,
    None,
    "unreachable",
    "ckpt does not know exports, reports, saved plans and archives in other folders, what other"
    " users of ckpt recorded, and copies in other systems",
)
Opened = TypeVar("Opened", WritableStore, WritableMemoryStore, WritableSessions)


@dataclass(slots=True)
class ErasureRun:
    """Carries out one erasure."""

    plan: ErasurePlan
    place: str
    """A digest of where the store is; see `operations.place`."""
    log: OperationLog
    readers: Sequence[Store]
    recording: Recording
    report: ErasureReport
    why_stop: Callable[[], str] = lambda: ""
    """Returns why nothing more is begun; `''` to go on."""
    rewrite: bool = False
    progress: Progress = silent

    def carry_out(self) -> None:
        """Erase all places. What fails becomes a place that is kept, with the reason.

        Raises what opening the store for writing raises, before anything is erased.
        """
        plan, report = self.plan, self.report
        with writable_store(plan.url, self.readers):
            pass
        steps: list[tuple[object, Callable[[], None]]] = [
            (plan.archives or plan.plan_files, self._archives_and_plans),
            (plan.memories, self._memory),
            (plan.sessions.rows, self._sessions),
            (plan.operations.number or plan.queries, self._state),
            (True, self._threads),
        ]
        report.add(*plan.unread)
        for is_needed, step in steps:
            if not is_needed:
                continue
            if why := self.why_stop():
                report.stopped = why
                self._keep_rest()
                return
            self._refresh()
            step()
        report.add(_ELSEWHERE)

    def _keep_rest(self) -> None:
        """Add the places that were not begun."""
        begun = {(one.kind, one.store) for one in self.report.places if one not in self.plan.unread}
        for one in self.plan.found():
            if (one.kind, one.store) not in begun:
                self.report.add(left_place(one.store, one.kind, one.items, one.bytes, _STOPPED))

    def _refresh(self) -> None:
        # An open read would keep the log of a SQLite file from being emptied.
        for reader in self.readers:
            reader.refresh()

    def _did(self, number: int) -> None:
        """Record a number of threads or items that are about to be erased."""
        self.recording.intend([_NOTHING_KNOWN] * number)

    def _archives_and_plans(self) -> None:
        self._did(len(self.plan.archives))
        self._files([*self.plan.archives, *self.plan.plan_files])

    def _state(self) -> None:
        """Erase what names the threads, unless archives are left that only the steps know."""
        found, report = self.plan.operations, self.report
        if any(one.is_left and one.kind == "archives" for one in report.places):
            numbers = found.number, found.bytes
            report.add(left_place(found.folder, "operations", *numbers, _ARCHIVES_LEFT))
            return
        if found.number:
            self._operations()
        self._files(self.plan.queries)
        if number := found.audited:
            report.add(ErasurePlace("audit file", "operations", number, None, "kept", _AUDITED))

    def _files(self, files: Iterable[FoundFile]) -> None:
        """Erase files; those of one kind in one folder are one place."""
        for (kind, folder), some in by_folder(files).items():
            left, reason = 0, ""
            for one in some:
                try:
                    for remaining in self._erased(one):
                        left, reason = left + 1, remaining.reason
                except FileNotFoundError:
                    continue  # another run has erased it
                except (OSError, CkptError) as error:
                    left += os.path.lexists(one.path)
                    reason = _said(error).lower()
            number, size = len(some), sum(one.bytes for one in some)
            if left:
                why = f"{left} of {number} files: {reason}"
                self.report.add(left_place(str(folder), kind, number, size, why))
            else:
                self.report.add(ErasurePlace(str(folder), kind, number, size, "erased"))
                self.report.did(_OVERWRITTEN)

    def _erased(self, one: FoundFile) -> Sequence[Remaining]:
        """Overwrite and delete a file, or write it anew without what goes."""
        path = one.path
        if one.kind == "queries" and path != (old := old_history(path)):
            with open_regular(path, follow=False) as file:
                kept = without_queries(file.read(), self.plan.scope)
            os.link(path, old)
            with writing(path) as file:
                file.write(kept)
            path = old
        elif one.drops is not None:
            # A signature is not valid any more.
            bundle, drops = check_bundle(path), one.drops
            old = path.with_name(f".{path.name}.old")
            with suppress(FileExistsError):
                os.link(path, old)
            rows = (row for number, row in enumerate(bundle.rows()) if number not in drops)
            write_bundle(path, bundle.header, rows)
            path = old
        return overwrite_and_remove(path)

    def _operations(self) -> None:
        """Take erased ids out of the log of operations, and erase steps."""
        found, busy, why = self.plan.operations, 0, ""
        naming = LogNaming(self.place, self.plan.scope, found.operations)
        try:
            for path in found.steps:
                if _is_in_use(path):
                    busy += 1
                else:
                    with suppress(FileNotFoundError):
                        overwrite_and_remove(path)
            old = [*self.log.folder.glob("old.log*.ndjson"), *self.log.rewrite(naming.turned)]
            for path in dict.fromkeys(old):
                overwrite_and_remove(path)
        except (OSError, CkptError) as error:
            why = _said(error)
        if busy and not why:
            why = f"{busy} of these operations is still running in another process"
        numbers = found.number, found.bytes
        if why:
            self.report.add(left_place(found.folder, "operations", *numbers, why))
        else:
            self.report.add(ErasurePlace(found.folder, "operations", *numbers, "erased"))
            self.report.did(_OVERWRITTEN)

    def _memory(self) -> None:
        for one in self.plan.memories:
            self._rows(one, open_writable_memory, _item_batches, _remove_items)

    def _sessions(self) -> None:
        self._rows(self.plan.sessions, open_writable_sessions, _session_batches, _remove_sessions)

    def _threads(self) -> None:
        """Remove the threads, and erase what is left of anything that was removed."""
        opened = partial(writable_store, readers=self.readers)
        self._rows(self.plan.threads, opened, _thread_batches, _remove_threads)

    def _rows(
        self,
        found: FoundRows[AnyRow],
        opened: Callable[[StoreUrl], AbstractContextManager[Opened]],
        batches: Callable[[FoundRows[AnyRow], Opened], Iterable[Sequence[AnyRow]]],
        remove: Callable[[Opened, Sequence[AnyRow]], tuple[Sequence[AnyRow], str]],
    ) -> None:
        """Remove rows in batches, and erase what the engine keeps of them.

        `remove` returns the rows that are gone, and why others are not.
        """
        gone, refused, is_told = list[AnyRow](), "", False
        try:
            with opened(found.url) as writable:
                writable.begin_erasure()
                for number, batch in enumerate(batches(found, writable)):
                    if number and (why := self.why_stop()):
                        self.report.stopped = refused = why
                        break
                    self._did(len(batch))
                    try:
                        removed, why = remove(writable, batch)
                    except CkptError as error:
                        refused = error.message
                        if isinstance(error, StoreUnavailable):
                            break
                        continue
                    gone += removed
                    refused = why or refused
                self._tell(found, gone, refused)
                is_told = True
                if gone or found.kind == "threads":
                    self._refresh()
                    self._remains(found.store, writable)
        except CkptError as error:
            if not is_told:
                self._tell(found, gone, error.message)
            if is_told or not found.rows:
                self.report.add(left_place(found.store, "engine", None, None, error.message))

    def _tell(self, found: FoundRows[AnyRow], gone: Sequence[AnyRow], refused: str) -> None:
        """Add the places of what is gone, and of what is left because it was refused."""
        number, size = len(gone), sum(map(found.size, gone))
        if gone:
            self.report.add(ErasurePlace(found.store, found.kind, number, size, "erased"))
        if refused and found.rows:
            left = len(found.rows) - number, found.bytes - size
            self.report.add(left_place(found.store, found.kind, *left, refused))

    def _remains(self, store: str, writable: Opened) -> None:
        """Erase what an engine keeps of removed data, and add the places where it may still be."""
        remains = writable.erase_remains(rewrite=self.rewrite, progress=self.progress)
        self.report.did(*remains.done)
        for one in remains.places:
            state: PlaceState = "kept" if one.is_reachable or one.needs_rewrite else "unreachable"
            place = ErasurePlace(f"{store}: {one.place}", "engine", None, None, state, one.reason)
            self.report.add(replace(place, is_left=one.is_reachable))


def _thread_batches(
    found: FoundRows[PlannedRemoval], writable: WritableStore
) -> Iterable[Sequence[PlannedRemoval]]:
    return removal_batches(found.rows, writable.removal_batch)


def _remove_threads(
    writable: WritableStore, batch: Sequence[PlannedRemoval]
) -> tuple[Sequence[PlannedRemoval], str]:
    removed = writable.remove([one.removal for one in batch])
    gone = [one for one, what in zip(batch, removed, strict=True) if not what.skipped]
    skipped = [what.skipped for what in removed if what.skipped]
    return gone, f"a thread {skipped[-1]}" if skipped else ""


def _item_batches(found: FoundRows[Item], _: object) -> Iterable[Sequence[Item]]:
    return in_chunks(found.rows, _ITEMS_AT_ONCE)


def _remove_items(
    writable: WritableMemoryStore, batch: Sequence[Item]
) -> tuple[Sequence[Item], str]:
    writable.remove(batch)
    return batch, ""


def _session_batches(found: FoundRows[AppSession], _: object) -> Iterable[Sequence[AppSession]]:
    return [found.rows]


def _remove_sessions(
    writable: WritableSessions, batch: Sequence[AppSession]
) -> tuple[Sequence[AppSession], str]:
    writable.remove(batch)
    return batch, ""


def _said(error: OSError | CkptError) -> str:
    return error.message if isinstance(error, CkptError) else error.strerror or str(error)


def _is_in_use(path: Path) -> bool:
    """Return whether a process is writing the steps of an operation."""
    with suppress(OSError):
        return is_locked(path)
    return False


_KEPT = "it is part of an id or of a name, and these are kept"


def erase_values_of(side: ErasingSide, writable: WritableStore, plan: EraseValuePlan) -> str:
    """Carry out a plan, in one transaction if the engine has transactions, and read it back.

    Returns why something is left, or `''`. Raises `StoreChanged` if the thread is not as it was
    when it was planned, and `Refused` for a value that cannot be read; nothing is written then.
    """
    before = side.eraser(plan.erasure)
    try:
        number = sum(1 for _ in before.edits(side.rows.rows(plan.thread_id)))
        side.rows.refresh()
        if before.digest != plan.digest:
            raise StoreChanged(
                f"thread '{plan.thread_id}' changed meanwhile; nothing was written",
                hint="stop the agent, then run the command again",
            )
        if not number:
            return ""
        writable.replace(plan.thread_id, _edits(side, plan))
        return _problem(side, plan)
    except CannotHold as error:
        raise unreadable(plan.thread_id, error) from error


def _edits(side: ErasingSide, plan: EraseValuePlan) -> Iterator[RowEdit]:
    """Yield what changes. It is read anew, so that no more than a few rows are in memory."""
    yield from side.eraser(plan.erasure).edits(side.rows.rows(plan.thread_id))
    # In a file that is not in WAL mode, an open read would block the commit.
    side.rows.refresh()


def _problem(side: ErasingSide, plan: EraseValuePlan) -> str:
    """Read a thread back. Returns why it still has something to erase, or `''`."""
    after = side.eraser(plan.erasure)
    side.rows.refresh()
    left = sum(1 for _ in after.edits(side.rows.rows(plan.thread_id)))
    side.rows.refresh()
    if left or after.rows != plan.digest[0]:
        return f"thread '{plan.thread_id}' changed while its values were erased"
    return ""


def kept_places(side: ErasingSide, plan: EraseValuePlan) -> Iterator[Remaining]:
    """Yield the columns that still have what was erased: ids and names, which are kept."""
    found: dict[str, None] = {}
    for row in side.rows.rows(plan.thread_id):
        for name, cell in row.cells.items():
            data = cell.encode("utf-8", "surrogatepass") if isinstance(cell, str) else cell
            if isinstance(data, bytes) and plan.erasure.has_part(data):
                found[f"{row.table}.{name}"] = None
    side.rows.refresh()
    for place in found:
        yield Remaining(place, _KEPT, is_reachable=True)
