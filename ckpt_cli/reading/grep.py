"""Searching the values of threads, each value once, where it first stood."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING

from ckpt_backends.codec.values import Value
from ckpt_backends.errors import NotFound
from ckpt_backends.model import CheckpointKey, Thread
from ckpt_backends.protocol import Store
from ckpt_cli.core.redact import redact_match
from ckpt_cli.core.search import Find, Known, Match, compile_pattern, is_unread, search, unseen
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
        found, unread, _ = _hits(stored.key, stored.at, chosen, find, {})
        yield found, unread + (stored.body.problem is not None)
        return
    known: dict[str, Known] = {}
    for point in Timeline(reader, ns, channels=wanted.channels or None):
        chosen = {name: point.values[name] for name in _chosen(point.changed, wanted)}
        key, before = point.checkpoint.key, known.get(point.parent or "", {})
        found, unread, after = _hits(key, _time(point), chosen, find, before)
        known[key.checkpoint_id] = after
        yield found, unread + (point.body.problem is not None)


def _hits(
    key: CheckpointKey,
    at: datetime | None,
    values: Mapping[str, Value],
    find: Find,
    known: Known,
) -> tuple[list[Hit], int, Known]:
    hits: list[Hit] = []
    unread = 0
    for channel, value in values.items():
        unread += is_unread(value)
        matches = list(search(value, find))
        fresh, known = unseen(channel, matches, known)
        hits += [Hit(key, key.checkpoint_id, at, channel, match) for match in fresh]
    return hits, unread, known


def _chosen(names: Iterable[str], wanted: Wanted) -> Collection[str]:
    return [name for name in names if not wanted.channels or name in wanted.channels]


def _time(point: Point) -> datetime | None:
    return moment_time(point.checkpoint.key.checkpoint_id, point.body)


def _named(hit: Hit, refs: Mapping[str, str]) -> Hit:
    return replace(hit, ref=refs.get(hit.key.checkpoint_id, hit.key.checkpoint_id))
