"""Takes back an operation."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ckpt_backends.archive import Bundle, Header, SigningKey, memory_bundle_name, write_bundle
from ckpt_backends.errors import CkptError, PartlyDone, Refused, StoreChanged
from ckpt_backends.memory import Item, MemoryStore
from ckpt_backends.model import in_chunks
from ckpt_backends.open_for_writing import open_editable_memory, open_writable_memory
from ckpt_backends.protocol import Store, WritableStore
from ckpt_backends.registry import open_memory
from ckpt_backends.url import StoreUrl
from ckpt_cli.apply.recording import Recording, collected_signals, refuse_copy, writable_store
from ckpt_cli.operations.log import (
    AppliedChange,
    ItemEdited,
    ItemsRemoved,
    ItemsRestored,
    OperationStep,
    RowsRemoved,
    RowsRestored,
)
from ckpt_cli.plans.undo import PlannedStep, RefusedStep, item_to_take_back, recorded_archive

_AT_ONCE = 500
"""Maximum number of items in one transaction."""


@dataclass(frozen=True, slots=True)
class MemoryReport:
    """The result of a removal of memory items."""

    removed: int
    """Number of items that were removed, counted from the start of the plan."""
    stopped: CkptError | None = None
    """Why the other items were not removed; None if all were."""
    not_erased: str = ""
    """A note about removed data that could not be erased."""


def archive_items(
    memory: MemoryStore, items: Sequence[Item], folder: Path, made_at: str, key: SigningKey | None
) -> Bundle:
    """Write one bundle with all rows of some items, signed if there is a key.

    Raises `StoreUnavailable`.
    """
    info = memory.describe()
    path = folder / memory_bundle_name(made_at)
    header = Header(None, info.layout, "", info.url, made_at)
    return write_bundle(path, header, (row for one in items for row in memory.rows(one.key)), key)


def remove_items(
    url: StoreUrl, items: Sequence[Item], recording: Recording, archive: Bundle | None
) -> MemoryReport:
    """Remove items; each batch is recorded first, and removed whole or not at all.

    `archive` holds all of them. If the first batch fails, its error is raised; if a later batch
    fails, the removal stops there.
    """
    refuse_copy(url)
    removed = 0
    stopped: CkptError | None = None
    with open_writable_memory(url) as writable:
        for batch in in_chunks(items, _AT_ONCE):
            recording.intend([_removal_step(batch, archive)])
            try:
                removed += writable.remove(batch)
            except CkptError as error:
                recording.failed(error)
                if not removed:
                    raise
                stopped = error
                break
            recording.done()
        recording.finish("" if stopped is None else stopped.message)
        return MemoryReport(removed, stopped, writable.finish_removal())


def _removal_step(batch: Sequence[Item], archive: Bundle | None) -> OperationStep:
    back = None
    if archive is not None:
        back = ItemsRestored(archive.path.absolute(), archive.digest, len(batch))
    return OperationStep(None, ItemsRemoved(without_values(batch)), back)


def without_values(items: Iterable[Item]) -> tuple[Item, ...]:
    """Return items with what a removal compares."""
    return tuple(replace(one, value=None, vectors=()) for one in items)


def check_editable(url: StoreUrl) -> None:
    """Raise `UsageError` for a copy, and what `open_editable_memory` raises."""
    refuse_copy(url)
    open_editable_memory(url).close()


def edit_item(
    url: StoreUrl, item: Item, fields: Mapping[str, tuple[Any, Any]], recording: Recording
) -> None:
    """Set fields of an item, each given as (before, after), and record that.

    Raises `StoreChanged` if the item is no longer as it was read.
    """
    refuse_copy(url)
    before = {name: was for name, (was, _) in fields.items()}
    after = {name: new for name, (_, new) in fields.items()}
    # A field that was not there cannot be taken away again.
    back = None if None in before.values() else ItemEdited(item.key, before)
    with open_editable_memory(url) as writable:
        recording.intend([OperationStep(None, ItemEdited(item.key, after), back)])
        writable.edit(item, after)


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
