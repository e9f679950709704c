"""Plans a fork: a copy of a checkpoint, in its thread or in a new one."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from ckpt_backends import model, shell
from ckpt_backends.changes import Change, CopyOfCheckpoint, CopyOfWrites, Removal
from ckpt_backends.codec.edits import Put, set_keys
from ckpt_backends.codec.values import Opaque, Value
from ckpt_backends.errors import NotFound, Refused, StoreChanged, Unsupported, only_read
from ckpt_backends.protocol import Store
from ckpt_backends.transfer.copying import RecordsSum
from ckpt_cli.core import edit_state, forking
from ckpt_cli.core.diff import diff_channels
from ckpt_cli.core.doctor.checks import is_encrypted
from ckpt_cli.core.forking import random_bits
from ckpt_cli.core.lineage import is_stateful, namespace_kind
from ckpt_cli.core.reducers import unknown_removals
from ckpt_cli.core.refs import short_refs
from ckpt_cli.core.resume import candidates, used_answers
from ckpt_cli.core.retention import PlannedRemoval
from ckpt_cli.core.state import (
    FROM,
    RESUME,
    WRITES,
    Body,
    caller_of,
    delta_channels,
    is_delta,
    is_state,
    read_body,
    read_metadata,
)
from ckpt_cli.core.support_matrix import NO_HISTORY, ONE_STATE
from ckpt_cli.core.tasks import Question, is_handler, path_text
from ckpt_cli.reading.states import read_state
from ckpt_cli.reading.store import carried_metadata, rules_of
from ckpt_cli.reading.thread import Moment, ThreadReader, called, ran_inside, sizes_of_blobs

_EDGES = ("branch:", "join:", "start:", "__pregel_tasks")


def known_channels(*moments: Moment) -> frozenset[str]:
    """Return the channels that appear in some checkpoints or in the writes of their tasks."""
    return frozenset(
        name
        for moment in moments
        for name in (
            *moment.body.versions,
            *moment.body.values,
            *(write.channel for write in moment.writes),
        )
    )


def edges_of(reader: ThreadReader, node: str) -> tuple[str, ...]:
    """Return the edges that a node wrote when it last ran in this thread.

    Raises `NotFound` if it never finished, and `Unsupported` if it wrote to a join or a Send, which
    cannot be repeated by name.
    """
    nodes: set[str] = set()
    for moment in reader.moments(""):
        for task in moment.step.tasks:
            nodes |= {task.node} if task.node is not None and task.finished else set()
            if task.node != node or not task.finished:
                continue
            edges = {one.channel for one in task.writes if one.channel.startswith(_EDGES)}
            if others := sorted(one for one in edges if not one.startswith(edit_state.BRANCH)):
                raise Unsupported(
                    f"cannot continue after '{node}': it wrote to joins or Sends, which ckpt"
                    f" cannot repeat ({', '.join(others)})",
                    hint=f"call update_state(..., as_node={node!r}) in the application",
                )
            return tuple(sorted(edges))
    known = [one for one in nodes if not one.startswith("__")]
    raise NotFound(
        f"node '{node}' never finished in thread '{reader.thread_id}'",
        hint=f"finished nodes: {', '.join(map(shell.word, sorted(known))) or 'none'}",
    )


def nodes_behind(edges: Sequence[str]) -> tuple[str, ...]:
    """Return the nodes that the edges lead to."""
    return tuple(one.removeprefix(edit_state.BRANCH) for one in edges)


def previewed(
    reader: ThreadReader, target: Moment, edits: Sequence[edit_state.ChannelEdit]
) -> tuple[dict[str, Value], list[str]]:
    """Return the state of a checkpoint after the edits, and notes about it."""
    found, notes = dict(read_state(reader, target).values), []
    for edit in edits:
        before = found.get(edit.channel)
        if edit.kind == "set":
            ns = target.key.checkpoint_ns
            delta = edit.channel in reader.delta_channels(ns)
            found[edit.channel], how = rules_of(reader.store, target.body).merge(
                namespace_kind(ns), edit.channel, before, [edit.value], delta=delta
            )
            notes.append(
                f"the application's reducer merges '{edit.channel}' when the thread resumes; this"
                f" plan {'takes' if how.endswith('told') else 'assumes'}"
                f" {how.removeprefix('assumed ')}"
            )
            if "add_messages" in how and not delta:
                notes += [
                    f"add_messages raises an error: '{edit.channel}' has no message '{one}' to"
                    " remove"
                    for one in unknown_removals(before, edit.value)
                ]
        elif edit.kind == "append" and isinstance(before, list):
            found[edit.channel] = [*before, edit.value]
        else:
            found[edit.channel] = edit.value
    return found, notes


_REASON = "ckpt added it"


@dataclass(frozen=True, slots=True)
class ThreadContents:
    """What a store has of a thread."""

    checkpoints: frozenset[model.CheckpointKey] = frozenset()
    writes: Mapping[model.CheckpointKey, int] = field(default_factory=dict)
    """Number of writes by checkpoint."""
    blobs: Mapping[model.BlobKey, tuple[int, int]] = field(default_factory=dict)
    """Rows and bytes of values that are stored apart from checkpoints."""

    @property
    def is_empty(self) -> bool:
        """Whether the store has nothing of the thread."""
        return not (self.checkpoints or self.writes or self.blobs)

    @property
    def number_of_writes(self) -> int:
        return sum(self.writes.values())


def contents_of(store: Store, thread_id: str) -> ThreadContents:
    """Return what a store has of a thread. Reads no values."""
    return ThreadContents(
        frozenset(one.key for one in store.checkpoints(thread_id)),
        Counter(one.key for one in store.writes(thread_id)),
        sizes_of_blobs(store, thread_id),
    )


def removal_of_added(store: Store, thread_id: str, before: ThreadContents) -> PlannedRemoval | None:
    """Return the removal of what a thread has now and did not have before.

    None if that is not possible: rows are gone, or writes were added to a checkpoint that was
    there.
    """
    from ckpt_cli.plans.purge import plan_named, pruned  # most copies only make new threads

    if before.is_empty:
        (whole,) = plan_named(store, {thread_id: _REASON})
        return whole if whole.action == "remove" else None
    now, thread = contents_of(store, thread_id), store.thread(thread_id)
    added = now.checkpoints - before.checkpoints
    kept_writes = {key: number for key, number in now.writes.items() if key not in added}
    values = {key: size for key, size in now.blobs.items() if key not in before.blobs}
    is_lost = before.checkpoints - now.checkpoints or before.blobs.keys() - now.blobs.keys()
    if thread is None or is_lost or kept_writes != dict(before.writes):
        return None
    if not added and not values:
        return None
    keys = sorted((key.checkpoint_ns, key.checkpoint_id) for key in added)
    return pruned(store, thread, keys, values, now.number_of_writes, _REASON)


def removal_of_new(thread_id: str, counts: RecordsSum) -> PlannedRemoval:
    """Return the removal of a thread that a store has only since these parts were added to it."""
    removal = Removal(thread_id, model.time_of(counts.newest), counts.checkpoints, counts.writes)
    return PlannedRemoval(
        "remove",
        _REASON,
        counts.checkpoints,
        counts.writes,
        removal,
        blobs=counts.values,
        bytes=counts.size,
    )


@dataclass(slots=True)
class NewRows:
    """The rows that a plan adds, collected step by step."""

    store: Store
    """The store with the rows as stored, without what the reader decodes or hides."""
    added: list[forking.TouchedCheckpoint] = field(default_factory=list)
    checkpoints: list[model.Record] = field(default_factory=list)
    copies: list[CopyOfWrites] = field(default_factory=list)
    writes: list[model.Record] = field(default_factory=list)
    blobs: list[model.Record] = field(default_factory=list)
    relied_on: list[model.CheckpointKey] = field(default_factory=list)

    def change(self, thread_id: str, heads: Mapping[str, str]) -> Change:
        """Return the change that adds the rows, if the thread still has these heads."""
        return Change(
            thread_id,
            heads,
            checkpoints=tuple(self.checkpoints),
            writes=tuple(self.writes),
            blobs=tuple(self.blobs),
            copies_of_writes=tuple(self.copies),
            relied_on=tuple(self.relied_on),
        )


@dataclass(frozen=True, slots=True)
class Root:
    """Options for the copy in the root namespace."""

    sibling: bool = False
    edits: tuple[edit_state.ChannelEdit, ...] = ()
    edges: tuple[str, ...] | None = None
    """Edges that replace those of the target; None keeps them."""
    known: frozenset[str] = frozenset()
    """The channels that exist in the thread."""


def whole(
    rows: Store, key: model.CheckpointKey, channels: Collection[str] = ()
) -> model.Checkpoint:
    """Return a checkpoint with its body, its metadata and the values of some channels.

    Raises `NotFound` if it does not exist.
    """
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


def null_writes(writes: Sequence[model.Write]) -> list[model.Write]:
    """Return the caller's writes that are part of a checkpoint's state: all except answers."""
    return [one for one in writes if one.task_id == model.NULL_TASK_ID and one.channel != RESUME]


def new_key(stored: Moment, tick: int) -> model.CheckpointKey:
    step = (stored.number or 0) + 1
    return stored.key._replace(checkpoint_id=model.make_id(tick, step, random_bits(48)))


def add_empty(made: NewRows, target: Moment, ns: str, tick: int, marks: Mapping[str, str]) -> None:
    """Add an empty checkpoint to a namespace that had none at the time of the target."""
    new_id = model.make_id(tick, forking.EMPTY_STEP, random_bits(48))
    key = model.CheckpointKey(target.key.thread_id, ns, new_id)
    made.checkpoints.append(
        forking.empty_checkpoint(key, whole(made.store, target.key), target.body, marks)
    )
    made.added.append(forking.TouchedCheckpoint(key, None, "empty", None))


def add_copy(
    reader: ThreadReader,
    made: NewRows,
    stored: Moment,
    key: model.CheckpointKey,
    marks: Mapping[str, str],
    root: Root | None = None,
) -> str:
    """Add a copy of a checkpoint under a new key. Returns the reason for its form."""
    root = root or Root()
    original = whole(made.store, stored.key)
    body = read_body(original)
    forking.check_body(stored.key, body)
    _check_values(original)
    form, why = forking.form_of(body, delta_writes(reader, stored), sibling=root.sibling)
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
    copy = forking.copy_checkpoint(
        original, body, key.checkpoint_id, form, stored.number or 0, all_marks, edited.body
    )
    made.checkpoints.append(copy)
    made.relied_on.append(stored.key)
    made.added.append(forking.TouchedCheckpoint(key, copy.parent, form, stored.key.checkpoint_id))
    return why


def edit_copy_of(
    reader: ThreadReader,
    rows: Store,
    stored: Moment,
    key: model.CheckpointKey,
    edits: Sequence[edit_state.ChannelEdit],
    edges: Sequence[str] | None,
    known: Collection[str],
) -> edit_state.EditedState:
    """Return what changes in a copy under this key, besides its id.

    In the same thread, this includes the version that LangGraph.js needs to keep the branches
    apart.
    """
    numbered = key.thread_id == stored.key.thread_id and forking.is_numbered(
        stored.checkpoint, stored.body
    )
    channels = [edit.channel for edit in edits]
    channels += [forking.raised_channel(stored.body)] if numbered else []
    original = whole(rows, stored.key, channels)
    if edits or edges is not None:
        edit_state.check_editable(original)
        _check_open(stored)
    body = read_body(original)
    above = 0
    if numbered:
        ns = key.checkpoint_ns
        rest = reader.checkpoints(ns, body=True)
        above = forking.greatest_version(map(read_body, rest))
    version = forking.next_version(body, above)
    kept = null_writes(stored.writes)
    delta = delta_channels_of(stored)
    found = edit_state.edit_copy(original, body, key, edits, kept, delta, known, version)
    if edges is not None:
        edit_state.schedule_after_nodes(found, original, body, key, edges, version)
        # A `Command(goto=...)` of the caller would run in addition to what the node starts.
        found.dropped |= {one.channel for one in kept if not is_state(one.channel, body)}
    elif numbered and not found.blobs:
        edit_state.raise_version(found, original, body, key, version)
    return found


def _check_values(original: model.Checkpoint) -> None:
    """Raise `Unsupported` if the store cannot find the values that an encrypted body names."""
    if original.body is not None and original.body.encrypted and original.blobs is not None:
        raise Unsupported(
            f"cannot copy checkpoint '{original.key.checkpoint_id}': its body is encrypted",
            hint="it names its values; decrypt the thread first: `ckpt rekey THREAD --decrypt`",
        )


def _check_open(stored: Moment) -> None:
    """Raise `Unsupported` if a value stays encrypted: a new one would get another key."""
    for name, value in stored.body.values.items():
        if is_encrypted(value) and isinstance(value, Opaque):
            raise Unsupported(f"cannot edit: the value of '{name}' is {value.reason}")


def delta_writes(reader: ThreadReader, stored: Moment) -> set[str]:
    """Return the DeltaChannels with writes on a checkpoint; if that is uncertain, possibly others
    too.

    Their values are rarely stored, and then as snapshots: a plain value after the step shows that a
    channel is not a DeltaChannel.
    """
    written = {one.channel for one in stored.writes if is_state(one.channel, stored.body)}
    found = delta_channels_of(stored)
    if unsure := written - found:
        children = reader.children(stored.key)
        if not children:
            return written - stored.body.versions.keys() | written & found
        for child in reader.checkpoints(
            stored.key.checkpoint_ns, children, body=True, metadata=True, values=unsure
        ):
            body = read_body(child)
            found |= delta_channels(read_metadata(child)) | _snapshots(body)
            found |= {name for name in unsure if _is_rebuilt(body, name)}
    return written & found


def delta_channels_of(stored: Moment) -> set[str]:
    """Return the channels without a stored value at a checkpoint, or with a snapshot."""
    unset = {name for name in stored.body.versions if _is_rebuilt(stored.body, name)}
    return delta_channels(stored.metadata) | _snapshots(stored.body) | unset


def _snapshots(body: Body) -> set[str]:
    return {name for name, value in body.values.items() if is_delta(value)}


def _is_rebuilt(body: Body, channel: str) -> bool:
    """Return whether a channel was written before but has no stored value, like a DeltaChannel."""
    return channel in body.versions and channel not in body.values


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
    edits: tuple[edit_state.ChannelEdit, ...] = ()
    as_node: str | None = None
    """Continue as if this node had run."""
    force: bool = False
    """Proceed even if the newest checkpoint is in the future."""

    @property
    def edits_state(self) -> bool:
        """Whether the copy differs from its checkpoint."""
        return bool(self.edits) or self.as_node is not None


def refuse_only_read(info: model.StoreInfo) -> None:
    """Raise `Unsupported` with the reason if nothing is changed in a store."""
    if model.Capability.READ_ONLY in info.capabilities:
        raise only_read(info.url)
    if info.only_read:
        raise Unsupported(
            f"cannot write to '{info.url}': {info.only_read}", hint=model.COPY_INSTEAD
        )


def check_store(rows: Store) -> None:
    """Raise `Unsupported` if checkpoints cannot be added in this layout."""
    info = rows.describe()
    refuse_only_read(info)
    if model.Capability.HISTORY not in info.capabilities:
        raise Unsupported(
            f"a store of layout '{info.layout}' {NO_HISTORY}",
            hint="it keeps only the newest checkpoint of each namespace",
        )
    if model.Capability.LATEST_VALUES in info.capabilities:
        raise Unsupported(
            f"a store of layout '{info.layout}' {ONE_STATE}",
            hint="a copy would overwrite them; `ckpt diff THREAD --writes` shows what tasks wrote",
        )
    if model.Capability.ADDING not in info.capabilities:
        raise Unsupported(
            f"cannot write to '{info.url}': ckpt cannot add checkpoints to stores of {info.saver}",
            hint="; ".join(info.notes) or None,
        )


def target_and_head(reader: ThreadReader, checkpoint_id: str) -> tuple[Moment, Moment]:
    """Return a checkpoint of the root and the root's head, both with their state."""
    target = reader.moment("", checkpoint_id, state=True)
    head = reader.head("") or checkpoint_id
    return target, target if head == checkpoint_id else reader.moment("", head, state=True)


