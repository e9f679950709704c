"""Plans what takes back a change."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple, Protocol

from ckpt_backends import model, shell
from ckpt_backends.archive import Bundle, check_bundle
from ckpt_backends.changes import GONE, Change
from ckpt_backends.codec import decode, to_json
from ckpt_backends.codec.values import Opaque, Value
from ckpt_backends.errors import CkptError, NotFound, Refused, StoreChanged, UsageError
from ckpt_backends.memory import Item, ItemKey, MemoryStore, check_unchanged
from ckpt_backends.model import Kind
from ckpt_backends.protocol import Store
from ckpt_backends.registry import open_memory
from ckpt_backends.rows import compare
from ckpt_backends.transfer.copying import records_of_rows
from ckpt_cli.core import state
from ckpt_cli.core.diff import diff_channels
from ckpt_cli.core.forking import CheckpointPlan, DamagedValue, TouchedCheckpoint
from ckpt_cli.core.memory import format_key
from ckpt_cli.core.retention import PlannedRemoval
from ckpt_cli.operations.log import (
    AppliedChange,
    ItemEdited,
    ItemsAdded,
    ItemsRemoved,
    ItemsRestored,
    MemoryPart,
    Operation,
    OperationLog,
    OperationStep,
    RowsRemoved,
    RowsRestored,
    place_of,
)
from ckpt_cli.plans.fork import RollbackOptions, check_store, finished_nodes, heads_of, named
from ckpt_cli.plans.proposal import Proposal
from ckpt_cli.plans.rollback import plan_rollback
from ckpt_cli.queries.operations import (
    REDO,
    UNDO,
    ListedOperation,
    changes_of_thread,
    is_recorded,
    operation_named,
    steps_left,
)
from ckpt_cli.reading.states import read_state
from ckpt_cli.reading.store import Opening
from ckpt_cli.reading.target import find_thread
from ckpt_cli.reading.thread import ThreadReader

_MOST_REMOVED = 1000
_MOST_BYTES = 64 << 20
"""A change that removes more than this removes a whole copy, which can be made again instead."""


def reversal_of(change: Change, rows: Store) -> Change | None:
    """Return the change that takes a change back; None if it cannot hold what is removed.

    `rows` is the store before the change, without decryption or redaction. The heads of the result
    are those that a removal leaves; the present ones are filled in when it is applied.
    """
    removed = change.removed or {}
    if removed and _cannot_be_held(change, rows):
        return None
    heads = _remaining(change, rows) if removed else {}
    checkpoints, writes = _content_of(change.thread_id, removed, rows)
    return Change(
        change.thread_id,
        heads,
        checkpoints=tuple(one.record() for one in checkpoints),
        writes=tuple(one.record() for one in writes),
        blobs=tuple(_blobs_of(change, checkpoints, heads, rows)),
        removed=dict(_added(change, rows)) or None,
        removed_blobs=tuple(one.place for one in change.blobs),
    )


def replaced_values(change: Change) -> set[model.BlobKey]:
    """Return the unreadable values that a change replaces."""
    return {one.place for one in change.blobs}.intersection(change.removed_blobs)


def check_unreadable(replaced: Collection[model.BlobKey], back: Change) -> None:
    """Raise `StoreChanged` unless `back` holds these values, and all are still unreadable."""
    held = {one.place: one.value for one in back.blobs}
    if not all(place in held and isinstance(decode(held[place]), Opaque) for place in replaced):
        raise StoreChanged(
            f"values of thread '{back.thread_id}' changed meanwhile, so nothing was written",
            hint="run the command again",
        )


def _cannot_be_held(change: Change, rows: Store) -> bool:
    if model.Capability.VALUES_ONLY in rows.capabilities:
        return True  # what is read of its checkpoints is not what is stored
    if len(change.removed or {}) > _MOST_REMOVED:
        return True
    return rows.size(change.thread_id).bytes > _MOST_BYTES and not _remaining(change, rows)


def _remaining(change: Change, rows: Store) -> dict[str, str]:
    """Return the heads that a removal leaves; none if it removes a whole thread."""
    heads: dict[str, str] = {}
    for one in rows.checkpoints(change.thread_id):
        if one.key not in (change.removed or {}):
            heads.setdefault(one.key.checkpoint_ns, one.key.checkpoint_id)
    return heads


def _added(change: Change, rows: Store) -> Counter[model.CheckpointKey]:
    """Return the checkpoints that a change adds, with their numbers of writes."""
    found = Counter({one.key: 0 for one in change.checkpoints})
    for write in change.writes:
        found[write.key] += 1
    for copied in change.copies_of_writes:
        found[copied.target] += len(copied.tasks)
    if not change.copies:
        return found
    source = change.copies[0].source.thread_id
    stored = Counter(write.key for write in rows.writes(source))
    for copy in change.copies:
        key = model.CheckpointKey(
            change.thread_id, copy.source.checkpoint_ns, copy.source.checkpoint_id
        )
        found[key] += stored[copy.source] if copy.writes is None else len(copy.writes)
    return found


def _content_of(
    thread_id: str, removed: Mapping[model.CheckpointKey, int], rows: Store
) -> tuple[list[model.Checkpoint], list[model.Write]]:
    if not removed:
        return [], []
    ids = [key.checkpoint_id for key in removed]
    found = rows.checkpoints(thread_id, checkpoint_ids=ids, body=True, metadata=True)
    checkpoints = [one for one in found if one.key in removed]
    # A checkpoint is added before its children.
    checkpoints.sort(key=lambda one: one.key.checkpoint_id)
    writes = rows.writes(thread_id, checkpoint_ids=ids, values=True)
    return checkpoints, [one for one in writes if one.key in removed]


def _blobs_of(
    change: Change, removed: list[model.Checkpoint], heads: Mapping[str, str], rows: Store
) -> Iterator[model.Record]:
    """Yield the values that a change removes or replaces, as they are stored.

    Without any remaining head, these are all values of the thread.
    """
    wanted = set(change.removed_blobs)
    if removed and not heads:
        wanted.update(*map(state.named_blobs, removed))
    channels = {one.channel for one in wanted}
    if not wanted:
        return
    keys = [one.key for one in removed]
    found = (
        rows.checkpoints_at(keys, body=True, values=channels)
        if keys
        else rows.checkpoints(change.thread_id, body=True, values=channels)
    )
    for place, value in _stored_values(found, wanted):
        yield model.Record.apart(change.thread_id, *place, value)


def _stored_values(
    found: Iterable[model.Checkpoint], wanted: Iterable[model.BlobKey]
) -> Iterator[tuple[model.BlobKey, model.TypedBytes]]:
    """Yield those of some values that checkpoints name and hold, until none is left."""
    left = set(wanted)
    for one in found:
        for place in sorted(state.named_blobs(one) & left):
            blob = (one.blobs or {}).get(place.channel)
            if blob is not None and blob.value is not None:
                left.discard(place)
                yield place, blob.value
        if not left:
            return


class Stores(Protocol):
    """One store, opened in each way that a change of it needs."""

    @property
    def store(self) -> Store:
        """As it is read: with redaction, if that is wanted."""
        ...

    @property
    def rows(self) -> Store:
        """As it is stored."""
        ...

    @property
    def editable(self) -> Store:
        """As it is stored, decrypted; what is made of it is encrypted again."""
        ...

    @property
    def now(self) -> datetime:
        """The time of the change."""
        ...

    @property
    def opening(self) -> Opening:
        """How it is opened."""
        ...


class Undo(NamedTuple):
    """What takes back a change."""

    found: ListedOperation | None
    """The operation; None if only the thread tells what to take back."""
    proposals: list[Proposal]
    undoes: str | None = None
    """The id of the operation, if it is recorded."""

    @property
    def action(self) -> str:
        """`undo`, or `redo` for what takes back an undo."""
        return REDO if self.found is not None and self.found.operation.action == UNDO else UNDO

    @property
    def single(self) -> Proposal | None:
        """The only proposal, if it has a plan."""
        return self.proposals[0] if self.proposals and self.proposals[0].plan is not None else None


def undo_of_thread(
    stores: Stores, thread_id: str, note: Callable[[str], None], *, force: bool = False
) -> Undo:
    """Plan to take back the last change of a thread, as the log or the thread itself tells it.

    Raises `NotFound` if there is neither, and what `undo_of_operation` raises.
    """
    recorded = last_change(stores, thread_id, note)
    try:
        reader = find_thread(stores.store, thread_id, note)
    except NotFound:
        if recorded is None:
            raise
    else:
        is_lost = recorded is not None and _has_lost_steps(reader, recorded)
        if recorded is None or is_lost or _has_newer(stores, reader, recorded):
            plan = plan_undo(reader, stores.editable, stores.now, force=force)
            undoes = recorded.op if is_lost and recorded is not None else None
            return Undo(None, [Proposal.of(plan)], undoes)
    return undo_of_operation(stores, recorded, thread_id, force=force)


def undo_of_operation(
    stores: Stores,
    found: ListedOperation,
    thread_id: str | None = None,
    *,
    force: bool = False,
    watch: Callable[[Iterator[Proposal], int], Iterable[Proposal]] = lambda found, _: found,
) -> Undo:
    """Plan to take back an operation, or only what it did to a thread.

    `watch` follows the planning of many threads. Raises `Refused` if it cannot be taken back.
    """
    undo = Undo(found, [], found.op)
    if not found.is_undoable:
        hint = "`ckpt ops list` lists earlier operations; `ckpt undo OP` takes back one"
        if undo.action == REDO:
            hint = f"`ckpt ops show {original_of(found).op}` shows the original command"
        raise Refused(f"cannot {undo.action} operation {found.op}: {found.why_not}", hint=hint)
    steps = [
        one
        for one in steps_left(OperationLog.of_user(), found.op)
        if thread_id is None or one.thread_id == thread_id
    ]
    if not steps:
        where = "" if thread_id is None else f" in thread '{thread_id}'"
        raise Refused(f"nothing of operation {found.op} is left to take back{where}")
    is_redo = undo.action == REDO
    if steps[0].thread_id is None:
        with open_memory(stores.opening.url) as memory:
            return undo._replace(proposals=list(planned_items(steps, memory, is_redo=is_redo)))
    if len(steps) == 1 and (reader := _newest_of(stores.store, steps[0])) is not None:
        plan = plan_undo(reader, stores.editable, stores.now, force=force)
        return undo._replace(proposals=[_recorded(plan, undo.action, steps[0], stores.rows)])
    planned = planned_steps(steps, stores.store, stores.rows, is_redo=is_redo)
    return undo._replace(proposals=list(watch(planned, len(steps))))


def original_of(found: ListedOperation) -> Operation:
    """Return the operation that a person means: a redo is of what the undo took back."""
    original = found.operation.undoes
    if found.operation.action == UNDO and original is not None:
        with suppress(NotFound):
            return operation_named(OperationLog.of_user(), original, None).operation
    return found.operation


def _recorded(plan: CheckpointPlan, action: str, step: OperationStep, rows: Store) -> Proposal:
    """Return the undo of the newest checkpoint that `ckpt` added, by the step that added it."""
    if action == REDO:
        plan = replace(plan, action="redo")
    back = step.back.change.removed if isinstance(step.back, AppliedChange) else None
    is_removal = (plan.change.removed or {}).keys() == (back or {}).keys()
    turned = turned_now(step, plan.change, rows) if is_removal else None
    return Proposal.of(plan, step=turned)


def last_change(
    stores: Stores, thread_id: str, note: Callable[[str], None]
) -> ListedOperation | None:
    """Return the newest recorded operation of a thread that is not undone.

    Without a log that can be read, the thread alone tells.
    """
    try:
        log = OperationLog.of_user()
        for one in changes_of_thread(log, place_of(stores.opening.url), thread_id):
            if not one.is_undoable or _is_there(stores.store, steps_left(log, one.op), thread_id):
                return one
    except UsageError as error:
        note(f"{error.message}; what is undone is found in the thread itself")
    return None


def _is_there(store: Store, steps: Iterable[OperationStep], thread_id: str) -> bool:
    """Return whether the store has what these steps added to a thread, if they added anything.

    The store may be restored from a backup, or another user took the change back.
    """
    added = [
        key
        for one in steps
        if one.thread_id == thread_id and isinstance(one.done, AppliedChange)
        for key in one.done.change.added
    ]
    return not added or any(True for _ in store.checkpoints_at(added[:1]))


def _has_lost_steps(reader: ThreadReader, recorded: ListedOperation) -> bool:
    """Return whether an operation added the newest checkpoint by `ckpt`, but its steps are gone."""
    added = _newest_id(reader)
    return not recorded.is_undoable and added is not None and added in recorded.operation.added


def _has_newer(stores: Stores, reader: ThreadReader, recorded: ListedOperation) -> bool:
    """Return whether the thread has a newer change by ckpt that is not recorded here."""
    added = _newest_id(reader)
    at = None if added is None else model.time_of(added)
    if added is None or (at is not None and at <= recorded.operation.at):
        return False
    return not is_recorded(OperationLog.of_user(), place_of(stores.opening.url), added)


def _newest_id(reader: ThreadReader) -> str | None:
    """Return the newest checkpoint that `ckpt` added; None if there is none."""
    with suppress(NotFound):
        return newest_added(reader).key.checkpoint_id
    return None


def _newest_of(store: Store, step: OperationStep) -> ThreadReader | None:
    """Return the thread of a step if that added the newest checkpoint that `ckpt` added to it."""
    if not isinstance(step.done, AppliedChange):
        return None
    change = step.done.change
    with suppress(NotFound):
        reader = ThreadReader(store, change.thread_id)
        return reader if newest_added(reader).key in change.added else None
    return None


def planned_steps(
    steps: Sequence[OperationStep], store: Store, rows: Store, *, is_redo: bool = False
) -> Iterator[Proposal]:
    """Yield what takes back each step, the last one first.

    `rows` has the rows of the store as they are stored. The errors of a redo are named after it.
    """
    for one in reversed(steps):
        yield _planned(one, lambda one: planned_step(one, store, rows), is_redo=is_redo)


def planned_items(
    steps: Sequence[OperationStep], memory: MemoryStore, *, is_redo: bool = False
) -> Iterator[Proposal]:
    """Yield what takes back each step on long-term memory, the last one first."""

    def plan(one: OperationStep) -> Proposal:
        item_to_take_back(memory, one)
        return Proposal(None, one.turned(), takes_back=one)

    for one in reversed(steps):
        yield _planned(one, plan, is_redo=is_redo)


def _planned(
    step: OperationStep, plan: Callable[[OperationStep], Proposal], *, is_redo: bool
) -> Proposal:
    try:
        return plan(step)
    except CkptError as error:
        if is_redo:
            error.message = error.message.replace("cannot undo:", "cannot redo:", 1)
        return Proposal(step.thread_id, takes_back=step).skipped(error)


def planned_step(step: OperationStep, store: Store, rows: Store) -> Proposal:
    """Return what takes back a step.

    Raises `Refused` or `StoreChanged` with the reason if the thread was used since.
    """
    match step.back:
        case AppliedChange(change):
            done = step.done.change if isinstance(step.done, AppliedChange) else None
            now = change_now(change, done, store, rows)
            turned, values = turned_now(step, now, rows), _values_of(now, rows)
            return Proposal(step.thread_id, turned, takes_back=step, values=values)
        case RowsRemoved(planned):
            check_removal(planned, store)
            return Proposal(step.thread_id, step.turned(), takes_back=step)
        case RowsRestored():
            bundle = checked_bundle(step, rows)
            turned = step.turned()
            if isinstance(turned.back, RowsRemoved):
                again = RowsRemoved(after_restoring(turned.back.planned, store))
                turned = replace(turned, back=again)
            return Proposal(step.thread_id, turned, takes_back=step, bundle=bundle)
        case _:
            raise Refused("cannot undo: what it replaced was not kept")


def turned_now(step: OperationStep, change: Change, rows: Store) -> OperationStep:
    """Return what is carried out and recorded when a change takes back a step.

    It holds what is removed: what it was made from may be gone when it is made again.
    """
    again = reversal_of(change, rows)
    back = step.done if again is None else AppliedChange(again)
    return OperationStep(step.thread_id, AppliedChange(change), back)


def change_now(change: Change, done: Change | None, store: Store, rows: Store) -> Change:
    """Return a recorded change with the thread's present heads.

    `done` is the change that it takes back. Raises `Refused` with the reason if something later
    depends on what is removed, or what was added is not there any more.
    """
    try:
        reader = ThreadReader(store, change.thread_id)
    except NotFound as error:
        if change.removed or change.heads:
            raise Refused(f"cannot undo: thread '{change.thread_id}' is gone") from error
        return replace(change, heads={})
    if change.removed and (why := dependent(reader, change)):
        raise Refused(f"cannot undo: {why}")
    if done is not None and (why := changed_values(rows, done)):
        raise Refused(f"cannot undo: {why}")
    if change.added and not change.heads:
        raise Refused(f"cannot undo: thread '{change.thread_id}' exists already")
    present = {one.key for one in store.checkpoints(change.thread_id)}
    if any(one.key in present for one in change.checkpoints):
        raise Refused("cannot undo: its checkpoints are there already")
    return replace(change, heads=heads_of(reader))


def dependent(reader: ThreadReader, change: Change) -> str:
    """Return what depends on what a change removes, in words; `''` if nothing does."""
    removed = change.removed or {}
    found = {one.key: one for one in reader.checkpoints(metadata=True)}
    for key in removed:
        if key not in found:
            return f"checkpoint {key.checkpoint_id} is gone"
    ids = {key.checkpoint_id for key in removed}
    for key, one in found.items():
        if key in removed:
            continue
        if one.parent_checkpoint_id in ids:
            return f"checkpoint {key.checkpoint_id} follows"
        if state.read_metadata(one).get(state.FROM) in ids:
            return f"checkpoint {key.checkpoint_id} is a copy of it"
    writes = Counter(one.key for one in reader.writes(ids=ids))
    for key, number in removed.items():
        if writes[key] != number:
            return f"tasks stored writes at checkpoint {key.checkpoint_id}"
    return _naming(reader, found.keys() - removed.keys(), set(change.removed_blobs))


def _naming(
    reader: ThreadReader, others: Collection[model.CheckpointKey], blobs: Collection[model.BlobKey]
) -> str:
    """Return which other checkpoint names one of these values, in words."""
    if not blobs:
        return ""
    for one in reader.checkpoints(body=True):
        used = state.named_blobs(one).intersection(blobs) if one.key in others else ()
        for place in used:
            return f"checkpoint {one.key.checkpoint_id} uses its value of '{place.channel}'"
    return ""


def changed_values(rows: Store, done: Change) -> str:
    """Return which values that a change stored apart have changed since; `''` if none has.

    Marks of channels without a value are not read, and not compared.
    """
    wanted = {one.place: one.value for one in done.blobs if one.value.type != "empty"}
    if not wanted:
        return ""
    stored = values_at(rows, done.thread_id, wanted)
    changed = [place.channel for place, value in wanted.items() if stored.get(place) != value]
    if not changed:
        return ""
    return f"the values of {', '.join(repr(one) for one in dict.fromkeys(changed))} changed since"


def values_at(
    rows: Store, thread_id: str, places: Collection[model.BlobKey]
) -> dict[model.BlobKey, model.TypedBytes]:
    """Return those of some values that are stored apart."""
    channels = sorted({one.channel for one in places})
    found = rows.checkpoints(thread_id, body=True, values=channels)
    return dict(_stored_values(found, places))


def _values_of(change: Change, rows: Store) -> tuple[DamagedValue, ...]:
    """Return the values that a change removes or stores; none if it also changes checkpoints."""
    if change.added or change.removed:
        return ()
    wanted = {*change.removed_blobs, *(one.place for one in change.blobs)}
    if not wanted:
        return ()
    found: dict[model.BlobKey, DamagedValue] = {}
    stored = rows.checkpoints(change.thread_id, body=True, metadata=True)
    for one in sorted(stored, key=lambda one: one.key.checkpoint_id):
        step = state.read_metadata(one).get("step")
        for place in sorted(state.named_blobs(one) & wanted - found.keys()):
            ns, channel, version = place
            found[place] = DamagedValue(
                ns, one.key.checkpoint_id, step if isinstance(step, int) else None, channel, version
            )
    return tuple(found.values())


def check_removal(planned: PlannedRemoval, store: Store) -> None:
    """Raise `StoreChanged` if a thread is not as the removal of its rows expects."""
    removal = planned.removal
    thread, size = store.thread(removal.thread_id), store.size(removal.thread_id)
    at = None if thread is None else thread.last_at
    if why := removal.reason_to_skip(at, size.checkpoints, size.writes):
        why = why if why == GONE else "was used since"
        raise StoreChanged(f"cannot undo: thread '{removal.thread_id}' {why}")


def after_restoring(planned: PlannedRemoval, store: Store) -> PlannedRemoval:
    """Return a removal that expects the thread as it is once what it removed is restored."""
    removal = planned.removal
    thread, size = store.thread(removal.thread_id), store.size(removal.thread_id)
    if thread is None:
        return planned
    ids = removal.inside.checkpoints.values() if removal.inside is not None else ()
    times = [thread.last_at, *(model.time_of(one) for some in ids for one in some)]
    known = [one for one in times if one is not None]
    return replace(
        planned,
        removal=removal._replace(
            last_at=max(known) if thread.last_at is not None else None,
            checkpoints=size.checkpoints + planned.checkpoints,
            writes=size.writes + planned.writes,
        ),
    )


def checked_bundle(step: OperationStep, rows: Store) -> Bundle:
    """Return the archive that a step is taken back from.

    Raises `Refused` if it is missing or another one, `StoreChanged` if the thread was used since.
    """
    back = step.back
    if not isinstance(back, RowsRestored):
        raise TypeError(type(back))
    bundle = recorded_archive(back)
    if isinstance(step.done, RowsRemoved):
        check_removed(step.done.planned, bundle, rows)
    # Raises `StoreChanged` if a row is there with other contents.
    compare(bundle.rows(), rows.rows(step.thread_id or ""), rows.row_key)
    return bundle


def check_removed(planned: PlannedRemoval, bundle: Bundle, rows: Store) -> None:
    """Raise `Refused` if a restore would not just put back what a removal removed."""
    removal = planned.removal
    present = {one.key for one in rows.checkpoints(removal.thread_id)}
    why = ""
    if removal.inside is None:
        why = "exists again" if present else ""
    else:
        removed = {
            model.CheckpointKey(removal.thread_id, ns, one)
            for ns, ids in removal.inside.checkpoints.items()
            for one in ids
        }
        archived = {
            record.key
            for record in records_of_rows(bundle.header.layout, bundle.rows())
            if record.kind is Kind.CHECKPOINT
        }
        if present & removed:
            why = "has removed checkpoints again"
        elif archived - removed - present:
            why = "lost other checkpoints since"
    if why:
        raise Refused(
            f"cannot undo: thread '{removal.thread_id}' {why}",
            hint=f"`ckpt import {shell.word(str(bundle.path))}` adds all that is missing",
        )


def item_to_take_back(memory: MemoryStore, step: OperationStep) -> Item | None:
    """Check that a step can be taken back; return the item if fields of one are to be set.

    Raises `StoreChanged` if an item was used since, and `Refused` if the archive of removed items
    is not there any more.
    """
    match step.back:
        case ItemsRemoved(items):
            found = _found(memory, [one.key for one in items])
            for one in items:
                try:
                    check_unchanged(one, found.get(one.key))
                except StoreChanged as error:
                    raise _used(one.key) from error
        case ItemsRestored() as part:
            recorded_archive(part)
        case ItemEdited(key):
            item = _found(memory, [key]).get(key)
            fields = step.done.fields if isinstance(step.done, ItemEdited) else {}
            if item is None or not _has_fields(item, fields):
                raise _used(key)
            return item
        case _:
            raise Refused("cannot undo: what it replaced was not kept")
    return None


def _used(key: ItemKey) -> StoreChanged:
    return StoreChanged(f"cannot undo: item '{format_key(key)}' was used since")


def recorded_archive(part: RowsRestored | ItemsRestored) -> Bundle:
    """Return the archive that a step names. Raises `Refused` if it is missing or another one."""
    try:
        bundle = check_bundle(part.bundle)
    except CkptError as error:
        raise Refused(f"cannot undo: {error.message}", hint=error.hint) from error
    if bundle.digest != part.digest:
        command = "import" if isinstance(part, RowsRestored) else "memory import"
        raise Refused(
            f"cannot undo: '{part.bundle}' is not the archive that was written then",
            hint=f"`ckpt {command}` restores it all the same",
        )
    return bundle


def were_carried_out(memory: MemoryStore, part: MemoryPart) -> bool:
    """Return whether a store is as it is after a part was carried out."""
    match part:
        case ItemsRemoved(items):
            return not _found(memory, [one.key for one in items])
        case ItemsRestored():
            keys = {memory.key_of(row) for row in recorded_archive(part).rows()}
            return len(_found(memory, list(keys))) == len(keys)
        case ItemsAdded(keys):
            return bool(_found(memory, keys))
        case ItemEdited(key, fields):
            found = _found(memory, [key])
            return key in found and _has_fields(found[key], fields)


def _found(memory: MemoryStore, keys: Sequence[ItemKey]) -> dict[ItemKey, Item]:
    """Return those of some items that a store has, with their values."""
    found = {one.key: one for one in memory.items(keys=keys, values=True)}
    # In a file that is not in WAL mode, an open read would block the writer.
    memory.refresh()
    return found


def _has_fields(item: Item, fields: Mapping[str, Any]) -> bool:
    """Return whether the fields of an item have these values."""
    value = None if item.value is None else to_json(decode(item.value))
    if not isinstance(value, dict):
        return False
    return all(name in value and value[name] == one for name, one in fields.items())


def plan_undo(reader: ThreadReader, rows: Store, now: datetime, *, force: bool) -> CheckpointPlan:
    """Plan to undo the newest rollback or fork on the head's branch.

    If nothing followed it, its rows are removed, and the thread is as before. Otherwise later
    checkpoints need them: then the plan rolls back to the previous head. Raises `NotFound` if there
    is nothing to undo, and everything that `plan_rollback` raises.
    """
    check_store(rows)
    added = newest_added(reader)
    if state.THREAD in state.read_metadata(added):
        return _plan_removal(reader, added)
    before = _head_before(reader, added)
    parts = _parts(reader, added)
    if why := _built_on(reader, parts):
        options = RollbackOptions(reason=f"undo of {added.key.checkpoint_id}", force=force)
        back = plan_rollback(reader, rows, before, now, options)
        return _as_undo(back, added, why)
    head = reader.moment("", added.key.checkpoint_id, state=True)
    earlier = reader.moment("", before, state=True)
    touched = [_touched(one) for one in parts]
    return CheckpointPlan(
        action="undo",
        main=touched[0],
        before=head.key,
        head=earlier.key,
        why="ckpt added it, and nothing followed",
        next=earlier.step.waiting,
        saved=finished_nodes(earlier),
        changes=diff_channels(read_state(reader, head).values, read_state(reader, earlier).values),
        also=tuple(touched[1:]),
        change=Change(
            reader.thread_id,
            heads_of(reader),
            removed={one.key: _expected_writes(state.read_metadata(one)) for one in parts},
            removed_blobs=tuple(blob for one in parts for blob in _blobs(reader, one)),
        ),
        names=named(reader, head, earlier, {}),
        now=head.step,
    )


def _plan_removal(reader: ThreadReader, added: model.Checkpoint) -> CheckpointPlan:
    """Plan to remove a thread that is a copy. Raises `Refused` if it was used since it was made."""
    metadata = state.read_metadata(added)
    every: Counter[model.CheckpointKey] = Counter()
    for one in reader.checkpoints():
        every[one.key] = 0
    for write in reader.writes():
        every[write.key] += 1
    number = metadata.get(state.CHECKPOINTS), metadata.get(state.WRITES)
    if (len(every), every.total()) != number or reader.head("") != added.key.checkpoint_id:
        raise Refused(
            f"cannot undo: the copy '{reader.thread_id}' has been used since", hint=_delete(reader)
        )
    head = reader.moment("", added.key.checkpoint_id)
    return CheckpointPlan(
        action="undo",
        main=_touched(added),
        before=head.key,
        head=None,
        why="it is an unused copy",
        next=(),
        change=Change(reader.thread_id, heads_of(reader), removed=dict(every)),
        names=named(reader, head, head, {}),
        now=head.step,
    )


def _delete(reader: ThreadReader) -> str:
    """Return a hint."""
    line = shell.command("ckpt", "threads", "delete", ids=[reader.thread_id])
    return f"`{line}` deletes the thread"


def newest_added(reader: ThreadReader) -> model.Checkpoint:
    """Return the nearest checkpoint on the head's branch that `ckpt` added.

    Raises `NotFound` if there is none.
    """
    head = reader.head("")
    line = [] if head is None else reader.ancestry("", head)
    place = {checkpoint_id: number for number, checkpoint_id in enumerate(line)}
    found = reader.checkpoints("", line, metadata=True)
    ours = [one for one in found if _is_ours(state.read_metadata(one))]
    if not ours:
        raise NotFound(
            f"nothing to undo in thread '{reader.thread_id}': no rollback, fork or repair on its"
            " current branch",
            hint=f"`{shell.command('ckpt', 'rollback', ids=[reader.thread_id, 'REF'])}`"
            " goes to any checkpoint",
        )
    return min(ours, key=lambda one: place[one.key.checkpoint_id])


def _is_ours(metadata: Mapping[str, Value]) -> bool:
    return metadata.get(state.BY) == state.NAME and (
        metadata.get("source") == "fork" or state.THREAD in metadata
    )


def _head_before(reader: ThreadReader, added: model.Checkpoint) -> str:
    """Return the previous head: an added checkpoint is newer than all others at that time."""
    ids = [one.key.checkpoint_id for one in reader.index("")]
    for before in ids[ids.index(added.key.checkpoint_id) + 1 :]:
        return before
    raise Refused(
        "cannot undo: no checkpoint is left from before the added one", hint=_delete(reader)
    )


def _parts(reader: ThreadReader, added: model.Checkpoint) -> list[model.Checkpoint]:
    """Return the checkpoints that one command added: the root's first, then those of subgraphs."""
    parts = [added]
    for ns in reader.namespaces:
        if ns:
            of_ns = reader.checkpoints(ns, metadata=True)
            parts += [
                one
                for one in of_ns
                if state.read_metadata(one).get(state.WITH) == added.key.checkpoint_id
                and _is_ours(state.read_metadata(one))
            ]
    return parts


