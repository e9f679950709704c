"""Finds the keys of the documents of threads: in the search indexes, or else by a SCAN."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property

from ckpt_backends.redis.engine.connection import RedisConnection, in_parts
from ckpt_backends.redis.engine.keyspace import DOCUMENT, beginning, raw
from ckpt_backends.redis.engine.search_index import SearchIndex, index_of

_THREADS_AT_ONCE = 50
"""Number of threads in one query of an index."""
Names = dict[str, set[bytes]]
"""By thread, keys that may be of it."""


class DocumentSearch:
    """Finds keys in one layout."""

    def __init__(
        self, connection: RedisConnection, kinds: Sequence[str], stored: Callable[[str], str]
    ) -> None:
        """`kinds` are the beginnings of keys; `stored` returns a thread id as keys contain it."""
        self._connection = connection
        self._kinds = kinds
        self._stored = stored

    @cached_property
    def indexes(self) -> list[SearchIndex | None]:
        """The index of each kind; None if there is no complete one."""
        return [index_of(self._connection, one) for one in self._kinds]

    def names_of(self, thread_ids: Sequence[str]) -> Names:
        """The keys of some threads. May include keys of others, whose ids begin alike."""
        found = self._indexed(thread_ids)
        rest = [one for one in thread_ids if one not in found]
        found |= self._scanned(rest) if rest else {}
        return {one: found[one] for one in thread_ids}

    def _indexed(self, thread_ids: Sequence[str]) -> Names:
        """The keys of threads from the search indexes, if these are complete."""
        indexes = [index for index in self.indexes if index is not None]
        if len(indexes) < len(self._kinds):
            return {}
        found: Names = {}
        for some in in_parts(thread_ids, _THREADS_AT_ONCE):
            together = self._together(indexes, some)
            found |= self._apart(indexes, some) if together is None else together
        return found

    def _together(self, indexes: Sequence[SearchIndex], thread_ids: Sequence[str]) -> Names | None:
        """The keys of threads from one query of each index; None if these may be incomplete."""
        stored = set(map(self._stored, thread_ids))
        if len(stored) < len(thread_ids):
            return None
        every: set[bytes] = set()
        for index in indexes:
            names = index.names_of(stored)
            if names is None:
                return None
            every.update(names)
        return self._by_thread(thread_ids, [every])

    def _apart(self, indexes: Sequence[SearchIndex], thread_ids: Sequence[str]) -> Names:
        """The keys of each thread from a query of its own, for those with a complete answer."""
        found: Names = {one: set() for one in thread_ids}
        for index in indexes:
            left = list(found)
            names_of_each = index.names_of_each(map(self._stored, left))
            for thread_id, names in zip(left, names_of_each, strict=True):
                if names is None:
                    del found[thread_id]
                else:
                    found[thread_id].update(names)
        return found

    def _scanned(self, thread_ids: Sequence[str]) -> Names:
        """The keys of threads, found with one SCAN over all keys."""
        pattern = b"*:" + beginning(list(map(self._stored, thread_ids)))
        pattern += b":*" if len(thread_ids) == 1 else b"*"
        return self._by_thread(thread_ids, self._connection.scan(pattern, DOCUMENT))

    def _by_thread(self, thread_ids: Sequence[str], found: Iterable[Iterable[bytes]]) -> Names:
        """Those of some keys that may be of each thread."""
        starts = {
            raw(f"{kind}:{self._stored(thread_id)}"): thread_id
            for thread_id in thread_ids
            for kind in self._kinds
        }
        # A key may belong to one of several threads, such as `a` and `a:b`.
        lengths = sorted({start.count(b":") + 1 for start in starts})
        names: Names = {one: set() for one in thread_ids}
        for some in found:
            for name in some:
                parts = name.split(b":", lengths[-1])
                for length in lengths:
                    thread_id = starts.get(b":".join(parts[:length]))
                    if thread_id is not None and length < len(parts):
                        names[thread_id].add(name)
        return names
