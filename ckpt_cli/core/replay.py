"""Finds which reducers explain what was stored, by elimination."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cached_property, lru_cache
from itertools import groupby, islice, permutations, product
from typing import Literal, NamedTuple
from uuid import UUID, uuid5

from ckpt_backends.codec.values import Cut, Opaque, Tagged, Value
from ckpt_backends.model import NULL_TASK_ID
from ckpt_cli.core.conversation import as_message
from ckpt_cli.core.diff import ChannelChange, Counts, Op, count, diff_channels, diff_values
from ckpt_cli.core.lineage import namespace_kind
from ckpt_cli.core.redact import redact
from ckpt_cli.core.reducers import (
    ABSENT,
    CUSTOM,
    REDUCERS,
    Held,
    Pending,
    Reducer,
    fits,
    held_fits,
    is_empty,
    is_not_stored,
    overwrite,
    reducers_for,
    same_objects,
    updates_of,
)
from ckpt_cli.core.state import PREVIOUS, Body, Version
from ckpt_cli.core.tasks import CONTROL, PUSH, UPDATE_PATH, Step, TaskWrite
from ckpt_cli.core.times import NEVER
from ckpt_cli.core.values import clip, is_set, same

Effect = Literal["applied", "duplicate", "overwritten", "dropped", "ignored", "special", "unknown"]
"""The result of a write.

- `applied`: it changed the channel.
- `duplicate`: it changed nothing.
- `overwritten`: an `Overwrite` in the same step replaced it.
- `dropped`: not applied: a new input discards the writes of unfinished tasks.
- `ignored`: the graph has no such channel.
- `special`: LangGraph uses the channel internally.
- `unknown`: the reducer of the channel is not known.
"""


@dataclass(frozen=True, slots=True)
class Contribution:
    """One write and its result."""

    placed: TaskWrite
    value: Value
    effect: Effect
    counts: Counts | None = None
    """Number of items of the channel that it added, removed and changed."""


def contributions(
    base: Held, batches: Sequence[Sequence[tuple[TaskWrite, Value]]], name: str | None
) -> tuple[Held, list[Contribution]]:
    """Apply writes to a channel; return the new value and the result of each write.

    Returns `ABSENT` and results `unknown` if the reducer is not known or does not accept such
    values, and if the value before the step is not stored.
    """
    reducer = None if name is None or is_not_stored(base) else REDUCERS.get(name)
    found: list[Contribution] = []
    held = base
    for batch in batches:
        replaces = [n for n, (_, value) in enumerate(batch) if overwrite(value)[0]]
        for n, (placed, value) in enumerate(batch):
            if replaces and n != replaces[0]:
                found.append(Contribution(placed, value, "overwritten"))
                continue
            after = None if reducer is None else _after(reducer, held, value)
            if after is None:
                found.append(Contribution(placed, value, "unknown"))
                reducer = None
                continue
            change = _change(held, after[0])
            effect: Effect = "applied" if change is not None else "duplicate"
            found.append(
                Contribution(placed, value, effect, None if change is None else count(change))
            )
            held = after[0]
    return (held if reducer is not None else ABSENT), found


def plain(value: Held) -> Value:
    """Return a value for display; messages that have no id yet are shown as they were written."""
    if value is ABSENT:
        return None
    if isinstance(value, list):
        return [item.payload if isinstance(item, Pending) else item for item in value]
    return value


def _after(reducer: Reducer, held: Held, value: Value) -> tuple[Held] | None:
    results = reducer.results(held, [[value]])
    return (results[0],) if results else None


def _change(before: Held, after: Held) -> ChannelChange | None:
    sides: list[dict[str, Value]] = [
        {} if side is ABSENT else {"": plain(side)} for side in (before, after)
    ]
    return diff_channels(*sides).get("")


MOST = 3
"""Number of differing places that are named for one value."""


@dataclass(frozen=True, slots=True)
class Differences:
    """The first places where a stored value differs from the expected one."""

    ops: tuple[Op, ...]
    """The operations that turn the expected value into the stored one."""
    more: int
    """Number of further places that are not named."""


def differences(expected: Held, stored: Held) -> Differences | None:
    """Return how a stored value differs; None if it does not, or if a side is missing or cut."""
    if expected is ABSENT or stored is ABSENT:
        return None
    if isinstance(expected, Cut) or isinstance(stored, Cut):
        return None
    if isinstance(expected, list) and isinstance(stored, list):
        # A message without an id gets one when it is merged, so such messages are compared without
        # it.
        met = [
            other if isinstance(item, Pending) and fits(item, other) else item
            for item, other in zip(expected, stored, strict=False)
        ]
        expected = [*met, *expected[len(met) :]]
    ops = diff_values(plain(expected), stored)
    kept = [replace(op, before=clip(op.before), after=clip(op.after)) for op in ops[:MOST]]
    return Differences(tuple(kept), len(ops) - len(kept)) if ops else None


def without_values(found: Differences) -> Differences:
    """Return the same places with indexes only: keys and values are hidden."""

    def hidden(op: Op, value: Value, *kinds: str) -> Value:
        return redact(value) if op.op in kinds else None

    ops = [
        replace(
            op,
            path=tuple("*" if isinstance(step, str) else step for step in op.path),
            before=hidden(op, op.before, "remove", "replace"),
            after=hidden(op, op.after, "add", "replace"),
            id=None,
        )
        for op in found.ops
    ]
    return Differences(tuple(ops), found.more)


# Find out which writes were applied to make a checkpoint, and in which order.
#
# A checkpoint keeps the writes of its tasks even if they were never applied. The `source` of the
# next checkpoint tells which of them it applied. Sources: `_first` and `after_tick` in
# `langgraph/pregel/_loop.py`, `perform_superstep` in `langgraph/pregel/main.py` and
# `apply_writes` in `langgraph/pregel/_algo.py` (1.2.22), and the same functions of 0.2.14 to
# 1.0.10.


NOT_APPLIED = CONTROL | {"__no_writes__", "__return__", "__pregel_push"}
"""Channels that no checkpoint has: they record what happened to a task."""
_PERMUTED_TASKS = 6
_PERMUTED = 720
"""Maximum number of task orders that are tried if no order is stored: enough for six tasks."""

_KEPT_ORDERS = 120
"""Maximum number of orders of which the results are kept, to be tried with later writes."""

Batches = tuple[tuple[TaskWrite, ...], ...]
"""Batches of writes, applied one after another, each with one call of the channel's `update`."""


class WriteOrder(NamedTuple):
    """One way in which a child may have been made from its parent's state."""

    batches: Batches
    assumed: bool = False
    """There are several such ways or orders, and nothing stored tells which one is right."""


