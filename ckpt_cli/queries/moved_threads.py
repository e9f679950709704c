"""Notice which threads of a store moved since the last look, from the index and keys alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import takewhile

from ckpt_backends.checkpoint_ids import time_of
from ckpt_backends.model import Checkpoint, CheckpointKey, Thread
from ckpt_backends.protocol import Store
from ckpt_cli.core.state import ERROR, INTERRUPT
from ckpt_cli.reading.thread import head_keys

WATCHED = 200
"""Number of newest threads that are remembered. An older one is among them once it moves."""
_LATE = timedelta(minutes=1)
"""How much older than the newest checkpoint of its thread a checkpoint may be that is stored later,
as by parallel subgraphs."""
_NEVER = datetime.min.replace(tzinfo=UTC)

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
            late = _late(before, one, marks)
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
                recent.add(_place(one))
    return sorted(found, key=order_of), frozenset(recent)


def _bound(last_at: datetime | None) -> datetime:
    return _NEVER if last_at is None else last_at - _LATE


def _is_after(one: Checkpoint, oldest: datetime, before: Seen) -> bool:
    at = stored_at(one)
    if at is None:
        return one.key.checkpoint_id != before.head
    return at > oldest


def _is_new(one: Checkpoint, before: Seen) -> bool:
    if before.recent is not None and _place(one) in before.recent:
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
    return stored_at(one) or _NEVER, one.key.checkpoint_id


def _place(one: Checkpoint) -> Place:
    return one.key.checkpoint_ns, one.key.checkpoint_id


def _late(
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
