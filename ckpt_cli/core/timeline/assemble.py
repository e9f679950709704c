"""Put the steps of a thread together: a branch, with subgraph calls inside its steps."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, NamedTuple

from ckpt_cli.core.tasks.step_nodes import node_path, path_text
from ckpt_cli.core.tasks.triggers import START
from ckpt_cli.core.timeline.durations import Durations
from ckpt_cli.core.timeline.steps import (
    Kind,
    TimedCheckpoint,
    TimedStep,
    seconds_between,
    timed_steps,
)
from ckpt_cli.core.tree.calls import DEEPEST, namespace_parts
from ckpt_cli.core.tree.rows import Key

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
        self._times = {
            ns: [one.at for one in found if one.at is not None] for ns, found in checkpoints.items()
        }

    def step(self, key: Key) -> TimedStep:
        """Return the step that made a checkpoint."""
        return self._steps[key[0]][key[1]]

    def branch(self, checkpoint_ns: str, checkpoint_id: str) -> list[TimedStep]:
        """Return the steps that led to a checkpoint, oldest first."""
        steps = self._steps[checkpoint_ns]
        found: dict[str, TimedStep] = {}
        here: str | None = checkpoint_id
        while here is not None and here in steps and here not in found:
            found[here] = steps[here]
            here = steps[here].parent_checkpoint_id
        return list(reversed(found.values()))

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
            kept = f"{ns}|{node}" if ns else node
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
        here = self._checkpoints[ns][place - 1].checkpoint_id if place else None
        while here is not None and here in self._steps[ns] and len(found) < place:
            step = self._steps[ns][here]
            if step.ended_at is None or step.ended_at <= after:
                break
            found.append(step)
            here = step.parent_checkpoint_id
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
    node, task, _ = namespace_parts(ns)
    return {one for one, name in asked_by.items() if one == task or (task is None and name == node)}


def _length(spans: Iterable[Span]) -> float:
    """Return the seconds that some spans cover together."""
    total, reached = 0.0, None
    for start, end in sorted(spans):
        begin = start if reached is None else max(start, reached)
        if end > begin:
            total += (end - begin).total_seconds()
            reached = end
    return total
