"""Redis servers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import langgraph_checkpoint_plainredis
import redis

from tests.redis_savers import PlainRedisSaver, SeeingRedisSaver
from tests.travel.places.place import POINTERS, Rows


class RedisPlace:
    """A server of the official saver for Redis."""

    KINDS = ("checkpoint", "checkpoint_write", "write_keys_zset", POINTERS)

    def __init__(self, url: str) -> None:
        self.url = url
        self.client: Any = redis.Redis.from_url(url, protocol=2)
        self._saver = SeeingRedisSaver(redis_url=url)
        self._saver.setup()

    def saver(self) -> Any:
        return self._saver

    def rows(self, thread_id: str) -> Rows:
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

    def has_memory(self, thread_id: str) -> bool:
        start = f"checkpoint_latest:{thread_id}:".encode()
        found = [one.removeprefix(start) for one in self._names("checkpoint_latest", thread_id)]
        return any(b":" not in ns and ns != b"__empty__" for ns in found)

    def forget(self, thread_id: str) -> None:
        for kind in self.KINDS:
            for name in self._names(kind, thread_id):
                self.client.delete(name)

    def close(self) -> None:
        self.client.close()


class PlainRedisPlace:
    """A server of the plain saver."""

    KINDS = ("checkpoint", "writes")

    def __init__(self, url: str) -> None:
        self.url = url
        self.client: Any = redis.Redis.from_url(url, protocol=2)
        self._saver = PlainRedisSaver(self.client)

    def saver(self) -> Any:
        return self._saver

    def rows(self, thread_id: str) -> Rows:
        return {
            kind: sorted(
                (name.removeprefix(f"{kind}${thread_id}$".encode()), *_fields(self.client, name))
                for name in self._names(kind, thread_id)
            )
            for kind in self.KINDS
        }

    def _names(self, kind: str, thread_id: str) -> list[bytes]:
        start = f"{kind}${thread_id}$".encode()
        return [one for one in self.client.scan_iter(f"{kind}$*", 5000) if one.startswith(start)]

    def copy(self, thread_id: str, new_id: str, until: str = "~") -> None:
        for kind in self.KINDS:
            start = f"{kind}${thread_id}$".encode()
            for name in self._names(kind, thread_id):
                rest = name.removeprefix(start)
                if rest.split(b"$")[1].decode() <= until:
                    self.client.copy(name, f"{kind}${new_id}$".encode() + rest)

    def has_memory(self, thread_id: str) -> bool:
        start = f"checkpoint${thread_id}$".encode()
        found = {
            one.removeprefix(start).split(b"$")[0] for one in self._names("checkpoint", thread_id)
        }
        return any(ns and b":" not in ns for ns in found)

    def forget(self, thread_id: str) -> None:
        for kind in self.KINDS:
            for name in self._names(kind, thread_id):
                self.client.delete(name)

    def close(self) -> None:
        self.client.close()


class PlainRedisSaverPlace:
    """A server of langgraph-checkpoint-plainredis."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.client: Any = redis.Redis.from_url(url, protocol=2)
        self._saver = langgraph_checkpoint_plainredis.RedisSaver(self.client)

    def saver(self) -> Any:
        return self._saver

    def rows(self, thread_id: str) -> Rows:
        found: Rows = {"checkpoints": [], "checkpoint_blobs": [], "writes": []}
        for ns in self._namespaces(thread_id):
            for own in self._ids(thread_id, ns):
                raw = self.client.get(f"lg:cp:{thread_id}:{ns}:{own}")
                stored, metadata, parent, _ = self._saver._parse_checkpoint_payload(raw)
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

    def has_memory(self, thread_id: str) -> bool:
        return any(ns and ":" not in ns for ns in self._namespaces(thread_id))

    def forget(self, thread_id: str) -> None:
        for ns in self._namespaces(thread_id):
            for name, _, _ in self._blobs(thread_id, ns):
                self.client.delete(name)
        self._saver.delete_thread(thread_id)

    def close(self) -> None:
        self.client.close()


def _fields(client: Any, name: bytes) -> tuple[Any, ...]:
    fields = client.hgetall(name)
    metadata = fields.pop(b"metadata", b"")
    return tuple(sorted(fields.items())), "", "", "", metadata


@contextmanager
def redis_place(url: str) -> Iterator[RedisPlace]:
    place = RedisPlace(url)
    try:
        yield place
    finally:
        place.close()


@contextmanager
def plain_redis_place(url: str) -> Iterator[PlainRedisPlace]:
    place = PlainRedisPlace(url)
    try:
        yield place
    finally:
        place.close()


@contextmanager
def plain_redis_saver_place(url: str) -> Iterator[PlainRedisSaverPlace]:
    place = PlainRedisSaverPlace(url)
    try:
        yield place
    finally:
        place.close()
