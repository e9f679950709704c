"""What a filter asks about threads and checkpoints: only what decides is read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Opaque, Value
from ckpt_backends.encryption import NO_KEY, is_encrypted_field
from ckpt_backends.errors import NotFound, Unreadable
from ckpt_backends.model import NULL_TASK_ID, Status, Thread, TypedBytes, in_chunks
from ckpt_backends.protocol import Store
from ckpt_cli.core import filters
from ckpt_cli.core.compat import CompatVerdict
from ckpt_cli.core.state import read_metadata, source_from
from ckpt_cli.core.tasks import blocking_error
from ckpt_cli.core.values import Path
from ckpt_cli.queries.compat import judged_threads
from ckpt_cli.queries.heads import Details, ListedThread, Watch, details_of, heads_of, sizes_of
from ckpt_cli.reading.graphs import graphs_of
from ckpt_cli.reading.states import StateTimeline, read_state
from ckpt_cli.reading.thread import (
    DecodedCheckpoint,
    Moment,
    ThreadReader,
    TriggerInference,
    expiry_times,
    number_of,
)
from ckpt_cli.reading.users import filter_with_users, inherited

Known = Mapping[str, Value] | Opaque
"""Metadata or values; `Opaque` if they cannot be read."""


def channels_named(fields: Iterable[filters.FilterField]) -> Collection[str] | None:
    """Return the channels that the paths of `values` may begin with; None if they may be any."""
    paths = [field.path for field in fields if field.name == filters.VALUES]
    if not all(isinstance(path[0], str) for path in paths):
        return None
    firsts = {str(path[0]) for path in paths}
    # The name of a channel may contain dots.
    dotted = (path for path in paths if all(isinstance(step, str) for step in path))
    return firsts | {".".join(map(str, path)) for path in dotted}


def _found(root: Known, field: filters.FilterField) -> Sequence[Value]:
    return (root,) if isinstance(root, Opaque) else filters.values_at(root, field.path)


def _readable(root: Known, field: filters.FilterField) -> Sequence[Value] | None:
    """Return the values of a field; None if one of them cannot be read."""
    found = _found(root, field)
    return None if any(isinstance(one, Opaque) for one in found) else found


@dataclass(slots=True)
class _Candidate:
    """A thread and what was read of it so far. As a function, it is the `Facts` of a filter."""

    thread: Thread
    now: datetime
    details: Details | None = None
    head: Moment | None = None
    bytes: int | None = None
    verdict: str | None = None
    """What the new graph does to it; None if it was not judged yet."""
    state: Known | None = None
    """`Opaque` if it cannot be read; None if it was not read yet."""
    inherited: dict[str, Value] = field(default_factory=dict)
    """What the newest checkpoints with a key have, for keys that the head lacks."""
    ever: dict[str, list[Mapping[str, Value]]] | None = None
    """By key, the metadata of all checkpoints that have it; None if they were not read yet."""

    def __call__(self, field: filters.FilterField) -> Sequence[Value] | None:
        if field.name in _OF_INDEX:
            return (_OF_INDEX[field.name](self.thread, self.now),)
        head, details = self.head, self.details
        match field.name:
            case "bytes":
                return None if self.bytes is None else (self.bytes,)
            case "values":
                return None if self.state is None else _found(self.state, field)
            case "compat":
                return None if self.verdict is None else (self.verdict,)
            case "any":
                return None if self.ever is None else tuple(_ever(self.ever, field.path[1:]))
            case _ if details is None:
                return None
            case "status":
                return details.conditions
            case "next":
                return details.runs or details.next or ()
            case "error":
                return (details.error,)
            case "why":
                return () if details.why is None else (details.why.code,)
            case "question":
                asked = details.question
                return () if asked is None else filters.values_in(asked.value, field.path)
            case "source" if details.head is not None:
                return (details.head.source,)
            case "step" if details.head is not None:
                return (details.head.step,)
            case "metadata" if head is not None and not head.metadata and not self.inherited:
                return _found(_metadata(head), field)
            case "metadata" if details.head is not None:
                known = {**self.inherited, **details.head.metadata}
                return filters.values_at(known, field.path)
        return ()


def _ever(known: Mapping[str, Sequence[Mapping[str, Value]]], path: Path) -> Iterator[Value]:
    """Yield the values at a path of the metadata of all checkpoints that have its first key."""
    for metadata in known.get(str(path[0]), ()):
        yield from filters.values_at(metadata, path)


def _since(moment: datetime | None, now: datetime) -> float | None:
    return None if moment is None else (now - moment) / filters.SECOND


_OF_INDEX: Mapping[str, Callable[[Thread, datetime], Value]] = {
    "thread": lambda thread, _: thread.thread_id,
    "user": lambda thread, _: thread.user,
    "checkpoints": lambda thread, _: thread.checkpoints,
    "age": lambda thread, now: _since(thread.first_at, now),
    "idle": lambda thread, now: _since(thread.last_at, now),
    "first_at": lambda thread, _: _seconds(thread.first_at),
    "last_at": lambda thread, _: _seconds(thread.last_at),
}
"""What the index answers, with ages as of a time."""


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else (moment - filters.EPOCH) / filters.SECOND


def _metadata(head: Moment) -> Known:
    """Return the metadata of a head, or the reason why it cannot be read."""
    stored = head.checkpoint.metadata
    value = None if stored is None else decode(stored)
    return value if isinstance(value, Opaque) else head.metadata


class ThreadChooser:
    """Chooses the threads of a store that match a filter.

    The index answers first, then the heads of the threads that are still in question, then their
    sizes, and their values last.
    """

    def __init__(
        self, store: Store, wanted: filters.Filter, inference: TriggerInference, now: datetime
    ) -> None:
        wanted = filter_with_users(store, wanted)
        self._store = store
        self._inference = inference
        self._now = now
        self._decide = filters.decision(wanted)
        self._sources = filters.sources_of(wanted)
        fields = list(filters.fields_in(wanted))
        self._names = frozenset(one.name for one in fields)
        self._channels = channels_named(fields)
        self._keys = {str(one.path[0]) for one in fields if one.name == filters.METADATA}
        """Keys of metadata that the head may lack."""
        self._ever = {str(one.path[1]) for one in fields if one.name == filters.ANY}
        self._graphs = graphs_of(store) if filters.COMPAT in self._names else None

    @property
    def needs_heads(self) -> bool:
        """Whether the index and the sizes alone may not decide."""
        return not self._sources.isdisjoint({filters.ReadFrom.HEAD, filters.ReadFrom.STATE})

    @property
    def needs_index_only(self) -> bool:
        """Whether the index alone decides."""
        return self._sources <= {filters.ReadFrom.INDEX}

    def may_match(self, thread: Thread) -> bool:
        """Return whether a thread matches, as far as the index shows."""
        return self._decide(_Candidate(thread, self._now)) is not False

    def facts_of(self, thread: Thread, others: Collection[str]) -> filters.Facts:
        """Return the facts about a thread that a filter asks for, but for `others`."""
        found = _Candidate(thread, self._now)
        asked = {filters.FIELDS[name].source for name in self._names.difference(others)}
        if filters.ReadFrom.HEAD in asked:
            self._read_heads([found])
        if filters.ReadFrom.SIZE in asked:
            self._read_sizes([found])
        if filters.ReadFrom.METADATA in asked:
            self._read_ever([found])
        if filters.ReadFrom.COMPAT in asked:
            self._read_verdicts([found])
        return found

    def choose(self, threads: Iterable[Thread]) -> Iterator[ListedThread]:
        """Yield the threads that match; those whose heads were read have details."""
        if self.needs_index_only:
            yield from map(ListedThread, filter(self.may_match, threads))
            return
        for some in in_chunks(threads):
            candidates = [_Candidate(thread, self._now) for thread in some]
            if self.needs_heads:
                self._read_heads(self._undecided(candidates))
            if filters.ReadFrom.SIZE in self._sources:
                self._read_sizes(self._undecided(candidates))
            if filters.ReadFrom.METADATA in self._sources:
                self._read_ever(self._undecided(candidates))
            if filters.ReadFrom.STATE in self._sources:
                for one in self._undecided(candidates):
                    one.state = self._state(one)
            self._read_verdicts(self._undecided(candidates))
            found = [one for one in candidates if self._decide(one)]
            times = expiry_times(self._store, [one.head.key for one in found if one.head])
            for one in found:
                at = times.get(one.head.key) if times and one.head is not None else None
                details = one.details
                if details is not None and (at is not None or one.bytes is not None):
                    details = details._replace(bytes=one.bytes, expires_at=at)
                yield ListedThread(one.thread, details)

    def _undecided(self, candidates: Sequence[_Candidate]) -> list[_Candidate]:
        return [one for one in candidates if self._decide(one) is None]

    def _read_heads(self, candidates: Sequence[_Candidate]) -> None:
        heads = heads_of(self._store, [one.thread for one in candidates], self._inference)
        for one in candidates:
            one.head = heads.get(one.thread.thread_id)
            reader = ThreadReader(self._store, one.thread, self._inference)
            one.details = details_of(reader, one.head, self._now)
        for key in self._keys:
            without = {
                one.thread.thread_id: one
                for one in candidates
                if one.head is not None and key not in one.head.metadata
            }
            for name, metadata in inherited(self._store, list(without), key).items():
                without[name].inherited[key] = metadata[key]

    def _read_ever(self, candidates: Sequence[_Candidate]) -> None:
        by_id = {one.thread.thread_id: one for one in candidates}
        for one in candidates:
            one.ever = {key: [] for key in self._ever}
        for key in self._ever if candidates else ():
            for found in self._store.metadata_with(list(by_id), key):
                ever = by_id[found.key.thread_id].ever
                if ever is not None:
                    ever[key].append(read_metadata(found))

    def _read_verdicts(self, candidates: Sequence[_Candidate]) -> None:
        if self._graphs is None:
            return
        threads = [one.thread for one in candidates]
        judged = judged_threads(self._store, threads, *self._graphs)
        verdicts = {one.thread_id: str(one.verdict) for one in judged}
        for one in candidates:
            one.verdict = verdicts.get(one.thread.thread_id, CompatVerdict.CANNOT_TELL)

    def _read_sizes(self, candidates: Sequence[_Candidate]) -> None:
        sizes = sizes_of(self._store, [one.thread.thread_id for one in candidates])
        for one in candidates:
            one.bytes = sizes[one.thread.thread_id]

    def _state(self, candidate: _Candidate) -> Known:
        """Return the state at the head, at least the channels that the filter names."""
        if candidate.head is None:
            return {}
        if candidate.head.body.problem is not None:
            return candidate.head.body.problem
        head: DecodedCheckpoint = candidate.head
        reader = ThreadReader(self._store, candidate.thread, self._inference)
        if head.checkpoint.blobs is not None:
            wanted = True if self._channels is None else self._channels
            try:
                head = reader.stored("", head.key.checkpoint_id, state=wanted)
            except NotFound:  # It was removed meanwhile.
                return {}
        return read_state(reader, head, self._channels).values


# Find the threads of which any checkpoint matches a filter, not only the newest one.
#
# A run stores the metadata of its config in each checkpoint. So one thread may have checkpoints
# that name its user, and others, such as those of a run that was resumed without metadata, that
# do not.


OF_CHECKPOINTS = frozenset({"source", "step", filters.METADATA, filters.ANY, filters.VALUES})
"""The fields that each checkpoint has its own values of."""

_CLOSED_FIELD = Opaque("json+aes", 0, "", NO_KEY)


class EverMatching:
    """Finds the threads of a store of which any checkpoint matches, in any namespace.

    `metadata`, `values`, `source` and `step` are those of a checkpoint; other fields are those of
    the thread as it is. It reads all checkpoints, which no list of threads does.
    """

    def __init__(self, store: Store, wanted: filters.Filter, now: datetime) -> None:
        wanted = filter_with_users(store, wanted)
        self.unread = 0
        """Threads that did not match, and have metadata or values that cannot be read."""
        self._store = store
        self._decide = filters.decision(wanted)
        self._inference = TriggerInference(store)
        self._chooser = ThreadChooser(store, wanted, self._inference, now)
        self._fields = frozenset(one.name for one in filters.fields_in(wanted))
        self._channels = channels_named(filters.fields_in(wanted))

    def thread_ids(self, watch: Watch = iter) -> set[str]:
        """Return the ids of the threads that match."""
        threads = list(watch(self._store.threads()))
        found = {one.thread.thread_id for one in self._chooser.choose(threads)}
        if not self._fields.isdisjoint(OF_CHECKPOINTS):
            for thread in threads:
                if thread.thread_id not in found and self._has_matched(
                    ThreadReader(self._store, thread, self._inference)
                ):
                    found.add(thread.thread_id)
        return found

    def _has_matched(self, reader: ThreadReader) -> bool:
        of_thread: filters.Facts | None = None
        is_unread = False
        try:
            for metadata, values in self._checkpoints(reader):
                of_thread = of_thread or self._chooser.facts_of(reader.thread, OF_CHECKPOINTS)
                found = self._decide(checkpoint_facts(metadata, values, of_thread))
                if found:
                    return True
                is_unread |= found is None
        except (NotFound, Unreadable):
            is_unread = True
        self.unread += is_unread
        return False

    def _checkpoints(self, reader: ThreadReader) -> Iterator[tuple[Known, Known]]:
        """Yield the metadata and the values of each checkpoint, as far as they are asked for."""
        if filters.VALUES not in self._fields:
            for one in self._store.checkpoints(reader.thread_id, metadata=True):
                yield read_known(one.metadata), {}
            return
        channels = self._channels
        for ns in reader.namespaces:
            for each in reader.decoded(ns, state=True if channels is None else channels):
                problem = each.body.problem
                values = problem or read_state(reader, each, channels).values
                yield read_known(each.checkpoint.metadata), values


def read_known(stored: TypedBytes | None) -> Known:
    """Return metadata as stored; `Opaque` if it cannot be read, and for each field that is still
    encrypted.
    """
    value = None if stored is None else decode(stored)
    if isinstance(value, Opaque):
        return value
    found = value if isinstance(value, dict) else {}
    return {
        key: _CLOSED_FIELD if is_encrypted_field(one) else one
        for key, one in found.items()
        if isinstance(key, str)
    }


def checkpoint_facts(
    metadata: Known, values: Known | None, of_thread: filters.Facts
) -> filters.Facts:
    """Return what a filter may ask about one checkpoint; without `values`, they are not known."""
    of_checkpoint = CheckpointFacts("", metadata, values=values)

    def facts(field: filters.FilterField) -> Sequence[Value] | None:
        if field.name == filters.ANY:
            field = filters.FilterField(filters.METADATA, field.path[1:])
        return (of_checkpoint if field.name in OF_CHECKPOINTS else of_thread)(field)

    return facts


# Read what a filter asks about each checkpoint of a lineage, and nothing more.


FIELDS_OF_CHECKPOINT = (
    filters.VALUES,
    filters.METADATA,
    "step",
    "source",
    "next",
    "status",
    "error",
)
"""The fields of the filter language that a checkpoint has; the others are about a thread."""
_OF_METADATA = frozenset({filters.METADATA, "step", "source"})
_OF_STEP = frozenset({"next", "status", "error"})


@dataclass(frozen=True, slots=True)
class _StepFacts:
    conditions: tuple[Status, ...]
    next: tuple[str, ...] | None
    error: str | None


@dataclass(frozen=True, slots=True)
class CheckpointFacts:
    """What is known about one checkpoint. As a function, it is the `Facts` of a filter.

    It answers None, which means not known, for a value that cannot be read.
    """

    checkpoint_id: str
    metadata: Known | None = None
    step: _StepFacts | None = None
    values: Known | None = None

    @property
    def number(self) -> int | None:
        """The step, from the metadata, or else from the id."""
        known = self.metadata
        return number_of(self.checkpoint_id, known if isinstance(known, Mapping) else {})

    def __call__(self, field: filters.FilterField) -> Sequence[Value] | None:
        if field.name in _OF_STEP:
            if self.step is None:
                return None
            match field.name:
                case "status":
                    return self.step.conditions
                case "next":
                    return self.step.next
            return (self.step.error,)
        known = self.values if field.name == filters.VALUES else self.metadata
        if known is None or field.name in {filters.VALUES, filters.METADATA}:
            return None if known is None else _readable(known, field)
        if isinstance(known, Opaque):
            return None
        return (self.number if field.name == "step" else source_from(known),)


class Lineage:
    """Checkpoints of one namespace, oldest first, each the parent of the next."""

    def __init__(self, reader: ThreadReader, checkpoint_ns: str, ids: Sequence[str]) -> None:
        self._reader = reader
        self._ns = checkpoint_ns
        self._ids = ids

    def facts(
        self, fields: Collection[str], channels: Collection[str] | None
    ) -> Iterator[CheckpointFacts]:
        """Yield the facts for these fields, oldest first; missing checkpoints are left out.

        `channels` limits which values are read. A value that did not change is decoded once.
        """
        states: Iterator[tuple[str, Known | None]] = ((one, None) for one in self._ids)
        if filters.VALUES in fields:
            states = self._states(channels)
        found: tuple[str, Known | None] | None = None
        for some in in_chunks(self._ids):
            metadata, steps = self._metadata(some, fields), self._steps(some, fields)
            for one in some:
                found = found or next(states, None)
                if found is not None and found[0] == one:
                    yield CheckpointFacts(one, metadata.get(one), steps.get(one), found[1])
                    found = None

    def facts_at(
        self, checkpoint_id: str, fields: Collection[str], channels: Collection[str] | None
    ) -> CheckpointFacts:
        """Return the same for one checkpoint, without reading others."""
        return CheckpointFacts(
            checkpoint_id,
            self._metadata([checkpoint_id], fields).get(checkpoint_id),
            self._steps([checkpoint_id], fields).get(checkpoint_id),
            self._state(checkpoint_id, channels) if filters.VALUES in fields else None,
        )

    def _metadata(self, ids: Sequence[str], fields: Collection[str]) -> dict[str, dict[str, Value]]:
        if _OF_METADATA.isdisjoint(fields):
            return {}
        stored = self._reader.checkpoints(self._ns, ids, metadata=True)
        return {one.key.checkpoint_id: read_metadata(one) for one in stored}

    def _steps(self, ids: Sequence[str], fields: Collection[str]) -> dict[str, _StepFacts]:
        if _OF_STEP.isdisjoint(fields):
            return {}
        return {
            one.key.checkpoint_id: _StepFacts(
                one.conditions, one.step.next, blocking_error(one.step)
            )
            for one in self._reader.moments(self._ns, ids)
        }

    def _states(self, channels: Collection[str] | None) -> Iterator[tuple[str, Known]]:
        written = self._with_caller_writes(channels)
        for point in StateTimeline(self._reader, self._ns, set(self._ids), channels):
            checkpoint_id = point.checkpoint.key.checkpoint_id
            if checkpoint_id in written:
                yield checkpoint_id, self._state(checkpoint_id, channels)
            else:
                yield checkpoint_id, point.body.problem or point.values

    def _state(self, checkpoint_id: str, channels: Collection[str] | None) -> Known:
        wanted = True if channels is None else channels
        try:
            stored = self._reader.stored(self._ns, checkpoint_id, state=wanted)
        except NotFound:
            return {}
        return stored.body.problem or read_state(self._reader, stored, channels).values

    def _with_caller_writes(self, channels: Collection[str] | None) -> set[str]:
        """Return the checkpoints with a state that the caller's own writes change."""
        stored = self._reader.writes(self._ns, channels=channels)
        return {one.key.checkpoint_id for one in stored if one.task_id == NULL_TASK_ID}
