"""Find the first checkpoint where a condition holds, and the tasks that made it so."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from ckpt_backends.codec import to_json
from ckpt_backends.codec.memo import remembering
from ckpt_backends.codec.values import Opaque, Value
from ckpt_backends.errors import UsageError
from ckpt_backends.model import CheckpointKey, Status
from ckpt_cli.core import filters
from ckpt_cli.core.redact import redact
from ckpt_cli.core.state import is_state
from ckpt_cli.core.tasks import TaskWrite, task_writes
from ckpt_cli.core.value_origin import applied_writes, is_caller
from ckpt_cli.core.values import All
from ckpt_cli.queries.filters import FIELDS_OF_CHECKPOINT, CheckpointFacts, Lineage, channels_named
from ckpt_cli.queries.history import made_by
from ckpt_cli.queries.usage import Range
from ckpt_cli.reading.store import is_redacted
from ckpt_cli.reading.target import Target
from ckpt_cli.reading.thread import Moment, ThreadReader

Verdict = bool | None
"""Whether the condition holds; None if that is not known."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A checkpoint that a test of the user judges."""

    key: CheckpointKey
    parent_checkpoint_id: str | None
    step: int | None
    values: Mapping[str, Any]
    """The state in JSON form, as `ckpt show -o json` prints it."""


Test = Callable[[Candidate], Verdict]
"""Returns whether what the user looks for holds at a checkpoint; None to skip it."""


@dataclass(frozen=True, slots=True)
class Bisection:
    """Where a condition begins to hold in the history of a checkpoint."""

    thread_id: str
    checkpoint_ns: str
    total: int
    """Number of checkpoints that were searched, oldest to newest."""
    search: OnsetSearch
    asked: tuple[str, ...]
    """The fields that the condition names; none for a test."""
    moment: Moment | None = None
    """The first checkpoint where the condition holds; None if it holds nowhere."""
    nodes: tuple[str, ...] | None = None
    """The nodes that ran to make it; None if its parent is not stored."""
    writes: Sequence[TaskWrite] = ()
    """What made it: writes to the channels that the condition names, or all."""
    before: Mapping[str, Value] | None = None
    """At the parent, the values of `asked` that exist; None if the parent is not stored."""
    after: Mapping[str, Value] | None = None
    skipped: tuple[str, ...] = ()
    """The checkpoints directly before it that could not be judged."""

    @property
    def from_start(self) -> bool:
        """Whether no earlier checkpoint is known where the condition does not hold."""
        return self.search.onset is not None and self.search.onset.from_start


@dataclass(frozen=True, slots=True)
class BisectOptions:
    """How to search."""

    within: Range
    """Only checkpoints in this range are judged."""
    binary: bool = False
    watch: Callable[[Iterable[CheckpointFacts]], Iterable[CheckpointFacts]] = iter
    """Gets the checkpoints in the order in which they are judged, to show progress."""


def bisect(target: Target, condition: filters.Filter, options: BisectOptions) -> Bisection:
    """Find where a filter begins to hold, along the checkpoints that lead to the target.

    Raises `UsageError` if the filter asks about a thread, or if no checkpoint is in the range.
    """
    fields = tuple(filters.fields_in(condition))
    names = {field.name for field in fields}
    for name in sorted(names.difference(FIELDS_OF_CHECKPOINT)):
        raise UsageError(
            f"bisect cannot ask about '{name}', which a checkpoint does not have",
            hint=f"use {', '.join(FIELDS_OF_CHECKPOINT)}",
        )
    asked = _Asked(names, channels_named(fields), filters.decision(condition), fields)
    return _bisect(target, asked, options)


def bisect_by_test(target: Target, test: Test, options: BisectOptions) -> Bisection:
    """Do the same for a test of the user, which is called with each state.

    Raises `UsageError` if values must not be shown, and what the test raises.
    """
    reader, ns = target.reader, target.checkpoint_ns
    if is_redacted(reader.store):
        raise UsageError(
            "a test (--exec) needs the values, which --redact hides",
            hint="leave out --redact, or use a condition",
        )
    parentage = reader.parentage(ns)

    def judge(facts: CheckpointFacts) -> Verdict:
        if facts.values is None or isinstance(facts.values, Opaque):
            return None
        return test(
            Candidate(
                CheckpointKey(reader.thread_id, ns, facts.checkpoint_id),
                parentage.named_parent(facts.checkpoint_id),
                facts.number,
                {name: to_json(value) for name, value in facts.values.items()},
            )
        )

    return _bisect(target, _Asked({filters.VALUES, filters.METADATA}, None, judge, ()), options)


