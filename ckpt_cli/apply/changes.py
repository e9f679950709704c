"""Carries out changes: the one loop of commands and of the screen, and changes of memory items."""

from __future__ import annotations

import signal
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ckpt_backends.archive import Bundle, Header, SigningKey, memory_bundle_name, write_bundle
from ckpt_backends.changes import Change
from ckpt_backends.errors import CkptError, Refused, StoreChanged, Unsupported
from ckpt_backends.memory import Item, MemoryStore
from ckpt_backends.model import in_chunks
from ckpt_backends.open_for_writing import open_editable_memory, open_writable_memory
from ckpt_backends.protocol import WritableStore
from ckpt_backends.registry import open_memory
from ckpt_backends.transfer.copying import record_size
from ckpt_backends.url import StoreUrl
from ckpt_cli.apply.recording import Recording, refuse_copy, writable_store
from ckpt_cli.core.forking import sealed_change
from ckpt_cli.operations import log
from ckpt_cli.plans.proposal import Proposal
from ckpt_cli.plans.undo import Stores, item_to_take_back, recorded_archive

_AT_ONCE = 500
"""Maximum number of items in one transaction."""
_OF_ONE_THREAD = (StoreChanged, Refused, Unsupported)
"""Why a proposal was not carried out, although those of other threads may be."""
_PROPOSALS, _BYTES = 50, 4 << 20
"""How many proposals are carried out at once, and how many bytes of values; one may be more."""


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


def _removal_step(batch: Sequence[Item], archive: Bundle | None) -> log.OperationStep:
    back = None
    if archive is not None:
        back = log.ItemsRestored(archive.path.absolute(), archive.digest, len(batch))
    return log.OperationStep(None, log.ItemsRemoved(without_values(batch)), back)


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
    back = None if None in before.values() else log.ItemEdited(item.key, before)
    with open_editable_memory(url) as writable:
        recording.intend([log.OperationStep(None, log.ItemEdited(item.key, after), back)])
        writable.edit(item, after)


@dataclass(slots=True)
class ChangeReport:
    """What became of the proposals of one operation."""

    outcomes: list[Proposal] = field(default_factory=list)
    left: int = 0
    """Number of proposals that were not tried after a stop."""
    signal: int | None = None
    """The signal that stopped it."""
    error: CkptError | None = None
    """The error that stopped it."""
    not_erased: str = ""
    """A note about removed data that could not be erased."""

    @property
    def done(self) -> list[Proposal]:
        """What was carried out."""
        return [one for one in self.outcomes if one.state == "done"]

    @property
    def errors(self) -> list[CkptError]:
        """Why others were not."""
        return [one.error for one in self.outcomes if one.error is not None]

    @property
    def stopped(self) -> str:
        """Why it stopped early; `''` if it did not."""
        if self.signal is not None:
            return f"received {signal.Signals(self.signal).name}"
        return "" if self.error is None else self.error.message


def carry_out(
    recording: Recording,
    proposals: Iterable[Proposal],
    stores: Stores,
    *,
    total: int = 1,
    caught: Sequence[int] = (),
    together: bool = False,
) -> ChangeReport:
    """Carry out proposals in their order: each is recorded first, and done whole or not at all.

    One whose thread moved, or that is refused, is skipped. A signal in `caught` stops before the
    next one. So does any other error, which is raised if nothing was done before it.

    `stores` is the store as it was planned with. `total` is the number of the proposals. With
    `together`, they are new changes of different threads, and small ones are carried out some at
    once.
    """
    report = ChangeReport()
    with ExitStack() as opened:
        work = Work(recording, stores, opened)
        try:
            for some in _batches(proposals) if together else ([one] for one in proposals):
                if caught:
                    report.signal = caught[0]
                    break
                report.outcomes += work.carry_out(some)
        except CkptError as error:
            recording.failed(error)
            if not report.done:
                raise
            report.error = error
        report.left = total - len(report.outcomes)
        report.not_erased = work.finish()
    return report


def _batches(proposals: Iterable[Proposal]) -> Iterator[list[Proposal]]:
    """Yield proposals in lists that are carried out at once: new changes, and what needs none."""
    batch: list[Proposal] = []
    size = 0
    for one in proposals:
        batch.append(one)
        size += 0 if one.change is None else sum(map(record_size, one.change.records))
        if len(batch) == _PROPOSALS or size > _BYTES:
            yield batch
            batch, size = [], 0
    yield batch


