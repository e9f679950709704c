"""Plans that undo what `ckpt` last did to a thread, as the thread itself tells it: the checkpoints
that it added, or the values that a repair stored apart from checkpoints.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from ckpt_backends import shell
from ckpt_backends.changes.change import Change, NewBlob
from ckpt_backends.checkpoint_ids import time_of
from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Opaque, Value
from ckpt_backends.errors import NotFound, Refused, StoreChanged, UsageError
from ckpt_backends.model import Checkpoint, CheckpointKey, TypedBytes
from ckpt_backends.protocol import Store
from ckpt_cli.core.diff.state_diff import diff_channels
from ckpt_cli.core.forking.marks import BY, CHECKPOINTS, FROM, NAME, THREAD, WITH, WRITES
from ckpt_cli.core.forking.plan import CheckpointPlan, TouchedCheckpoint
from ckpt_cli.core.replay.repair_plan import DamagedValue, Repair
from ckpt_cli.core.state import read_body, read_metadata
from ckpt_cli.plans.repair_log import (
    PastRepair,
    StoredAgain,
    digest_of,
    past_repairs,
    readable_repairs,
    write_repairs,
)
from ckpt_cli.plans.rollback import plan_rollback
from ckpt_cli.plans.root_branch import (
    RollbackOptions,
    check_store,
    finished_nodes,
    heads_of,
    named,
)
from ckpt_cli.threads.states import read_state
from ckpt_cli.threads.thread import ThreadReader


def plan_undo(reader: ThreadReader, rows: Store, now: datetime, *, force: bool) -> CheckpointPlan:
    """Plan to undo the newest rollback or fork on the head's branch.

    If nothing followed it, its rows are removed, and the thread is as before. Otherwise later
    checkpoints need them: then the plan rolls back to the previous head. Raises `NotFound` if there
    is nothing to undo, and everything that `plan_rollback` raises.
    """
    check_store(rows)
    added = newest_added(reader)
    if THREAD in read_metadata(added):
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
            removed={one.key: _expected_writes(read_metadata(one)) for one in parts},
            removed_blobs=tuple(blob for one in parts for blob in _blobs(reader, one)),
        ),
        names=named(reader, head, earlier, {}),
        now=head.step,
    )


def added_at(reader: ThreadReader) -> datetime | None:
    """Return when `ckpt` last added a checkpoint to the head's branch; None if it did not."""
    try:
        return time_of(newest_added(reader).key.checkpoint_id)
    except NotFound:
        return None


def _plan_removal(reader: ThreadReader, added: Checkpoint) -> CheckpointPlan:
    """Plan to remove a thread that is a copy. Raises `Refused` if it was used since it was made."""
    metadata = read_metadata(added)
    every: Counter[CheckpointKey] = Counter()
    for one in reader.store.checkpoints(reader.thread_id):
        every[one.key] = 0
    for write in reader.store.writes(reader.thread_id):
        every[write.key] += 1
    number = metadata.get(CHECKPOINTS), metadata.get(WRITES)
    if (len(every), every.total()) != number or reader.head("") != added.key.checkpoint_id:
        raise Refused(
            f"cannot undo: the copy '{reader.thread_id}' has been used since",
            hint=_delete(reader),
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


def newest_added(reader: ThreadReader) -> Checkpoint:
    """Return the nearest checkpoint on the head's branch that `ckpt` added.

    Raises `NotFound` if there is none.
    """
    head = reader.head("")
    line = [] if head is None else reader.ancestry("", head)
    place = {checkpoint_id: number for number, checkpoint_id in enumerate(line)}
    found = reader.store.checkpoints(
        reader.thread_id, checkpoint_ns="", checkpoint_ids=line, metadata=True
    )
    ours = [one for one in found if _is_ours(read_metadata(one))]
    if not ours:
        raise NotFound(
            f"nothing to undo in thread '{reader.thread_id}': no rollback, fork or repair on its"
            " current branch",
            hint=f"`{shell.command('ckpt', 'rollback', ids=[reader.thread_id, 'REF'])}`"
            " goes to any checkpoint",
        )
    return min(ours, key=lambda one: place[one.key.checkpoint_id])


def _is_ours(metadata: Mapping[str, Value]) -> bool:
    return metadata.get(BY) == NAME and (metadata.get("source") == "fork" or THREAD in metadata)


def _head_before(reader: ThreadReader, added: Checkpoint) -> str:
    """Return the previous head: an added checkpoint is newer than all others at that time."""
    ids = [one.key.checkpoint_id for one in reader.index("")]
    for before in ids[ids.index(added.key.checkpoint_id) + 1 :]:
        return before
    raise Refused(
        "cannot undo: no checkpoint is left from before the added one",
        hint=_delete(reader),
    )


def _parts(reader: ThreadReader, added: Checkpoint) -> list[Checkpoint]:
    """Return the checkpoints that one command added: the root's first, then those of subgraphs."""
    parts = [added]
    for ns in reader.namespaces:
        if ns:
            of_ns = reader.store.checkpoints(reader.thread_id, checkpoint_ns=ns, metadata=True)
            parts += [
                one
                for one in of_ns
                if read_metadata(one).get(WITH) == added.key.checkpoint_id
                and _is_ours(read_metadata(one))
            ]
    return parts


def _built_on(reader: ThreadReader, parts: list[Checkpoint]) -> str:
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
    number = metadata.get(WRITES, 0)
    return number if isinstance(number, int) else 0


def _blobs(reader: ThreadReader, added: Checkpoint) -> Iterator[tuple[str, str, str]]:
    """Yield the values that were added with a checkpoint: versions that its original does not have.

    Yields (namespace, channel, version); nothing if values are stored in the body.
    """
    ns, origin = added.key.checkpoint_ns, read_metadata(added).get(FROM)
    ids = [added.key.checkpoint_id, *([origin] if isinstance(origin, str) else [])]
    bodies = {
        one.key.checkpoint_id: read_body(one).versions
        for one in reader.store.checkpoints(
            reader.thread_id, checkpoint_ns=ns, checkpoint_ids=ids, body=True
        )
        if one.blobs is not None
    }
    if len(bodies) < len(ids):
        return
    for channel, version in bodies[ids[0]].items():
        if bodies[ids[-1]].get(channel) != version:
            yield ns, channel, str(version)


def _touched(one: Checkpoint) -> TouchedCheckpoint:
    origin = read_metadata(one).get(FROM)
    return TouchedCheckpoint(
        one.key,
        one.parent_checkpoint_id,
        "removal",
        origin if isinstance(origin, str) else None,
    )


def _as_undo(back: CheckpointPlan, added: Checkpoint, why: str) -> CheckpointPlan:
    notes = [f"checkpoint {added.key.checkpoint_id} is kept: {why}"]
    if back.again:
        notes.append("answers and task results from before the rollback are not restored")
    return replace(back, action="undo", why=f"{why}; {back.why}", notes=(*notes, *back.notes))


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
