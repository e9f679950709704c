"""Plans for layouts that store only ids, parents and values of checkpoints.

A rollback adds a child of the target with copies of its values and without writes. Such a layout
does not store what runs next.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta

from ckpt_backends import shell
from ckpt_backends.changes.change import Change, CopyOfCheckpoint
from ckpt_backends.checkpoint_ids import make_id, step_of, ticks_at
from ckpt_backends.codec.edits import Put
from ckpt_backends.codec.set_keys import set_keys
from ckpt_backends.errors import Refused, Unsupported
from ckpt_backends.model import Checkpoint, CheckpointKey, TypedBytes
from ckpt_backends.protocol import Store
from ckpt_cli.core.diff.state_diff import diff_channels
from ckpt_cli.core.forking.edit_state import edit_copy
from ckpt_cli.core.forking.numbered_ids import next_name
from ckpt_cli.core.forking.plan import CheckpointPlan, TouchedCheckpoint
from ckpt_cli.core.random_numbers import random_bits
from ckpt_cli.plans.checkpoint_copy import whole
from ckpt_cli.plans.edits import known_channels, previewed
from ckpt_cli.plans.root_branch import (
    RollbackOptions,
    configurable,
    heads_of,
    is_stateful,
    left_behind,
    named,
    notes_of,
    target_and_head,
)
from ckpt_cli.plans.thread_copy import check_free
from ckpt_cli.threads.checkpoint import Moment
from ckpt_cli.threads.redaction import carried_metadata
from ckpt_cli.threads.states import read_state
from ckpt_cli.threads.thread import ThreadReader

_NEW = "new"
"""Version of a value that is not a copy."""
_FAR = timedelta(days=1)
_NEXT = "this layout does not store what runs next: the application decides it"


def plan_values_rollback(
    reader: ThreadReader, rows: Store, checkpoint_id: str, now: datetime, options: RollbackOptions
) -> CheckpointPlan:
    """Plan to roll back to a checkpoint of the root namespace.

    Raises `Unsupported` if the layout does not allow it, and `Refused` if it is not safe.
    """
    _check_options(options)
    target, head = _readable_target_and_head(reader, checkpoint_id)
    newest = reader.thread.last_at
    if newest is not None and newest > now + _FAR and not options.force:
        raise Refused(
            "the newest checkpoint of the thread is dated in the future",
            hint="new ids must sort later; override with --force",
        )
    key = CheckpointKey(reader.thread_id, "", _new_id(reader, checkpoint_id, now))
    original = whole(rows, target.key, [edit.channel for edit in options.edits])
    known = known_channels(target, head)
    edited = edit_copy(original, target.body, key, options.edits, [], set(), known, _NEW)
    if original.body is None:
        raise ValueError("a checkpoint is copied with its body")
    body = set_keys(original.body, {**edited.body, "id": Put(key.checkpoint_id)})
    preview, edit_notes = previewed(reader, target, options.edits)
    no_reason = [] if options.reason is None else ["this layout cannot store the reason"]
    left = left_behind(reader, head, target)
    step = None if target.number is None else target.number + 1
    return CheckpointPlan(
        action="fork" if options.fork else "rollback",
        main=TouchedCheckpoint(key, checkpoint_id, "child", checkpoint_id),
        before=head.key,
        head=key,
        why="this layout stores only values, which are copied to a new child of the target",
        next=None,
        changes=diff_channels(read_state(reader, head).values, preview),
        configurable=configurable(key),
        metadata=carried_metadata(reader.store, target.metadata),
        change=Change(
            reader.thread_id,
            heads_of(reader),
            checkpoints=(Checkpoint(key, checkpoint_id, body, TypedBytes("json", b"{}")),),
            blobs=tuple(edited.blobs),
        ),
        notes=(
            *edit_notes,
            *no_reason,
            *_left(reader, target),
            *notes_of(reader, head, target, now),
        ),
        names=named(reader, head, target, {key.checkpoint_id: step}),
        now=head.step,
        abandoned=len(left),
    )


def plan_values_fork(
    reader: ThreadReader, rows: Store, checkpoint_id: str, thread_id: str, options: RollbackOptions
) -> CheckpointPlan:
    """Plan to copy a checkpoint of the root namespace and its ancestors to a new thread.

    Raises `Refused` if the thread exists, and `Unsupported` for edits and other options that the
    layout does not allow.
    """
    check_free(rows, thread_id)
    _check_options(options)
    if options.edits:
        copied = shell.command(
            "ckpt", "copy", "--as", thread_id, ids=[f"{reader.thread_id}@{checkpoint_id}"]
        )
        edit = shell.command("ckpt", "fork", "--replace", "CHANNEL=JSON", ids=[thread_id, "head"])
        raise Unsupported(
            "cannot edit a checkpoint in a new thread in this layout",
            hint=f"copy it, then edit the copy: `{copied}`, `{edit}`",
        )
    target, head = _readable_target_and_head(reader, checkpoint_id)
    line = reader.ancestry("", checkpoint_id)
    writes = sum(one.key.checkpoint_id in line for one in reader.store.writes(reader.thread_id))
    key = CheckpointKey(thread_id, "", checkpoint_id)
    copies = [CopyOfCheckpoint(CheckpointKey(reader.thread_id, "", one)) for one in line]
    return CheckpointPlan(
        action="copy",
        main=TouchedCheckpoint(key, target.checkpoint.parent_checkpoint_id, "clone", checkpoint_id),
        before=head.key,
        head=key,
        why=f"{len(copies)} checkpoints and {writes} writes",
        next=None,
        changes=diff_channels(read_state(reader, head).values, read_state(reader, target).values),
        configurable=configurable(key),
        metadata=carried_metadata(reader.store, target.metadata),
        change=Change(thread_id, {}, copies=tuple(copies)),
        notes=(_NEXT, "this layout cannot mark the copy, so `ckpt undo` does not find it"),
        is_undoable=False,
        names=named(reader, head, target, {}),
        now=head.step,
    )


def _check_options(options: RollbackOptions) -> None:
    if options.sibling:
        raise Unsupported(
            "cannot add a sibling in this layout: its writes would not match its values",
            hint="leave out --sibling",
        )
    if options.as_node is not None:
        raise Unsupported(
            "cannot use --as-node: this layout does not store what runs next",
            hint="leave it out; the application decides what runs next",
        )
    if any(edit.kind == "set" for edit in options.edits):
        raise Unsupported(
            "cannot use --set: this layout does not store writes by the caller",
            hint="--replace CHANNEL=JSON stores the value itself, without the reducer",
        )


def _readable_target_and_head(reader: ThreadReader, checkpoint_id: str) -> tuple[Moment, Moment]:
    target, head = target_and_head(reader, checkpoint_id)
    problem = target.body.problem
    if problem is not None:
        diff = shell.command("ckpt", "diff", "--writes", ids=[reader.thread_id])
        raise Unsupported(
            f"cannot roll back to checkpoint '{checkpoint_id}': {problem.reason}",
            hint=f"`{diff}` shows what its tasks wrote",
        )
    return target, head


def _new_id(reader: ThreadReader, target: str, now: datetime) -> str:
    """Return a new id of the same kind as the thread's ids."""
    ids = {one.key.checkpoint_id for ns in reader.namespaces for one in reader.index(ns)}
    # Subgraphs may have a numbering of their own.
    own = next_name({one.key.checkpoint_id for one in reader.index("")})
    name = next_name(ids) or (own if own not in ids else None)
    if name is not None:
        return name
    step = step_of(target)
    return make_id(ticks_at(now), 0 if step is None else step + 1, random_bits(48))


def _left(reader: ThreadReader, target: Moment) -> Iterator[str]:
    """Yield notes on stateful subgraphs that ran after the target."""
    at = target.checkpoint.at
    for ns in filter(is_stateful, reader.namespaces):
        newest = reader.index(ns)[0].at
        if at is None or newest is None or newest > at:
            yield f"the subgraph in '{ns}' keeps its present state"
