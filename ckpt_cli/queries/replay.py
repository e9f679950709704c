"""Replays threads: checks each channel of each step against what is stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING, NamedTuple

from ckpt_backends.codec.memo import remembering
from ckpt_backends.codec.values import Value
from ckpt_backends.errors import NotFound
from ckpt_backends.model import Thread, TypedBytes
from ckpt_backends.protocol import Store
from ckpt_cli.core.diff import json_size
from ckpt_cli.core.lineage import namespace_kind
from ckpt_cli.core.redact import redact
from ckpt_cli.core.reducers import (
    ABSENT,
    NOT_STORED,
    Held,
    held_fits,
    is_empty,
    is_not_stored,
    known_reducers,
    unknown_channel,
)
from ckpt_cli.core.replay import (
    ALL,
    CANDIDATES,
    RULED_OUT,
    Batches,
    Check,
    Contribution,
    Differences,
    Effect,
    Explained,
    Judgement,
    NumberedVersions,
    PossibleOrders,
    ReducerTally,
    Replayed,
    SortedWrites,
    Transition,
    Verdict,
    WriteOrder,
    are_all_orders,
    as_loaded,
    bits_at,
    contributions,
    differences,
    differences_of,
    explain,
    has_foreign_text,
    is_beyond,
    is_changeable,
    is_cut,
    is_edited,
    is_shortened,
    is_tidied,
    is_unreadable,
    judge_all,
    label,
    loaded_value,
    orders_of_channel,
    out_of_place,
    plain,
    possible_orders,
    recorded_orders,
    results_in_any_order,
    sort_writes,
    texts_of,
    verdict_of,
    without_values,
    writes_in_metadata,
    written_channels,
)
from ckpt_cli.core.state import (
    FROM,
    START,
    Version,
    is_delta,
    is_state,
    read_body,
    read_metadata,
    source_from,
    state_values,
)
from ckpt_cli.core.tasks import UPDATE_PATH, TaskWrite, task_writes
from ckpt_cli.core.values import same
from ckpt_cli.reading.states import OldestFirst, bytes_read
from ckpt_cli.reading.store import is_redacted, rules_of
from ckpt_cli.reading.target import Target
from ckpt_cli.reading.thread import Moment, ThreadReader, TriggerInference

if TYPE_CHECKING:
    from ckpt_cli.reading.executor import Executor
    from ckpt_cli.reading.workers import Each


NO_DELTA = "a DeltaChannel stores no value between snapshots"
_MOST_ODD = 15
"""Maximum number of earlier values of a channel that later writes are compared with."""
_NO_WRITES = "none of the writes to it are stored"
_GONE = "the value before it is not stored"
_ANY_ORDER = "the order of the writes since its last snapshot is not stored"


@dataclass(slots=True)
class KeptCheckpoint:
    """A checkpoint with children that are still to come."""

    moment: Moment
    values: Mapping[str, Value]
    writes: SortedWrites
    carried: dict[str, dict[int, Held]] = field(default_factory=dict)
    """By channel and reducer: the expected value, if it differs from the stored one."""
    others: dict[str, dict[int, Sequence[Held] | None]] = field(default_factory=dict)
    """By DeltaChannel and reducer: what it may be as well, because the order of some writes since
    its last stored value is not stored; None if that are more values than are tried."""
    folded: dict[str, int] = field(default_factory=dict)
    """By DeltaChannel: the number of writes since its last stored value."""
    open: dict[str, list[Check]] = field(default_factory=dict)
    """The checks that did not explain the value stored here, by channel."""
    odd: dict[str, tuple[Odd, ...]] = field(default_factory=dict)
    """The values up to here that a change in place may explain, by channel."""
    sources: Counter[str | None] = field(default_factory=Counter)
    """The sources of its children, if there are several children."""
    decoded: dict[int, Value] = field(default_factory=dict)

    def values_of(self, batches: Batches) -> list[list[Value]]:
        """Return the values of writes; each write is decoded once."""
        for write in chain.from_iterable(batches):
            if id(write) not in self.decoded:
                self.decoded[id(write)] = write.value
        return [[self.decoded[id(write)] for write in batch] for batch in batches]


class Odd(NamedTuple):
    """A value that does not follow from its writes; perhaps it was changed while it was saved."""

    check: Check
    stored: Held
    texts: set[str]
    """Those by which it differs from its sources, and that no later step has written yet."""


class _Values(NamedTuple):
    """The values of one channel in a transition."""

    base: Held
    written: Sequence[Value]
    stored: Held


class Looked(NamedTuple):
    """One channel of the transition that is examined."""

    base: Held
    """The value before; for a DeltaChannel, the result of its reducer for the steps before."""
    ways: tuple[WriteOrder, ...]
    """How its writes may have been applied, the likeliest first."""
    stored: Held
    check: Check


@dataclass(slots=True)
class Look:
    """All that is known about one transition."""

    child: Moment
    parent: Moment | None = None
    """None if the parent is not stored."""
    writes: SortedWrites | None = None
    """All writes on the parent, except those that record what happened to a task."""
    values: dict[int, Value] = field(default_factory=dict)
    """Values of writes, by the `id` of their `TaskWrite`."""
    channels: dict[str, Looked] = field(default_factory=dict)


class Lost(NamedTuple):
    """A value that is missing or unreadable. Inside a body, a channel may also have none."""

    child: Moment
    """The first checkpoint that refers to its version."""
    parent: Moment
    ways: tuple[WriteOrder, ...]
    """How its writes may have been applied, the likeliest first."""
    made_lacks: str
    """Why the writes do not determine the value; empty if they do."""
    check: Check
    blob: TypedBytes | None
    """The stored bytes that cannot be read; None if nothing is stored apart from the body."""


class ChannelChecker:
    """Checks the channels of the transitions of one namespace."""

    def __init__(
        self,
        reader: ThreadReader,
        checkpoint_ns: str,
        tallies: dict[tuple[str, str], ReducerTally],
        lost: list[Lost] | None,
    ) -> None:
        self._reader = reader
        self._ns = checkpoint_ns
        self._graph = namespace_kind(checkpoint_ns)
        self._tallies = tallies
        self._lost = lost
        self.looked: Look | None = None
        """The transition that is examined, once it was reached."""
        self.kept: list[str] = []
        """The channels of the present transition that are unchanged, as they should be."""

    def begin(self, here: KeptCheckpoint, parent: KeptCheckpoint, made: PossibleOrders) -> None:
        """Take the transition whose channels are checked next."""
        self._here, self._moment, self._made = here, here.moment, made
        self._parent = _as_read_by(here.moment, parent)

    def check_all(self) -> Iterator[Check]:
        """Yield a check of each state channel that changed or should have."""
        here, moment, parent = self._here, self._moment, self._parent
        here.odd = dict(parent.odd)
        names = {*here.values, *parent.values, *parent.carried}
        changed = written_channels(self._made)
        named = writes_in_metadata(moment.metadata)
        # Without channels for nodes, the name alone tells whether a channel holds state.
        are_sure = moment.body.names_edges and parent.moment.body.names_edges
        for name in sorted(names | changed):
            if not (are_sure and name in names) and not (
                is_state(name, moment.body) and is_state(name, parent.moment.body)
            ):
                continue
            base: Held = parent.values.get(name, ABSENT)
            stored: Held = here.values.get(name, ABSENT)
            carried = parent.carried.get(name, {})
            if name not in changed and is_kept(base, stored):
                # A snapshot of a DeltaChannel also gets a new version.
                if self._lacks_write(name) and not self.is_delta(name, moment):
                    yield Check(name, moment.key.checkpoint_id, 0, 0, 0, missing=1)
                    continue
                if not carried:
                    self.keep(name, bumps=self._made.bumps)
                    continue
            check = self._check(name)
            if check is not None:
                if check.wrote and self._is_complete:
                    check.missing = max(0, named[name] - check.wrote)
                yield check
        for name in sorted(moment.body.values.keys() - changed - here.values.keys()):
            if self._is_unwritten(name):
                yield Check(name, moment.key.checkpoint_id, 0, 0, 0, missing=1)

    def carry(self) -> None:
        """Keep what the DeltaChannels of a checkpoint are that it does not store, unchecked."""
        for name in {*self._parent.values, *self._parent.carried} - self._here.values.keys():
            if self.is_delta(name, self._moment):
                self._check(name)

    @property
    def _is_complete(self) -> bool:
        """Whether all that made the checkpoint should be stored: a normal step with all writes."""
        made = self._made
        return self._moment.source == "loop" and made.bumps and not made.lacking

    def _has_same_version(self, name: str) -> bool:
        versions = self._moment.body.versions
        return versions.get(name) == self._parent.moment.body.versions.get(name)

    def _lacks_write(self, name: str) -> bool:
        """Return whether a channel has a new version although no write to it is stored."""
        return (
            not self._has_same_version(name)
            and name in self._parent.moment.body.versions
            and self._is_complete
        )

    def _is_unwritten(self, name: str) -> bool:
        """Return whether an edge or a None is stored without a write, in formats 1 and 2.

        In later formats, edges to deferred nodes are consumed without a write.
        """
        body = self._moment.body
        if body.names_edges or body.v > 2 or name.startswith("__"):
            return False
        return (
            self._is_complete
            and (is_state(name, body) or not is_empty(body.values[name]))
            and not self._has_same_version(name)
        )

    def _check(self, name: str) -> Check | None:
        """Check one channel; None if nothing is stored that could be compared."""
        here, moment, parent, made = self._here, self._moment, self._parent, self._made
        stored: Held = here.values.get(name, ABSENT)
        is_delta = stored is ABSENT and self.is_delta(name, moment)
        possible = tuple(orders_of_channel(made, name, between=is_delta))
        ways = [(parent.values_of(way.batches), way.assumed) for way in possible]
        wrote = max(sum(map(len, batches)) for batches, _ in ways)
        base, carried = parent.values.get(name, ABSENT), parent.carried.get(name, {})
        is_lost = stored is ABSENT and not is_delta and _is_apart(name, moment)
        if not wrote and not is_delta and self._is_settled(name):
            return None
        if stored is ABSENT and _takes_none_for_nothing(moment, ways):
            stored, is_lost = None, False
        if base is ABSENT and carried and self.is_delta(name, parent.moment):
            base = NOT_STORED  # between snapshots, only the results of the reducers are known
        elif is_delta and base is not ABSENT:
            carried = {}  # the snapshot at the parent is the value to go on from
        # Between snapshots, nothing is stored that another order could explain.
        found = self._explained(name, base, carried, ways[:1] if is_delta else ways, stored)
        is_gone = not is_delta and base is ABSENT and _is_apart(name, parent.moment)
        lacking = NO_DELTA
        if not is_delta:
            none = _NO_WRITES if self._reader.is_values_only and not wrote else ""
            unread = _unread(base, stored, carried, _values(ways), is_gone=is_gone)
            lacking = unread or made.lacking or none or self._unsure(name, base, ways)
        mask = 0 if is_delta else found.mask & ~(found.by_rebuilt if is_lost else 0)
        check = Check(name, moment.key.checkpoint_id, mask, found.applicable, wrote)
        check.assumed, check.lacking, check.lost = found.assumed, lacking, is_lost
        if base is NOT_STORED:
            check.folded = parent.folded.get(name, 0)
            check.applicable |= RULED_OUT if ALL & ~self.tally(name).leaders else 0
        # What the reducers made before can be wrong even if the value before is not stored.
        is_proof = wrote and not is_lost and not made.lacking and lacking in ("", _GONE)
        step = _Values(base, list(_values(ways[:1])), stored)
        self._tell_earlier(name, found, step, is_proof=bool(is_proof))
        if not lacking and self.tally(name).leaders & ~found.mask:
            check.in_place = not check.is_made and self._has_same_version(name)
            self._note_deviation(check, found, step, carried)
        is_unset = stored is ABSENT and name in moment.body.versions and not is_delta
        if is_unset or is_unreadable(stored):
            self._note_lost(possible, check)
        is_unchanged = not wrote and (is_delta or is_kept(base, stored))
        if (look := self.looked) and look.child is moment and (is_delta or not is_unchanged):
            known = self._likeliest(name, carried) if base is NOT_STORED or is_gone else base
            look.channels[name] = Looked(known, possible, stored, check)
        if is_delta or not lacking or is_unreadable(stored):
            self._carry(found, check, base, possible if is_delta else None)
        if not is_unchanged:
            return check
        if is_delta:
            check.missing = int(self._lacks_write(name))
            return check if check.missing else None
        self.keep(name, bumps=made.bumps)
        return None

    def _is_settled(self, name: str) -> bool:
        """Return whether a channel without writes needs no check.

        It has no value, or it still has one that was checked before: the same row, or none.
        """
        here, parent = self._here, self._parent
        carried, base = parent.carried.get(name, {}), parent.values.get(name, ABSENT)
        stored, is_apart = here.values.get(name, ABSENT), _is_apart(name, self._moment)
        if base is ABSENT and stored is ABSENT and not (carried and is_apart):
            return True
        if not (carried and is_apart and self._has_same_version(name)):
            return False
        is_same = is_kept(base, stored)
        if stored is not ABSENT and not is_same:
            return False
        here.carried[name], here.open[name] = carried, parent.open.get(name, [])
        if is_same:
            self.keep(name, bumps=self._made.bumps)
        return True

    def _explained(
        self,
        name: str,
        base: Held,
        carried: Mapping[int, Held],
        ways: list[tuple[list[list[Value]], bool]],
        stored: Held,
    ) -> Explained:
        """Try all reducers; on messages in one form if the stored form is not explained."""
        clears, bumps = self._clears(name, stored), self._made.bumps
        others = (
            {} if stored is ABSENT or self._unsure(name, base, ways) else self._others(name, base)
        )
        more = {place: some for place, some in others.items() if some}
        found = explain(base, carried, list(_with_steps(ways, bumps=bumps)), stored, clears, more)
        if found.mask & self.tally(name).leaders:
            return found
        loaded = as_loaded(stored)
        if loaded is stored:
            return found
        plain = [
            ([[loaded_value(one) for one in batch] for batch in batches], is_assumed)
            for batches, is_assumed in ways
        ]
        own = {place: as_loaded(value) for place, value in carried.items()}
        steps = list(_with_steps(plain, bumps=bumps))
        more = {place: [as_loaded(one) for one in some] for place, some in more.items()}
        again = explain(as_loaded(base), own, steps, loaded, clears, more)
        return again if again.mask & self.tally(name).leaders else found

    def _note_deviation(
        self, check: Check, found: Explained, step: _Values, carried: Mapping[int, Held]
    ) -> None:
        """Note what may have made a value that its writes do not explain.

        One of the likeliest reducers may explain it and be refuted later, such as a Topic that
        empties a list.
        """
        name, odd = check.channel, self._here.odd
        base, written, stored = step
        leaders = self.tally(name).leaders
        expected = [value for place, value in found.rebuilt.items() if leaders & 1 << place]
        check.differing = self._differing(name, found, stored)
        check.cut = any(is_cut(one, stored) for one in expected)
        check.edited = any(is_edited(base, one, stored) for one in expected)
        check.tidied = bool(written) and any(is_tidied(one, stored) for one in expected)
        check.beyond = bits_at(
            place
            for place, value in found.rebuilt.items()
            if leaders & 1 << place and is_beyond(CANDIDATES[place].name, base, value, stored)
        )
        sources = (base, *carried.values(), *written, *found.rebuilt.values())
        check.foreign = _is_foreign(stored, sources)
        texts = out_of_place(stored, written, sources)
        if texts is not None:
            odd[name] = (*odd.get(name, ())[-_MOST_ODD:], Odd(check, stored, texts))
        # The one of formats 1 and 2 may be None, which counts as no value.
        is_unset = stored is ABSENT and name not in self._moment.body.values
        check.gone = is_unset and base is not ABSENT
        check.in_place &= is_changeable(base) or is_changeable(stored)
        check.shortened = is_shortened(base, stored)

    def _tell_earlier(self, name: str, found: Explained, step: _Values, *, is_proof: bool) -> None:
        """Note what a step tells of those before it that did not follow from their writes."""
        here, parent = self._here, self._parent
        base, written, stored = step
        opened = parent.open.get(name, ())
        denied = bits_at(parent.carried.get(name, {})) & ~found.mask if is_proof else 0
        is_followed = bool(opened) and _goes_on(found, base, stored, wrote=bool(written))
        for earlier in opened:
            earlier.followed |= is_followed
            earlier.confirmed |= found.by_rebuilt
            earlier.denied |= denied
        if not written or not (odd := here.odd.get(name)):
            return
        known = texts_of(written)
        for one in odd:
            one.texts.difference_update(known)
            one.check.later |= not one.texts or any(
                held_fits(value, one.stored) for value in found.own.values()
            )
        here.odd[name] = tuple(one for one in odd if not one.check.later)

    def _clears(self, name: str, stored: Held) -> bool | None:
        """Return whether `REMOVE_ALL_MESSAGES` empties a DeltaChannel; None for other channels."""
        moment = self._moment
        is_unset = stored is ABSENT and self.is_delta(name, moment)
        if not (is_unset or is_delta(moment.body.values.get(name))):
            return None
        return rules_of(self._reader.store, moment.body).clears

    def _likeliest(self, name: str, carried: Mapping[int, Held]) -> Held:
        """Return the value of a channel by its likeliest reducer."""
        leaders = self.tally(name).leaders
        return next((value for place, value in carried.items() if leaders & 1 << place), NOT_STORED)

    def _carry(
        self, found: Explained, check: Check, base: Held, between: Sequence[WriteOrder] | None
    ) -> None:
        """Keep what the likeliest reducers make of a channel, for the steps that follow.

        `between` are the ways to make a DeltaChannel that is not stored here; None for others.
        """
        here, parent, name = self._here, self._parent, check.channel
        leaders = self.tally(name).leaders
        here.carried[name] = {
            place: value for place, value in found.rebuilt.items() if leaders & 1 << place
        }
        if between is not None:
            here.folded[name] = parent.folded.get(name, 0) + check.wrote
            self._carry_others(name, base, between)
        elif here.carried[name]:
            here.open[name] = [*parent.open.get(name, ()), check]

    def _others(self, name: str, base: Held) -> Mapping[int, Sequence[Held] | None]:
        """Return what else a DeltaChannel may be at a parent that does not store its value."""
        return self._parent.others.get(name, {}) if base is NOT_STORED else {}

    def _unsure(self, name: str, base: Held, ways: Sequence[object]) -> str:
        """Return why its writes do not prove a snapshot wrong; `''` if they do."""
        others = self._others(name, base)
        is_cut = None in others.values() or (len(ways) > 1 and any(others.values()))
        return _ANY_ORDER if is_cut else ""

    def _carry_others(self, name: str, base: Held, possible: Sequence[WriteOrder]) -> None:
        """Keep what else a DeltaChannel may be after writes whose order is not stored."""
        here, parent, others = self._here, self._parent, self._others(name, base)
        is_all = are_all_orders(self._made, possible, between=True)
        if is_all and not others and len(possible) == 1:
            return
        carried, kept = parent.carried.get(name, {}), here.others.setdefault(name, {})
        steps = [parent.values_of(way.batches) or [[]] for way in possible]
        for place, likeliest in here.carried[name].items():
            before = carried.get(place, NOT_STORED) if base is NOT_STORED else base
            more = others.get(place, ())
            made = None
            if is_all and more is not None:
                starts, clears = (before, *more), self._clears(name, ABSENT)
                made = results_in_any_order(place, starts, steps, clears)
            kept[place] = made and [one for one in made if not held_fits(likeliest, one)]

    def _differing(self, name: str, found: Explained, stored: Held) -> dict[int, Differences]:
        """Return where a value differs from the results of the likeliest reducers."""
        leaders = self.tally(name).leaders
        hides = is_redacted(self._reader.store)
        return {
            place: without_values(one) if hides else one
            for place, value in found.rebuilt.items()
            if leaders & 1 << place and (one := differences(value, stored)) is not None
        }

    def _note_lost(self, ways: tuple[WriteOrder, ...], check: Check) -> None:
        name, moment = check.channel, self._moment
        if self._lost is None:
            return
        if moment.checkpoint.blobs is not None:
            if self._has_same_version(name):
                return  # it was noted before
        elif check.mask & self.tally(name).leaders:
            return  # inside a body, a channel without a value may be right
        blob = (moment.checkpoint.blobs or {}).get(name)
        value = None if blob is None else blob.value
        lacking = self._made.lacking
        self._lost.append(Lost(moment, self._parent.moment, ways, lacking, check, value))

    def keep(self, name: str, *, bumps: bool) -> None:
        """Count a channel without writes that is unchanged."""
        self.kept.append(name)
        self.tally(name).keep(bumps=bumps)

    def is_delta(self, name: str, moment: Moment) -> bool:
        return name in moment.body.versions and name in self._reader.delta_channels(self._ns)

    def tally(self, channel: str) -> ReducerTally:
        found = self._tallies.get((self._graph, channel))
        if found is None:
            found = self._tallies[self._graph, channel] = ReducerTally()
        return found


def _unread(
    base: Held, stored: Held, carried: Mapping[int, Held], wrote: Iterable[Value], *, is_gone: bool
) -> str:
    """Return which part of a transition is missing or unreadable; `''` if none."""
    if stored is NOT_STORED:
        return "its value is not stored"
    if is_unreadable(stored):
        return "its value cannot be read"
    if base is NOT_STORED and not carried:
        return _GONE
    if is_unreadable(base) and not carried:
        return "the value before it cannot be read"
    if is_gone:
        return _GONE
    return "a write to it cannot be read" if any(map(is_unreadable, wrote)) else ""


def _is_foreign(stored: Held, sources: Iterable[Held]) -> bool:
    """Return whether a value contains a text that is in none of its sources."""
    if stored is ABSENT:
        return False
    return has_foreign_text(stored, (one for one in sources if one is not ABSENT))


def _values(ways: Iterable[tuple[list[list[Value]], bool]]) -> Iterator[Value]:
    """Yield the values that were written."""
    return (value for batches, _ in ways for batch in batches for value in batch)


def _goes_on(found: Explained, base: Held, stored: Held, *, wrote: bool) -> bool:
    """Return whether a step follows from the stored value, and not from the expected one."""
    if not wrote:
        return is_kept(base, stored)
    return any(
        found.mask & ~found.by_rebuilt & 1 << place and not held_fits(value, stored)
        for place, value in found.own.items()
    )


def is_kept(base: Held, stored: Held) -> bool:
    """Return whether a value is unchanged, apart from what loading it may change."""
    if base is ABSENT or stored is ABSENT or is_unreadable(base):
        return False
    return same(base, stored) or _is_loaded(base, stored)


def _is_loaded(base: Value, stored: Value) -> bool:
    """Return whether two values differ only as a stored message differs from a loaded one."""
    if not (is_changeable(base) and is_changeable(stored)):
        return False
    loaded = as_loaded(base)
    return loaded is not base and held_fits(loaded, as_loaded(stored))


def _is_apart(name: str, moment: Moment) -> bool:
    """Return whether a channel has a version and the layout stores values apart."""
    return moment.checkpoint.blobs is not None and name in moment.body.versions


def _as_read_by(moment: Moment, parent: KeptCheckpoint) -> KeptCheckpoint:
    """Return a parent with the values that the library has which wrote the child.

    In formats 1 and 2, a stored None counts as no value (`state_values`). A later release that goes
    on from such a checkpoint takes it for a value, and stores it again.
    """
    body = parent.moment.body
    if body.v not in {1, 2} or body.is_javascript or moment.body.v in {1, 2}:
        return parent
    nothing = {name: None for name, value in body.values.items() if value is None}
    return replace(parent, values={**nothing, **parent.values})


def _takes_none_for_nothing(moment: Moment, ways: list[tuple[list[list[Value]], bool]]) -> bool:
    """Return whether a None was written that counts as no value, as until LangGraph 0.3
    (`state_values`).
    """
    is_old = moment.body.v in {1, 2} and not moment.body.is_javascript
    return is_old and list(_values(ways[:1]))[-1:] == [None]


def _with_steps(
    ways: Iterable[tuple[list[list[Value]], bool]], *, bumps: bool
) -> Iterator[tuple[list[list[Value]], bool]]:
    """Yield the ways; one without writes becomes an empty step, which ends short-lived values."""
    for batches, is_assumed in ways:
        yield batches or [[]], is_assumed
        if not bumps and not batches:
            yield [], is_assumed


_NO_PARENT = "its parent is not stored"
_NO_BODY = "the checkpoint cannot be read"
_FIRST = {
    "input": "an input's writes to other channels are not stored",
    "update": "the writes of update_state are not stored",
}
"""Why the values of a first checkpoint cannot be verified, by source."""
Watch = Callable[[KeptCheckpoint, KeptCheckpoint | None], None]
"""Is called with each checkpoint, and with its parent if that was read before."""


def replay_thread(
    reader: ThreadReader, *, watch: Watch | None = None, lost: list[Lost] | None = None
) -> Replayed:
    """Replay all transitions of a thread; the checkpoints of a namespace come oldest first.

    Each checkpoint is shown to `watch`, with its state and writes; then it is the caller who makes
    the cache of decoded values. The values that are missing are added to `lost`.
    """
    with nullcontext() if watch is not None else remembering():
        return _replayed(reader, reader.namespaces, watch=watch, lost=lost)[0]


def look_at(
    reader: ThreadReader, checkpoint_ns: str, child: str, watch: Watch | None = None
) -> tuple[Replayed, Look]:
    """Replay a thread; also return all about the transition to `child` in a namespace.

    All of it is read, so that the step is judged as `replay_thread` judges it. Raises `NotFound` if
    there is no such checkpoint.
    """
    known = reader.namespaces
    # One that is named may have no checkpoints.
    spaces = known if checkpoint_ns in known else [*known, checkpoint_ns]
    with remembering():
        found, looked = _replayed(reader, spaces, watch=watch, look=(checkpoint_ns, child))
    if looked is None:
        raise NotFound(f"no checkpoint '{child}' in thread '{reader.thread_id}'")
    return found, looked


def _replayed(
    reader: ThreadReader,
    namespaces: Iterable[str],
    *,
    watch: Watch | None = None,
    lost: list[Lost] | None = None,
    look: tuple[str, str] | None = None,
) -> tuple[Replayed, Look | None]:
    found = Replayed(reader.thread_id)
    looked = None
    for ns in namespaces:
        child = look[1] if look is not None and look[0] == ns else None
        namespace = _Namespace(reader, ns, found.tallies, look=child, lost=lost, watch=watch)
        found.transitions.extend(namespace)
        looked = looked or namespace.looked
    return found, looked


class _Namespace:
    """The transitions of a namespace, oldest first; each checkpoint is read once."""

    def __init__(
        self,
        reader: ThreadReader,
        checkpoint_ns: str,
        tallies: dict[tuple[str, str], ReducerTally],
        *,
        ids: Collection[str] | None = None,
        look: str | None = None,
        lost: list[Lost] | None = None,
        watch: Watch | None = None,
        carried: dict[str, dict[int, Held]] | None = None,
    ) -> None:
        self._reader = reader
        self._ns = checkpoint_ns
        self._look = look
        self._watch = watch
        self._carried = carried
        self._checker = ChannelChecker(reader, checkpoint_ns, tallies, lost)
        self._line = OldestFirst[KeptCheckpoint](reader, checkpoint_ns, ids)
        self._numbered = NumberedVersions()
        self._suspects: list[Check] = []
        """Steps that are not explained."""
        self._siblings: dict[
            str | None, list[tuple[Mapping[str, Version], Mapping[str, Value]]]
        ] = {}

    @property
    def looked(self) -> Look | None:
        """The requested transition, after it was reached."""
        return self._checker.looked

    def __iter__(self) -> Iterator[Transition]:
        fetch = partial(self._reader.moments, self._ns, values=True, state=True)
        for moment in self._line.read(fetch, lambda one: bytes_read(one.checkpoint, one.writes)):
            placed = task_writes(moment.writes, moment.step)
            writes = sort_writes(moment.key.checkpoint_id, placed, moment.step, moment.body)
            here = KeptCheckpoint(moment, state_values(moment.body), writes)
            # Before it is kept itself: a subgraph of LangGraph 0.2 may be its own parent.
            yield self._transition(moment, here)
            self._keep(here)
            self._let_go(moment, here)
        for check in self._suspects:
            check.shared = self._other_giver(check)

    def _other_giver(self, check: Check) -> str | None:
        """Return a checkpoint of another branch that gave the channel the same version."""
        child, ancestry = check.child, self._reader.ancestry
        for one in self._numbered.givers(check.channel, check.version):
            if one not in ancestry(self._ns, child) and child not in ancestry(self._ns, one):
                return one
        return None

    def _keep(self, here: KeptCheckpoint) -> None:
        key = here.moment.key
        if self._carried is not None and key.checkpoint_id != self._look:
            here.carried = self._carried
        self._line.keep(key.checkpoint_id, here)
        if self._line.unseen_children(key.checkpoint_id) > 1:
            here.sources = self._sources(self._reader.children(key))

    def _sources(self, ids: Collection[str]) -> Counter[str | None]:
        found = self._reader.checkpoints(self._ns, ids, metadata=True)
        return Counter(source_from(read_metadata(one)) for one in found)

    def _transition(self, moment: Moment, here: KeptCheckpoint) -> Transition:
        parent_id = moment.checkpoint.parent_checkpoint_id
        # A parent that is only assumed proves nothing.
        is_told = parent_id is not None and not moment.checkpoint.begins_run
        parent = self._line.kept(parent_id) if is_told else None
        if self._watch is not None:
            self._watch(here, parent)
        if moment.checkpoint.blobs is not None and not self._is_sibling_copy(moment):
            before = {} if parent is None else parent.moment.body.versions
            new = dict(moment.body.versions.items() - before.items())
            self._numbered.add(moment.key.checkpoint_id, new)
        if moment.key.checkpoint_id == self._look:
            looked = self._checker.looked = Look(moment)
            if parent is not None:
                looked.parent, looked.writes = parent.moment, parent.writes
                looked.values = parent.decoded
        if self._reader.is_values_only:
            checks = self._of_its_own(moment, here, parent)
        elif moment.body.problem is not None:
            checks = [_unproven("", moment, _NO_BODY)]
        elif parent is None:
            checks = self._without_parent(moment, here)
        else:
            checks = self._with_parent(moment, here, parent)
        if (look := self._checker.looked) is not None and look.child is moment:
            for check in checks:
                value = here.values.get(check.channel, NOT_STORED)
                unproven = Looked(NOT_STORED, (WriteOrder(()),), value, check)
                look.channels.setdefault(check.channel, unproven)
        kept, self._checker.kept = self._checker.kept, []
        for check in checks:
            tally = self._checker.tally(check.channel)
            tally.add(check)
            check.version = moment.body.versions.get(check.channel, "?")
            if moment.checkpoint.blobs is not None and not check.mask & tally.leaders:
                self._suspects.append(check)
        return Transition(
            self._ns,
            parent_id,
            moment.key.checkpoint_id,
            moment.number,
            moment.source,
            checks,
            kept,
        )

    def _of_its_own(
        self, moment: Moment, here: KeptCheckpoint, parent: KeptCheckpoint | None
    ) -> list[Check]:
        """Check a checkpoint in a layout that stores its own writes with it.

        It may have a parent or not. A part of either state that is not stored is unknown, not
        empty.
        """
        is_first = moment.checkpoint.parent_checkpoint_id is None
        before = parent or KeptCheckpoint(moment, {}, here.writes)
        made = recorded_orders(here.writes)
        names = {*here.values, *written_channels(made)}
        after = here
        if moment.body.problem is not None:
            after = replace(here, values=dict.fromkeys(names, NOT_STORED))
        if before.moment.body.problem is not None or (parent is None and not is_first):
            before = replace(before, values=dict.fromkeys(names, NOT_STORED), carried={})
        if self._checker.looked is not None and self._checker.looked.child is moment:
            self._checker.looked.writes, self._checker.looked.values = here.writes, before.decoded
        self._checker.begin(after, before, made)
        return list(self._checker.check_all())

    def _without_parent(self, moment: Moment, here: KeptCheckpoint) -> list[Check]:
        copied = self._copied_from(moment)
        if copied is not None:
            return list(self._compared(moment, here, copied))
        is_first = moment.checkpoint.parent_checkpoint_id is None
        reason = _FIRST.get(moment.source or "", _NO_PARENT) if is_first else _NO_PARENT
        unproven = set(here.values)
        if is_first and moment.source == "input":
            # LangGraph.js stores the initial values of channels.
            unproven = {name for name, value in here.values.items() if not is_empty(value)}
        checks = {name: _unproven(name, moment, reason) for name in unproven}
        for name in moment.body.versions.keys() - here.values.keys():
            if self._checker.is_delta(name, moment):
                lacking = reason if self._reader.has_history else "its value is not stored"
                checks[name] = _unproven(name, moment, lacking)
        return [checks[name] for name in sorted(checks)]

    def _with_parent(
        self, moment: Moment, here: KeptCheckpoint, parent: KeptCheckpoint
    ) -> list[Check]:
        copied = None
        if moment.source == "fork" and moment.body.versions != parent.moment.body.versions:
            copied = self._copied_from(moment)
        if parent.moment.body.problem is not None:
            if copied is not None:
                return list(self._compared(moment, here, copied))
            return [_unproven(name, moment, "its parent cannot be read") for name in here.values]
        made = possible_orders(
            moment.source,
            parent.writes,
            parent.moment.step,
            parent.moment.body,
            moment.body,
            again=parent.sources[moment.source] > 1,
            skipped=_is_skipped(moment, parent.moment),
            takes_input=START in moment.body.values,
        )
        self._checker.begin(here, parent, made)
        if copied is not None:
            # It is compared with what it copies; its DeltaChannels go on from the parent.
            self._checker.carry()
            return list(self._compared(moment, here, copied))
        checks = list(self._checker.check_all())
        if parent.sources["update"] and not _has_own_updates(parent.moment):
            for check in checks:
                check.replaced = True
        return checks

    def _is_sibling_copy(self, moment: Moment) -> bool:
        """Return whether a fork has its versions from the sibling that it copied.

        A fork below what it copied gives new ones to the DeltaChannels that it stores whole.
        """
        copied = moment.metadata.get(FROM)
        if moment.source == "fork" and isinstance(copied, str):
            return copied != moment.checkpoint.parent_checkpoint_id
        return self._copied_from(moment) is not None

    def _copied_from(self, moment: Moment) -> Mapping[str, Value] | None:
        """Return the values of the checkpoint that a fork copied, if it is a stored sibling."""
        if moment.source != "fork":
            return None
        for versions, values in self._siblings.get(moment.checkpoint.parent_checkpoint_id, []):
            if versions == moment.body.versions:
                return values
        return None

    def _compared(
        self, moment: Moment, here: KeptCheckpoint, copied: Mapping[str, Value]
    ) -> Iterator[Check]:
        for name in sorted({*here.values, *copied}):
            if is_kept(copied.get(name, ABSENT), here.values.get(name, ABSENT)):
                self._checker.keep(name, bumps=False)
            else:
                yield Check(name, moment.key.checkpoint_id, 0, 0, 0)

    def _let_go(self, moment: Moment, here: KeptCheckpoint) -> None:
        """Drop a checkpoint when all of its children were seen."""
        parent = moment.checkpoint.parent_checkpoint_id
        if self._line.leave(parent):
            self._siblings.pop(parent, None)
        else:
            self._siblings.setdefault(parent, []).append((moment.body.versions, here.values))


def _unproven(channel: str, moment: Moment, reason: str) -> Check:
    return Check(channel, moment.key.checkpoint_id, 0, 0, 0, lacking=reason)


def _has_own_updates(parent: Moment) -> bool:
    """Return whether the writes of `update_state` have rows of their own there."""
    return any(one.task_path.startswith(UPDATE_PATH) for one in parent.writes)


def _is_skipped(child: Moment, parent: Moment) -> bool:
    """Return whether steps between the two are not stored."""
    return (
        child.source == "loop"
        and child.number is not None
        and parent.number is not None
        and child.number > parent.number + 1
    )


_MOST_CARRIED = 200
"""Number of checkpoints whose expected values are kept; with more, each look replays all."""


_Step = tuple[str, str]
"""Namespace and checkpoint id."""


class KeptReplay:
    """The reducers of one thread, known from its replay, for looks at its steps.

    A checkpoint does not change, so they stay known while the thread grows. Used by one worker.
    """

    def __init__(self) -> None:
        self._place: tuple[object, str] | None = None
        self._found: Replayed | None = None
        self._checks: Mapping[_Step, Mapping[str, Check]] = {}
        """By channel of a step."""
        self._carried: dict[_Step, dict[str, dict[int, Held]]] = {}
        """The expected values of channels without a stored one."""
        self._last: KeptCheckpoint | None = None

    def look_at(
        self, reader: ThreadReader, checkpoint_ns: str, child: str
    ) -> tuple[Replayed, Look]:
        """Return the replay of a thread, and all about the transition to `child`.

        Raises `NotFound` if there is no such checkpoint.
        """
        place = reader.store, reader.thread_id
        if (
            self._found is not None
            and self._place == place
            and (checkpoint_ns, child) in self._checks
        ):
            look = self._again(self._found, reader, checkpoint_ns, child)
            if look is not None:
                return self._found, look
        self._found, self._carried, self._last = None, {}, None
        found, look = look_at(reader, checkpoint_ns, child, self._watch)
        self._note_last()
        if len(self._carried) <= _MOST_CARRIED:
            self._place, self._found = place, found
            self._checks = {
                (one.checkpoint_ns, one.child): {check.channel: check for check in one.checks}
                for one in found.transitions
            }
        self._carried = self._carried if self._found is not None else {}
        return found, look

    def _watch(self, here: KeptCheckpoint, _: KeptCheckpoint | None) -> None:
        # What is carried is added to it after this.
        self._note_last()
        self._last = here

    def _note_last(self) -> None:
        """Keep what the last checkpoint carries in place of values that are not stored."""
        last, self._last = self._last, None
        if last is None:
            return
        carried = {
            name: kept for name, kept in last.carried.items() if kept and name not in last.values
        }
        if carried:
            key = last.moment.key
            self._carried[key.checkpoint_ns, key.checkpoint_id] = carried

    def _again(
        self, found: Replayed, reader: ThreadReader, checkpoint_ns: str, child: str
    ) -> Look | None:
        """Read only the step, its parent and its siblings; None if there is no such checkpoint."""
        graph = namespace_kind(checkpoint_ns)
        tallies = {
            place: tally.copy() for place, tally in found.tallies.items() if place[0] == graph
        }
        known = reader.parentage(checkpoint_ns)
        if child not in known:
            return None
        parent = known.named_parent(child)
        namespace = _Namespace(
            reader,
            checkpoint_ns,
            tallies,
            ids={child} if parent is None else {parent, *known.siblings(child)},
            look=child,
            carried=self._carried.get((checkpoint_ns, parent or ""), {}),
        )
        with remembering():
            list(namespace)
        look = namespace.looked
        if look is None:
            return None
        # Later steps have confirmed or denied what was carried over this one.
        checks = self._checks[checkpoint_ns, child]
        look.channels = {
            name: one._replace(check=checks.get(name, one.check))
            for name, one in look.channels.items()
        }
        return look


def check_channels(
    store: Store, thread_ids: Iterable[str], names: Collection[str], where: str
) -> None:
    """Raise `NotFound` for a channel that none of the threads has; `where` names them in the error.

    A name is a channel, or a channel of a subgraph as `NODE/CHANNEL`. Stops as soon as all names
    were found.
    """
    missing, known = set(names), set[str]()
    for thread_id in thread_ids if missing else ():
        for ns in store.namespaces(thread_id):
            found = _channels(store, thread_id, ns)
            known |= {label((namespace_kind(ns), channel)) for channel in found}
            missing -= found | known
        if not missing:
            return
    for name in sorted(missing):
        raise unknown_channel(name, known, where)


def _channels(store: Store, thread_id: str, ns: str) -> set[str]:
    """Return the state channels at the newest checkpoint of a namespace."""
    newest = islice(store.checkpoints(thread_id, checkpoint_ns=ns), 1)
    ids = [one.key.checkpoint_id for one in newest]
    stored = store.checkpoints(thread_id, checkpoint_ns=ns, checkpoint_ids=ids, body=True)
    bodies = map(read_body, stored)
    return {
        name for body in bodies for name in {*body.versions, *body.values} if is_state(name, body)
    }


def reducers_of(
    reader: ThreadReader,
    profile: Mapping[str, str],
    told: Mapping[str, str] | None,
    channels: Collection[str] = (),
) -> dict[str, str]:
    """Return the reducers of the profile and those that are told for a thread, which win.

    Raises `UsageError` for an unknown reducer, and `NotFound` if the thread has not all channels
    that are told or given.
    """
    reducers = known_reducers({**profile, **(told or {})})
    names = {*(told or ()), *channels}
    check_channels(reader.store, [reader.thread_id], names, f"thread '{reader.thread_id}'")
    return reducers


def replay_part(
    reader: ThreadReader,
    profile: Mapping[str, str],
    told: Mapping[str, str] | None,
    ns: str | None = None,
    upto: str | None = None,
) -> Replayed:
    """Replay and judge a thread, one namespace of it, or the steps up to one checkpoint there.

    The reducers are judged by all of the thread. Raises what `reducers_of` raises.
    """
    (found,) = judge_all([replay_thread(reader)], reducers_of(reader, profile, told))
    if ns is None:
        return found
    return found.part(ns, None if upto is None else set(reader.ancestry(ns, upto)))


def _replaying(store: Store) -> Each[Replayed]:
    from ckpt_cli.reading.workers import each  # late: most replays are of one thread

    inference = TriggerInference(store)

    def replay(thread_id: str) -> Replayed:
        try:
            return replay_thread(ThreadReader(store, thread_id, inference))
        except NotFound:  # deleted meanwhile, or an id that can only be listed
            return Replayed(thread_id)

    return each(replay)


def replay_threads(
    store: Store, executor: Executor, threads: Iterable[Thread]
) -> Iterator[Replayed]:
    """Yield each thread replayed, in the order given."""
    return executor.run(store, threads, _replaying)


# Find out how one checkpoint was made: the writes of each task to each channel, and their
# effects.


@dataclass(frozen=True, slots=True)
class Sizes:
    """Sizes in bytes, as compact JSON."""

    before: int
    written: int
    stored: int


@dataclass(frozen=True, slots=True)
class StoredSizes:
    """Numbers and stored bytes of a checkpoint's writes and values."""

    writes: int
    written: int
    values: int
    """Number of values that are stored with it, not shared with its parent."""
    kept: int
    """Bytes of these values."""