def configurable(key: model.CheckpointKey) -> dict[str, str]:
    """Return the config with which a graph resumes from a checkpoint."""
    return key._asdict()


def heads_of(reader: ThreadReader) -> dict[str, str]:
    """Return the newest checkpoint of each namespace.

    Raises `StoreChanged` if a head is another one than before: not every engine has snapshots.
    """
    heads: dict[str, str] = {}
    for one in reader.checkpoints():
        heads.setdefault(one.key.checkpoint_ns, one.key.checkpoint_id)
    if any(heads.get(ns) != head for ns, head in reader.seen_heads.items()):
        raise StoreChanged(
            f"thread '{reader.thread_id}' changed while it was read",
            hint="nothing was written; run the command again",
        )
    return heads


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
    kept = [one for one in target.writes if one.task_id == model.NULL_TASK_ID]
    return tuple(
        task.node
        for task in candidates(target.step.tasks, target.body, kept)
        if task.node is not None
    )


def asked_again(reader: ThreadReader, moment: Moment) -> tuple[Question, ...]:
    """Return the questions of the next step, which are asked again when it runs.

    Only the last question of a task is stored. The value is None if the task asks others before
    it, or asks in a subgraph or a `@task` function, where that is not told.
    """
    found = []
    for task in moment.step.tasks:
        answers = len(list(used_answers(task.writes)))
        is_first = answers <= int(any(not one.is_open for one in task.questions))
        is_own = is_first and not any(called(reader, moment.key, task.id, task.node))
        for one in task.questions:
            found.append(one if is_own and len(one.path) < 2 else one._replace(value=None))
    return tuple(found)


