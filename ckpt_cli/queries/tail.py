"""Follows a thread or a store, and tells what is new."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from heapq import nlargest
from itertools import groupby, islice, takewhile
from typing import TYPE_CHECKING, Literal, TypeAlias

from ckpt_backends.codec.values import Value
from ckpt_backends.errors import NotFound, StoreChanged
from ckpt_backends.model import Checkpoint, CheckpointKey, Thread, in_chunks, time_of
from ckpt_backends.protocol import Store
from ckpt_cli.core.diff import StepChanges, step_changes
from ckpt_cli.core.redact import redact_changes
from ckpt_cli.core.state import ERROR, INTERRUPT, is_state, read_body, state_values
from ckpt_cli.core.tasks import failures
from ckpt_cli.core.times import NEVER
from ckpt_cli.queries.filters import ThreadChooser
from ckpt_cli.queries.history import Entry, entry_of, made_by
from ckpt_cli.queries.threads import Selection, matching
from ckpt_cli.reading.store import shown
from ckpt_cli.reading.thread import Moment, ThreadReader, TriggerInference, head_keys

if TYPE_CHECKING:
    from ckpt_cli.core.filters import Filter


_Place: TypeAlias = tuple[str, str]
"""(checkpoint id, namespace), so that places sort by time."""


class Tail:
    """The checkpoints of a thread that were not shown yet."""

    def __init__(
        self, store: Store, thread_id: str, checkpoint_ns: str | None, *, all_ns: bool
    ) -> None:
        self._store = store
        self._thread_id = thread_id
        self._ns = None if all_ns else checkpoint_ns or ""
        self._seen: set[_Place] = set()
        self._heads: dict[_Place, tuple[int, frozenset[str]]] = {}
        """For the newest checkpoint seen in each namespace: its number of writes, and its
        events.
        """

    def last(self, number: int) -> list[Entry]:
        """Return the newest checkpoints, oldest first. Raises `NotFound` if there is no thread."""
        reader = ThreadReader(self._store, self._thread_id)
        if self._ns:
            self._ns = reader.namespace(self._ns)
        self._seen = self._places(reader)
        # Read the newest one even if it is not wanted, to notice later writes to it.
        found = list(self._entries(reader, sorted(self._seen)[-max(number, 1) :]))
        self._store.refresh()
        return [shown(self._store, one) for one in found] if number else []

    def new(self) -> list[Entry]:
        """Return the checkpoints that were added since the last call, oldest first.

        A checkpoint that was the newest before is returned again if its step has since asked a
        question or failed, even if the failure was retried and other checkpoints follow. Raises
        `StoreChanged` if the thread was deleted.
        """
        try:
            reader = ThreadReader(self._store, self._thread_id)
        except NotFound:
            raise StoreChanged(f"thread '{self._thread_id}' was deleted meanwhile") from None
        places = self._places(reader)
        fresh = places - self._seen
        self._seen = places
        before = dict(self._heads)
        touched = {
            place
            for place, (writes, _) in before.items()
            if place in places and self._writes(place) != writes
        }
        found = [
            entry
            for entry in self._entries(reader, sorted(fresh | touched))
            if _place(entry) in fresh or _events(entry.moment) - before[_place(entry)][1]
        ]
        self._store.refresh()
        return [shown(self._store, one) for one in found]

    def _places(self, reader: ThreadReader) -> set[_Place]:
        namespaces = reader.namespaces if self._ns is None else [self._ns]
        return {(one.key.checkpoint_id, ns) for ns in namespaces for one in reader.index(ns)}

    def _writes(self, place: _Place) -> int:
        checkpoint_id, ns = place
        found = self._store.writes(
            self._thread_id, checkpoint_ns=ns, checkpoint_ids=[checkpoint_id]
        )
        return sum(1 for _ in found)

    def _entries(self, reader: ThreadReader, places: Iterable[_Place]) -> Iterator[Entry]:
        for place in places:
            checkpoint_id, ns = place
            for moment in reader.moments(ns, [checkpoint_id]):
                self._heads = {one: what for one, what in self._heads.items() if one[1] != ns} | {
                    place: (len(moment.writes), _events(moment))
                }
                yield entry_of(reader, moment)


def _events(moment: Moment) -> frozenset[str]:
    """Return the questions and failures of a checkpoint's step."""
    asked = {f"{one.task_id} asked {one.interrupt_id}" for one in moment.step.questions}
    return frozenset(asked | {f"{run.id} failed: {run.error}" for run in failures(moment.step)})


