"""Reads checkpoints of langgraph-checkpoint-plainredis.

The keys of checkpoints and their writes are known from the timelines. A SCAN over all keys is
needed only for orphaned writes and for sizes.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ckpt_backends.apps.plainredis.contents import PlainContents, PlainThreadKeys
from ckpt_backends.model import ThreadSize
from ckpt_backends.redis.engine.keyspace import CheckpointEntry, WriteEntry
from ckpt_backends.redis.engine.store import RedisStore
from ckpt_backends.url import StoreUrl


class PlainRedisStore(RedisStore):
    """A Redis database with this layout, opened for reading."""

    def __init__(self, layout: PlainContents, url: StoreUrl) -> None:
        super().__init__(layout, url)
        self._plain = layout
        self._quick: dict[str, dict[tuple[str, str], CheckpointEntry]] = {}

    def size(self, thread_id: str) -> ThreadSize:
        return self.sizes([thread_id])[0]

    def sizes(self, thread_ids: Sequence[str]) -> list[ThreadSize]:
        found = self._plain.find(thread_ids)
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