@dataclass(frozen=True, slots=True)
class StepChannel:
    """One channel that was written to, or that changed."""

    judgement: Judgement
    verdict: Verdict
    reason: str
    assumed: bool
    """The order or the selection of the writes is not stored."""
    before: Value
    """None if it had no value."""
    writes: tuple[Contribution, ...]
    rebuilt: Value
    """None if no reducer is known."""
    stored: Value
    sizes: Sizes
    differences: Differences | None = None
    """Where the stored value differs from the expected one, for a mismatch."""


@dataclass(frozen=True, slots=True)
class Written:
    """A checkpoint, what it was made from, and the writes that were not applied."""

    child: Moment
    parent: Moment | None
    channels: Mapping[str, StepChannel]
    others: tuple[Contribution, ...]
    """Writes that changed no channel: internal, dropped and ignored ones."""
    stored: StoredSizes | None = None
    """None if values are stored in the body."""


def written(
    target: Target,
    reducers: Mapping[str, str],
    channels: Collection[str] | None = None,
    kept: KeptReplay | None = None,
) -> Written:
    """Return how a checkpoint was made from its parent; `channels` limits the channels.

    With `kept`, its namespace is replayed only if the call before was about another one.
    """
    look_at = (KeptReplay() if kept is None else kept).look_at
    found, look = look_at(target.reader, target.checkpoint_ns, target.checkpoint_id)
    if look.writes is None or look.writes.is_empty:
        look.child.check_readable()
    (found,) = judge_all([found], reducers)
    graph = namespace_kind(target.checkpoint_ns)
    answer = Written(
        look.child,
        look.parent,
        {
            name: _channel(one, look, found.judgements[graph, name])
            for name, one in sorted(look.channels.items())
            if channels is None or name in channels
        },
        tuple(_others(look, channels)),
        _stored(look),
    )
    return _redacted(answer) if is_redacted(target.reader.store) else answer