def _place(entry: Entry) -> _Place:
    return entry.moment.key.checkpoint_id, entry.moment.key.checkpoint_ns


_AT_ONCE = 20
"""Number of checkpoints that are read with their values at once."""
_NO_CHANGES = StepChanges((), {})

Event = Literal["checkpoint", "step", "deleted"]
"""A new checkpoint, a step that has since failed or asked a question, or a deleted thread."""


@dataclass(frozen=True, slots=True)
class Movement:
    """Something that happened in a store."""

    event: Event
    thread_id: str
    at: datetime | None
    """Time of the checkpoint; for a deleted thread, when that was noticed."""
    moment: Moment | None = None
    """None for a deleted thread."""
    nodes: tuple[str, ...] | None = None
    """The nodes that ran to make the checkpoint; None if its parent is not stored."""
    children: tuple[str, ...] = ()
    """Those of its children that are known by now."""
    changes: StepChanges = _NO_CHANGES

    def redacted(self) -> Movement:
        """Return it without values."""
        return replace(
            self,
            moment=None if self.moment is None else self.moment.redacted(),
            changes=redact_changes(self.changes),
        )


class StoreTail:
    """The checkpoints of a store that were not shown yet."""

    def __init__(self, match: str | None, where: Filter | None, *, all_ns: bool) -> None:
        self._match = match
        self._where = where
        self._all_ns = all_ns
        self._threads = MovedThreads()
        self._told: set[str] = set()
        """The threads that matched."""
        self._inference: tuple[Store, TriggerInference] | None = None

    def last(self, store: Store, number: int) -> Iterator[Movement]:
        """Yield the newest checkpoints, oldest first, of the newest threads that match."""
        threads = self._threads.begin(store)
        if not number:
            return
        inference = self._inference_of(store)
        readers = {
            one.thread_id: ThreadReader(store, one, inference)
            for one in islice(self._chosen(store, threads, inference), number)
        }
        stored = (
            one
            for reader in readers.values()
            for ns in self._namespaces(reader)
            for one in islice(store.checkpoints(reader.thread_id, checkpoint_ns=ns), number)
        )
        newest = nlargest(number, stored, key=order_of)
        self._told.update(one.key.thread_id for one in newest)
        for thread_id, found in groupby(reversed(newest), lambda one: one.key.thread_id):
            yield from _movements(readers[thread_id], list(found))

    def new(self, store: Store) -> Iterator[Movement]:
        """Yield what happened since the last call, grouped by thread, the newest thread last.

        If the connection is lost meanwhile, the next call yields the rest.
        """
        store.refresh()
        look = self._threads.look(store)
        for thread_id in filter(self._was_chosen, look.deleted):
            yield Movement("deleted", thread_id, datetime.now(UTC))
        inference = self._inference_of(store)
        threads = [one.thread for one in look.moved]
        chosen = {one.thread_id for one in self._chosen(store, threads, inference)}
        for moved in look.moved:
            thread_id, seen = moved.thread.thread_id, moved.after
            reader = ThreadReader(store, moved.thread, inference)
            found, recent = fresh(store, moved, self._namespaces(reader))
            if thread_id in chosen:
                self._told.add(thread_id)
                yield from _late(reader, moved)
                yield from _movements(reader, found)
            self._threads.remember(thread_id, replace(seen, recent=recent))

    def _chosen(
        self, store: Store, threads: Sequence[Thread], inference: TriggerInference
    ) -> Iterator[Thread]:
        """Yield the threads that match now."""
        found = matching(threads, Selection(match=self._match))
        if self._where is None:
            return found
        chooser = ThreadChooser(store, self._where, inference, datetime.now(UTC))
        return (row.thread for row in chooser.choose(filter(chooser.may_match, found)))

    def _was_chosen(self, thread_id: str) -> bool:
        """Return whether a thread that is gone matched, as far as its id and the past show."""
        if self._where is not None and thread_id not in self._told:
            return False
        return self._match is None or fnmatchcase(thread_id, self._match)

    def _inference_of(self, store: Store) -> TriggerInference:
        """Return what was learned from a store, until it is opened again."""
        if self._inference is None or self._inference[0] is not store:
            self._inference = store, TriggerInference(store)
        return self._inference[1]

    def _namespaces(self, reader: ThreadReader) -> Sequence[str]:
        return reader.namespaces if self._all_ns else [""]


