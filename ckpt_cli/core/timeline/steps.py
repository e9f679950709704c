"""The time of each step, from the checkpoints of one namespace.

A checkpoint is saved when its step is over, so a step took from its parent's time to its own. The
store does not record when an answer or a retry came: the step then has one time for the wait and
for the run after it.
"""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Literal, NamedTuple

from ckpt_cli.core.tasks.step_nodes import ran_here
from ckpt_cli.core.tasks.triggers import START

Kind = Literal["run", "human", "idle"]
Cause = Literal["input", "update", "fork", "answer", "retry", "resume"]


class TimedCheckpoint(NamedTuple):
    """What decides the time of the step that made a checkpoint, and of the next one."""

    checkpoint_ns: str
    checkpoint_id: str
    parent_checkpoint_id: str | None
    at: datetime | None
    """When it was saved; None if that is not known."""
    step: int | None = None
    source: str | None = None
    """None if not read: then a run made it."""
    nodes: tuple[str, ...] | None = None
    """The nodes that ran to make it, one entry per task; None if not known."""
    asking: Mapping[str, str | None] = {}
    """The tasks of the next step that asked a question, with their nodes as far as known."""
    failed: Mapping[str, str | None] = {}
    """The tasks of the next step that failed and that nothing handled, with their nodes."""
    resumed: bool = False
    """The run that made it began at its parent, as after a crash or a breakpoint."""
    by_hand: bool = False
    """`update_state` or a command of `ckpt` made it: no run goes on from it by itself."""
    ended: Mapping[str, tuple[str, datetime]] = {}
    """By task that made it: node and end, in layouts that store when a write was made."""

    @property
    def key(self) -> tuple[str, str]:
        return self.checkpoint_ns, self.checkpoint_id


class TimedStep(NamedTuple):
    """One step, and what its time was spent on."""

    checkpoint_ns: str
    checkpoint_id: str
    parent_checkpoint_id: str | None
    step: int | None
    nodes: tuple[str, ...] | None
    started_at: datetime | None
    """None if the parent is not stored."""
    ended_at: datetime | None
    kind: Kind
    """`human` if a question waited in it; `idle` if a run began in it, with all time before."""
    cause: Cause | None
    """What it began with; None if the run before simply continued."""
    asked_by: Mapping[str, str | None] = {}
    """The tasks that asked the questions of a `human` step, with their nodes."""
    failed: Mapping[str, str | None] = {}
    """The tasks that had failed before, with their nodes, if it is a retry."""
    waiting_seconds: float = 0.0
    """The part of a `human` step in which it may have waited for an answer."""
    depth: int = 0
    """Number of subgraphs that it ran in."""
    tasks: Mapping[str, tuple[str, datetime]] = {}
    """By task: node and end, where the layout stores it."""

    @property
    def seconds(self) -> float | None:
        """How long it took; None if not known, or if the clock was set back meanwhile."""
        return seconds_between(self.started_at, self.ended_at)

    @property
    def is_start(self) -> bool:
        """Whether it only read the input."""
        return self.nodes == (START,)


def seconds_between(start: datetime | None, end: datetime | None) -> float | None:
    """Return the seconds from one time to a later one; None if they are not known or disagree."""
    if start is None or end is None or end < start:
        return None
    return (end - start).total_seconds()


def timed_steps(checkpoints: Sequence[TimedCheckpoint]) -> dict[str, TimedStep]:
    """Return the step that made each checkpoint of a namespace, which come oldest first."""
    stored = {one.checkpoint_id: one for one in checkpoints}
    found: dict[str, TimedStep] = {}
    continued: set[str] = set()
    newest: datetime | None = None
    for one in checkpoints:
        parent = stored.get(one.parent_checkpoint_id or "")
        is_first = one.parent_checkpoint_id not in continued
        start = None if parent is None else parent.at
        if parent is not None and not is_first and newest is not None:
            # The time since the parent was spent on another branch.
            start = newest
        found[one.checkpoint_id] = _step(one, parent, start, is_first=is_first)
        if one.parent_checkpoint_id is not None:
            continued.add(one.parent_checkpoint_id)
        newest = one.at or newest
    return found


def _step(
    one: TimedCheckpoint, parent: TimedCheckpoint | None, start: datetime | None, *, is_first: bool
) -> TimedStep:
    cause = _cause(one, parent, is_first=is_first)
    is_asked = parent is not None and (is_first or cause == "answer")
    asked_by = parent.asking if parent is not None and is_asked else {}
    kind: Kind = "run" if cause is None else "human" if asked_by else "idle"
    waited = seconds_between(start, one.at) if kind == "human" else None
    return TimedStep(
        checkpoint_ns=one.checkpoint_ns,
        checkpoint_id=one.checkpoint_id,
        parent_checkpoint_id=one.parent_checkpoint_id,
        step=one.step,
        nodes=one.nodes,
        started_at=start,
        ended_at=one.at,
        kind=kind,
        cause=cause,
        asked_by=asked_by,
        failed=parent.failed if parent is not None and cause == "retry" else {},
        waiting_seconds=waited or 0.0,
        tasks=one.ended,
    )


def _cause(one: TimedCheckpoint, parent: TimedCheckpoint | None, *, is_first: bool) -> Cause | None:
    if not ran_here(one.source):
        return "input" if one.source == "input" else "update" if one.source == "update" else "fork"
    if parent is None:
        return None
    if parent.asking:
        return "answer"
    if not is_first:
        return "fork"
    if parent.failed:
        return "retry"
    return "resume" if one.resumed or parent.by_hand else None
