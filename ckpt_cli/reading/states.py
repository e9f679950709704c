"""Reads the states of a thread, and rebuilds values that are not stored."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice, pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from ckpt_backends.codec import UNDEFINED, decode
from ckpt_backends.codec.values import Tagged, Value
from ckpt_backends.model import (
    NULL_TASK_ID,
    Blob,
    Capability,
    Checkpoint,
    TypedBytes,
    Write,
    in_chunks,
)
from ckpt_cli.core import state
from ckpt_cli.core.lineage import namespace_kind
from ckpt_cli.core.redact import redact_values
from ckpt_cli.core.tasks import CONTROL
from ckpt_cli.reading.store import rules_of
from ckpt_cli.reading.thread import DecodedCheckpoint, Moment, ThreadReader

if TYPE_CHECKING:
    from ckpt_cli.core.reducers import OtherReading


_AT_ONCE = 50
"""Number of ancestors whose bodies one query reads."""


@dataclass(slots=True)
class _Step:
    """A checkpoint, and what led to it."""

    checkpoint: Checkpoint
    body: state.Body
    source: str | None
    writes: Sequence[Write]
    """The writes on its parent, with the values of those to the channels in question."""
    siblings: int
    """How many checkpoints have its parent, itself included."""


class _Known(NamedTuple):
    """What all checkpoints of a namespace tell about its channels."""

    stored: frozenset[str]
    """Channels with a value at any of them."""
    lasting: frozenset[str]
    """Channels that kept a value over a step. One that holds a value for one step only, such as an
    EphemeralValue, has another version after it."""
    has_blobs: bool
    """Whether any value is stored apart from a body."""


@dataclass(slots=True)
class LostValues:
    """Finds the channels of a thread whose values were stored once and are missing now."""

    reader: ThreadReader
    _stored: dict[str, _Known] = field(default_factory=dict)

    def here(self, moment: Moment, parent: Moment | None, introduced: frozenset[str]) -> list[str]:
        """Return the channels whose values were stored with a checkpoint and are missing now.

        `parent` is read with the values of its writes; None if it has none, or none is stored.
        `introduced` are the channels with another version than there.
        """
        checkpoint = moment.checkpoint
        is_known = parent is not None or checkpoint.parent_checkpoint_id is None
        lost = checkpoint.missing & introduced if is_known else frozenset[str]()
        unproven = self._unproven(checkpoint, moment.body, moment.metadata) & introduced
        if unproven:
            writes = () if parent is None else parent.writes
            step = self._step(checkpoint, moment.body, moment.source, writes)
            lost |= self._proven(step, unproven)
        if parent is not None:
            lost |= _lost_snapshots(checkpoint, moment.body, state.delta_channels(parent.metadata))
        return sorted(lost)

    def at(self, found: DecodedCheckpoint) -> Iterator[str]:
        """Yield the channels of any checkpoint whose values are lost.

        Reads the bodies of its ancestors, back to those that gave the channels their versions.
        """
        checkpoint, body = found.checkpoint, found.body
        unproven = self._unproven(checkpoint, body, found.metadata)
        wanted = dict.fromkeys(sorted(checkpoint.missing | unproven))
        yield from self._without_snapshot(found)
        if not wanted:
            return
        for own, before in pairwise(chain(self._line(checkpoint), (None,))):
            if own is None:  # The last one has a parent that is not stored, or none.
                return
            known: Mapping[str, state.Version] = (
                {} if before is None else state.read_body(before).versions
            )
            new = [one for one in wanted if known.get(one) != body.versions[one]]
            is_known = before is not None or own.parent_checkpoint_id is None
            lost = {one for one in new if one in checkpoint.missing and is_known}
            if open_names := unproven.intersection(new):
                # LangGraph.js on Redis has a value in the body of the checkpoint that changed it.
                lost |= open_names & state.read_body(own).values.keys()
                lost |= self._proven(self._read_step(own, before, open_names), open_names)
            for name in new:
                del wanted[name]
                if name in lost:
                    yield name
            if not wanted:
                return

    def _without_snapshot(self, found: DecodedCheckpoint) -> Iterator[str]:
        """Yield the DeltaChannels of which the last snapshot is lost, with its mark left."""
        checkpoint, body = found.checkpoint, found.body
        if checkpoint.blobs is None:
            return
        if any(one is True for one in body.values.values()):
            for before in islice(self._line(checkpoint), 1, 2):
                names = state.delta_channels(state.read_metadata(before))
                yield from sorted(_lost_snapshots(checkpoint, body, names))
        names = state.delta_channels(found.metadata) & (body.versions.keys() - body.values.keys())
        for before in self._line(checkpoint) if names else ():
            earlier = state.read_body(before)
            yield from sorted(_lost_snapshots(before, earlier, names))
            names -= earlier.values.keys()
            if not names:
                return

    def _line(self, checkpoint: Checkpoint) -> Iterator[Checkpoint]:
        """Yield a checkpoint and its stored ancestors with bodies, nearest first."""
        yield checkpoint
        yield from _ancestors(self.reader, checkpoint, _AT_ONCE, metadata=True)

    def _unproven(
        self, checkpoint: Checkpoint, body: state.Body, metadata: Mapping[str, Value]
    ) -> frozenset[str]:
        """Return the channels with a version and no value that may be lost or just empty.

        A consumed edge or input is empty in all but the first moment, so those are left out.
        """
        can = self.reader.capabilities
        if checkpoint.blobs is None or Capability.LATEST_VALUES in can:
            return frozenset()
        unset = body.versions.keys() - body.values.keys() - checkpoint.missing
        found = {one for one in unset if one == state.SENDS or state.is_state(one, body)}
        if state.START in unset and metadata.get("source") == "input":
            found.add(state.START)
        found -= state.delta_channels(metadata)
        return frozenset(found and found - self.reader.delta_channels(checkpoint.key.checkpoint_ns))

    def _read_step(
        self, own: Checkpoint, before: Checkpoint | None, names: Collection[str]
    ) -> _Step:
        source = state.read_metadata(own).get("source")
        found: Iterable[Write] = ()
        if before is not None:
            found = self.reader.writes(
                own.key.checkpoint_ns, [before.key.checkpoint_id], values=names
            )
        writes = list(found)
        return self._step(
            own, state.read_body(own), source if isinstance(source, str) else None, writes
        )

    def _step(
        self, checkpoint: Checkpoint, body: state.Body, source: str | None, writes: Sequence[Write]
    ) -> _Step:
        parent = checkpoint.parent_checkpoint_id
        index = self.reader.index(checkpoint.key.checkpoint_ns)
        siblings = sum(one.parent_checkpoint_id == parent for one in index)
        return _Step(checkpoint, body, source, writes, siblings)

    def _proven(self, step: _Step, names: Collection[str]) -> frozenset[str]:
        """Return those of these channels that held a value after a step, for certain."""
        return frozenset(one for one in names if self._is_proven(step, one))

    def _is_proven(self, step: _Step, name: str) -> bool:
        if name == state.START:
            return step.source == "input"
        wrote = [one for one in step.writes if one.channel == name]
        values = [decode(one.value) for one in wrote if one.value is not None]
        is_apart = any(_is_apart(one, step.body) for one in values)
        is_updated = name in step.body.updated
        if step.body.updated:
            if is_updated and (is_apart or (wrote and name in self._known(step).stored)):
                return True
        elif step.source == "loop" and step.siblings == 1 and is_apart:
            known = self._known(step)
            return name in known.stored or not (known.has_blobs or step.body.is_javascript)
        # If the writes of a step are stored, and none to this channel is, it is not tracked.
        if step.source == "input" or (step.source == "loop" and any(map(_is_of_task, step.writes))):
            return False
        known = self._known(step)
        return name in known.lasting or (is_updated and name in known.stored)

    def _known(self, step: _Step) -> _Known:
        ns = step.checkpoint.key.checkpoint_ns
        if ns not in self._stored:
            found = self.reader.checkpoints(ns, body=True, metadata=True)
            self._stored[ns] = _known(found)
        return self._stored[ns]


def _known(checkpoints: Iterable[Checkpoint]) -> _Known:
    """Return what all checkpoints of a namespace tell about its channels."""
    bodies: dict[str, tuple[str | None, bool, state.Body]] = {}
    stored, has_blobs = set[str](), False
    for one in checkpoints:
        body = state.read_body(one)
        is_copy = state.read_metadata(one).get("source") == "fork"
        bodies[one.key.checkpoint_id] = one.parent_checkpoint_id, is_copy, body
        stored.update(body.values)
        has_blobs |= bool(one.blobs)
    lasting = set[str]()
    for parent_id, is_copy, body in bodies.values():
        if parent_id in bodies and not is_copy:
            before = bodies[parent_id][2]
            same = body.versions.items() & before.versions.items()
            lasting |= {name for name, _ in same} & body.values.keys()
    return _Known(frozenset(stored), frozenset(lasting), has_blobs)


def _lost_snapshots(
    checkpoint: Checkpoint, body: state.Body, names: Collection[str]
) -> frozenset[str]:
    """Return those of these DeltaChannels that have the mark of a snapshot, and no snapshot.

    The saver for PostgreSQL puts `True` in the body, and the snapshot into a row of its own.
    """
    blobs = checkpoint.blobs
    if blobs is None:
        return frozenset()
    return frozenset(one for one in names if body.values.get(one) is True and one not in blobs)


def _is_of_task(write: Write) -> bool:
    return write.task_id != NULL_TASK_ID and write.channel not in CONTROL


def _is_apart(value: Value, body: state.Body) -> bool:
    """Return whether a channel with this value has a row of its own."""
    if body.is_javascript:
        return value is not None and value != UNDEFINED
    return isinstance(value, list | dict | bytes | Tagged)


class State(NamedTuple):
    """The values of a checkpoint's channels as the agent sees them."""

    values: Mapping[str, Value]
    rebuilt: Mapping[str, str]
    """Channels with a value that is not stored, and how it was rebuilt."""
    by_library: Mapping[str, OtherReading] = MappingProxyType({})
    """Channels with a rebuilt value that depends on the release of LangGraph."""

    def redacted(self) -> State:
        """Return the state with types and sizes in place of values."""
        return self._replace(values=redact_values(self.values))

    @property
    def unstored(self) -> list[str]:
        """Channels with a value that is not stored and cannot be rebuilt."""
        return [name for name, value in self.values.items() if value == state.LOST_DELTA]


