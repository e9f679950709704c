"""Finds the documents of threads with an index of RediSearch, if the index can be trusted.

The saver's indexes ignore the case of ids, trim them, split them at commas, and may return
incomplete results. So the caller must check each result, and incomplete results are discarded.
Source: the schemas in `base.py` of langgraph-checkpoint-redis, and FT.INFO of RediSearch 2.10.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from ckpt_backends.chunks import in_chunks
from ckpt_backends.redis.engine.connection import RedisConnection
from ckpt_backends.redis.engine.keyspace import raw, text

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
