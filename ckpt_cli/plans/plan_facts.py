"""The facts of a saved plan: what a command planned, one line each, in digests.

A run that saves a plan writes them; a run that applies it compares them with what it plans, before
anything is written. The last line is a digest of the file, by which a damaged one is found.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import scrypt, sha256
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from ckpt_backends.changes.change import Change
from ckpt_backends.changes.change_records import change_record
from ckpt_backends.changes.rows import Row
from ckpt_backends.errors import StoreChanged
from ckpt_backends.files.atomic_write import writing
from ckpt_cli.plans.rows_digest import rows_digest
from ckpt_cli.plans.saved_plan import (
    PlanHeader,
    SavedPlan,
    damaged,
    header_record,
    line_of,
    unusable,
)


class PlanReview(Protocol):
    """A run that saves a plan, or that applies one."""

    @property
    def header(self) -> PlanHeader:
        """The header of the plan."""
        ...

    def see(self, fact: Mapping[str, Any]) -> None:
        """Write a fact of the plan, or compare it with the next one of the saved plan.

        Raises `StoreChanged` if it is another one.
        """
        ...

    def check_complete(self) -> None:
        """Raise `StoreChanged` if the saved plan has more facts than were seen."""
        ...


class FactWriter:
    """Writes the facts of a plan that is saved."""

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


class FactCheck:
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
        self._left -= 1
        # What was written was JSON: tuples are lists there.
        if saved != json.loads(line_of(fact)):
            thread_id = fact.get("thread_id")
            what = "the store" if thread_id is None else f"thread '{thread_id}'"
            raise self.moved(f"{what} changed since the plan was made, so nothing was written")

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


@dataclass(frozen=True, slots=True)
class AppliedRemoval:
    """A run that applies the plan of a removal. Its threads are checked when they are removed."""

    header: PlanHeader

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


def record_digest(record: Mapping[str, Any]) -> str:
    """Return a digest of a JSON object."""
    return sha256(json.dumps(record, separators=(",", ":"), sort_keys=True).encode()).hexdigest()


class StoredRows(Protocol):
    """A store, or an archive, with rows as stored."""

    def rows(self, thread_id: str) -> Iterator[Row]:
        """All rows of a thread."""
        ...


def change_fact(change: Change, rows: StoredRows) -> dict[str, Any]:
    """Return what a plan says of a change: its digest, and some facts for a reader.

    `rows` is the store as stored: what the change copies is only named in it.
    """
    sources = sorted({one.source.thread_id for one in change.copies})
    return {
        "thread_id": change.thread_id,
        "heads": dict(change.heads),
        "adds": [one.key.checkpoint_id for one in change.checkpoints],
        "removes": [key.checkpoint_id for key in change.removed or ()],
        "copies": {one: rows_digest(rows.rows(one)) for one in sources},
        "sha256": record_digest(change_record(change)),
    }


def thread_fact(thread_id: str, **stores: StoredRows | None) -> dict[str, Any]:
    """Return digests of all rows that some stores have of a thread, by the given names.

    None is a store that is not made yet.
    """
    found = {
        name: None if store is None else rows_digest(store.rows(thread_id))
        for name, store in stores.items()
    }
    return {"thread_id": thread_id, **found}


def key_fact(salt: str, key: bytes | None) -> str | None:
    """Return a digest of a key, which takes long to guess from."""
    if key is None:
        return None
    return scrypt(key, salt=salt.encode(), n=1 << 14, r=8, p=1, dklen=16).hex()


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
