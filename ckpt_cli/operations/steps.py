"""The steps of an operation: for each thread, what was done and what takes it back.

Both are data that can be carried out: a change, a removal, a restore from an archive. The steps of
an undo are those of the operation that it takes back, turned round.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from ckpt_backends.changes.change import Change
from ckpt_backends.changes.change_records import change_from_record, change_record
from ckpt_cli.core.compact_json import compact_json
from ckpt_cli.core.retention.purge_plan import PlannedRemoval, from_plan_line, to_plan_line
from ckpt_cli.operations.memory_parts import (
    ItemEdited,
    ItemsAdded,
    ItemsRemoved,
    ItemsRestored,
    MemoryPart,
    items_of,
    memory_part,
    memory_record,
)


@dataclass(frozen=True, slots=True)
class AppliedChange:
    """A change was applied. Its `heads` are those of that time."""

    change: Change


@dataclass(frozen=True, slots=True)
class RowsRemoved:
    """Rows of a thread were removed: all of them, or some of its checkpoints."""

    planned: PlannedRemoval


@dataclass(frozen=True, slots=True)
class RowsRestored:
    """The rows of an archive were restored, those that were missing."""

    bundle: Path
    digest: str
    """The SHA-256 of the archive's lines, as `Bundle.digest`."""


@dataclass(frozen=True, slots=True)
class RowsAdded:
    """Rows of a thread were added from another store, which is not done again."""

    checkpoints: int
    """How many checkpoints the store had of the thread before."""
    writes: int


StepPart: TypeAlias = AppliedChange | RowsRemoved | RowsRestored | RowsAdded | MemoryPart


@dataclass(frozen=True, slots=True)
class OperationStep:
    """What an operation did to one thread."""

    thread_id: str | None
    """None for items of long-term memory."""
    done: StepPart | None
    """None if it cannot be done again."""
    back: StepPart | None
    """What takes it back; None if nothing does."""

    @property
    def number(self) -> int:
        """The number of threads, or of items of long-term memory, that it changes."""
        if isinstance(self.done, MemoryPart):
            return items_of(self.done)
        return 1

    def turned(self) -> OperationStep:
        """Return the step of an undo of this step."""
        again = None if isinstance(self.done, RowsAdded | ItemsAdded) else self.done
        return OperationStep(self.thread_id, self.back, again)


def step_record(one: OperationStep) -> dict[str, Any]:
    """Return a step as a line of a file."""
    return {"thread_id": one.thread_id, "done": _record(one.done), "back": _record(one.back)}


def step_line(one: OperationStep) -> str:
    """Return the line for a step. The line of its plan is a part of it, if that is known."""
    if isinstance(one.done, RowsRemoved) and one.done.planned.line:
        thread_id, back = map(compact_json, (one.thread_id, _record(one.back)))
        done = f'{{"remove":{one.done.planned.line}}}'
        return f'{{"thread_id":{thread_id},"done":{done},"back":{back}}}'
    return compact_json(step_record(one))


def step_from_record(record: Mapping[str, Any]) -> OperationStep:
    """Parse a step. Raises `ValueError`, `KeyError`, `TypeError` or `AttributeError`."""
    thread_id = record["thread_id"]
    return OperationStep(
        None if thread_id is None else str(thread_id),
        _part(record["done"]),
        _part(record["back"]),
    )


def _record(part: StepPart | None) -> dict[str, Any] | None:
    match part:
        case None:
            return None
        case AppliedChange(change):
            return {"change": change_record(change)}
        case RowsRemoved(planned):
            return {"remove": to_plan_line(planned)}
        case RowsRestored(bundle, digest):
            return {"restore": {"bundle": str(bundle), "sha256": digest}}
        case RowsAdded(checkpoints, writes):
            return {"add": {"checkpoints": checkpoints, "writes": writes}}
        case ItemsRemoved() | ItemsRestored() | ItemsAdded() | ItemEdited():
            return memory_record(part)


def _part(record: Mapping[str, Any] | None) -> StepPart | None:
    match record:
        case None:
            return None
        case {"change": change}:
            return AppliedChange(change_from_record(change))
        case {"remove": planned}:
            return RowsRemoved(from_plan_line(planned))
        case {"restore": {"bundle": bundle, "sha256": digest}}:
            return RowsRestored(Path(bundle), str(digest))
        case {"add": {"checkpoints": checkpoints, "writes": writes}}:
            return RowsAdded(int(checkpoints), int(writes))
    return memory_part(record)
