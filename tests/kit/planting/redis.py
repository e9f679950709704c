"""Changes keys of Redis and Valkey."""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any, ClassVar

from tests.kit.harness.redis import PlainRedisHarness, PlainRedisSaverHarness, RedisHarness
from tests.kit.harness.valkey import AgentCoreValkeyHarness, ValkeyHarness
from tests.kit.planting.base import SERDE, SPOILT, H, Place, Planter, Typed, in_json

BY_CALL = {"lc": 2, "type": "constructor", "id": ["os", "system"], "args": ["true"]}
"""The JSON of an object that a trusting decoder makes by `os.system("true")`."""


class RedisKeysPlanter(Planter[H]):
    """Keys of any layout in Redis, by names that a subclass knows."""

    expires: ClassVar[bool] = True

    @property
    def client(self) -> Any:
        return self.harness.client  # type: ignore[attr-defined]

    def name(self, place: Place) -> str:
        """Return the key of a checkpoint."""
        raise NotImplementedError

    def expire(self, place: Place) -> None:
        self.client.expire(self.name(place), 3600)


class JsonPlanter(RedisKeysPlanter[H]):
    """Documents of RedisJSON."""

    spoils_values: ClassVar[bool] = False
    dangerous: ClassVar[Any] = BY_CALL

    def name(self, at: Place) -> str:
        return f"checkpoint:{at.thread_id}:{at.checkpoint_ns or '__empty__'}:" + (at.checkpoint_id)

    def stored(self, name: str | bytes) -> Any:
        return json.loads(self.client.execute_command("JSON.GET", name))

    def store(self, name: str | bytes, path: str, value: Any) -> None:
        self.client.execute_command("JSON.SET", name, path, json.dumps(value))

    def ids(self, thread_id: str, checkpoint_ns: str) -> list[str]:
        start = self.name(Place(thread_id, checkpoint_ns, ""))
        found = (one.decode() for one in self.client.scan_iter(f"{start}*", 10_000))
        return sorted((one.removeprefix(start) for one in found), reverse=True)

    def namespaces(self, thread_id: str) -> list[str]:
        start = f"checkpoint:{thread_id}:".encode()
        found = self.client.scan_iter(start + b"*", 10_000)
        every = {one.removeprefix(start).rsplit(b":", 1)[0].decode() for one in found}
        return ["" if one == "__empty__" else one for one in every]

    def parent(self, at: Place) -> str | None:
        return self.stored(self.name(at))["parent_checkpoint_id"] or None

    def remove(self, at: Place) -> None:
        self.client.delete(self.name(at))

    def body(self, at: Place) -> Any:
        return self.stored(self.name(at))["checkpoint"]

    def set_body(self, at: Place, body: Any) -> None:
        self.store(self.name(at), "$.checkpoint", body)

    def spoil_body(self, at: Place) -> None:
        self.set_body(at, "spoilt")

    def spoil_metadata(self, at: Place) -> None:
        self.store(self.name(at), "$.metadata", "{spoilt")

    def set_write(self, at: Place, channel: str, change: Callable[[Any], Any]) -> str:
        return self.edit_write(at, channel, in_json(change))

    def edit_write(self, at: Place, channel: str, change: Callable[[Typed], Typed]) -> str:
        name, one = self._write(at, channel)
        _, data = change(("json", b64decode(one["blob"])))
        self.store(name, "$.blob", b64encode(data).decode())
        return str(one["task_id"])

    def _write(self, at: Place, channel: str) -> tuple[bytes, Any]:
        start = self.name(at).replace("checkpoint:", "checkpoint_write:", 1)
        for name in self.client.scan_iter(f"{start}:*", 10_000):
            one = self.stored(name)
            if one["channel"] == channel:
                return name, one
        raise LookupError(channel)


class RedisPlanter(JsonPlanter[RedisHarness]):
    """Documents of langgraph-checkpoint-redis, with a pointer to each head."""

    def forget_head(self, place: Place) -> None:
        parent = self.parent(place)
        assert parent is not None
        self.remove(place)
        self._point_to(place.at(parent))

    def put_behind(self, head: Place, checkpoint_id: str) -> Place:
        child = super().put_behind(head, checkpoint_id)
        self._point_to(head)
        return child

    def _point_to(self, head: Place) -> None:
        ns = head.checkpoint_ns or "__empty__"
        self.client.set(f"checkpoint_latest:{head.thread_id}:{ns}", self.name(head))


