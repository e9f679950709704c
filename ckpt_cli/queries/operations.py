"""Lists what ckpt changed in a store, and in a thread."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from datetime import datetime

from ckpt_backends.errors import Ambiguous, NotFound, Refused
from ckpt_cli.operations.log import Operation, OperationLog, OperationStep, has_steps, steps_of

UNDO, REDO = "undo", "redo"
"""The actions of operations that take back another one."""
_REMOVALS = frozenset({"purge", "gc", "threads delete", "erase"})
"""The actions of operations that remove checkpoints, and with them the past."""
_LIST = "`ckpt ops list` lists the operations"


@dataclass(frozen=True, slots=True)
class ListedOperation:
    """An operation, with what became of it."""

    operation: Operation
    undone_by: str | None
    """The operation that took it back."""
    why_not: str
    """Why it cannot be taken back; `''` if it can."""

    @property
    def op(self) -> str:
        """The id of the operation."""
        return self.operation.op

    @property
    def is_undoable(self) -> bool:
        """Whether it was not taken back, and its steps say how."""
        return not self.why_not


def redacted(one: ListedOperation) -> ListedOperation:
    """Return an operation without the texts that a person wrote."""
    operation = one.operation
    return replace(
        one, operation=operation._replace(reason=None, command=f"ckpt {operation.action} ...")
    )


def operations(log: OperationLog, place: str | None = None) -> Iterator[ListedOperation]:
    """Yield the operations of one store, or of all, the newest first.

    An operation of several threads is undone as soon as all of its steps are: several runs may
    have taken back some of them each.
    """
    taken_back: Counter[str] = Counter()
    by: dict[str, str] = {}
    for one in log.newest_first():
        if place is not None and one.place != place:
            continue
        left = one.number - taken_back.pop(one.op, 0)
        undone_by = by.pop(one.op, None) if left <= 0 else None
        if one.undoes is not None and left > 0:
            taken_back[one.undoes] += left
            by.setdefault(one.undoes, one.op)
        yield ListedOperation(one, undone_by, _why_not(log, one, undone_by))


def _why_not(log: OperationLog, one: Operation, undone_by: str | None) -> str:
    if undone_by is not None:
        return f"it was taken back by operation {undone_by}"
    if one.cannot_undo:
        return one.cannot_undo
    return "" if has_steps(log, one.op) else "its steps are not kept any more, or cannot be read"


def removals_since(log: OperationLog, place: str, moment: datetime) -> list[Operation]:
    """Return the operations after a moment that removed rows, and were not undone, newest first."""
    return [
        one.operation
        for one in operations(log, place)
        if one.operation.at > moment and one.operation.action in _REMOVALS and one.undone_by is None
    ]


def operation_named(log: OperationLog, prefix: str, place: str | None) -> ListedOperation:
    """Return the operation whose id begins with a text. Raises `NotFound` or `Ambiguous`."""
    found = [one for one in operations(log, place) if one.op.startswith(prefix)] if prefix else []
    if not found:
        raise NotFound(f"no operation '{prefix}'", hint=_LIST)
    if len(found) > 1 and found[0].op != prefix:
        named = ", ".join(one.op for one in found[:5])
        raise Ambiguous(f"'{prefix}' names several operations: {named}", hint=_LIST)
    return found[0]


def newest_change(log: OperationLog, place: str) -> ListedOperation:
    """Return the newest operation that is not undone and is no undo itself. Raises `NotFound`."""
    for one in operations(log, place):
        if one.operation.action not in {UNDO, REDO} and one.undone_by is None:
            return one
    why = "no operation on this store is recorded, or all are undone"
    raise NotFound(f"nothing to undo: {why}", hint=_LIST)


def newest_undo(log: OperationLog, place: str) -> ListedOperation:
    """Return the newest undo that was not taken back. Raises `NotFound`."""
    for one in operations(log, place):
        if one.operation.action == UNDO and one.undone_by is None:
            return one
    why = "no undo on this store is recorded, or all are redone"
    raise NotFound(f"nothing to redo: {why}", hint=_LIST)


def undo_of(log: OperationLog, one: ListedOperation) -> ListedOperation:
    """Return the newest undo of an operation, or of some of its threads, that is not taken back.

    Raises `Refused` if there is none: then a redo would undo it.
    """
    for later in operations(log, one.operation.place):
        if later.operation.undoes == one.op and later.undone_by is None:
            return later
    raise Refused(
        f"nothing to redo: operation {one.op} ({one.operation.action}) is not undone",
        hint="`ckpt ops list --action undo` lists what can be redone",
    )


def changes_of_thread(log: OperationLog, place: str, thread_id: str) -> Iterator[ListedOperation]:
    """Yield the operations of a thread that are not undone and are no undo, the newest first.

    An undo or a redo that rolled the thread back, because it was used since, counts as a rollback.
    """
    for one in operations(log, place):
        is_there = one.undone_by is None and _is_change(log, one.operation)
        if is_there and changed(log, one.operation, thread_id):
            yield one


def _is_change(log: OperationLog, one: Operation) -> bool:
    if one.action not in {UNDO, REDO}:
        return True
    if one.action == UNDO or not one.added:
        return bool(one.added)
    # It added again what an undo removed, or rolled the thread back from what an undo added.
    return any(undo.op == one.undoes and undo.added for undo in log.newest_first())


def is_recorded(log: OperationLog, place: str, checkpoint_id: str) -> bool:
    """Return whether an operation in the log added a checkpoint."""
    return any(one.place == place and checkpoint_id in one.added for one in log.newest_first())


def changed(log: OperationLog, one: Operation, thread_id: str) -> bool:
    """Return whether an operation changed a thread."""
    if thread_id in one.threads:
        return True
    if one.number <= len(one.threads) or not has_steps(log, one.op):
        return False
    return any(step.thread_id == thread_id for step in steps_of(log, one.op))


def steps_left(log: OperationLog, op: str) -> list[OperationStep]:
    """Return the steps of an operation that were not taken back, in their order.

    Raises `UsageError` if they are not kept, or damaged.
    """
    return _left(log, op, _undos_of(log))


def _undos_of(log: OperationLog) -> dict[str, list[str]]:
    """Return the operations that take back another one, by its id, the oldest first."""
    found: dict[str, list[str]] = {}
    for one in log.newest_first():
        if one.undoes is not None:
            found.setdefault(one.undoes, []).insert(0, one.op)
    return found


def _left(log: OperationLog, op: str, undos: dict[str, list[str]]) -> list[OperationStep]:
    steps = list(steps_of(log, op))
    for undo in undos.get(op, ()):
        for undone in _left(log, undo, undos):
            back = undone.turned()
            numbers = [n for n, one in enumerate(steps) if one.thread_id == undone.thread_id]
            # A step whose thread was rolled back instead has another one as its undo.
            equal = [n for n in numbers if steps[n] == back] or numbers
            if equal:
                del steps[equal[-1]]
    return steps