class PossibleOrders(NamedTuple):
    """What is known about how a child was made, for all its channels."""

    ways: tuple[WriteOrder, ...]
    """The likeliest first. A way without batches left the state unchanged."""
    ordered: bool
    """Whether the order of the tasks is stored, or proven by their ids."""
    lacking: str = ""
    """Why a channel that no way explains proves nothing; empty if it does prove something."""
    bumps: bool = True
    """Whether a step ran, so that values that live for one step are gone."""
    between: tuple[WriteOrder, ...] = ()
    """How a DeltaChannel that the child does not store was made, if not in one of `ways`: readers
    apply all writes that are stored with the parent, whatever the child was made for."""
    sorts_between: bool = True
    """Whether readers of such a DeltaChannel sort the tasks. A run does while it goes on; the next
    one takes them as its saver returns them: sorted only if it stores task paths, and never in
    LangGraph.js."""

    def is_ordered(self, *, between: bool) -> bool:
        return self.ordered and (self.sorts_between or not between)


class SortedWrites(NamedTuple):
    """A checkpoint's writes by who made them, each group in the order in which it is applied."""

    null: tuple[TaskWrite, ...]
    """Writes by the caller, with `Command(update=..., goto=...)`."""
    tasks: tuple[TaskWrite, ...]
    updates: tuple[TaskWrite, ...]
    """Writes by `update_state`, as far as their paths show it."""
    inputs: tuple[TaskWrite, ...]
    """Writes of a new input to DeltaChannels; LangGraph 1.2 stores them on the input's parent."""

    @property
    def is_empty(self) -> bool:
        return not (self.null or self.tasks or self.updates or self.inputs)

    @property
    def applied(self) -> tuple[WriteOrder, ...]:
        """All of them, as readers of a DeltaChannel apply them."""
        return _ways((self.null, self.tasks, self.updates, self.inputs))


def sort_writes(
    checkpoint_id: str, placed: Iterable[TaskWrite], step: Step, body: Body
) -> SortedWrites:
    """Group the writes of a checkpoint that its children may be made from."""
    null: list[TaskWrite] = []
    tasks: list[TaskWrite] = []
    updates: list[TaskWrite] = []
    inputs: list[TaskWrite] = []
    planned = {run.id for run in step.tasks}
    for one in placed:
        if one.write.channel in NOT_APPLIED:
            continue
        if one.write.task_id == NULL_TASK_ID:
            null.append(one)
        elif one.write.node is not None:
            tasks.append(one)
        elif one.write.task_id not in planned and one.write.task_id == _input_task(checkpoint_id):
            inputs.append(one)
        elif one.path.startswith(UPDATE_PATH):
            updates.append(one)
        else:
            tasks.append(one)
    if not _has_order(body) and not any(one.write.node for one in tasks):
        places = {run.id: place for place, run in enumerate(step.tasks)}
        tasks.sort(key=lambda one: (places.get(one.write.task_id, len(places)), one.write.idx))
    return SortedWrites(tuple(null), tuple(tasks), tuple(updates), tuple(inputs))


def possible_orders(
    source: str | None,
    writes: SortedWrites,
    step: Step,
    body: Body,
    child: Body,
    *,
    again: bool,
    skipped: bool,
    takes_input: bool,
) -> PossibleOrders:
    """Return how a child with this source, and with a body of its own, was made from a checkpoint.

    `again`: the checkpoint has another child with the same source. `skipped`: steps between the two
    are not stored. `takes_input`: the child stores the input in a separate channel.
    """
    bumps, between = True, writes.applied
    match source:
        case "input":
            ways, bumps = _ways((writes.null, writes.inputs), (writes.inputs,), ()), False
            lacking = "" if takes_input else "an input's writes to other channels are not stored"
        case "fork":
            ways, bumps = _ways((writes.null,), ()), False
            lacking = "what a fork was given is not stored"
        case "update":
            finished = writes.tasks
            if writes.updates:
                ways = _ways(
                    (writes.updates,),
                    (writes.null, writes.updates),
                    (writes.null, finished, writes.updates),
                )
            else:
                ways = _ways((finished,), (writes.null, finished), ())
            lacking = "" if writes.updates else "the writes of update_state are not stored"
            lacking = lacking or (_AGAIN if again else "")
        case _:
            ways, between = _ways((writes.null, writes.tasks)), ()
            lacking = _AGAIN if again else _loop_lacks(writes, step, body, child, skipped=skipped)
    is_ordered = _has_order(body) and all(one.path for one in writes.tasks)
    sorts_between = not body.is_javascript and all(one.write.task_path for one in writes.tasks)
    return PossibleOrders(ways, is_ordered, lacking, bumps, between, sorts_between)


def recorded_orders(writes: SortedWrites) -> PossibleOrders:
    """Return how a checkpoint was made, for layouts that store with it the writes it was made from.

    The writes of one task are applied after those of another, in order of time: tasks that ran one
    after the other may have written into the same checkpoint.
    """
    tasks = [tuple(some) for _, some in groupby(writes.tasks, lambda one: one.write.task_id)]
    times = {min(one.write.at or NEVER for one in some) for some in tasks}
    return PossibleOrders(
        _ways((writes.null, *tasks)),
        ordered=len(times) == len(tasks),
        lacking="" if tasks else "none of the writes of its tasks are stored",
        bumps=False,
    )


_AGAIN = "its parent ran more than once, and the runs share the rows of their writes"


def _loop_lacks(writes: SortedWrites, step: Step, body: Body, child: Body, *, skipped: bool) -> str:
    if skipped:
        return 'the steps before it are not stored, as with durability="exit"'
    # What a node has seen is recorded when its step ends. A node that seems ready but did not run
    # shows what LangGraph 0.6 and later may store for a join: the set as changed by the next step.
    silent = [
        run.node or "?"
        for run in step.tasks
        if run.id is None
        and (run.path.startswith(f"~{PUSH}") or _seen(child, run.node) != _seen(body, run.node))
    ]
    if silent and len(silent) == len(step.tasks) and not writes.tasks:
        return "none of the writes of its tasks are stored"
    if silent:
        return f"the writes of {silent[0]} are not stored, as after a node cache hit"
    if not step.tasks and not writes.tasks:
        return "none of the writes of its tasks are stored"
    return ""


def _seen(body: Body, node: str | None) -> object:
    return body.seen.get(node or "")


def orders_of_channel(
    made: PossibleOrders, channel: str, *, between: bool = False
) -> Iterator[WriteOrder]:
    """Yield the ways to make one channel, with only its writes; in any order if none is stored.

    The first is the likeliest. Batches without a write to the channel are left out. `between`: it
    is a DeltaChannel that the child does not store.
    """
    if between and made.between:
        made = made._replace(ways=made.between)
    ways = [
        tuple(mine for batch in way.batches if (mine := _of(batch, channel))) for way in made.ways
    ]
    is_ordered = made.is_ordered(between=between)
    if is_ordered and len(ways) == 1:
        yield WriteOrder(ways[0])
        return
    seen: set[tuple[tuple[int, ...], ...]] = set()
    for batches in ways:
        if (key := _key(batches)) not in seen:
            seen.add(key)
            yield WriteOrder(batches, assumed=len(ways) > 1)
    for batches in () if is_ordered else ways:
        for shuffled in islice(product(*map(_permuted, batches)), _PERMUTED):
            if (key := _key(shuffled)) not in seen:
                seen.add(key)
                yield WriteOrder(shuffled, assumed=True)