def _late(reader: ThreadReader, moved: Moved) -> Iterator[Movement]:
    """Yield the checkpoint that was the head before, if its step has since failed or asked."""
    if moved.late is None:
        return
    head = moved.thread.head
    children = () if head in {None, moved.late} else (head,)
    for moment in reader.moments("", [moved.late]):
        yield _movement(reader, "step", moment, None, children)


def _movements(reader: ThreadReader, found: Sequence[Checkpoint]) -> Iterator[Movement]:
    """Yield new checkpoints in their order, with what each changed; reads some at once."""
    children: dict[str | None, list[str]] = {}
    for one in found:
        children.setdefault(one.parent_checkpoint_id, []).append(one.key.checkpoint_id)
    for some in in_chunks(found, _AT_ONCE):
        for ns, run in groupby(some, lambda one: one.key.checkpoint_ns):
            read = list(_run(reader, ns, list(run), children))
            # Whoever reads this may take long, and must not keep the engine from cleaning up.
            reader.store.refresh()
            yield from read


def _run(
    reader: ThreadReader,
    ns: str,
    run: Sequence[Checkpoint],
    children: Mapping[str | None, Sequence[str]],
) -> Iterator[Movement]:
    parents = {one.key.checkpoint_id: one.parent_checkpoint_id for one in run}
    wanted = {*parents, *filter(None, parents.values())}
    moments = {one.key.checkpoint_id: one for one in reader.moments(ns, wanted)}
    changed: dict[str, Collection[str]] = {}
    for checkpoint_id, parent_id in parents.items():
        moment, parent = moments.get(checkpoint_id), moments.get(parent_id or "")
        # If the parent was removed, it is not known what changed.
        if moment is not None and (parent is not None or parent_id is None):
            only = reader.is_values_only
            changed[checkpoint_id] = _changed(moment, parent, is_values_only=only)
    values = _values(reader, ns, moments, changed)
    for checkpoint_id, parent_id in parents.items():
        moment = moments.get(checkpoint_id)
        if moment is None:  # It was removed meanwhile.
            continue
        names = changed.get(checkpoint_id, [])
        changes = step_changes(names, values.get(parent_id or "", {}), values[checkpoint_id])
        known = tuple(children.get(checkpoint_id, ()))
        nodes = made_by(reader, moment, moments.get(parent_id or ""))
        yield _movement(reader, "checkpoint", moment, nodes, known, changes)


def _changed(moment: Moment, parent: Moment | None, *, is_values_only: bool) -> Collection[str]:
    """Return the state channels that have another version than at the parent.

    Layouts without versions store with a checkpoint what was written to make it.
    """
    body = moment.body
    if is_values_only:
        return {one.channel for one in moment.writes if is_state(one.channel, body)}
    before = {} if parent is None else parent.body.versions
    return [
        name
        for name, version in body.versions.items()
        if is_state(name, body) and before.get(name) != version
    ]


def _values(
    reader: ThreadReader,
    ns: str,
    moments: Mapping[str, Moment],
    changed: Mapping[str, Collection[str]],
) -> dict[str, dict[str, Value]]:
    """Return the values of the channels that changed, by checkpoint id."""
    names = set().union(*changed.values())
    if not names or all(one.checkpoint.blobs is None for one in moments.values()):
        return {name: state_values(one.body) for name, one in moments.items()}
    stored = reader.checkpoints(ns, moments, body=True, values=names)
    found = {one.key.checkpoint_id: state_values(read_body(one)) for one in stored}
    return {name: found.get(name, {}) for name in moments}


