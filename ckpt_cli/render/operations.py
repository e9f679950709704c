"""Print recorded operations, their steps, and the plan that takes one back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

from ckpt_backends import shell
from ckpt_backends.changes import Change
from ckpt_cli.core.forking import DamagedValue
from ckpt_cli.operations import log
from ckpt_cli.plans.proposal import Proposal
from ckpt_cli.plans.undo import Undo
from ckpt_cli.queries.operations import REDO, UNDO, ListedOperation
from ckpt_cli.render.fields import Field, Shape, View, inside, optional
from ckpt_cli.render.plan import PLACE
from ckpt_cli.render.table import AGO, Column, age, plain_columns, when
from ckpt_cli.render.text import StyledLine, Ui, command_field, field, line
from ckpt_cli.render.types import FLAG, INTEGER, TEXT, TIME, one_of
from ckpt_cli.render.values import counted, named_value

_SHOWN = 20
"""Maximum number of threads or steps that are shown as text."""
_NAMED = 3
"""Maximum number of threads that are named in a list."""
_MEMORY = "memory"


OPERATION = Shape(
    "A change that `ckpt` made to a store.",
    Field("op", TEXT, "Id."),
    Field("at", TIME, "When it began.", "operation.at"),
    Field("user", TEXT, "User of the operating system.", "operation.user"),
    Field("store", TEXT, "URL of the store, without secrets.", "operation.store"),
    Field("action", TEXT, "What was done, such as `rollback`.", "operation.action"),
    Field("threads", TEXT.list, "Changed threads, at most 1,000.", "operation.threads"),
    Field("number", INTEGER, "Number of changed threads, or items.", "operation.number"),
    Field("reason", TEXT.or_null, "Reason that was given.", "operation.reason"),
    Field("command", TEXT, "Command line without secrets and values.", "operation.command"),
    Field("undoable", FLAG, "Whether it can be taken back.", "is_undoable"),
    Field("why_not", TEXT.or_null, "Why not.", lambda one: one.why_not or None),
    Field("undone_by", TEXT.or_null, "Operation that took it back."),
    Field("undoes", TEXT.or_null, "Operation that it took back.", "operation.undoes"),
    Field("ended", TEXT.or_null, "Why it stopped early.", lambda one: one.operation.ended or None),
)


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


class ShownOperation(NamedTuple):
    """An operation with its steps."""

    listed: ListedOperation
    steps: Sequence[log.OperationStep]
    words: Sequence[str]
    """The options that name its store."""


STEP = Shape(
    "What was done to one thread, without values.",
    Field("thread_id", TEXT.or_null, "Thread; null for items of memory."),
    Field("did", TEXT.or_null, "What was done.", lambda one: part_text(one.done)),
    Field("undo", TEXT.or_null, "What takes it back.", lambda one: part_text(one.back)),
    Field(
        "checkpoints",
        TEXT.list,
        "Checkpoints that were added or removed.",
        lambda one: _checkpoints(one.done),
    ),
    Field(
        "archive",
        TEXT.or_null,
        "Archive from which it is taken back.",
        lambda one: str(one.back.bundle) if isinstance(one.back, log.RowsRestored) else None,
    ),
)
SHOWN_OPERATION = Shape(
    "An operation with its steps.",
    *inside("listed", *OPERATION),
    Field("steps", STEP.list, "What was done to each thread."),
)


def shown_lines(found: ShownOperation, ui: Ui) -> Iterator[StyledLine]:
    """Yield an operation as text."""
    one, steps, words = found
    now, zone, width = ui.now, ui.zone, ui.width
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
            yield from field(label, part_text(step.done) or "", width)
        for place in _checkpoints(step.done)[:_SHOWN]:
            yield from field("", place, width, "id")
        if isinstance(step.back, log.RowsRestored):
            yield from field("archive", str(step.back.bundle), width)
    if len(steps) > _SHOWN:
        yield from field("", f"and {len(steps) - _SHOWN} more; -o json lists all", width)
    if one.is_undoable:
        undo = shell.command("ckpt", *words, "undo", ids=[operation.op])
        yield command_field("undo", undo)
    else:
        yield from field("no undo", one.why_not, width, "warn")


OPERATION_VIEW = View(
    SHOWN_OPERATION.record,
    shown_lines,
    lambda found: map(STEP.record, found.steps),
    STEP.columns("thread_id", "did", "undo"),
)


def operation_text(one: log.Operation, now: datetime) -> str:
    """Return the name of an operation and its age: `rollback 3f2a9c0b7d41, 2 minutes ago`."""
    return f"{one.action} {one.op}, {age(one.at, now)} ago"


class _ShownStep(NamedTuple):
    one: Proposal
    action: str


class ShownUndo(NamedTuple):
    """What takes back an operation."""

    undo: Undo
    named: log.Operation
    """The operation as a person calls it."""
    dry_run: bool

    @property
    def steps(self) -> list[_ShownStep]:
        """What is done to each thread."""
        return [_ShownStep(one, self.undo.action) for one in self.undo.proposals]


PLACED_VALUE = Shape(
    "A value that is removed, or stored again.",
    *inside("place", *PLACE),
    Field(
        "before",
        one_of("missing", "unreadable", "restored"),
        "What it was before the repair that is undone; `restored` for a redo.",
    ),
)
UNDO_STEP = Shape(
    "What is done to one thread.",
    Field("thread_id", TEXT.or_null, "Thread; null for items of memory.", "one.thread_id"),
    Field("does", TEXT.or_null, "What is done.", lambda found: _does(found.one)),
    Field(
        "refused",
        TEXT.or_null,
        "Why it cannot be taken back.",
        lambda found: None if found.one.error is None else found.one.error.message,
    ),
    optional(
        "values",
        PLACED_VALUE.list,
        "Values that are removed, or stored again.",
        lambda found: placed_values(found.one, found.action),
    ),
)
UNDO_PLAN = Shape(
    "What takes back an operation.",
    Field("action", one_of(UNDO, REDO), "What is done.", "undo.action"),
    Field("undoes", TEXT, "Operation that is taken back.", "undo.undoes"),
    Field("threads", UNDO_STEP.list, "What is done to each thread.", "steps"),
    Field("dry_run", FLAG, "Whether nothing was written."),
)


def _does(step: Proposal) -> str | None:
    return None if step.step is None else part_text(step.step.done)


class _PlacedValue(NamedTuple):
    place: DamagedValue
    before: str


def placed_values(step: Proposal, action: str) -> list[_PlacedValue]:
    """Return the values that a step removes or stores, with what was there before."""
    if step.change is None:
        return []
    stored = {one.place for one in step.change.blobs}
    # Only unreadable values are replaced.
    there = "restored" if action == REDO else "unreadable"
    return [
        _PlacedValue(
            one, there if (one.checkpoint_ns, one.channel, one.version) in stored else "missing"
        )
        for one in step.values
    ]


def _undo_rows(found: ShownUndo) -> Iterator[dict[str, Any]]:
    """Yield one row per thread, or per value of a thread where values are removed or stored."""
    for step in map(UNDO_STEP.record, found.steps):
        for value in step.get("values") or [{}]:
            yield {**step, **value}


def undo_view(undo: Undo) -> View:
    """Return how the plan that takes back an operation is printed."""
    has_values = any(one.values for one in undo.proposals)
    columns = plain_columns(
        *("thread_id", "does", "refused"), *(PLACED_VALUE.fields if has_values else ())
    )
    return View(UNDO_PLAN.record, undo_plan_lines, _undo_rows, columns)


def undo_plan_lines(found: ShownUndo, ui: Ui) -> Iterator[StyledLine]:
    """Yield the plan that takes back an operation as text."""
    steps, action, width = found.undo.proposals, found.undo.action, ui.width
    is_memory = any(step.thread_id is None for step in steps)
    number = counted(sum(step.number for step in steps), "item" if is_memory else "thread")
    yield from field(action, f"{operation_text(found.named, ui.now)}, {number}", width, "head")
    for step in islice(steps, _SHOWN):
        label = _MEMORY
        if step.thread_id is not None:
            label = ""
            yield from field("thread", step.thread_id, width, "head")
        if step.error is not None:
            yield from field("refused", step.error.message, width, "error")
        else:
            yield from field(label, _does(step) or "", width)
            yield from value_lines(step, action)
    if len(steps) > _SHOWN:
        yield from field("", f"and {len(steps) - _SHOWN} more; -o json lists all", width)


def value_lines(step: Proposal, action: str) -> Iterator[StyledLine]:
    """Yield which values a step removes or stores."""
    for place, before in placed_values(step, action):
        if before == "restored":
            yield line(("restores ", "add"), *named_value(place))
            continue
        yield line(("removes  ", "remove"), *named_value(place))
        if before == "unreadable":
            yield line("         the unreadable value is stored again")


class ShownChain(NamedTuple):
    """The check of an audit file."""

    path: Path
    chain: log.Chain
    is_missing: bool
    """Whether no line has the hash that was given."""

    @property
    def broken(self) -> ShownChain | None:
        """Itself if the chain is broken."""
        return self if self.chain.broken else None


CHAIN = Shape(
    "The check of an audit file.",
    Field("file", TEXT, "Path.", lambda found: str(found.path)),
    Field("lines", INTEGER, "Number of sound lines.", "chain.lines"),
    Field("head", TEXT, "SHA-256 of the last of them.", "chain.head"),
    Field(
        "broken",
        Shape(
            "The first line that is not sound.",
            Field("line", INTEGER, "Its number.", lambda found: found.chain.lines + 1),
            Field("reason", TEXT, "What is wrong with it.", "chain.broken"),
        ).or_null,
        "The first line that is not sound.",
    ),
    Field("torn", INTEGER.list, "Lines that were cut off when written.", "chain.torn"),
    Field("missing_head", FLAG, "Whether no line has the hash of --head.", "is_missing"),
)


def chain_lines(found: ShownChain, ui: Ui) -> Iterator[StyledLine]:
    """Yield the check of an audit file as text."""
    (path, chain, is_missing), width = found, ui.width
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


CHAIN_VIEW = View(CHAIN.record, chain_lines, lambda found: [CHAIN.record(found)], CHAIN.columns())


def part_text(part: log.StepPart | None) -> str | None:
    """Return what a part of a step does, in words without values; None if there is none."""
    match part:
        case None:
            return None
        case log.AppliedChange(change):
            return _change_text(change)
        case log.RowsRemoved(planned):
            what = "the thread: " if planned.action == "remove" else ""
            numbers = ((planned.checkpoints, "checkpoint"), (planned.writes, "write"))
            said = ", ".join(counted(number, noun) for number, noun in numbers if number)
            return f"remove {what}{said or 'orphaned rows'}"
        case log.RowsRestored(bundle):
            return f"restore from '{bundle}'"
        case log.RowsAdded():
            return "add rows from another store"
        case log.ItemsRemoved(items):
            return f"remove {counted(len(items), 'item')} of long-term memory"
        case log.ItemsRestored(bundle, _, number):
            return f"restore {counted(number, 'item')} of long-term memory from '{bundle}'"
        case log.ItemsAdded(keys):
            return f"add {counted(len(keys), 'item')} to long-term memory"
        case log.ItemEdited(key):
            return f"edit item '{key.key}' of long-term memory"


def _change_text(change: Change) -> str:
    added = len(change.checkpoints) + len(change.copies)
    replaced = {one.place for one in change.blobs}
    parts = [
        (len(change.removed or {}), "remove", "checkpoint"),
        (added, "add", "checkpoint"),
        (len(replaced) if not added else 0, "store", "value"),
        (len(set(change.removed_blobs) - replaced) if not change.removed else 0, "remove", "value"),
        (len(change.writes) if not added else 0, "add", "write"),
    ]
    said = [f"{verb} {counted(number, noun)}" for number, verb, noun in parts if number]
    return ", ".join(said) or "change nothing"


def _checkpoints(part: log.StepPart | None) -> list[str]:
    """Return the checkpoints that a change adds or removes."""
    if not isinstance(part, log.AppliedChange):
        return []
    keys = [*part.change.added, *(part.change.removed or {})]
    return [
        f"{one.checkpoint_id} in '{one.checkpoint_ns}'" if one.checkpoint_ns else one.checkpoint_id
        for one in keys
    ]


def _names(threads: Iterable[str]) -> str:
    found = list(islice(threads, _NAMED + 1))
    return ", ".join([*found[:_NAMED], *("..." for _ in found[_NAMED:])])
