"""Check the channels of one transition of a replay against what is stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from ckpt_backends.codec.values import Value
from ckpt_backends.model import TypedBytes
from ckpt_cli.core.channels import is_delta, is_state
from ckpt_cli.core.namespace_kinds import namespace_kind
from ckpt_cli.core.replay.elimination import (
    Check,
    Explained,
    ReducerTally,
    bits_at,
    explain,
    is_unreadable,
)
from ckpt_cli.core.replay.reducers import ABSENT, NOT_STORED, Held, is_empty
from ckpt_cli.core.replay.transition import (
    PossibleOrders,
    SortedWrites,
    WriteOrder,
    orders_of_channel,
    writes_in_metadata,
    written_channels,
)
from ckpt_cli.core.tasks.writes import TaskWrite
from ckpt_cli.core.values.equality import same
from ckpt_cli.threads import redaction
from ckpt_cli.threads.checkpoint import Moment
from ckpt_cli.threads.states import rules_of
from ckpt_cli.threads.thread import ThreadReader

if TYPE_CHECKING:
    from ckpt_cli.core.replay.differences import Differences

NO_DELTA = "a DeltaChannel stores no value between snapshots"
_GONE = "the value before it is not stored"


@dataclass(slots=True)
class KeptCheckpoint:
    """A checkpoint with children that are still to come."""

    moment: Moment
    values: Mapping[str, Value]
    writes: SortedWrites
    carried: dict[str, dict[int, Held]] = field(default_factory=dict)
    """By channel and reducer: the expected value, if it differs from the stored one."""
    open: dict[str, list[Check]] = field(default_factory=dict)
    """The checks that did not explain the value stored here, by channel."""
    sources: Counter[str | None] = field(default_factory=Counter)
    """The sources of its children, if there are several children."""
    decoded: dict[int, Value] = field(default_factory=dict)

    def value(self, write: TaskWrite) -> Value:
        """Return the value of a write; each write is decoded once."""
        if id(write) not in self.decoded:
            self.decoded[id(write)] = write.value
        return self.decoded[id(write)]


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
    """Values of writes, by the id of their `Placed`."""
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

    def check_all(
        self, moment: Moment, here: KeptCheckpoint, parent: KeptCheckpoint, made: PossibleOrders
    ) -> Iterator[Check]:
        """Yield a check of each state channel that changed or should have."""
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
            if name not in changed and not carried and _is_kept(base, stored):
                if self._lacks_write(name, moment, parent, made):
                    yield Check(name, moment.key.checkpoint_id, 0, 0, 0, missing=1)
                else:
                    self.tally(name).keep(bumps=made.bumps)
                continue
            check = self._check(name, moment, here, parent, made)
            if check is not None:
                if check.wrote and _is_complete_step(moment, made):
                    check.missing = max(0, named[name] - check.wrote)
                yield check
        for name in sorted(moment.body.values.keys() - changed - here.values.keys()):
            if self._is_unwritten(name, moment, parent, made):
                yield Check(name, moment.key.checkpoint_id, 0, 0, 0, missing=1)

    def _lacks_write(
        self, name: str, moment: Moment, parent: KeptCheckpoint, made: PossibleOrders
    ) -> bool:
        """Return whether a channel has a new version although no write to it is stored."""
        return (
            not _same_version(name, moment, parent.moment)
            and name in parent.moment.body.versions
            and _is_complete_step(moment, made)
            # A snapshot also gets a new version. Last, because it reads all metadata.
            and not self.is_delta(name, moment)
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
        possible = tuple(orders_of_channel(made, name))
        ways = [
            ([[parent.value(one) for one in batch] for batch in way.batches], way.assumed)
            for way in possible
        ]
        wrote = max(sum(map(len, batches)) for batches, _ in ways)
        stored: Held = here.values.get(name, ABSENT)
        is_delta = stored is ABSENT and self.is_delta(name, moment)
        base, carried = parent.values.get(name, ABSENT), parent.carried.get(name, {})
        is_lost = stored is ABSENT and not is_delta and _is_apart(name, moment)
        is_nothing = base is ABSENT and stored is ABSENT and not wrote and not is_delta
        if is_nothing and not (carried and is_lost):
            return None
        if is_lost and carried and not wrote and _same_version(name, moment, parent.moment):
            here.carried[name], here.open[name] = carried, parent.open.get(name, [])
            return None  # this missing value was reported before
        is_none = stored is ABSENT and _takes_none_for_nothing(moment)
        if is_none and list(_values(ways[:1]))[-1:] == [None]:
            stored, is_lost = None, False
        if base is ABSENT and carried and self.is_delta(name, parent.moment):
            # For a DeltaChannel between two snapshots, only the results of the reducers are known.
            base = NOT_STORED
        steps = list(_with_steps(ways, bumps=made.bumps))
        found = explain(base, carried, steps, stored, self._clears(name, moment, stored))
        is_gone = not is_delta and base is ABSENT and _is_apart(name, parent.moment)
        lacking = NO_DELTA if is_delta else made.lacking
        if not is_delta:
            if self._reader.is_values_only and not wrote:
                lacking = lacking or "none of the writes to it are stored"
            lacking = _unread(base, stored, carried, _values(ways), is_gone=is_gone) or lacking
        check = Check(name, moment.key.checkpoint_id, found.mask, found.applicable, wrote)
        check.assumed, check.lacking, check.lost = found.assumed, lacking, is_lost
        if not lacking and (differing := self._differing(name, found, stored)) is not None:
            sources = (base, *carried.values(), *_values(ways), *found.rebuilt.values())
            check.differing, check.foreign = differing, _is_foreign(stored, sources)
        is_unset = stored is ABSENT and name in moment.body.versions and not is_delta
        if is_unset or is_unreadable(stored):
            self._note_lost(moment, parent, possible, made, check)
        look = self.looked
        if look is not None and look.child is moment and (wrote or not _is_kept(base, stored)):
            is_known = base is not NOT_STORED and not is_gone
            known = base if is_known else self._likeliest(name, carried)
            look.channels[name] = Looked(known, possible, stored, check)
        # Without the value before it, what the reducers made of that can still be wrong.
        is_proof = wrote and not is_lost and not made.lacking and lacking in ("", _GONE)
        for earlier in parent.open.get(name, ()):
            earlier.confirmed |= found.by_rebuilt
            earlier.denied |= bits_at(carried) & ~found.mask if is_proof else 0
        if is_delta or not lacking or is_unreadable(stored):
            self._carry(here, parent, found, check, is_delta=is_delta)
        return None if is_delta else check

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
        if here.carried[name] and not is_delta:
            here.open[name] = [*parent.open.get(name, ()), check]

    def _differing(
        self, name: str, found: Explained, stored: Held
    ) -> dict[int, Differences] | None:
        """Return where a value differs from the results of the likeliest reducers."""
        leaders = self.tally(name).leaders
        if found.mask & leaders:
            return None
        # Late: most values do not differ.
        from ckpt_cli.core.replay.differences import differences, without_values

        differing = {}
        for n, value in found.rebuilt.items():
            if leaders & 1 << n and (one := differences(value, stored)) is not None:
                hidden = redaction.is_redacted(self._reader.store)
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
    base: Held,
    stored: Held,
    carried: Mapping[int, Held],
    wrote: Iterable[Value],
    *,
    is_gone: bool,
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
    from ckpt_cli.core.replay.foreign_text import has_foreign_text  # late: few values differ

    return has_foreign_text(stored, (one for one in sources if one is not ABSENT))


def _values(ways: Iterable[tuple[list[list[Value]], bool]]) -> Iterator[Value]:
    """Yield the values that were written."""
    return (value for batches, _ in ways for batch in batches for value in batch)


def _is_kept(base: Held, stored: Held) -> bool:
    if base is ABSENT or stored is ABSENT or is_unreadable(base):
        return False
    return same(base, stored)


def _is_complete_step(moment: Moment, made: PossibleOrders) -> bool:
    """Return whether everything that made a checkpoint should be stored: a normal step with all
    writes.
    """
    return moment.source == "loop" and made.bumps and not made.lacking


def _is_apart(name: str, moment: Moment) -> bool:
    """Return whether a channel has a version and the layout stores values apart."""
    return moment.checkpoint.blobs is not None and name in moment.body.versions


def _takes_none_for_nothing(moment: Moment) -> bool:
    """Return whether a written None counts as no value, as until LangGraph 0.3 (`state_values`)."""
    return moment.body.v in {1, 2} and not moment.body.is_javascript


def _with_steps(
    ways: Iterable[tuple[list[list[Value]], bool]], *, bumps: bool
) -> Iterator[tuple[list[list[Value]], bool]]:
    """Yield the ways; one without writes becomes an empty step, which ends short-lived values."""
    for batches, is_assumed in ways:
        yield batches or [[]], is_assumed
        if not bumps and not batches:
            yield [], is_assumed
