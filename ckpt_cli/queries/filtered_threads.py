"""Choose threads by a filter, and read about each only what decides."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from ckpt_backends.codec.values import Opaque, Value
from ckpt_backends.errors import NotFound
from ckpt_backends.model import Thread
from ckpt_backends.protocol import Store
from ckpt_cli.core.filters.evaluate import Facts, decision, values_at, values_in
from ckpt_cli.core.filters.language import (
    EPOCH,
    FIELDS,
    SECOND,
    VALUES,
    Field,
    Filter,
    ReadFrom,
    fields_in,
    sources_of,
)
from ckpt_cli.queries.listed_threads import Details, ListedThread
from ckpt_cli.reading.thread import TriggerInference

# Imported late, like all about heads: many filters ask the index only.
if TYPE_CHECKING:
    from ckpt_cli.reading.thread import DecodedCheckpoint, Moment


class _Candidate:
    """A thread and what was read of it so far. As a function, it is the `Facts` of a filter."""

    __slots__ = ("bytes", "details", "head", "now", "state", "thread")

    def __init__(self, thread: Thread, now: datetime) -> None:
        self.thread = thread
        self.now = now
        self.details: Details | None = None
        self.head: Moment | None = None
        self.bytes: int | None = None
        self.state: Mapping[str, Value] | Opaque | None = None
        """`Opaque` if it cannot be read; None if it was not read yet."""

    def __call__(self, field: Field) -> Sequence[Value] | None:
        match field.name:
            case "thread":
                return (self.thread.thread_id,)
            case "user":
                return (self.thread.user,)
            case "checkpoints":
                return (self.thread.checkpoints,)
            case "age":
                return (self._since(self.thread.first_at),)
            case "idle":
                return (self._since(self.thread.last_at),)
            case "first_at":
                return (_seconds(self.thread.first_at),)
            case "last_at":
                return (_seconds(self.thread.last_at),)
            case "bytes":
                return None if self.bytes is None else (self.bytes,)
            case "values":
                return None if self.state is None else _found(self.state, field)
            case "metadata" if self.head is not None and not self.head.metadata:
                return _found(_metadata(self.head), field)
        return None if self.details is None else _in_head(self.details, field)

    def _since(self, moment: datetime | None) -> float | None:
        return None if moment is None else (self.now - moment).total_seconds()


def _seconds(moment: datetime | None) -> float | None:
    return None if moment is None else (moment - EPOCH) / SECOND


def _in_head(details: Details, field: Field) -> Sequence[Value]:
    match field.name:
        case "status":
            return details.conditions
        case "next":
            return details.runs or details.next or ()
        case "error":
            return (details.error,)
        case "question":
            return () if details.question is None else values_in(details.question.value, field.path)
    if details.head is None:
        return ()
    match field.name:
        case "source":
            return (details.head.source,)
        case "step":
            return (details.head.step,)
    return values_at(details.head.metadata, field.path)


def _metadata(head: Moment) -> Mapping[str, Value] | Opaque:
    """Return the metadata of a head, or the reason why it cannot be read."""
    from ckpt_backends.codec import decode

    stored = head.checkpoint.metadata
    value = None if stored is None else decode(stored)
    return value if isinstance(value, Opaque) else head.metadata


def _found(root: Mapping[str, Value] | Opaque, field: Field) -> Sequence[Value]:
    return (root,) if isinstance(root, Opaque) else values_at(root, field.path)


class ThreadChooser:
    """Chooses the threads of a store that match a filter.

    The index answers first, then the heads of the threads that are still in question, then their
    sizes, and their values last.
    """

    def __init__(
        self, store: Store, wanted: Filter, inference: TriggerInference, now: datetime
    ) -> None:
        self._store = store
        self._inference = inference
        self._now = now
        self._decide = decision(wanted)
        self._sources = sources_of(wanted)
        self._names = frozenset(one.name for one in fields_in(wanted))
        self._channels = _channels([one for one in fields_in(wanted) if one.name == VALUES])

    @property
    def needs_heads(self) -> bool:
        """Whether the index and the sizes alone may not decide."""
        return not self._sources.isdisjoint({ReadFrom.HEAD, ReadFrom.STATE})

    @property
    def needs_index_only(self) -> bool:
        """Whether the index alone decides."""
        return self._sources <= {ReadFrom.INDEX}

    def may_match(self, thread: Thread) -> bool:
        """Return whether a thread matches, as far as the index shows."""
        return self._decide(_Candidate(thread, self._now)) is not False

    def facts_of(self, thread: Thread, others: Collection[str]) -> Facts:
        """Return the facts about a thread that a filter asks for, but for `others`."""
        found = _Candidate(thread, self._now)
        asked = {FIELDS[name].source for name in self._names.difference(others)}
        if ReadFrom.HEAD in asked:
            self._read_heads([found])
        if ReadFrom.SIZE in asked:
            self._read_sizes([found])
        return found

    def choose(self, threads: Iterable[Thread]) -> Iterator[ListedThread]:
        """Yield the threads that match; those whose heads were read have details."""
        if self.needs_index_only:
            yield from map(ListedThread, filter(self.may_match, threads))
            return
        from ckpt_cli.reading.thread import expiry_times, some_at_once

        for some in some_at_once(threads):
            candidates = [_Candidate(thread, self._now) for thread in some]
            if self.needs_heads:
                self._read_heads(self._undecided(candidates))
            if ReadFrom.SIZE in self._sources:
                self._read_sizes(self._undecided(candidates))
            if ReadFrom.STATE in self._sources:
                for one in self._undecided(candidates):
                    one.state = self._state(one)
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
        from ckpt_cli.queries.head_details import details_of, heads_of
        from ckpt_cli.reading.thread import ThreadReader

        heads = heads_of(self._store, [one.thread for one in candidates], self._inference)
        for one in candidates:
            one.head = heads.get(one.thread.thread_id)
            reader = ThreadReader(self._store, one.thread, self._inference)
            one.details = details_of(reader, one.head)

    def _read_sizes(self, candidates: Sequence[_Candidate]) -> None:
        from ckpt_cli.queries.head_details import sizes_of

        sizes = sizes_of(self._store, [one.thread.thread_id for one in candidates])
        for one in candidates:
            one.bytes = sizes[one.thread.thread_id]

    def _state(self, candidate: _Candidate) -> Mapping[str, Value] | Opaque:
        """Return the state at the head, at least the channels that the filter names."""
        from ckpt_cli.reading.states import read_state
        from ckpt_cli.reading.thread import ThreadReader

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


def _channels(fields: Sequence[Field]) -> Collection[str] | None:
    """Return the channels that the paths of `values` begin with; None if they may be any."""
    firsts = {field.path[0] for field in fields}
    names = {one for one in firsts if isinstance(one, str)}
    return names if names == firsts else None
