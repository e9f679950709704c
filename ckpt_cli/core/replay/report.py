"""The result of replaying a thread: transitions, reducers of channels, and findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ckpt_cli.core.channels import PREVIOUS
from ckpt_cli.core.namespace_kinds import namespace_kind
from ckpt_cli.core.replay.elimination import (
    Check,
    Judgement,
    Pool,
    ReducerTally,
    Verdict,
    differences_of,
    is_contradictory,
    judge_thread,
    may_differ,
    verdict_of,
)

if TYPE_CHECKING:
    from ckpt_cli.core.replay.differences import Differences

Place = tuple[str, str]
"""(graph, channel): the graph is the `namespace_kind` of its namespaces, `''` for the root."""


_BUILT_IN: Mapping[str, str] = {PREVIOUS: "last_value"}
"""Reducers of channels that LangGraph itself creates."""


class Transition(NamedTuple):
    """A checkpoint, and how each of its channels follows from its parent."""

    checkpoint_ns: str
    parent: str | None
    """None for the first checkpoint."""
    child: str
    step: int | None
    source: str | None
    checks: Sequence[Check]
    """Channels that were written to, or that changed."""
    kept: Sequence[str] = ()
    """Channels that nothing was written to, and that are unchanged."""


@dataclass(slots=True)
class Replayed:
    """One thread, replayed but not judged yet."""

    thread_id: str
    transitions: list[Transition] = field(default_factory=list)
    tallies: dict[Place, ReducerTally] = field(default_factory=dict)

    @property
    def is_contradictory(self) -> bool:
        """Whether a channel of the thread can only be judged with the results of other threads."""
        return any(is_contradictory(tally.masks) for tally in self.tallies.values())

    def for_pool(self) -> Replayed:
        """Return only what other threads are judged by."""
        return Replayed(self.thread_id, [], {key: one.copy() for key, one in self.tallies.items()})

    def part(self, checkpoint_ns: str, ids: Collection[str] | None) -> Replayed:
        """Return only the transitions of a namespace, or of some of its checkpoints.

        Their reducers are still judged by the whole thread.
        """
        chosen = [
            one
            for one in self.transitions
            if one.checkpoint_ns == checkpoint_ns and (ids is None or one.child in ids)
        ]
        return Replayed(self.thread_id, chosen, self.tallies)

    def add_to(self, pool: Pool) -> None:
        """Add the results of this thread to the pool."""
        for (_, channel), tally in self.tallies.items():
            pool.add(channel, tally.masks)


class FailedCheck(NamedTuple):
    """A channel of a transition that does not follow from its writes, or cannot be verified."""

    transition: Transition
    channel: str
    verdict: Verdict
    reason: str
    differences: Differences | None = None
    """Where the stored value differs, if the verdict is a mismatch."""


class ChannelReport(NamedTuple):
    """What is known about one channel of one graph."""

    judgement: Judgement
    verdicts: Mapping[Verdict, int]


class ReplayReport(NamedTuple):
    """The result of replaying a thread."""

    thread_id: str
    verdicts: Mapping[Verdict, int]
    """Number of transitions by the worst verdict among their channels."""
    channels: Mapping[Place, ChannelReport]
    findings: tuple[FailedCheck, ...]
    assumed: int
    """Number of channel transitions that match only in an order of tasks that is not stored."""

    @property
    def transitions(self) -> int:
        return sum(self.verdicts.values())


def label(place: Place) -> str:
    """Return the name of a channel; in a subgraph, it follows the node that calls the subgraph."""
    graph, channel = place
    return f"{graph}/{channel}" if graph else channel


def judged(found: Replayed, pool: Pool, chosen: Mapping[str, str]) -> dict[Place, Judgement]:
    """Judge the reducers of a thread's channels. `chosen` names reducers by label or by channel."""
    judgements: dict[Place, Judgement] = {}
    for place, tally in sorted(found.tallies.items()):
        told = chosen.get(label(place), chosen.get(place[1], _BUILT_IN.get(place[1])))
        one = judge_thread(tally.masks, pool.known(place[1], tally.masks), told)
        judgements[place] = one._replace(differs=may_differ(tally.checks, one))
    return judgements


def verdicts(
    transition: Transition, judgements: Mapping[Place, Judgement]
) -> Iterator[tuple[Check, Verdict, str]]:
    """Yield each channel that was checked in a transition, with its verdict and the reason."""
    graph = namespace_kind(transition.checkpoint_ns)
    for check in transition.checks:
        yield check, *verdict_of(check, judgements[graph, check.channel])


def judge_all(
    threads: Iterable[Replayed], chosen: Mapping[str, str]
) -> Iterator[tuple[Replayed, dict[Place, Judgement]]]:
    """Yield each thread with the reducers of its channels.

    Threads keep their order, except those that contradict themselves: these come last and are
    judged by the results of all threads.
    """
    pool = Pool()
    waiting: list[Replayed] = []
    for found in threads:
        found.add_to(pool)
        if found.is_contradictory:
            waiting.append(found)
        else:
            yield found, judged(found, pool, chosen)
    for found in waiting:
        yield found, judged(found, pool, chosen)


def report(found: Replayed, judgements: Mapping[Place, Judgement]) -> ReplayReport:
    """Count the verdicts of a thread and collect its findings."""
    totals: Counter[Verdict] = Counter()
    counts: dict[Place, Counter[Verdict]] = {}
    findings: list[FailedCheck] = []
    assumed = 0
    for transition in found.transitions:
        worst = Verdict.MATCH
        graph = namespace_kind(transition.checkpoint_ns)
        for name in transition.kept:
            counts.setdefault((graph, name), Counter())[Verdict.MATCH] += 1
        for check, verdict, reason in verdicts(transition, judgements):
            counts.setdefault((graph, check.channel), Counter())[verdict] += 1
            if verdict is Verdict.MATCH:
                assumed += bool(check.assumed & judgements[graph, check.channel].mask)
                continue
            differs = differences_of(check, judgements[graph, check.channel])
            findings.append(FailedCheck(transition, check.channel, verdict, reason, differs))
            worst = verdict if worst is not Verdict.MISMATCH else worst
        totals[worst] += 1
    channels = {
        place: ChannelReport(one, dict(counts[place]))
        for place, one in judgements.items()
        if place in counts
    }
    return ReplayReport(found.thread_id, dict(totals), channels, tuple(findings), assumed)
