"""The layout of langgraph-checkpoint-plainredis, and how it is recognised."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ckpt_backends.apps.plainredis.contents import PlainContents
from ckpt_backends.apps.plainredis.removal import PlainRemoval
from ckpt_backends.apps.plainredis.store import PlainRedisStore
from ckpt_backends.apps.plainredis.thread_keys import PlainKeyFinder
from ckpt_backends.apps.plainredis.timelines import USUAL_PREFIX
from ckpt_backends.apps.plainredis.write import PlainPlan
from ckpt_backends.changes.change import Change
from ckpt_backends.protocol import Store
from ckpt_backends.redis.engine.keyspace import HASH, literally, raw, text
from ckpt_backends.redis.engine.purge_lock import PurgeLock
from ckpt_backends.redis.engine.recognition import RecognisedStore, Recogniser
from ckpt_backends.url import StoreUrl


class Plain(PlainContents):
    """The layout of langgraph-checkpoint-plainredis."""

    def open(self, url: StoreUrl) -> Store:
        return PlainRedisStore(self, url)

    def finder(self) -> PlainKeyFinder:
        return PlainKeyFinder(self)

    def plan(self, change: Change) -> PlainPlan:
        return PlainPlan(self, change)

    def removals(self, lock: PurgeLock, thread_ids: Sequence[str]) -> Iterator[PlainRemoval]:
        finder = self.finder()
        return (PlainRemoval(finder, lock, keys) for keys in finder.find(thread_ids))


class PlainRecogniser(Recogniser):
    """Finds the stores of langgraph-checkpoint-plainredis by their registries."""

    rank = 3
    layouts = ("redis-plain",)

    def named(self, layout: str, prefix: str | None, write_prefix: str | None) -> RecognisedStore:  # noqa: ARG002
        return self._store((prefix or USUAL_PREFIX).rstrip(":"))

    def _store(self, prefix: str) -> RecognisedStore:
        return RecognisedStore(
            "redis-plain",
            lambda: Plain(self.connection, prefix),
            prefix,
            None,
            prefix == USUAL_PREFIX,
        )

    def is_certain(self, layout: str) -> bool:  # noqa: ARG002
        return self.database.prefix is not None

    def stores(self) -> list[RecognisedStore]:
        if self.database.write_prefix is None and self._has_threads(self._prefix):
            return [self._store(self._prefix)]
        return []

    def stores_if_alone(self) -> list[RecognisedStore]:
        """A store without threads has a counter. Also search all prefixes, if none is named."""
        names = (raw(f"{self._prefix}:threads"), raw(f"{self._prefix}:seq"))
        kinds = list(self.connection.ask_all(("TYPE", name) for name in names))
        if self.database.write_prefix is None and kinds == [b"none", b"string"]:
            return [self._store(self._prefix)]
        if self.database.prefix is not None:
            return []
        end = b":threads"
        found = {
            text(name.removesuffix(end))
            for names in self.connection.scan(b"*" + end, HASH)
            for name in names
        }
        return [self._store(one) for one in sorted(found) if self._has_threads(one)]

    @property
    def _prefix(self) -> str:
        asked = self.database.prefix
        return USUAL_PREFIX if asked is None else asked.rstrip(":")

    def _has_threads(self, prefix: str) -> bool:
        registry = raw(f"{prefix}:threads")
        if self.connection.ask("TYPE", registry) != b"hash":
            return False
        pattern = literally(f"{prefix}:idx:") + b"*"
        return any(self.connection.turns("HSCAN", [registry], ["MATCH", pattern, "COUNT", 1000]))

    def expected(self, prefix: str | None) -> str:
        return f"{prefix or USUAL_PREFIX}:threads"
