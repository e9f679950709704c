"""A run that saves a plan, or applies one: the facts of the plan, one line each.

A run that saves a plan writes them; a run that applies it compares them with what it plans, before
anything is written. The last line is a digest of the file, by which a damaged one is found.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

from ckpt_backends.changes.change import Change
from ckpt_backends.errors import StoreChanged
from ckpt_backends.files.atomic_write import writing
from ckpt_backends.memory.protocol import ItemKey, MemoryStore
from ckpt_cli.core.copying.items import CopiedItem
from ckpt_cli.plans.facts import (
    StoredRows,
    change_fact,
    copied_fact,
    item_fact,
    key_fact,
    step_fact,
    thread_fact,
)
from ckpt_cli.plans.saved_plan import (
    PlanHeader,
    SavedPlan,
    damaged,
    header_record,
    line_of,
    unusable,
)
from ckpt_cli.plans.undo_operation import PlannedStep, RefusedStep


class PlanReview(ABC):
    """A run that saves a plan, or applies one.

    A command tells it each fact of its plan, before it shows the plan and before it writes.
    """

    header: PlanHeader
    is_saved = False
    """Whether the plan is saved, and not applied."""

    @abstractmethod
    def see(self, fact: Mapping[str, Any]) -> None:
        """Write a fact of the plan, or compare it with the next one of the saved plan.

        Raises `StoreChanged` if it is another one.
        """

    @abstractmethod
    def check_complete(self) -> None:
        """Raise `StoreChanged` if the saved plan has more facts than were seen."""

    def see_change(self, change: Change, rows: StoredRows) -> None:
        """See a change as it will be applied; `rows` is the store as stored."""
        self.see(change_fact(change, rows))

    def see_thread(self, thread_id: str, **stores: StoredRows | None) -> None:
        """See all rows that some stores have of a thread; None is a store that is not made yet."""
        self.see(thread_fact(thread_id, **stores))

    def see_item(self, memory: MemoryStore, key: ItemKey) -> None:
        """See an item of long-term memory."""
        self.see(item_fact(memory, key))

    def see_copied(self, one: CopiedItem) -> None:
        """See what would become of an item that is copied."""
        self.see(copied_fact(one))

    def see_step(self, one: PlannedStep | RefusedStep, rows: StoredRows | None) -> None:
        """See what takes back a step; `rows` is the store as stored, None for its memory."""
        self.see(step_fact(one, rows))

    def see_keys(self, *keys: bytes | None) -> None:
        """See keys that are not stored in the plan."""
        self.see({"keys": [key_fact(self.header.seed, one) for one in keys]})


class FactWriter(PlanReview):
    """Writes the facts of a plan that is saved."""

    is_saved = True

    def __init__(self, file: BinaryIO, header: PlanHeader) -> None:
        self.header = header
        self._file = file
        self._digest = sha256()
        self._number = 0
        self._write(header_record(header))

    def see(self, fact: Mapping[str, Any]) -> None:
        """Write a fact."""
        self._number += 1
        self._write(fact)

    def check_complete(self) -> None:
        """Do nothing: there is nothing to compare with."""

    def end(self) -> None:
        """Write the last line."""
        self._write({"facts": self._number, "sha256": self._digest.hexdigest()})

    def _write(self, record: Mapping[str, Any]) -> None:
        line = line_of(record)
        self._digest.update(line)
        self._file.write(line)


class FactCheck(PlanReview):
    """Compares what is planned now with the facts of a saved plan."""

    def __init__(self, plan: SavedPlan) -> None:
        """Raise `UsageError` if the plan is damaged."""
        self.header = plan.header
        self._plan = plan
        self._left = _number_of_facts(plan)
        self._facts = plan.records()

    @property
    def is_complete(self) -> bool:
        """Whether all facts were seen."""
        return not self._left

    def see(self, fact: Mapping[str, Any]) -> None:
        """Compare a fact with the next one of the plan. Raises `StoreChanged`."""
        saved = next(self._facts) if self._left else None
        # What was written was JSON: tuples are lists there.
        if saved != json.loads(line_of(fact)):
            thread_id = fact.get("thread_id")
            what = "the store" if thread_id is None else f"thread '{thread_id}'"
            raise self.moved(f"{what} changed since the plan was made, so nothing was written")
        self._left -= 1

    def check_complete(self) -> None:
        """Raise `StoreChanged` if the plan has more facts."""
        if self._left:
            raise self.moved("the store changed since the plan was made, so nothing was written")

    def moved(self, why: str) -> StoreChanged:
        """Return the error for a plan that can no longer be carried out."""
        return StoreChanged(
            f"cannot carry out the plan '{self._plan.path}': {why}",
            hint="make a new plan with --plan-out",
        )


class AppliedRemoval(PlanReview):
    """A run that applies the plan of a removal, whose threads are checked when they are removed."""

    def __init__(self, header: PlanHeader) -> None:
        self.header = header

    def see(self, fact: Mapping[str, Any]) -> None:
        """Do nothing: the plan has no facts."""

    def check_complete(self) -> None:
        """Do nothing: the plan has no facts."""


@contextmanager
def writing_plan(path: Path, header: PlanHeader) -> Iterator[FactWriter]:
    """Write a plan file, which appears only when it is complete. Raises `UsageError`."""
    try:
        with writing(path) as file:
            facts = FactWriter(file, header)
            yield facts
            facts.end()
    except BrokenPipeError:
        raise
    except OSError as error:
        raise unusable("write", path, error) from error


def _number_of_facts(plan: SavedPlan) -> int:
    """Return how many facts a plan has. Raises `UsageError` if it is damaged."""
    digest = sha256()
    number, last = 0, b""
    try:
        with plan.copy.open("rb") as file:
            for number, line in enumerate(file):
                if number:
                    digest.update(last)
                last = line
    except OSError as error:
        raise unusable("read", plan.path, error) from error
    if last != line_of({"facts": number - 1, "sha256": digest.hexdigest()}):
        raise damaged(plan.path, "it is incomplete, or was edited")
    return number - 1
