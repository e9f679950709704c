"""Records the threads that a copy adds to a store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress

from ckpt_backends.errors import CkptError
from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_store
from ckpt_backends.url import StoreUrl
from ckpt_cli.apply.recording import Recording
from ckpt_cli.core.copying.outcomes import CopiedThread, CopyStep
from ckpt_cli.core.retention.purge_plan import PlannedRemoval
from ckpt_cli.operations.steps import OperationStep, RowsAdded, RowsRemoved
from ckpt_cli.plans.additions import ThreadContents, contents_of, removal_of_added, removal_of_new

_AT_ONCE = 200
"""Outcomes that are recorded together."""


class CopyRecording:
    """Records a copy: each part before it begins, each outcome once the target was read back."""

    def __init__(self, recording: Recording, target: StoreUrl) -> None:
        """`target` is opened with the first part."""
        self._recording = recording
        self._url = target
        self._opened: Store | None = None
        self._before: dict[str, ThreadContents] = {}
        """What the target had of the threads under way, as far as it had anything."""
        self._under_way: dict[str, None] = {}
        self._known: list[CopiedThread] = []

    def intend(self, thread_ids: Sequence[str]) -> None:
        """Record some threads before they are copied."""
        self._read(thread_ids)
        self._under_way |= dict.fromkeys(thread_ids)
        self._recording.intend_more([self._step(one) for one in thread_ids])

    def came_out(self, one: CopiedThread) -> None:
        """Record what became of a thread."""
        self._known.append(one)
        if len(self._known) >= _AT_ONCE:
            self._flush()

    def close(self) -> None:
        """Record all outcomes, after the copy has ended; the target tells those not known yet."""
        if self._opened is None:
            return
        self._flush()
        with suppress(CkptError):
            self._recording.came_out({one: self._found(one) for one in self._under_way})
        self._recording.unsure()
        self._opened.close()

    @property
    def _target(self) -> Store:
        """Reads what the copy writes. Raises what `open_store` raises."""
        if self._opened is None:
            self._opened = open_store(self._url)
        return self._opened

    def _read(self, thread_ids: Sequence[str]) -> None:
        there = self._target.threads_with_rows(thread_ids)
        self._before |= {one: contents_of(self._target, one) for one in thread_ids if one in there}
        # In a file that is not in WAL mode, an open read would block the writer.
        self._target.refresh()

    def _step(self, thread_id: str, back: PlannedRemoval | None = None) -> OperationStep:
        before = self._before.get(thread_id, ThreadContents())
        return OperationStep(
            thread_id,
            RowsAdded(len(before.checkpoints), before.number_of_writes),
            None if back is None else RowsRemoved(back),
        )

    def _flush(self) -> None:
        self._target.refresh()
        found: Mapping[str | None, OperationStep | None] = {
            one.thread_id: self._step(one.thread_id, self._back(one)) if one.is_changed else None
            for one in self._known
        }
        self._recording.came_out(found)
        for one in self._known:
            self._before.pop(one.thread_id, None)
            self._under_way.pop(one.thread_id, None)
        self._known = []
        self._target.refresh()

    def _found(self, thread_id: str) -> OperationStep | None:
        """Return what was done to a thread of which no outcome is known; None for nothing."""
        before = self._before.get(thread_id, ThreadContents())
        if contents_of(self._target, thread_id) == before:
            return None
        return self._step(thread_id, removal_of_added(self._target, thread_id, before))

    def _back(self, one: CopiedThread) -> PlannedRemoval | None:
        """Return what takes a thread back; None if nothing does."""
        if one.step is CopyStep.COPY:
            return removal_of_new(one.thread_id, one.counts)
        if one.step is CopyStep.ADD:
            with suppress(CkptError):
                return removal_of_added(self._target, one.thread_id, self._before[one.thread_id])
        return None