class ShallowRedisPlanter(JsonPlanter[RedisHarness]):
    """Documents of the shallow saver: one for each namespace."""

    def name(self, place: Place) -> str:
        return f"checkpoint:{place.thread_id}:{place.checkpoint_ns}"

    def copy(self, thread_id: str, new_id: str) -> None:
        for name in self.client.scan_iter(f"checkpoint:{thread_id}:*", 10_000):
            self.store(self._moved(name, thread_id, new_id), "$", self._renamed(name, new_id))
        for name in self.client.scan_iter(f"checkpoint_write:{thread_id}:*", 10_000):
            self.store(self._moved(name, thread_id, new_id), "$", self._renamed(name, new_id))
        for name in self.client.scan_iter(f"write_registry:{thread_id}:*", 10_000):
            members = self.client.zrange(name, 0, -1, withscores=True)
            moved = {self._moved(one, thread_id, new_id): score for one, score in members}
            self.client.zadd(self._moved(name, thread_id, new_id), moved)

    def _renamed(self, name: bytes, new_id: str) -> Any:
        return {**self.stored(name), "thread_id": new_id}

    def _moved(self, name: bytes, thread_id: str, new_id: str) -> bytes:
        return name.replace(f":{thread_id}:".encode(), f":{new_id}:".encode(), 1)

    def ids(self, thread_id: str, checkpoint_ns: str) -> list[str]:
        return [self.stored(self.name(Place(thread_id, checkpoint_ns, "")))["checkpoint_id"]]

    def namespaces(self, thread_id: str) -> list[str]:
        start = f"checkpoint:{thread_id}:".encode()
        found = self.client.scan_iter(start + b"*", 10_000)
        return [one.removeprefix(start).decode() for one in found]

    def spoil_metadata(self, place: Place) -> None:
        self.store(self.name(place), "$.metadata", "spoilt")

    def _write(self, place: Place, channel: str) -> tuple[bytes, Any]:
        for name in self.client.scan_iter(f"checkpoint_write:{place.thread_id}:*", 10_000):
            one = self.stored(name)
            if one["channel"] == channel and one["checkpoint_id"] == place.checkpoint_id:
                return name, one
        raise LookupError(channel)


class HashPlanter(RedisKeysPlanter[PlainRedisHarness]):
    """Hashes of the saver of LangGraph's guide."""

    def name(self, place: Place) -> str:
        return f"checkpoint${place.thread_id}${place.checkpoint_ns}${place.checkpoint_id}"

    def ids(self, thread_id: str, checkpoint_ns: str) -> list[str]:
        start = f"checkpoint${thread_id}${checkpoint_ns}$"
        found = (one.decode() for one in self.client.scan_iter(f"{start}*", 10_000))
        return sorted((one.removeprefix(start) for one in found), reverse=True)

    def namespaces(self, thread_id: str) -> list[str]:
        found = self.client.scan_iter(f"checkpoint${thread_id}$*", 10_000)
        return list({one.decode().split("$")[2] for one in found})

    def parent(self, place: Place) -> str | None:
        return self.client.hget(self.name(place), "parent_checkpoint_id").decode() or None

    def remove(self, place: Place) -> None:
        self.client.delete(self.name(place))

    def stored_body(self, place: Place) -> Typed:
        tag, data = self.client.hmget(self.name(place), "type", "checkpoint")
        return tag.decode(), data

    def store_body(self, place: Place, typed: Typed) -> None:
        tag, data = typed
        self.client.hset(self.name(place), mapping={"type": tag, "checkpoint": data})

    def spoil_metadata(self, place: Place) -> None:
        self.client.hset(self.name(place), "metadata", SPOILT)

    def edit_write(self, place: Place, channel: str, change: Callable[[Typed], Typed]) -> str:
        start = self.name(place).replace("checkpoint$", "writes$", 1)
        found = [one.decode() for one in self.client.scan_iter(f"{start}$*", 10_000)]
        name: str
        name = next(one for one in found if self.client.hget(one, "channel") == channel.encode())
        tag, data = self.client.hmget(name, "type", "value")
        tag, data = change((tag.decode(), data))
        self.client.hset(name, mapping={"type": tag, "value": data})
        return name.split("$")[4]


