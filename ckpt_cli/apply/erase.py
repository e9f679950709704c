"""Carry out an erasure: what was made from the threads first, the threads last.

A run that is killed leaves the threads by which the next run finds the rest. What was found is kept
as digests until the erasure is complete; see `unfinished_erasures`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass

from ckpt_backends.changes.progress import Progress, silent
from ckpt_backends.changes.remains import Remains
from ckpt_backends.errors import CkptError
from ckpt_backends.open_for_writing import open_writable_memory, open_writable_sessions
from ckpt_backends.protocol import Store, WritableStore
from ckpt_cli.apply.erase_files import (
    STATEMENT,
    erase_archives,
    erase_plain_files,
    erase_state,
)
from ckpt_cli.apply.purge import removal_batches
from ckpt_cli.apply.recording import Recording
from ckpt_cli.apply.writable import writable_store
from ckpt_cli.core.erasure.places import ErasurePlace, ErasureReport, PlaceKind, PlaceState
from ckpt_cli.operations.log import OperationLog
from ckpt_cli.operations.steps import OperationStep
from ckpt_cli.plans.erase import ErasurePlan, MemoryErasure
from ckpt_cli.plans.erase_state import StateNaming

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
