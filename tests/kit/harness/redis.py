"""Redis servers.

Savers for Redis as the tests use them, and the contents of a whole server.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

import langgraph_checkpoint_plainredis
import redis
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    CheckpointTuple,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.redis import RedisSaver, ShallowRedisSaver

from ckpt_backends.testing.counting import Count
from ckpt_backends.testing.harness import POINTERS, Harness, Refusal, StoredRows, TestServer
from tests.kit.harness.listing import listed
from tests.kit.harness.postgres import ShallowPostgresHarness


class _Listing:
    """Goes before a saver of documents: `list` returns what it promises, from the documents."""

    def list(self, config: Any, **chosen: Any) -> Iterator[Any]:
        saver: Any = self
        asked = (config or {}).get("configurable", {})
        places = []
        for name in saver._redis.scan_iter("checkpoint:*", count=1000):
            paths = ("$.thread_id", "$.checkpoint_ns", "$.checkpoint_id")
            stored: Any = saver._redis.json().get(name, *paths)
            thread, ns, own = (stored[path] for path in paths)
            if thread and thread[0] == asked.get("thread_id", thread[0]):
                places.append((own[0], "" if ns[0] == "__empty__" else ns[0], thread[0]))
        names = ("checkpoint_id", "checkpoint_ns", "thread_id")
        found = (
            saver.get_tuple({"configurable": dict(zip(names, place, strict=True))})
            for place in sorted(places, reverse=True)
            if place[1] == asked.get("checkpoint_ns", place[1])
        )
        return listed(found, **chosen)


class SeeingRedisSaver(_Listing, RedisSaver):
    """The official saver with complete reading; it writes as the original.

    The released saver hides writes if its own `put` has overwritten their flag, and returns the
    others in order of arrival, which changes the values of DeltaChannels. Its `list` returns values
    as stored, and for the root those of all namespaces.
    """

    def _load_pending_writes_with_registry_check(
        self,
        thread_id: str,
        checkpoint_ns: str,
        checkpoint_id: str,
        checkpoint_has_writes: bool,
        registry_has_writes: bool,
    ) -> Any:
        registry: Any = self._key_registry
        registered = registry.get_write_keys(thread_id, checkpoint_ns, checkpoint_id)
        stored: list[Any] = [self._redis.json().get(name) for name in registered]
        return _pending(self, stored)


class SeeingShallowRedisSaver(_Listing, ShallowRedisSaver):
    """The official shallow saver, which returns the writes and the names of other checkpoints."""

    def _load_pending_writes(
        self, thread_id: str, checkpoint_ns: str, checkpoint_id: str
    ) -> list[Any]:
        registry = f"write_registry:{thread_id}:{checkpoint_ns or '__empty__'}:shallow"
        names: Any = self._redis.zrange(registry, 0, -1)
        stored: list[Any] = [self._redis.json().get(name) for name in names]
        return _pending(self, [one for one in stored if one["checkpoint_id"] == checkpoint_id])


def _pending(saver: Any, stored: list[Any]) -> list[Any]:
    """Return writes in the order in which LangGraph applies them."""
    ordered = sorted(stored, key=lambda one: (one["task_path"], one["task_id"], one["idx"]))
    read, load = saver._decode_blob, saver.serde.loads_typed
    return [(it["task_id"], it["channel"], load((it["type"], read(it["blob"])))) for it in ordered]


class PlainRedisSaver(BaseCheckpointSaver[int]):
    """A saver of hashes that a LangGraph user published, based on LangGraph's own guide.

    Two things differ: writes are read in numerical order instead of alphabetical order, and `list`
    returns all namespaces if none is requested.
    """

    def __init__(self, client: redis.Redis, separator: str = "$", seconds: int = 0) -> None:
        super().__init__()
        self.client: Any = client
        self.separator = separator
        self.seconds = seconds

    def name(self, *parts: str) -> str:
        return self.separator.join(parts)

    def put(self, config: Any, checkpoint: Any, metadata: Any, new_versions: Any) -> Any:
        place = config["configurable"]
        thread, ns, own = place["thread_id"], place["checkpoint_ns"], checkpoint["id"]
        name = self.name("checkpoint", thread, ns, own)
        kind, data = self.serde.dumps_typed(checkpoint)
        fields = {
            "checkpoint": data,
            "type": kind,
            "checkpoint_id": own,
            "metadata": json.dumps(get_checkpoint_metadata(config, metadata)).encode(),
            "parent_checkpoint_id": place.get("checkpoint_id") or "",
        }
        self.client.hset(name, mapping=fields)
        self._expire(name)
        return {"configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": own}}

    def put_writes(self, config: Any, writes: Any, task_id: str, task_path: str = "") -> None:
        place = config["configurable"]
        at = (place["thread_id"], place["checkpoint_ns"], place["checkpoint_id"])
        is_special = all(channel in WRITES_IDX_MAP for channel, _ in writes)
        for number, (channel, value) in enumerate(writes):
            name = self.name("writes", *at, task_id, str(WRITES_IDX_MAP.get(channel, number)))
            kind, data = self.serde.dumps_typed(value)
            fields = {"channel": channel, "type": kind, "value": data}
            if is_special:
                self.client.hset(name, mapping=fields)
            else:
                for field, stored in fields.items():
                    self.client.hsetnx(name, field, stored)
            self._expire(name)

    def _expire(self, name: str) -> None:
        if self.seconds:
            self.client.expire(name, self.seconds)

    def get_tuple(self, config: Any) -> Any:
        place = config["configurable"]
        own = place.get("checkpoint_id")
        known = self._places(place["thread_id"], place.get("checkpoint_ns", ""))
        found = [one for one in known if own in (None, one[2])]
        return self._tuple(*max(found, key=lambda one: one[2])) if found else None

    def list(self, config: Any, **chosen: Any) -> Iterator[Any]:
        place = (config or {}).get("configurable", {})
        known = self._places(place.get("thread_id"), place.get("checkpoint_ns"))
        found = (one for one in known if place.get("checkpoint_id") in (None, one[2]))
        ordered = sorted(found, key=lambda one: one[2], reverse=True)
        return listed((self._tuple(*one) for one in ordered), **chosen)

    def delete_thread(self, thread_id: str) -> None:
        for kind, parts in (("checkpoint", 2), ("writes", 4)):
            for name in self.client.scan_iter(f"{kind}{self.separator}*", count=1000):
                rest = name.decode().removeprefix(kind + self.separator)
                if rest.rsplit(self.separator, parts)[0] == thread_id:
                    self.client.delete(name)

    def _places(self, thread: str | None, ns: str | None) -> set[tuple[str, str, str]]:
        start = f"checkpoint{self.separator}"
        names = self.client.scan_iter(f"{start}*", count=1000)
        found = {tuple(one.decode().removeprefix(start).rsplit(self.separator, 2)) for one in names}
        return {one for one in found if thread in (None, one[0]) and ns in (None, one[1])}

    def _tuple(self, thread: str, ns: str, own: str) -> CheckpointTuple:
        stored = self.client.hgetall(self.name("checkpoint", thread, ns, own))
        place = {"thread_id": thread, "checkpoint_ns": ns}
        parent = stored[b"parent_checkpoint_id"].decode()
        start = self.name("writes", thread, ns, own, "")
        writes = {}
        for name in self.client.scan_iter(f"*{self.separator}{own}{self.separator}*", count=1000):
            if name.decode().startswith(start):
                task, number = name.decode().removeprefix(start).split(self.separator)
                writes[task, int(number)] = self.client.hgetall(name)
        load = self.serde.loads_typed
        return CheckpointTuple(
            {"configurable": {**place, "checkpoint_id": own}},
            load((stored[b"type"].decode(), stored[b"checkpoint"])),
            json.loads(stored[b"metadata"]),
            {"configurable": {**place, "checkpoint_id": parent}} if parent else None,
            [
                (task, one[b"channel"].decode(), load((one[b"type"].decode(), one[b"value"])))
                for (task, _), one in sorted(writes.items())
            ],
        )


def dump(url: str) -> dict[bytes, Any]:
    """Return what a server holds, with the expiry of each key, and its indexes."""
    with redis.Redis.from_url(url, protocol=2) as connected:
        client: Any = connected
        names = list(client.scan_iter(count=1000))
        with client.pipeline(transaction=False) as asked:
            for name in names:
                asked.type(name)
            for name, kind in zip(names, asked.execute(), strict=True):
                _ask_value(asked, kind, name)
                asked.execute_command("PEXPIRETIME", name)
            told = asked.execute()
        values = zip(told[::2], told[1::2], strict=True)
        found: dict[bytes, Any] = dict(zip(names, values, strict=True))
        try:
            found[b""] = (sorted(client.execute_command("FT._LIST")), -1)
        except redis.ResponseError:
            found[b""] = ([], -1)
    return found


def _ask_value(client: Any, kind: bytes, name: bytes) -> None:
    match kind:
        case b"ReJSON-RL":
            client.execute_command("JSON.GET", name)
        case b"hash":
            client.hgetall(name)
        case b"zset":
            client.zrange(name, 0, -1, withscores=True)
        case b"string":
            client.get(name)
        case b"list":
            client.lrange(name, 0, -1)
        case _:
            raise AssertionError(f"an unexpected kind of key: {name!r}")


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
    official: ClassVar[Any] = SeeingRedisSaver
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
        with self.official.from_conn_string(self.url) as saver:
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
    official: ClassVar[Any] = ShallowRedisSaver
    has_history: ClassVar[bool] = False
    failing_scenarios: ClassVar[frozenset[str]] = ShallowPostgresHarness.failing_scenarios | {
        "zoo-time"
    }
    scenario_errors: ClassVar[type[Exception]] = Exception

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
    run_options: ClassVar[Mapping[str, Any]] = {"durability": "sync"}
    unverifiable: ClassVar[frozenset[str]] = frozenset({"fork was given"})
    values_as_text: ClassVar[bool] = True
    known_mismatches: ClassVar[frozenset[tuple[str, int, str]]] = frozenset(
        {("fork-asking", 2, "items"), ("fork-update-open", 2, "items")}
        | {("fork-chat", step, "messages") for step in (1, 2, 3)}
        | {("fork-update", step, "items") for step in (2, 3)}
        | {
            (f"delta-fork-{often}", step, channel)
            for often in ("often", "rarely")
            for step, channel in (
                *((step, "items_plain") for step in (3, 6, 7)),
                *((2, "items"), (6, "items"), (6, "messages"), (6, "messages_plain")),
            )
        }
    )
    """The saver numbers versions per branch, so after LangGraph's time travel the values of one
    branch overwrite those of the other.
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