def read_state(
    reader: ThreadReader, moment: DecodedCheckpoint, channels: Collection[str] | None = None
) -> State:
    """Return the values at a checkpoint: DeltaChannels rebuilt, the caller's writes applied.

    With `channels`, only those are rebuilt. The checkpoint must have been read with its state,
    or with these channels of it.
    """
    values = dict(state.state_values(moment.body))
    rebuilt = _merged(values, moment.checkpoint.blobs) if moment.checkpoint.blobs else {}
    missing = _unstored(reader, moment, channels)
    if missing and not reader.has_history:
        values |= dict.fromkeys(missing, state.LOST_DELTA)
        missing.clear()
    differing: dict[str, OtherReading] = {}
    for name, one in rebuild_deltas(reader, moment.checkpoint, moment.body, missing):
        values[name], rebuilt[name] = one.value, one.how
        if one.differs is not None:
            differing[name] = one.differs
    ns = moment.key.checkpoint_ns
    for name, writes in _null_writes(reader, moment).items():
        if values.get(name) != state.LOST_DELTA and (channels is None or name in channels):
            from ckpt_cli.core.reducers import one_step

            values[name], how = rules_of(reader.store, moment.body).merge(
                namespace_kind(ns),
                name,
                values.get(name),
                one_step(writes),
                delta=name in rebuilt or name in reader.delta_channels(ns),
            )
            earlier = f"{rebuilt[name]}, " if name in rebuilt else ""
            rebuilt[name] = f"{earlier}with the caller's writes ({how})"
    return State(dict(sorted(values.items())), rebuilt, differing)