def _movement(
    reader: ThreadReader,
    event: Event,
    moment: Moment,
    nodes: tuple[str, ...] | None,
    children: tuple[str, ...],
    changes: StepChanges = _NO_CHANGES,
) -> Movement:
    found = Movement(event, reader.thread_id, moment.at, moment, nodes, children, changes)
    return shown(reader.store, found)


WATCHED = 200
"""Number of newest threads that are remembered. An older one is among them once it moves."""


_LATE = timedelta(minutes=1)
"""How much older than the newest checkpoint of its thread a checkpoint may be that is stored later,
as by parallel subgraphs."""


Place = tuple[str, str]
"""A namespace and a checkpoint id."""


Mark = tuple[str, str]
"""A task, and the channel of errors or of questions on which it wrote."""


_NO_MARKS: frozenset[Mark] = frozenset()


@dataclass(frozen=True, slots=True)
class Seen:
    """What is remembered of a thread."""

    head: str | None
    last_at: datetime | None
    checkpoints: int
    marks: frozenset[Mark] = _NO_MARKS
    """The errors and questions that were stored with the head."""
    recent: frozenset[Place] | None = None
    """The checkpoints that are less than `_LATE` older than the newest; None if not known."""

    def has_moved(self, thread: Thread) -> bool:
        """Return whether a thread has another head, time or number of checkpoints now."""
        now = (thread.head, thread.last_at, thread.checkpoints)
        return (self.head, self.last_at, self.checkpoints) != now


@dataclass(frozen=True, slots=True)
class Moved:
    """A thread that moved, or whose step failed or asked."""

    thread: Thread
    before: Seen
    after: Seen
    late: str | None = None
    """The checkpoint that was the head before, if its step has since failed or asked."""


@dataclass(frozen=True, slots=True)
class StoreLook:
    """What changed since the last look."""

    moved: Sequence[Moved]
    """The one that moved last comes last."""
    deleted: Sequence[str]
    """Threads that are gone."""


class MovedThreads:
    """Compares the newest threads of a store with what they were before."""

    def __init__(self) -> None:
        self._seen: dict[str, Seen] = {}
        self._since: datetime | None = None
        """Threads that are not remembered had no newer checkpoint; None if all are remembered."""
        self._has_times = True

    def begin(self, store: Store) -> list[Thread]:
        """Remember the newest threads as they are, and return them, newest first."""
        threads = self._listed(store, WATCHED)
        marks = _marks(store, head_keys(threads))
        self._seen = {one.thread_id: _seen(one, marks) for one in threads}
        self._forget_older(threads, WATCHED)
        return threads

    def look(self, store: Store) -> StoreLook:
        """Return what changed since the last look. Each thread is to be given to `remember`."""
        number = WATCHED
        threads = self._listed(store, number)
        while len(threads) >= number and self._has_moved(threads[-1]):
            number *= 4
            threads = self._listed(store, number)
        known = {one.thread_id: self._seen.get(one.thread_id) for one in threads}
        heads = {
            CheckpointKey(name, "", seen.head)
            for name, seen in known.items()
            if seen is not None and seen.head is not None
        }
        marks = _marks(store, [*heads.union(head_keys(threads))])
        moved = []
        for one in reversed(threads):
            before, after = known[one.thread_id], _seen(one, marks)
            if before is None and not self._has_moved(one):  # Newer threads are gone.
                self._seen[one.thread_id] = after
                continue
            if before is None:
                # Remembered, so that it is looked at again if the connection is lost now.
                before = self._seen[one.thread_id] = Seen(None, self._since, 0)
            late = _stored_late(before, one, marks)
            if late is not None or before.has_moved(one):
                moved.append(Moved(one, before, replace(after, recent=before.recent), late))
        gone = [name for name in self._seen if name not in known and store.thread(name) is None]
        self._seen = {name: seen for name, seen in self._seen.items() if name in known}
        self._forget_older(threads, number)
        return StoreLook(moved, gone)

    def remember(self, thread_id: str, seen: Seen) -> None:
        """Remember a thread as it is now."""
        self._seen[thread_id] = seen

    def _listed(self, store: Store, number: int) -> list[Thread]:
        """Return this number of newest threads; all of them in a store that knows no times."""
        threads = list(store.threads(limit=number)) if self._has_times else []
        self._has_times = self._has_times and all(one.last_at is not None for one in threads)
        return threads if self._has_times else list(store.threads())

    def _forget_older(self, threads: Sequence[Thread], number: int) -> None:
        if not self._has_times:
            self._since = None
        elif len(threads) >= number:
            self._since = threads[-1].last_at

    def _has_moved(self, thread: Thread) -> bool:
        seen = self._seen.get(thread.thread_id)
        if seen is not None:
            return seen.has_moved(thread)
        return self._since is None or (thread.last_at is not None and thread.last_at > self._since)