def are_all_orders(made: PossibleOrders, found: Sequence[WriteOrder], *, between: bool) -> bool:
    """Return whether `orders_of_channel` found all orders; there may be too many to try."""
    tasks = (len({one.write.task_id for one in some}) for way in found for some in way.batches)
    is_tried = len(found) < _PERMUTED and max(tasks, default=0) <= _PERMUTED_TASKS
    return is_tried or made.is_ordered(between=between)


def written_channels(made: PossibleOrders) -> set[str]:
    """Return the channels that the child's writes go to."""
    return {one.write.channel for way in made.ways for batch in way.batches for one in batch}


def writes_in_metadata(metadata: Mapping[str, Value]) -> Counter[str]:
    """Count the writes to each channel that metadata names (before LangGraph 0.5 only)."""
    wrote = metadata.get("writes")
    found: Counter[str] = Counter()
    for outputs in wrote.values() if isinstance(wrote, dict) else ():
        for output in outputs if isinstance(outputs, list) else [outputs]:
            names = output if isinstance(output, dict) else ()
            found.update(name for name in names if isinstance(name, str))
    return found


def _ways(*found: Batches) -> tuple[WriteOrder, ...]:
    """Return the ways without duplicates, and without empty batches."""
    if len(found) == 1:  # Most steps ran tasks.
        return (WriteOrder(tuple(batch for batch in found[0] if batch)),)
    kept: dict[tuple[tuple[int, ...], ...], Batches] = {}
    for batches in found:
        full = tuple(batch for batch in batches if batch)
        kept.setdefault(_key(full), full)
    return tuple(WriteOrder(batches, assumed=len(kept) > 1) for batches in kept.values())


def _key(batches: Batches) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(map(id, batch)) for batch in batches)


def _of(batch: Sequence[TaskWrite], channel: str) -> tuple[TaskWrite, ...]:
    return tuple(one for one in batch if one.write.channel == channel)


def _permuted(batch: Sequence[TaskWrite]) -> Iterator[tuple[TaskWrite, ...]]:
    """Yield the writes of a batch with its tasks in every order."""
    tasks = [tuple(group) for _, group in groupby(batch, lambda one: one.write.task_id)]
    chosen = permutations(tasks) if len(tasks) <= _PERMUTED_TASKS else iter([tuple(tasks)])
    for order in chosen:
        yield tuple(one for task in order for one in task)


def _has_order(body: Body) -> bool:
    """Return whether tasks are applied in the order of their paths.

    This is not so before about LangGraph 0.2.15. Its bodies have `v` 1, as have those of
    LangGraph.js, which does sort them.
    """
    return body.v > 1 or body.is_javascript


@lru_cache(maxsize=1)
def _input_task(checkpoint_id: str) -> str:
    try:
        return str(uuid5(UUID(checkpoint_id), "__input__"))
    except ValueError:
        return ""


# Find the reducer of a channel: those that explain all stored values.
#
# Each transition of a channel is tried with every reducer; the set of reducers that explain it is
# a bit mask. A `ReducerTally` collects the results of one thread. Judging it names the reducers
# that remain and gives each transition a verdict: by the reducer that the user named, or by the
# one that explains most.


CANDIDATES: Sequence[Reducer] = tuple(REDUCERS.values())
_PLACED = tuple(enumerate(CANDIDATES))
ALL = (1 << len(CANDIDATES)) - 1
RULED_OUT = 1 << len(CANDIDATES)
"""In place of the reducers that were ruled out before, and that are not tried any more."""


def bits(names: Iterable[str]) -> int:
    """Return the bit mask of these reducers."""
    order = list(REDUCERS)
    return sum(1 << order.index(name) for name in set(names))


def bits_at(places: Iterable[int]) -> int:
    """Return the bit mask of the reducers at these positions in `CANDIDATES`."""
    return sum(1 << place for place in places)


_UNREADABLE = (Cut, Opaque)
_SHORT_LIVED = bits(["topic", "ephemeral", "untracked"])
KEPT = ALL & ~_SHORT_LIVED
"""Reducers for which a channel without writes stays unchanged."""
_DOUBTFUL = ("any_value", "first_value", "max", "min")
"""Reducers that select one of the existing values; a custom reducer may do the same by chance."""
_SELECTORS = bits(_DOUBTFUL)


class Verdict(StrEnum):
    """Whether the stored value of a channel follows from what was written to it."""

    MATCH = "match"
    MISMATCH = "mismatch"
    UNVERIFIABLE = "unverifiable"


NO_OTHERS: Mapping[int, Sequence[Held]] = {}


class Explained(NamedTuple):
    """Which reducers explain one transition of one channel."""

    mask: int
    applicable: int
    """Reducers that accept such values; a transition that they do not explain contradicts them."""
    by_rebuilt: int
    """Reducers that explain it only from the value that they rebuilt for the steps before."""
    assumed: int
    """Reducers that explain it only with an order or a set of writes that is not stored."""
    rebuilt: Mapping[int, Held]
    """For each candidate that does not explain it: the value that it would have made."""
    own: Mapping[int, Held]
    """For each candidate with an own earlier result: the value that it would have made of that."""


Masks = Counter[tuple[int, int, bool]]
"""Number of transitions by (mask, applicable reducers, whether something was written)."""


@dataclass(slots=True)
class Check:
    """One transition of one channel, tried with all reducers."""

    channel: str
    child: str
    """Id of the checkpoint that holds the resulting value."""
    mask: int
    applicable: int
    wrote: int
    """Number of writes to the channel."""
    folded: int = 0
    """Number of writes in the steps before, for the snapshot of a DeltaChannel after them."""
    assumed: int = 0
    confirmed: int = 0
    """Reducers that explain the next steps if they start from the expected value."""
    denied: int = 0
    """Reducers that fail to explain a next step from the expected value."""
    lacking: str = ""
    """Why the transition proves nothing if no reducer explains it; empty if it does."""
    lost: bool = False
    """Values are stored apart, and that of the version that the checkpoint names is missing."""
    missing: int = 0
    """Number of writes that are not stored, though the checkpoint's versions or metadata name them.
    """
    foreign: bool = False
    """No known reducer explains the value, and it contains a text that it was not made from."""
    cut: bool = False
    """It is the expected value without some parts, as a reducer that drops things makes it."""
    gone: bool = False
    """The channel had a value and has none; a reducer always leaves one."""
    in_place: bool = False
    """It changed without a write and under the same version, and code can change such values in
    place.
    """
    shortened: bool = False
    """It is a list that lost its last items; code that edits a list seldom does so."""
    edited: bool = False
    """It differs from the expected value only in what was there before the step."""
    beyond: int = 0
    """Reducers with which no writes at all make it of the value before."""
    tidied: bool = False
    """It differs from the expected value only as code of an application often leaves one: without
    its oldest items, a text cut or in another case, an object with other fields.
    """
    followed: bool = False
    """Later steps go on from it, not from the expected value."""
    later: bool = False
    """It differs from the expected value only by what later steps wrote."""
    replaced: bool = False
    """Its parent was also updated with `update_state`, whose writes may have replaced others."""
    version: Version = "?"
    """The version that the channel has at the child."""
    shared: str | None = None
    """The checkpoint of another branch that gave the channel the same version."""

    @property
    def is_made(self) -> bool:
        """Whether something was written to the channel since its last stored value."""
        return self.wrote + self.folded > 0

    differing: Mapping[int, Differences] | None = None
    """For each candidate that does not explain it: where the stored value differs from its result.
    """


