"""Savers for Redis as the tests use them, and the contents of a whole server."""

import json
from collections.abc import Iterator
from typing import Any

import redis
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    CheckpointTuple,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.redis import RedisSaver, ShallowRedisSaver


class SeeingRedisSaver(RedisSaver):
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

    def list(self, config: Any, **asked: Any) -> Iterator[Any]:
        return _list(self, config, **asked)


class SeeingShallowRedisSaver(ShallowRedisSaver):
    """The official shallow saver, which returns the writes and the names of other checkpoints."""

    def _load_pending_writes(
        self, thread_id: str, checkpoint_ns: str, checkpoint_id: str
    ) -> list[Any]:
        registry = f"write_registry:{thread_id}:{checkpoint_ns or '__empty__'}:shallow"
        names: Any = self._redis.zrange(registry, 0, -1)
        stored: list[Any] = [self._redis.json().get(name) for name in names]
        return _pending(self, [one for one in stored if one["checkpoint_id"] == checkpoint_id])

    def list(self, config: Any, **asked: Any) -> Iterator[Any]:
        return _list(self, config, **asked)


def _pending(saver: Any, stored: list[Any]) -> list[Any]:
    """Return writes in the order in which LangGraph applies them."""
    ordered = sorted(stored, key=lambda one: (one["task_path"], one["task_id"], one["idx"]))
    read, load = saver._decode_blob, saver.serde.loads_typed
    return [(it["task_id"], it["channel"], load((it["type"], read(it["blob"])))) for it in ordered]


def _list(
    saver: Any, config: Any, *, before: Any = None, limit: int | None = None, **more: Any
) -> Iterator[Any]:
    """Return what `list` promises, from the documents themselves."""
    asked, wanted = (config or {}).get("configurable", {}), more.get("filter")
    places = []
    for name in saver._redis.scan_iter("checkpoint:*", count=1000):
        paths = ("$.thread_id", "$.checkpoint_ns", "$.checkpoint_id")
        stored: Any = saver._redis.json().get(name, *paths)
        thread, ns, own = (stored[path] for path in paths)
        if thread and thread[0] == asked.get("thread_id", thread[0]):
            places.append((own[0], "" if ns[0] == "__empty__" else ns[0], thread[0]))
    last = (before or {}).get("configurable", {}).get("checkpoint_id")
    given = 0
    for own, ns, thread in sorted(places, reverse=True):
        if ns != asked.get("checkpoint_ns", ns) or (last and own >= last):
            continue
        found = saver.get_tuple(
            {"configurable": {"thread_id": thread, "checkpoint_ns": ns, "checkpoint_id": own}}
        )
        assert found is not None
        if all(found.metadata.get(name) == value for name, value in (wanted or {}).items()):
            if given == limit:
                return
            given += 1
            yield found


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

    def list(self, config: Any, *, limit: int | None = None, **asked: Any) -> Iterator[Any]:
        place = (config or {}).get("configurable", {})
        last = (asked.get("before") or {}).get("configurable", {}).get("checkpoint_id")
        wanted = (asked.get("filter") or {}).items()
        known = self._places(place.get("thread_id"), place.get("checkpoint_ns"))
        given = 0
        for thread, ns, own in sorted(known, key=lambda one: one[2], reverse=True):
            if (last and own >= last) or place.get("checkpoint_id", own) != own:
                continue
            found = self._tuple(thread, ns, own)
            if all(found.metadata.get(name) == value for name, value in wanted):
                if given == limit:
                    return
                given += 1
                yield found

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
            kinds = asked.execute()
            for name, kind in zip(names, kinds, strict=True):
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