def state_channels(reader: ThreadReader, moment: DecodedCheckpoint) -> list[str]:
    """Return the names of the channels that `read_state` gives, without reading their values."""
    if moment.checkpoint.blobs is not None and moment.body.is_javascript:
        # Only the value tells that a channel holds `undefined`, which is as no value.
        key = moment.key
        moment = reader.stored(key.checkpoint_ns, key.checkpoint_id, state=True)
    found = {*state.state_values(moment.body), *_unstored(reader, moment, None)}
    if not reader.is_values_only:
        found |= _callers_channels(moment)
    return sorted(found)


def _callers_channels(moment: DecodedCheckpoint) -> set[str]:
    """Return the state channels to which the caller wrote with `Command(update=...)`."""
    return {
        write.channel
        for write in moment.writes
        if write.task_id == NULL_TASK_ID and state.is_state(write.channel, moment.body)
    }


def _null_writes(reader: ThreadReader, moment: DecodedCheckpoint) -> dict[str, list[Value]]:
    """Return the values of these writes, by channel."""
    names = _callers_channels(moment)
    if not names or reader.is_values_only:  # they are already part of the stored value
        return {}
    key = moment.key
    stored = reader.writes(key.checkpoint_ns, [key.checkpoint_id], channels=names, values=True)
    return _by_channel(one for one in stored if one.task_id == NULL_TASK_ID)


