"""What replaying a thread shows: its transitions, the reducers of its channels, its findings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from ckpt_cli.core.channels import PREVIOUS
from ckpt_cli.core.differences import Differences
from ckpt_cli.core.elimination import (
    Check,
    Judgement,
    Pool,
    Tally,
    Verdict,
    is_contradictory,
    judge_thread,
    verdict_of,
)
from ckpt_cli.core.sizes import namespace_kind

Place = tuple[str, str]
"""(graph, channel): the graph as `namespace_kind` of its namespaces, `''` for the root."""


_BUILT_IN: Mapping[str, str] = {PREVIOUS: "last_value"}
"""The reducers of channels that LangGraph itself makes."""


@dataclass(frozen=True, slots=True)
class Transition:
    """A checkpoint, and how each of its channels came from its parent."""

    checkpoint_ns: str
    parent: str | None
    """None where it is the first one."""
    child: str
    step: int | None
    source: str | None
    checks: Sequence[Check]
    """Of the channels to which something was written, or that changed."""


@dataclass(slots=True)
class Replayed:
    """One thread, replayed and not yet judged."""

    thread_id: str
    transitions: list[Transition] = field(default_factory=list)
    tallies: dict[Place, Tally] = field(default_factory=dict)

    @property
    def is_contradictory(self) -> bool:
        """Whether a channel of it can only be judged by what other threads tell."""
        return any(is_contradictory(tally.masks) for tally in self.tallies.values())

    def tell(self, pool: Pool) -> None:
        """Add what it tells to what all threads tell."""
        for (_, channel), tally in self.tallies.items():
            pool.add(channel, tally.masks)


@dataclass(frozen=True, slots=True)
class Finding:
    """A channel of a transition that does not follow from its writes, or cannot be verified."""

    transition: Transition
    channel: str
    verdict: Verdict
    reason: str
    differences: Differences | None = None
    """Where the stored value differs, for a mismatch."""


@dataclass(frozen=True, slots=True)
class ChannelReport:
    """What is known of one channel of one graph."""

    judgement: Judgement
    verdicts: Mapping[Verdict, int]


@dataclass(frozen=True, slots=True)
class Report:
    """What replaying a thread found."""

    thread_id: str
    verdicts: Mapping[Verdict, int]
    """Transitions by the worst verdict among their channels."""
    channels: Mapping[Place, ChannelReport]
    findings: tuple[Finding, ...]
    assumed: int
    """Channels of transitions that match only in an order of tasks that is not stored."""

    @property
    def transitions(self) -> int:
        return sum(self.verdicts.values())


def label(place: Place) -> str:
    """A channel's name; that of a subgraph's after the node that calls it."""
    graph, channel = place
    return f"{graph}/{channel}" if graph else channel


def judged(found: Replayed, pool: Pool, told: Mapping[str, str]) -> dict[Place, Judgement]:
    """The reducers of a thread's channels. A told one is named by label, or by channel."""
    return {
        place: judge_thread(
            tally.masks,
            pool.known(place[1], tally.masks),
            told.get(label(place), told.get(place[1], _BUILT_IN.get(place[1]))),
        )
        for place, tally in sorted(found.tallies.items())
    }


def verdicts(
    transition: Transition, judgements: Mapping[Place, Judgement]
) -> Iterator[tuple[Check, Verdict, str]]:
    """Each channel that was checked in a transition, with its verdict and the reason for it."""
    graph = namespace_kind(transition.checkpoint_ns)
    for check in transition.checks:
        yield check, *verdict_of(check, judgements[graph, check.channel])


def judge_all(
    threads: Iterable[Replayed], told: Mapping[str, str]
) -> Iterator[tuple[Replayed, dict[Place, Judgement]]]:
    """Each thread with the reducers of its channels.

    In the order of the threads, but for those that contradict themselves: they come last, judged
    by what all of them tell.
    """
    pool = Pool()
    waiting: list[Replayed] = []
    for found in threads:
        found.tell(pool)
        if found.is_contradictory:
            waiting.append(found)
        else:
            yield found, judged(found, pool, told)
    for found in waiting:
        yield found, judged(found, pool, told)


def report(found: Replayed, judgements: Mapping[Place, Judgement]) -> Report:
    """The verdicts of a thread, counted, and its findings."""
    totals: Counter[Verdict] = Counter()
    counts: dict[Place, Counter[Verdict]] = {place: Counter() for place in found.tallies}
    findings: list[Finding] = []
    assumed = 0
    for place, tally in found.tallies.items():
        counts[place][Verdict.MATCH] += tally.kept
    for transition in found.transitions:
        worst = Verdict.MATCH
        graph = namespace_kind(transition.checkpoint_ns)
        for check, verdict, reason in verdicts(transition, judgements):
            counts[graph, check.channel][verdict] += 1
            if verdict is Verdict.MATCH:
                assumed += bool(check.assumed & judgements[graph, check.channel].mask)
                continue
            mask = judgements[graph, check.channel].mask
            differs = check.differs_from(mask) if verdict is Verdict.MISMATCH else None
            findings.append(Finding(transition, check.channel, verdict, reason, differs))
            worst = verdict if worst is not Verdict.MISMATCH else worst
        totals[worst] += 1
    channels = {
        place: ChannelReport(judgements[place], dict(counts[place])) for place in judgements
    }
    return Report(found.thread_id, dict(totals), channels, tuple(findings), assumed)