@dataclass(frozen=True, slots=True)
class _Asked:
    """What is read of each checkpoint, and how it is judged."""

    names: Collection[str]
    channels: Collection[str] | None
    judge: Callable[[CheckpointFacts], Verdict]
    fields: Sequence[filters.FilterField]
    """What is shown of the checkpoint that is found and of its parent."""


def _bisect(target: Target, asked: _Asked, options: BisectOptions) -> Bisection:
    reader, ns = target.reader, target.checkpoint_ns
    line = reader.ancestry(ns, target.checkpoint_id)[::-1]
    times = {} if options.within.is_all else reader.times(ns)
    ids = [one for one in line if options.within.holds(times.get(one))]
    if not ids:
        raise UsageError(
            "no checkpoint is in the range of --since and --until",
            hint=f"number of checkpoints that lead to '{target.checkpoint_id}': {len(line)}",
        )
    lineage, total = Lineage(reader, ns, line), len(ids)
    if options.binary:
        search = binary(
            len(ids),
            lambda place: asked.judge(lineage.facts_at(ids[place], asked.names, asked.channels)),
        )
    else:
        search, ids = _in_order(lineage, asked, ids, options.watch)
    names = tuple(dict.fromkeys(map(filters.format_field, asked.fields)))
    found = Bisection(reader.thread_id, ns, total, search, names)
    if search.onset is None:
        return found
    skipped = tuple(ids[place] for place in search.onset.skipped)
    found = replace(found, skipped=skipped)
    return _described(found, reader, lineage, ids[search.onset.place], asked)


def _in_order(
    lineage: Lineage,
    asked: _Asked,
    ids: Sequence[str],
    watch: Callable[[Iterable[CheckpointFacts]], Iterable[CheckpointFacts]],
) -> tuple[OnsetSearch, list[str]]:
    """Judge one checkpoint after the other. Also returns the ids of those that were judged."""
    wanted, judged = frozenset(ids), list[str]()
    facts_of = lineage.facts(asked.names, asked.channels)

    def verdicts() -> Iterator[Verdict]:
        for facts in watch(facts_of):
            if facts.checkpoint_id in wanted:
                judged.append(facts.checkpoint_id)
                yield asked.judge(facts)

    with remembering():
        return linear(verdicts()), judged


def _described(
    found: Bisection, reader: ThreadReader, lineage: Lineage, checkpoint_id: str, asked: _Asked
) -> Bisection:
    """Add the checkpoint where the condition begins to hold, and what made it."""
    ns = found.checkpoint_ns
    moment = reader.moment(ns, checkpoint_id)
    parent_id = moment.checkpoint.parent_checkpoint_id
    parent: Moment | None = None
    if parent_id is not None:
        parent = next(reader.moments(ns, [parent_id]), None)
    nodes = made_by(reader, moment, parent)
    writes = [
        one
        for one in _writes(reader, moment, parent)
        if is_state(one.write.channel, moment.body)
        and (not asked.channels or one.write.channel in asked.channels)
    ]
    before = after = None
    if asked.fields:
        after = _values_asked(lineage, checkpoint_id, asked)
        before = _values_asked(lineage, parent_id, asked) if parent_id and parent else None
    if is_redacted(reader.store):
        moment, writes = moment.redacted(), [one.redacted() for one in writes]
        before, after = _redacted(before), _redacted(after)
    return replace(found, moment=moment, nodes=nodes, writes=writes, before=before, after=after)


def _redacted(values: Mapping[str, Value] | None) -> dict[str, Value] | None:
    """Hide values, metadata and errors, but not steps, nodes and statuses."""
    if values is None:
        return None
    hidden = (filters.VALUES, filters.METADATA, "error")
    return {
        name: redact(value) if name.startswith(hidden) else value for name, value in values.items()
    }