def named(
    reader: ThreadReader, head: Moment, target: Moment, added: Mapping[str, int | None]
) -> dict[str, forking.ShownCheckpoint]:
    """Return how to show the head, the target and added checkpoints (id to step) of the root."""
    steps = {**{one.key.checkpoint_id: one.number for one in (head, target)}, **added}
    refs = short_refs(list({one.key.checkpoint_id for one in reader.index("")} | steps.keys()))
    return {one: forking.ShownCheckpoint(refs[one], step) for one, step in steps.items()}


def copy_plan(
    reader: ThreadReader,
    head: Moment,
    target: Moment,
    main: forking.TouchedCheckpoint,
    change: Change,
    after: Mapping[str, Value],
    step: int | None = None,
) -> forking.CheckpointPlan:
    """Return the plan of a change that makes `main`, a copy of the target, the new head.

    `after` is its state, and `step` its step if it is in the same thread. It says neither why the
    copy has its form, nor what a resume does: the caller adds that.
    """
    added = {} if main.form == "clone" else {main.key.checkpoint_id: step}
    return forking.CheckpointPlan(
        action="copy",
        main=main,
        before=head.key,
        head=main.key,
        why="",
        next=None,
        changes=diff_channels(read_state(reader, head).values, after),
        configurable=configurable(main.key),
        metadata=carried_metadata(reader.store, target.metadata),
        change=change,
        names=named(reader, head, target, added),
        now=head.step,
        is_javascript=target.body.is_javascript,
    )


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
        if head.status is model.Status.ERROR:
            yield RETRIES


