"""Plans that go back to a checkpoint by adding a copy of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from ckpt_backends.change import Change
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import Capability, CheckpointKey
from ckpt_backends.protocol import Store
from ckpt_cli.core.abilities import NO_HISTORY
from ckpt_cli.core.changes import diff_channels
from ckpt_cli.core.editing import ChannelEdit, is_numbered
from ckpt_cli.core.forking import REASON, WITH, first_tick
from ckpt_cli.core.plan import Plan, Touched
from ckpt_cli.reading.copies import Root, Rows, add_copy, add_empty, new_key
from ckpt_cli.reading.edits import edges_of, known_channels, nodes_behind, previewed
from ckpt_cli.reading.thread import Moment, ThreadReader

_BUSY = timedelta(seconds=10)
"""A thread that changed so lately may have an agent on it."""


@dataclass(frozen=True, slots=True)
class Wishes:
    """How to go back, as far as that is a matter of choice."""

    sibling: bool = False
    root_only: bool = False
    """Leave the namespaces of subgraphs that keep their state."""
    reason: str | None = None
    fork: bool = False
    """The user calls it a fork: to go on from there, rather than back to it."""
    edits: tuple[ChannelEdit, ...] = ()
    as_node: str | None = None
    """Go on as if this node had run."""
    force: bool = False
    """Even if the newest checkpoint lies in the future."""


def plan_rollback(
    reader: ThreadReader, rows: Store, checkpoint_id: str, now: datetime, wishes: Wishes
) -> Plan:
    """Go back to a checkpoint of the root namespace.

    Raises `Unsupported` where the layout or the checkpoint does not allow it, and `Refused`.
    """
    check_store(rows)
    target = reader.moment("", checkpoint_id, state=True)
    head_id = reader.head("") or checkpoint_id
    head = target if head_id == checkpoint_id else reader.moment("", head_id, state=True)
    heads = heads_of(reader)
    tick = first_tick(now, heads.values(), force=wishes.force)
    made = Rows(rows)
    marks: dict[str, str] = {} if wishes.reason is None else {REASON: wishes.reason}
    stateful, left = _memories(reader, target, wishes)
    # The root's id is the greatest: a resume looks for what its subgraphs knew before it.
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
    also, main = tuple(made.added[:-1]), made.added[-1]
    return Plan(
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
            *_notes(reader, head, target, now),
            *(f"the subgraph in '{ns}' keeps what it knows now" for ns in left),
            *_too_early(reader, target, main),
        ),
    )


def check_store(rows: Store) -> None:
    """Raise `Unsupported` where a layout takes no further checkpoints."""
    info = rows.describe()
    if Capability.HISTORY not in info.capabilities:
        raise Unsupported(
            f"a store of layout '{info.layout}' {NO_HISTORY}",
            hint="each namespace has its newest checkpoint only",
        )
    if Capability.ADDING not in info.capabilities:
        raise Unsupported(
            f"'{info.url}' is only read, as {info.saver} made it, so nothing is written",
            hint="; ".join(info.notes) or None,
        )


def configurable(key: CheckpointKey) -> dict[str, str]:
    """What to invoke a graph with to resume from a checkpoint."""
    return {
        "thread_id": key.thread_id,
        "checkpoint_ns": key.checkpoint_ns,
        "checkpoint_id": key.checkpoint_id,
    }


def heads_of(reader: ThreadReader) -> dict[str, str]:
    """The newest checkpoint of each namespace."""
    heads: dict[str, str] = {}
    for one in reader.store.checkpoints(reader.thread_id):
        heads.setdefault(one.key.checkpoint_ns, one.key.checkpoint_id)
    return heads


def is_stateful(checkpoint_ns: str) -> bool:
    """Whether a namespace is that of a subgraph with `checkpointer=True`, which outlives calls."""
    return checkpoint_ns != "" and ":" not in checkpoint_ns


def finished_nodes(moment: Moment) -> tuple[str, ...]:
    """The nodes of the next step that had finished."""
    return tuple(task.node or "?" for task in moment.step.tasks if task.finished)


def asking_nodes(moment: Moment) -> tuple[str, ...]:
    """The nodes of the next step that asked something."""
    return tuple(task.node or "?" for task in moment.step.tasks if task.questions)


def _moved_on(reader: ThreadReader, checkpoint_id: str) -> Iterator[tuple[str, str | None]]:
    """Stateful namespaces with later checkpoints than this one, and their newest older one."""
    for ns in reader.namespaces:
        ids = [one.key.checkpoint_id for one in reader.index(ns)] if is_stateful(ns) else []
        if ids and ids[0] > checkpoint_id:
            yield ns, next((one for one in ids if one < checkpoint_id), None)


def _memories(
    reader: ThreadReader, target: Moment, wishes: Wishes
) -> tuple[list[tuple[str, str | None]], list[str]]:
    """Stateful namespaces to bring back, with the checkpoint that each had; and those to leave.

    Where versions are plain numbers, one without state would make them begin anew, and later
    values would be taken for those of the branch that is left.
    """
    moved = list(_moved_on(reader, target.key.checkpoint_id))
    if wishes.root_only:
        return [], [ns for ns, _ in moved]
    if is_numbered(target.checkpoint, target.body):
        known = [(ns, older) for ns, older in moved if older is not None]
        return list(known), [ns for ns, older in moved if older is None]
    return moved, []


def _too_early(reader: ThreadReader, target: Moment, main: Touched) -> Iterator[str]:
    """What LangGraph gets wrong with a sibling: it takes subgraphs to the time of its parent.

    Source: `replay_checkpoint_id` in `_first` of `langgraph/pregel/_loop.py`.
    """
    parent = target.checkpoint.parent_checkpoint_id
    if main.form != "sibling" or parent is None:
        return
    for ns in filter(is_stateful, reader.namespaces):
        ids = [one.key.checkpoint_id for one in reader.index(ns)]
        if any(parent < one < target.key.checkpoint_id for one in ids):
            yield (
                f"the subgraph in '{ns}' ran in the step before the target: if it is next again,"
                " LangGraph resumes it as it was before that"
            )


def _notes(reader: ThreadReader, head: Moment, target: Moment, now: datetime) -> Iterator[str]:
    newest = reader.thread.last_at
    if newest is not None and now - newest < _BUSY:
        yield "the newest checkpoint is some seconds old: an agent may be running on this thread"
    if head.key == target.key:
        yield "the target is the head: what its tasks stored since is left behind"
    if target.step.next is None:
        yield "what runs next cannot be told from what is stored"
