"""Tell how long each step of a thread took, and when it waited for people."""

from __future__ import annotations

from datetime import datetime

from ckpt_backends.model import Status
from ckpt_cli.core.forking.marks import BY, NAME
from ckpt_cli.core.tasks.step_nodes import next_paths, path_text
from ckpt_cli.core.timeline.assemble import OpenStep, ThreadSteps, Timeline, node_times
from ckpt_cli.queries.step_times import read_steps
from ckpt_cli.threads.thread import ThreadReader


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
