"""Which reducer a channel has: of all that there are, those that explain what is stored.

Each transition of a channel is tried with every reducer; the set of those that explain it is a bit
mask. What one thread tells is a `Tally`. Judging it names the survivors and gives each transition
its verdict: that of a told reducer, or of the one that explains the most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum

from ckpt_backends.codec.values import Cut, Opaque, Value
from ckpt_cli.core.differences import Differences
from ckpt_cli.core.merging import ABSENT, CUSTOM, REDUCERS, Held, Reducer, fits, same_objects
from ckpt_cli.core.messages import as_message

CANDIDATES: Sequence[Reducer] = tuple(REDUCERS.values())
ALL = (1 << len(CANDIDATES)) - 1


def bits(names: Iterable[str]) -> int:
    """The mask of some reducers."""
    order = list(REDUCERS)
    return sum(1 << order.index(name) for name in set(names))


def bits_at(places: Iterable[int]) -> int:
    """The mask of the reducers at some places."""
    return sum(1 << place for place in places)


_SHORT_LIVED = bits(["topic", "ephemeral", "untracked"])
KEPT = ALL & ~_SHORT_LIVED
"""What explains that a channel to which nothing was written stayed as it was."""
_DOUBTFUL = ("any_value", "first_value", "max", "min")
"""What picks one of the values that are there, as reducers of applications do by chance."""
_SELECTORS = bits(_DOUBTFUL)


class Verdict(StrEnum):
    """Whether a channel's stored value follows from what was written."""

    MATCH = "match"
    MISMATCH = "mismatch"
    UNVERIFIABLE = "unverifiable"


@dataclass(frozen=True, slots=True)
class Explained:
    """Which reducers explain one transition of one channel."""

    mask: int
    applicable: int
    """Those that take such values; what they do not explain, they contradict."""
    by_rebuilt: int
    """Those that explain it only from the value that they make themselves of the steps before."""
    assumed: int
    """Those that explain it in an order, or of writes, that nothing stored tells."""
    rebuilt: Mapping[int, Held]
    """By candidate that does not explain it, what it would have made."""


Masks = Counter[tuple[int, int, bool]]
"""So many transitions by mask, applicable reducers, and whether something was written."""


@dataclass(slots=True)
class Check:
    """One channel of one transition, tried with all reducers."""

    channel: str
    child: str
    """Id of the checkpoint whose value it is."""
    mask: int
    applicable: int
    wrote: int
    """So many writes went to the channel."""
    assumed: int = 0
    confirmed: int = 0
    """Reducers by which the steps after it follow from what it should have been."""
    denied: int = 0
    """Reducers by which a step after it does not follow from that."""
    lacking: str = ""
    """Why it proves nothing where no reducer explains it."""
    lost: bool = False
    """The layout keeps values apart, and has none for the version that the checkpoint names."""
    missing: int = 0
    """Writes to it that are not stored, though the checkpoint's versions or metadata name them."""
    differing: Mapping[int, Differences] | None = None
    """By candidate that does not explain it, where the stored value differs from what it makes."""

    def differs_from(self, mask: int) -> Differences | None:
        """How it differs from what the first of some reducers makes, where that is known."""
        places = self.differing or {}
        return next((found for place, found in places.items() if mask & 1 << place), None)


@dataclass(slots=True)
class Tally:
    """All that one thread tells of one channel of one graph."""

    checks: list[Check] = field(default_factory=list)
    """Those with writes, and those that nothing explains at once."""
    masks: Masks = field(default_factory=Counter)
    kept: int = 0
    """So many transitions left the channel as it was, as they should."""
    counts: list[int] = field(default_factory=lambda: [0] * len(CANDIDATES))
    """Transitions that each reducer explains."""

    @property
    def leaders(self) -> int:
        """The reducers that explain the most so far; all at the beginning."""
        most = max(self.counts)
        return sum(1 << place for place, n in enumerate(self.counts) if n == most)

    def keep(self, *, bumps: bool) -> None:
        """Count a transition to which nothing was written, and that changed nothing."""
        self.kept += 1
        mask = KEPT if bumps else ALL
        self._count(mask, mask, wrote=False)

    def add(self, check: Check) -> None:
        """Count a transition, unless it proves nothing."""
        self.checks.append(check)
        if check.lost and check.wrote:
            return  # whatever the reducer, a value should be there
        if not check.lacking and (check.mask or check.wrote):
            self._count(check.mask, check.applicable, wrote=check.wrote > 0)

    def _count(self, mask: int, applicable: int, *, wrote: bool) -> None:
        self.masks[mask, applicable, wrote] += 1
        for place in range(len(CANDIDATES)):
            self.counts[place] += mask >> place & 1


@dataclass(frozen=True, slots=True)
class Judgement:
    """What is known of a channel's reducer."""

    survivors: tuple[str, ...]
    """The preferred one first; empty for a channel of which nothing is known."""
    evidence: int
    """Transitions on which the survivors are right and another reducer is wrong."""
    against: int = 0
    """Transitions that no survivor explains."""
    told: bool = False
    doubted: bool = False
    """The thread itself has more that speaks against it than for it, whatever others tell."""

    @property
    def reducer(self) -> str | None:
        """The reducer; None where it may as well be one of quite another kind."""
        if self.told:
            return self.survivors[0]
        kinds = {REDUCERS[name].makes for name in self.survivors}
        if len(kinds) != 1 or self.doubted or (self.against and self.is_doubtful):
            return None
        return self.survivors[0]

    @property
    def is_doubtful(self) -> bool:
        """Whether it may explain by chance what another reducer did."""
        return self.evidence <= self.against or self.survivors[0] in _DOUBTFUL

    @property
    def mask(self) -> int:
        return bits(name for name in self.survivors if name in REDUCERS)


