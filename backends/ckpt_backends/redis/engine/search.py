"""Finds the documents of threads with an index of RediSearch, if the index can be trusted.

The saver's indexes ignore the case of ids, trim them, split them at commas, and may return
incomplete results. So the caller must check each result, and incomplete results are discarded.
Source: the schemas in `base.py` of langgraph-checkpoint-redis, and FT.INFO of RediSearch 2.10.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Any

from ckpt_backends.model import Fault, in_chunks
from ckpt_backends.redis.engine.connection import RedisConnection
from ckpt_backends.redis.engine.keyspace import DOCUMENT, Prefixes, beginning, quoted, raw, text

_PLAIN = re.compile(r"[!-+\--~](?:[ -+\--~]*[!-+\--~])?")
"""Matches ids that the index does not change: ASCII without commas and without outer spaces."""
_MARK = re.compile(r"([^A-Za-z0-9_])")
_AT_ONCE, _QUERIES_AT_ONCE = 10_000, 20
"""Keys in one answer, and number of queries that are sent together."""


class SearchIndex:
    """An index of all documents with keys that begin with a prefix."""

    def __init__(self, connection: RedisConnection, name: bytes, fields: Set[str]) -> None:
        self._connection = connection
        self._name = name
        self._fields = fields

    def takes(self, *ids: str) -> bool:
        """Whether the index keeps these ids unchanged."""
        return all(map(_PLAIN.fullmatch, ids))

    def names_of(self, thread_ids: Iterable[str]) -> list[bytes] | None:
        """The keys of all documents of some threads, with one query for all.

        As from all methods, they may include keys of other threads; None if the result may be
        incomplete.
        """
        return next(self._found([self._query([{"thread_id": one} for one in thread_ids])]))

    def names_of_each(self, thread_ids: Iterable[str]) -> Iterator[list[bytes] | None]:
        """For each thread, the keys of all its documents, as `names_of` returns them."""
        return self._found(self._query([{"thread_id": one}]) for one in thread_ids)

    def names_at(self, checkpoints: Iterable[tuple[str, str]]) -> list[bytes] | None:
        """The keys of all documents of some checkpoints, given by thread and id."""
        wanted = [{"thread_id": thread, "checkpoint_id": own} for thread, own in checkpoints]
        return next(self._found([self._query(wanted)]))

    def names_on(self, channels: Iterable[str]) -> list[bytes] | None:
        """The keys of all documents that name one of these channels."""
        return next(self._found([self._query([{"channel": one} for one in channels])]))

    def _query(self, wanted: Sequence[Mapping[str, str]]) -> bytes | None:
        """The query for documents with all fields of at least one of these; None if the index
        cannot answer it.
        """
        for one in wanted:
            if not self.takes(*one.values()) or not one.keys() <= self._fields:
                return None
        parts = (
            " ".join(f"@{name}:{{{_escaped(value)}}}" for name, value in one.items())
            for one in wanted
        )
        return raw("|".join(f"({one})" for one in parts))

    def _found(self, queries: Iterable[bytes | None]) -> Iterator[list[bytes] | None]:
        """The keys that each query finds; some queries go in one request."""
        for some in in_chunks(queries, _QUERIES_AT_ONCE):
            asked = [one for one in some if one is not None]
            after = ("NOCONTENT", "LIMIT", 0, _AT_ONCE, "TIMEOUT", 0)
            answers = self._connection.find_all(
                [("FT.SEARCH", self._name, query, *after) for query in asked]
            )
            found = (self._whole(*one) for one in zip(asked, answers, strict=True))
            yield from (None if query is None else next(found) for query in some)

    def _whole(self, query: bytes, answer: Any) -> list[bytes] | None:
        """The keys that a query finds, given its first answer; None if they may be incomplete."""
        if not isinstance(answer, list) or not answer:
            return None
        number, *names = answer
        if number != len(names):
            # More than one answer may have; the server may limit the number of results, too.
            names = self._by_cursor(query) or []
        is_whole = number == len(names) and set(map(type, names)) <= {bytes}
        return names if is_whole else None

    def _by_cursor(self, query: bytes) -> list[bytes] | None:
        """The keys that a query finds, from several answers; None if one is missing."""
        after = ("LOAD", 1, "@__key", "TIMEOUT", 0, "WITHCURSOR", "COUNT", _AT_ONCE)
        return self._all_names(self._connection.find("FT.AGGREGATE", self._name, query, *after))

    def _all_names(self, answer: Any) -> list[bytes] | None:
        """The keys in an answer and in those that its cursor gives; None if one is missing."""
        names: list[bytes] = []
        while answer is not None:
            rows, cursor = answer
            names += [row[1] for row in rows[1:]]
            if not cursor:
                break
            answer = self._connection.find("FT.CURSOR", "READ", self._name, cursor)
        return None if answer is None else names


def index_of(connection: RedisConnection, prefix: str) -> SearchIndex | None:
    """The index of all documents with this prefix; None if there is no complete index."""
    for name in connection.find("FT._LIST") or ():
        about = _pairs(connection.find("FT.INFO", name))
        definition = _pairs(about.get("index_definition"))
        is_whole = (
            definition.get("key_type") == b"JSON"
            and definition.get("prefixes") == [raw(f"{prefix}:")]
            and "filter" not in definition
            and int(about.get("indexing", 1)) == 0
            and int(about.get("hash_indexing_failures", 1)) == 0
        )
        fields = [_pairs(one) for one in about.get("attributes", ())]
        tags = {
            text(one["attribute"])
            for one in fields
            if one.get("type") == b"TAG" and one.get("identifier") == b"$." + one["attribute"]
        }
        if is_whole and tags >= {"thread_id", "checkpoint_id"}:
            return SearchIndex(connection, name, tags)
    return None


def prefixes_of(connection: RedisConnection) -> list[tuple[str, set[str]]] | None:
    """The prefixes of all indexes of JSON documents, with the fields of each index.

    None if the server has no search module, or the user may not list indexes.
    """
    names = connection.find("FT._LIST")
    if names is None:
        return None
    found = []
    for name in names:
        about = _pairs(connection.find("FT.INFO", name))
        definition = _pairs(about.get("index_definition"))
        fields = [_pairs(one) for one in about.get("attributes", ())]
        tags = {text(one["attribute"]) for one in fields if "attribute" in one}
        if definition.get("key_type") == b"JSON":
            found += [
                (text(one).removesuffix(":"), tags)
                for one in definition.get("prefixes", ())
                if one.endswith(b":")
            ]
    return found


def is_of_javascript(indexed: list[tuple[str, set[str]]]) -> bool:
    """Whether these prefixes and fields are those of LangGraph.js, whose values have an index."""
    return any(tags >= {"checkpoint_id", "channel", "version"} for _, tags in indexed)


@dataclass(frozen=True, slots=True)
class IndexFacts:
    """What FT.INFO tells about an index of JSON documents."""

    name: bytes
    prefixes: tuple[bytes, ...]
    tags: frozenset[str]
    """Its fields."""
    failures: int
    """Number of documents that could not be added."""

    def covers(self, start: bytes) -> bool:
        """Whether it has all documents whose keys begin with this."""
        return any(start.startswith(one) for one in self.prefixes)


def indexes(connection: RedisConnection) -> list[IndexFacts] | None:
    """All indexes of JSON documents.

    None if the server has no search module, or the user may not read about all indexes.
    """
    names = connection.find("FT._LIST")
    if names is None:
        return None
    found = []
    for name in names:
        about = _pairs(connection.find("FT.INFO", name))
        definition = _pairs(about.get("index_definition"))
        if not definition:
            return None
        fields = [_pairs(one) for one in about.get("attributes", ())]
        if definition.get("key_type") == b"JSON":
            found.append(
                IndexFacts(
                    name,
                    tuple(definition.get("prefixes", ())),
                    frozenset(text(one["attribute"]) for one in fields if "attribute" in one),
                    int(about.get("hash_indexing_failures", 0)),
                )
            )
    return found


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


# Faults of a server as a whole: missing search indexes, and keys that it removed.
#
# RedisSaver lists checkpoints by search indexes, and finds keys to delete by them.
#
# A server with `maxmemory` and another policy than `noeviction` removes keys one by one. A saver
# stores a checkpoint in several keys, so threads are left with parts of themselves. INFO counts
# these keys since the server was started, over all databases, so they may be those of another
# application.


_KEEPS_ALL, _ONLY_EXPIRING = "noeviction", "volatile-"
_SAMPLE = 100
"""Number of keys that are asked whether they expire."""
_FIELDS = frozenset({"thread_id", "checkpoint_ns", "checkpoint_id"})


def search_faults(connection: RedisConnection, prefixes: Prefixes) -> Iterator[Fault]:
    """`index-missing` and `index-stale`. Nothing if the server has no search module."""
    known = indexes(connection)
    if known is None:
        return
    for prefix in (prefixes.checkpoint, prefixes.write):
        fitting = [one for one in known if one.covers(raw(f"{prefix}:")) and one.tags >= _FIELDS]
        if not fitting:
            detail = f"no search index covers the keys {quoted(raw(prefix + ':*'))}, so the saver"
            detail += " can neither list nor delete them; its setup() creates one"
            yield Fault("index-missing", detail, is_error=True)
        elif all(one.failures for one in fitting):
            yield _failures(fitting[0])


def _failures(index: IndexFacts) -> Fault:
    detail = f"{index.failures} documents could not be added to the search index"
    return Fault("index-stale", f"{detail} '{text(index.name)}', so the saver does not list them")


def evicted(connection: RedisConnection, names: Iterable[bytes]) -> str:
    """Why keys of checkpoints may be gone, in words; `''` if the server removed none.

    `names` are keys of checkpoints. Some policies only remove keys that expire.
    """
    stats = connection.find("INFO", "stats") or {}
    number = int(stats.get("evicted_keys") or 0)
    if not number:
        return ""
    policy = _policy_of(connection)
    if policy.startswith(_ONLY_EXPIRING):
        asked = (("PTTL", one) for one in islice(names, _SAMPLE))
        if not any(ms >= 0 for ms in connection.ask_all(asked)):
            return ""
    keys = "1 key" if number == 1 else f"{number} keys"
    return f"the server removed {keys} because its memory was full (maxmemory-policy {policy})"


def _policy_of(connection: RedisConnection) -> str:
    """The setting `maxmemory-policy`; `unknown` if the server does not tell."""
    memory = connection.find("INFO", "memory") or {}
    return str(memory.get("maxmemory_policy") or "unknown")


def eviction_fault(connection: RedisConnection, reason: str) -> Fault:
    """`keys-evicted` for a store of which `evicted` gives a reason.

    What would stop it is no fix: the keys stay gone.
    """
    detail = f"{reason}, so parts of threads may be gone"
    if _policy_of(connection) != _KEEPS_ALL:
        detail += f"; CONFIG SET maxmemory-policy {_KEEPS_ALL} keeps the others"
    return Fault("keys-evicted", detail)


# Finds the keys of the documents of threads: in the search indexes, or else by a SCAN.


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
        for some in in_chunks(thread_ids, _THREADS_AT_ONCE):
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
