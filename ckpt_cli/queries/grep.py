"""Search threads: values, writes of tasks, questions and errors; each text is reported once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Literal

from ckpt_backends.codec import decode
from ckpt_backends.codec.memo import remembering
from ckpt_backends.codec.values import Value
from ckpt_backends.errors import NotFound
from ckpt_backends.model import NULL_TASK_ID, CheckpointKey, Thread, Write
from ckpt_backends.protocol import Store
from ckpt_cli.core import search
from ckpt_cli.core.lineage import depth_of
from ckpt_cli.core.redact import redact_match
from ckpt_cli.core.refs import short_refs
from ckpt_cli.core.state import ERROR, INTERRUPT, LOST_DELTA, RESUME, SENDS, Body, is_state
from ckpt_cli.core.tasks import NodePath, asked_by, failed_at, node_path, tasks_by_id
from ckpt_cli.reading.states import OldestFirst, Point, StateTimeline, read_state
from ckpt_cli.reading.store import shown
from ckpt_cli.reading.thread import ThreadReader, TriggerInference, moment_time

if TYPE_CHECKING:
    from ckpt_cli.reading.executor import Executor

Kind = Literal["value", "write", "question", "error"]
"""Where a text was found. A `write` is text that no later state contains."""

_KINDS: Mapping[str, Kind] = {INTERRUPT: "question", ERROR: "error"}
_AT_ONCE = 300
"""Threads that the engine searches at once."""
_UNMERGED = frozenset({RESUME, "__return__", SENDS})
"""LangGraph's internal channels in which tasks store texts that people wrote or read."""


@dataclass(frozen=True, slots=True)
class GrepQuery:
    """What to search for, and where."""

    pattern: str
    fixed: bool = False
    ignore_case: bool = False
    channels: tuple[str, ...] = ()
    """All channels if empty."""
    checkpoint_ns: str | None = None
    """All namespaces if None."""
    head_only: bool = False


@dataclass(frozen=True, slots=True)
class GrepHit:
    """A matching line, at the oldest checkpoint of its branch that contains it."""

    key: CheckpointKey
    ref: str
    """Short form of the checkpoint id."""
    at: datetime | None
    channel: str
    match: search.Match
    kind: Kind = "value"
    task_id: str | None = None
    """The task that stored the text; None for a value."""
    node: str | None = None
    """The node of the task, if known."""
    path: NodePath = ()
    """The nodes down to the one in a subgraph that a question or an error is from."""

    def redacted(self) -> GrepHit:
        """Return it without the text."""
        return replace(self, match=redact_match(self.match))


@dataclass(frozen=True, slots=True)
class Searched:
    """The hits in one thread."""

    hits: tuple[GrepHit, ...]
    unread: int
    """Number of values that could not be read, or only in part."""
    stopped: int = 0
    """Number of lines that took too long to search."""


def grep_threads(
    store: Store, executor: Executor, threads: Iterable[Thread], wanted: GrepQuery
) -> Iterator[Searched]:
    """Yield the hits of each thread, in the order of the threads.

    Ends early if the pattern takes too long on too many lines.
    """
    stopped = 0
    for searched in executor.run(store, threads, partial(_searching, wanted), at_once=_AT_ONCE):
        yield searched
        stopped += searched.stopped
        if search.gave_up(stopped):
            return


def _searching(wanted: GrepQuery, store: Store) -> Callable[[Sequence[Thread]], Iterator[Searched]]:
    texts = search.needed_texts(wanted.pattern, fixed=wanted.fixed, ignore_case=wanted.ignore_case)
    inference = TriggerInference(store)

    def search_threads(threads: Sequence[Thread]) -> Iterator[Searched]:
        ids = [one.thread_id for one in threads]
        may_match = set(ids)
        if texts and not wanted.head_only:  # the stored bytes may rule a match out
            may_match = store.threads_that_may_hold(ids, texts, ignore_case=wanted.ignore_case)
        for one in ids:
            yield (
                grep_thread(store, one, wanted, inference) if one in may_match else Searched((), 0)
            )

    return search_threads