@dataclass(slots=True)
class ReducerTally:
    """The results for one channel in one thread."""

    checks: list[Check] = field(default_factory=list)
    """Transitions with writes, and transitions that not every reducer explains."""
    masks: Masks = field(default_factory=Counter)
    _counts: list[int] = field(default_factory=lambda: [0] * len(CANDIDATES))
    """For each reducer, the number of transitions that it explains, without those of `_uncounted`.
    """
    _uncounted: Counter[int] = field(default_factory=Counter)
    """The number of transitions by their mask."""
    _leaders: int = field(default=0, compare=False)
    """The leaders by all transitions; 0 if not known."""

    @property
    def leaders(self) -> int:
        """The reducers that explain the most transitions so far; all of them at the beginning."""
        if self._leaders:
            return self._leaders
        counts = self._counts
        for mask, number in self._uncounted.items():
            for place in range(len(CANDIDATES)):
                counts[place] += number * (mask >> place & 1)
        self._uncounted.clear()
        most = max(counts)
        self._leaders = sum(1 << place for place, n in enumerate(counts) if n == most)
        return self._leaders

    def copy(self) -> ReducerTally:
        """Return a tally that goes on counting for itself; it keeps no earlier transitions."""
        counts, uncounted = list(self._counts), Counter(self._uncounted)
        return ReducerTally([], Counter(self.masks), counts, uncounted)

    def keep(self, *, bumps: bool) -> None:
        """Count a transition without writes that changed nothing."""
        mask = KEPT if bumps else ALL
        self._count(mask, mask, wrote=False)

    def add(self, check: Check) -> None:
        """Add a transition; count it unless it proves nothing."""
        self.checks.append(check)
        if check.lost and check.wrote:
            return  # the value should be stored, whatever the reducer is
        if not check.lacking and (check.mask or check.is_made):
            self._count(check.mask, check.applicable, wrote=check.is_made)

    def _count(self, mask: int, applicable: int, *, wrote: bool) -> None:
        self.masks[mask, applicable, wrote] += 1
        self._uncounted[mask] += 1
        # Those of the leaders that explain it are one ahead of all others.
        self._leaders &= mask


class Judgement(NamedTuple):
    """What is known about the reducer of a channel."""

    survivors: tuple[str, ...]
    """Reducers that remain, the preferred one first; empty if nothing is known."""
    evidence: int
    """Number of transitions that the survivors explain and at least one other reducer does not."""
    against: int = 0
    """Number of transitions that no survivor explains."""
    chosen: bool = False
    doubted: bool = False
    """In this thread, more transitions contradict the reducer than support it."""
    support: int = 0
    """As `evidence`, with the snapshots of DeltaChannels that no reducer was left to contradict."""
    differs: bool = False
    """The reducer of the application may be another one, which differs from it in some steps."""

    @property
    def reducer(self) -> str | None:
        """The reducer; None if reducers of a different kind are equally possible."""
        if self.chosen:
            return self.survivors[0]
        kinds = {REDUCERS[name].makes for name in self.survivors}
        if len(kinds) != 1 or self.doubted or (self.against and self.is_doubtful):
            return None
        return self.survivors[0]

    @property
    def is_refuted(self) -> bool:
        """Whether as many transitions contradict the reducer as support it.

        Then it explains the others only by chance.
        """
        return not self.chosen and (
            self.doubted or (self.against > 0 and self.support <= self.against)
        )

    @property
    def is_doubtful(self) -> bool:
        """Whether this reducer may explain by chance what another reducer did."""
        return self.support <= self.against or self.survivors[0] in _DOUBTFUL

    @property
    def mask(self) -> int:
        return bits(name for name in self.survivors if name in REDUCERS)


def explain(
    base: Held,
    carried: Mapping[int, Held],
    ways: Iterable[tuple[Sequence[Sequence[Value]], bool]],
    stored: Held,
    clears: bool | None = None,
    others: Mapping[int, Sequence[Held]] = NO_OTHERS,
) -> Explained:
    """Try all reducers, from the base or from each reducer's own earlier result, to the stored
    value.

    `ways` are the batches of writes that may have been applied, the likeliest first, each with
    whether it is assumed. `clears` is that of `Reducer.results_of`. `others` are further earlier
    results, for each reducer that has one in `carried`; they only explain a value.
    """
    tried = [(updates_of(batches), is_assumed) for batches, is_assumed in ways]
    mask = applicable = by_rebuilt = assumed = 0
    rebuilt: dict[int, Held] = {}
    own: dict[int, Held] = {}
    known: list[tuple[Held, bool]] = []
    from_base = () if is_unreadable(base) else ((base, False),)

    def is_it(result: Held) -> bool:
        for other, verdict in known:
            if same_objects(result, other):
                return verdict
        verdict = held_fits(result, stored)
        known.append((result, verdict))
        return verdict

    is_one_way = len(tried) == 1 and not carried
    for place, reducer in reducers_for(base, tried[0][0]) if is_one_way else _PLACED:
        bit = 1 << place
        starts: Sequence[tuple[Held, bool]] = from_base
        if place in carried and not is_unreadable(carried[place]):
            starts = (
                *from_base,
                *((one, True) for one in (carried[place], *others.get(place, ()))),
            )
        for nth, (start, is_own) in enumerate(starts):
            is_other = nth > len(from_base)
            for n, (updates, is_assumed) in enumerate(tried):
                results = reducer.results_of(start, updates, clears)
                is_likeliest = results and n == 0 and not is_other
                if is_likeliest and is_own:
                    own[place] = results[0]
                if mask & bit:
                    break
                if is_likeliest:
                    alike = (one for one in rebuilt.values() if same_objects(one, results[0]))
                    rebuilt[place] = next(alike, results[0])
                    if _is_refutable(reducer, stored):
                        applicable |= bit
                if any(map(is_it, results)):
                    applicable |= bit
                    mask |= bit
                    by_rebuilt |= bit if is_own else 0
                    assumed |= bit if is_assumed or is_other else 0
                    break
        if mask & bit:
            rebuilt.pop(place, None)
    return Explained(mask, applicable, by_rebuilt, assumed, rebuilt, own)