class PlainPlanter(RedisKeysPlanter[PlainRedisSaverHarness]):
    """Strings of langgraph-checkpoint-plainredis, whose head is the one that was stored last."""

    def name(self, place: Place, kind: str = "cp") -> str:
        return f"lg:{kind}:{place.thread_id}:{place.checkpoint_ns}:{place.checkpoint_id}"

    def _get(self, name: str) -> Any:
        return SERDE.loads_typed(_unpacked(self.client.get(name)))

    def _set(self, name: str, value: Any) -> None:
        self.client.set(name, _packed(value))

    def ids(self, thread_id: str, checkpoint_ns: str) -> list[str]:
        found = self.client.zrange(f"lg:idx:{thread_id}:{checkpoint_ns}", 0, -1)
        return [one.decode() for one in reversed(found)]

    def namespaces(self, thread_id: str) -> list[str]:
        told = map(json.loads, self.client.hvals("lg:threads"))
        return sorted(one["ns"] for one in told if one["thread"] == thread_id)

    def parent(self, place: Place) -> str | None:
        found: str | None = self._get(self.name(place))["parent_id"]
        return found

    def remove(self, place: Place) -> None:
        self.client.delete(self.name(place))

    def forget_head(self, place: Place) -> None:
        self.remove(place)
        self._leave_out(place)

    def _leave_out(self, place: Place) -> None:
        self.client.zrem(f"lg:idx:{place.thread_id}:{place.checkpoint_ns}", place.checkpoint_id)

    def put_behind(self, head: Place, checkpoint_id: str) -> Place:
        child = super().put_behind(head, checkpoint_id)
        timeline = f"lg:idx:{head.thread_id}:{head.checkpoint_ns}"
        score = self.client.zscore(timeline, head.checkpoint_id)
        self.client.zadd(timeline, {checkpoint_id: score - 0.5})
        return child

    def body(self, place: Place) -> Any:
        return self._get(self.name(place))["checkpoint"]

    def set_body(self, place: Place, body: Any) -> None:
        self._set(self.name(place), {**self._get(self.name(place)), "checkpoint": body})

    def spoil_body(self, place: Place) -> None:
        self.client.set(self.name(place), _packed_bytes("msgpack", SPOILT))

    def spoil_metadata(self, place: Place) -> None:
        whole = self._get(self.name(place))
        self._set(self.name(place), {**whole, "metadata": self.garbage})

    def value(self, place: Place, channel: str) -> Any:
        return self._get(self._blob(place, channel))

    def set_value(self, place: Place, channel: str, value: Any) -> None:
        self._set(self._blob(place, channel), value)

    def remove_value(self, place: Place, channel: str) -> None:
        self.client.delete(self._blob(place, channel))

    def spoil_value(self, place: Place, channel: str) -> None:
        self.client.set(self._blob(place, channel), _packed_bytes("msgpack", SPOILT))

    def add_value(self, place: Place, channel: str) -> None:
        start = f"lg:blob:{place.thread_id}:{place.checkpoint_ns}:{channel}"
        self._set(f"{start}:99", self.value(place, channel))

    def _blob(self, place: Place, channel: str) -> str:
        version = self.body(place)["channel_versions"][channel]
        return f"lg:blob:{place.thread_id}:{place.checkpoint_ns}:{channel}:{version}"

    def set_write(self, place: Place, channel: str, change: Callable[[Any], Any]) -> str:
        name = self.name(place, "wr")
        for field, data in self.client.hgetall(name).items():
            task_id, written, value = SERDE.loads_typed(_unpacked(data))
            if written == channel:
                self.client.hset(name, field, _packed((task_id, channel, change(value))))
                return str(task_id)
        raise LookupError(channel)

    def spoil_write(self, place: Place, channel: str) -> str:
        return self.set_write(place, channel, lambda _: self.garbage)


