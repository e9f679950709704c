"""Plans for layouts that store nothing of a checkpoint but its place and its values.

A rollback there is a new child of the checkpoint that is gone back to, with copies of its values
and no writes: nothing else could be stored, and nothing says what runs next.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from datetime import datetime, timedelta

from ckpt_backends.change import Change, CopyOfCheckpoint
from ckpt_backends.codec.splice import Put, splice
from ckpt_backends.errors import Refused, Unsupported
from ckpt_backends.ids import make_id, step_of, ticks_at
from ckpt_backends.model import Checkpoint, CheckpointKey, TypedBytes
from ckpt_backends.protocol import Store
from ckpt_cli.core.changes import diff_channels
from ckpt_cli.core.editing import edit_copy
from ckpt_cli.core.naming import next_name
from ckpt_cli.core.plan import Plan, Touched
from ckpt_cli.reading.copies import whole
from ckpt_cli.reading.copy import check_free
from ckpt_cli.reading.edits import known_channels, previewed
from ckpt_cli.reading.rollback import (
    Wishes,
    configurable,
    heads_of,
    is_stateful,
    notes_of,
)
from ckpt_cli.reading.thread import Moment, ThreadReader

_NEW = "new"
"""Stands for the version of a value that is not a copy."""
_FAR = timedelta(days=1)
_NEXT = "what runs next is not stored in this layout: the application decides it"


def plan_bare_rollback(
    reader: ThreadReader, rows: Store, checkpoint_id: str, now: datetime, wishes: Wishes
) -> Plan:
    """Go back to a checkpoint of the root namespace. Raises `Unsupported` and `Refused`."""
    _check_wishes(wishes)
    target, head = _target_and_head(reader, checkpoint_id)
    newest = reader.thread.last_at
    if newest is not None and newest > now + _FAR and not wishes.force:
        raise Refused(
            "the thread's newest checkpoint lies in the future",
            hint="what is added has to lie behind it; --force does it all the same",
        )
    key = CheckpointKey(reader.thread_id, "", _new_id(reader, checkpoint_id, now))
    original = whole(rows, target.key, [edit.channel for edit in wishes.edits])
    known = known_channels(target, head)
    edited = edit_copy(original, target.body, key, wishes.edits, [], set(), known, _NEW)
    if original.body is None:
        raise ValueError("a checkpoint is copied with its body")
    body = splice(original.body, {**edited.body, "id": Put(key.checkpoint_id)})
    preview, edit_notes = previewed(reader.state(target).values, wishes.edits)
    reason = "this layout has no place for a reason" if wishes.reason is not None else ""
    return Plan(
        action="fork" if wishes.fork else "rollback",
        main=Touched(key, checkpoint_id, "child", checkpoint_id),
        before=head.key,
        head=key,
        why="a new child with copies of the target's values, as this layout goes back",
        next=None,
        again=(),
        asked=(),
        changes=diff_channels(reader.state(head).values, preview),
        also=(),
        configurable=configurable(key),
        change=Change(
            reader.thread_id,
            heads_of(reader),
            checkpoints=(Checkpoint(key, checkpoint_id, body, TypedBytes("json", b"{}")),),
            blobs=tuple(edited.blobs),
        ),
        notes=(
            *edit_notes,
            *([reason] if reason else []),
            *_left(reader, target),
            *notes_of(reader, head, target, now),
        ),
    )


def plan_bare_clone(
    reader: ThreadReader, rows: Store, checkpoint_id: str, thread_id: str, wishes: Wishes
) -> Plan:
    """Copy a checkpoint of the root namespace, and what led to it, to a new thread.

    Raises `Refused` where the thread is there already, and `Unsupported`.
    """
    check_free(rows, thread_id)
    _check_wishes(wishes)
    if wishes.edits:
        raise Unsupported(
            "a copy in a thread of its own is not edited in this layout",
            hint="copy it as it is, then fork the copy with --replace",
        )
    target, head = _target_and_head(reader, checkpoint_id)
    line = reader.ancestry("", checkpoint_id)
    writes = sum(one.key.checkpoint_id in line for one in reader.store.writes(reader.thread_id))
    key = CheckpointKey(thread_id, "", checkpoint_id)
    copies = [CopyOfCheckpoint(CheckpointKey(reader.thread_id, "", one)) for one in line]
    return Plan(
        action="fork",
        main=Touched(key, target.checkpoint.parent_checkpoint_id, "clone", checkpoint_id),
        before=head.key,
        head=key,
        why=f"{len(copies)} checkpoints and {writes} writes in all",
        next=None,
        again=(),
        asked=(),
        changes=diff_channels(reader.state(head).values, reader.state(target).values),
        also=(),
        configurable=configurable(key),
        change=Change(thread_id, {}, copies=tuple(copies)),
        notes=(_NEXT, "nothing marks it as a copy, so `ckpt undo` cannot take it back"),
        is_undoable=False,
    )


def _check_wishes(wishes: Wishes) -> None:
    if wishes.sibling:
        raise Unsupported(
            "a copy is a child of its target in this layout",
            hint="a sibling would be made of other writes than its values tell",
        )
    if wishes.as_node is not None:
        raise Unsupported(
            "this layout does not store what runs next", hint="the application decides it"
        )
    if any(edit.kind == "set" for edit in wishes.edits):
        raise Unsupported(
            "this layout has no place for what a caller writes",
            hint="--replace CHANNEL=JSON stores a value as it is, past the reducer",
        )


def _target_and_head(reader: ThreadReader, checkpoint_id: str) -> tuple[Moment, Moment]:
    target = reader.moment("", checkpoint_id, state=True)
    problem = target.body.problem
    if problem is not None:
        raise Unsupported(
            f"cannot go back to checkpoint '{checkpoint_id}': {problem.reason}",
            hint="`ckpt diff --writes` shows what its tasks wrote",
        )
    head = reader.head("") or checkpoint_id
    return target, target if head == checkpoint_id else reader.moment("", head, state=True)


def _new_id(reader: ThreadReader, target: str, now: datetime) -> str:
    """An id that the thread does not have, of the kind that it has."""
    ids = {one.key.checkpoint_id for ns in reader.namespaces for one in reader.index(ns)}
    # Subgraphs may count by themselves.
    own = next_name({one.key.checkpoint_id for one in reader.index("")})
    name = next_name(ids) or (own if own not in ids else None)
    if name is not None:
        return name
    step = step_of(target)
    return make_id(ticks_at(now), 0 if step is None else step + 1, secrets.randbits(48))


def _left(reader: ThreadReader, target: Moment) -> Iterator[str]:
    """Subgraphs that keep their state across calls, and went on since."""
    at = target.checkpoint.at
    for ns in filter(is_stateful, reader.namespaces):
        newest = reader.index(ns)[0].at
        if at is None or newest is None or newest > at:
            yield f"the subgraph in '{ns}' keeps what it knows now"
