"""Check the channels of one transition of a replay against what is stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple

from ckpt_backends.codec.values import Value
from ckpt_backends.model import TypedBytes
from ckpt_cli.core.elimination import (
    ALL,
    CANDIDATES,
    RULED_OUT,
    Batches,
    Check,
    Explained,
    PossibleOrders,
    ReducerTally,
    SortedWrites,
    WriteOrder,
    bits_at,
    explain,
    is_unreadable,
    orders_of_channel,
    writes_in_metadata,
    written_channels,
)
from ckpt_cli.core.lineage import namespace_kind
from ckpt_cli.core.reducers import ABSENT, NOT_STORED, Held, is_empty
from ckpt_cli.core.reducers import held_fits as fits
from ckpt_cli.core.replay import (
    as_loaded,
    has_foreign_text,
    is_beyond,
    is_changeable,
    is_cut,
    is_edited,
    is_shortened,
    is_tidied,
    loaded_value,
    out_of_place,
    texts_of,
)
from ckpt_cli.core.state import is_delta, is_state
from ckpt_cli.core.values import same
from ckpt_cli.reading.store import is_redacted, rules_of
from ckpt_cli.reading.thread import Moment, ThreadReader

if TYPE_CHECKING:
    from ckpt_cli.core.elimination import Differences

NO_DELTA = "a DeltaChannel stores no value between snapshots"
_MOST_ODD = 15
"""Maximum number of earlier values of a channel that later writes are compared with."""
_NO_WRITES = "none of the writes to it are stored"
_GONE = "the value before it is not stored"


@dataclass(slots=True)
class KeptCheckpoint:
    """A checkpoint with children that are still to come."""

    moment: Moment
    values: Mapping[str, Value]
    writes: SortedWrites
    carried: dict[str, dict[int, Held]] = field(default_factory=dict)
    """By channel and reducer: the expected value, if it differs from the stored one."""
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

    def check_all(
        self, moment: Moment, here: KeptCheckpoint, parent: KeptCheckpoint, made: PossibleOrders
    ) -> Iterator[Check]:
        """Yield a check of each state channel that changed or should have."""
        parent = _as_read_by(moment, parent)
        here.odd = dict(parent.odd)
        names = {*here.values, *parent.values, *parent.carried}
        changed = written_channels(made)
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
                if self._lacks_write(name, moment, parent, made) and not self.is_delta(
                    name, moment
                ):
                    yield Check(name, moment.key.checkpoint_id, 0, 0, 0, missing=1)
                    continue
                if not carried:
                    self.keep(name, bumps=made.bumps)
                    continue
            check = self._check(name, moment, here, parent, made)
            if check is not None:
                if check.wrote and _is_complete_step(moment, made):
                    check.missing = max(0, named[name] - check.wrote)
                yield check
        for name in sorted(moment.body.values.keys() - changed - here.values.keys()):
            if self._is_unwritten(name, moment, parent, made):
                yield Check(name, moment.key.checkpoint_id, 0, 0, 0, missing=1)

    def carry(
        self, moment: Moment, here: KeptCheckpoint, parent: KeptCheckpoint, made: PossibleOrders
    ) -> None:
        """Keep what the DeltaChannels of a checkpoint are that it does not store, unchecked."""
        for name in {*parent.values, *parent.carried} - here.values.keys():
            if self.is_delta(name, moment):
                self._check(name, moment, here, parent, made)

    def _lacks_write(
        self, name: str, moment: Moment, parent: KeptCheckpoint, made: PossibleOrders
    ) -> bool:
        """Return whether a channel has a new version although no write to it is stored."""
        return (
            not _same_version(name, moment, parent.moment)
            and name in parent.moment.body.versions
            and _is_complete_step(moment, made)
        )

    def _is_unwritten(
        self, name: str, moment: Moment, parent: KeptCheckpoint, made: PossibleOrders
    ) -> bool:
        """Return whether an edge or a None is stored without a write, in formats 1 and 2.

        In later formats, edges to deferred nodes are consumed without a write.
        """
        body = moment.body
        if body.names_edges or body.v > 2 or name.startswith("__"):
            return False
        return (
            _is_complete_step(moment, made)
            and (is_state(name, body) or not is_empty(body.values[name]))
            and not _same_version(name, moment, parent.moment)
        )

    def _check(
        self,
        name: str,
        moment: Moment,
        here: KeptCheckpoint,
        parent: KeptCheckpoint,
        made: PossibleOrders,
    ) -> Check | None:
        """Check one channel; None if nothing is stored that could be compared."""
        stored: Held = here.values.get(name, ABSENT)
        is_delta = stored is ABSENT and self.is_delta(name, moment)
        possible = tuple(orders_of_channel(made, name, between=is_delta))
        ways = [(parent.values_of(way.batches), way.assumed) for way in possible]
        wrote = max(sum(map(len, batches)) for batches, _ in ways)
        base, carried = parent.values.get(name, ABSENT), parent.carried.get(name, {})
        is_lost = stored is ABSENT and not is_delta and _is_apart(name, moment)
        if not wrote and not is_delta and self._is_settled(name, moment, here, parent, made):
            return None
        if stored is ABSENT and _takes_none_for_nothing(moment, ways):
            stored, is_lost = None, False
        if base is ABSENT and carried and self.is_delta(name, parent.moment):
            base = NOT_STORED  # between snapshots, only the results of the reducers are known
        elif is_delta and base is not ABSENT:
            carried = {}  # the snapshot at the parent is the value to go on from
        found = self._explained(name, base, carried, ways, stored, moment, bumps=made.bumps)
        is_gone = not is_delta and base is ABSENT and _is_apart(name, parent.moment)
        lacking = NO_DELTA
        if not is_delta:
            none = _NO_WRITES if self._reader.is_values_only and not wrote else ""
            unread = _unread(base, stored, carried, _values(ways), is_gone=is_gone)
            lacking = unread or made.lacking or none
        mask = 0 if is_delta else found.mask & ~(found.by_rebuilt if is_lost else 0)
        check = Check(name, moment.key.checkpoint_id, mask, found.applicable, wrote)
        check.assumed, check.lacking, check.lost = found.assumed, lacking, is_lost
        if base is NOT_STORED:
            check.folded = parent.folded.get(name, 0)
            check.applicable |= RULED_OUT if ALL & ~self.tally(name).leaders else 0
        # What the reducers made before can be wrong even if the value before is not stored.
        is_proof = wrote and not is_lost and not made.lacking and lacking in ("", _GONE)
        step = _Values(base, list(_values(ways[:1])), stored)
        self._tell_earlier(name, here, parent, found, step, is_proof=bool(is_proof))
        if not lacking and self.tally(name).leaders & ~found.mask:
            check.in_place = not check.is_made and _same_version(name, moment, parent.moment)
            self._note_deviation(check, here, found, step, carried)
        is_unset = stored is ABSENT and name in moment.body.versions and not is_delta
        if is_unset or is_unreadable(stored):
            self._note_lost(moment, parent, possible, made, check)
        is_unchanged = not wrote and (is_delta or is_kept(base, stored))
        if (look := self.looked) and look.child is moment and (is_delta or not is_unchanged):
            known = self._likeliest(name, carried) if base is NOT_STORED or is_gone else base
            look.channels[name] = Looked(known, possible, stored, check)
        if is_delta or not lacking or is_unreadable(stored):
            self._carry(here, parent, found, check, is_delta=is_delta)
        if not is_unchanged:
            return check
        if is_delta:
            check.missing = int(self._lacks_write(name, moment, parent, made))
            return check if check.missing else None
        self.keep(name, bumps=made.bumps)
        return None

    def _is_settled(
        self,
        name: str,
        moment: Moment,
        here: KeptCheckpoint,
        parent: KeptCheckpoint,
        made: PossibleOrders,
    ) -> bool:
        """Return whether a channel without writes needs no check.

        It has no value, or it still has one that was checked before: the same row, or none.
        """
        carried, base = parent.carried.get(name, {}), parent.values.get(name, ABSENT)
        stored, is_apart = here.values.get(name, ABSENT), _is_apart(name, moment)
        if base is ABSENT and stored is ABSENT and not (carried and is_apart):
            return True
        if not (carried and is_apart and _same_version(name, moment, parent.moment)):
            return False
        is_same = is_kept(base, stored)
        if stored is not ABSENT and not is_same:
            return False
        here.carried[name], here.open[name] = carried, parent.open.get(name, [])
        if is_same:
            self.keep(name, bumps=made.bumps)
        return True

    def _explained(
        self,
        name: str,
        base: Held,
        carried: Mapping[int, Held],
        ways: list[tuple[list[list[Value]], bool]],
        stored: Held,
        moment: Moment,
        *,
        bumps: bool,
    ) -> Explained:
        """Try all reducers; on messages in one form if the stored form is not explained."""
        clears = self._clears(name, moment, stored)
        found = explain(base, carried, list(_with_steps(ways, bumps=bumps)), stored, clears)
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
        again = explain(as_loaded(base), own, steps, loaded, clears)
        return again if again.mask & self.tally(name).leaders else found

    def _note_deviation(
        self,
        check: Check,
        here: KeptCheckpoint,
        found: Explained,
        step: _Values,
        carried: Mapping[int, Held],
    ) -> None:
        """Note what may have made a value that its writes do not explain.

        One of the likeliest reducers may explain it and be refuted later, such as a Topic that
        empties a list.
        """
        name, values = check.channel, here.moment.body.values
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
            here.odd[name] = (*here.odd.get(name, ())[-_MOST_ODD:], Odd(check, stored, texts))
        # The one of formats 1 and 2 may be None, which counts as no value.
        check.gone = stored is ABSENT and base is not ABSENT and name not in values
        check.in_place &= is_changeable(base) or is_changeable(stored)
        check.shortened = is_shortened(base, stored)

    def _tell_earlier(
        self,
        name: str,
        here: KeptCheckpoint,
        parent: KeptCheckpoint,
        found: Explained,
        step: _Values,
        *,
        is_proof: bool,
    ) -> None:
        """Note what a step tells of those before it that did not follow from their writes."""
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
                fits(value, one.stored) for value in found.own.values()
            )
        here.odd[name] = tuple(one for one in odd if not one.check.later)

    def _clears(self, name: str, moment: Moment, stored: Held) -> bool | None:
        """Return whether `REMOVE_ALL_MESSAGES` empties a DeltaChannel; None for other channels."""
        is_unset = stored is ABSENT and self.is_delta(name, moment)
        if not (is_unset or is_delta(moment.body.values.get(name))):
            return None
        return rules_of(self._reader.store, moment.body).clears

    def _likeliest(self, name: str, carried: Mapping[int, Held]) -> Held:
        """Return the value of a channel by its likeliest reducer."""
        leaders = self.tally(name).leaders
        return next((value for place, value in carried.items() if leaders & 1 << place), NOT_STORED)

    def _carry(
        self,
        here: KeptCheckpoint,
        parent: KeptCheckpoint,
        found: Explained,
        check: Check,
        *,
        is_delta: bool,
    ) -> None:
        """Keep what the likeliest reducers make of a channel, for the steps that follow."""
        name = check.channel
        leaders = self.tally(name).leaders
        here.carried[name] = {
            place: value for place, value in found.rebuilt.items() if leaders & 1 << place
        }
        if is_delta:
            here.folded[name] = parent.folded.get(name, 0) + check.wrote
        if here.carried[name] and not is_delta:
            here.open[name] = [*parent.open.get(name, ()), check]

    def _differing(self, name: str, found: Explained, stored: Held) -> dict[int, Differences]:
        """Return where a value differs from the results of the likeliest reducers."""
        # Late: most values do not differ.
        from ckpt_cli.core.elimination import differences, without_values

        leaders = self.tally(name).leaders
        differing = {}
        for n, value in found.rebuilt.items():
            if leaders & 1 << n and (one := differences(value, stored)) is not None:
                hidden = is_redacted(self._reader.store)
                differing[n] = without_values(one) if hidden else one
        return differing

    def _note_lost(
        self,
        moment: Moment,
        parent: KeptCheckpoint,
        ways: tuple[WriteOrder, ...],
        made: PossibleOrders,
        check: Check,
    ) -> None:
        name = check.channel
        if self._lost is None:
            return
        if moment.checkpoint.blobs is not None:
            if _same_version(name, moment, parent.moment):
                return  # it was noted before
        elif check.mask & self.tally(name).leaders:
            return  # inside a body, a channel without a value may be right
        blob = (moment.checkpoint.blobs or {}).get(name)
        value = None if blob is None else blob.value
        self._lost.append(Lost(moment, parent.moment, ways, made.lacking, check, value))

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


def _same_version(name: str, one: Moment, other: Moment) -> bool:
    return one.body.versions.get(name) == other.body.versions.get(name)


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
        found.mask & ~found.by_rebuilt & 1 << place and not fits(value, stored)
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
    return loaded is not base and fits(loaded, as_loaded(stored))


def _is_complete_step(moment: Moment, made: PossibleOrders) -> bool:
    """Return whether everything that made a checkpoint should be stored: a normal step with all
    writes.
    """
    return moment.source == "loop" and made.bumps and not made.lacking


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
