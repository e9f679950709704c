"""Plans that take back one recorded operation: its steps on threads, or on long-term memory."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ckpt_backends import shell
from ckpt_backends.changes.bundle import Bundle, check_bundle
from ckpt_backends.changes.change import Change
from ckpt_backends.changes.removal import GONE
from ckpt_backends.changes.rows import compare
from ckpt_backends.checkpoint_ids import time_of
from ckpt_backends.codec import decode, to_json
from ckpt_backends.errors import CkptError, NotFound, Refused, StoreChanged
from ckpt_backends.memory.protocol import Item, ItemKey, MemoryStore, check_unchanged
from ckpt_backends.model import CheckpointKey, TypedBytes
from ckpt_backends.protocol import Store
from ckpt_backends.transfer.parts import CheckpointPart
from ckpt_backends.transfer.routes import parts_of_rows
from ckpt_cli.core.forking.marks import FROM
from ckpt_cli.core.memory.item_filter import format_key
from ckpt_cli.core.retention.purge_plan import PlannedRemoval
from ckpt_cli.core.state import read_body, read_metadata
from ckpt_cli.operations.memory_parts import (
    ItemEdited,
    ItemsAdded,
    ItemsRemoved,
    ItemsRestored,
    MemoryPart,
)
from ckpt_cli.operations.steps import (
    AppliedChange,
    OperationStep,
    RowsRemoved,
    RowsRestored,
    StepPart,
)
from ckpt_cli.plans.reversal import reversal_of
from ckpt_cli.plans.root_branch import heads_of
from ckpt_cli.threads.thread import ThreadReader


@dataclass(frozen=True, slots=True)
class PlannedStep:
    """What takes back one step, with what the store has now."""

    step: OperationStep
    """As it was recorded."""
    part: StepPart
    """What is carried out."""
    turned: OperationStep
    """What is recorded."""
    bundle: Bundle | None = None
    """The archive that is restored."""


@dataclass(frozen=True, slots=True)
class RefusedStep:
    """A step that cannot be taken back now."""

    step: OperationStep
    error: CkptError


def refused_steps(
    planned: Iterable[PlannedStep | RefusedStep], *, is_redo: bool
) -> list[RefusedStep]:
    """Return the steps that cannot be taken back. The errors of a redo are named after it."""
    found = [one for one in planned if isinstance(one, RefusedStep)]
    if is_redo:
        for one in found:
            one.error.message = one.error.message.replace("cannot undo:", "cannot redo:", 1)
    return found


def planned_steps(
    steps: Sequence[OperationStep], store: Store, rows: Store
) -> Iterator[PlannedStep | RefusedStep]:
    """Yield what takes back each step, the last one first.

    `rows` has the rows of the store as they are stored.
    """
    for one in reversed(steps):
        try:
            yield planned_step(one, store, rows)
        except CkptError as error:
            yield RefusedStep(one, error)


def planned_items(
    steps: Sequence[OperationStep], memory: MemoryStore
) -> Iterator[PlannedStep | RefusedStep]:
    """Yield what takes back each step on long-term memory, the last one first."""
    for one in reversed(steps):
        try:
            item_to_take_back(memory, one)
        except CkptError as error:
            yield RefusedStep(one, error)
        else:
            assert one.back is not None  # noqa: S101 - it was checked
            yield PlannedStep(one, one.back, one.turned())


def planned_step(step: OperationStep, store: Store, rows: Store) -> PlannedStep:
    """Return what takes back a step.

    Raises `Refused` or `StoreChanged` with the reason if the thread was used since.
    """
    match step.back:
        case AppliedChange(change):
            done = step.done.change if isinstance(step.done, AppliedChange) else None
            now = change_now(change, done, store, rows)
            return PlannedStep(step, AppliedChange(now), turned_now(step, now, rows))
        case RowsRemoved(planned):
            check_removal(planned, store)
            return PlannedStep(step, step.back, step.turned())
        case RowsRestored():
            bundle = checked_bundle(step, rows)
            turned = step.turned()
            if isinstance(turned.back, RowsRemoved):
                again = RowsRemoved(after_restoring(turned.back.planned, store))
                turned = replace(turned, back=again)
            return PlannedStep(step, step.back, turned, bundle)
        case _:
            raise Refused("cannot undo: what it replaced was not kept")


def turned_now(step: OperationStep, change: Change, rows: Store) -> OperationStep:
    """Return what is recorded when a change takes back a step.

    It holds what is removed: what it was made from may be gone when it is made again.
    """
    again = reversal_of(change, rows)
    return step.turned() if again is None else replace(step.turned(), back=AppliedChange(again))


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
    found = {one.key: one for one in reader.store.checkpoints(reader.thread_id, metadata=True)}
    for key in removed:
        if key not in found:
            return f"checkpoint {key.checkpoint_id} is gone"
    ids = {key.checkpoint_id for key in removed}
    for key, one in found.items():
        if key in removed:
            continue
        if one.parent_checkpoint_id in ids:
            return f"checkpoint {key.checkpoint_id} follows"
        if read_metadata(one).get(FROM) in ids:
            return f"checkpoint {key.checkpoint_id} is a copy of it"
    writes = Counter(one.key for one in reader.store.writes(reader.thread_id, checkpoint_ids=ids))
    for key, number in removed.items():
        if writes[key] != number:
            return f"tasks stored writes at checkpoint {key.checkpoint_id}"
    return _naming(reader, found.keys() - removed.keys(), set(change.removed_blobs))


def _naming(
    reader: ThreadReader, others: Collection[CheckpointKey], blobs: Collection[tuple[str, str, str]]
) -> str:
    """Return which other checkpoint names one of these values, in words."""
    if not blobs:
        return ""
    for one in reader.store.checkpoints(reader.thread_id, body=True):
        if one.key not in others:
            continue
        for channel, version in read_body(one).versions.items():
            if (one.key.checkpoint_ns, channel, str(version)) in blobs:
                return f"checkpoint {one.key.checkpoint_id} uses its value of '{channel}'"
    return ""


def changed_values(rows: Store, done: Change) -> str:
    """Return which values that a change stored apart have changed since; `''` if none has."""
    wanted = {(one.checkpoint_ns, one.channel, one.version): one.value for one in done.blobs}
    if not wanted:
        return ""
    names = sorted({channel for _, channel, _ in wanted})
    stored = values_at(rows, done.thread_id, wanted.keys(), names)
    changed = [place[1] for place, value in wanted.items() if stored.get(place) != value]
    if not changed:
        return ""
    return f"the values of {', '.join(repr(one) for one in dict.fromkeys(changed))} changed since"


def values_at(
    rows: Store, thread_id: str, places: Collection[tuple[str, str, str]], channels: Collection[str]
) -> dict[tuple[str, str, str], TypedBytes]:
    """Return the values that are stored apart, by (namespace, channel, version)."""
    found: dict[tuple[str, str, str], TypedBytes] = {}
    for one in rows.checkpoints(thread_id, body=True, values=channels):
        for channel, version in read_body(one).versions.items():
            place = (one.key.checkpoint_ns, channel, str(version))
            blob = (one.blobs or {}).get(channel)
            if place in places and blob is not None and blob.value is not None:
                found[place] = blob.value
    return found


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
    times = [thread.last_at, *(time_of(one) for some in ids for one in some)]
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
            CheckpointKey(removal.thread_id, ns, one)
            for ns, ids in removal.inside.checkpoints.items()
            for one in ids
        }
        archived = {
            part.key
            for part in parts_of_rows(bundle.header.layout, bundle.rows())
            if isinstance(part, CheckpointPart)
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
