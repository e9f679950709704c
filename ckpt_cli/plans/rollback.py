"""Plans that roll a thread back to a checkpoint by adding a copy of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from ckpt_backends.changes.change import Change
from ckpt_backends.errors import StoreChanged, Unsupported
from ckpt_backends.model import Capability, CheckpointKey, Status
from ckpt_backends.protocol import Store
from ckpt_cli.core.diff.state_diff import diff_channels
from ckpt_cli.core.forking.checkpoint_copy import REASON, WITH, first_tick
from ckpt_cli.core.forking.edit_state import ChannelEdit
from ckpt_cli.core.forking.plan import CheckpointPlan, ShownCheckpoint, TouchedCheckpoint
from ckpt_cli.core.forking.versions import is_numbered
from ckpt_cli.core.short_refs import short_refs
from ckpt_cli.core.support_matrix import NO_HISTORY, ONE_STATE
from ckpt_cli.core.tasks.step_nodes import NodePath, asked_by
from ckpt_cli.plans.checkpoint_copy import NewRows, Root, add_copy, add_empty, new_key
from ckpt_cli.plans.edits import edges_of, known_channels, nodes_behind, previewed
from ckpt_cli.threads.thread import Moment, ThreadReader

_BUSY = timedelta(seconds=10)
"""An agent may still be running on a thread that changed within this time."""
_LOOKED_AT = 100
"""Number of steps after the target that are searched for nodes."""


@dataclass(frozen=True, slots=True)
class RollbackOptions:
    """The options of a rollback or fork."""

    sibling: bool = False
    root_only: bool = False
    """Do not roll back the namespaces of stateful subgraphs."""
    reason: str | None = None
    fork: bool = False
    """The command is `fork`, not `rollback`."""
    edits: tuple[ChannelEdit, ...] = ()
    as_node: str | None = None
    """Continue as if this node had run."""
    force: bool = False
    """Proceed even if the newest checkpoint is in the future."""


def plan_rollback(
    reader: ThreadReader, rows: Store, checkpoint_id: str, now: datetime, wishes: RollbackOptions
) -> CheckpointPlan:
    """Plan to roll back to a checkpoint of the root namespace.

    Raises `Unsupported` if the layout or the checkpoint does not allow it, and `Refused` if it is
    not safe.
    """
    check_store(rows)
    if reader.is_bare:
        from ckpt_cli.plans.values_only import plan_bare_rollback  # imports this module

        return plan_bare_rollback(reader, rows, checkpoint_id, now, wishes)
    target = reader.moment("", checkpoint_id, state=True)
    head_id = reader.head("") or checkpoint_id
    head = target if head_id == checkpoint_id else reader.moment("", head_id, state=True)
    heads = heads_of(reader)
    tick = first_tick(now, heads.values(), force=wishes.force)
    made = NewRows(rows)
    marks: dict[str, str] = {} if wishes.reason is None else {REASON: wishes.reason}
    stateful, kept = _memories(reader, target, wishes)
    # The root gets the greatest id: a resume looks for the state of subgraphs before it.
    key = new_key(target, tick + len(stateful))
    for ahead, (ns, older) in enumerate(stateful):
        with_root = {**marks, WITH: key.checkpoint_id}
        if older is None:
            add_empty(made, target, ns, tick + ahead, with_root)
        else:
            stored = reader.moment(ns, older, state=True)
            add_copy(reader, made, stored, new_key(stored, tick + ahead), with_root)
    edges = edges_of(reader, wishes.as_node) if wishes.as_node is not None else None
    root = Root(wishes.sibling, wishes.edits, edges, known_channels(target, head))
    why = add_copy(reader, made, target, key, marks, root)
    preview, edit_notes = previewed(reader.state(target).values, wishes.edits)
    left = left_behind(reader, head, target)
    also, main = tuple(made.added[:-1]), made.added[-1]
    return CheckpointPlan(
        action="fork" if wishes.fork else "rollback",
        main=main,
        before=head.key,
        head=key,
        why=why,
        next=target.step.next if edges is None else nodes_behind(edges),
        again=finished_nodes(target) if edges is None else (),
        asked=asking_nodes(target) if edges is None else (),
        changes=diff_channels(reader.state(head).values, preview),
        also=also,
        configurable=configurable(key),
        change=Change(
            reader.thread_id,
            heads,
            checkpoints=tuple(made.checkpoints),
            writes=tuple(made.writes),
            blobs=tuple(made.blobs),
            copies_of_writes=tuple(made.copies),
        ),
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


def check_store(rows: Store) -> None:
    """Raise `Unsupported` if checkpoints cannot be added in this layout."""
    info = rows.describe()
    if Capability.HISTORY not in info.capabilities:
        raise Unsupported(
            f"a store of layout '{info.layout}' {NO_HISTORY}",
            hint="it keeps only the newest checkpoint of each namespace",
        )
    if Capability.LATEST_VALUES in info.capabilities:
        raise Unsupported(
            f"a store of layout '{info.layout}' {ONE_STATE}",
            hint="a copy would overwrite them; `ckpt diff THREAD --writes` shows what tasks wrote",
        )
    if Capability.ADDING not in info.capabilities:
        raise Unsupported(
            f"cannot write to '{info.url}': ckpt only reads stores of {info.saver}",
            hint="; ".join(info.notes) or None,
        )


def configurable(key: CheckpointKey) -> dict[str, str]:
    """Return the config with which a graph resumes from a checkpoint."""
    return {
        "thread_id": key.thread_id,
        "checkpoint_ns": key.checkpoint_ns,
        "checkpoint_id": key.checkpoint_id,
    }


def heads_of(reader: ThreadReader) -> dict[str, str]:
    """Return the newest checkpoint of each namespace.

    Raises `StoreChanged` if a head is another one than before: not every engine has snapshots.
    """
    heads: dict[str, str] = {}
    for one in reader.store.checkpoints(reader.thread_id):
        heads.setdefault(one.key.checkpoint_ns, one.key.checkpoint_id)
    if any(heads.get(ns) != head for ns, head in reader.seen_heads.items()):
        raise StoreChanged(
            f"thread '{reader.thread_id}' changed while it was read",
            hint="nothing was written; run the command again",
        )
    return heads


def is_stateful(checkpoint_ns: str) -> bool:
    """Return whether a namespace belongs to a subgraph with `checkpointer=True`."""
    return checkpoint_ns != "" and ":" not in checkpoint_ns


def finished_nodes(moment: Moment) -> tuple[str, ...]:
    """Return the nodes of the next step that have already finished."""
    return tuple(task.node or "?" for task in moment.step.tasks if task.finished)


def asking_nodes(moment: Moment) -> tuple[NodePath, ...]:
    """Return the nodes of the next step that asked a question, down to the one in a subgraph."""
    return tuple(asked_by(one) for task in moment.step.tasks for one in task.questions)


def named(
    reader: ThreadReader, head: Moment, target: Moment, added: Mapping[str, int | None]
) -> dict[str, ShownCheckpoint]:
    """Return how to show the head, the target and added checkpoints (id to step) of the root."""
    steps = {**{one.key.checkpoint_id: one.number for one in (head, target)}, **added}
    refs = short_refs(list({one.key.checkpoint_id for one in reader.index("")} | steps.keys()))
    return {one: ShownCheckpoint(refs[one], step) for one, step in steps.items()}


def left_behind(reader: ThreadReader, head: Moment, target: Moment) -> list[str]:
    """Return the checkpoints that are on the head's branch but not on the target's, newest
    first.
    """
    kept = set(reader.ancestry("", target.key.checkpoint_id))
    return [one for one in reader.ancestry("", head.key.checkpoint_id) if one not in kept]


def later_nodes(reader: ThreadReader, left: list[str]) -> tuple[str, ...]:
    """Return the nodes that ran after the oldest of these checkpoints, in their order."""
    if not left:
        return ()
    moments = list(reader.moments("", left[-_LOOKED_AT:]))
    return tuple(
        dict.fromkeys(
            task.node
            for moment in reversed(moments)
            for task in moment.step.tasks
            if task.finished and task.node is not None and not task.node.startswith("__")
        )
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
    reader: ThreadReader, target: Moment, wishes: RollbackOptions
) -> tuple[list[tuple[str, str | None]], list[str]]:
    """Return the stateful namespaces to roll back, each with its checkpoint, and those to leave.

    If versions are plain numbers, an empty checkpoint would restart them at 1, and later values
    would be mixed up with those of the abandoned branch.
    """
    moved = list(_moved_on(reader, target.key.checkpoint_id))
    if wishes.root_only:
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


def notes_of(reader: ThreadReader, head: Moment, target: Moment, now: datetime) -> Iterator[str]:
    """Yield warnings to show before a rollback."""
    newest = reader.thread.last_at
    if newest is not None and now - newest < _BUSY:
        yield "the newest checkpoint is a few seconds old: stop the agent of this thread first"
    if head.key == target.key and any(task.writes for task in head.step.tasks):
        yield "the target is the head: the results of its finished tasks are not copied"
        if head.status is Status.ERROR:
            yield (
                "resuming without a rollback also retries the failed task, and keeps the results"
                " of the others"
            )
    if target.step.next is None:
        yield "what runs next is unknown: the store does not say"
