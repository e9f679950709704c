"""The keys of langgraph-checkpoint-plainredis 0.1: only strings, hashes and sorted sets.

    lg:cp:THREAD:NS:ID                 string: a checkpoint without values, metadata and parent
    lg:blob:THREAD:NS:CHANNEL:VERSION  string: a channel's value at one version
    lg:wr:THREAD:NS:ID                 hash: a checkpoint's writes, by `TASK:IDX`
    lg:idx:THREAD:NS                   sorted set, the "timeline": ids in the order of storing
    lg:threads                         hash, the "registry": a timeline's key to {"thread", "ns"}
    lg:seq                             string: the last number that was used in a timeline

Source: `langgraph_checkpoint_plainredis/saver.py`, 0.1.0. `lg` is the default prefix. The head is
the checkpoint that was stored last. Keys are not escaped and may be ambiguous, so the thread of a
key is looked up in the registry. An expired checkpoint leaves its id in the timeline; the saver and
ckpt ignore such ids. Versions are numbers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from ckpt_backends.apps.plainredis.declaration import BACKEND
from ckpt_backends.chunks import in_chunks
from ckpt_backends.model import BlobKey, CheckpointKey
from ckpt_backends.redis.engine.connection import RedisConnection
from ckpt_backends.redis.engine.keyspace import (
    CALL,
    CheckpointEntry,
    ListedNamespace,
    beginning,
    literally,
    raw,
    text,
)
from ckpt_backends.redis.engine.layout import RedisLayout
from ckpt_backends.redis.engine.thread_listing import namespaces_of

USUAL_PREFIX = "lg"
_TIMELINES_AT_ONCE = 100
NAMES_AT_ONCE = 500
_CALLED = re.compile(rf"(.*?):({CALL})", re.DOTALL)


@dataclass(frozen=True, slots=True)
class NamespaceEntries:
    """A namespace of a thread."""

    thread_id: str
    checkpoint_ns: str
    name: bytes
    """The key of its sorted set, and its field in the registry."""

    @property
    def suffix(self) -> bytes:
        """The part THREAD:NS, which all its keys have in common."""
        return raw(f"{self.thread_id}:{self.checkpoint_ns}")


class PlainTimelines(RedisLayout):
    """The names of keys, and the timelines of all namespaces."""

    name = "redis-plain"
    saver = "langgraph-checkpoint-plainredis 0.1"
    capabilities = BACKEND.layouts["redis-plain"]
    lists_parents = False

    def __init__(self, connection: RedisConnection, prefix: str = USUAL_PREFIX) -> None:
        super().__init__(connection)
        self.prefix = prefix
        self.threads = raw(f"{prefix}:threads")
        self.seq = raw(f"{prefix}:seq")
        self.tables = (f"{prefix}:cp:*", f"{prefix}:blob:*", f"{prefix}:wr:*")

    def checkpoint_name(self, key: CheckpointKey) -> bytes:
        """The key of a checkpoint."""
        return self._name("cp", key.thread_id, key.checkpoint_ns, key.checkpoint_id)

    def writes_name(self, key: CheckpointKey) -> bytes:
        """The key of the hash with all writes of a checkpoint."""
        return self._name("wr", key.thread_id, key.checkpoint_ns, key.checkpoint_id)

    def blob_name(self, thread_id: str, key: BlobKey) -> bytes:
        """The key of a value."""
        return self._name("blob", thread_id, key.checkpoint_ns, key.channel, key.version)

    def timeline(self, thread_id: str, ns: str) -> NamespaceEntries:
        """The timeline of a namespace; it may not exist."""
        return NamespaceEntries(thread_id, ns, self._name("idx", thread_id, ns))

    def place_of(self, suffix: bytes) -> tuple[str, str]:
        """The thread and the namespace that THREAD:NS most likely means."""
        if called := _CALLED.fullmatch(text(suffix)):
            return called[1], called[2]
        thread_id, _, ns = text(suffix).rpartition(":")
        return thread_id, ns

    def _name(self, *parts: str) -> bytes:
        return raw(":".join((self.prefix, *parts)))

    def timelines(self, thread_ids: Collection[str] | None = None) -> Iterator[NamespaceEntries]:
        """The registered timelines of some threads or of all threads, each once."""
        pattern = literally(f"{self.prefix}:idx:") + beginning(thread_ids or ())
        pattern += b":*" if thread_ids is not None and len(thread_ids) == 1 else b"*"
        seen: set[bytes] = set()
        after = ("MATCH", pattern, "COUNT", NAMES_AT_ONCE)
        for fields in self.connection.turns("HSCAN", [self.threads], after):
            for name, told in fields.items():
                found = None if name in seen else timeline_of(name, told)
                if found is not None and (thread_ids is None or found.thread_id in thread_ids):
                    seen.add(name)
                    yield found

    def known(self, suffixes: Collection[bytes]) -> dict[bytes, NamespaceEntries]:
        """By suffix (THREAD:NS), its timeline, for the suffixes that are registered."""
        found: dict[bytes, NamespaceEntries] = {}
        start, ordered = raw(f"{self.prefix}:idx:"), sorted(suffixes)
        for at in range(0, len(ordered), NAMES_AT_ONCE):
            some = ordered[at : at + NAMES_AT_ONCE]
            answer = self.connection.ask("HMGET", self.threads, *(start + one for one in some))
            for suffix, told in zip(some, answer, strict=True):
                timeline = None if told is None else timeline_of(start + suffix, told)
                if timeline is not None:
                    found[suffix] = timeline
        return found

    def entries_of(
        self, timelines: Iterable[NamespaceEntries]
    ) -> Iterator[tuple[NamespaceEntries, list[CheckpointEntry]]]:
        """The checkpoints of each timeline, in the order of storing."""
        for some in in_chunks(timelines, _TIMELINES_AT_ONCE):
            answers = self.connection.ask_all(
                ("ZRANGE", one.name, 0, -1, "WITHSCORES") for one in some
            )
            for one, answer in zip(some, list(answers), strict=True):
                pairs = zip(answer[::2], answer[1::2], strict=True) if answer else ()
                places = [self._place(one, text(own), float(score)) for own, score in pairs]
                yield one, self._there(places)

    def _place(self, timeline: NamespaceEntries, own: str, score: float) -> CheckpointEntry:
        key = CheckpointKey(timeline.thread_id, timeline.checkpoint_ns, own)
        return CheckpointEntry(key, self.checkpoint_name(key), rank=score)

    def _there(self, places: list[CheckpointEntry]) -> list[CheckpointEntry]:
        """The checkpoints that still exist, without expired ones."""
        found: list[CheckpointEntry] = []
        for start in range(0, len(places), NAMES_AT_ONCE):
            some = places[start : start + NAMES_AT_ONCE]
            if self.connection.number_of([one.name for one in some]) == len(some):
                found += some
                continue
            there = self.connection.ask_all(("EXISTS", one.name) for one in some)
            found += [one for one, is_there in zip(some, there, strict=True) if is_there]
        return found

    def namespaces(self, prefix: str = "") -> Iterator[ListedNamespace]:  # noqa: ARG002
        for _, places in self.entries_of(self.timelines()):
            yield from namespaces_of(places)

    def places(
        self, thread_ids: Collection[str]
    ) -> dict[str, dict[tuple[str, str], CheckpointEntry]]:
        """By thread, its checkpoints by namespace and id. Does not search for values."""
        found: dict[str, dict[tuple[str, str], CheckpointEntry]] = {one: {} for one in thread_ids}
        for timeline, places in self.entries_of(self.timelines(thread_ids)):
            found[timeline.thread_id].update(by_id(places))
        return found

    def entries(self, names: Sequence[bytes]) -> Iterator[CheckpointEntry]:
        start = raw(f"{self.prefix}:cp:")
        parts = {
            name: name[len(start) :].rpartition(b":") for name in names if name.startswith(start)
        }
        known = self.known({suffix for suffix, _, _ in parts.values()})
        asked = [(known[suffix], text(own)) for suffix, _, own in parts.values() if suffix in known]
        scores = self.connection.ask_all(("ZSCORE", one.name, raw(own)) for one, own in asked)
        places = [
            self._place(one, own, float(score))
            for (one, own), score in zip(asked, list(scores), strict=True)
            if score is not None
        ]
        there = self.connection.ask_all(("EXISTS", one.name) for one in places)
        yield from (one for one, is_there in zip(places, there, strict=True) if is_there)


def by_id(places: Sequence[CheckpointEntry]) -> dict[tuple[str, str], CheckpointEntry]:
    return {(one.key.checkpoint_ns, one.key.checkpoint_id): one for one in places}


def timeline_of(name: bytes, told: bytes) -> NamespaceEntries | None:
    """The timeline of an entry in the registry; None if the entry has another form."""
    try:
        match json.loads(told):
            case {"thread": str() | int() as thread, "ns": str(ns)}:
                found = NamespaceEntries(str(thread), ns, name)
                return found if name.endswith(b":idx:" + found.suffix) else None
    except (ValueError, RecursionError):
        pass
    return None
