"""Reads checkpoints of langgraph-checkpoint-plainredis.

The keys of checkpoints and their writes are known from the timelines. A SCAN over all keys is
needed only for orphaned writes and for sizes.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence

from ckpt_backends.apps.plainredis.layout import Plain, PlainThreadKeys, line
from ckpt_backends.apps.plainredis.thread_keys import PlainOwning, own_field
from ckpt_backends.changes.rows import Row
from ckpt_backends.model import Checkpoint, CheckpointKey, Thread, ThreadSize
from ckpt_backends.redis.engine.archived_keys import own_keys
from ckpt_backends.redis.engine.connect import RedisConnection
from ckpt_backends.redis.engine.keyspace import CheckpointEntry, WriteEntry
from ckpt_backends.redis.engine.store import RedisStore, threads_of
from ckpt_backends.url import StoreUrl


class PlainRedisStore(RedisStore):
    """A Redis database with this layout, opened for reading."""

    def __init__(self, connection: RedisConnection, url: StoreUrl, layout: Plain) -> None:
        super().__init__(connection, url, layout)
        self._plain = layout
        self._quick: dict[str, dict[tuple[str, str], CheckpointEntry]] = {}

    def thread(self, thread_id: str) -> Thread | None:
        by_ns: dict[str, list[CheckpointEntry]] = {}
        for place in self._places_of(thread_id).values():
            by_ns.setdefault(place.key.checkpoint_ns, []).append(place)
        lines = (line(self._plain.timeline(thread_id, ns), places) for ns, places in by_ns.items())
        found = threads_of(lines)
        return found[0].thread() if found else None

    def size(self, thread_id: str) -> ThreadSize:
        return self.sizes([thread_id])[0]

    def sizes(self, thread_ids: Sequence[str]) -> list[ThreadSize]:
        found = self._plain.whole(thread_ids)
        return [self._size(thread_id, found) for thread_id in thread_ids]

    def _size(self, thread_id: str, found: Mapping[str, PlainThreadKeys]) -> ThreadSize:
        one = found[thread_id]
        names = [place.name for place in one.checkpoints] + [blob.name for blob in one.blob_places]
        lengths = [
            int(length or 0)
            for length in self._connection.ask_all(("STRLEN", name) for name in names)
        ]
        fields = list(self._plain.fields(one.writes))
        written = sum(int(length or 0) for length in self._plain.lengths_of_fields(fields))
        return ThreadSize(
            len(one.places), len(fields), sum(lengths) + written, len(one.blob_places)
        )

    def checkpoints(
        self,
        thread_id: str,
        *,
        checkpoint_ns: str | None = None,
        checkpoint_ids: Collection[str] | None = None,
        body: bool = False,
        metadata: bool = False,
        values: bool | Collection[str] = False,
    ) -> Iterator[Checkpoint]:
        places = self._places(thread_id, checkpoint_ns, checkpoint_ids)
        places.sort(key=lambda one: (one.rank, one.key.checkpoint_id), reverse=True)
        places.sort(key=lambda one: one.key.checkpoint_ns)
        return self._plain.checkpoints(places, body=body, metadata=metadata, values=values)

    def checkpoints_at(
        self, keys: Sequence[CheckpointKey], *, body: bool = False, metadata: bool = False
    ) -> Iterator[Checkpoint]:
        return self._plain.checkpoints(self._named(keys), body=body, metadata=metadata)

    def rows(self, thread_id: str) -> Iterator[Row]:
        owning = PlainOwning(self._connection, self._plain)
        for owned in owning.of([thread_id]):
            yield from owning.rows(owned)

    def own_rows(self, thread_id: str, rows: Iterable[Row]) -> Iterator[Row]:
        types = PlainOwning(self._connection, self._plain).types
        return own_keys(self._plain, types, thread_id, rows)

    def row_key(self, row: Row) -> Hashable:
        return row.table, row.cells["key"], own_field(row)

    def refresh(self) -> None:
        super().refresh()
        self._quick.clear()

    def _places_of(self, thread_id: str) -> Mapping[tuple[str, str], CheckpointEntry]:
        return self._remembered(self._quick, thread_id, self._plain.places)

    def _write_places(self, thread_id: str, wanted: Collection[str] | None) -> list[WriteEntry]:
        if wanted is None:
            return self._find(thread_id).writes
        places = self._places_of(thread_id).values()
        keys = [one.key for one in places if one.key.checkpoint_id in wanted]
        return self._plain.writes_at(keys)