def explain(
    base: Held,
    carried: Mapping[int, Held],
    ways: Iterable[tuple[Sequence[Sequence[Value]], bool]],
    stored: Held,
) -> Explained:
    """Try all reducers: from the base, or from what each made of the steps before, to the stored.

    `ways` are the batches of writes that may have been applied, the likeliest first, each with
    whether it is assumed.
    """
    tried = list(ways)
    mask = applicable = by_rebuilt = assumed = 0
    rebuilt: dict[int, Held] = {}
    known: list[tuple[Held, bool]] = []

    def is_it(result: Held) -> bool:
        for other, verdict in known:
            if same_objects(result, other):
                return verdict
        verdict = fits(result, stored)
        known.append((result, verdict))
        return verdict

    for place, reducer in enumerate(CANDIDATES):
        bit = 1 << place
        mine = carried.get(place, ABSENT)
        for start, is_own in ((base, False), (mine, True)):
            if (is_own and (place not in carried or mask & bit)) or is_unreadable(start):
                continue
            for n, (batches, is_assumed) in enumerate(tried):
                results = reducer.results(start, batches)
                if results and n == 0:
                    rebuilt[place] = results[0]
                    if _is_meant(reducer, stored):
                        applicable |= bit
                if any(map(is_it, results)):
                    applicable |= bit
                    mask |= bit
                    by_rebuilt |= bit if is_own else 0
                    assumed |= bit if is_assumed else 0
                    break
        if mask & bit:
            rebuilt.pop(place, None)
    return Explained(mask, applicable, by_rebuilt, assumed, rebuilt)


def is_unreadable(value: Held) -> bool:
    """Whether a value is not at hand, or only in part."""
    return isinstance(value, Cut | Opaque)


def judge(masks: Masks, told: str | None = None) -> Judgement:
    """The reducers that explain the most transitions."""
    if told == CUSTOM:
        return Judgement((CUSTOM,), 0, told=True)
    if told is not None:
        bit = bits([told])
        return Judgement((told,), _evidence(masks, bit), _against(masks, bit), told=True)
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
    return Judgement(names, _evidence(masks, bit), _against(masks, bit))


def judge_thread(masks: Masks, known: Masks, told: str | None = None) -> Judgement:
    """The same for one thread, from what it tells and from what is known beside it."""
    found = judge(known, told)
    if told is not None or not found.survivors:
        return found
    bit = bits(found.survivors[:1])
    doubted = _evidence(masks, bit) < _against(masks, bit)
    return replace(found, doubted=doubted)


def verdict_of(check: Check, judgement: Judgement) -> tuple[Verdict, str]:
    """What a transition of a channel proves, and why, where it is no match."""
    if judgement.survivors == (CUSTOM,):
        return Verdict.UNVERIFIABLE, "the channel has a custom reducer"
    if check.missing:
        return Verdict.MISMATCH, _missing(check)
    if check.mask & judgement.mask:
        return Verdict.MATCH, ""
    if check.lacking:
        return Verdict.UNVERIFIABLE, check.lacking
    if check.lost and judgement.survivors:
        return Verdict.MISMATCH, "no value is stored for this version"
    if not check.wrote:
        return Verdict.MISMATCH, "changed although nothing was written to it"
    name = judgement.survivors[0] if judgement.survivors else "any known reducer"
    other = f"stored value differs from what {name} produces"
    if judgement.told or check.confirmed & judgement.mask:
        return Verdict.MISMATCH, other
    if judgement.doubted or judgement.evidence <= judgement.against:
        return Verdict.UNVERIFIABLE, "no known reducer explains the stored value"
    makes = any(REDUCERS[name].makes for name in judgement.survivors)
    if not makes and check.mask & _SELECTORS:
        return Verdict.UNVERIFIABLE, f"{name} explains other steps, but not this one"
    return Verdict.MISMATCH, other


def _missing(check: Check) -> str:
    if check.missing == 1:
        return "a write to it is missing"
    return f"{check.missing} writes to it are missing"


def is_contradictory(masks: Masks) -> bool:
    """Whether no one reducer explains all transitions."""
    common = ALL
    for mask, _, _ in masks:
        common &= mask
    return not common


class Pool:
    """What all threads of a run tell of the channels of one name.

    Graphs may have channels of one name with different reducers, so threads are put together only
    as long as one reducer explains all of them.
    """

    def __init__(self) -> None:
        self._groups: dict[str, list[Masks]] = {}

    def add(self, channel: str, masks: Masks) -> None:
        """Take in what a thread tells, unless it contradicts itself."""
        if is_contradictory(masks):
            return
        group = self._fitting(channel, masks)
        if group is None:
            self._groups.setdefault(channel, []).append(Counter(masks))
        else:
            group += masks

    def known(self, channel: str, masks: Masks) -> Masks:
        """What a thread that was added is judged by.

        For one that contradicts itself, what it tells, and what other threads tell that fits best.
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


def _evidence(masks: Masks, bit: int) -> int:
    return sum(
        n
        for (mask, applicable, wrote), n in masks.items()
        if wrote and mask & bit and applicable & ~mask
    )


def _against(masks: Masks, bit: int) -> int:
    return sum(n for (mask, _, wrote), n in masks.items() if wrote and not mask & bit)


def _is_meant(reducer: Reducer, stored: Held) -> bool:
    """Whether a reducer that yields something else than what is stored counts as contradicted.

    Any text can be made a message; that a list of texts is none tells nothing.
    """
    if reducer.name != "add_messages":
        return True
    return isinstance(stored, list) and any(as_message(item) is not None for item in stored)