def _stored(look: Look) -> StoredSizes | None:
    blobs = look.child.checkpoint.blobs
    if blobs is None or look.writes is None or look.child.body.problem is not None:
        return None
    before = {} if look.parent is None else look.parent.body.versions
    own = [
        blob.size
        for name, blob in blobs.items()
        if is_state(name, look.child.body)
        and look.child.body.versions.get(name) != before.get(name)
    ]
    sizes = [one.write.size for one in _all(look.writes)]
    return StoredSizes(len(sizes), sum(sizes), len(own), sum(own))


def _channel(one: Looked, look: Look, judgement: Judgement) -> StepChannel:
    verdict, reason = verdict_of(one.check, judgement)
    way = _fitting(one, look, judgement)
    batches = [[(placed, look.values[id(placed)]) for placed in batch] for batch in way.batches]
    rebuilt, writes = _contributions(one.base, batches, judgement)
    before, stored = plain(one.base), plain(one.stored)
    sizes = Sizes(
        0 if _is_nothing(one.base) else json_size(before),
        sum(json_size(write.value) for write in writes),
        0 if _is_nothing(one.stored) else json_size(stored),
    )
    return StepChannel(
        judgement,
        verdict,
        reason,
        bool(one.check.assumed & judgement.mask) and verdict is Verdict.MATCH,
        before,
        tuple(writes),
        plain(rebuilt),
        stored,
        sizes,
        differences_of(one.check, judgement),
    )


