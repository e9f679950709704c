"""Replay a thread: rebuild each checkpoint from its parent and the writes stored there."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import islice

from ckpt_backends.codec.memo import remembering
from ckpt_backends.codec.values import Value
from ckpt_backends.errors import NotFound
from ckpt_backends.model import TypedBytes
from ckpt_cli.core.channels import is_state, state_values
from ckpt_cli.core.replay.contribution import NOT_STORED
from ckpt_cli.core.replay.differences import Differences, differences, without_values
from ckpt_cli.core.replay.elimination import (
    Check,
    Explained,
    ReducerTally,
    bits_at,
    explain,
    is_unreadable,
)
from ckpt_cli.core.replay.reducers import ABSENT, Held, is_empty
from ckpt_cli.core.replay.report import Replayed, Transition
from ckpt_cli.core.replay.transition import (
    PossibleOrders,
    SortedWrites,
    WriteOrder,
    orders_of_channel,
    possible_orders,
    recorded_orders,
    sort_writes,
    writes_in_metadata,
    written_channels,
)
from ckpt_cli.core.size_sums import namespace_kind
from ckpt_cli.core.state import Version, read_metadata, source_from
from ckpt_cli.core.tasks.triggers import START
from ckpt_cli.core.tasks.writes import TaskWrite, task_writes
from ckpt_cli.core.values.equality import same
from ckpt_cli.threads import redaction
from ckpt_cli.threads.thread import Moment, ThreadReader

_AT_ONCE = 200
_BYTES = 8 << 20
"""Maximum number of checkpoints, and approximate number of bytes, that one query fetches."""
_NO_PARENT = "its parent is not stored"
NO_DELTA = "a DeltaChannel stores no value between snapshots"
_NO_BODY = "the checkpoint cannot be read"
_FIRST = {
    "input": "an input's writes to other channels are not stored",
    "update": "the writes of update_state are not stored",
}
"""Why the values of a first checkpoint cannot be verified, by source."""


@dataclass(slots=True)
class _Kept:
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


@dataclass(frozen=True, slots=True)
class Looked:
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
    """Values of writes, by the id of their `TaskWrite`."""
    channels: dict[str, Looked] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Lost:
    """A value that the layout stores apart and that is missing or unreadable."""

    child: Moment
    """The first checkpoint that refers to its version."""
    parent: Moment
    ways: tuple[WriteOrder, ...]
    """How its writes may have been applied, the likeliest first."""
    made_lacks: str
    """Why the writes do not determine the value; empty if they do."""
    check: Check
    blob: TypedBytes | None
    """The stored bytes that cannot be read; None if nothing is stored."""


def replay_with_lost(reader: ThreadReader) -> tuple[Replayed, list[Lost]]:
    """Replay a thread; also return the values that are missing in it, oldest first."""
    found = Replayed(reader.thread_id)
    lost: list[Lost] = []
    with remembering():
        for ns in reader.namespaces:
            namespace = _Namespace(reader, ns, found.tallies, None, lost=lost)
            found.transitions.extend(namespace)
    return found, lost


def look_at(reader: ThreadReader, checkpoint_ns: str, child: str) -> tuple[Replayed, Look]:
    """Replay a namespace; also return all about the transition to `child`.

    Raises `NotFound` if there is no such checkpoint.
    """
    found = Replayed(reader.thread_id)
    namespace = _Namespace(reader, checkpoint_ns, found.tallies, None, child)
    with remembering():
        found.transitions.extend(namespace)
    if namespace.looked is None:
        raise NotFound(f"no checkpoint '{child}' in thread '{reader.thread_id}'")
    return found, namespace.looked


def replay_thread(
    reader: ThreadReader, checkpoint_ns: str | None = None, upto: str | None = None
) -> Replayed:
    """Replay all transitions of a thread, of one namespace, or up to one checkpoint of it."""
    found = Replayed(reader.thread_id)
    namespaces = reader.namespaces if checkpoint_ns is None else [checkpoint_ns]
    with remembering():
        for ns in namespaces:
            ids = None if upto is None else set(reader.ancestry(ns, upto))
            found.transitions.extend(_Namespace(reader, ns, found.tallies, ids))
    return found


class _Namespace:
    """The transitions of a namespace, oldest first; each checkpoint is read once."""

    def __init__(
        self,
        reader: ThreadReader,
        checkpoint_ns: str,
        tallies: dict[tuple[str, str], ReducerTally],
        ids: Collection[str] | None,
        look: str | None = None,
        lost: list[Lost] | None = None,
    ) -> None:
        chosen = [
            one
            for one in reader.index(checkpoint_ns)
            if ids is None or one.key.checkpoint_id in ids
        ]
        self._reader = reader
        self._ns = checkpoint_ns
        self._graph = namespace_kind(checkpoint_ns)
        self._tallies = tallies
        self._look = look
        self._lost = lost
        self._is_bare = reader.is_bare
        self.looked: Look | None = None
        """The requested transition, after it was reached."""
        self._order = [one.key.checkpoint_id for one in reversed(chosen)]
        self._children = Counter(one.parent_checkpoint_id for one in chosen)
        self._kept: dict[str, _Kept] = {}
        self._siblings: dict[
            str | None, list[tuple[Mapping[str, Version], Mapping[str, Value]]]
        ] = {}

    def __iter__(self) -> Iterator[Transition]:
        for moment in self._moments():
            placed = task_writes(moment.writes, moment.step)
            writes = sort_writes(moment.key.checkpoint_id, placed, moment.step, moment.body)
            here = _Kept(moment, state_values(moment.body), writes)
            # Before it is kept itself: a subgraph of LangGraph 0.2 may be its own parent.
            yield self._transition(moment, here)
            self._keep(here)
            self._let_go(moment, here)

    def _moments(self) -> Iterator[Moment]:
        """Yield checkpoints with state and writes, oldest first, read a few megabytes at a time."""
        ids, largest = iter(self._order), _BYTES
        while chunk := list(islice(ids, max(1, min(_AT_ONCE, _BYTES // (largest + 1))))):
            found = list(self._reader.moments(self._ns, chunk, values=True, state=True))
            largest = max(map(_size, found), default=0)
            yield from reversed(found)

    def _keep(self, here: _Kept) -> None:
        key = here.moment.key
        if self._children[key.checkpoint_id]:
            self._kept[key.checkpoint_id] = here
        if self._children[key.checkpoint_id] > 1:
            here.sources = self._sources(self._reader.children(key))

    def _sources(self, ids: Collection[str]) -> Counter[str | None]:
        found = self._reader.store.checkpoints(
            self._reader.thread_id, checkpoint_ns=self._ns, checkpoint_ids=ids, metadata=True
        )
        return Counter(source_from(read_metadata(one)) for one in found)

    def _transition(self, moment: Moment, here: _Kept) -> Transition:
        parent_id = moment.checkpoint.parent_checkpoint_id
        # A parent that is only assumed proves nothing.
        is_told = parent_id is not None and not moment.checkpoint.begins_run
        parent = self._kept.get(parent_id or "") if is_told else None
        if moment.key.checkpoint_id == self._look:
            self.looked = Look(moment)
            if parent is not None:
                self.looked.parent, self.looked.writes = parent.moment, parent.writes
                self.looked.values = parent.decoded
        if self._is_bare:
            checks = self._of_its_own(moment, here, parent)
        elif moment.body.problem is not None:
            checks = [_unproven("", moment, _NO_BODY)]
        elif parent is None:
            checks = self._without_parent(moment, here)
        else:
            checks = self._with_parent(moment, here, parent)
        for check in checks:
            self._tally(check.channel).add(check)
        return Transition(
            self._ns,
            parent_id,
            moment.key.checkpoint_id,
            moment.number,
            moment.source,
            checks,
        )

    def _of_its_own(self, moment: Moment, here: _Kept, parent: _Kept | None) -> list[Check]:
        """Check a checkpoint in a layout that stores its own writes with it.

        It may have a parent or not. A part of either state that is not stored is unknown, not
        empty.
        """
        is_first = moment.checkpoint.parent_checkpoint_id is None
        before = parent or _Kept(moment, {}, here.writes)
        made = recorded_orders(here.writes)
        names = {*here.values, *written_channels(made)}
        after = here
        if moment.body.problem is not None:
            after = replace(here, values=dict.fromkeys(names, NOT_STORED))
        if before.moment.body.problem is not None or (parent is None and not is_first):
            before = replace(before, values=dict.fromkeys(names, NOT_STORED), carried={})
        if self.looked is not None and self.looked.child is moment:
            self.looked.writes, self.looked.values = here.writes, before.decoded
        return list(self._checks(moment, after, before, made))

    def _without_parent(self, moment: Moment, here: _Kept) -> list[Check]:
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
        if not self._reader.has_history:
            lost = {name for name in moment.body.versions if self._is_delta(name, moment)}
            for name in lost - here.values.keys():
                checks[name] = _unproven(name, moment, "its value is not stored")
        return [checks[name] for name in sorted(checks)]

    def _with_parent(self, moment: Moment, here: _Kept, parent: _Kept) -> list[Check]:
        if moment.source == "fork" and moment.body.versions != parent.moment.body.versions:
            copied = self._copied_from(moment)
            if copied is not None:
                return list(self._compared(moment, here, copied))
        if parent.moment.body.problem is not None:
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
        return list(self._checks(moment, here, parent, made))

    def _checks(
        self, moment: Moment, here: _Kept, parent: _Kept, made: PossibleOrders
    ) -> Iterator[Check]:
        names = {*here.values, *parent.values, *parent.carried}
        changed = written_channels(made)
        named = writes_in_metadata(moment.metadata)
        for name in sorted(names | changed):
            if not (is_state(name, moment.body) and is_state(name, parent.moment.body)):
                continue
            base: Held = parent.values.get(name, ABSENT)
            stored: Held = here.values.get(name, ABSENT)
            carried = parent.carried.get(name, {})
            if name not in changed and not carried and _is_kept(base, stored):
                if self._lacks_write(name, moment, parent, made):
                    yield Check(name, moment.key.checkpoint_id, 0, 0, 0, missing=1)
                else:
                    self._tally(name).keep(bumps=made.bumps)
                continue
            check = self._check(name, moment, here, parent, made)
            if check is not None:
                if check.wrote and _is_complete_step(moment, made):
                    check.missing = max(0, named[name] - check.wrote)
                yield check
        for name in sorted(moment.body.values.keys() - changed - here.values.keys()):
            if self._is_unwritten(name, moment, parent, made):
                yield Check(name, moment.key.checkpoint_id, 0, 0, 0, missing=1)

    def _lacks_write(self, name: str, moment: Moment, parent: _Kept, made: PossibleOrders) -> bool:
        """Return whether a channel has a new version although no write to it is stored."""
        return (
            _is_complete_step(moment, made)
            and not self._is_delta(name, moment)  # a snapshot also gets a new version
            and name in parent.moment.body.versions
            and not _same_version(name, moment, parent.moment)
        )

    def _is_unwritten(self, name: str, moment: Moment, parent: _Kept, made: PossibleOrders) -> bool:
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
        self, name: str, moment: Moment, here: _Kept, parent: _Kept, made: PossibleOrders
    ) -> Check | None:
        """Check one channel; None if nothing is stored that could be compared."""
        possible = tuple(orders_of_channel(made, name))
        ways = [
            ([[parent.value(one) for one in batch] for batch in way.batches], way.assumed)
            for way in possible
        ]
        wrote = max(sum(map(len, batches)) for batches, _ in ways)
        stored: Held = here.values.get(name, ABSENT)
        is_delta = stored is ABSENT and self._is_delta(name, moment)
        base: Held = parent.values.get(name, ABSENT)
        carried = parent.carried.get(name, {})
        is_lost = stored is ABSENT and not is_delta and _is_apart(name, moment)
        if (
            base is ABSENT
            and stored is ABSENT
            and not wrote
            and not is_delta
            and not (carried and is_lost)
        ):
            return None
        if is_lost and carried and not wrote and _same_version(name, moment, parent.moment):
            here.carried[name], here.open[name] = carried, parent.open.get(name, [])
            return None  # this missing value was reported before
        if stored is ABSENT and _takes_none_for_nothing(moment):
            last = [value for batch in ways[0][0] for value in batch][-1:]
            if last == [None]:
                stored, is_lost = None, False
        if base is ABSENT and carried and self._is_delta(name, parent.moment):
            # For a DeltaChannel between two snapshots, only the results of the reducers are known.
            base = NOT_STORED
        found = explain(base, carried, list(_with_steps(ways, bumps=made.bumps)), stored)
        lacking = made.lacking
        if self._is_bare and not wrote:
            lacking = lacking or "none of the writes to it are stored"
        is_gone = False
        if is_delta:
            lacking = NO_DELTA
        else:
            written_values = [value for batches, _ in ways for b in batches for value in b]
            is_gone = base is ABSENT and _is_apart(name, parent.moment)
            lacking = _unread(base, stored, carried, written_values, is_gone=is_gone) or lacking
        check = Check(name, moment.key.checkpoint_id, found.mask, found.applicable, wrote)
        check.assumed, check.lacking, check.lost = found.assumed, lacking, is_lost
        if not lacking:
            check.differing = self._differing(name, found, stored)
        if self._lost is not None and (is_lost or is_unreadable(stored)):
            self._note_lost(moment, parent, possible, made, check)
        look = self.looked
        if look is not None and look.child is moment and (wrote or not _is_kept(base, stored)):
            known = base
            if base is NOT_STORED or is_gone:
                leaders = self._tally(name).leaders
                known = next((one for n, one in carried.items() if leaders & 1 << n), NOT_STORED)
            look.channels[name] = Looked(known, possible, stored, check)
        for earlier in parent.open.get(name, ()):
            earlier.confirmed |= found.by_rebuilt
            if wrote and not lacking and not is_lost:
                earlier.denied |= bits_at(carried) & ~found.mask
        if is_delta or not lacking or is_unreadable(stored):
            leaders = self._tally(name).leaders
            here.carried[name] = {
                place: value for place, value in found.rebuilt.items() if leaders & 1 << place
            }
            if here.carried[name] and not is_delta:
                here.open[name] = [*parent.open.get(name, ()), check]
        return None if is_delta else check

    def _differing(
        self, name: str, found: Explained, stored: Held
    ) -> dict[int, Differences] | None:
        """Return where a value differs from the results of the likeliest reducers."""
        leaders = self._tally(name).leaders
        if found.mask & leaders:
            return None
        differing = {}
        for n, value in found.rebuilt.items():
            if leaders & 1 << n and (one := differences(value, stored)) is not None:
                hidden = redaction.is_redacted(self._reader.store)
                differing[n] = without_values(one) if hidden else one
        return differing

    def _note_lost(
        self,
        moment: Moment,
        parent: _Kept,
        ways: tuple[WriteOrder, ...],
        made: PossibleOrders,
        check: Check,
    ) -> None:
        name = check.channel
        if _same_version(name, moment, parent.moment):
            return
        blob = (moment.checkpoint.blobs or {}).get(name)
        if self._lost is not None and moment.checkpoint.blobs is not None:
            value = None if blob is None else blob.value
            self._lost.append(Lost(moment, parent.moment, ways, made.lacking, check, value))

    def _copied_from(self, moment: Moment) -> Mapping[str, Value] | None:
        """Return the values of the checkpoint that a fork copied, if it is a stored sibling."""
        if moment.source != "fork":
            return None
        for versions, values in self._siblings.get(moment.checkpoint.parent_checkpoint_id, []):
            if versions == moment.body.versions:
                return values
        return None

    def _compared(
        self, moment: Moment, here: _Kept, copied: Mapping[str, Value]
    ) -> Iterator[Check]:
        for name in sorted({*here.values, *copied}):
            if name in here.values and name in copied and same(here.values[name], copied[name]):
                self._tally(name).keep(bumps=False)
            else:
                yield Check(name, moment.key.checkpoint_id, 0, 0, 0)

    def _is_delta(self, name: str, moment: Moment) -> bool:
        return name in moment.body.versions and name in self._reader.delta_channels(self._ns)

    def _tally(self, channel: str) -> ReducerTally:
        return self._tallies.setdefault((self._graph, channel), ReducerTally())

    def _let_go(self, moment: Moment, here: _Kept) -> None:
        """Drop a checkpoint when all of its children were seen."""
        parent = moment.checkpoint.parent_checkpoint_id
        self._children[parent] -= 1
        if self._children[parent]:
            self._siblings.setdefault(parent, []).append((moment.body.versions, here.values))
            return
        self._siblings.pop(parent, None)
        if parent is not None:
            self._kept.pop(parent, None)


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
        return "the value before it is not stored"
    if is_unreadable(base) and not carried:
        return "the value before it cannot be read"
    if is_gone:
        return "the value before it is not stored"
    return "a write to it cannot be read" if any(map(is_unreadable, wrote)) else ""


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


def _unproven(channel: str, moment: Moment, reason: str) -> Check:
    return Check(channel, moment.key.checkpoint_id, 0, 0, 0, lacking=reason)


def _is_skipped(child: Moment, parent: Moment) -> bool:
    """Return whether steps between the two are not stored."""
    return (
        child.source == "loop"
        and child.number is not None
        and parent.number is not None
        and child.number > parent.number + 1
    )


def _size(moment: Moment) -> int:
    body, blobs = moment.checkpoint.body, (moment.checkpoint.blobs or {}).values()
    read = sum(blob.size for blob in blobs if blob.value is not None)
    return read + (0 if body is None else len(body.data)) + sum(one.size for one in moment.writes)