class Work:
    """Opens the store for writing at the first proposal that needs it."""

    def __init__(self, recording: Recording, stores: Stores, opened: ExitStack) -> None:
        self._recording, self._stores, self._opened = recording, stores, opened
        self._writable: WritableStore | None = None
        self._has_removed = False
        self._not_erased = ""

    def carry_out(self, some: Sequence[Proposal]) -> list[Proposal]:
        """Return what became of proposals: of any one, or of several new changes."""
        changes = [one.change for one in some if one.change is not None]
        if len(changes) > 1 and self._apply_all(changes):
            return [one if one.step is None else _done(one) for one in some]
        return [one if one.step is None else self._alone(one, one.step) for one in some]

    def _apply_all(self, changes: Sequence[Change]) -> bool:
        """Apply new changes of different threads in one transaction. Returns whether they were
        applied; if one of them cannot be, or the store has no such transactions, none is.
        """
        self._refresh()
        try:
            store = self._store()
            if not store.applies_together:
                return False
            keys = self._stores.opening.keys()
            sealed = [sealed_change(one, keys) for one in changes]
            self._recording.intend_changes(sealed, self._stores.rows)
            store.apply_all(sealed)
        except _OF_ONE_THREAD as error:
            self._recording.failed(error)
            return False
        self._recording.done()
        self._has_removed |= any(one.removed or one.removed_blobs for one in sealed)
        return True

    def _alone(self, one: Proposal, step: log.OperationStep) -> Proposal:
        try:
            if step.thread_id is None:
                self._recording.intend([step])
                self._not_erased = change_items(self._recording.url, one) or self._not_erased
            else:
                self._change(step, one.bundle)
        except _OF_ONE_THREAD as error:
            self._recording.failed(error)
            return one.skipped(error)
        self._recording.done()
        return _done(one)

    def _refresh(self) -> None:
        # An open read of a file that is not in WAL mode would block the writer, and an agent.
        for reader in (self._stores.store, self._stores.rows):
            reader.refresh()

    def _change(self, step: log.OperationStep, bundle: Bundle | None) -> None:
        """Carry out a step on a thread. Raises `StoreChanged` if the thread was used meanwhile."""
        self._refresh()
        done = step.done
        if isinstance(done, log.AppliedChange):
            change = sealed_change(done.change, self._stores.opening.keys())
            if step.back is None:
                self._recording.intend_changes([change], self._stores.rows)
            else:
                self._recording.intend([step])
            self._store().apply(change)
            self._has_removed |= bool(change.removed or change.removed_blobs)
            return
        self._recording.intend([step])
        if isinstance(done, log.RowsRemoved):
            (removed,) = self._store().remove([done.planned.removal])
            if removed.skipped:
                raise StoreChanged(f"thread '{step.thread_id}' {removed.skipped}")
            self._has_removed = True
        elif bundle is not None:
            self._store().restore(bundle.rows())

    def _store(self) -> WritableStore:
        if self._writable is None:
            self._writable = self._opened.enter_context(writable_store(self._recording.url))
        return self._writable

    def finish(self) -> str:
        """End what was removed. Returns a note about data that could not be erased, or `''`."""
        if self._writable is not None and self._has_removed:
            return self._writable.finish_removal()
        return self._not_erased


def _done(one: Proposal) -> Proposal:
    return replace(one, state="done").without_values()


def change_items(url: StoreUrl, one: Proposal) -> str:
    """Take back a step on long-term memory. Raises `StoreChanged` if an item was used since, and
    `Refused` if the archive of removed items is not there any more.

    Returns a note about removed data that could not be erased, or `''`.
    """
    refuse_copy(url)
    if one.takes_back is None:
        raise TypeError("only recorded steps on memory are carried out here")
    with open_memory(url) as memory:
        item = item_to_take_back(memory, one.takes_back)
    match one.takes_back.back:
        case log.ItemsRemoved(items):
            with open_writable_memory(url) as writable:
                writable.remove(items)
                return writable.finish_removal()
        case log.ItemsRestored() as part:
            with open_writable_memory(url) as writable:
                writable.restore(recorded_archive(part).rows())
        case log.ItemEdited(_, fields) if item is not None:
            with open_editable_memory(url) as editable:
                editable.edit(item, fields)
        case _:
            raise Refused("cannot undo: what it replaced was not kept")
    return ""
