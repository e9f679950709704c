"""The time of a thread: its steps, what they took, and where people were waited for."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from statistics import median
from typing import Literal, NamedTuple, get_args

from ckpt_backends.model import time_of
from ckpt_cli.core.lineage import DEEPEST, Parentage, innermost, namespace_in
from ckpt_cli.core.state import START
from ckpt_cli.core.tasks import node_path, path_text, ran_here
from ckpt_cli.core.tree import Key

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


_EXACT = 10_000
"""Number of durations that are kept as they are; more are counted in buckets."""
_GROWTH = 1.02
"""Ratio of the bounds of a bucket, so that an estimate is off by 1 % at most."""
_SHORTEST = 1e-6
"""Seconds; the times that stores keep are not finer."""


class Durations:
    """Durations in seconds. Percentiles are estimated if there are more than 10,000."""

    def __init__(self, seconds: Iterable[float] = ()) -> None:
        self.count = 0
        self.total = 0.0
        self.longest: float | None = None
        self._exact = array("d")
        self._buckets: Counter[int] = Counter()
        for one in seconds:
            self.add(one)

    @property
    def is_estimated(self) -> bool:
        """Whether percentiles are estimates."""
        return bool(self._buckets)

    def add(self, seconds: float) -> None:
        """Add one duration."""
        self.count += 1
        self.total += seconds
        self.longest = seconds if self.longest is None else max(self.longest, seconds)
        if self._buckets:
            self._buckets[_bucket(seconds)] += 1
            return
        self._exact.append(seconds)
        if len(self._exact) > _EXACT:
            self._fold()

    def merge(self, other: Durations) -> None:
        """Add the durations of another object."""
        self.count += other.count
        self.total += other.total
        known = [one.longest for one in (self, other) if one.longest is not None]
        self.longest = max(known, default=None)
        self._exact.extend(other._exact)
        self._buckets.update(other._buckets)
        if self._buckets or len(self._exact) > _EXACT:
            self._fold()

    def percentile(self, percent: float) -> float | None:
        """Return the smallest duration that is not exceeded by so many percent of them.

        Returns None if there are none.
        """
        if not self.count:
            return None
        rank = max(1, math.ceil(self.count * percent / 100))
        if not self._buckets:
            return sorted(self._exact)[rank - 1]
        passed = 0
        for bucket in sorted(self._buckets):
            passed += self._buckets[bucket]
            if passed >= rank:
                return min(_middle(bucket), self.longest or 0.0)
        return self.longest

    def _fold(self) -> None:
        """Count the durations that were kept as they are in buckets."""
        self._buckets.update(map(_bucket, self._exact))
        self._exact = array("d")


def _bucket(seconds: float) -> int:
    return math.ceil(math.log(max(seconds, _SHORTEST) / _SHORTEST, _GROWTH))


def _middle(bucket: int) -> float:
    return _SHORTEST * _GROWTH**bucket * 2 / (1 + _GROWTH)


Span = tuple[datetime, datetime]


@dataclass(slots=True)
class NodeTime:
    """The runs of one node."""

    runs: int = 0
    """All of its runs; the time of some may not be known."""
    shared: int = 0
    """Number of runs in parallel with others, whose common time counts for each."""
    seconds: Durations = field(default_factory=Durations)
    """How long the runs took of which that is known."""

    def merge(self, other: NodeTime) -> None:
        """Add the runs of another object."""
        self.runs += other.runs
        self.shared += other.shared
        self.seconds.merge(other.seconds)


class OpenStep(NamedTuple):
    """What a branch is doing since its last checkpoint."""

    kind: Kind
    nodes: tuple[str, ...]
    since: datetime | None
    cause: Literal["failed", "fork"] | None = None
    """Why nothing runs, if it is idle: a task failed, or `ckpt` went back and no run followed."""


class Timeline(NamedTuple):
    """The steps of one branch of a thread, oldest first."""

    thread_id: str
    first_at: datetime | None
    last_at: datetime | None
    steps: Sequence[TimedStep]
    """Each step of the branch is followed by the steps of the subgraphs that it called."""
    nodes: Mapping[str, NodeTime]
    """By path of the node: `research > ask`."""
    open: OpenStep | None = None
    """None if nothing runs or waits, or if the last checkpoint is not the head."""
    left_out: int = 0
    """Number of earlier steps of the branch that were not asked for."""

    @property
    def seconds(self) -> float | None:
        """From the first to the last checkpoint."""
        return seconds_between(self.first_at, self.last_at)

    @property
    def waiting_seconds(self) -> float:
        """How long people were waited for."""
        return sum(one.waiting_seconds for one in self.steps if not one.depth)

    @property
    def running_seconds(self) -> float:
        """How long nodes ran, as far as known."""
        return sum(
            (one.seconds or 0.0) - one.waiting_seconds
            for one in self.steps
            if one.kind != "idle" and not one.depth
        )

    @property
    def idle_seconds(self) -> float:
        """How long nothing ran and no question waited, or a run had failed."""
        return sum(one.seconds or 0.0 for one in self.steps if one.kind == "idle" and not one.depth)


class ThreadSteps:
    """All steps of a thread, by namespace, and which of them called which subgraphs."""

    def __init__(
        self,
        checkpoints: Mapping[str, Sequence[TimedCheckpoint]],
        called: Mapping[Key, Sequence[str]],
    ) -> None:
        """`checkpoints` come oldest first; `called` has the calls made from each of them."""
        self._checkpoints = checkpoints
        self._called = called
        self._steps = {ns: timed_steps(found) for ns, found in checkpoints.items()}
        self._parentages = {
            ns: Parentage({one.checkpoint_id: one.parent_checkpoint_id for one in reversed(found)})
            for ns, found in checkpoints.items()
        }
        self._times = {
            ns: [one.at for one in found if one.at is not None] for ns, found in checkpoints.items()
        }

    def step(self, key: Key) -> TimedStep:
        """Return the step that made a checkpoint."""
        return self._steps[key[0]][key[1]]

    def branch(self, checkpoint_ns: str, checkpoint_id: str) -> list[TimedStep]:
        """Return the steps that led to a checkpoint, oldest first."""
        steps = self._steps[checkpoint_ns]
        return [steps[one] for one in self._parentages[checkpoint_ns].line(checkpoint_id)][::-1]

    def with_calls(self, branch: Iterable[TimedStep]) -> Iterator[TimedStep]:
        """Yield each step of a branch, followed by those of the subgraphs that it called."""
        for one in branch:
            step, inside, _ = self._opened(one, 0)
            yield step
            yield from inside

    def under_way(self, key: Key, nodes: Iterable[str]) -> list[TimedStep]:
        """Return the steps of subgraphs that were called after a checkpoint, if it is the last."""
        ns, checkpoint_id = key
        at = self._steps[ns][checkpoint_id].ended_at
        inside: list[TimedStep] = []
        for call in self._calls(ns, checkpoint_id, nodes):
            for one in self._stretch(call, at, None):
                step, deeper, _ = self._opened(_inside(one, at, 1, "run"), 1)
                inside += [step, *deeper]
        return inside

    def all_steps(self) -> Iterator[TimedStep]:
        """Yield every step of every branch, with calls taken into account for what waited."""
        for steps in self._steps.values():
            for one in steps.values():
                yield self._opened(one, 0)[0] if one.kind == "human" else one

    def _opened(self, step: TimedStep, depth: int) -> tuple[TimedStep, list[TimedStep], list[Span]]:
        """Return a step, the steps inside, and when people were waited for in it."""
        inside: list[TimedStep] = []
        waits: list[Span] = []
        answered: set[str] = set()
        if depth < DEEPEST and step.parent_checkpoint_id is not None:
            calls = self._calls(step.checkpoint_ns, step.parent_checkpoint_id, step.nodes or ())
            for ns in calls:
                for one in self._stretch(ns, step.started_at, step.ended_at):
                    nested, deeper, asked = self._opened(
                        _inside(one, step.started_at, depth + 1, step.kind), depth + 1
                    )
                    inside += [nested, *deeper]
                    waits += asked
                    if asked:
                        answered |= _tasks_of(ns, step.asked_by)
        if step.kind != "human":
            return step, inside, waits
        if answered.issuperset(step.asked_by):
            return step._replace(waiting_seconds=_length(waits)), inside, waits
        whole = step.started_at, step.ended_at
        known = whole[0] is not None and whole[1] is not None
        return step, inside, [(whole[0], whole[1])] if known else []  # type: ignore[list-item]

    def _calls(self, ns: str, caller: str, nodes: Iterable[str]) -> Iterator[str]:
        """Yield the namespaces of the subgraphs that the step after a checkpoint called."""
        yield from self._called.get((ns, caller), ())
        for node in dict.fromkeys(nodes):
            kept = namespace_in(ns, node)
            if kept in self._steps:
                yield kept

    def _stretch(
        self, ns: str, after: datetime | None, until: datetime | None
    ) -> Iterator[TimedStep]:
        """Yield the steps of a call that ended between two times, oldest first."""
        times = self._times[ns]
        if after is None or len(times) < len(self._checkpoints[ns]):
            return
        place = len(times) if until is None else bisect_right(times, until)
        found: list[TimedStep] = []
        newest = self._checkpoints[ns][place - 1].checkpoint_id if place else ""
        for one in self._parentages[ns].line(newest):
            step = self._steps[ns][one]
            if step.ended_at is None or step.ended_at <= after:
                break
            found.append(step)
        yield from reversed(found)


def node_times(steps: Iterable[TimedStep]) -> dict[str, NodeTime]:
    """Return the runs of each node, by its path."""
    found: dict[tuple[str, str], NodeTime] = {}
    for step in steps:
        nodes = [node for node in step.nodes or () if node != START]
        for node in nodes:
            here = found.setdefault((step.checkpoint_ns, node), NodeTime())
            here.runs += 1
            here.shared += len(nodes) > 1
        for node, seconds in _known(step, nodes):
            found[step.checkpoint_ns, node].seconds.add(seconds)
    by_path: dict[str, NodeTime] = {}
    for (ns, node), one in found.items():
        by_path.setdefault(path_text(node_path(ns, [node])), NodeTime()).merge(one)
    return by_path


def _known(step: TimedStep, nodes: Sequence[str]) -> Iterator[tuple[str, float]]:
    """Yield how long the runs of a step took, as far as that is known."""
    seconds = step.seconds
    if seconds is None or step.kind == "idle":
        return
    if step.kind == "human":
        # Without a subgraph, nothing tells when the answer came.
        if step.waiting_seconds < seconds:
            yield from ((node, seconds - step.waiting_seconds) for node in nodes)
        return
    if step.tasks:
        for node, end in step.tasks.values():
            took = seconds_between(step.started_at, end)
            if node in nodes:
                yield node, seconds if took is None else min(took, seconds)
        return
    yield from ((node, seconds) for node in nodes)


def _inside(step: TimedStep, start: datetime | None, depth: int, caller: Kind) -> TimedStep:
    """Return a step of a subgraph: it began after its caller, and its input is no pause, unless the
    caller was stopped or asked, perhaps before the call.
    """
    begun = step.started_at
    if begun is None or (start is not None and begun < start):
        begun = start
    entered: Kind = "run" if caller == "run" else "idle"
    kind = entered if step.cause == "input" else step.kind
    waited = seconds_between(begun, step.ended_at) if kind == "human" else None
    return step._replace(started_at=begun, kind=kind, depth=depth, waiting_seconds=waited or 0.0)


def _tasks_of(ns: str, asked_by: Mapping[str, str | None]) -> set[str]:
    """Return the asking tasks that called a namespace."""
    call = innermost(ns)
    return {
        one
        for one, name in asked_by.items()
        if one == call.task_id or (call.task_id is None and name == call.node)
    }


def _length(spans: Iterable[Span]) -> float:
    """Return the seconds that some spans cover together."""
    total, reached = 0.0, None
    for start, end in sorted(spans):
        begin = start if reached is None else max(start, reached)
        if end > begin:
            total += (end - begin).total_seconds()
            reached = end
    return total


# Map the checkpoints of a thread to one line.
#
# Half of the width is shared out by time, the other half evenly: a wait of a night is seen as
# long, and does not push all other steps into one place. Without times, all of it is shared out
# evenly.


Sign = Literal["error", "question", "fork", "edit", "answered", "input", "tip", "step"]
"""What happened at a checkpoint; if several things did, the first of these."""
_SIGNS: Sequence[Sign] = get_args(Sign)
_RANKS: Mapping[Sign, int] = {sign: rank for rank, sign in enumerate(_SIGNS)}
Stretch = Literal["run", "long", "human", "idle"]
"""What the time between two checkpoints was spent on; `long` is a run that took long."""
_END = 1 - 1e-9
"""The place of the last checkpoint."""
_LONG = 0.1
"""Part of all time that was spent on runs which makes one of them a long one."""
_OFTEN = 3
"""How many times as long as most others it must be, too."""


class TimedPoint(NamedTuple):
    """One checkpoint on the line."""

    key: Key
    at: datetime | None
    kind: Kind
    """What the time before it was spent on."""
    sign: Sign


class ScrubberCell(NamedTuple):
    """One column of the line."""

    sign: Sign | None
    """None if no checkpoint is in it."""
    stretch: Stretch
    key: Key
    """The checkpoint that a click goes to: the one with the sign, or else the nearest one."""


class Scrubber:
    """The checkpoints of a thread on a line, in the order given."""

    def __init__(self, points: Sequence[TimedPoint]) -> None:
        self._points = points
        self._places = _places([one.at for one in points])
        self._ranks = [_RANKS[one.sign] for one in points]
        self._long = _long(points)
        self._number = {one.key: number for number, one in enumerate(points)}
        self._drawn: tuple[int, Sequence[ScrubberCell]] = 0, ()

    def cells(self, width: int) -> Sequence[ScrubberCell]:
        """Return the line in `width` columns; empty without points or columns."""
        if self._drawn[0] != width:
            self._drawn = width, self._cells(width) if self._points and width > 0 else ()
        return self._drawn[1]

    def column(self, key: Key | None, width: int) -> int | None:
        """Return the column of a checkpoint; None if there is none.

        One that is not on the line, as in a subgraph, has the column of the last one before it.
        """
        if key is None or width < 1 or not self._points:
            return None
        number = self._number.get(key)
        if number is None:
            at = time_of(key[1])
            if at is None or self._points[0].at is None:
                return None
            known = [one.at for one in self._points]
            number = max(bisect_right(known, at, key=lambda one: one or at) - 1, 0)
        return int(self._places[number] * width)

    def _cells(self, width: int) -> Sequence[ScrubberCell]:
        points, places = self._points, self._places
        columns = [int(place * width) for place in places]
        shown: dict[int, int] = {}
        best = [len(_RANKS)] * width
        for number, (column, rank) in enumerate(zip(columns, self._ranks, strict=True)):
            if rank < best[column]:
                best[column], shown[column] = rank, number
        cells = []
        for column in range(width):
            there = shown.get(column)
            sign = None if there is None else points[there].sign
            near = _nearest(places, (column + 0.5) / width) if there is None else there
            following = min(bisect_left(columns, column), len(points) - 1)
            stretch: Stretch = "long" if following in self._long else points[following].kind
            cells.append(ScrubberCell(sign, stretch, points[near].key))
        return cells


def point_sign(
    *, source: str | None, is_failed: bool, is_asked: bool, is_tip: bool, is_forked: bool
) -> Sign:
    """Return what happened at a checkpoint."""
    if is_failed:
        return "error"
    if is_asked and is_tip:
        return "question"
    if is_forked:
        return "fork"
    if source in {"update", "fork"}:
        return "edit"
    if is_asked:
        return "answered"
    if source == "input":
        return "input"
    return "tip" if is_tip else "step"


def _places(times: Sequence[datetime | None]) -> Sequence[float]:
    """Return the place of each time, from 0.0 to less than 1.0."""
    last = max(len(times) - 1, 1)
    even = [number / last * _END for number in range(len(times))]
    seconds: list[float] = []
    for at in times:
        if at is None:
            return even
        now = at.timestamp()
        # The clock may have been set back.
        seconds.append(max(now, seconds[-1]) if seconds else now)
    whole = seconds[-1] - seconds[0] if seconds else 0.0
    if not whole:
        return even
    first, share = seconds[0], _END / whole
    return [(one + (now - first) * share) / 2 for one, now in zip(even, seconds, strict=True)]


def _long(points: Sequence[TimedPoint]) -> frozenset[int]:
    """Return the numbers of the points before which a run took long."""
    took: dict[int, float] = {}
    for number, (before, point) in enumerate(pairwise(points), 1):
        if point.kind == "run" and before.at is not None and point.at is not None:
            took[number] = max((point.at - before.at).total_seconds(), 0.0)
    if not took:
        return frozenset()
    least = max(sum(took.values()) * _LONG, median(took.values()) * _OFTEN)
    return frozenset(number for number, one in took.items() if one > least)


def _nearest(places: Sequence[float], wanted: float) -> int:
    """Return the number of the place that is nearest to another one."""
    after = min(bisect_left(places, wanted), len(places) - 1)
    before = max(after - 1, 0)
    return before if wanted - places[before] <= places[after] - wanted else after
