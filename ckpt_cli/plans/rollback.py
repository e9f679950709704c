"""Plans that roll a thread back to a checkpoint by adding a copy of it."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from ckpt_backends.protocol import Store
from ckpt_cli.core.diff.state_diff import diff_channels
from ckpt_cli.core.forking.checkpoint_copy import first_tick
from ckpt_cli.core.forking.marks import REASON, WITH
from ckpt_cli.core.forking.plan import CheckpointPlan, TouchedCheckpoint
from ckpt_cli.core.forking.versions import is_numbered
from ckpt_cli.plans.checkpoint_copy import NewRows, Root, add_copy, add_empty, new_key
from ckpt_cli.plans.edits import edges_of, known_channels, nodes_behind, previewed
from ckpt_cli.plans.root_branch import (
    RollbackOptions,
    asking_nodes,
    check_store,
    configurable,
    heads_of,
    is_stateful,
    later_nodes,
    left_behind,
    named,
    nodes_of_copy,
    notes_of,
    repeated_nodes,
    target_and_head,
)
from ckpt_cli.plans.values_only import plan_values_rollback
from ckpt_cli.threads.checkpoint import Moment
from ckpt_cli.threads.redaction import carried_metadata
from ckpt_cli.threads.states import read_state
from ckpt_cli.threads.thread import ThreadReader


def plan_rollback(
    reader: ThreadReader, rows: Store, checkpoint_id: str, now: datetime, options: RollbackOptions
) -> CheckpointPlan:
    """Plan to roll back to a checkpoint of the root namespace.

    Raises `Unsupported` if the layout or the checkpoint does not allow it, and `Refused` if it is
    not safe.
    """
    check_store(rows)
    if reader.is_values_only:
        return plan_values_rollback(reader, rows, checkpoint_id, now, options)
    target, head = target_and_head(reader, checkpoint_id)
    heads = heads_of(reader)
    tick = first_tick(now, heads.values(), force=options.force)
    made = NewRows(rows)
    marks: dict[str, str] = {} if options.reason is None else {REASON: options.reason}
    stateful, kept = _memories(reader, target, options)
    # The root gets the greatest id: a resume looks for the state of subgraphs before it.
    key = new_key(target, tick + len(stateful))
    for ahead, (ns, older) in enumerate(stateful):
        with_root = {**marks, WITH: key.checkpoint_id}
        if older is None:
            add_empty(made, target, ns, tick + ahead, with_root)
        else:
            stored = reader.moment(ns, older, state=True)
            add_copy(reader, made, stored, new_key(stored, tick + ahead), with_root)
    edges = edges_of(reader, options.as_node) if options.as_node is not None else None
    root = Root(options.sibling, options.edits, edges, known_channels(target, head))
    why = add_copy(reader, made, target, key, marks, root)
    preview, edit_notes = previewed(reader, target, options.edits)
    left = left_behind(reader, head, target)
    also, main = tuple(made.added[:-1]), made.added[-1]
    return CheckpointPlan(
        action="fork" if options.fork else "rollback",
        main=main,
        before=head.key,
        head=key,
        why=why,
        next=nodes_of_copy(target) if edges is None else nodes_behind(edges),
        again=repeated_nodes(reader, target) if edges is None else (),
        asked=asking_nodes(target) if edges is None else (),
        changes=diff_channels(read_state(reader, head).values, preview),
        also=also,
        configurable=configurable(key),
        metadata=carried_metadata(reader.store, target.metadata),
        change=made.change(reader.thread_id, heads),
        notes=(
            *edit_notes,
            *notes_of(reader, head, target, now),
            *(f"the subgraph '{ns}' keeps its current state" for ns in kept),
            *_too_early(reader, target, main),
        ),
        names=named(reader, head, target, {key.checkpoint_id: (target.number or 0) + 1}),
        now=head.step,
        abandoned=len(left),
        later=later_nodes(reader, left),
        is_javascript=target.body.is_javascript,
    )


def _moved_on(reader: ThreadReader, checkpoint_id: str) -> Iterator[tuple[str, str | None]]:
    """Yield stateful namespaces with checkpoints after this one, and their newest earlier
    checkpoint.
    """
    for ns in reader.namespaces:
        ids = [one.key.checkpoint_id for one in reader.index(ns)] if is_stateful(ns) else []
        if ids and ids[0] > checkpoint_id:
            yield ns, next((one for one in ids if one < checkpoint_id), None)


def _memories(
    reader: ThreadReader, target: Moment, options: RollbackOptions
) -> tuple[list[tuple[str, str | None]], list[str]]:
    """Return the stateful namespaces to roll back, each with its checkpoint, and those to leave.

    If versions are plain numbers, an empty checkpoint would restart them at 1, and later values
    would be mixed up with those of the abandoned branch.
    """
    moved = list(_moved_on(reader, target.key.checkpoint_id))
    if options.root_only:
        return [], [ns for ns, _ in moved]
    if is_numbered(target.checkpoint, target.body):
        known = [(ns, older) for ns, older in moved if older is not None]
        return list(known), [ns for ns, older in moved if older is None]
    return moved, []


def _too_early(reader: ThreadReader, target: Moment, main: TouchedCheckpoint) -> Iterator[str]:
    """Yield a warning about a LangGraph fault: a sibling resets subgraphs to its parent's time.

    Source: `replay_checkpoint_id` in `_first` of `langgraph/pregel/_loop.py`.
    """
    parent = target.checkpoint.parent_checkpoint_id
    if main.form != "sibling" or parent is None:
        return
    for ns in filter(is_stateful, reader.namespaces):
        ids = [one.key.checkpoint_id for one in reader.index(ns)]
        if any(parent < one < target.key.checkpoint_id for one in ids):
            yield (
                f"the subgraph '{ns}' ran in the step before the target; if it runs next,"
                " LangGraph loads its state from before that step"
            )
