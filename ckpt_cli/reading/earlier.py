"""A store as it was at an earlier moment: what was stored later does not exist.

A checkpoint is from the time that it holds (`ts`, which LangGraph calls `created_at`), or else from
the time in its id, or when it was stored. Writes have no time in most layouts. So of a task that
stopped for a question or an error, and whose thread went on after the moment, what it wrote
besides is left out: it was written when the thread went on. What was removed since is not there.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime, timedelta
from functools import partial
from heapq import merge
from itertools import chain, groupby, islice
from typing import TYPE_CHECKING, NamedTuple

from ckpt_backends.base import WrappedStore, thread_of, with_head_writes, with_key, wrapper_of
from ckpt_backends.errors import Unsupported
from ckpt_backends.model import (
    ALL_THREADS,
    NULL_TASK_ID,
    Capability,
    Checkpoint,
    CheckpointKey,
    Outline,
    Record,
    Thread,
    ThreadBounds,
    ThreadSize,
    Write,
    in_chunks,
    time_of,
)
from ckpt_backends.protocol import Store
from ckpt_cli.core.refs import LONGEST_MAKING
from ckpt_cli.core.state import ERROR, INTERRUPT, RESUME, read_body, stored_time
from ckpt_cli.core.times import NEVER

if TYPE_CHECKING:
    from typing import Unpack

    from ckpt_backends.protocol import (
        CheckpointOptions,
        ReadOptions,
        WriteOptions,
        WriteReadOptions,
    )
    from ckpt_backends.rows import Row

LONGEST_RUN = timedelta(hours=1)
"""With `durability="exit"`, a checkpoint gets its id when its step ends, and its time when the run
ends. Longer runs than this are not looked for."""
_STOPS = frozenset({INTERRUPT, ERROR})
_SPACES = 1000
"""Number of namespaces of which what was read is kept."""


class _Space(NamedTuple):
    """What keys alone do not tell about the checkpoints of a namespace."""

    made: dict[str, datetime]
    """When those were made whose ids are from about the moment, or hold no time."""
    left: frozenset[str]
    """The checkpoints whose children are all from after the moment."""


class EarlierStore(WrappedStore):
    """A store with history, as it was at a moment."""

    sums_sizes = False

    def __init__(self, inner: Store, moment: datetime) -> None:
        """Raise `Unsupported` if the store keeps no history."""
        super().__init__(inner)
        able = inner.capabilities
        if Capability.HISTORY not in able:
            raise Unsupported(
                "this store keeps the newest checkpoint only, so it cannot be read as of a time",
                hint="leave out --as-of",
            )
        self.moment = moment
        self._writes_are_later = Capability.VALUES_ONLY not in able
        self._spaces: dict[tuple[str, str], _Space] = {}

    # Which checkpoints existed.

    def existed(self, key: CheckpointKey) -> bool:
        """Return whether a checkpoint was there at the moment; also if nothing tells."""
        at = time_of(key.checkpoint_id)
        if at is None or self._is_near(at):
            at = self._space(key).made.get(key.checkpoint_id, at)
        return at is None or at <= self.moment

    def _is_near(self, at: datetime) -> bool:
        """Return whether a checkpoint with an id of this time may be from before or after."""
        return self.moment - LONGEST_RUN < at <= self.moment + LONGEST_MAKING

    def _space(self, key: CheckpointKey) -> _Space:
        place = key.thread_id, key.checkpoint_ns
        if place not in self._spaces:
            if len(self._spaces) >= _SPACES:
                self._spaces.clear()
            self._spaces[place] = self._read_space(*place)
        return self._spaces[place]

    def _read_space(self, thread_id: str, checkpoint_ns: str) -> _Space:
        read = partial(self.inner.checkpoints, thread_id, checkpoint_ns=checkpoint_ns)
        made: dict[str, datetime] = {}
        unread, parents = [], list[tuple[str, str]]()
        for one in read():
            checkpoint_id = one.key.checkpoint_id
            at = time_of(checkpoint_id)
            if one.at is not None:
                made[checkpoint_id] = one.at
            elif at is None or self._is_near(at):
                unread.append(checkpoint_id)
            if one.parent_checkpoint_id is not None:
                parents.append((one.parent_checkpoint_id, checkpoint_id))
        for some in in_chunks(unread):
            for one in read(checkpoint_ids=some, body=True):
                found = stored_time(read_body(one))
                if found is not None:
                    made[one.key.checkpoint_id] = found
        went_on, is_later = set[str](), set[str]()
        for parent, child in parents:
            at = made.get(child) or time_of(child)
            (went_on if at is None or at <= self.moment else is_later).add(parent)
        return _Space(made, frozenset(is_later - went_on))

    # Threads.

    def threads(self, *, limit: int | None = None) -> Iterator[Thread]:
        return islice(self.threads_within(ALL_THREADS), limit)

    def threads_within(self, bounds: ThreadBounds) -> Iterator[Thread]:
        latest = self.moment + LONGEST_MAKING
        asked = bounds._replace(as_of=latest, until=None, head_channels=None)
        listed = self.inner.threads_within(asked)
        # Newest first: those about which the keys alone do not tell come first.
        unsettled: list[Thread] = []
        rest: Iterable[Thread] = ()
        for one in listed:
            if one.last_at is not None and not self._is_near(one.last_at):
                rest = chain([one], listed)
                break
            unsettled.append(one)
        settled = sorted(self._earlier(unsettled), key=_last, reverse=True)
        merged = merge(settled, self._earlier(rest), key=_last, reverse=True)
        found = filter(bounds.admits, merged)
        if bounds.head_channels is None:
            yield from found
        else:
            yield from with_head_writes(self, found, bounds.head_channels)

    def _earlier(self, threads: Iterable[Thread]) -> Iterator[Thread]:
        """Yield the threads that were there, as they were."""
        for some in in_chunks(threads):
            unchanged = self._unchanged(some)
            for one in some:
                if one.thread_id in unchanged:
                    yield one
                elif (found := self._recounted(one)) is not None:
                    yield found

    def _unchanged(self, threads: Sequence[Thread]) -> set[str]:
        """Return the threads that are since the moment as they were, as far as heads tell."""
        before = [one for one in threads if one.last_at is not None and one.last_at <= self.moment]
        near = [one for one in before if one.last_at is not None and self._is_near(one.last_at)]
        unsure = {one.thread_id for one in near}
        found = {one.thread_id for one in before} - unsure
        newest = [
            CheckpointKey(one.thread_id, "", one.head)
            for one in near
            if one.head is not None and one.head == one.last
        ]
        for one in self.inner.checkpoints_at(newest, body=True) if newest else ():
            made = stored_time(read_body(one))
            if made is not None and made <= self.moment:
                found.add(one.key.thread_id)
        return found

    def _recounted(self, thread: Thread) -> Thread | None:
        return thread_of(thread.thread_id, list(self.checkpoints(thread.thread_id)), thread.user)

    def thread(self, thread_id: str) -> Thread | None:
        listed = self.inner.thread(thread_id)
        return None if listed is None else next(self._earlier([listed]), None)

    def namespaces(self, thread_id: str) -> list[str]:
        return sorted({one.key.checkpoint_ns for one in self.checkpoints(thread_id)})

    def unloaded_heads(self, thread_ids: Collection[str]) -> dict[str, str]:  # noqa: ARG002
        return {}

    # Sizes, without those of values stored apart: keys do not tell which versions were there.

    def size(self, thread_id: str) -> ThreadSize:
        checkpoints = writes = size = 0
        for _, one in self.checkpoint_sizes(thread_id):
            checkpoints, writes = checkpoints + one.checkpoints, writes + one.writes
            size += one.bytes
        return ThreadSize(checkpoints, writes, size)

    def sizes(self, thread_ids: Sequence[str]) -> list[ThreadSize]:
        return list(map(self.size, thread_ids))

    def checkpoint_sizes(self, thread_id: str) -> Iterator[tuple[CheckpointKey, ThreadSize]]:
        return (one for one in self.inner.checkpoint_sizes(thread_id) if self.existed(one[0]))

    # Checkpoints and writes.

    def checkpoints(
        self, thread_id: str, **options: Unpack[CheckpointOptions]
    ) -> Iterator[Checkpoint]:
        return filter(self._was_there, self.inner.checkpoints(thread_id, **options))

    def _was_there(self, one: Checkpoint) -> bool:
        return self.existed(one.key)

    def metadata_with(
        self, thread_ids: Sequence[str], key: str, *, newest: bool = False
    ) -> Iterator[Checkpoint]:
        for thread_id in thread_ids:
            found = filter(self._was_there, self.inner.metadata_with([thread_id], key))
            yield from with_key(found, key, newest=newest)

    def checkpoints_at(
        self, keys: Sequence[CheckpointKey], **options: Unpack[ReadOptions]
    ) -> Iterator[Checkpoint]:
        return self.inner.checkpoints_at(list(filter(self.existed, keys)), **options)

    def outlines_at(self, keys: Sequence[CheckpointKey]) -> Iterator[Outline]:
        return self.inner.outlines_at(list(filter(self.existed, keys)))

    def writes(self, thread_id: str, **options: Unpack[WriteOptions]) -> Iterator[Write]:
        channels = options.get("channels")
        options["channels"] = _with_stops(channels)
        return self._until(self.inner.writes(thread_id, **options), channels)

    def writes_at(
        self, keys: Sequence[CheckpointKey], **options: Unpack[WriteReadOptions]
    ) -> Iterator[Write]:
        existing, channels = list(filter(self.existed, keys)), options.get("channels")
        options["channels"] = _with_stops(channels)
        return self._until(self.inner.writes_at(existing, **options), channels)

    def _until(self, writes: Iterable[Write], channels: Collection[str] | None) -> Iterator[Write]:
        """Yield those of some writes, read with stops, that were there and are asked for."""
        for key, found in groupby(writes, lambda one: one.key):
            if self.existed(key):
                for one in self._stopped(key, list(found)):
                    if channels is None or one.channel in channels:
                        yield one

    def _stopped(self, key: CheckpointKey, writes: Sequence[Write]) -> Iterable[Write]:
        """Return the writes of a checkpoint without those that came after the moment."""
        writes = [one for one in writes if one.at is None or one.at <= self.moment]
        tasks = {one.task_id for one in writes if one.channel in _STOPS}
        if not tasks or not self._writes_are_later:
            return writes
        if key.checkpoint_id not in self._space(key).left:
            return writes
        return [
            one
            for one in writes
            if one.channel in _STOPS
            or (one.task_id not in tasks and (one.task_id, one.channel) != (NULL_TASK_ID, RESUME))
        ]

    # Rows are those of now.

    def rows(self, thread_id: str) -> Iterator[Row]:  # noqa: ARG002
        raise _only_now()

    def records_of(self, thread_ids: Sequence[str]) -> Iterator[Record]:  # noqa: ARG002
        raise _only_now()


def _with_stops(channels: Collection[str] | None) -> Collection[str] | None:
    """Return channels with those that tell whether a task had stopped."""
    return None if channels is None else _STOPS.union(channels)


def _last(thread: Thread) -> datetime:
    return thread.last_at or NEVER


def _only_now() -> Unsupported:
    return Unsupported("stored rows are those of now", hint="leave out --as-of")


def thread_of_now(store: Store, thread_id: str) -> Thread | None:
    """Return a thread that a store holds now, if it is read as of a moment; else None."""
    found = wrapper_of(store, EarlierStore)
    return None if found is None else found.inner.thread(thread_id)