@dataclass(frozen=True, slots=True)
class ThreadCopyPlan:
    """The plan of a copy of a whole thread."""

    source: str
    checkpoints: int
    writes: int
    change: Change


def plan_thread_copy(reader: ThreadReader, rows: Store, new_id: str) -> ThreadCopyPlan:
    """Plan to copy all checkpoints of a thread, in all namespaces, with their writes and values.

    Raises `Refused` if rows of the new id exist, and `Unsupported`.
    """
    check_store(rows)
    check_free(rows, new_id)
    keys = [one.key for one in reader.checkpoints()]
    there = set(keys)
    writes = sum(one.key in there for one in reader.writes())
    change = Change(new_id, {}, copies=tuple(map(CopyOfCheckpoint, keys)))
    return ThreadCopyPlan(reader.thread_id, len(keys), writes, change)


def check_free(rows: Store, thread_id: str) -> None:
    """Raise `Refused` if a thread with this id exists, or orphaned rows with this id."""
    if rows.thread(thread_id) is not None:
        raise Refused(
            f"thread '{thread_id}' already exists", hint="choose another id for the new thread"
        )
    if any(True for _ in rows.usage(thread_id)):
        raise Refused(
            f"orphaned rows of thread '{thread_id}' exist in the store",
            hint="choose another id, or delete them: `ckpt gc --scope all`",
        )


