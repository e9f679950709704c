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
from tests.kit.harness.counting import BLOBS
from tests.kit.harness.postgres import ShallowPostgresHarness
from tests.kit.savers.redis import PlainRedisSaver, SeeingShallowRedisSaver, dump


class RedisHarness(Harness):
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

    def create(self, folder: Path, server: TestServer | None) -> str:
        assert server is not None
        return server.url

    @cached_property
    def client(self) -> Any:
        """A client of its own, open until the harness is closed."""
        return self.stack.enter_context(redis.Redis.from_url(self.url, protocol=2))

    @contextmanager
    def saver(self) -> Iterator[Any]:
        from tests.kit.savers.redis import SeeingRedisSaver

        with SeeingRedisSaver.from_conn_string(self.url) as saver:
            saver.setup()
            yield saver

    def fingerprint(self) -> object:
        return dump(self.url)

    def rows(self, thread_id: str) -> StoredRows:
        return {kind: sorted(self._rows(kind, thread_id)) for kind in self.KINDS}

    def _rows(self, kind: str, thread_id: str) -> Iterator[tuple[Any, ...]]:
        start = f"{kind}:{thread_id}:".encode()
        for name in self._names(kind, thread_id):
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

    def _names(self, kind: str, thread_id: str) -> list[bytes]:
        start = f"{kind}:{thread_id}:".encode()
        return [one for one in self.client.scan_iter(f"{kind}:*", 5000) if one.startswith(start)]

    def copy(self, thread_id: str, new_id: str, until: str = "~") -> None:
        for kind in ("checkpoint", "checkpoint_write"):
            for name in self._names(kind, thread_id):
                stored = json.loads(self.client.execute_command("JSON.GET", name))
                if stored["checkpoint_id"] > until:
                    continue
                stored["thread_id"] = new_id
                new = self._renamed(name, kind, thread_id, new_id)
                self.client.execute_command("JSON.SET", new, "$", json.dumps(stored))
        for name in self._names("write_keys_zset", thread_id):
            if name.rsplit(b":", 1)[1].decode() > until:
                continue
            members = self.client.zrange(name, 0, -1, withscores=True)
            moved = {
                self._renamed(one, "checkpoint_write", thread_id, new_id): score
                for one, score in members
            }
            self.client.zadd(self._renamed(name, "write_keys_zset", thread_id, new_id), moved)
        heads: dict[bytes, bytes] = {}
        for name in self._names("checkpoint", new_id):
            place = name.removeprefix(b"checkpoint:").rsplit(b":", 1)[0]
            heads[place] = max(heads.get(place, b""), name)
        for place, name in heads.items():
            self.client.set(b"checkpoint_latest:" + place, name)

    def _renamed(self, name: bytes, kind: str, thread_id: str, new_id: str) -> bytes:
        rest = name.removeprefix(f"{kind}:{thread_id}:".encode())
        return f"{kind}:{new_id}:".encode() + rest

    def has_stateful_subgraph(self, thread_id: str) -> bool:
        start = f"checkpoint_latest:{thread_id}:".encode()
        found = [one.removeprefix(start) for one in self._names("checkpoint_latest", thread_id)]
        return any(b":" not in ns and ns != b"__empty__" for ns in found)

    def forget(self, thread_id: str) -> None:
        for kind in self.KINDS:
            for name in self._names(kind, thread_id):
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


