"""Plans that go back to a checkpoint by adding a copy of it."""

from __future__ import annotations

import secrets
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from ckpt_backends.change import Change, CopyOfWrites, NewBlob
from ckpt_backends.errors import NotFound, Unsupported
from ckpt_backends.ids import make_id
from ckpt_backends.model import NULL_TASK_ID, Capability, Checkpoint, CheckpointKey, Write
from ckpt_backends.protocol import Store
from ckpt_cli.core.changes import diff_channels
from ckpt_cli.core.channels import delta_channels, is_delta, is_state
from ckpt_cli.core.editing import (
    ChannelEdit,
    Edited,
    edit_copy,
    go_on_after,
    greatest,
    is_numbered,
    lift,
    lifted_channel,
    next_version,
)
from ckpt_cli.core.forking import (
    EMPTY_STEP,
    FROM,
    REASON,
    WITH,
    WRITES,
    check_body,
    copy_checkpoint,
    empty_checkpoint,
    first_tick,
    form_of,
)
from ckpt_cli.core.plan import Plan, Touched
from ckpt_cli.core.state import Body, read_body, read_metadata
from ckpt_cli.reading.edits import edges_of, known_channels, nodes_behind, previewed
from ckpt_cli.reading.thread import Moment, ThreadReader

RESUME = "__resume__"
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


@dataclass(slots=True)
class _Rows:
    """What a plan adds, as it grows."""

    store: Store
    """The rows as they are stored, whatever the reader makes of them."""
    added: list[Touched] = field(default_factory=list)
    checkpoints: list[Checkpoint] = field(default_factory=list)
    copies: list[CopyOfWrites] = field(default_factory=list)
    writes: list[Write] = field(default_factory=list)
    blobs: list[NewBlob] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Root:
    """What is wished of the copy in the root namespace."""

    sibling: bool = False
    edits: tuple[ChannelEdit, ...] = ()
    edges: tuple[str, ...] | None = None
    """The edges to go on by, instead of the target's."""
    known: frozenset[str] = frozenset()
    """The channels that the thread knows."""


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
    made = _Rows(rows)
    marks: dict[str, str] = {} if wishes.reason is None else {REASON: wishes.reason}
    stateful, left = _memories(reader, target, wishes)
    # The root's id is the greatest: a resume looks for what its subgraphs knew before it.
    key = _new_key(target, tick + len(stateful))
    for ahead, (ns, older) in enumerate(stateful):
        with_root = {**marks, WITH: key.checkpoint_id}
        if older is None:
            _add_empty(made, target, ns, tick + ahead, with_root)
        else:
            stored = reader.moment(ns, older, state=True)
            _add_copy(reader, made, stored, _new_key(stored, tick + ahead), with_root)
    edges = edges_of(reader, wishes.as_node) if wishes.as_node is not None else None
    root = _Root(wishes.sibling, wishes.edits, edges, known_channels(target, head))
    why = _add_copy(reader, made, target, key, marks, root)
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
            f"a store of layout '{info.layout}' keeps no history to go back to",
            hint="each namespace has its newest checkpoint only",
        )
    if Capability.ADDING not in info.capabilities:
        raise Unsupported(
            f"'{info.url}' was made by a saver that is not known here, so nothing is written",
            hint="; ".join(info.notes) or None,
        )


def whole(rows: Store, key: CheckpointKey, channels: Collection[str] = ()) -> Checkpoint:
    """A checkpoint with its body, metadata and the values of some channels. Raises `NotFound`."""
    for found in rows.checkpoints(
        key.thread_id,
        checkpoint_ns=key.checkpoint_ns,
        checkpoint_ids=[key.checkpoint_id],
        body=True,
        metadata=True,
        values=channels,
    ):
        return found
    raise NotFound(f"no checkpoint '{key.checkpoint_id}' in thread '{key.thread_id}'")


def configurable(key: CheckpointKey) -> dict[str, str]:
    """What to invoke a graph with to resume from a checkpoint."""
    return {
        "thread_id": key.thread_id,
        "checkpoint_ns": key.checkpoint_ns,
        "checkpoint_id": key.checkpoint_id,
    }


def heads_of(reader: ThreadReader) -> dict[str, str]:
    """The newest checkpoint of each namespace."""
    found = {ns: reader.head(ns) for ns in reader.namespaces}
    return {ns: head for ns, head in found.items() if head is not None}


def is_stateful(checkpoint_ns: str) -> bool:
    """Whether a namespace is that of a subgraph with `checkpointer=True`, which outlives calls."""
    return checkpoint_ns != "" and ":" not in checkpoint_ns


def null_writes(writes: Sequence[Write]) -> list[Write]:
    """The caller's writes that are part of a checkpoint's state: all but its answers."""
    return [one for one in writes if one.task_id == NULL_TASK_ID and one.channel != RESUME]


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


def _new_key(stored: Moment, tick: int) -> CheckpointKey:
    step = (stored.number or 0) + 1
    return replace(stored.key, checkpoint_id=make_id(tick, step, secrets.randbits(48)))