def results_in_any_order(
    place: int,
    starts: Sequence[Held],
    ways: Iterable[Sequence[Sequence[Value]]],
    clears: bool | None = None,
) -> Sequence[Held] | None:
    """Return what a reducer makes of any of these values in any of these ways, each result once.

    None if there are more of them than are tried.
    """
    tried = [updates_of(batches) for batches in ways]
    if len(starts) * len(tried) > _KEPT_ORDERS:
        return None
    found: list[Held] = []
    for start, updates in product(starts, tried):
        for result in CANDIDATES[place].results_of(start, updates, clears)[:1]:
            if not any(held_fits(one, result) for one in found):
                found.append(result)
    return found


def is_unreadable(value: Held) -> bool:
    """Return whether a value is missing or only partly available."""
    return isinstance(value, _UNREADABLE)


def judge(masks: Masks, chosen: str | None = None) -> Judgement:
    """Return the reducers that explain the most transitions; the user may have `chosen` one."""
    if chosen == CUSTOM:
        return Judgement((CUSTOM,), 0, chosen=True)
    if chosen is not None:
        bit = bits([chosen])
        return Judgement((chosen,), _evidence(masks, bit), _against(masks, bit), chosen=True)
    counts = [
        sum(n for (mask, _, _), n in masks.items() if mask & 1 << place)
        for place in range(len(CANDIDATES))
    ]
    most = max(counts)
    if not most:
        return Judgement((), 0, sum(masks.values()))
    best = counts.index(most)
    same = [
        place
        for place in range(len(CANDIDATES))
        if all(bool(mask & 1 << place) == bool(mask & 1 << best) for mask, _, _ in masks)
    ]
    names = tuple(CANDIDATES[place].name for place in same)
    bit = 1 << best
    support = _evidence(masks, bit, ALL | RULED_OUT)
    return Judgement(names, _evidence(masks, bit), _against(masks, bit), support=support)


def judge_thread(masks: Masks, known: Masks, chosen: str | None = None) -> Judgement:
    """Judge one thread by its own transitions (`masks`) and those of its group (`known`)."""
    found = judge(known, chosen)
    if chosen is not None or not found.survivors:
        return found
    bit = bits(found.survivors[:1])
    doubted = _evidence(masks, bit, ALL | RULED_OUT) < _against(masks, bit)
    return found._replace(doubted=doubted)


def verdict_of(check: Check, judgement: Judgement) -> tuple[Verdict, str]:
    """Return the verdict on a transition, and the reason if it is not a match.

    This is the one judgement: `replay`, `diff --writes`, `doctor` and repairs take it from here.
    """
    if judgement.survivors == (CUSTOM,):
        return Verdict.UNVERIFIABLE, "the channel has a custom reducer"
    if check.missing and not check.replaced:
        return Verdict.MISMATCH, _missing(check)
    if check.mask & judgement.mask:
        return (Verdict.UNVERIFIABLE, _CHANCE) if judgement.is_refuted else (Verdict.MATCH, "")
    if check.lacking:
        return Verdict.UNVERIFIABLE, check.lacking
    if check.lost and judgement.survivors:
        return Verdict.MISMATCH, "no value is stored for this version"
    if check.replaced and check.shared is None:
        return Verdict.UNVERIFIABLE, _REPLACED
    if not check.is_made:
        is_damage = check.shortened and not check.followed
        if check.in_place and not is_damage and not check.confirmed & judgement.mask:
            return Verdict.UNVERIFIABLE, _IN_PLACE
        return Verdict.MISMATCH, "changed although nothing was written to it"
    return _explained_otherwise(check, judgement) or (Verdict.MISMATCH, _differs(judgement))


_REPLACED = "the writes of update_state to its parent may have replaced others"
_CHANCE = "no known reducer explains all of its steps"
_UNKNOWN = "no known reducer explains the stored value"
_IN_PLACE = (
    "changed without a write, and its version is the same: a node changed it in place, or the"
    " library did when it was loaded"
)
_EDITED = (
    "a part was changed that was there before and not written to, and later steps go on from it: a"
    " node changed it in place"
)
_LATER = "it differs only by what later steps wrote: it was changed while it was being saved"
_TIDIED = (
    "it differs only by its oldest items, by the form of a text, or by fields of objects: the"
    " application did that"
)
_FEW = 4
"""So many steps must follow a known reducer for each that does not."""
_OF_LANGGRAPH = ("add_messages", "last_value")
"""Reducers that LangGraph brings itself. Any other is a function of the application, which may
differ from it in some steps, such as one that empties a list if `None` is written."""


def _explained_otherwise(check: Check, judgement: Judgement) -> tuple[Verdict, str] | None:
    """Return why a value that does not follow from its writes is no proof of damage, or None.

    A reducer of the application may agree with a known one for many steps, such as one that keeps
    the last 20 items. It is damage if the user named the reducer, if another branch gave the value,
    if the steps after it continue from the expected value, if the value holds a text that no one
    wrote, or if it is the only step that is not explained.
    """
    if check.shared is not None:
        return None
    if check.later:
        return Verdict.UNVERIFIABLE, _LATER
    if check.edited and check.followed and not check.confirmed & judgement.mask:
        return Verdict.UNVERIFIABLE, _EDITED
    if check.tidied and not check.confirmed & judgement.mask:
        return Verdict.UNVERIFIABLE, _TIDIED
    if check.beyond & judgement.mask and check.followed and not check.confirmed & judgement.mask:
        return Verdict.UNVERIFIABLE, _other_steps(judgement)
    if judgement.chosen:
        return None
    if judgement.is_refuted or not judgement.survivors:
        return Verdict.UNVERIFIABLE, _UNKNOWN
    if judgement.reducer is None and not check.confirmed & judgement.mask:
        return Verdict.UNVERIFIABLE, _other_steps(judgement)
    if check.gone:
        return None
    makes = any(REDUCERS[name].makes for name in judgement.survivors)
    is_selected = not makes and check.mask & _SELECTORS
    is_rare = judgement.against * _FEW <= judgement.support
    if not is_selected and (
        (check.confirmed & judgement.mask and not judgement.is_doubtful)
        or (check.foreign and is_rare)
        or not judgement.differs
    ):
        return None
    return Verdict.UNVERIFIABLE, _other_steps(judgement)


def _other_steps(judgement: Judgement) -> str:
    if judgement.reducer is None:
        return "no known reducer explains this step and the others"
    return f"{judgement.reducer} explains other steps, but not this one"


def differences_of(check: Check, judgement: Judgement) -> Differences | None:
    """Return where a value differs from the expected one, if the verdict is a mismatch.

    Without an established reducer, it is not known what was expected of a step with writes.
    """
    if verdict_of(check, judgement)[0] is not Verdict.MISMATCH:
        return None
    if check.is_made and judgement.reducer is None:
        return None
    places = check.differing or {}
    return next((found for place, found in places.items() if judgement.mask & 1 << place), None)


def _differs(judgement: Judgement) -> str:
    known = judgement.reducer or "any reducer that explains the other steps"
    return f"stored value differs from what {known} produces"


