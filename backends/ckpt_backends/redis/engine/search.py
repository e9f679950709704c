"""Finds the documents of threads with an index of RediSearch, if the index can be trusted.

The saver's indexes ignore the case of ids, trim them, split them at commas, and may return
incomplete results. So the caller must check each result, and incomplete results are discarded.
Source: the schemas in `base.py` of langgraph-checkpoint-redis, and FT.INFO of RediSearch 2.10.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from ckpt_backends.model import in_chunks
from ckpt_backends.redis.engine.connection import RedisConnection
from ckpt_backends.redis.engine.keyspace import DOCUMENT, beginning, raw, text

_PLAIN = re.compile(r"[!-+\--~](?:[ -+\--~]*[!-+\--~])?")
"""Matches ids that the index does not change: ASCII without commas and without outer spaces."""
_MARK = re.compile(r"([^A-Za-z0-9_])")
_AT_ONCE = 10_000
"""Number of keys in one answer."""
_NEEDED = {"thread_id", "checkpoint_id"}
"""The fields that an index must have to be used."""


class SearchIndex(NamedTuple):
    """An index of JSON documents."""

    name: bytes
    prefixes: Sequence[bytes]
    """It has the documents whose keys begin with one of these. Empty if the user may not know."""
    tags: frozenset[str]
    """The fields of documents by which it finds them."""
    failures: int
    """Number of documents that could not be added."""
    is_whole: bool
    """Whether it has all documents with its prefixes."""

    def names(
        self, connection: RedisConnection, wanted: Sequence[Mapping[str, str]]
    ) -> list[bytes] | None:
        """The keys of all documents with all fields of at least one of these.

        They may include keys of other threads; None if the result may be incomplete.
        """
        for one in wanted:
            if not one.keys() <= self.tags or not all(map(_PLAIN.fullmatch, one.values())):
                return None
        parts = (
            " ".join(f"@{name}:{{{_escaped(value)}}}" for name, value in one.items())
            for one in wanted
        )
        query = raw("|".join(f"({one})" for one in parts))
        after = ("NOCONTENT", "LIMIT", 0, _AT_ONCE, "TIMEOUT", 0)
        answer = connection.find("FT.SEARCH", self.name, query, *after)
        if not answer:
            return None
        number, *names = answer
        if number != len(names):
            # More than one answer may have; the server may limit the number of results, too.
            names = self._by_cursor(connection, query)
        return names if number == len(names) and set(map(type, names)) <= {bytes} else None

    def _by_cursor(self, connection: RedisConnection, query: bytes) -> list[bytes]:
        """The keys that a query finds, from several answers; empty if one is missing."""
        after = ("LOAD", 1, "@__key", "TIMEOUT", 0, "WITHCURSOR", "COUNT", _AT_ONCE)
        answer = connection.find("FT.AGGREGATE", self.name, query, *after)
        names: list[bytes] = []
        while answer is not None:
            rows, cursor = answer
            names += [row[1] for row in rows[1:]]
            if not cursor:
                return names
            answer = connection.find("FT.CURSOR", "READ", self.name, cursor)
        return []


def indexes(connection: RedisConnection) -> list[SearchIndex] | None:
    """All indexes of JSON documents, with those about which the user may not know more.

    None if the server has no search module, or the user may not list indexes.
    """
    names = connection.find("FT._LIST")
    if names is None:
        return None
    found = []
    for name in names:
        about = _pairs(connection.find("FT.INFO", name))
        definition = _pairs(about.get("index_definition"))
        if definition.get("key_type", b"JSON") != b"JSON":
            continue
        fields = [_pairs(one) for one in about.get("attributes", ())]
        tags = frozenset(
            text(one["attribute"])
            for one in fields
            if one.get("type") == b"TAG" and one.get("identifier") == b"$." + one["attribute"]
        )
        # What is not told is not trusted.
        unsure = [int(about.get(one, 1)) for one in ("hash_indexing_failures", "indexing")]
        is_whole = not any(unsure) and "filter" not in definition
        failures = int(about.get("hash_indexing_failures", 0))
        found.append(SearchIndex(name, definition.get("prefixes", ()), tags, failures, is_whole))
    return found


def prefixes_of(found: Iterable[SearchIndex]) -> list[tuple[str, frozenset[str]]]:
    """The prefixes of these indexes, with the fields of each index."""
    return [
        (text(one).removesuffix(":"), index.tags)
        for index in found
        for one in index.prefixes
        if one.endswith(b":")
    ]


def is_of_javascript(indexed: Iterable[tuple[str, frozenset[str]]]) -> bool:
    """Whether these prefixes and fields are those of LangGraph.js, whose values have an index."""
    return any(tags >= {"checkpoint_id", "channel", "version"} for _, tags in indexed)


def _escaped(name: str) -> str:
    return _MARK.sub(r"\\\1", name)


def _pairs(flat: Any) -> dict[str, Any]:
    """A dict from a flat list of alternating names and values."""
    if not isinstance(flat, list):
        return {}
    return {
        text(name): value
        for name, value in zip(flat[::2], flat[1::2], strict=False)
        if isinstance(name, bytes)
    }


# Finds the keys of the documents of threads: in the search indexes, or else by a SCAN.


_THREADS_AT_ONCE = 50
"""Number of threads, or of checkpoints, in one query of an index."""
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
        found = [one for one in indexes(self._connection) or () if one.is_whole]
        by_prefix = {tuple(one.prefixes): one for one in found if one.tags >= _NEEDED}
        return [by_prefix.get((raw(f"{kind}:"),)) for kind in self._kinds]

    def names_of(self, thread_ids: Sequence[str]) -> Names:
        """The keys of some threads. May include keys of others, whose ids begin alike."""
        found: Names = {}
        for some in in_chunks(thread_ids, _THREADS_AT_ONCE):
            found |= self._indexed(some)
        rest = [one for one in thread_ids if one not in found]
        found |= self._scanned(rest) if rest else {}
        return {one: found[one] for one in thread_ids}

    def _indexed(self, thread_ids: Sequence[str]) -> Names:
        """The keys of threads from one query of each index. Leaves out what may be incomplete."""
        whole = [one for one in self.indexes if one is not None]
        if len(whole) < len(self._kinds):
            return {}
        stored = {self._stored(one) for one in thread_ids}
        wanted = [{"thread_id": one} for one in stored]
        answers = [one.names(self._connection, wanted) for one in whole]
        names = [one for one in answers if one is not None]
        if len(names) == len(whole) and len(stored) == len(thread_ids):
            return self._by_thread(thread_ids, names)
        if len(thread_ids) == 1:
            return {}
        # Alone, those that the indexes can find are found.
        return {name: found for one in thread_ids for name, found in self._indexed([one]).items()}

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