# Plans for layouts that store only ids, parents and values of checkpoints.
#
# A rollback adds a child of the target with copies of its values and without writes. Such a
# layout does not store what runs next.


_NEW = "new"
"""Version of a value that is not a copy."""
_FAR = timedelta(days=1)
_NEXT = "this layout does not store what runs next: the application decides it"


def plan_values_rollback(
    reader: ThreadReader, rows: Store, checkpoint_id: str, now: datetime, options: RollbackOptions
) -> forking.CheckpointPlan:
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
    key = model.CheckpointKey(reader.thread_id, "", _new_id(reader, checkpoint_id, now))
    original = whole(rows, target.key, [edit.channel for edit in options.edits])
    known = known_channels(target, head)
    edited = edit_state.edit_copy(original, target.body, key, options.edits, [], set(), known, _NEW)
    if original.body is None:
        raise ValueError("a checkpoint is copied with its body")
    body = set_keys(original.body, {**edited.body, "id": Put(key.checkpoint_id)})
    preview, edit_notes = previewed(reader, target, options.edits)
    no_reason = [] if options.reason is None else ["this layout cannot store the reason"]
    step = None if target.number is None else target.number + 1
    change = Change(
        reader.thread_id,
        heads_of(reader),
        checkpoints=(
            model.Record.checkpoint(key, checkpoint_id, body, model.TypedBytes("json", b"{}")),
        ),
        blobs=tuple(edited.blobs),
    )
    main = forking.TouchedCheckpoint(key, checkpoint_id, "child", checkpoint_id)
    return replace(
        copy_plan(reader, head, target, main, change, preview, step),
        action="fork" if options.fork else "rollback",
        why="this layout stores only values, which are copied to a new child of the target",
        notes=(
            *edit_notes,
            *no_reason,
            *_left(reader, target),
            *notes_of(reader, head, target, now),
        ),
        abandoned=len(left_behind(reader, head, target)),
    )