class PlainRedisHarness(Harness):
    """The saver of hashes, which needs no modules of Redis."""

    KINDS = ("checkpoint", "writes")
    name: ClassVar[str] = "redis-hash"
    server: ClassVar[str | None] = "redis"
    has_task_paths: ClassVar[bool] = False
    separator: ClassVar[str] = "$"

    def create(self, folder: Path, server: TestServer | None) -> str:
        assert server is not None
        return server.url

    @cached_property
    def client(self) -> Any:
        """A client of its own, open until the harness is closed."""
        return self.stack.enter_context(redis.Redis.from_url(self.url, protocol=2))

    @contextmanager
    def saver(self) -> Iterator[Any]:
        with redis.Redis.from_url(self.url) as client:
            yield PlainRedisSaver(client, self.separator)

    def fingerprint(self) -> object:
        return dump(self.url)

    def rows(self, thread_id: str) -> StoredRows:
        return {
            kind: sorted(
                (name.removeprefix(f"{kind}${thread_id}$".encode()), *_fields(self.client, name))
                for name in self._names(kind, thread_id)
            )
            for kind in self.KINDS
        }

    def _names(self, kind: str, thread_id: str) -> list[bytes]:
        begin = f"{kind}${thread_id}$".encode()
        return [one for one in self.client.scan_iter(f"{kind}$*", 5000) if one.startswith(begin)]

    def copy(self, thread_id: str, new_id: str, until: str = "~") -> None:
        for kind in self.KINDS:
            begin = f"{kind}${thread_id}$".encode()
            for name in self._names(kind, thread_id):
                rest = name.removeprefix(begin)
                if rest.split(b"$")[1].decode() <= until:
                    self.client.copy(name, f"{kind}${new_id}$".encode() + rest)

    def has_stateful_subgraph(self, thread_id: str) -> bool:
        begin = f"checkpoint${thread_id}$".encode()
        found = {
            one.removeprefix(begin).split(b"$")[0] for one in self._names("checkpoint", thread_id)
        }
        return any(ns and b":" not in ns for ns in found)

    def forget(self, thread_id: str) -> None:
        for kind in self.KINDS:
            for name in self._names(kind, thread_id):
                self.client.delete(name)

    def count(self) -> Count:
        found = Count()
        with redis.Redis.from_url(self.url) as client:
            for name in client.scan_iter(count=1000):
                kind = name.partition(self.separator.encode())[0].decode()
                fields = ("checkpoint", "metadata") if kind == "checkpoint" else ("value",)
                size = sum(client.hstrlen(name, one) for one in fields)
                found.add(kind, "checkpoints" if kind == "checkpoint" else "writes", size)
        return found


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

    def rows(self, thread_id: str) -> StoredRows:
        found: StoredRows = {"checkpoints": [], "checkpoint_blobs": [], "writes": []}
        for ns in self._namespaces(thread_id):
            for own in self._ids(thread_id, ns):
                raw = self.client.get(f"lg:cp:{thread_id}:{ns}:{own}")
                stored, metadata, parent, _ = self.kept_saver._parse_checkpoint_payload(raw)
                found["checkpoints"].append((ns, own, parent, repr(stored), "", repr(metadata)))
                writes = self.client.hgetall(f"lg:wr:{thread_id}:{ns}:{own}")
                found["writes"] += [(ns, own, *one) for one in sorted(writes.items())]
            for name, channel, version in self._blobs(thread_id, ns):
                found["checkpoint_blobs"].append((ns, channel, version, self.client.get(name)))
        return {table: sorted(rows) for table, rows in found.items()}

    def _namespaces(self, thread_id: str) -> list[str]:
        told = map(json.loads, self.client.hvals("lg:threads"))
        return sorted(one["ns"] for one in told if one["thread"] == thread_id)

    def _ids(self, thread_id: str, ns: str) -> list[str]:
        return [one.decode() for one in self.client.zrange(f"lg:idx:{thread_id}:{ns}", 0, -1)]

    def _blobs(self, thread_id: str, ns: str) -> Iterator[tuple[bytes, str, str]]:
        start = f"lg:blob:{thread_id}:{ns}:"
        others = [one for one in self._namespaces(thread_id) if one.startswith(f"{ns}:")]
        for name in self.client.scan_iter("lg:blob:*", 5000):
            channel, _, version = name.decode().removeprefix(start).rpartition(":")
            if name.decode().startswith(start) and not any(
                name.decode().startswith(f"lg:blob:{thread_id}:{other}:") for other in others
            ):
                yield name, channel, version

    def copy(self, thread_id: str, new_id: str, until: str = "~") -> None:
        for ns in self._namespaces(thread_id):
            timeline = f"lg:idx:{new_id}:{ns}"
            for own in self._ids(thread_id, ns):
                if own <= until:
                    for kind in ("cp", "wr"):
                        old = f"lg:{kind}:{thread_id}:{ns}:{own}"
                        self.client.copy(old, f"lg:{kind}:{new_id}:{ns}:{own}")
                    self.client.zadd(timeline, {own: self.client.incr("lg:seq")})
            for name, channel, version in self._blobs(thread_id, ns):
                self.client.copy(name, f"lg:blob:{new_id}:{ns}:{channel}:{version}")
            if self.client.exists(timeline):
                self.client.hset("lg:threads", timeline, json.dumps({"thread": new_id, "ns": ns}))

    def has_stateful_subgraph(self, thread_id: str) -> bool:
        return any(ns and ":" not in ns for ns in self._namespaces(thread_id))

    def forget(self, thread_id: str) -> None:
        for ns in self._namespaces(thread_id):
            for name, _, _ in self._blobs(thread_id, ns):
                self.client.delete(name)
        self.kept_saver.delete_thread(thread_id)

    def count(self) -> Count:
        found = Count()
        with redis.Redis.from_url(self.url) as client:
            for name in client.scan_iter(count=1000):
                match name.split(b":")[1:2]:
                    case [b"cp"]:
                        found.add("checkpoint", "checkpoints", client.strlen(name))
                    case [b"blob"]:
                        found.add(BLOBS, "blobs", client.strlen(name))
                    case [b"wr"]:
                        values = client.hvals(name)
                        found.rows["writes"] += 1
                        found.held["writes"] += len(values)
                        found.held["bytes"] += sum(map(len, values))
                    case [b"threads"]:
                        found.rows["threads"] += client.hlen(name)
        return found


def _fields(client: Any, name: bytes) -> tuple[Any, ...]:
    fields = client.hgetall(name)
    metadata = fields.pop(b"metadata", b"")
    return tuple(sorted(fields.items())), "", "", "", metadata
