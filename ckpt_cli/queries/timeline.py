"""Reads how long the steps of a thread took."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from ckpt_backends.checkpoint_ids import step_of, time_of
from ckpt_backends.chunks import in_chunks
from ckpt_backends.codec.values import Value
from ckpt_backends.model import NULL_TASK_ID, Checkpoint, CheckpointKey, Status, Write
from ckpt_cli.core.state import BY, ERROR, INTERRUPT, NAME, read_metadata, source_from, step_from
from ckpt_cli.core.tasks.attribution import ERROR_SOURCE
from ckpt_cli.core.tasks.task_ids import UPDATE_PATH, is_call, pulled_node
from ckpt_cli.core.tasks.tasks import CONTROL, finished, next_paths, path_text, ran, ran_here
from ckpt_cli.core.timeline import (
    OpenStep,
    ThreadSteps,
    TimedCheckpoint,
    Timeline,
    node_times,
    timed_steps,
)
from ckpt_cli.core.tree import Branches, Key, Skeleton, SubgraphCalls, undecided
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
class _TaskKeys:
    """A task, from the keys of its writes."""

    node: str | None
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


_Tasks = Mapping[str, _TaskKeys]


def read_steps(
    reader: ThreadReader, *, whole: bool, writes: Iterable[Write] | None = None
) -> ThreadSteps:
    """Return the steps of a thread; with `whole`, all bodies of a small thread are read.

    Otherwise, bodies are read only of steps whose nodes the keys do not name, and of long ones.
    `writes` are all of the thread, without their values, if they were read before.
    """
    index = {ns: some[::-1] for ns, some in reader.indexes().items()}
    tasks = _tasks(reader.store.writes(reader.thread_id) if writes is None else writes)
    metadata = _metadata(reader, index, tasks)
    number = sum(map(len, index.values()))
    found = {
        ns: _numbered(
            _timed(reader, one, tasks, metadata.get((ns, one.key.checkpoint_id)))
            for one in checkpoints
        )
        for ns, checkpoints in index.items()
    }
    if not reader.is_values_only:
        everything = whole and number <= _SMALL
        for ns, checkpoints in found.items():
            found[ns] = _looked_at(reader, checkpoints, tasks, everything=everything)
    return ThreadSteps(found, _calls(found, tasks, metadata))


def _tasks(writes: Iterable[Write]) -> dict[Key, dict[str, _TaskKeys]]:
    """Return the tasks that stored something at each checkpoint, by task id."""
    found: dict[Key, dict[str, _TaskKeys]] = {}
    for write in writes:
        if write.task_id == NULL_TASK_ID:
            continue
        here = found.setdefault((write.key.checkpoint_ns, write.key.checkpoint_id), {})
        task = here.get(write.task_id)
        if task is None:
            task = here[write.task_id] = _TaskKeys(_node(write), write.task_path)
        task.channels.add(write.channel)
        if write.at is not None:
            task.ended = write.at if task.ended is None else max(task.ended, write.at)
    return found


def _node(write: Write) -> str | None:
    return write.node or pulled_node(write.task_path)


def _metadata(
    reader: ThreadReader, index: Mapping[str, list[Checkpoint]], tasks: Mapping[Key, _Tasks]
) -> dict[Key, dict[str, object]]:
    """Return the metadata of checkpoints that a run may not have made simply by continuing."""
    keys = undecided(
        Skeleton(
            ns,
            one.key.checkpoint_id,
            one.parent_checkpoint_id,
            step=step_of(one.key.checkpoint_id),
            tasks=tuple(here := tasks.get((ns, one.key.checkpoint_id), {})),
            marked=any(
                task.by_hand or INTERRUPT in task.channels or ERROR in task.channels
                for task in here.values()
            ),
        )
        for ns, checkpoints in index.items()
        for one in checkpoints
    )
    wanted = (CheckpointKey(reader.thread_id, *key) for key in keys)
    found: dict[Key, dict[str, object]] = {}
    for some in in_chunks(wanted):
        for one in reader.store.checkpoints_at(some, metadata=True):
            read = read_metadata(one)
            found[one.key.checkpoint_ns, one.key.checkpoint_id] = {
                "source": source_from(read),
                "step": step_from(read),
                "parents": read.get("parents"),
                "by_hand": _by_hand(read),
            }
    return found


def _timed(
    reader: ThreadReader,
    one: Checkpoint,
    tasks: Mapping[Key, _Tasks],
    metadata: Mapping[str, object] | None,
) -> TimedCheckpoint:
    ns, checkpoint_id = one.key.checkpoint_ns, one.key.checkpoint_id
    own = tasks.get((ns, checkpoint_id), {})
    made_by = own if reader.is_values_only else tasks.get((ns, one.parent_checkpoint_id or ""), {})
    said = metadata or {}
    source, step = said.get("source"), said.get("step")
    return TimedCheckpoint(
        checkpoint_ns=ns,
        checkpoint_id=checkpoint_id,
        parent_checkpoint_id=one.parent_checkpoint_id,
        at=one.at or time_of(checkpoint_id),
        step=step if isinstance(step, int) else step_of(checkpoint_id),
        source=source if isinstance(source, str) else None,
        nodes=_ran(source if isinstance(source, str) else None, made_by),
        asking={
            task_id: task.node
            for task_id, task in own.items()
            if INTERRUPT in task.channels and not reader.is_values_only
        },
        failed={
            task_id: task.node
            for task_id, task in own.items()
            if ERROR in task.channels
            and ERROR_SOURCE not in task.channels
            and not is_call(task.path)
        },
        by_hand=bool(said.get("by_hand")),
        ended={
            task_id: (task.node, task.ended)
            for task_id, task in made_by.items()
            if task.node is not None and task.ended is not None
        },
    )


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


def _ran(source: str | None, tasks: _Tasks) -> tuple[str, ...] | None:
    """Return the nodes of the tasks that made a checkpoint; None unless the keys name them all."""
    if not ran_here(source):
        return ()
    runs = [task for task in tasks.values() if not task.by_hand and not is_call(task.path)]
    nodes = tuple(task.node for task in runs if task.node is not None and task.wrote)
    return nodes if nodes and len(nodes) == len(runs) else None


def _looked_at(
    reader: ThreadReader,
    checkpoints: list[TimedCheckpoint],
    tasks: Mapping[Key, _Tasks],
    *,
    everything: bool,
) -> list[TimedCheckpoint]:
    """Return the checkpoints of a namespace, with what the bodies of some of them tell."""
    known = {one.checkpoint_id: one for one in checkpoints}
    ns = checkpoints[0].checkpoint_ns
    unclear = {*known} if everything else _unclear(checkpoints, tasks)
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
        if before is not None and ran_here(one.source):
            one = _made_by(one, before, seen)
        known[checkpoint_id] = one
    return list(known.values())


def _unclear(checkpoints: list[TimedCheckpoint], tasks: Mapping[Key, _Tasks]) -> set[str]:
    """Return the checkpoints whose own bodies are needed.

    These are the ones made by a step that stored nothing or long after their parent: a run may
    have begun there.
    """
    steps = timed_steps(checkpoints)
    found = set()
    for one in checkpoints:
        step = steps[one.checkpoint_id]
        stored = tasks.get((one.checkpoint_ns, one.parent_checkpoint_id or ""))
        is_long = step.kind == "run" and (step.seconds or 0.0) > _LONG
        if is_long or (one.nodes is None and not stored):
            found.add(one.checkpoint_id)
    return found


def _made_by(one: TimedCheckpoint, before: Moment, seen: Moment | None) -> TimedCheckpoint:
    """Return a checkpoint with the nodes that made it, and whether a run began at its parent."""
    if seen is None:
        return one._replace(nodes=finished(before.step))
    return one._replace(
        nodes=ran(before.step, before.body.seen, seen.body.seen),
        resumed=seen.body.seen.get(_RESUMED) != before.body.seen.get(_RESUMED),
    )


def _bodies(reader: ThreadReader, ns: str, ids: Collection[str]) -> dict[str, Moment]:
    """Return checkpoints without their values, which may be large."""
    return {
        one.key.checkpoint_id: Moment(
            one.checkpoint, one.body._replace(values={}), one.metadata, (), one.step
        )
        for one in reader.moments(ns, ids, skim=True)
    }


def _calls(
    found: Mapping[str, list[TimedCheckpoint]],
    tasks: Mapping[Key, _Tasks],
    metadata: Mapping[Key, Mapping[str, object]],
) -> Mapping[Key, list[str]]:
    """Return the namespaces of subgraph calls, by the checkpoint before the calling step."""
    if len(found) == 1:
        return {}
    branches: dict[str, Branches] = {}
    for ns, checkpoints in sorted(found.items()):
        items = {
            one.checkpoint_id: Skeleton(
                ns,
                one.checkpoint_id,
                one.parent_checkpoint_id,
                tasks=tuple(tasks.get(one.key, ())),
                parents=dict(_parents(metadata.get(one.key, {}).get("parents"))),
                place=place,
            )
            for place, one in enumerate(checkpoints)
        }
        branches[ns] = Branches(items, None)
    return SubgraphCalls(branches).called


def _by_hand(metadata: Mapping[str, Value]) -> bool:
    """Return whether `update_state` or `ckpt` made a checkpoint. A fork may be LangGraph's own,
    which its run goes on from."""
    return source_from(metadata) == "update" or metadata.get(BY) == NAME


def _parents(value: object) -> Iterator[tuple[str, str]]:
    for ns, parent in value.items() if isinstance(value, dict) else ():
        if isinstance(ns, str) and isinstance(parent, str):
            yield ns, parent


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
        inside = [one.ended_at for one in steps[-1:] if one.depth and one.ended_at is not None]
        open_step = open_step._replace(since=max([*inside, *_known(open_step)], default=None))
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


def _known(step: OpenStep) -> list[datetime]:
    return [] if step.since is None else [step.since]


def _open(reader: ThreadReader, checkpoint_ns: str, checkpoint_id: str) -> OpenStep | None:
    """Return what happens since a head; None if its run is over."""
    head = reader.moment(checkpoint_ns, checkpoint_id)
    if head.status not in {Status.INTERRUPTED, Status.PENDING, Status.ERROR}:
        return None
    nodes = tuple(map(path_text, next_paths(head.step) or ()))
    if Status.INTERRUPTED in head.conditions:
        return OpenStep("human", nodes, head.at)
    if head.status is Status.ERROR:
        return OpenStep("idle", nodes, head.at, "failed")
    if head.metadata.get(BY) == NAME and not any(run.writes for run in head.step.tasks):
        return OpenStep("idle", nodes, head.at, "fork")
    return OpenStep("run", nodes, head.at)