def plan_values_fork(
    reader: ThreadReader, rows: Store, checkpoint_id: str, thread_id: str, options: RollbackOptions
) -> forking.CheckpointPlan:
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
    writes = sum(one.key.checkpoint_id in line for one in reader.writes())
    key = model.CheckpointKey(thread_id, "", checkpoint_id)
    copies = [CopyOfCheckpoint(model.CheckpointKey(reader.thread_id, "", one)) for one in line]
    main = forking.TouchedCheckpoint(
        key, target.checkpoint.parent_checkpoint_id, "clone", checkpoint_id
    )
    change, state = Change(thread_id, {}, copies=tuple(copies)), read_state(reader, target).values
    return replace(
        copy_plan(reader, head, target, main, change, state),
        why=f"{len(copies)} checkpoints and {writes} writes",
        notes=(_NEXT, "this layout cannot mark the copy, so `ckpt undo` does not find it"),
        is_undoable=False,
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
    own = forking.next_name({one.key.checkpoint_id for one in reader.index("")})
    name = forking.next_name(ids) or (own if own not in ids else None)
    if name is not None:
        return name
    step = model.step_of(target)
    return model.make_id(model.ticks_at(now), 0 if step is None else step + 1, random_bits(48))


def _left(reader: ThreadReader, target: Moment) -> Iterator[str]:
    """Yield notes on stateful subgraphs that ran after the target."""
    at = target.checkpoint.at
    for ns in filter(is_stateful, reader.namespaces):
        newest = reader.index(ns)[0].at
        if at is None or newest is None or newest > at:
            yield f"the subgraph in '{ns}' keeps its present state"


def plan_fork_to_thread(
    reader: ThreadReader, rows: Store, checkpoint_id: str, thread_id: str, options: RollbackOptions
) -> forking.CheckpointPlan:
    """Plan to copy a checkpoint of the root namespace and its ancestors to a new thread.

    Checkpoint ids stay the same, and so do task ids, because they hash the checkpoint id and not
    the thread id. A head is copied with all writes of its tasks, so an open question is also open
    in the copy. Raises `Refused` if the thread exists, and `Unsupported`.
    """
    check_store(rows)
    if reader.is_values_only:
        return plan_values_fork(reader, rows, checkpoint_id, thread_id, options)
    check_free(rows, thread_id)
    target, head = target_and_head(reader, checkpoint_id)
    forking.check_body(target.key, target.body)
    is_head = head.key == target.key
    key = model.CheckpointKey(thread_id, "", checkpoint_id)
    edges = edges_of(reader, options.as_node) if options.as_node is not None else None
    goes_on = is_head and edges is None
    edited = edit_copy_of(
        reader, rows, target, key, options.edits, edges, known_channels(target, head)
    )
    copies = [_head_of(reader, target, is_head, edited), *_others(reader, target, is_head)]
    listed = (_writes(reader, one.source) if one.writes is None else one.writes for one in copies)
    writes = sum(map(len, listed))
    original = whole(rows, target.key)
    new = writes + len(edited.writes)
    metadata = forking.mark_clone(
        original.metadata, reader.thread_id, len(copies), new, options.reason
    )
    body = set_keys(original.body, edited.body) if edited.body and original.body else None
    copies[0] = replace(copies[0], metadata=metadata, body=body)
    preview, edit_notes = previewed(reader, target, options.edits)
    # Without an id, LangGraph continues from the head instead of travelling in time.
    left_out = {"checkpoint_id"} if is_head else set[str]()
    at = {name: one for name, one in configurable(key).items() if name not in left_out}
    main = forking.TouchedCheckpoint(
        key, target.checkpoint.parent_checkpoint_id, "clone", checkpoint_id
    )
    change = Change(
        thread_id, {}, copies=tuple(copies), writes=tuple(edited.writes), blobs=tuple(edited.blobs)
    )
    return replace(
        copy_plan(reader, head, target, main, change, preview),
        action="fork" if options.edits_state else "copy",
        why=f"{len(copies)} checkpoints and {writes} writes",
        next=_next(target, edges, is_head),
        saved=finished_nodes(target) if goes_on else (),
        again=() if is_head or edges is not None else repeated_nodes(reader, target),
        asked=() if is_head or edges is not None else asked_again(reader, target),
        configurable=at,
        notes=(*edit_notes, *_notes(target)),
        waits=open_questions(target) if goes_on else None,
    )


def open_questions(head: Moment) -> tuple[str | None, ...] | None:
    """Return the ids of a head's open questions; None if there are none.

    Before format 4 LangGraph accepted no answers by id, so the id is None.
    """
    open_questions = dict.fromkeys(
        question.interrupt_id
        if head.body.v >= forking.NEWEST_FORMAT or head.body.is_javascript
        else None
        for task in head.step.tasks
        for question in task.questions
        if question.is_open
    )
    return tuple(open_questions) or None


def _next(target: Moment, edges: Sequence[str] | None, is_head: bool) -> tuple[str, ...] | None:
    if edges is not None:
        return nodes_behind(edges)
    return target.step.waiting if is_head else target.step.next


def _head_of(
    reader: ThreadReader, target: Moment, is_head: bool, edited: edit_state.EditedState
) -> CopyOfCheckpoint:
    """Return the copy of the target, without the caller's writes to channels that are replaced."""
    found = _copy_of(reader, target.key, is_head)
    if not edited.dropped:
        return found
    writes = target.writes if is_head else null_writes(target.writes)
    left = [
        one
        for one in writes
        if one.task_id != model.NULL_TASK_ID or one.channel not in edited.dropped
    ]
    return replace(found, writes=tuple((one.task_id, one.idx) for one in left))


def _others(reader: ThreadReader, target: Moment, is_head: bool) -> Iterator[CopyOfCheckpoint]:
    """Yield the ancestors, their subgraph calls, and the checkpoints of stateful subgraphs."""
    line = reader.ancestry("", target.key.checkpoint_id)
    for one in line[1:]:
        yield CopyOfCheckpoint(_key(reader, "", one))
    passed = set(line if is_head else line[1:])
    for ns in reader.namespaces:
        if is_stateful(ns):
            ids = [one.key.checkpoint_id for one in reader.index(ns)]
            known = [one for one in ids if is_head or one < target.key.checkpoint_id]
            for place, one in enumerate(reader.ancestry(ns, known[0]) if known else []):
                key = _key(reader, ns, one)
                yield _copy_of(reader, key, is_head) if place == 0 else CopyOfCheckpoint(key)
        elif ns:
            calls = _calls(reader, ns, passed, target.key.checkpoint_id, is_head)
            for place, key in enumerate(calls):
                yield _copy_of(reader, key, True) if place == 0 else CopyOfCheckpoint(key)


def _calls(
    reader: ThreadReader, ns: str, passed: Collection[str], target: str, is_head: bool
) -> Iterator[model.CheckpointKey]:
    """Yield the checkpoints of a subgraph call that was made on the way to the target.

    LangGraph before 0.2.57 does not store the caller; then the time decides.
    """
    for one in reader.checkpoints(ns, metadata=True):
        root = caller_of(one)
        earlier = is_head or one.key.checkpoint_id < target
        if root in passed or (root is None and earlier):
            yield one.key


def _copy_of(reader: ThreadReader, key: model.CheckpointKey, is_head: bool) -> CopyOfCheckpoint:
    """Return the copy of a namespace's newest checkpoint, with all writes or only the caller's.

    The writes are listed, because an agent may add others before they are copied.
    """
    writes = _writes(reader, key)
    kept = writes if is_head else null_writes(writes)
    return CopyOfCheckpoint(key, writes=tuple((one.task_id, one.idx) for one in kept))


def _key(reader: ThreadReader, ns: str, checkpoint_id: str) -> model.CheckpointKey:
    return model.CheckpointKey(reader.thread_id, ns, checkpoint_id)


def _writes(reader: ThreadReader, key: model.CheckpointKey) -> Sequence[model.Write]:
    return reader.stored(key.checkpoint_ns, key.checkpoint_id).writes


def _notes(target: Moment) -> Iterator[str]:
    if target.step.next is None:
        yield "what runs next is unknown: the store does not say"