def grep_thread(
    store: Store, thread_id: str, wanted: GrepQuery, inference: TriggerInference | None = None
) -> Searched:
    """Return the hits of one thread, oldest first within each namespace.

    Searches of several threads of one store should share `inference`.
    """
    find = search.compile_pattern(
        wanted.pattern, fixed=wanted.fixed, ignore_case=wanted.ignore_case
    )
    try:
        reader = ThreadReader(store, thread_id, inference)
    except NotFound:  # deleted meanwhile, or an id that can only be listed
        return Searched((), 0)
    namespaces = reader.namespaces
    if wanted.checkpoint_ns is not None:
        namespaces = [ns for ns in namespaces if ns == wanted.checkpoint_ns]
    hits: list[GrepHit] = []
    unread = 0
    # Most messages of a state are those of the state before.
    with remembering():
        for ns in namespaces:
            places = {one.key.checkpoint_id: -n for n, one in enumerate(reader.index(ns))}
            found: list[GrepHit] = []
            for some, number in _namespace(reader, ns, wanted, find):
                found += some
                unread += number
            hits += sorted(found, key=lambda hit: places[hit.key.checkpoint_id])
    if not hits:
        return Searched((), unread, find.stopped)
    refs = short_refs(
        [one.key.checkpoint_id for ns in reader.namespaces for one in reader.index(ns)]
    )
    found = _innermost(_named(reader, hit, refs) for hit in hits)
    return Searched(tuple(shown(store, hit) for hit in found), unread, find.stopped)


def _namespace(
    reader: ThreadReader, ns: str, wanted: GrepQuery, find: search.Finder
) -> Iterator[tuple[list[GrepHit], int]]:
    """Yield the new hits and the number of unread values of each checkpoint."""
    head = reader.head(ns)
    if wanted.head_only and head is not None:
        yield from _head(reader, ns, head, wanted, find)
        return
    by_caller = _with_callers_writes(reader, ns)
    writes, unread = _search_writes(reader, ns, wanted, find)
    yield [], unread
    line = OldestFirst[search.SeenMatches](reader, ns)
    for point in StateTimeline(reader, ns, channels=wanted.channels or None):
        chosen = {name: point.values[name] for name in _chosen(point.changed, wanted)}
        key = point.checkpoint.key
        known = line.kept(point.parent) or search.SeenMatches()
        is_last = line.leave(point.checkpoint.parent_checkpoint_id)
        if not is_last:  # The last child reuses what is known at its parent, the others copy it.
            known = known.copy()
        found, unread = _hits(key, _time(point), chosen, find, known, point.before)
        yield found, unread + (point.body.problem is not None)
        if key.checkpoint_id in by_caller:
            stored = reader.stored(ns, key.checkpoint_id, state=wanted.channels or True)
            values = read_state(reader, stored, wanted.channels or None).values
            chosen = {name: values[name] for name in _chosen(values, wanted)}
            yield _hits(key, stored.at, chosen, find, known, point.values)
        yield writes.merged_into(point.parent or "", known, is_last=is_last), 0
        is_final = reader.is_values_only or not line.unseen_children(key.checkpoint_id)
        yield writes.stored_on(key, _time(point), point.body, known, is_final=is_final), 0
        line.keep(key.checkpoint_id, known)
    yield writes.left(), 0


def _head(
    reader: ThreadReader, ns: str, head: str, wanted: GrepQuery, find: search.Finder
) -> Iterator[tuple[list[GrepHit], int]]:
    try:
        stored = reader.stored(ns, head, state=wanted.channels or True)
    except NotFound:  # the id is not text, so it can only be listed
        yield [], 1
        return
    values = read_state(reader, stored, wanted.channels or None).values
    chosen = {name: values[name] for name in _chosen(values, wanted)}
    known = search.SeenMatches()
    found, unread = _hits(stored.key, stored.at, chosen, find, known, {})
    yield found, unread + (stored.body.problem is not None)
    writes, unread = _search_writes(reader, ns, wanted, find, [head])
    yield writes.stored_on(stored.key, stored.at, stored.body, known, is_final=True), unread


@dataclass(slots=True)
class _Writes:
    """The matching lines of a namespace's writes, until it is known whether a state contains
    them.
    """

    found: dict[str, list[tuple[Write, search.Match]]] = field(default_factory=dict)
    """Matching lines by checkpoint id."""
    waiting: dict[str, list[GrepHit]] = field(default_factory=dict)
    """By checkpoint id: hits that none of the children seen so far contains."""
    told: set[tuple[Kind, str]] = field(default_factory=set)

    def stored_on(
        self,
        key: CheckpointKey,
        at: datetime | None,
        body: Body,
        known: search.SeenMatches,
        *,
        is_final: bool,
    ) -> list[GrepHit]:
        """Return the new hits on a checkpoint; unless `is_final`, its writes wait for its
        children.
        """
        hits = [
            GrepHit(key, key.checkpoint_id, at, write.channel, match, kind, write.task_id)
            for write, match in self.found.pop(key.checkpoint_id, ())
            if (kind := _KINDS.get(write.channel, "write")) != "write"
            or write.channel in _UNMERGED
            or is_state(write.channel, body)
        ]
        open_writes = [hit for hit in hits if hit.kind == "write" and not _is_known(hit, known)]
        if not is_final:
            self.waiting[key.checkpoint_id] = open_writes
            open_writes = []
        return self._fresh([hit for hit in hits if hit.kind != "write"] + open_writes)

    def merged_into(
        self, parent: str, known: search.SeenMatches, *, is_last: bool
    ) -> list[GrepHit]:
        """Return the hits on a checkpoint with a text that no child contains, after its last
        child.
        """
        hits = [hit for hit in self.waiting.pop(parent, []) if not _is_known(hit, known)]
        if not is_last:
            self.waiting[parent] = hits
            return []
        return self._fresh(hits)

    def left(self) -> list[GrepHit]:
        """Return the hits on checkpoints with a child that came before them."""
        return self._fresh([hit for hits in self.waiting.values() for hit in hits])

    def _fresh(self, hits: Iterable[GrepHit]) -> list[GrepHit]:
        fresh = []
        for hit in hits:
            if (text := (hit.kind, hit.match.line)) not in self.told:
                self.told.add(text)
                fresh.append(hit)
        return fresh


