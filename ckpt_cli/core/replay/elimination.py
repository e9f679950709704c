"""Find the reducer of a channel: those that explain all stored values.

Each transition of a channel is tried with every reducer; the set of reducers that explain it is a
bit mask. A `ReducerTally` collects the results of one thread. Judging it names the reducers that
remain and gives each transition a verdict: by the reducer that the user named, or by the one that
explains most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from ckpt_backends.codec.values import Cut, Opaque, Value
from ckpt_cli.core.conversation.messages import as_message
from ckpt_cli.core.replay.reducers import (
    CUSTOM,
    REDUCERS,
    Held,
    Reducer,
    fits,
    reducers_for,
    same_objects,
    updates_of,
)

if TYPE_CHECKING:
    from ckpt_cli.core.replay.differences import Differences

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
) -> Explained:
    """Try all reducers, from the base or from each reducer's own earlier result, to the stored
    value.

    `ways` are the batches of writes that may have been applied, the likeliest first, each with
    whether it is assumed. `clears` is that of `Reducer.results_of`.
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
        verdict = fits(result, stored)
        known.append((result, verdict))
        return verdict

    is_one_way = len(tried) == 1 and not carried
    for place, reducer in reducers_for(base, tried[0][0]) if is_one_way else _PLACED:
        bit = 1 << place
        starts: Sequence[tuple[Held, bool]] = from_base
        if place in carried and not is_unreadable(carried[place]):
            starts = (*from_base, (carried[place], True))
        for start, is_own in starts:
            for n, (updates, is_assumed) in enumerate(tried):
                results = reducer.results_of(start, updates, clears)
                if results and n == 0 and is_own:
                    own[place] = results[0]
                if mask & bit:
                    break
                if results and n == 0:
                    alike = (one for one in rebuilt.values() if same_objects(one, results[0]))
                    rebuilt[place] = next(alike, results[0])
                    if _is_refutable(reducer, stored):
                        applicable |= bit
                if any(map(is_it, results)):
                    applicable |= bit
                    mask |= bit
                    by_rebuilt |= bit if is_own else 0
                    assumed |= bit if is_assumed else 0
                    break
        if mask & bit:
            rebuilt.pop(place, None)
    return Explained(mask, applicable, by_rebuilt, assumed, rebuilt, own)


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
