"""Print recorded operations, their steps, and the plan that takes one back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from datetime import datetime, tzinfo
from itertools import islice
from pathlib import Path
from typing import Any

from ckpt_backends import shell
from ckpt_backends.changes import Change
from ckpt_cli.operations.log import (
    AppliedChange,
    Chain,
    ItemEdited,
    ItemsAdded,
    ItemsRemoved,
    ItemsRestored,
    Operation,
    OperationStep,
    RowsAdded,
    RowsRemoved,
    RowsRestored,
    StepPart,
)
from ckpt_cli.plans.undo import PlannedStep, RefusedStep
from ckpt_cli.queries.operations import REDO, ListedOperation
from ckpt_cli.render.table import AGO, Column, age, iso, plain_columns, when
from ckpt_cli.render.text import StyledLine, command_field, field, line
from ckpt_cli.render.values import counted, named_value

_SHOWN = 20
"""Maximum number of threads or steps that are shown as text."""
_NAMED = 3
"""Maximum number of threads that are named in a list."""
_MEMORY = "memory"


def operation_record(one: ListedOperation) -> dict[str, Any]:
    """Return an operation as JSON."""
    operation = one.operation
    return {
        "op": operation.op,
        "at": iso(operation.at),
        "user": operation.user,
        "store": operation.store,
        "action": operation.action,
        "threads": list(operation.threads),
        "number": operation.number,
        "reason": operation.reason,
        "command": operation.command,
        "undoable": one.is_undoable,
        "why_not": one.why_not or None,
        "undone_by": one.undone_by,
        "undoes": operation.undoes,
        "ended": operation.ended or None,
    }


def operation_columns(*, of_all: bool = False) -> Sequence[Column]:
    """Return the columns of a list of operations; `of_all` if they are of several stores."""
    return (
        Column("OP", "op", style="head"),
        Column("AGE", "at", AGO),
        Column("ACTION", "action"),
        Column("COUNT", "number", right=True),
        Column("THREADS", "threads", _names, cut=True),
        Column("UNDONE BY", "undone_by", str, style="dim", drop=1),
        Column("UNDOES", "undoes", str, style="dim", drop=2),
        Column("REASON", "reason", str, cut=True, drop=3),
        Column("USER", "user", drop=6),
        Column("STORE", "store", cut=True, drop=0 if of_all else 5),
        Column("COMMAND", "command", table=False),
        Column("UNDOABLE", "undoable", table=False),
        Column("NOT UNDOABLE", "why_not", cut=True, drop=4),
        Column("ENDED", "ended", table=False),
    )


def shown_record(one: ListedOperation, steps: Sequence[OperationStep]) -> dict[str, Any]:
    """Return an operation with its steps as JSON."""
    return {**operation_record(one), "steps": list(map(step_summary, steps))}


STEP_COLUMNS = plain_columns("thread_id", "did", "undo")


def step_summary(one: OperationStep) -> dict[str, Any]:
    """Return what a step did and what takes it back, without values."""
    return {
        "thread_id": one.thread_id,
        "did": None if one.done is None else part_text(one.done),
        "undo": None if one.back is None else part_text(one.back),
        "checkpoints": _checkpoints(one.done),
        "archive": str(one.back.bundle) if isinstance(one.back, RowsRestored) else None,
    }


def shown_lines(
    one: ListedOperation,
    steps: Sequence[OperationStep],
    words: Sequence[str],
    now: datetime,
    zone: tzinfo,
    width: int,
) -> Iterator[StyledLine]:
    """Yield an operation as text; `words` are the options that name its store."""
    operation = one.operation
    yield from field("op", operation.op, width, "head")
    yield from field("action", operation.action, width)
    yield from field("at", f"{when(operation.at, now, zone)} by {operation.user or '?'}", width)
    yield from field("store", operation.store, width)
    if operation.reason:
        yield from field("reason", operation.reason, width)
    yield command_field("command", operation.command)
    if operation.undoes:
        yield from field("undoes", operation.undoes, width, "id")
    if operation.ended:
        yield from field("ended", operation.ended, width, "warn")
    for step in islice(steps, _SHOWN):
        label = _MEMORY
        if step.thread_id is not None:
            label = ""
            yield from field("thread", step.thread_id, width, "head")
        if step.done is not None:
            yield from field(label, part_text(step.done), width)
        for place in _checkpoints(step.done)[:_SHOWN]:
            yield from field("", place, width, "id")
        if isinstance(step.back, RowsRestored):
            yield from field("archive", str(step.back.bundle), width)
    if len(steps) > _SHOWN:
        yield from field("", f"and {len(steps) - _SHOWN} more; -o json lists all", width)
    if one.is_undoable:
        undo = shell.command("ckpt", *words, "undo", ids=[operation.op])
        yield command_field("undo", undo)
    else:
        yield from field("no undo", one.why_not, width, "warn")


def operation_text(one: Operation, now: datetime) -> str:
    """Return the name of an operation and its age: `rollback 3f2a9c0b7d41, 2 minutes ago`."""
    return f"{one.action} {one.op}, {age(one.at, now)} ago"


def undo_plan_record(
    one: ListedOperation, action: str, steps: Sequence[PlannedStep | RefusedStep], *, dry_run: bool
) -> dict[str, Any]:
    """Return the plan that takes back an operation as JSON."""
    return {
        "action": action,
        "undoes": one.op,
        "threads": [
            {
                **_undo_step_record(step),
                **({"values": values} if (values := value_records(step, action)) else {}),
            }
            for step in steps
        ],
        "dry_run": dry_run,
    }


def _undo_step_record(step: PlannedStep | RefusedStep) -> dict[str, Any]:
    return {
        "thread_id": step.step.thread_id,
        "does": part_text(step.part) if isinstance(step, PlannedStep) else None,
        "refused": step.error.message if isinstance(step, RefusedStep) else None,
    }


def value_records(step: PlannedStep | RefusedStep, action: str) -> list[dict[str, Any]]:
    """Return the values that a step removes or stores, with what was there before."""
    if isinstance(step, RefusedStep) or not isinstance(step.part, AppliedChange):
        return []
    stored = {(one.checkpoint_ns, one.channel, one.version) for one in step.part.change.blobs}
    # Only unreadable values are replaced.
    there = "restored" if action == REDO else "unreadable"
    found = []
    for one in step.values:
        is_stored = (one.checkpoint_ns, one.channel, one.version) in stored
        found.append({**asdict(one), "before": there if is_stored else "missing"})
    return found


def undo_plan_rows(
    action: str, steps: Iterable[PlannedStep | RefusedStep]
) -> Iterator[dict[str, Any]]:
    """Yield one row per thread, or per value of a thread where values are removed or stored."""
    for step in steps:
        for value in value_records(step, action) or [{}]:
            yield {**_undo_step_record(step), **value}


def undo_plan_columns(steps: Iterable[PlannedStep | RefusedStep]) -> Sequence[Column]:
    """Return the columns of the plan that takes back an operation."""
    has_values = any(isinstance(one, PlannedStep) and one.values for one in steps)
    place = ("checkpoint_ns", "checkpoint_id", "step", "channel", "version", "before")
    return plain_columns("thread_id", "does", "refused", *(place if has_values else ()))


def undo_plan_lines(
    operation: Operation,
    action: str,
    steps: Sequence[PlannedStep | RefusedStep],
    now: datetime,
    width: int,
) -> Iterator[StyledLine]:
    """Yield the plan that takes back an operation as text."""
    is_memory = any(step.step.thread_id is None for step in steps)
    number = counted(sum(step.step.number for step in steps), "item" if is_memory else "thread")
    yield from field(action, f"{operation_text(operation, now)}, {number}", width, "head")
    for step in islice(steps, _SHOWN):
        label = _MEMORY
        if step.step.thread_id is not None:
            label = ""
            yield from field("thread", step.step.thread_id, width, "head")
        if isinstance(step, RefusedStep):
            yield from field("refused", step.error.message, width, "error")
        else:
            yield from field(label, part_text(step.part), width)
            yield from value_lines(step, action)
    if len(steps) > _SHOWN:
        yield from field("", f"and {len(steps) - _SHOWN} more; -o json lists all", width)


def value_lines(step: PlannedStep, action: str) -> Iterator[StyledLine]:
    """Yield which values a step removes or stores."""
    for place, value in zip(step.values, value_records(step, action), strict=True):
        if value["before"] == "restored":
            yield line(("restores ", "add"), *named_value(place))
            continue
        yield line(("removes  ", "remove"), *named_value(place))
        if value["before"] == "unreadable":
            yield line("         the unreadable value is stored again")


CHAIN_COLUMNS = plain_columns("file", "lines", "head", "broken", "torn", "missing_head")


def chain_record(path: Path, chain: Chain, *, is_missing: bool) -> dict[str, Any]:
    """Return the check of an audit file as JSON."""
    return {
        "file": str(path),
        "lines": chain.lines,
        "head": chain.head,
        "broken": {"line": chain.lines + 1, "reason": chain.broken} if chain.broken else None,
        "torn": list(chain.torn),
        "missing_head": is_missing,
    }


def chain_lines(path: Path, chain: Chain, width: int, *, is_missing: bool) -> Iterator[StyledLine]:
    """Yield the check of an audit file as text."""
    yield from field("file", str(path), width, "head")
    yield from field("lines", str(chain.lines), width)
    yield from field("hash", chain.head, width, "id")
    for one in chain.torn:
        yield from field("torn", f"line {one} was cut off when it was written", width, "warn")
    if chain.broken:
        yield from field("broken", f"line {chain.lines + 1}: {chain.broken}", width, "error")
    if is_missing:
        said = "no line has the hash of --head: lines were cut off or changed"
        yield from field("broken", said, width, "error")


def part_text(part: StepPart) -> str:
    """Return what a part of a step does, in words without values."""
    match part:
        case AppliedChange(change):
            return _change_text(change)
        case RowsRemoved(planned):
            what = "the thread: " if planned.action == "remove" else ""
            numbers = ((planned.checkpoints, "checkpoint"), (planned.writes, "write"))
            said = ", ".join(counted(number, noun) for number, noun in numbers if number)
            return f"remove {what}{said or 'orphaned rows'}"
        case RowsRestored(bundle):
            return f"restore from '{bundle}'"
        case RowsAdded():
            return "add rows from another store"
        case ItemsRemoved(items):
            return f"remove {counted(len(items), 'item')} of long-term memory"
        case ItemsRestored(bundle, _, number):
            return f"restore {counted(number, 'item')} of long-term memory from '{bundle}'"
        case ItemsAdded(keys):
            return f"add {counted(len(keys), 'item')} to long-term memory"
        case ItemEdited(key):
            return f"edit item '{key.key}' of long-term memory"


def _change_text(change: Change) -> str:
    added = len(change.checkpoints) + len(change.copies)
    replaced = {(one.checkpoint_ns, one.channel, one.version) for one in change.blobs}
    parts = [
        (len(change.removed or {}), "remove", "checkpoint"),
        (added, "add", "checkpoint"),
        (len(replaced) if not added else 0, "store", "value"),
        (len(set(change.removed_blobs) - replaced) if not change.removed else 0, "remove", "value"),
        (len(change.writes) if not added else 0, "add", "write"),
    ]
    said = [f"{verb} {counted(number, noun)}" for number, verb, noun in parts if number]
    return ", ".join(said) or "change nothing"


def _checkpoints(part: StepPart | None) -> list[str]:
    """Return the checkpoints that a change adds or removes."""
    if not isinstance(part, AppliedChange):
        return []
    keys = [*part.change.added, *(part.change.removed or {})]
    return [
        f"{one.checkpoint_id} in '{one.checkpoint_ns}'" if one.checkpoint_ns else one.checkpoint_id
        for one in keys
    ]


def _names(threads: Iterable[str]) -> str:
    found = list(islice(threads, _NAMED + 1))
    return ", ".join([*found[:_NAMED], *("..." for _ in found[_NAMED:])])
