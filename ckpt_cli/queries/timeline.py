"""Reads how long the steps of a thread took."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from ckpt_backends import model
from ckpt_backends.codec.values import Value
from ckpt_cli.core.state import BY, ERROR, INTERRUPT, NAME, read_metadata, source_from, step_from
from ckpt_cli.core.tasks import (
    CONTROL,
    ERROR_SOURCE,
    UPDATE_PATH,
    finished,
    is_call,
    next_paths,
    path_text,
    pulled_node,
    ran,
    ran_here,
)
from ckpt_cli.core.timeline import (
    OpenStep,
    ThreadSteps,
    TimedCheckpoint,
    Timeline,
    node_times,
    timed_steps,
)
from ckpt_cli.core.tree import Key, Skeleton, SubgraphCalls, by_namespace, undecided
from ckpt_cli.reading.thread import Moment, ThreadReader

_SMALL = 300
"""A thread with at most this many checkpoints is read whole if it is looked at alone."""
_LONG = 10.0
"""Seconds; the bodies of longer steps are read, to see whether a run began in them."""
_STEPS = 1 << 14
"""Number of steps that an id tells apart."""
_RESUMED = "__interrupt__"
"""The node under which a body records what a resumed run had seen."""


@dataclass(slots=True)
class TaskKeys:
    """A task, from the keys of its writes."""

    node: str | None
    """None if the path does not name it."""
    path: str
    channels: set[str] = field(default_factory=set)
    ended: datetime | None = None

    @property
    def wrote(self) -> bool:
        """Whether it stored output."""
        return not self.channels <= CONTROL

    @property
    def by_hand(self) -> bool:
        return self.path.startswith(UPDATE_PATH)


@dataclass(slots=True)
class StepKeys:
    """What the keys of the writes on a checkpoint tell of the step after it."""

    tasks: dict[str, TaskKeys] = field(default_factory=dict)
    """By task id; not that of the caller."""
    writes: int = 0
    seal: int = 0
    """Differs if other writes are stored."""

    @property
    def asking(self) -> dict[str, str | None]:
        """The tasks that asked a question, with their nodes."""
        return {id_: one.node for id_, one in self.tasks.items() if INTERRUPT in one.channels}

    @property
    def failed(self) -> dict[str, str | None]:
        """The tasks that failed, with their nodes; also those that an error handler took."""
        return {
            id_: one.node
            for id_, one in self.tasks.items()
            if ERROR in one.channels and not is_call(one.path)
        }

    @property
    def left_failed(self) -> dict[str, str | None]:
        """The tasks that failed and that no error handler took."""
        return {
            id_: node
            for id_, node in self.failed.items()
            if ERROR_SOURCE not in self.tasks[id_].channels
        }

    @property
    def is_marked(self) -> bool:
        """Whether a task asked or failed, or was a change by hand."""
        return any(
            one.by_hand or INTERRUPT in one.channels or ERROR in one.channels
            for one in self.tasks.values()
        )


NO_KEYS = StepKeys()
"""Of a checkpoint without writes."""


def step_keys(writes: Iterable[model.Write]) -> dict[Key, StepKeys]:
    """Return what the keys of writes tell, by the checkpoint that they are stored on."""
    found: dict[Key, StepKeys] = {}
    place, here = None, NO_KEYS
    for write in writes:
        if write.key is not place:  # Most writes of a checkpoint come one after the other.
            place, key = write.key, (write.key.checkpoint_ns, write.key.checkpoint_id)
            here = found.setdefault(key, StepKeys())
        _, task_id, path, idx, channel, size, *_ = write
        here.writes += 1
        here.seal = hash((here.seal, task_id, idx, channel, size))
        if task_id == model.NULL_TASK_ID:
            continue
        task = here.tasks.get(task_id)
        if task is None:
            task = here.tasks[task_id] = TaskKeys(write.node or pulled_node(path), path)
        task.channels.add(channel)
        if write.at is not None:
            task.ended = write.at if task.ended is None else max(task.ended, write.at)
    return found


def skeletons_of(
    reader: ThreadReader, index: Mapping[Key, model.Checkpoint], stored: Mapping[Key, StepKeys]
) -> dict[Key, Skeleton]:
    """Return the facts that decide the place of each checkpoint in the tree.

    In `index`, the newest of a namespace come first. Metadata is read only of those whose keys do
    not tell enough.
    """
    only = reader.is_values_only
    found = {}
    for number, ((ns, checkpoint_id), one) in enumerate(index.items()):
        own = stored.get((ns, checkpoint_id), NO_KEYS)
        made_by = own if only else stored.get((ns, one.parent_checkpoint_id or ""), NO_KEYS)
        found[ns, checkpoint_id] = Skeleton(
            ns,
            checkpoint_id,
            one.parent_checkpoint_id,
            step=model.step_of(checkpoint_id),
            ran=nodes_that_ran(made_by),
            tasks=tuple(own.tasks),
            marked=own.is_marked,
            place=-number if only else 0,
        )
    wanted = (model.CheckpointKey(reader.thread_id, *key) for key in undecided(found.values()))
    for some in model.in_chunks(wanted):
        for checkpoint in reader.store.checkpoints_at(some, metadata=True):
            metadata, key = read_metadata(checkpoint), checkpoint.key
            forked_from, parents = metadata.get("forked_from"), metadata.get("parents")
            here = key.checkpoint_ns, key.checkpoint_id
            found[here] = found[here]._replace(
                step=step_from(metadata),
                source=source_from(metadata),
                forked_from=forked_from if isinstance(forked_from, str) else None,
                by_hand=_by_hand(metadata),
                parents={
                    ns: parent
                    for ns, parent in (parents.items() if isinstance(parents, dict) else ())
                    if isinstance(ns, str) and isinstance(parent, str)
                },
            )
    return found


def nodes_that_ran(made_by: StepKeys) -> tuple[str, ...] | None:
    """Return the nodes of tasks that stored writes; None unless all are known."""
    nodes = tuple(one.node for one in made_by.tasks.values() if one.node is not None)
    return nodes if nodes and len(nodes) == len(made_by.tasks) else None


def timed_checkpoint(
    reader: ThreadReader, one: model.Checkpoint, skeleton: Skeleton, stored: Mapping[Key, StepKeys]
) -> TimedCheckpoint:
    """Return what keys, and the metadata that was read, tell of the time of a checkpoint."""
    ns, checkpoint_id = skeleton.key
    own = stored.get(skeleton.key, NO_KEYS)
    made_by = stored.get((ns, one.parent_checkpoint_id or ""), NO_KEYS)
    if reader.is_values_only:
        made_by = own
    return TimedCheckpoint(
        checkpoint_ns=ns,
        checkpoint_id=checkpoint_id,
        parent_checkpoint_id=one.parent_checkpoint_id,
        at=one.at or model.time_of(checkpoint_id),
        step=model.step_of(checkpoint_id) if skeleton.step is None else skeleton.step,
        source=skeleton.source,
        nodes=_ran(skeleton.source, made_by),
        asking={} if reader.is_values_only else own.asking,
        failed=own.left_failed,
        by_hand=skeleton.by_hand or skeleton.source == "update",
        ended={
            task_id: (task.node, task.ended)
            for task_id, task in made_by.tasks.items()
            if task.node is not None and task.ended is not None
        },
    )


def read_steps(
    reader: ThreadReader, *, whole: bool, writes: Iterable[model.Write] | None = None
) -> ThreadSteps:
    """Return the steps of a thread; with `whole`, all bodies of a small thread are read.

    Otherwise, bodies are read only of steps whose nodes the keys do not name, and of long ones.
    `writes` are all of the thread, without their values, if they were read before.
    """
    indexes = reader.indexes()
    index = {(ns, one.key.checkpoint_id): one for ns, some in indexes.items() for one in some}
    stored = step_keys(reader.writes() if writes is None else writes)
    drawn = skeletons_of(reader, index, stored)
    found: dict[str, list[TimedCheckpoint]] = {}
    for ns, some in indexes.items():
        keyed = ((one, drawn[ns, one.key.checkpoint_id]) for one in reversed(some))
        found[ns] = _numbered(timed_checkpoint(reader, *one, stored) for one in keyed)
        if not reader.is_values_only:
            everything = whole and len(index) <= _SMALL
            found[ns] = _looked_at(reader, found[ns], stored, everything=everything)
    return ThreadSteps(found, SubgraphCalls(by_namespace(drawn.values())).called)


def _numbered(checkpoints: Iterable[TimedCheckpoint]) -> list[TimedCheckpoint]:
    """Return checkpoints with whole step numbers: an id holds only the last 14 bits."""
    found: dict[str, TimedCheckpoint] = {}
    for one in checkpoints:
        parent = found.get(one.parent_checkpoint_id or "")
        found[one.checkpoint_id] = one
        if parent is None or parent.step is None or one.step is None:
            continue
        if wraps := round((parent.step + 1 - one.step) / _STEPS):
            found[one.checkpoint_id] = one._replace(step=one.step + wraps * _STEPS)
    return list(found.values())


def _ran(source: str | None, made_by: StepKeys) -> tuple[str, ...] | None:
    """Return the nodes of the tasks that made a checkpoint; None unless the keys name them all."""
    if not ran_here(source):
        return ()
    runs = [one for one in made_by.tasks.values() if not one.by_hand and not is_call(one.path)]
    nodes = tuple(task.node for task in runs if task.node is not None and task.wrote)
    return nodes if nodes and len(nodes) == len(runs) else None


def _looked_at(
    reader: ThreadReader,
    checkpoints: list[TimedCheckpoint],
    stored: Mapping[Key, StepKeys],
    *,
    everything: bool,
) -> list[TimedCheckpoint]:
    """Return the checkpoints of a namespace, with what the bodies of some of them tell."""
    known = {one.checkpoint_id: one for one in checkpoints}
    ns = checkpoints[0].checkpoint_ns
    unclear = {*known} if everything else _unclear(checkpoints, stored)
    nameless = {one.checkpoint_id for one in checkpoints if one.nodes is None}
    parents = {known[one].parent_checkpoint_id or "" for one in unclear | nameless}
    moments = _bodies(reader, ns, {*unclear, *(parents & known.keys())})
    for checkpoint_id in unclear | nameless:
        one = known[checkpoint_id]
        before = moments.get(one.parent_checkpoint_id or "")
        seen = moments.get(checkpoint_id)
        if seen is not None:
            one = one._replace(
                source=seen.source or one.source, step=seen.number, by_hand=_by_hand(seen.metadata)
            )
        if not ran_here(one.source):
            one = one._replace(nodes=())
        elif before is not None:
            if seen is None:
                one = one._replace(nodes=finished(before.step))
            else:
                # Whether a run began at its parent, too.
                now, then = seen.body.seen, before.body.seen
                resumed = now.get(_RESUMED) != then.get(_RESUMED)
                one = one._replace(nodes=ran(before.step, then, now), resumed=resumed)
        known[checkpoint_id] = one
    return list(known.values())


def _unclear(checkpoints: list[TimedCheckpoint], stored: Mapping[Key, StepKeys]) -> set[str]:
    """Return the checkpoints whose own bodies are needed.

    These are the ones made by a step that stored nothing or long after their parent: a run may
    have begun there.
    """
    steps = timed_steps(checkpoints)
    found = set()
    for one in checkpoints:
        step = steps[one.checkpoint_id]
        made_by = stored.get((one.checkpoint_ns, one.parent_checkpoint_id or ""), NO_KEYS)
        is_long = step.kind == "run" and (step.seconds or 0.0) > _LONG
        if is_long or (one.nodes is None and not made_by.tasks):
            found.add(one.checkpoint_id)
    return found


def _bodies(reader: ThreadReader, ns: str, ids: Collection[str]) -> dict[str, Moment]:
    """Return checkpoints without their values, which may be large."""
    return {
        one.key.checkpoint_id: replace(one, body=one.body._replace(values={}), writes=())
        for one in reader.moments(ns, ids, skim=True)
    }


def _by_hand(metadata: Mapping[str, Value]) -> bool:
    """Return whether `update_state` or `ckpt` made a checkpoint. A fork may be LangGraph's own,
    which its run goes on from."""
    return source_from(metadata) == "update" or metadata.get(BY) == NAME


def timeline(
    reader: ThreadReader,
    checkpoint_ns: str = "",
    checkpoint_id: str | None = None,
    *,
    since: datetime | None = None,
    last: int | None = None,
) -> Timeline:
    """Return the steps of the branch that leads to a checkpoint, by default to the head.

    `since` leaves out steps that ended before; `last` limits the number of steps of the branch.
    """
    checkpoint_id = reader.head(checkpoint_ns) if checkpoint_id is None else checkpoint_id
    if checkpoint_id is None:
        return Timeline(reader.thread_id, None, None, (), {})
    found = read_steps(reader, whole=True)
    return timeline_of(reader, found, checkpoint_ns, checkpoint_id, since=since, last=last)


def timeline_of(
    reader: ThreadReader,
    found: ThreadSteps,
    checkpoint_ns: str,
    checkpoint_id: str,
    *,
    since: datetime | None = None,
    last: int | None = None,
) -> Timeline:
    """Return the same from the steps of a thread, which were read with all of its bodies."""
    head = reader.head(checkpoint_ns)
    branch = found.branch(checkpoint_ns, checkpoint_id)
    shown = [one for one in branch if since is None or (one.ended_at or since) >= since]
    shown = shown if last is None else shown[-last:]
    steps = list(found.with_calls(shown))
    open_step = _open(reader, checkpoint_ns, checkpoint_id) if checkpoint_id == head else None
    if open_step is not None:
        steps += found.under_way((checkpoint_ns, checkpoint_id), open_step.nodes)
        inside = [one.ended_at for one in steps[-1:] if one.depth]
        ends = [one for one in (*inside, open_step.since) if one is not None]
        open_step = open_step._replace(since=max(ends, default=None))
    first = shown[0].started_at or shown[0].ended_at if shown else None
    ends = [one.ended_at for one in steps if one.ended_at is not None]
    return Timeline(
        reader.thread_id,
        first,
        max(ends, default=None),
        steps,
        node_times(steps),
        open_step,
        len(branch) - len(shown),
    )


def _open(reader: ThreadReader, checkpoint_ns: str, checkpoint_id: str) -> OpenStep | None:
    """Return what happens since a head; None if its run is over."""
    head = reader.moment(checkpoint_ns, checkpoint_id)
    if head.status not in {model.Status.INTERRUPTED, model.Status.PENDING, model.Status.ERROR}:
        return None
    nodes = tuple(map(path_text, next_paths(head.step) or ()))
    if model.Status.INTERRUPTED in head.conditions:
        return OpenStep("human", nodes, head.at)
    if head.status is model.Status.ERROR:
        return OpenStep("idle", nodes, head.at, "failed")
    if head.metadata.get(BY) == NAME and not any(run.writes for run in head.step.tasks):
        return OpenStep("idle", nodes, head.at, "fork")
    return OpenStep("run", nodes, head.at)