def _by_channel(writes: Iterable[Write]) -> dict[str, list[Value]]:
    """Return the values of some writes by channel, without those that were not read."""
    grouped: dict[str, list[Value]] = {}
    for write in writes:
        if write.value is not None:
            grouped.setdefault(write.channel, []).append(decode(write.value))
    return grouped


def _merged(values: Mapping[str, Value], blobs: Mapping[str, Blob]) -> dict[str, str]:
    """Return the channels whose value is stored in several parts, and how these were merged."""
    # Imported late: few layouts have such values.
    from ckpt_backends.codec.lossless import MERGED, how_merged

    return {
        name: f"rebuilt (assumed {how_merged(values[name])})"
        for name, blob in blobs.items()
        if blob.type.startswith(MERGED) and name in values
    }


def _unstored(
    reader: ThreadReader, moment: DecodedCheckpoint, channels: Collection[str] | None
) -> set[str]:
    """Return the DeltaChannels, of these, that may have no stored value at this checkpoint."""
    unset = {
        name
        for name in moment.body.versions
        if name not in moment.body.values
        and state.is_state(name, moment.body)
        and (channels is None or name in channels)
    }
    if not unset:
        return unset
    found = state.delta_channels(moment.metadata)
    if unset <= found:
        return unset
    return unset & (found | reader.delta_channels(moment.key.checkpoint_ns))


@dataclass(slots=True)
class DeltaParts:
    """What the value of a DeltaChannel is rebuilt from."""

    batches: list[list[TypedBytes]] = field(default_factory=list)
    """The writes of ancestors, those of the nearest first."""
    seed: tuple[Checkpoint, state.Body] | None = None
    """The ancestor that stores the value; None if there is none."""


def delta_parts(
    reader: ThreadReader, checkpoint: Checkpoint, names: Collection[str]
) -> dict[str, DeltaParts]:
    """Return what the values of some DeltaChannels are rebuilt from.

    A checkpoint's own writes are not part of its value; those of the ancestor that stores the
    value are.
    """
    if not names:  # Its ancestors need not be listed.
        return {}
    found = {name: DeltaParts() for name in names}
    open_names = set(names)
    for ancestor in _ancestors(reader, checkpoint, 1, values=open_names):
        if not open_names:
            break
        key = ancestor.key
        for name in open_names:
            found[name].batches.append([])
        for write in reader.writes(
            key.checkpoint_ns, [key.checkpoint_id], channels=open_names, values=True
        ):
            if write.value is not None:
                found[write.channel].batches[-1].append(write.value)
        body = state.read_body(ancestor)
        for name in open_names & set(body.values):
            found[name].seed = ancestor, body
        open_names -= set(body.values)
    return found