def _writes(reader: ThreadReader, moment: Moment, parent: Moment | None) -> list[TaskWrite]:
    """Return the writes that made the state of a checkpoint, the caller's own among them."""
    own = task_writes(moment.writes, moment.step)
    if reader.is_values_only:
        return own
    made = [] if parent is None else task_writes(parent.writes, parent.step)
    if moment.source == "fork":  # It copies its parent, without what the parent's tasks wrote.
        made = list(filter(is_caller, made))
    return [*applied_writes(made, moment.source), *filter(is_caller, own)]


def _values_asked(lineage: Lineage, checkpoint_id: str, asked: _Asked) -> dict[str, Value]:
    """Return what a condition asks about at a checkpoint, by field; without what is not there."""
    facts = lineage.facts_at(checkpoint_id, asked.names, asked.channels)
    found: dict[str, Value] = {}
    for field in asked.fields:
        values = facts(field)
        if values and (All.ALL in field.path or field.name in {"next", "status"}):
            found[filters.format_field(field)] = [
                str(one) if isinstance(one, Status) else one for one in values
            ]
        elif values:
            found[filters.format_field(field)] = values[0]
    return found


@dataclass(frozen=True, slots=True)
class Onset:
    """The place where a condition begins to hold; places count from 0, the oldest."""

    place: int
    from_start: bool
    """No earlier place is known where the condition does not hold."""
    skipped: tuple[int, ...]
    """The places directly before it without a verdict: it may have begun to hold there."""


@dataclass(frozen=True, slots=True)
class OnsetSearch:
    """The result of a search."""

    onset: Onset | None
    """None if the condition holds nowhere."""
    tried: int
    """Number of places that were judged, with or without a verdict."""
    skipped: int
    """Number of these without a verdict."""


def linear(verdicts: Iterable[Verdict]) -> OnsetSearch:
    """Return the first place where the condition holds after one where it does not.

    If it only holds before it first does not, returns the first place. Stops reading when it is
    found.
    """
    earliest: Onset | None = None
    seen_without = False
    skipped: list[int] = []
    tried = without_verdict = 0
    for place, verdict in enumerate(verdicts):
        tried += 1
        if verdict is None:
            without_verdict += 1
            skipped.append(place)
            continue
        if verdict and seen_without:
            return OnsetSearch(Onset(place, False, tuple(skipped)), tried, without_verdict)
        if verdict and earliest is None:
            earliest = Onset(place, True, tuple(skipped))
        seen_without = seen_without or not verdict
        skipped.clear()
    return OnsetSearch(earliest, tried, without_verdict)


def binary(number: int, judge: Callable[[int], Verdict]) -> OnsetSearch:
    """Return a place where the condition begins to hold, by halving; judges few of `number` places.

    If it begins to hold several times, finds one of them. Finds none if the condition does not hold
    at the newest place.
    """
    known: dict[int, Verdict] = {}

    def ask(place: int) -> Verdict:
        if place not in known:
            known[place] = judge(place)
        return known[place]

    def answer(onset: Onset | None) -> OnsetSearch:
        return OnsetSearch(onset, len(known), sum(one is None for one in known.values()))

    low = next((place for place in range(number) if ask(place) is not None), None)
    if low is None:
        return answer(None)
    if known[low]:
        return answer(Onset(low, True, tuple(range(low))))
    high = next(place for place in reversed(range(low, number)) if ask(place) is not None)
    if not known[high]:
        return answer(None)
    while (middle := _nearest_verdict(low, high, ask)) is not None:
        low, high = (low, middle) if known[middle] else (middle, high)
    return answer(Onset(high, False, tuple(range(low + 1, high))))


def _nearest_verdict(low: int, high: int, ask: Callable[[int], Verdict]) -> int | None:
    """Return a place between two that has a verdict, nearest to their middle; None without any."""
    middle = (low + high) // 2
    places = sorted(range(low + 1, high), key=lambda place: abs(place - middle))
    return next((place for place in places if ask(place) is not None), None)