def may_differ(checks: Sequence[Check], judgement: Judgement) -> bool:
    """Return whether the reducer of the application may differ from the known one in some steps.

    Those that differ from some size on, such as one that keeps the last items, go on to differ. So
    it is the known one if only one step contradicts it, and steps after that follow from it again.
    """
    judgement = judgement._replace(differs=True)
    places = [
        place
        for place, check in enumerate(checks)
        if verdict_of(check, judgement) == (Verdict.UNVERIFIABLE, _other_steps(judgement))
    ]
    if len(places) != 1:
        return bool(places)
    if judgement.survivors[0] in _OF_LANGGRAPH:
        return False
    check, later = checks[places[0]], checks[places[0] + 1 :]
    is_resumed = any(one.is_made and one.mask & judgement.mask for one in later)
    return check.cut or not is_resumed


def _missing(check: Check) -> str:
    if check.missing == 1:
        return "a write to it is missing"
    return f"{check.missing} writes to it are missing"


def is_contradictory(masks: Masks) -> bool:
    """Return whether no single reducer explains all transitions."""
    common = ALL
    for mask, _, _ in masks:
        common &= mask
    return not common


class Pool:
    """The results of all threads, for each channel name.

    Graphs may use one channel name with different reducers, so threads are combined only as long as
    one reducer explains all of them.
    """

    def __init__(self) -> None:
        self._groups: dict[str, list[Masks]] = {}

    def add(self, channel: str, masks: Masks) -> None:
        """Add the results of a thread, unless they contradict each other."""
        if is_contradictory(masks):
            return
        group = self._fitting(channel, masks)
        if group is None:
            self._groups.setdefault(channel, []).append(Counter(masks))
        else:
            group += masks

    def known(self, channel: str, masks: Masks) -> Masks:
        """Return the results by which a thread is judged: its group, or its own results.

        If the thread contradicts itself: its own results and those of the group that fits best.
        """
        if not is_contradictory(masks):
            return self._fitting(channel, masks) or masks
        survivors = judge(masks).mask
        groups = [one for one in self._groups.get(channel, []) if judge(one).mask & survivors]
        return masks + max(groups, key=Counter.total, default=Counter())

    def _fitting(self, channel: str, masks: Masks) -> Masks | None:
        for group in self._groups.get(channel, []):
            if not is_contradictory(group + masks):
                return group
        return None


def _evidence(masks: Masks, bit: int, among: int = ALL) -> int:
    return sum(
        n
        for (mask, applicable, wrote), n in masks.items()
        if wrote and mask & bit and applicable & among & ~mask
    )


def _against(masks: Masks, bit: int) -> int:
    return sum(n for (mask, _, wrote), n in masks.items() if wrote and not mask & bit)


def _is_refutable(reducer: Reducer, stored: Held) -> bool:
    """Return whether a reducer is contradicted if its result differs from the stored value.

    `add_messages` turns any text into a message, so a stored list of plain texts says nothing about
    it.
    """
    if reducer.name != "add_messages":
        return True
    return isinstance(stored, list) and any(as_message(item) is not None for item in stored)


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


class JudgedCheck(NamedTuple):
    """A channel of a transition, and whether it follows from its writes."""

    thread_id: str
    transition: Transition
    check: Check
    judgement: Judgement
    verdict: Verdict
    reason: str
    """Why it is no match; empty for a match."""

    @property
    def differences(self) -> Differences | None:
        """Where the stored value differs, if the verdict is a mismatch."""
        return differences_of(self.check, self.judgement)

    @property
    def assumed(self) -> bool:
        """Whether it matches only in an order of tasks that is not stored."""
        return self.verdict is Verdict.MATCH and bool(self.check.assumed & self.judgement.mask)


class ReplayedChannel(NamedTuple):
    """What is known about one channel of one graph."""

    judgement: Judgement
    verdicts: Mapping[Verdict, int]
    """Number of its transitions."""


@dataclass
class Replayed:
    """One thread, or a part of it, replayed. `judge_all` adds the judgements."""

    thread_id: str
    transitions: list[Transition] = field(default_factory=list)
    tallies: dict[Place, ReducerTally] = field(default_factory=dict)
    judgements: Mapping[Place, Judgement] = field(default_factory=dict)

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
        return replace(self, transitions=chosen)

    def judged(self) -> Iterator[JudgedCheck]:
        """Yield each channel that was written to, or that changed, in each transition."""
        for transition in self.transitions:
            graph = namespace_kind(transition.checkpoint_ns)
            for check in transition.checks:
                judgement = self.judgements[graph, check.channel]
                verdict, reason = verdict_of(check, judgement)
                yield JudgedCheck(self.thread_id, transition, check, judgement, verdict, reason)

    @cached_property
    def findings(self) -> Sequence[JudgedCheck]:
        """What does not follow from its writes, or cannot be verified."""
        return [one for one in self.judged() if one.verdict is not Verdict.MATCH]

    @property
    def mismatches(self) -> Sequence[JudgedCheck]:
        """What does not follow from its writes."""
        return [one for one in self.findings if one.verdict is Verdict.MISMATCH]

    @property
    def assumed(self) -> int:
        """Number of values that match only in an order of tasks that is not stored."""
        return sum(one.assumed for one in self.judged())

    @cached_property
    def verdicts(self) -> Mapping[Verdict, int]:
        """Number of transitions by the worst verdict among their channels."""
        worst = {one.transition[:3]: one.verdict for one in self.findings}
        worst |= {one.transition[:3]: one.verdict for one in self.mismatches}
        return Counter(worst.values()) + Counter(
            {Verdict.MATCH: len(self.transitions) - len(worst)}
        )

    @cached_property
    def channels(self) -> Mapping[Place, ReplayedChannel]:
        """The channels that are in these transitions."""
        found: dict[Place, Counter[Verdict]] = {place: Counter() for place in self.judgements}
        for transition in self.transitions:
            graph = namespace_kind(transition.checkpoint_ns)
            for name in transition.kept:
                found[graph, name][Verdict.MATCH] += 1
        for one in self.judged():
            graph = namespace_kind(one.transition.checkpoint_ns)
            found[graph, one.check.channel][one.verdict] += 1
        return {
            place: ReplayedChannel(self.judgements[place], verdicts)
            for place, verdicts in found.items()
            if verdicts
        }


def label(place: Place) -> str:
    """Return the name of a channel; in a subgraph, it follows the node that calls the subgraph."""
    graph, channel = place
    return f"{graph}/{channel}" if graph else channel


