"""Redis servers."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import langgraph_checkpoint_plainredis
import redis

from ckpt_backends.testing.counting import Count
from ckpt_backends.testing.harness import POINTERS, Harness, Refusal, StoredRows, TestServer
from tests.kit.harness.postgres import ShallowPostgresHarness
from tests.kit.savers.redis import PlainRedisSaver, SeeingShallowRedisSaver, dump


class KeysHarness(Harness):
    """A layout in the keys of a separate server."""

    scheme: ClassVar[str] = "redis"

    def create(self, folder: Path, server: TestServer | None) -> str:
        assert server is not None
        return server.url.replace("redis:", f"{self.scheme}:")

    @property
    def address(self) -> str:
        """The URL for drivers of Redis."""
        return self.url.replace(f"{self.scheme}:", "redis:")

    @cached_property
    def client(self) -> Any:
        return self.stack.enter_context(redis.Redis.from_url(self.address, protocol=2))

    def names(self, kind: str, thread_id: str) -> list[bytes]:
        """The keys of a kind that belong to a thread."""
        start = f"{kind}:{thread_id}:".encode()
        return [one for one in self.client.scan_iter(f"{kind}:*", 5000) if one.startswith(start)]

    def fingerprint(self) -> object:
        return dump(self.address)


class RedisHarness(KeysHarness):
    """langgraph-checkpoint-redis on a separate server."""

    KINDS = ("checkpoint", "checkpoint_write", "write_keys_zset", POINTERS)
    name: ClassVar[str] = "redis"
    server: ClassVar[str | None] = "redis_stack"
    failing_scenarios: ClassVar[frozenset[str]] = frozenset({"zoo-time"})
    """JSON has no times with a time zone."""
    scenario_errors: ClassVar[Refusal] = TypeError
    skipped_scenarios: ClassVar[frozenset[str]] = frozenset(
        {"zoo-pydantic", "zoo-times", "zoo-uuid-decimal", "zoo-path-regex", "zoo-numpy"}
    )
    values_as_documents: ClassVar[bool] = True
    omits_defaults: ClassVar[bool] = True

    @contextmanager
    def saver(self) -> Iterator[Any]:
        from tests.kit.savers.redis import SeeingRedisSaver

        with SeeingRedisSaver.from_conn_string(self.url) as saver:
            saver.setup()
            yield saver

    def rows(self, thread_id: str) -> StoredRows:
        return {kind: sorted(self._rows(kind, thread_id)) for kind in self.KINDS}

    def _rows(self, kind: str, thread_id: str) -> Iterator[tuple[Any, ...]]:
        start = f"{kind}:{thread_id}:".encode()
        for name in self.names(kind, thread_id):
            rest = name.removeprefix(start)
            if kind == POINTERS:
                yield rest, self.client.get(name).removeprefix(f"checkpoint:{thread_id}:".encode())
            elif kind == "write_keys_zset":
                members = self.client.zrange(name, 0, -1)
                yield rest, tuple(one.split(thread_id.encode(), 1)[1] for one in members)
            else:
                stored = json.loads(self.client.execute_command("JSON.GET", name))
                # The saver sets this flag when it adds writes to a checkpoint.
                flags = {"thread_id", "has_writes"}
                kept = {part: value for part, value in stored.items() if part not in flags}
                # The metadata is the sixth part, as in the tables of the other places.
                metadata = kept.pop("metadata", "")
                yield rest, json.dumps(kept, sort_keys=True), "", "", "", metadata

    def copy(self, thread_id: str, new_id: str, until: str = "~") -> None:
        for kind in ("checkpoint", "checkpoint_write"):
            for name in self.names(kind, thread_id):
                stored = json.loads(self.client.execute_command("JSON.GET", name))
                if stored["checkpoint_id"] > until:
                    continue
                stored["thread_id"] = new_id
                new = self._renamed(name, kind, thread_id, new_id)
                self.client.execute_command("JSON.SET", new, "$", json.dumps(stored))
        for name in self.names("write_keys_zset", thread_id):
            if name.rsplit(b":", 1)[1].decode() > until:
                continue
            members = self.client.zrange(name, 0, -1, withscores=True)
            moved = {
                self._renamed(one, "checkpoint_write", thread_id, new_id): score
                for one, score in members
            }
            self.client.zadd(self._renamed(name, "write_keys_zset", thread_id, new_id), moved)
        heads: dict[bytes, bytes] = {}
        for name in self.names("checkpoint", new_id):
            place = name.removeprefix(b"checkpoint:").rsplit(b":", 1)[0]
            heads[place] = max(heads.get(place, b""), name)
        for place, name in heads.items():
            self.client.set(b"checkpoint_latest:" + place, name)

    def _renamed(self, name: bytes, kind: str, thread_id: str, new_id: str) -> bytes:
        rest = name.removeprefix(f"{kind}:{thread_id}:".encode())
        return f"{kind}:{new_id}:".encode() + rest

    def forget(self, thread_id: str) -> None:
        for kind in self.KINDS:
            for name in self.names(kind, thread_id):
                self.client.delete(name)

    def count(self) -> Count:
        found = Count()
        with redis.Redis.from_url(self.url) as client:
            for name in client.scan_iter(count=1000):
                kind = name.partition(b":")[0].decode()
                if not kind.startswith(("checkpoint", "write_")):
                    continue
                paths = {
                    "checkpoint": ["$.checkpoint", "$.metadata"],
                    "checkpoint_write": ["$.blob", "$.value"],
                    "checkpoint_blob": ["$.value"],
                }.get(kind)
                if paths is None:
                    found.rows[kind] += 1
                    continue
                sizes = [client.execute_command("JSON.DEBUG", "MEMORY", name, one) for one in paths]
                what = {"checkpoint": "checkpoints", "checkpoint_write": "writes"}.get(
                    kind, "blobs"
                )
                found.add(kind, what, sum(size[0] for size in sizes if size))
        return found


class ShallowRedisHarness(RedisHarness):
    """The saver that keeps only the newest checkpoint of each namespace."""

    name: ClassVar[str] = "redis-shallow"
    has_history: ClassVar[bool] = False
    failing_scenarios: ClassVar[frozenset[str]] = ShallowPostgresHarness.failing_scenarios | {
        "zoo-time"
    }
    scenario_errors: ClassVar[type[Exception]] = Exception

    @contextmanager
    def saver(self) -> Iterator[Any]:
        from langgraph.checkpoint.redis.shallow import ShallowRedisSaver

        with ShallowRedisSaver.from_conn_string(self.url) as saver:
            saver.setup()
            yield saver

    def corrected_saver(self, saver: Any) -> Any:
        return SeeingShallowRedisSaver(redis_client=saver._redis)

    def forget(self, thread_id: str) -> None:
        with self.saver() as saver:
            saver.delete_thread(thread_id)
        super().forget(thread_id)


class PlainRedisHarness(KeysHarness):
    """The saver of hashes, which needs no modules of Redis."""

    name: ClassVar[str] = "redis-hash"
    server: ClassVar[str | None] = "redis"
    has_task_paths: ClassVar[bool] = False
    separator: ClassVar[str] = "$"

    @contextmanager
    def saver(self) -> Iterator[Any]:
        with redis.Redis.from_url(self.url) as client:
            yield PlainRedisSaver(client, self.separator)


class PlainRedisSaverHarness(PlainRedisHarness):
    """langgraph-checkpoint-plainredis on a separate server, without modules."""

    name: ClassVar[str] = "redis-plain"
    unverifiable: ClassVar[frozenset[str]] = frozenset({"fork was given"})
    values_as_text: ClassVar[bool] = True
    known_mismatches: ClassVar[frozenset[tuple[str, int, str]]] = frozenset(
        {("fork-asking", 2, "items"), ("fork-update-open", 2, "items"), ("zoo-bytes", 3, "value")}
        | {("fork-chat", step, "messages") for step in (1, 2, 3)}
        | {("fork-update", step, "items") for step in (2, 3)}
        | {
            (f"delta-fork-{often}", step, "items_plain")
            for often in ("often", "rarely")
            for step in (3, 5, 6, 7)
        }
        | {(f"delta-fork-{often}", 6, "messages_plain") for often in ("often", "rarely")}
        | {("delta-fork-often", 6, "messages")}
    )
    """The saver numbers versions per branch, so after LangGraph's time travel the values of one
    branch overwrite those of the other. A bytearray in a write is read as bytes.
    """

    @contextmanager
    def saver(self) -> Iterator[Any]:
        saver = langgraph_checkpoint_plainredis.RedisSaver(url=self.url)
        try:
            yield saver
        finally:
            saver.close()

    def forget(self, thread_id: str) -> None:
        self.kept_saver.delete_thread(thread_id)
        # The saver leaves values that no checkpoint has any more.
        for name in self.names("lg:blob", thread_id):
            self.client.delete(name)
