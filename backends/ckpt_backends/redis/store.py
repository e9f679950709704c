"""Reading checkpoints from Redis, in whichever layout.

Redis has no snapshots. Which keys there are is remembered until `refresh`: a key that comes later
is not seen, and one that goes meanwhile is left out.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

from ckpt_backends.closing import Closing
from ckpt_backends.expiry import Expiry
from ckpt_backends.ids import time_of
from ckpt_backends.model import (
    Checkpoint,
    CheckpointKey,
    StoreInfo,
    Thread,
    ThreadSize,
    Usage,
    Write,
)
from ckpt_backends.redis.connect import Connection
from ckpt_backends.redis.keyspace import Found, Layout, Place, raw
from ckpt_backends.url import StoreUrl

_STAYS, _GONE = -1, -2
"""What PTTL answers for a key without an expiry, and for no key."""
_REMEMBERED, _AT_ONCE = 200, 50
"""Threads whose keys are remembered, and looked for together: a command looks at one after the
other, in the order in which they were listed."""


class RedisStore(Closing):
    """A database of a Redis server, opened for reading."""

    def __init__(self, connection: Connection, url: StoreUrl, layout: Layout) -> None:
        self._connection = connection
        self._url = url
        self._layout = layout
        self._threads: list[Thread] | None = None
        self._order: dict[str, int] = {}
        self._found: dict[str, Found] = {}

    def describe(self) -> StoreInfo:
        server = self._connection.ask("INFO", "server")
        memory = self._connection.find("INFO", "memory") or {}
        return StoreInfo(
            layout=self._layout.name,
            url=str(self._url),
            engine=_engine(server),
            saver=self._layout.saver,
            capabilities=self._layout.capabilities,
            tables=self._layout.tables,
            size=memory.get("used_memory_dataset"),
            notes=tuple(self.notes()),
        )

    def notes(self) -> Sequence[str]:
        return []

    def threads(self, *, limit: int | None = None) -> Iterator[Thread]:
        if self._threads is None:
            self._threads = _listed(self._layout.places())
            self._order = {one.thread_id: n for n, one in enumerate(self._threads)}
        yield from self._threads[:limit]

    def thread(self, thread_id: str) -> Thread | None:
        found = _listed(place.key for place in self._find(thread_id).places.values())
        return found[0] if found else None

    def size(self, thread_id: str) -> ThreadSize:
        checkpoints = writes = size = 0
        for one in self._usage(thread_id):
            size += one.bytes
            checkpoints += one.column == "metadata"
            writes += one.channel is not None
        return ThreadSize(checkpoints, writes, size)

    def usage(self, thread_id: str | None = None) -> Iterator[Usage]:
        sums: dict[tuple[str, ...], list[Any]] = {}
        for one in self._usage(thread_id):
            place = (one.thread_id, one.table, one.column, one.checkpoint_ns)
            kind = (*place, one.channel or "", str(one.channel is None), one.type)
            total = sums.setdefault(kind, [one, 0, 0])
            total[1] += one.rows
            total[2] += one.bytes
        for _, (one, rows, size) in sorted(sums.items(), key=lambda item: raw(item[0][0])):
            yield Usage(
                one.table,
                one.column,
                one.thread_id,
                one.checkpoint_ns,
                one.channel,
                one.type,
                rows,
                size,
            )

    def _usage(self, thread_id: str | None) -> Iterator[Usage]:
        pages = self._layout.pages() if thread_id is None else iter([self._find(thread_id)])
        for found in pages:
            for one in self._layout.usage(found):
                if thread_id in (None, one.thread_id):
                    yield one

    def namespaces(self, thread_id: str) -> list[str]:
        return sorted({ns for ns, _ in self._find(thread_id).places})

    def checkpoints(
        self,
        thread_id: str,
        *,
        checkpoint_ns: str | None = None,
        checkpoint_ids: Collection[str] | None = None,
        body: bool = False,
        metadata: bool = False,
        values: bool | Collection[str] = False,  # noqa: ARG002  (they are in the body)
    ) -> Iterator[Checkpoint]:
        wanted = None if checkpoint_ids is None else set(checkpoint_ids)
        places = [
            place
            for (ns, checkpoint_id), place in self._find(thread_id).places.items()
            if (checkpoint_ns is None or ns == checkpoint_ns)
            and (wanted is None or checkpoint_id in wanted)
        ]
        places.sort(key=lambda one: one.key.checkpoint_id, reverse=True)
        places.sort(key=lambda one: one.key.checkpoint_ns)
        if body or metadata:
            yield from self._layout.checkpoints(places, body=body, metadata=metadata)
        else:
            yield from map(_bare, places)

    def writes(
        self,
        thread_id: str,
        *,
        checkpoint_ns: str | None = None,
        checkpoint_ids: Collection[str] | None = None,
        channels: Collection[str] | None = None,
        values: bool | Collection[str] = False,
    ) -> Iterator[Write]:
        found = self._find(thread_id)
        known = {checkpoint_id for _, checkpoint_id in found.places}
        wanted = None if checkpoint_ids is None else set(checkpoint_ids)
        places = [
            place
            for place in found.writes
            # What a key names counts only if there is such a checkpoint.
            if wanted is None or place.checkpoint_id in wanted or place.checkpoint_id not in known
        ]
        places.sort(key=lambda one: one.checkpoint_id)
        kept = [
            write
            for write in self._layout.writes(places, values)
            if write.key.thread_id == thread_id
            and (checkpoint_ns is None or write.key.checkpoint_ns == checkpoint_ns)
            and (wanted is None or write.key.checkpoint_id in wanted)
            and (channels is None or write.channel in channels)
        ]
        kept.sort(key=lambda one: (one.key, one.task_path, one.task_id, one.idx))
        yield from kept

    def expiries(
        self, thread_id: str, checkpoint_ns: str, checkpoint_ids: Collection[str]
    ) -> Iterator[Expiry]:
        found = self._find(thread_id)
        wanted = {one for one in checkpoint_ids if (checkpoint_ns, one) in found.places}
        names: dict[str, list[bytes]] = {one: [] for one in wanted}
        for write in found.writes:
            if write.checkpoint_id in wanted:
                names[write.checkpoint_id].append(write.name)
        now = datetime.now(UTC)
        for checkpoint_id in wanted:
            place = found.places[checkpoint_ns, checkpoint_id]
            commands = [("PTTL", name) for name in (place.name, *names[checkpoint_id])]
            own, *writes = (int(left) for left in self._connection.ask_all(commands))
            if own == _GONE:
                continue
            first = min((left for left in writes if left >= 0), default=_STAYS)
            yield Expiry(place.key, _moment(now, own), _moment(now, first))

    def sources(self, key: CheckpointKey) -> list[str]:
        return self._layout.sources(key)

    def refresh(self) -> None:
        self._threads = None
        self._order.clear()
        self._found.clear()

    def close(self) -> None:
        self._connection.close()

    def _find(self, thread_id: str) -> Found:
        """The keys of a thread; those of the threads that were listed after it come with them."""
        if thread_id not in self._found:
            at = self._order.get(thread_id)
            wanted = [thread_id]
            if at is not None and self._threads is not None and not self._layout.is_indexed():
                wanted += [one.thread_id for one in self._threads[at + 1 : at + _AT_ONCE]]
            wanted = [one for one in wanted if one not in self._found]
            while self._found and len(self._found) + len(wanted) > _REMEMBERED:
                del self._found[next(iter(self._found))]
            self._found |= self._layout.find(wanted)
        return self._found[thread_id]


def _moment(now: datetime, left: int) -> datetime | None:
    return None if left < 0 else now + timedelta(milliseconds=left)


def _bare(place: Place) -> Checkpoint:
    return Checkpoint(place.key, place.parent)


def _engine(server: dict[str, Any]) -> str:
    name = "Valkey" if server.get("server_name") == "valkey" else "Redis"
    return f"{name} {server.get('valkey_version') or server.get('redis_version')}"


@dataclass(slots=True)
class _Sum:
    """What has been seen of a thread."""

    oldest: str
    newest: str
    seen: dict[str, set[str]] = field(default_factory=dict)
    """Checkpoints by namespace; SCAN may give a key twice."""


def _listed(keys: Iterable[CheckpointKey]) -> list[Thread]:
    """The threads of some checkpoints, the one with the newest first."""
    sums: dict[str, _Sum] = {}
    for key in keys:
        checkpoint_id = key.checkpoint_id
        found = sums.get(key.thread_id)
        if found is None:
            found = sums[key.thread_id] = _Sum(checkpoint_id, checkpoint_id)
        elif checkpoint_id < found.oldest:
            found.oldest = checkpoint_id
        elif checkpoint_id > found.newest:
            found.newest = checkpoint_id
        found.seen.setdefault(key.checkpoint_ns, set()).add(checkpoint_id)
    ordered = sorted(sums.items())
    ordered.sort(key=lambda item: item[1].newest, reverse=True)
    return [
        Thread(
            thread_id,
            max(found.seen.get("", ()), default=None),
            time_of(found.oldest),
            time_of(found.newest),
            sum(map(len, found.seen.values())),
            len(found.seen),
        )
        for thread_id, found in ordered
    ]