class ReplayedTogether:
    """Judges threads. Those that contradict themselves have to wait for what all others show."""

    def __init__(self, chosen: Mapping[str, str]) -> None:
        self._chosen = chosen
        """Reducers that the user named, by label or by channel."""
        self._pool = Pool()
        self._waiting: list[Replayed] = []

    def add(self, found: Replayed) -> bool:
        """Take what a thread shows about the reducers of channels; return whether it waits."""
        for (_, channel), tally in found.tallies.items():
            self._pool.add(channel, tally.masks)
        if found.is_contradictory:
            self._waiting.append(found)
        return found.is_contradictory

    def judge(self, found: Replayed) -> Replayed:
        """Return a thread with the reducers of its channels."""
        judgements: dict[Place, Judgement] = {}
        for place, tally in sorted(found.tallies.items()):
            channel = place[1]
            told = self._chosen.get(label(place), self._chosen.get(channel, _BUILT_IN.get(channel)))
            one = judge_thread(tally.masks, self._pool.known(channel, tally.masks), told)
            judgements[place] = one._replace(differs=may_differ(tally.checks, one))
        return replace(found, judgements=judgements)

    def last(self) -> Iterator[Replayed]:
        """Yield the threads that waited."""
        return map(self.judge, self._waiting)


def judge_all(threads: Iterable[Replayed], chosen: Mapping[str, str]) -> Iterator[Replayed]:
    """Yield each thread with the reducers of its channels. `chosen` names some of them.

    Threads keep their order, except those that contradict themselves, which come last.
    """
    together = ReplayedTogether(chosen)
    for found in threads:
        if not together.add(found):
            yield together.judge(found)
    yield from together.last()


class NumberedVersions:
    """Which checkpoints of one namespace gave a channel which version.

    LangGraph.js and some Python savers number the versions of a channel, so two branches that begin
    at one checkpoint count on with the same numbers. If values are stored by their versions, one
    branch gets the values of the other.
    """

    def __init__(self) -> None:
        self._givers: dict[tuple[str, str], list[str]] = {}

    def add(self, checkpoint_id: str, introduced: Mapping[str, Version]) -> None:
        """Add a checkpoint with the channels whose versions differ from those of its parent."""
        for channel, version in introduced.items():
            if is_number(version):
                self._givers.setdefault((channel, str(version)), []).append(checkpoint_id)

    def givers(self, channel: str, version: Version) -> Sequence[str]:
        """Return the checkpoints that gave a channel this version; none if it is not a number."""
        return self._givers.get((channel, str(version)), ())


def is_number(version: Version) -> bool:
    """Return whether a version only counts, so that two branches may have the same."""
    return not isinstance(version, str) or version.isdecimal()


# Find out what may have made a value that does not follow from its writes.
#
# An application's own reducer may drop, reorder, cut or count what it merges, and so differ from
# the known reducer that explained all steps before. It does not invent texts. Code that changes a
# value in place, while LangGraph saves it in the background, leaves what later steps write in an
# earlier row. And a message is not always loaded as it was stored.


_MADE_AT_MERGE = frozenset({"id", "type", "role", "status"})
"""Fields of messages that `add_messages` fills."""
_DEEPEST = 20
"""Levels of a value in which messages are looked for."""
_IMMUTABLE = (str, int, float, bytes, type(None), type(ABSENT))


def has_foreign_text(value: Value, sources: Iterable[Value]) -> bool:
    """Return whether a value contains a text that is neither in its sources nor a part of one."""
    known: set[str] = set()
    for source in sources:
        known.update(_texts(source))
    return any(
        text not in known and not any(text in longer for longer in known) for text in _texts(value)
    )


def is_cut(expected: Held, stored: Held) -> bool:
    """Return whether a value is the expected one without some parts.

    That is a list without some items, a set without some members, a part of a text, or a dict
    without keys to which None was written.
    """
    if isinstance(expected, Tagged) and isinstance(stored, Tagged) and is_set(expected):
        expected, stored = expected.payload, stored.payload
    if isinstance(expected, list) and isinstance(stored, list):
        rest = iter(expected)
        return all(any(same(item, other) for other in rest) for item in stored)
    if isinstance(expected, dict) and isinstance(stored, dict):
        return stored.keys() <= expected.keys() and all(
            same(value, stored[key]) if key in stored else value is None
            for key, value in expected.items()
        )
    return isinstance(expected, str) and isinstance(stored, str) and stored in expected


def is_edited(base: Held, expected: Held, stored: Held) -> bool:
    """Return whether a list or dict differs only in items that were in it before."""
    if isinstance(base, list) and isinstance(expected, list) and isinstance(stored, list):
        old = len(base)
        return old > 0 and len(expected) >= old and held_fits(expected[old:], stored[old:])
    if isinstance(base, dict) and isinstance(expected, dict) and isinstance(stored, dict):
        new = [
            key for key, value in expected.items() if key not in base or not same(base[key], value)
        ]
        return bool(base) and all(key in stored and same(expected[key], stored[key]) for key in new)
    return False


def is_beyond(reducer: str, base: Held, expected: Held, stored: Held) -> bool:
    """Return whether no writes at all lead a reducer from the value before to the stored one.

    Then it was another function that merged them. If some would, the row of a write may have been
    changed. A `RemoveMessage` is left out, since what it removes is compared before.
    """
    if is_empty(stored) and not is_empty(base):
        return reducer in _KEEPING
    match reducer, base, stored:
        case ("append", list(), list()):
            return not same(base, stored[: len(base)])
        case ("add_messages" | "add_messages_1.2.23", list(), list()):
            old = [_identity(one) for one in base]
            return old != [_identity(one) for one in stored[: len(old)]]
        case ("dict_merge" | "dict_patch", dict(), dict()):
            is_lost = reducer == "dict_merge" and not base.keys() <= stored.keys()
            return is_lost or _has_merged(base, expected, stored)
        case ("set_union", Tagged(_, list() as old), Tagged(_, list() as new)):
            return not all(any(same(one, other) for other in new) for one in old)
        case ("sum", int() | float(), int() | float()) if isinstance(expected, int | float):
            return (stored - base) * (expected - base) < 0
        case ("concat", str(), str()):
            return not stored.startswith(base)
    return False


_KEEPING = frozenset(
    {"append", "add_messages", "add_messages_1.2.23", "dict_merge", "set_union", "sum", "concat"}
)
"""Reducers that never leave an empty value after another one, but for an `Overwrite`."""


def _identity(value: Value) -> Value:
    """Return what a message keeps while it is changed in place, or any other value."""
    message = as_message(value)
    return value if message is None or message.id is None else message.id


def _has_merged(base: Mapping[Value, Value], expected: Held, stored: Mapping[Value, Value]) -> bool:
    """Return whether a key holds parts of its value before and of what was written, and no more."""
    if not isinstance(expected, dict):
        return False
    for key, value in stored.items():
        if key not in base or key not in expected or same(value, expected[key]):
            continue
        parts, old, new = (set(_parts(one)) for one in (value, base[key], expected[key]))
        if parts <= old | new and old <= parts and new <= parts:
            return True
    return False


def is_tidied(expected: Held, stored: Held) -> bool:
    """Return whether a value is the expected one as code of an application often leaves it.

    That is a list without its oldest items; a text that is cut, or in another case or spacing; an
    object with more or fewer fields, since another release of its class has stored it.
    """
    if isinstance(expected, list) and isinstance(stored, list) and 0 < len(stored) < len(expected):
        return held_fits(expected[-len(stored) :], stored)
    if isinstance(expected, str) and isinstance(stored, str):
        return bool(stored) and (stored in expected or _letters(expected) == _letters(stored))
    return expected is not ABSENT and stored is not ABSENT and _is_alike(expected, stored)