def _contributions(
    base: Held, batches: Sequence[Sequence[tuple[TaskWrite, Value]]], judgement: Judgement
) -> tuple[Held, list[Contribution]]:
    """Return the value that the writes make, and what each of them does.

    Without an established reducer, only what all possible ones agree on.
    """
    if judgement.reducer is not None:
        return contributions(base, batches, judgement.reducer)
    found = [contributions(base, batches, name) for name in judgement.survivors]
    for (value, writes), (other, others) in pairwise(found):
        told = [(one.effect, one.counts) for one in writes]
        if not held_fits(value, other) or told != [(one.effect, one.counts) for one in others]:
            return contributions(base, batches, None)
    return found[0] if found else contributions(base, batches, None)


def _is_nothing(value: Held) -> bool:
    return value is ABSENT or is_not_stored(value)


def _fitting(one: Looked, look: Look, judgement: Judgement) -> WriteOrder:
    """Return the first way by which the channel's reducer explains its value, or else the
    likeliest.
    """
    reducers = [one for one in CANDIDATES if one.name in judgement.survivors]
    for way in one.ways:
        values = [[look.values[id(placed)] for placed in batch] for batch in way.batches] or [[]]
        for reducer in reducers:
            if any(held_fits(result, one.stored) for result in reducer.results(one.base, values)):
                return way
    return one.ways[0]