def _is_known(hit: GrepHit, known: search.SeenMatches) -> bool:
    return known.has(None if hit.channel in _UNMERGED else hit.channel, hit.match.line)


def _search_writes(
    reader: ThreadReader,
    ns: str,
    wanted: GrepQuery,
    find: search.Finder,
    checkpoint_ids: Collection[str] | None = None,
) -> tuple[_Writes, int]:
    """Return the writes that match, and the number of unreadable parts of questions and errors."""
    found, unread = _Writes(), 0
    for write in reader.writes(ns, checkpoint_ids, channels=wanted.channels or None, values=True):
        if write.value is None:
            continue
        look = search.search_questions if write.channel == INTERRUPT else search.search
        for match in look(decode(write.value), find):
            if match is not None:
                found.found.setdefault(write.key.checkpoint_id, []).append((write, match))
            elif write.channel in _KINDS:  # other writes are counted with the values they became
                unread += 1
    return found, unread


def _with_callers_writes(reader: ThreadReader, ns: str) -> set[str]:
    """Return the last checkpoints of branches that have writes by the caller (part of the
    state).
    """
    writes = reader.writes(ns, reader.parentage(ns).tips)
    return {one.key.checkpoint_id for one in writes if one.task_id == NULL_TASK_ID}


def _hits(
    key: CheckpointKey,
    at: datetime | None,
    values: Mapping[str, Value],
    find: search.Finder,
    known: search.SeenMatches,
    before: Mapping[str, Value],
) -> tuple[list[GrepHit], int]:
    """Return the new matches, and the number of unreadable parts. Updates `known`."""
    hits: list[GrepHit] = []
    unread = 0
    for channel, value in values.items():
        if value == LOST_DELTA:  # Not stored: there is nothing to search.
            continue
        first = search.appended_from(before.get(channel), value)
        found = list(search.search(value, find, first))
        matches = [match for match in found if match is not None]
        unread += len(found) - len(matches)
        fresh = search.new_matches(channel, matches, known, added=first > 0)
        hits += [GrepHit(key, key.checkpoint_id, at, channel, match) for match in fresh]
    return hits, unread


def _chosen(names: Iterable[str], wanted: GrepQuery) -> Collection[str]:
    return [name for name in names if not wanted.channels or name in wanted.channels]


def _time(point: Point) -> datetime | None:
    return moment_time(point.checkpoint.key.checkpoint_id, point.body)


def _named(reader: ThreadReader, hit: GrepHit, refs: Mapping[str, str]) -> GrepHit:
    """Return the hit with its checkpoint's short id and, for a write, its node."""
    key = hit.key
    found = replace(hit, ref=refs.get(key.checkpoint_id, key.checkpoint_id))
    if hit.task_id is None or hit.task_id == NULL_TASK_ID:
        return found
    owner = tasks_by_id(reader.moment(key.checkpoint_ns, key.checkpoint_id).step).get(hit.task_id)
    if owner is None:
        return found
    found = replace(found, node=owner.node)
    if hit.kind == "error":
        return replace(found, path=node_path(key.checkpoint_ns, failed_at(owner)))
    place = hit.match.path[0] if hit.match.path else None
    if hit.kind == "question" and isinstance(place, int) and place < len(owner.questions):
        return replace(found, path=node_path(key.checkpoint_ns, asked_by(owner.questions[place])))
    return found


def _innermost(hits: Iterable[GrepHit]) -> list[GrepHit]:
    """The hits, with a question or an error only in the innermost subgraph that stores it."""
    found = list(hits)
    deepest: dict[tuple[Kind, NodePath, str], int] = {}
    for hit in found:
        place = hit.kind, hit.path, hit.match.line
        deepest[place] = max(deepest.get(place, 0), depth_of(hit.key.checkpoint_ns))
    return [
        hit
        for hit in found
        if not hit.path
        or deepest[hit.kind, hit.path, hit.match.line] == depth_of(hit.key.checkpoint_ns)
    ]
