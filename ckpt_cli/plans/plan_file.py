"""Saved plans that remove threads: one line of JSON per thread, for review.

Deleting a line keeps its thread. A plan that is carried out is copied first: what is shown, asked
and removed is read from the private copy.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any

from ckpt_backends.errors import StoreChanged
from ckpt_backends.files.atomic_write import writing
from ckpt_backends.model import StoreInfo, Thread
from ckpt_backends.protocol import Store
from ckpt_cli.core.retention.purge_plan import (
    PlannedRemoval,
    PurgeSums,
    from_plan_line,
    record_in_line,
    removal_record,
    to_plan_line,
)
from ckpt_cli.plans.saved_plan import (
    NO_STORE,
    PlanHeader,
    SavedPlan,
    damaged,
    header_record,
    line_of,
    unusable,
)

_AT_ONCE = 500
"""Number of threads that are compared at once."""


@dataclass(frozen=True, slots=True)
class PlanFile:
    """A plan on disk; its threads are read one by one, as often as needed."""

    saved: SavedPlan
    sums: PurgeSums
    """What will be removed."""
    kept: Sequence[tuple[str, str]]
    """The threads that a rule keeps, with the reason."""
    is_own: bool = False
    """Whether this run wrote it."""

    @property
    def going(self) -> int:
        """Number of threads that will be removed or pruned."""
        return self.sums.threads

    def threads(self) -> Iterator[PlannedRemoval]:
        """Yield the threads that will be removed or pruned. Raises `UsageError` at a damaged
        line.
        """
        found = _threads(self.saved, is_own=self.is_own)
        return (one for one in found if one.action != "keep")

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield the `removal_record` of each of these threads."""
        if not self.is_own:
            return map(removal_record, self.threads())
        # What this run wrote is not checked again.
        found = map(record_in_line, self.saved.records())
        return (one for one in found if one["action"] != "keep")


def removal_header(info: StoreInfo, now: datetime, action: str = "purge") -> PlanHeader:
    """Return the header of a plan that only this run carries out."""
    return PlanHeader(action, "removal", NO_STORE, info.layout, now)


def write_plan(path: Path, header: PlanHeader, threads: Iterable[PlannedRemoval]) -> PlanFile:
    """Write a plan file, which appears only when it is complete.

    Raises `UsageError` if it cannot be written.
    """
    counted = _Count()
    try:
        with writing(path) as file:
            file.write(line_of(header_record(header)))
            for one in map(counted.see, threads):
                file.write(line_of(to_plan_line(one)))
    except OSError as error:
        raise unusable("write", path, error) from error
    return PlanFile(SavedPlan(path, path, header), counted.sums, counted.kept, is_own=True)


def counted_plan(saved: SavedPlan) -> PlanFile:
    """Read all threads of a plan of a removal once. Raises `UsageError` at a damaged line."""
    counted = _Count()
    for one in _threads(saved):
        counted.see(one)
    return PlanFile(saved, counted.sums, counted.kept)


def check_unmoved(store: Store, planned: Iterable[PlannedRemoval]) -> None:
    """Raise `StoreChanged` if a thread of a plan has changed or is gone."""
    left = iter(planned)
    while some := list(islice(left, _AT_ONCE)):
        sizes = store.sizes([one.thread_id for one in some])
        for one, size in zip(some, sizes, strict=True):
            thread = store.thread(one.thread_id) or Thread(one.thread_id, None, None, None, 0, 0)
            why = one.removal.reason_to_skip(thread.last_at, thread.checkpoints, size.writes)
            if why:
                raise StoreChanged(
                    f"thread '{one.thread_id}' {why}, so nothing was removed",
                    hint="make a new plan with --plan-out",
                )
    store.refresh()


class _Count:
    """Counts the threads of a plan while they pass through."""

    def __init__(self) -> None:
        self.sums = PurgeSums()
        self.kept: list[tuple[str, str]] = []

    def see(self, one: PlannedRemoval) -> PlannedRemoval:
        if one.action == "keep":
            self.kept.append((one.thread_id, one.reason))
        else:
            self.sums.add(one)
        return one


def _threads(saved: SavedPlan, *, is_own: bool = False) -> Iterator[PlannedRemoval]:
    for number, (text, record) in enumerate(saved.lines(), 2):
        try:
            yield from_plan_line(record, text.rstrip() if is_own else "")
        except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
            raise damaged(saved.path, f"line {number} is damaged") from error