def _others(look: Look, channels: Collection[str] | None) -> Sequence[Contribution]:
    if look.parent is None or look.writes is None:
        return []
    parent, is_told = look.parent, any(one.write.node for one in _all(look.writes))
    used = {
        id(placed)
        for one in look.channels.values()
        for batch in one.ways[0].batches
        for placed in batch
    }
    ours = {id(placed): placed for placed in _all(look.writes)}
    keys = {_key(placed) for placed in ours.values()}
    others: list[Contribution] = []
    for placed in [
        *(one for one in ours.values() if id(one) not in used),
        *(
            one
            for one in ([] if is_told else task_writes(parent.writes, parent.step))
            if _key(one) not in keys
        ),
    ]:
        name = placed.write.channel
        if channels is None or name in channels:
            effect: Effect = "dropped"
            if not is_state(name, look.child.body):
                effect = "special"
            elif look.child.body.problem is not None:
                effect = "unknown"
            elif name not in look.child.body.versions and look.child.source == "loop":
                effect = "ignored"
            others.append(Contribution(placed, placed.value, effect))
    return others


def _all(writes: SortedWrites) -> Sequence[TaskWrite]:
    return list(chain(writes.null, writes.tasks, writes.updates, writes.inputs))


def _key(placed: TaskWrite) -> tuple[str, int, str]:
    return placed.write.task_id, placed.write.idx, placed.write.channel


def _redacted(found: Written) -> Written:
    def hidden(one: Contribution) -> Contribution:
        return replace(one, placed=one.placed.redacted(), value=redact(one.value))

    return Written(
        found.child.redacted(),
        None if found.parent is None else found.parent.redacted(),
        {
            name: replace(
                one,
                before=redact(one.before),
                writes=tuple(map(hidden, one.writes)),
                rebuilt=redact(one.rebuilt),
                stored=redact(one.stored),
            )
            for name, one in found.channels.items()
        },
        tuple(map(hidden, found.others)),
        found.stored,
    )
