"""What the plans of rollbacks and forks share: their options, and facts about the root's branch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from ckpt_backends.errors import StoreChanged, Unsupported, only_read
from ckpt_backends.model import COPY_INSTEAD, NULL_TASK_ID, Capability, CheckpointKey, Status
from ckpt_backends.protocol import Store
from ckpt_cli.core.forking.edit_state import ChannelEdit
from ckpt_cli.core.forking.plan import ShownCheckpoint
from ckpt_cli.core.short_refs import short_refs
from ckpt_cli.core.support_matrix import NO_HISTORY, ONE_STATE
from ckpt_cli.core.tasks.resume import candidates
from ckpt_cli.core.tasks.step_nodes import NodePath, asked_by, path_text
from ckpt_cli.core.tasks.task_ids import is_handler
from ckpt_cli.threads.checkpoint import Moment
from ckpt_cli.threads.nested_nodes import ran_inside
from ckpt_cli.threads.thread import ThreadReader

_BUSY = timedelta(seconds=10)
"""An agent may still be running on a thread that changed within this time."""
RETRIES = (
    "resuming without a rollback also retries the failed task, and keeps the results of the others"
)
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
    """The command is not `rollback`."""
    edits: tuple[ChannelEdit, ...] = ()
    as_node: str | None = None
    """Continue as if this node had run."""
    force: bool = False
    """Proceed even if the newest checkpoint is in the future."""

    @property
    def edits_state(self) -> bool:
        """Whether the copy differs from its checkpoint."""
        return bool(self.edits) or self.as_node is not None


def check_store(rows: Store) -> None:
    """Raise `Unsupported` if checkpoints cannot be added in this layout."""
    info = rows.describe()
    if Capability.READ_ONLY in info.capabilities:
        raise only_read(info.url)
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
        if info.only_read:
            raise Unsupported(f"cannot write to '{info.url}': {info.only_read}", hint=COPY_INSTEAD)
        raise Unsupported(
            f"cannot write to '{info.url}': ckpt cannot add checkpoints to stores of {info.saver}",
            hint="; ".join(info.notes) or None,
        )


def target_and_head(reader: ThreadReader, checkpoint_id: str) -> tuple[Moment, Moment]:
    """Return a checkpoint of the root and the root's head, both with their state."""
    target = reader.moment("", checkpoint_id, state=True)
    head = reader.head("") or checkpoint_id
    return target, target if head == checkpoint_id else reader.moment("", head, state=True)


def configurable(key: CheckpointKey) -> dict[str, str]:
    """Return the config with which a graph resumes from a checkpoint."""
    return key._asdict()


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


def repeated_nodes(reader: ThreadReader, target: Moment) -> tuple[str, ...]:
    """Return the nodes that ran after a checkpoint and run again if a copy of it is resumed: those
    that finished, error handlers, and those in subgraph calls that did not, as `sub > node`.
    """
    step = target.step
    handlers = (one.node for one in step.others if is_handler(one.path))
    cut_short = (task for task in step.tasks if not task.finished)
    inner = (path_text(path) for task in cut_short for path in ran_inside(reader, target, task))
    names = (*finished_nodes(target), *(node for node in handlers if node is not None))
    return (*names, *dict.fromkeys(inner))


def nodes_of_copy(target: Moment) -> tuple[str, ...] | None:
    """Return the nodes that run if a copy of a checkpoint is resumed; None if not known."""
    if target.step.next is None:
        return None
    kept = [one for one in target.writes if one.task_id == NULL_TASK_ID]
    return tuple(
        task.node
        for task in candidates(target.step.tasks, target.body, kept)
        if task.node is not None
    )


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


def is_busy(reader: ThreadReader, now: datetime) -> bool:
    """Return whether a thread is so new that an agent may still be running on it."""
    newest = reader.thread.last_at
    return newest is not None and now - newest < _BUSY


def notes_of(reader: ThreadReader, head: Moment, target: Moment, now: datetime) -> Iterator[str]:
    """Yield warnings to show before a rollback."""
    if is_busy(reader, now):
        yield "the newest checkpoint is a few seconds old: stop the agent of this thread first"
    if head.key == target.key:
        yield from head_notes(head)
    if target.step.next is None:
        yield "what runs next is unknown: the store does not say"


def head_notes(head: Moment) -> Iterator[str]:
    """Yield what to know before a rollback to the head itself."""
    if any(task.writes for task in head.step.tasks):
        yield "the target is the head: the results of its finished tasks are not copied"
        if head.status is Status.ERROR:
            yield RETRIES