class ValkeyPlanter(RedisKeysPlanter[ValkeyHarness]):
    """Strings of ValkeySaver, with a list of the checkpoints of each namespace."""

    def name(self, place: Place, kind: str = "checkpoint") -> str:
        start = f"{kind}:{{{place.thread_id}}}:{place.checkpoint_ns}"
        return start if kind == "thread" else f"{start}:{place.checkpoint_id}"

    def _stored(self, place: Place) -> Any:
        return json.loads(self.client.get(self.name(place)))

    def _change(self, place: Place, **fields: Any) -> None:
        text = json.dumps({**self._stored(place), **fields}, separators=(",", ":"))
        self.client.set(self.name(place), text)

    def ids(self, thread_id: str, checkpoint_ns: str) -> list[str]:
        names = self.client.lrange(self.name(Place(thread_id, checkpoint_ns, ""), "thread"), 0, -1)
        return [one.decode() for one in names]

    def namespaces(self, thread_id: str) -> list[str]:
        start = f"thread:{{{thread_id}}}:".encode()
        names = self.client.scan_iter(start + b"*", 10_000)
        return [one.removeprefix(start).decode() for one in names]

    def parent(self, place: Place) -> str | None:
        found: str | None = self._stored(place)["parent_checkpoint_id"]
        return found

    def remove(self, place: Place) -> None:
        self.client.delete(self.name(place))

    def forget_head(self, place: Place) -> None:
        self.remove(place)
        self.client.lrem(self.name(place, "thread"), 0, place.checkpoint_id)

    def put_behind(self, head: Place, checkpoint_id: str) -> Place:
        child = super().put_behind(head, checkpoint_id)
        listed = self.name(head, "thread")
        self.client.lpop(listed)
        self.client.linsert(listed, "AFTER", head.checkpoint_id, checkpoint_id)
        return child

    def stored_body(self, place: Place) -> Typed:
        one = self._stored(place)
        return one["type"], b64decode(one["checkpoint"])

    def store_body(self, place: Place, typed: Typed) -> None:
        tag, data = typed
        self._change(place, type=tag, checkpoint=b64encode(data).decode())

    def spoil_metadata(self, place: Place) -> None:
        self._change(place, metadata=b64encode(SPOILT).decode())

    def edit_write(self, place: Place, channel: str, change: Callable[[Typed], Typed]) -> str:
        name = self.name(place, "writes")
        found = json.loads(self.client.get(name))
        one = next(one for one in found if one["channel"] == channel)
        tag, data = change((one["type"], b64decode(one["value"])))
        one.update(type=tag, value=b64encode(data).decode())
        self.client.set(name, json.dumps(found, separators=(",", ":")))
        return str(one["task_id"])


class AgentCoreValkeyPlanter(RedisKeysPlanter[AgentCoreValkeyHarness]):
    """Strings of AgentCoreValkeySaver, with a list of the checkpoints of each namespace."""

    def name(self, place: Place, kind: str = "checkpoint") -> str:
        return self.harness.key(kind, place.thread_id, place.checkpoint_ns, place.checkpoint_id)

    def _listed(self, place: Place) -> str:
        return self.harness.listed(place.thread_id, place.checkpoint_ns)

    def _stored(self, place: Place) -> Any:
        return json.loads(self.client.get(self.name(place)))

    def _change(self, place: Place, **fields: Any) -> None:
        text = json.dumps({**self._stored(place), **fields}, separators=(",", ":"))
        self.client.set(self.name(place), text)

    def ids(self, thread_id: str, checkpoint_ns: str) -> list[str]:
        names = self.client.lrange(self.harness.listed(thread_id, checkpoint_ns), 0, -1)
        return [one.decode() for one in names]

    def namespaces(self, thread_id: str) -> list[str]:
        return self.harness.namespaces(thread_id)

    def parent(self, place: Place) -> str | None:
        found: str | None = self._stored(place)["parent_checkpoint_id"]
        return found

    def remove(self, place: Place) -> None:
        self.client.delete(self.name(place))

    def forget_head(self, place: Place) -> None:
        self.remove(place)
        self.client.lrem(self._listed(place), 0, place.checkpoint_id)

    def put_behind(self, head: Place, checkpoint_id: str) -> Place:
        child = super().put_behind(head, checkpoint_id)
        listed = self._listed(head)
        self.client.lpop(listed)
        self.client.linsert(listed, "AFTER", head.checkpoint_id, checkpoint_id)
        return child

    def stored_body(self, place: Place) -> Typed:
        one = self._stored(place)["checkpoint_data"]
        return one["type"], b64decode(one["data"])

    def store_body(self, place: Place, typed: Typed) -> None:
        self._change(place, checkpoint_data=_typed(typed))

    def spoil_metadata(self, place: Place) -> None:
        self._change(place, metadata=_typed(("msgpack", SPOILT)))

    def edit_write(self, place: Place, channel: str, change: Callable[[Typed], Typed]) -> str:
        name = self.name(place, "writes")
        for at, text in enumerate(self.client.lrange(name, 0, -1)):
            one = json.loads(text)
            if one["channel"] == channel:
                stored = one["value"]
                made = change((stored["type"], b64decode(stored["data"])))
                one["value"] = _typed(made)
                self.client.lset(name, at, json.dumps(one, separators=(",", ":")))
                return str(one["task_id"])
        raise LookupError(channel)


def _typed(typed: Typed) -> dict[str, str]:
    tag, data = typed
    return {"type": tag, "data": b64encode(data).decode()}


def _unpacked(text: bytes) -> tuple[str, bytes]:
    found = json.loads(text)
    return found["t"], b64decode(found["d"])


def _packed(value: Any) -> str:
    return _packed_bytes(*SERDE.dumps_typed(value))


def _packed_bytes(tag: str, data: bytes) -> str:
    return json.dumps({"t": tag, "d": b64encode(data).decode()})
