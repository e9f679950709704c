"""Plans that take back the values which a repair stored apart from checkpoints."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from ckpt_backends.changes.change import Change, NewBlob
from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Opaque
from ckpt_backends.errors import Refused, StoreChanged, UsageError
from ckpt_backends.model import TypedBytes
from ckpt_backends.protocol import Store
from ckpt_cli.core.replay.repair_plan import DamagedValue, Repair
from ckpt_cli.plans.repair_log import (
    PastRepair,
    StoredAgain,
    digest_of,
    past_repairs,
    readable_repairs,
    write_repairs,
)
from ckpt_cli.plans.root_branch import check_store, heads_of
from ckpt_cli.plans.undo import added_at
from ckpt_cli.threads.thread import ThreadReader


@dataclass(frozen=True, slots=True)
class ValuesUndo:
    """The plan to take back one repair."""

    thread_id: str
    at: datetime
    """When the repair was made."""
    values: tuple[StoredAgain, ...]
    change: Change


def record_repair(rows: Store, found: Repair, now: datetime) -> None:
    """Record what a repair is about to store.

    Raises `UsageError` if that is not possible, `Refused` if the unreadable bytes that the repair
    replaces would then be lost, and `StoreChanged` if they are readable by now.
    """
    info = rows.describe()
    stored = {(one.checkpoint_ns, one.channel, one.version): one for one in found.change.blobs}
    values = tuple(
        StoredAgain(place, _stored_at(rows, found.thread_id, place), digest_of(new.value))
        for place in (one.place for one in found.rebuilt)
        if (new := stored.get((place.checkpoint_ns, place.channel, place.version))) is not None
    )
    before = [one.before for one in values if one.before is not None]
    if not all(isinstance(decode(one), Opaque) for one in before):
        raise StoreChanged(
            f"values of thread '{found.thread_id}' changed meanwhile, so nothing was written",
            hint="run the command again",
        )
    try:
        past = readable_repairs(info, found.thread_id)
        past = _still_there(rows, past, found.thread_id)
        write_repairs(info, found.thread_id, [*past, PastRepair(now, values)])
    except UsageError as error:
        if not before:
            raise
        raise Refused(
            f"{error.message}; nothing was written: the unreadable bytes would be lost",
            hint=error.hint or "export XDG_STATE_HOME=FOLDER",
        ) from error


def plan_values_undo(reader: ThreadReader, rows: Store) -> ValuesUndo | None:
    """Plan to take back a repair that stored values, if `ckpt` changed the thread so last.

    Returns None if there is none, or if `ckpt` added a checkpoint after it. Raises `Refused` if
    some of its values have changed since.
    """
    check_store(rows)
    info = rows.describe()
    past = _still_there(rows, past_repairs(info, reader.thread_id), reader.thread_id)
    if not past:
        return None
    last, added = past[-1], added_at(reader)
    if added is not None and added > last.at:
        return None
    changed = [one for one in last.values if not _is_as_stored(rows, reader.thread_id, one)]
    if changed:
        names = ", ".join(dict.fromkeys(f"'{one.place.channel}'" for one in changed))
        raise Refused(f"cannot undo the repair: the values of {names} have changed since")
    return ValuesUndo(reader.thread_id, last.at, last.values, _back(reader, last.values))


def forget_repair(rows: Store, undone: ValuesUndo) -> None:
    """Remove a repair from the record, after it was taken back. Raises `UsageError`."""
    info = rows.describe()
    left = [one for one in readable_repairs(info, undone.thread_id) if one.at != undone.at]
    write_repairs(info, undone.thread_id, left)


def _back(reader: ThreadReader, values: tuple[StoredAgain, ...]) -> Change:
    places = [(one.place, one.before) for one in values]
    return Change(
        reader.thread_id,
        heads_of(reader),
        blobs=tuple(
            NewBlob(place.checkpoint_ns, place.channel, place.version, before)
            for place, before in places
            if before is not None
        ),
        removed_blobs=tuple(
            (place.checkpoint_ns, place.channel, place.version) for place, _ in places
        ),
    )


def _still_there(rows: Store, past: Sequence[PastRepair], thread_id: str) -> list[PastRepair]:
    """Return the recorded repairs, without those that were never carried out."""

    def is_there(repair: PastRepair) -> bool:
        return any(_is_as_stored(rows, thread_id, one) for one in repair.values)

    return [one for one in past if is_there(one)]


def _is_as_stored(rows: Store, thread_id: str, one: StoredAgain) -> bool:
    found = _stored_at(rows, thread_id, one.place)
    return found is not None and digest_of(found) == one.digest


def _stored_at(rows: Store, thread_id: str, place: DamagedValue) -> TypedBytes | None:
    """Return a value as stored; None if nothing is."""
    for one in rows.checkpoints(
        thread_id,
        checkpoint_ns=place.checkpoint_ns,
        checkpoint_ids=[place.checkpoint_id],
        body=True,
        values=[place.channel],
    ):
        blob = (one.blobs or {}).get(place.channel)
        return None if blob is None else blob.value
    return None
