"""Searching the values of threads, each value once, where it first stood."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from ckpt_backends.codec.values import Value
from ckpt_backends.errors import NotFound
from ckpt_backends.model import NULL_TASK_ID, CheckpointKey, Thread
from ckpt_backends.protocol import Store
from ckpt_cli.core.redact import redact_match
from ckpt_cli.core.search import Find, Known, Match, appended_from, compile_pattern, search, unseen
from ckpt_cli.core.shortrefs import short_refs
from ckpt_cli.reading import redacted
from ckpt_cli.reading.parallel import of_threads
from ckpt_cli.reading.thread import ThreadReader, moment_time
from ckpt_cli.reading.timeline import Point, Timeline

if TYPE_CHECKING:
    from ckpt_cli.reading.opening import Opening


@dataclass(frozen=True, slots=True)
class Wanted:
    """What to look for, and where."""

    pattern: str
    fixed: bool = False
    ignore_case: bool = False
    channels: tuple[str, ...] = ()
    """All if empty."""
    checkpoint_ns: str | None = None
    """All if None."""
    head_only: bool = False


@dataclass(frozen=True, slots=True)
class Hit:
    """A matching line, at the oldest checkpoint of its branch that holds it."""

    key: CheckpointKey
    ref: str
    """Short form of the checkpoint id."""
    at: datetime | None
    channel: str
    match: Match


@dataclass(frozen=True, slots=True)
class Searched:
    """What one thread gave."""

    hits: tuple[Hit, ...]
    unread: int
    """Values that could not be read, or only in part."""


def grep_threads(
    store: Store, opening: Opening, threads: Iterable[Thread], wanted: Wanted, jobs: int
) -> Iterator[Searched]:
    """The hits of each thread, in the order of the threads; with several jobs, by processes."""
    ids = (thread.thread_id for thread in threads)
    yield from of_threads(store, opening, ids, _Grep(wanted), jobs)


@dataclass(frozen=True, slots=True)
class _Grep:
    """Searches the threads of a store."""

    wanted: Wanted

    def __call__(self, store: Store) -> Callable[[str], Searched]:
        return partial(grep_thread, store, wanted=self.wanted)


def grep_thread(store: Store, thread_id: str, wanted: Wanted) -> Searched:
    """The hits of one thread, oldest first within each namespace."""
    find = compile_pattern(wanted.pattern, fixed=wanted.fixed, ignore_case=wanted.ignore_case)
    try:
        reader = ThreadReader(store, thread_id)
    except NotFound:  # Deleted meanwhile, or an id that can be listed and not looked up.
        return Searched((), 0)
    namespaces = reader.namespaces
    if wanted.checkpoint_ns is not None:
        namespaces = [ns for ns in namespaces if ns == wanted.checkpoint_ns]
    hits: list[Hit] = []
    unread = 0
    for ns in namespaces:
        for found, number in _namespace(reader, ns, wanted, find):
            hits += found
            unread += number
    if not hits:
        return Searched((), unread)
    refs = short_refs(
        [one.key.checkpoint_id for ns in reader.namespaces for one in reader.index(ns)]
    )
    found = [_named(hit, refs) for hit in hits]
    if redacted.is_redacted(store):
        found = [replace(hit, match=redact_match(hit.match)) for hit in found]
    return Searched(tuple(found), unread)


def _namespace(
    reader: ThreadReader, ns: str, wanted: Wanted, find: Find
) -> Iterator[tuple[list[Hit], int]]:
    """New hits and unread values of each checkpoint."""
    head = reader.head(ns)
    if wanted.head_only and head is not None:
        try:
            stored = reader.stored(ns, head, state=wanted.channels or True)
        except NotFound:  # Such an id is not text: it is listed, and not looked up.
            yield [], 1
            return
        values = reader.state(stored, wanted.channels or None).values
        chosen = {name: values[name] for name in _chosen(values, wanted)}
        found, unread = _hits(stored.key, stored.at, chosen, find, Known(), {})
        yield found, unread + (stored.body.problem is not None)
        return
    children = Counter(one.parent_checkpoint_id for one in reader.index(ns))
    by_caller = _with_callers_writes(reader, ns, children)
    known_at: dict[str, Known] = {}
    for point in Timeline(reader, ns, channels=wanted.channels or None):
        chosen = {name: point.values[name] for name in _chosen(point.changed, wanted)}
        key, parent = point.checkpoint.key, point.parent or ""
        children[parent] -= 1
        # The last child takes what is known at its parent, the others a copy of it.
        known = known_at[parent].copy() if children[parent] > 0 else known_at.pop(parent, Known())
        found, unread = _hits(key, _time(point), chosen, find, known, point.before)
        yield found, unread + (point.body.problem is not None)
        if key.checkpoint_id in by_caller:
            stored = reader.stored(ns, key.checkpoint_id, state=wanted.channels or True)
            values = reader.state(stored, wanted.channels or None).values
            chosen = {name: values[name] for name in _chosen(values, wanted)}
            yield _hits(key, stored.at, chosen, find, known, point.values)
        if children[key.checkpoint_id] > 0:
            known_at[key.checkpoint_id] = known


def _with_callers_writes(
    reader: ThreadReader, ns: str, children: Mapping[str | None, int]
) -> set[str]:
    """Checkpoints that no step followed, with writes of the caller: those are part of the state."""
    tips = [key for one in reader.index(ns) if not children[key := one.key.checkpoint_id]]
    writes = reader.store.writes(reader.thread_id, checkpoint_ns=ns, checkpoint_ids=tips)
    return {one.key.checkpoint_id for one in writes if one.task_id == NULL_TASK_ID}


def _hits(
    key: CheckpointKey,
    at: datetime | None,
    values: Mapping[str, Value],
    find: Find,
    known: Known,
    before: Mapping[str, Value],
) -> tuple[list[Hit], int]:
    """New matches, and how many parts could not be read. What was found is `known` afterwards."""
    hits: list[Hit] = []
    unread = 0
    for channel, value in values.items():
        first = appended_from(before.get(channel), value)
        found = list(search(value, find, first))
        matches = [match for match in found if match is not None]
        unread += len(found) - len(matches)
        fresh = unseen(channel, matches, known, added=first > 0)
        hits += [Hit(key, key.checkpoint_id, at, channel, match) for match in fresh]
    return hits, unread


def _chosen(names: Iterable[str], wanted: Wanted) -> Collection[str]:
    return [name for name in names if not wanted.channels or name in wanted.channels]


def _time(point: Point) -> datetime | None:
    return moment_time(point.checkpoint.key.checkpoint_id, point.body)


def _named(hit: Hit, refs: Mapping[str, str]) -> Hit:
    return replace(hit, ref=refs.get(hit.key.checkpoint_id, hit.key.checkpoint_id))