class RebuiltDelta(NamedTuple):
    """The value of a DeltaChannel."""

    value: Value
    how: str
    differs: OtherReading | None


def rebuild_deltas(
    reader: ThreadReader, checkpoint: Checkpoint, body: state.Body, names: set[str]
) -> Iterator[tuple[str, RebuiltDelta]]:
    """Yield DeltaChannel values, rebuilt from the writes of ancestors since the last stored
    value.
    """
    if not names:
        return
    # Most states are stored whole.
    from ckpt_cli.core.reducers import other_reading

    rules = rules_of(reader.store, body)
    graph = namespace_kind(checkpoint.key.checkpoint_ns)
    for name, parts in sorted(delta_parts(reader, checkpoint, names).items()):
        writes = [decode(write) for batch in reversed(parts.batches) for write in batch]
        seed = None if parts.seed is None else state.without_snapshot(parts.seed[1].values[name])
        value, how = rules.merge(graph, name, seed, writes, delta=True)
        other = other_reading(rules, graph, name, value, seed, writes)
        more = "" if other is None else other.told
        yield name, RebuiltDelta(value, f"rebuilt ({how}){more}", other)


def _ancestors(
    reader: ThreadReader,
    checkpoint: Checkpoint,
    at_once: int,
    *,
    metadata: bool = False,
    values: Collection[str] = (),
) -> Iterator[Checkpoint]:
    """Yield the ancestors with bodies, nearest first; stops at a missing one."""
    ns = checkpoint.key.checkpoint_ns
    for some in in_chunks(reader.ancestry(ns, checkpoint.key.checkpoint_id)[1:], at_once):
        read = reader.checkpoints(ns, some, body=True, metadata=metadata, values=values)
        found = {one.key.checkpoint_id: one for one in read}
        for own in some:
            if own not in found:
                return
            yield found[own]


_CHECKPOINTS_AT_ONCE = 200
_BYTES = 8 << 20
"""Maximum number of checkpoints, and approximate number of bytes, that one query fetches."""
Read = TypeVar("Read")
Kept = TypeVar("Kept")