def _add_empty(made: _Rows, target: Moment, ns: str, tick: int, marks: Mapping[str, str]) -> None:
    """A namespace that had no checkpoint at the time of the target gets one without state."""
    new_id = make_id(tick, EMPTY_STEP, secrets.randbits(48))
    key = CheckpointKey(target.key.thread_id, ns, new_id)
    made.checkpoints.append(
        empty_checkpoint(key, whole(made.store, target.key), target.body, marks)
    )
    made.added.append(Touched(key, None, "empty", None))


def _add_copy(
    reader: ThreadReader,
    made: _Rows,
    stored: Moment,
    key: CheckpointKey,
    marks: Mapping[str, str],
    root: _Root | None = None,
) -> str:
    """Add a copy of a checkpoint under a new key. Gives the reason for its form."""
    root = root or _Root()
    original = whole(made.store, stored.key)
    body = read_body(original)
    check_body(stored.key, body)
    form, why = form_of(body, _delta_writes(reader, stored), sibling=root.sibling)
    edited = edit_copy_of(reader, made.store, stored, key, root.edits, root.edges, root.known)
    kept = null_writes(stored.writes)
    kept = [one for one in kept if one.channel not in edited.dropped]
    all_marks: dict[str, str | int] = {FROM: stored.key.checkpoint_id, **marks}
    if kept or edited.writes:
        all_marks[WRITES] = len(kept) + len(edited.writes)
    if kept:
        tasks = tuple((one.task_id, one.idx) for one in kept)
        made.copies.append(CopyOfWrites(stored.key, key, tasks))
    made.writes += edited.writes
    made.blobs += edited.blobs
    copy = copy_checkpoint(
        original, body, key.checkpoint_id, form, stored.number or 0, all_marks, edited.body
    )
    made.checkpoints.append(copy)
    made.added.append(Touched(key, copy.parent_checkpoint_id, form, stored.key.checkpoint_id))
    return why


def edit_copy_of(
    reader: ThreadReader,
    rows: Store,
    stored: Moment,
    key: CheckpointKey,
    edits: Sequence[ChannelEdit],
    edges: Sequence[str] | None,
    known: Collection[str],
) -> Edited:
    """What changes of a copy under this key, beside its id.

    In the same thread, that is also what LangGraph.js needs to keep the branches apart.
    """
    numbered = key.thread_id == stored.key.thread_id and is_numbered(stored.checkpoint, stored.body)
    channels = [edit.channel for edit in edits]
    channels += [lifted_channel(stored.body)] if numbered else []
    original = whole(rows, stored.key, channels)
    body = read_body(original)
    version = next_version(body, _greatest(reader, key.checkpoint_ns) if numbered else 0)
    kept = null_writes(stored.writes)
    delta = _all_delta(stored)
    found = edit_copy(original, body, key, edits, kept, delta, known, version)
    if edges is not None:
        go_on_after(found, original, body, key.checkpoint_ns, edges, version)
    elif numbered and not found.blobs:
        lift(found, original, body, key.checkpoint_ns, version)
    return found


def _greatest(reader: ThreadReader, ns: str) -> int:
    """The greatest version of a namespace, where versions are numbers."""
    return greatest(
        map(read_body, reader.store.checkpoints(reader.thread_id, checkpoint_ns=ns, body=True))
    )


def _delta_writes(reader: ThreadReader, stored: Moment) -> set[str]:
    """The DeltaChannels with writes on a checkpoint; where that is unsure, perhaps others too.

    Their values are seldom stored, and then as snapshots: a plain value behind the step shows
    that a channel is none.
    """
    written = {one.channel for one in stored.writes if is_state(one.channel, stored.body)}
    found = _all_delta(stored)
    if unsure := written - found:
        children = reader.children(stored.key)
        if not children:
            return written - stored.body.versions.keys() | written & found
        for child in reader.store.checkpoints(
            reader.thread_id,
            checkpoint_ns=stored.key.checkpoint_ns,
            checkpoint_ids=children,
            body=True,
            metadata=True,
            values=unsure,
        ):
            body = read_body(child)
            found |= delta_channels(read_metadata(child)) | _snapshots(body)
            found |= {name for name in unsure if _is_rebuilt(body, name)}
    return written & found


def _all_delta(stored: Moment) -> set[str]:
    """Channels whose value is not stored at a checkpoint, or as a snapshot."""
    unset = {name for name in stored.body.versions if _is_rebuilt(stored.body, name)}
    return delta_channels(stored.metadata) | _snapshots(stored.body) | unset


def _snapshots(body: Body) -> set[str]:
    return {name for name, value in body.values.items() if is_delta(value)}


def _is_rebuilt(body: Body, channel: str) -> bool:
    """Whether a channel that was written before has no stored value, as a DeltaChannel has."""
    return channel in body.versions and channel not in body.values


def _notes(reader: ThreadReader, head: Moment, target: Moment, now: datetime) -> Iterator[str]:
    newest = reader.thread.last_at
    if newest is not None and now - newest < _BUSY:
        yield "the newest checkpoint is some seconds old: an agent may be running on this thread"
    if head.key == target.key:
        yield "the target is the head: what its tasks stored since is left behind"
    if target.step.next is None:
        yield "what runs next cannot be told from what is stored"
