"""Replays threads: computes each step from its writes, and compares."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, islice, pairwise
from typing import TYPE_CHECKING

from ckpt_backends.codec.memo import remembering
from ckpt_backends.codec.values import Value
from ckpt_backends.errors import NotFound
from ckpt_backends.protocol import Store
from ckpt_cli.core.diff import json_size
from ckpt_cli.core.doctor.checks import NumberedVersions
from ckpt_cli.core.elimination import (
    CANDIDATES,
    Check,
    Contribution,
    Differences,
    Effect,
    Judgement,
    ReducerTally,
    SortedWrites,
    Verdict,
    WriteOrder,
    contributions,
    differences_of,
    plain,
    possible_orders,
    recorded_orders,
    sort_writes,
    verdict_of,
    written_channels,
)
from ckpt_cli.core.lineage import namespace_kind
from ckpt_cli.core.redact import redact
from ckpt_cli.core.reducers import (
    ABSENT,
    NOT_STORED,
    Held,
    is_empty,
    is_not_stored,
    unknown_channel,
)
from ckpt_cli.core.reducers import held_fits as fits
from ckpt_cli.core.replay import Replayed, Transition, judge_all, label
from ckpt_cli.core.state import (
    START,
    Version,
    is_state,
    read_body,
    read_metadata,
    source_from,
    state_values,
)
from ckpt_cli.core.tasks import UPDATE_PATH, TaskWrite, task_writes
from ckpt_cli.queries.replay_checks import (
    ChannelChecker,
    KeptCheckpoint,
    Look,
    Looked,
    Lost,
    is_kept,
)
from ckpt_cli.reading.states import OldestFirst, bytes_read
from ckpt_cli.reading.store import is_redacted
from ckpt_cli.reading.target import Target
from ckpt_cli.reading.thread import Moment, ThreadReader, TriggerInference

if TYPE_CHECKING:
    from ckpt_backends.model import Thread
    from ckpt_cli.reading.executor import Executor
    from ckpt_cli.reading.workers import Each


_NO_PARENT = "its parent is not stored"
_NO_BODY = "the checkpoint cannot be read"
_FIRST = {
    "input": "an input's writes to other channels are not stored",
    "update": "the writes of update_state are not stored",
}
"""Why the values of a first checkpoint cannot be verified, by source."""
Watch = Callable[[KeptCheckpoint, KeptCheckpoint | None], None]
"""Is called with each checkpoint, and with its parent if that was read before."""


def watched_replay(reader: ThreadReader, watch: Watch) -> Replayed:
    """Replay a thread and show each checkpoint, with its state and writes, to `watch`.

    The checkpoints of a namespace come oldest first. The caller makes the cache of decoded values.
    """
    found = Replayed(reader.thread_id)
    for ns in reader.namespaces:
        found.transitions.extend(_Namespace(reader, ns, found.tallies, None, watch=watch))
    return found


def replay_with_lost(reader: ThreadReader) -> tuple[Replayed, list[Lost]]:
    """Replay a thread; also return the values that are missing in it, oldest first."""
    found = Replayed(reader.thread_id)
    lost: list[Lost] = []
    with remembering():
        for ns in reader.namespaces:
            namespace = _Namespace(reader, ns, found.tallies, None, lost=lost)
            found.transitions.extend(namespace)
    return found, lost


def look_at(
    reader: ThreadReader, checkpoint_ns: str, child: str, watch: Watch | None = None
) -> tuple[Replayed, Look]:
    """Replay a thread; also return all about the transition to `child` in a namespace.

    All of it is read, so that the step is judged as `replay_thread` judges it. Raises `NotFound` if
    there is no such checkpoint.
    """
    found = Replayed(reader.thread_id)
    looked: Look | None = None
    with remembering():
        for ns in _namespaces(reader, checkpoint_ns):
            look = child if ns == checkpoint_ns else None
            namespace = _Namespace(reader, ns, found.tallies, None, look, watch=watch)
            found.transitions.extend(namespace)
            looked = looked or namespace.looked
    if looked is None:
        raise NotFound(f"no checkpoint '{child}' in thread '{reader.thread_id}'")
    return found, looked


def _namespaces(reader: ThreadReader, checkpoint_ns: str) -> Sequence[str]:
    """Return the namespaces of a thread; also one that is named, but has no checkpoints."""
    known = reader.namespaces
    return known if checkpoint_ns in known else [*known, checkpoint_ns]


def look_again(
    reader: ThreadReader,
    checkpoint_ns: str,
    child: str,
    tallies: dict[tuple[str, str], ReducerTally],
    carried: dict[str, dict[int, Held]],
) -> Look | None:
    """Return all about the transition to `child`, reading only it, its parent and its siblings.

    `tallies` and `carried` are those of the replay before: of the namespace, and of the parent.
    Returns None if there is no such checkpoint.
    """
    known = reader.parentage(checkpoint_ns)
    if child not in known:
        return None
    parent = known.named_parent(child)
    ids = {child} if parent is None else {parent, *known.siblings(child)}
    namespace = _Namespace(reader, checkpoint_ns, tallies, ids, child, carried=carried)
    with remembering():
        list(namespace)
    return namespace.looked


def replay_thread(
    reader: ThreadReader, checkpoint_ns: str | None = None, upto: str | None = None
) -> Replayed:
    """Replay all transitions of a thread, of one namespace, or up to one checkpoint of it.

    The reducers are known from all of the thread, whichever part is returned.
    """
    found = Replayed(reader.thread_id)
    with remembering():
        for ns in reader.namespaces:
            found.transitions.extend(_Namespace(reader, ns, found.tallies, None))
    if checkpoint_ns is None:
        return found
    ids = None if upto is None else set(reader.ancestry(checkpoint_ns, upto))
    return found.part(checkpoint_ns, ids)


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
        self._suspects: list[tuple[Check, Version]] = []
        """Steps that are not explained, with the version that the channel has there."""
        self._siblings: dict[
            str | None, list[tuple[Mapping[str, Version], Mapping[str, Value]]]
        ] = {}

    @property
    def looked(self) -> Look | None:
        """The requested transition, after it was reached."""
        return self._checker.looked

    def __iter__(self) -> Iterator[Transition]:
        fetch = partial(self._reader.moments, self._ns, values=True, state=True)
        for moment in self._line.read(fetch, _size):
            placed = task_writes(moment.writes, moment.step)
            writes = sort_writes(moment.key.checkpoint_id, placed, moment.step, moment.body)
            here = KeptCheckpoint(moment, state_values(moment.body), writes)
            # Before it is kept itself: a subgraph of LangGraph 0.2 may be its own parent.
            yield self._transition(moment, here)
            self._keep(here)
            self._let_go(moment, here)
        for check, version in self._suspects:
            check.shared = self._other_giver(check, version)

    def _other_giver(self, check: Check, version: Version) -> str | None:
        """Return a checkpoint of another branch that gave the channel the same version."""
        child, ancestry = check.child, self._reader.ancestry
        for one in self._numbered.givers(check.channel, version):
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
        found = self._reader.store.checkpoints(
            self._reader.thread_id, checkpoint_ns=self._ns, checkpoint_ids=ids, metadata=True
        )
        return Counter(source_from(read_metadata(one)) for one in found)

    def _transition(self, moment: Moment, here: KeptCheckpoint) -> Transition:
        parent_id = moment.checkpoint.parent_checkpoint_id
        # A parent that is only assumed proves nothing.
        is_told = parent_id is not None and not moment.checkpoint.begins_run
        parent = self._line.kept(parent_id) if is_told else None
        if self._watch is not None:
            self._watch(here, parent)
        # The copy that a fork is has the versions of what it copied.
        if moment.checkpoint.blobs is not None and moment.source != "fork":
            before = {} if parent is None else parent.moment.body.versions
            new = dict(moment.body.versions.items() - before.items())
            self._numbered.add(moment.key.checkpoint_id, new, new)
        if moment.key.checkpoint_id == self._look:
            self._checker.looked = Look(moment)
            if parent is not None:
                self._checker.looked.parent, self._checker.looked.writes = (
                    parent.moment,
                    parent.writes,
                )
                self._checker.looked.values = parent.decoded
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
            self._checker.tally(check.channel).add(check)
            if (
                moment.checkpoint.blobs is not None
                and not check.mask & self._checker.tally(check.channel).leaders
            ):
                self._suspects.append((check, moment.body.versions.get(check.channel, "?")))
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
        return list(self._checker.check_all(moment, after, before, made))

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
        if copied is not None:
            # It is compared with what it copies; its DeltaChannels go on from the parent.
            self._checker.carry(moment, here, parent, made)
            return list(self._compared(moment, here, copied))
        checks = list(self._checker.check_all(moment, here, parent, made))
        if parent.sources["update"] and not _has_own_updates(parent.moment):
            for check in checks:
                check.replaced = True
        return checks

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


def _size(moment: Moment) -> int:
    return bytes_read(moment.checkpoint, moment.writes)


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
        graph = namespace_kind(checkpoint_ns)
        tallies = {
            place: tally.copy() for place, tally in found.tallies.items() if place[0] == graph
        }
        parent = reader.parentage(checkpoint_ns).named_parent(child)
        carried = self._carried.get((checkpoint_ns, parent or ""), {})
        look = look_again(reader, checkpoint_ns, child, tallies, carried)
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
    ((_, judgements),) = judge_all([found], reducers)
    graph = namespace_kind(target.checkpoint_ns)
    answer = Written(
        look.child,
        look.parent,
        {
            name: _channel(one, look, judgements[graph, name])
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
        if not fits(value, other) or told != [(one.effect, one.counts) for one in others]:
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
            if any(fits(result, one.stored) for result in reducer.results(one.base, values)):
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