class OldestFirst(Generic[Kept]):
    """Goes through a namespace, or some of its checkpoints, from old to new: with few in memory.

    What is kept about a checkpoint is let go when all of its children were seen.
    """

    def __init__(
        self, reader: ThreadReader, checkpoint_ns: str, ids: Collection[str] | None = None
    ) -> None:
        index = reader.index(checkpoint_ns)
        chosen = [one for one in index if ids is None or one.key.checkpoint_id in ids]
        self._order = [one.key.checkpoint_id for one in reversed(chosen)]
        self._unseen = Counter(one.parent_checkpoint_id for one in chosen)
        self._kept: dict[str, Kept] = {}

    def read(
        self, fetch: Callable[[Sequence[str]], Iterable[Read]], size: Callable[[Read], int]
    ) -> Iterator[Read]:
        """Yield checkpoints, a few megabytes at a time; `fetch` returns some, newest first."""
        ids, number = iter(self._order), 1
        while chunk := list(islice(ids, number)):
            found = list(fetch(chunk))
            largest = max(map(size, found), default=0)
            while found:
                yield found.pop()
            number = max(1, min(_CHECKPOINTS_AT_ONCE, 8 * number, _BYTES // (largest + 1)))

    def unseen_children(self, checkpoint_id: str) -> int:
        """Return the number of children of a checkpoint that are still to come."""
        return self._unseen[checkpoint_id]

    def kept(self, checkpoint_id: str | None) -> Kept | None:
        """Return what is kept about a checkpoint, if it was seen and a child is still to come."""
        return None if checkpoint_id is None else self._kept.get(checkpoint_id)

    def keep(self, checkpoint_id: str, facts: Kept) -> None:
        """Keep facts about a checkpoint for its children."""
        if self._unseen[checkpoint_id]:
            self._kept[checkpoint_id] = facts

    def leave(self, parent: str | None) -> bool:
        """Note that a child of `parent` was seen; returns whether it was the last one."""
        self._unseen[parent] -= 1
        if self._unseen[parent]:
            return False
        if parent is not None:
            self._kept.pop(parent, None)
        return True


def bytes_read(checkpoint: Checkpoint, writes: Iterable[Write] = ()) -> int:
    """Return the size of the values of a checkpoint that were read, with those of some writes."""
    blobs = (checkpoint.blobs or {}).values()
    read = sum([blob.size for blob in blobs if blob.value is not None])
    body = 0 if checkpoint.body is None else len(checkpoint.body.data)
    return read + body + sum([one.size for one in writes])


@dataclass(frozen=True, slots=True)
class Point:
    """The state of one checkpoint."""

    checkpoint: Checkpoint
    body: state.Body
    values: Mapping[str, Value]
    """Stored values and rebuilt DeltaChannels; the caller's writes are not applied."""
    parent: str | None
    """Id of its parent; None if the parent is not stored or comes later."""
    changed: Collection[str]
    """Channels with another version than at the parent, and channels without a version."""
    before: Mapping[str, Value]
    """The parent's values; empty if the parent is not stored or comes later."""


class StateTimeline:
    """The states of one namespace, or of some of its checkpoints."""

    def __init__(
        self,
        reader: ThreadReader,
        checkpoint_ns: str,
        ids: Collection[str] | None = None,
        channels: Collection[str] | None = None,
    ) -> None:
        """`channels` limits which values are read."""
        self._reader = reader
        self._ns = checkpoint_ns
        self._channels = channels
        self._line = OldestFirst[tuple[Mapping[str, state.Version], Mapping[str, Value]]](
            reader, checkpoint_ns, ids
        )

    def __iter__(self) -> Iterator[Point]:
        for checkpoint in self._line.read(self._checkpoints, bytes_read):
            body = state.read_body(checkpoint)
            parent = checkpoint.parent_checkpoint_id
            before, old = self._line.kept(parent) or (None, {})
            values = dict(state.state_values(body))
            values |= self._rebuilt(checkpoint, body, values, old)
            changed = [
                name
                for name in values
                if before is None
                or name not in body.versions
                or body.versions[name] != before.get(name)
            ]
            known = parent if before is not None else None
            yield Point(checkpoint, body, values, known, changed, old)
            self._line.keep(checkpoint.key.checkpoint_id, (body.versions, values))
            self._line.leave(parent)

    def _checkpoints(self, ids: Sequence[str]) -> Iterator[Checkpoint]:
        return self._reader.checkpoints(
            self._ns, ids, body=True, values=True if self._channels is None else self._channels
        )

    def _rebuilt(
        self,
        checkpoint: Checkpoint,
        body: state.Body,
        stored: Mapping[str, Value],
        before: Mapping[str, Value],
    ) -> dict[str, Value]:
        """Return values of DeltaChannels: the parent's value merged with the writes of its tasks.

        Where the parent has no value, an ancestor may have writes all the same: a new input leaves
        those of the step that failed before it.
        """
        unset = [
            name for name in body.versions if name not in stored and state.is_state(name, body)
        ]
        parent = checkpoint.parent_checkpoint_id
        deltas = self._reader.delta_channels(self._ns) if unset else ()
        missing = [name for name in unset if name in deltas]
        if missing and not self._reader.has_history:
            return dict.fromkeys(missing, state.LOST_DELTA)
        if parent is None or not missing:
            return {}
        anew = {name for name in missing if name not in before}
        found = {
            name: one.value for name, one in rebuild_deltas(self._reader, checkpoint, body, anew)
        }
        missing = [name for name in missing if name not in anew]
        if not missing:
            return found
        stored_writes = self._reader.writes(self._ns, [parent], channels=missing, values=True)
        writes = _by_channel(stored_writes)
        rules, graph = rules_of(self._reader.store, body), namespace_kind(self._ns)
        return found | {
            name: rules.merge(graph, name, before.get(name), writes.get(name, []), delta=True)[0]
            for name in missing
        }