def _letters(text: str) -> str:
    return "".join(text.split()).casefold()


def _is_alike(expected: Value, stored: Value, depth: int = 0) -> bool:
    """Return whether two values differ only in which fields their objects have."""
    if depth > _DEEPEST or same(expected, stored):
        return depth <= _DEEPEST
    match expected, stored:
        case (list(), list()):
            return len(expected) == len(stored) and all(
                _is_alike(one, other, depth + 1)
                for one, other in zip(expected, stored, strict=True)
            )
        case (dict(), dict()):
            return expected.keys() == stored.keys() and all(
                _is_alike(value, stored[key], depth + 1) for key, value in expected.items()
            )
        case (Tagged(kind, dict() as old), Tagged(other, dict() as new)) if kind == other:
            both = old.keys() & new.keys()
            return bool(both) and all(_is_alike(old[key], new[key], depth + 1) for key in both)
        case (Tagged(kind, old), Tagged(other, new)) if kind == other:
            return _is_alike(old, new, depth + 1)
    return False


def is_shortened(base: Held, stored: Held) -> bool:
    """Return whether a list lost its last items."""
    if not (isinstance(base, list) and isinstance(stored, list) and len(stored) < len(base)):
        return False
    return same(base[: len(stored)], stored)


def is_changeable(value: Held) -> bool:
    """Return whether code can change such a value in place."""
    return not isinstance(value, _IMMUTABLE)


def out_of_place(stored: Held, wrote: Iterable[Value], sources: Iterable[Held]) -> set[str] | None:
    """Return the texts by which a value differs from what it was made of.

    These are texts of the value that none of its sources has, and written ones that are not in it.
    The set is empty if the value differs only by its numbers. Returns None if a change in place
    cannot explain it: if the value is missing, or has all the same parts.
    """
    written = list(wrote)
    if not is_changeable(stored):
        return None
    parts = set(_parts(stored))
    known = {part for one in (*written, *sources) for part in _parts(one)}
    odd = (parts - known) | ({part for one in written for part in _parts(one)} - parts)
    return {part for part in odd if isinstance(part, str)} if odd else None


def texts_of(values: Iterable[Value]) -> set[str]:
    """Return all texts in some values, with the keys of dicts."""
    return {part for value in values for part in _parts(value) if isinstance(part, str)}


def as_loaded(value: Held) -> Held:
    """Return a value with its messages in one form, however they were stored and loaded.

    LangChain brings tool calls into its own form when a message is made, and so when it is loaded
    (`_backwards_compat_tool_calls` in `langchain_core/messages/ai.py`, `coerce_args` in `tool.py`).
    A node that assigns them to a message stores them as they are. Newer releases also add fields
    with their defaults. Returns the same object if it holds no message.
    """
    return ABSENT if value is ABSENT else loaded_value(value)


def loaded_value(value: Value, depth: int = 0) -> Value:
    """Return the same for a value that is there."""
    if depth > _DEEPEST:
        return value
    if isinstance(value, Pending):
        return Pending(value.type, loaded_value(value.payload, depth))
    if isinstance(value, Tagged):
        fields = value.payload
        if isinstance(fields, dict) and "content" in fields and "Message" in value.type:
            return Tagged(value.type, _message_fields(fields))
        inner = loaded_value(value.payload, depth + 1)
        return value if inner is value.payload else Tagged(value.type, inner)
    if isinstance(value, list):
        items = [loaded_value(item, depth + 1) for item in value]
        is_kept = all(one is other for one, other in zip(items, value, strict=True))
        return value if is_kept else items
    if isinstance(value, dict):
        found = {key: loaded_value(item, depth + 1) for key, item in value.items()}
        return value if all(found[key] is item for key, item in value.items()) else found
    return value


def _message_fields(fields: Mapping[Value, Value]) -> dict[Value, Value]:
    """Return the fields of a message without empty ones, its tool calls in LangChain's form."""
    found = dict(fields)
    extra = found.get("additional_kwargs")
    raw = extra.get("tool_calls") if isinstance(extra, dict) else None
    if isinstance(raw, list) and not any(found.get(name) for name in _CALLS):
        found.update(_parsed_calls(raw))
    for name, kind in _CALLS.items():
        calls = found.get(name)
        if isinstance(calls, list) and all(isinstance(call, dict) for call in calls):
            blank = _BLANK if name == "invalid_tool_calls" else {}
            found[name] = [{**blank, **_without_kind(call), "type": kind} for call in calls]
    if "tool_call_id" in found:
        found |= {name: _as_text(found.get(name)) for name in ("tool_call_id", "content")}
    return {name: value for name, value in found.items() if value not in _EMPTY}


_CALLS = {
    "tool_calls": "tool_call",
    "invalid_tool_calls": "invalid_tool_call",
    "tool_call_chunks": "tool_call_chunk",
}
_BLANK: Mapping[Value, Value] = {"name": None, "args": None, "id": None, "error": None}
_EMPTY: tuple[Value, ...] = (None, False, [], {})


def _without_kind(call: Value) -> dict[Value, Value]:
    fields = call if isinstance(call, dict) else {}
    return {name: value for name, value in fields.items() if name not in {"type", "extras"}}


def _as_text(value: Value) -> Value:
    return str(value) if isinstance(value, int | float) else value


def _parsed_calls(raw: list[Value]) -> dict[Value, Value]:
    """Parse the calls that a provider's API returned, as `default_tool_parser` does."""
    good: list[Value] = []
    bad: list[Value] = []
    for call in raw:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(call, dict) or not isinstance(function, dict):
            continue
        shared: dict[Value, Value] = {"name": function.get("name"), "id": call.get("id")}
        text = function.get("arguments")
        try:
            good.append({**shared, "args": json.loads(str(text)) or {}})
        except ValueError:
            bad.append({**shared, "args": text})
    return {"tool_calls": good, "invalid_tool_calls": bad}


def _texts(root: Value) -> Iterator[str]:
    """Yield the texts of a value, without what `add_messages` fills in."""
    return (part for part in _parts(root, _MADE_AT_MERGE) if isinstance(part, str))


def _parts(root: Held, left_out: frozenset[str] = frozenset()) -> Iterator[str | int | float]:
    """Yield the texts, keys and numbers of a value, without some fields of objects."""
    todo: list[Held] = [root]
    while todo:
        item = todo.pop()
        if isinstance(item, str | int | float):
            yield item
        elif isinstance(item, list):
            todo += item
        elif isinstance(item, dict):
            todo += item.keys()
            todo += item.values()
        elif isinstance(item, Tagged) and isinstance(item.payload, dict):
            todo += (part for name, part in item.payload.items() if name not in left_out)
        elif isinstance(item, Tagged):
            todo.append(item.payload)
        elif isinstance(item, Cut):
            todo.append(item.kept)