def fresh(
    store: Store, moved: Moved, namespaces: Iterable[str]
) -> tuple[list[Checkpoint], frozenset[Place]]:
    """Return the checkpoints of a thread that were not there before, oldest first.

    The second result is `recent` of the thread now. Reads the index, newest first, up to what was
    there.
    """
    before, recent_from = moved.before, _bound(moved.thread.last_at)
    oldest = min(_bound(before.last_at), recent_from)
    found: list[Checkpoint] = []
    recent: set[Place] = set()
    for ns in namespaces:
        stored = store.checkpoints(moved.thread.thread_id, checkpoint_ns=ns)
        for one in takewhile(lambda one: _is_after(one, oldest, before), stored):
            if _is_new(one, before):
                found.append(one)
            if (stored_at(one) or recent_from) >= recent_from:
                recent.add(_place_of(one))
    return sorted(found, key=order_of), frozenset(recent)


def _bound(last_at: datetime | None) -> datetime:
    return NEVER if last_at is None else last_at - _LATE


def _is_after(one: Checkpoint, oldest: datetime, before: Seen) -> bool:
    at = stored_at(one)
    if at is None:
        return one.key.checkpoint_id != before.head
    return at > oldest


def _is_new(one: Checkpoint, before: Seen) -> bool:
    if before.recent is not None and _place_of(one) in before.recent:
        return False
    at = stored_at(one)
    if at is None or before.last_at is None:
        return one.key.checkpoint_id != before.head
    return at > (before.last_at if before.recent is None else before.last_at - _LATE)


def stored_at(one: Checkpoint) -> datetime | None:
    """Return the time of a checkpoint from the index; None if it is not there."""
    return one.at or time_of(one.key.checkpoint_id)


def order_of(one: Checkpoint) -> tuple[datetime, str]:
    """Return a sort key: oldest first."""
    return stored_at(one) or NEVER, one.key.checkpoint_id


def _place_of(one: Checkpoint) -> Place:
    return one.key.checkpoint_ns, one.key.checkpoint_id


def _stored_late(
    before: Seen, thread: Thread, marks: Mapping[CheckpointKey, frozenset[Mark]]
) -> str | None:
    if before.head is None:
        return None
    found = marks.get(CheckpointKey(thread.thread_id, "", before.head), _NO_MARKS)
    return before.head if found - before.marks else None


def _seen(thread: Thread, marks: Mapping[CheckpointKey, frozenset[Mark]]) -> Seen:
    (key,) = head_keys([thread]) or (None,)
    own = _NO_MARKS if key is None else marks.get(key, _NO_MARKS)
    return Seen(thread.head, thread.last_at, thread.checkpoints, own)


def _marks(store: Store, keys: Sequence[CheckpointKey]) -> dict[CheckpointKey, frozenset[Mark]]:
    """Return the errors and questions at some checkpoints, from the keys of their writes."""
    found: dict[CheckpointKey, set[Mark]] = {}
    if keys:
        for one in store.writes_at(keys, channels=[ERROR, INTERRUPT]):
            found.setdefault(one.key, set()).add((one.task_id, one.channel))
    return {key: frozenset(marks) for key, marks in found.items()}
