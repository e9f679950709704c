"""Finds out what a killed run had carried out, and records it: the store tells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from ckpt_backends import shell
from ckpt_backends.changes.bundle import check_bundle
from ckpt_backends.changes.change import Change
from ckpt_backends.changes.rows import compare
from ckpt_backends.errors import CkptError, StoreChanged
from ckpt_backends.memory.protocol import MemoryStore
from ckpt_backends.model import CheckpointKey
from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_memory, open_store
from ckpt_backends.url import StoreUrl
from ckpt_cli.core.retention.purge_plan import PlannedRemoval
from ckpt_cli.operations.audit import AuditFile
from ckpt_cli.operations.claims import Claim, claims
from ckpt_cli.operations.log import OperationLog
from ckpt_cli.operations.memory_parts import ItemsAdded, ItemsRestored, MemoryPart
from ckpt_cli.operations.place import place_of
from ckpt_cli.operations.record import MOST_THREADS, Operation
from ckpt_cli.operations.steps import (
    AppliedChange,
    OperationStep,
    RowsAdded,
    RowsRemoved,
    RowsRestored,
    StepPart,
)
from ckpt_cli.plans.undo_operation import values_at, were_carried_out

_ADDING = (RowsAdded, RowsRestored, ItemsAdded, ItemsRestored)
"""Steps of which only the end of the run records what takes them back."""
_NAMED = 3
"""Maximum number of threads in a command."""
FOUND_LATER = "stopped; found by a later run"
"""Why such an operation ended."""


def settle_runs(log: OperationLog, url: StoreUrl, note: Callable[[str], None]) -> None:
    """Record what killed runs did to a store, and name each operation in a note.

    What cannot be found out now is left for the next run.
    """
    for claim in claims(log, place_of(url)):
        try:
            found = _settled(claim, url)
        except CkptError as error:
            note(f"cannot tell what operation {claim.planned.op} did: {error.message}")
            continue
        if found is not None:
            note(
                f"a run of ckpt was stopped before it recorded its {found.action} of"
                f" {_names(found)}; it is now operation {found.op}"
            )


def _settled(claim: Claim, url: StoreUrl) -> Operation | None:
    """Record an operation. Returns None if it did nothing, or was recorded before."""
    audit = AuditFile(claim.audit_path) if claim.audit_path is not None else None
    for one in claim.log.newest_first():
        if one.op == claim.planned.op:
            _audited(audit, one)
            claim.close(keep=one.keeps_steps)
            return None
    steps = claim.steps()
    done = _carried_out(url, steps)
    done = _without_doubles(done)
    if not done:
        claim.close(keep=False)
        return None
    claim.not_done(steps.keys() - done.keys())
    found = _ended(claim.planned, list(done.values()))
    claim.log.append(found)
    _audited(audit, found)
    claim.close(keep=found.keeps_steps)
    return found


def _carried_out(url: StoreUrl, steps: Mapping[int, OperationStep]) -> dict[int, OperationStep]:
    """Return the steps that were carried out, as far as the store tells."""
    if all(one.thread_id is None for one in steps.values()):
        with open_memory(url) as memory:
            return {number: one for number, one in steps.items() if _is_of_memory(one, memory)}
    with open_store(url) as store:
        return {number: one for number, one in steps.items() if is_carried_out(one, store)}


def _is_of_memory(step: OperationStep, memory: MemoryStore) -> bool:
    """Return whether a memory is as a step leaves it, or no longer as it was before."""
    if isinstance(step.done, MemoryPart):
        return were_carried_out(memory, step.done)
    return not (isinstance(step.back, MemoryPart) and were_carried_out(memory, step.back))


def _audited(audit: AuditFile | None, one: Operation) -> None:
    if audit is not None and not audit.holds(one.op):
        audit.append(one)


def _without_doubles(steps: Mapping[int, OperationStep]) -> dict[int, OperationStep]:
    """Return steps without those that a later one of the same thread takes the place of."""
    found: dict[int, OperationStep] = {}
    for number, one in steps.items():
        same = [
            n for n, two in found.items() if (two.thread_id, two.done) == (one.thread_id, one.done)
        ]
        for n in same if one.thread_id is not None else ():
            del found[n]
        found[number] = one
    return found


def _ended(planned: Operation, steps: list[OperationStep]) -> Operation:
    """Return the operation as it is recorded."""
    threads = dict.fromkeys(one.thread_id for one in steps if one.thread_id is not None)
    added = [
        new.key.checkpoint_id
        for one in steps
        if isinstance(one.done, AppliedChange)
        for new in one.done.change.checkpoints
    ]
    return planned._replace(
        threads=tuple(threads)[:MOST_THREADS],
        number=sum(one.number for one in steps),
        added=tuple(added)[:MOST_THREADS],
        cannot_undo=planned.cannot_undo or _why_not(planned, steps, list(threads)),
        ended=FOUND_LATER,
    )


def _why_not(planned: Operation, steps: Iterable[OperationStep], threads: Sequence[str]) -> str:
    """Return why an operation cannot be taken back, and what to do instead; `''` if it can."""
    lacking = [one for one in steps if one.back is None]
    if not lacking:
        return ""
    if not all(isinstance(one.done, _ADDING) for one in lacking):
        return planned.why_not_kept
    killed = "it was killed before it recorded what it added"
    if any(not isinstance(one.done, RowsAdded) or one.done.checkpoints for one in steps):
        return killed
    named = threads if len(threads) <= _NAMED else ["THREAD"]
    remove = shell.command("ckpt", "-s", planned.store, "threads", "delete", ids=named)
    return f"{killed}; to remove that: {remove}"


def _names(one: Operation) -> str:
    if not one.threads:
        return "long-term memory"
    more = f" and {one.number - 3} more" if one.number > 3 else ""
    return ", ".join(f"'{name}'" for name in one.threads[:3]) + more


def is_carried_out(step: OperationStep, store: Store) -> bool:
    """Return whether the store is as a step leaves it, or no longer as it was before.

    `store` has the rows as they are stored. What it cannot tell counts as carried out.
    """
    done, back = step.done, step.back
    if done is not None:
        return _is_done(done, step.thread_id or "", store)
    return back is None or not _is_done(back, step.thread_id or "", store)


def _is_done(part: StepPart, thread_id: str, store: Store) -> bool:
    match part:
        case AppliedChange(change):
            return is_applied(change, store)
        case RowsRemoved(planned):
            return _is_removed(planned, store)
        case RowsRestored():
            return _is_restored(part, store)
        case RowsAdded(checkpoints, writes):
            size = store.size(thread_id)
            return (size.checkpoints, size.writes) != (checkpoints, writes)
        case _:
            return True


def is_applied(change: Change, store: Store) -> bool:
    """Return whether a change was applied to a store."""
    if change.added:
        return bool(_present(store, change.added))
    if change.removed:
        return len(_present(store, change.removed)) < len(change.removed)
    if change.blobs or change.removed_blobs:
        wanted = {(one.checkpoint_ns, one.channel, one.version): one.value for one in change.blobs}
        places = {*wanted, *change.removed_blobs}
        channels = sorted({channel for _, channel, _ in places})
        stored = values_at(store, change.thread_id, places, channels)
        return all(stored.get(place) == wanted.get(place) for place in places)
    keys = {(one.key, one.task_id, one.idx) for one in change.writes}
    ids = {key.checkpoint_id for key, _, _ in keys}
    writes = store.writes(change.thread_id, checkpoint_ids=ids)
    return any((one.key, one.task_id, one.idx) in keys for one in writes)


def _present(store: Store, keys: Iterable[CheckpointKey]) -> set[CheckpointKey]:
    """Return which of these checkpoints are stored."""
    wanted = list(keys)
    return {
        one.key
        for at in range(0, len(wanted), 200)
        for one in store.checkpoints_at(wanted[at : at + 200])
    }


def _is_removed(planned: PlannedRemoval, store: Store) -> bool:
    removal = planned.removal
    if removal.inside is None:
        # An engine without transactions may have removed a part.
        there = store.threads_with_rows([removal.thread_id])
        return not there or store.size(removal.thread_id).checkpoints < removal.checkpoints
    keys = [
        CheckpointKey(removal.thread_id, ns, one)
        for ns, ids in removal.inside.checkpoints.items()
        for one in ids
    ]
    if keys:
        return len(_present(store, keys)) < len(keys)
    stored = {key for key, _ in store.blobs(removal.thread_id)}
    return not all(one in stored for one in removal.inside.blobs)


def _is_restored(part: RowsRestored, store: Store) -> bool:
    bundle = check_bundle(part.bundle)
    thread_id = bundle.header.thread_id or ""
    try:
        return compare(bundle.rows(), store.rows(thread_id), store.row_key).added == 0
    except StoreChanged:
        return True