def _built_on(reader: ThreadReader, parts: list[model.Checkpoint]) -> str:
    """Return what follows the added checkpoints, in words; `''` if nothing does."""
    root = parts[0].key.checkpoint_id
    heads = heads_of(reader)
    if heads[""] != root or (
        not reader.is_values_only and any(head > root for head in heads.values())
    ):
        return "later checkpoints follow"
    for one in parts:
        if heads[one.key.checkpoint_ns] != one.key.checkpoint_id:
            return "checkpoints of a subgraph follow"
        stored = reader.stored(one.key.checkpoint_ns, one.key.checkpoint_id)
        if len(stored.writes) != _expected_writes(stored.metadata):
            return "its tasks have stored writes"
    return ""


def _expected_writes(metadata: Mapping[str, Value]) -> int:
    number = metadata.get(state.WRITES, 0)
    return number if isinstance(number, int) else 0


def _blobs(reader: ThreadReader, added: model.Checkpoint) -> list[model.BlobKey]:
    """Return the values that were added with a checkpoint: those that its original does not name.

    None if values are stored in the body, or if the original is gone, and others may name them.
    """
    ns, origin = added.key.checkpoint_ns, state.read_metadata(added).get(state.FROM)
    ids = [added.key.checkpoint_id, *([origin] if isinstance(origin, str) else [])]
    stored = reader.checkpoints(ns, ids, body=True)
    found = {one.key.checkpoint_id: state.named_blobs(one) for one in stored}
    if len(reader.index(ns)) == 1:  # a copy of a checkpoint in another namespace
        return sorted(found[ids[0]])
    return sorted(found[ids[0]] - found[ids[-1]]) if len(found) == len(ids) else []


def _touched(one: model.Checkpoint) -> TouchedCheckpoint:
    origin = state.read_metadata(one).get(state.FROM)
    return TouchedCheckpoint(
        one.key, one.parent_checkpoint_id, "removal", origin if isinstance(origin, str) else None
    )


def _as_undo(back: CheckpointPlan, added: model.Checkpoint, why: str) -> CheckpointPlan:
    notes = [f"checkpoint {added.key.checkpoint_id} is kept: {why}"]
    if back.again:
        notes.append("answers and task results from before the rollback are not restored")
    return replace(back, action="undo", why=f"{why}; {back.why}", notes=(*notes, *back.notes))
