"""Carries out an erasure."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ckpt_backends.changes.bundle import check_bundle, write_bundle
from ckpt_backends.changes.progress import Progress, silent
from ckpt_backends.changes.remains import Remaining, Remains
from ckpt_backends.erasing.stored import RowRewrite
from ckpt_backends.erasing.thread import Rewrite
from ckpt_backends.errors import CkptError, PartlyDone, StoreChanged, UsageError
from ckpt_backends.files.atomic_write import make_private_folder, writing
from ckpt_backends.files.overwriting import overwrite_and_remove
from ckpt_backends.files.regular_file import open_regular, read_regular
from ckpt_backends.open_for_writing import open_writable_memory, open_writable_sessions
from ckpt_backends.protocol import Store, WritableStore
from ckpt_backends.transfer.errors import CannotHold
from ckpt_backends.transfer.parts import PartRewrite
from ckpt_cli.apply.purge import removal_batches
from ckpt_cli.apply.recording import Recording, writable_store
from ckpt_cli.config.folders import old_history, state_folder
from ckpt_cli.core.erasure import (
    ErasedIds,
    ErasurePlace,
    ErasureReceipt,
    ErasureReport,
    ErasureScope,
    PlaceKind,
    PlaceState,
    ids_from_record,
    ids_record,
    receipt_record,
)
from ckpt_cli.operations.log import OperationLog, OperationStep, is_locked
from ckpt_cli.plans.erase import (
    ArchiveErasure,
    ErasurePlan,
    MemoryErasure,
    StateErasure,
    StateNaming,
    file_size,
    without_queries,
)
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


def unfinished_erasure(place: str, request: str) -> UnfinishedErasure | None:
    """Return the erasure that an earlier run of the same request began; None if it ended."""
    with suppress(UsageError):
        for path in sorted(state_folder("erasures").glob("*.json")):
            with suppress(OSError, CkptError, ValueError, KeyError, TypeError, RecursionError):
                record = json.loads(read_regular(path, _LONGEST))
                if (record["ckpt_unfinished_erasure"], record["place"]) != (_FORMAT, place):
                    continue
                ids = ids_from_record(record)
                if record["request"] == ids.digest("request", request):
                    return UnfinishedErasure(ids, place, request, path)
    return None


STATEMENT = "files overwritten with zeros"


def erase_archives(archives: Iterable[ArchiveErasure]) -> list[ErasurePlace]:
    """Overwrite and delete archives, or write them anew without some rows; one place a folder."""
    by_folder: dict[Path, list[ArchiveErasure]] = {}
    for one in archives:
        by_folder.setdefault(one.path.parent, []).append(one)
    return [
        erase_files("archives", folder, [(one.path, one.bytes, _eraser(one)) for one in found])
        for folder, found in by_folder.items()
    ]


def _eraser(one: ArchiveErasure) -> Callable[[], Sequence[Remaining]]:
    if one.drops is None:
        return lambda: overwrite_and_remove(one.path)
    return lambda: _rewrite(one, one.drops or frozenset())


def erase_plain_files(kind: PlaceKind, paths: Iterable[Path]) -> list[ErasurePlace]:
    """Overwrite and delete files; one place a folder."""
    by_folder: dict[Path, list[Path]] = {}
    for one in paths:
        by_folder.setdefault(one.parent, []).append(one)
    return [
        erase_files(kind, folder, [(one, file_size(one), _remover(one)) for one in found])
        for folder, found in by_folder.items()
    ]


def _remover(path: Path) -> Callable[[], Sequence[Remaining]]:
    return lambda: overwrite_and_remove(path)


def erase_files(
    kind: PlaceKind,
    folder: Path,
    files: Iterable[tuple[Path, int, Callable[[], Sequence[Remaining]]]],
) -> ErasurePlace:
    """Erase files of one folder; each has a size, and what erases it."""
    number = size = left = 0
    reason = ""
    for path, taken, erase in files:
        number += 1
        size += taken
        try:
            for one in erase():
                left += 1
                reason = one.reason
        except FileNotFoundError:
            continue  # another run has erased it
        except (OSError, CkptError) as error:
            left += os.path.lexists(path)
            text = error.message if isinstance(error, CkptError) else error.strerror or str(error)
            reason = text.lower()
    if left:
        why = f"{left} of {number} files: {reason}"
        return ErasurePlace(str(folder), kind, number, size, "kept", why, is_left=True)
    return ErasurePlace(str(folder), kind, number, size, "erased")


def _rewrite(one: ArchiveErasure, drops: frozenset[int]) -> Sequence[Remaining]:
    """Write an archive of memory anew without some rows. A signature is not valid any more."""
    bundle = check_bundle(one.path)
    old = one.path.with_name(f".{one.path.name}.old")
    with suppress(FileExistsError):
        os.link(one.path, old)
    kept = (row for number, row in enumerate(bundle.rows()) if number not in drops)
    write_bundle(one.path, bundle.header, kept)
    return overwrite_and_remove(old)


def erase_state(log: OperationLog, naming: StateNaming, state: StateErasure) -> list[ErasurePlace]:
    """Take erased ids out of the log of operations and of the history, and erase steps."""
    return [
        *([_erase_operations(log, naming, state)] if state.number else ()),
        *(
            erase_files("queries", one.parent, [(one, file_size(one), _forgetter(one, naming))])
            for one in state.history
        ),
    ]


def _forgetter(path: Path, naming: StateNaming) -> Callable[[], Sequence[Remaining]]:
    """Return what takes queries out of the history of `ckpt sql`."""

    def forget() -> Sequence[Remaining]:
        old = old_history(path)
        if path != old:
            with open_regular(path, follow=False) as file:
                kept = without_queries(file.read(), naming.scope)
            os.link(path, old)
            with writing(path) as file:
                file.write(kept)
        return overwrite_and_remove(old)

    return forget


def _erase_operations(log: OperationLog, naming: StateNaming, state: StateErasure) -> ErasurePlace:
    naming.operations |= state.operations
    number, size = state.number, state.bytes
    busy = 0
    try:
        for path in state.steps:
            if _is_in_use(path):
                busy += 1
            else:
                with suppress(FileNotFoundError):
                    overwrite_and_remove(path)
        old = [*log.folder.glob("old.log*.ndjson"), *log.rewrite(naming.turned)]
        for path in dict.fromkeys(old):
            overwrite_and_remove(path)
    except (OSError, CkptError) as error:
        text = error.message if isinstance(error, CkptError) else error.strerror or str(error)
        return ErasurePlace(state.folder, "operations", number, size, "kept", text, is_left=True)
    if busy:
        why = f"{busy} of these operations is still running in another process"
        return ErasurePlace(state.folder, "operations", number, size, "kept", why, is_left=True)
    return ErasurePlace(state.folder, "operations", number, size, "erased")


def _is_in_use(path: Path) -> bool:
    """Return whether a process is writing the steps of an operation."""
    with suppress(OSError):
        return is_locked(path)
    return False


def check_receipt_path(path: Path) -> None:
    """Raise `UsageError` if a receipt could not be written there after the erasure."""
    if path.is_dir():
        raise UsageError(f"cannot write the receipt '{path}': it is a folder")
    if not os.access(path.parent, os.W_OK | os.X_OK):
        raise UsageError(
            f"cannot write the receipt '{path}': its folder does not exist or is not writable",
            hint="give a file in another folder",
        )


def write_receipt(
    path: Path,
    report: ErasureReport,
    receipt: ErasureReceipt,
    scope: ErasureScope,
    facts: Mapping[str, Any],
) -> None:
    """Write a receipt that only its owner can read. Raises `PartlyDone` if that fails."""
    shown = [receipt.store, *receipt.folders, report.stopped, *report.statements]
    shown += [text for one in report.places for text in (one.store, one.reason)]
    record = receipt_record(report, receipt, facts, scope.hidden_names("\n".join(shown)))
    try:
        with writing(path) as file:
            file.write(json.dumps(record, indent=2).encode() + b"\n")
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise PartlyDone(f"the erasure was carried out, but not its receipt: {reason}") from error


_ITEMS_AT_ONCE = 500
_NOTHING_KNOWN = OperationStep(None, None, None)
"""The record of an erasure says nothing about what was erased."""
_STOPPED = "stopped before it"
_ELSEWHERE = ErasurePlace(
    "copies elsewhere",
    "other",
    None,
    None,
    "unreachable",
    "ckpt does not know exports, reports, saved plans and archives in other folders, what other"
    " users of ckpt recorded, and copies in other systems",
)


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
        with self._writable():
            pass
        steps: list[tuple[bool, Callable[[], None]]] = [
            (bool(plan.archives or plan.plan_files), self._files),
            (bool(plan.memories), self._all_memory),
            (bool(plan.sessions), self._sessions),
            (not plan.state.is_empty, self._state),
            (True, self._threads),
        ]
        report.add(plan.unread)
        for is_needed, step in steps:
            if not is_needed:
                continue
            if why := self.why_stop():
                report.stopped = why
                self._keep_rest()
                return
            # An open read would keep the log of a SQLite file from being emptied.
            for reader in self.readers:
                reader.refresh()
            step()
        report.add([_ELSEWHERE])

    def _keep_rest(self) -> None:
        """Add the places that were not begun."""
        begun = {(one.kind, one.store) for one in self.report.places if one not in self.plan.unread}
        for one in self.plan.found():
            if (one.kind, one.store) not in begun:
                self.report.add([_left(one.store, one.kind, one.items, one.bytes or 0, _STOPPED)])

    def _did(self, number: int) -> None:
        """Record a number of threads or items that are about to be erased."""
        self.recording.intend([_NOTHING_KNOWN] * number)

    def _files(self) -> None:
        self._did(len(self.plan.archives))
        self._overwritten(erase_archives(self.plan.archives))
        self._overwritten(erase_plain_files("plans", self.plan.plan_files))

    def _overwritten(self, places: Sequence[ErasurePlace]) -> None:
        self.report.add(places)
        if any(one.state == "erased" for one in places):
            self.report.did([STATEMENT])

    def _state(self) -> None:
        """Erase what names the threads, unless archives are left that only the steps know."""
        if any(one.is_left and one.kind == "archives" for one in self.report.places):
            state = self.plan.state
            why = "its steps name folders with archives that are left"
            self.report.add([_left(state.folder, "operations", state.number, state.bytes, why)])
            return
        naming = StateNaming(self.place, self.plan.scope)
        self._overwritten(erase_state(self.log, naming, self.plan.state))
        if audited := self.plan.state.audited:
            why = "its lines are chained by hashes, and whoever asked for it has to keep it"
            self.report.add([ErasurePlace("audit file", "operations", audited, None, "kept", why)])

    def _all_memory(self) -> None:
        for one in self.plan.memories:
            self._memory(one)

    def _memory(self, one: MemoryErasure) -> None:
        store, items = str(one.url), one.items
        done = size = 0
        refused = ""
        try:
            with open_writable_memory(one.url) as writable:
                writable.begin_erasure()
                for start in range(0, len(items), _ITEMS_AT_ONCE):
                    some = items[start : start + _ITEMS_AT_ONCE]
                    self._did(len(some))
                    try:
                        done += writable.remove(some)
                        size += sum(item.size for item in some)
                    except CkptError as error:
                        refused = error.message
                self._remains(store, writable.erase_remains, clean=done > 0)
        except CkptError as error:
            refused = error.message
        if done:
            self.report.add([ErasurePlace(store, "memory", done, size, "erased")])
        if refused:
            left = sum(item.size for item in items) - size
            self.report.add([_left(store, "memory", len(items) - done, left, refused)])

    def _sessions(self) -> None:
        sessions = self.plan.sessions
        size = sum(one.size for one in sessions)
        self._did(len(sessions))
        try:
            with open_writable_sessions(self.plan.url) as writable:
                writable.begin_erasure()
                writable.remove(sessions)
                self._remains(self.plan.store, writable.erase_remains)
        except CkptError as error:
            left = _left(self.plan.store, "sessions", len(sessions), size, error.message)
            self.report.add([left])
            return
        self.report.add([ErasurePlace(self.plan.store, "sessions", len(sessions), size, "erased")])

    def _threads(self) -> None:
        """Remove the threads, and erase what is left of anything that was removed."""
        try:
            with self._writable() as writable:
                writable.begin_erasure()
                self._remove(writable)
                for reader in self.readers:
                    reader.refresh()
                self._remains(self.plan.store, writable.erase_remains)
        except CkptError as error:
            found = self.plan.threads
            size = sum(one.bytes for one in found)
            begun = (one for one in self.report.places if one not in self.plan.unread)
            if not any(one.kind == "threads" for one in begun):
                kept = _left(self.plan.store, "threads", len(found), size, error.message)
                self.report.add([kept] if found else [])
            self.report.add([_left(self.plan.store, "engine", None, None, error.message)])

    def _writable(self) -> AbstractContextManager[WritableStore]:
        return writable_store(self.plan.url, self.readers)

    def _remove(self, writable: WritableStore) -> None:
        done = size = 0
        refused = ""
        for batch in removal_batches(self.plan.threads, writable.removal_batch):
            if why := self.why_stop():
                self.report.stopped = refused = why
                break
            self._did(len(batch))
            try:
                removed = writable.remove([one.removal for one in batch])
            except CkptError as error:
                refused = error.message
                break
            for one, what in zip(batch, removed, strict=True):
                if what.skipped:
                    refused = f"a thread {what.skipped}"
                    continue
                done += 1
                size += one.bytes
        store, found = self.plan.store, self.plan.threads
        if done:
            self.report.add([ErasurePlace(store, "threads", done, size, "erased")])
        if refused:
            left = sum(one.bytes for one in found) - size
            self.report.add([_left(store, "threads", len(found) - done, left, refused)])

    def _remains(self, store: str, erase: Callable[..., Remains], *, clean: bool = True) -> None:
        """Erase what an engine keeps of removed data, and add the places where it may still be."""
        if not clean:
            return
        remains = erase(rewrite=self.rewrite, progress=self.progress)
        self.report.did(remains.done)
        for one in remains.places:
            where = f"{store}: {one.place}"
            if one.is_reachable:
                self.report.add([_left(where, "engine", None, None, one.reason)])
            else:
                state: PlaceState = "kept" if one.needs_rewrite else "unreachable"
                self.report.add([ErasurePlace(where, "engine", None, None, state, one.reason)])


def _left(
    store: str, kind: PlaceKind, items: int | None, size: int | None, reason: str
) -> ErasurePlace:
    return ErasurePlace(store, kind, items, size, "kept", reason, is_left=True)


_KEPT = "it is part of an id or of a name, and these are kept"


def erase_values_of(side: ErasingSide, writable: WritableStore, plan: EraseValuePlan) -> str:
    """Carry out a plan, in one transaction if the engine has transactions, and read it back.

    Returns why something is left, or `''`. Raises `StoreChanged` if the thread is not as it was
    when it was planned, and `Refused` for a value that cannot be read; nothing is written then.
    """
    before = side.eraser(plan.erasure)
    try:
        number = sum(1 for _ in before.rewrites(side.rows.rows(plan.thread_id)))
        side.rows.refresh()
        if before.digest != plan.digest:
            raise StoreChanged(
                f"thread '{plan.thread_id}' changed meanwhile; nothing was written",
                hint="stop the agent, then run the command again",
            )
        if not number:
            return ""
        _write(side, writable, plan)
        return _problem(side, plan)
    except CannotHold as error:
        raise unreadable(plan.thread_id, error) from error


def _write(side: ErasingSide, writable: WritableStore, plan: EraseValuePlan) -> None:
    """Replace what changes. It is read anew, so that no more than a few rows are in memory."""
    rewrites = _rewrites(side, plan)
    first = next(rewrites)
    if isinstance(first, RowRewrite):
        writable.replace_rows(plan.thread_id, _rows(first, rewrites))
    else:
        writable.rewrite(plan.thread_id, _parts(first, rewrites))


def _rewrites(side: ErasingSide, plan: EraseValuePlan) -> Iterator[Rewrite]:
    yield from side.eraser(plan.erasure).rewrites(side.rows.rows(plan.thread_id))
    # In a file that is not in WAL mode, an open read would block the commit.
    side.rows.refresh()


def _rows(first: RowRewrite, others: Iterator[Rewrite]) -> Iterator[RowRewrite]:
    yield first
    for one in others:
        if isinstance(one, RowRewrite):
            yield one


def _parts(first: PartRewrite, others: Iterator[Rewrite]) -> Iterator[PartRewrite]:
    yield first
    for one in others:
        if isinstance(one, PartRewrite):
            yield one


def _problem(side: ErasingSide, plan: EraseValuePlan) -> str:
    """Read a thread back. Returns why it still has something to erase, or `''`."""
    after = side.eraser(plan.erasure)
    side.rows.refresh()
    left = sum(1 for _ in after.rewrites(side.rows.rows(plan.thread_id)))
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
