"""Takes back the steps of an operation, one thread or one part of long-term memory at a time."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from ckpt_backends.errors import CkptError, PartlyDone, Refused, StoreChanged
from ckpt_backends.open_for_writing import open_editable_memory, open_writable_memory
from ckpt_backends.protocol import Store, WritableStore
from ckpt_backends.registry import open_memory
from ckpt_backends.url import StoreUrl
from ckpt_cli.apply.recording import Recording
from ckpt_cli.apply.stopping import collected_signals
from ckpt_cli.apply.writable import refuse_copy, writable_store
from ckpt_cli.operations.memory_parts import ItemEdited, ItemsRemoved, ItemsRestored
from ckpt_cli.operations.steps import AppliedChange, OperationStep, RowsRemoved, RowsRestored
from ckpt_cli.plans.undo_operation import (
    PlannedStep,
    RefusedStep,
    item_to_take_back,
    recorded_archive,
)


@dataclass(slots=True)
class UndoReport:
    """Which steps were taken back."""

    done: list[PlannedStep] = field(default_factory=list)
    failed: list[RefusedStep] = field(default_factory=list)
    left: int = 0
    """Number of steps that were not tried after a stop."""
    signal: int | None = None
    not_erased: str = ""
    """A note about removed data that could not be erased."""

    def raise_failures(self, noun: str) -> None:
        """Raise the error if nothing was done, or `PartlyDone` if something is left."""
        if self.failed and not self.done:
            raise self.failed[0].error
        if self.failed or self.left:
            number = len(self.failed) + self.left
            why = self.failed[0].error.message if self.failed else "stopped"
            first = self.failed[0].error.hint if self.failed else None
            again = "run the same command again for the rest"
            raise PartlyDone(
                f"left {number} of {number + len(self.done)} {noun}s unchanged: {why}",
                hint=again if first is None else f"{first}; then {again}",
            )


def take_back(
    url: StoreUrl,
    steps: Iterable[PlannedStep | RefusedStep],
    recording: Recording,
    readers: Sequence[Store],
) -> UndoReport:
    """Carry out the steps in their order; a signal stops it between two of them.

    A step whose thread was used meanwhile is left out. Raises what `open_writable` raises.
    """
    report = UndoReport()
    removes = False
    with writable_store(url, readers) as writable, collected_signals() as caught:
        for one in steps:
            if caught:
                report.signal = caught[0]
                report.left += 1
                continue
            if isinstance(one, RefusedStep):
                report.failed.append(one)
                continue
            for reader in readers:
                reader.refresh()
            recording.intend([one.turned])
            try:
                carry_out(writable, one)
            except (StoreChanged, Refused) as error:
                recording.not_done([one.step.thread_id])
                report.failed.append(RefusedStep(one.step, error))
                continue
            removes |= not isinstance(one.part, RowsRestored)
            report.done.append(one)
        if removes:
            report.not_erased = writable.finish_removal()
    return report


def stopped_by(report: UndoReport) -> str:
    """Return why an undo ended early, for the log; `''` if it did not."""
    if report.signal is not None:
        return f"received {signal.Signals(report.signal).name}"
    return report.failed[0].error.message if report.failed else ""


def carry_out(writable: WritableStore, one: PlannedStep) -> None:
    """Carry out one step. Raises `StoreChanged` if the thread was used meanwhile."""
    match one.part:
        case AppliedChange(change):
            writable.apply(change)
        case RowsRemoved(planned):
            (removed,) = writable.remove([planned.removal])
            if removed.skipped:
                raise StoreChanged(f"thread '{planned.thread_id}' {removed.skipped}")
        case RowsRestored():
            if one.bundle is None:
                raise CkptError("an archive is checked before it is restored")
            writable.restore(one.bundle.rows())


def take_back_items(
    url: StoreUrl, steps: Iterable[PlannedStep | RefusedStep], recording: Recording
) -> UndoReport:
    """Carry out steps on long-term memory, each of them whole or not at all."""
    refuse_copy(url)
    report = UndoReport()
    for one in steps:
        if isinstance(one, RefusedStep):
            report.failed.append(one)
            continue
        recording.intend([one.turned])
        try:
            report.not_erased = _take_back_item(url, one.step) or report.not_erased
        except (StoreChanged, Refused) as error:
            recording.failed(error)
            report.failed.append(RefusedStep(one.step, error))
            continue
        recording.done()
        report.done.append(one)
    return report


def _take_back_item(url: StoreUrl, step: OperationStep) -> str:
    """Carry out what takes a step back. Raises `StoreChanged` if an item was used since, and
    `Refused` if the archive of removed items is not there any more.

    Returns a note about removed data that could not be erased, or `''`.
    """
    with open_memory(url) as memory:
        item = item_to_take_back(memory, step)
    match step.back:
        case ItemsRemoved(items):
            with open_writable_memory(url) as writable:
                writable.remove(items)
                return writable.finish_removal()
        case ItemsRestored() as part:
            with open_writable_memory(url) as writable:
                writable.restore(recorded_archive(part).rows())
        case ItemEdited(_, fields) if item is not None:
            with open_editable_memory(url) as editable:
                editable.edit(item, fields)
        case _:
            raise Refused("cannot undo: what it replaced was not kept")
    return ""
