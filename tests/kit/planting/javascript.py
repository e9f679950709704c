"""Changes what LangGraph.js stored: in MongoDB, in Redis, and in the file of its dev server.

Its savers do not run in Python.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import replace
from typing import Any, ClassVar

from langgraph.checkpoint.base import WRITES_IDX_MAP

from tests.kit.harness.javascript import (
    JavaScriptDevHarness,
    JavaScriptMongoHarness,
    JavaScriptRedisHarness,
    ShallowJavaScriptRedisHarness,
    writes_key,
)
from tests.kit.planting.base import SPOILT, Place, Planter, Typed, in_json, time_of
from tests.kit.planting.documents import DocumentPlanter
from tests.kit.planting.redis import BY_CALL, JsonPlanter


def child_of(body: dict[str, Any], checkpoint_id: str, values: dict[str, Any]) -> dict[str, Any]:
    """Return the body of a child, with some values replaced under the next version."""
    version = max(body["channel_versions"].values()) + 1
    return {
        **body,
        "id": checkpoint_id,
        "ts": time_of(checkpoint_id).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "channel_values": {**body["channel_values"], **values},
        "channel_versions": {**body["channel_versions"], **dict.fromkeys(values, version)},
    }


class JavaScriptDocumentPlanter(DocumentPlanter[JavaScriptMongoHarness]):
    """Documents of MongoDBSaver of LangGraph.js."""

    is_python = False

    spoils_values: ClassVar[bool] = False
    dangerous: ClassVar[Any] = BY_CALL

    def body(self, place: Place) -> Any:
        return json.loads(self._one(place)["checkpoint"])

    def set_body(self, place: Place, body: Any) -> None:
        self._set(place, {"checkpoint": json.dumps(body).encode()})

    def spoil_metadata(self, place: Place) -> None:
        self._set(place, {"metadata": SPOILT})

    def caller(self, place: Place) -> str:
        found: str = json.loads(self._one(place)["metadata"])["parents"][""]
        return found

    def set_write(self, place: Place, channel: str, change: Callable[[Any], Any]) -> str:
        one = self._write(place, channel)
        data = json.dumps(change(json.loads(one["value"]))).encode()
        self._writes.update_one({"_id": one["_id"]}, {"$set": {"value": data}})
        return str(one["task_id"])

    def put(self, parent: Place, checkpoint_id: str, source: str, **values: Any) -> Place:
        one = self._one(parent)
        metadata = json.loads(one["metadata"])
        metadata.update(source=source, step=metadata["step"] + 1)
        body = child_of(self.body(parent), checkpoint_id, values)
        del one["_id"]
        self._checkpoints.insert_one(
            {
                **one,
                "checkpoint_id": checkpoint_id,
                "parent_checkpoint_id": parent.checkpoint_id,
                "checkpoint": json.dumps(body).encode(),
                "metadata": json.dumps(metadata).encode(),
                "metadata_search": metadata,
            }
        )
        return parent.at(checkpoint_id)

    def remember(self, call: Place) -> Place:
        one = self._one(call)
        del one["_id"]
        memory = replace(call, checkpoint_ns=call.checkpoint_ns.partition(":")[0])
        one.pop("parent_checkpoint_id", None)
        self._checkpoints.insert_one({**one, **self._key(memory)})
        return memory

    def put_writes(self, place: Place, writes: list[tuple[str, Any]], task_id: str) -> None:
        for number, (channel, value) in enumerate(writes):
            named = {"task_id": task_id, "idx": WRITES_IDX_MAP.get(channel, number)}
            stored = {"channel": channel, "type": "json", "value": json.dumps(value).encode()}
            self._writes.insert_one({**self._key(place), **named, **stored})


class JavaScriptRedisPlanter(JsonPlanter[JavaScriptRedisHarness]):
    """Documents of RedisSaver of LangGraph.js, with values apart."""

    is_python = False

    spoils_writes: ClassVar[bool] = False
    KINDS = ("checkpoint", "checkpoint_write", "checkpoint_blob", "write_keys_zset")

    def copy(self, thread_id: str, new_id: str) -> None:
        def moved(name: bytes) -> bytes:
            return name.replace(f":{thread_id}:".encode(), f":{new_id}:".encode(), 1)

        for kind in self.KINDS:
            for name in self.client.scan_iter(f"{kind}:{thread_id}:*", 10_000):
                if kind == "write_keys_zset":
                    members = self.client.zrange(name, 0, -1, withscores=True)
                    self.client.zadd(moved(name), {moved(one): score for one, score in members})
                else:
                    self.store(moved(name), "$", {**self.stored(name), "thread_id": new_id})

    def name(self, place: Place) -> str:
        return f"checkpoint:{place.thread_id}:{place.checkpoint_ns}:{place.checkpoint_id}"

    def caller(self, place: Place) -> str:
        found: str = self.stored(self.name(place))["metadata"]["parents"][""]
        return found

    def spoil_metadata(self, place: Place) -> None:
        self.store(self.name(place), "$.metadata", "spoilt")

    def _blob(self, place: Place, channel: str) -> str:
        version = self.body(place)["channel_versions"][channel]
        return self._blob_at(place, channel, version)

    def _blob_at(self, place: Place, channel: str, version: int) -> str:
        start = f"checkpoint_blob:{place.thread_id}:{place.checkpoint_ns}"
        return f"{start}:{channel}:{version}"

    def value(self, place: Place, channel: str) -> Any:
        return self.stored(self._blob(place, channel))["value"]

    def set_value(self, place: Place, channel: str, value: Any) -> None:
        self.store(self._blob(place, channel), "$.value", value)
        super().set_value(place, channel, value)

    def remove_value(self, place: Place, channel: str) -> None:
        self.client.delete(self._blob(place, channel))
        super().remove_value(place, channel)

    def add_value(self, place: Place, channel: str) -> None:
        stored = self.stored(self._blob(place, channel))
        self.store(self._blob_at(place, channel, 99), "$", {**stored, "version": "99"})

    def set_write(self, place: Place, channel: str, change: Callable[[Any], Any]) -> str:
        name, one = self._write(place, channel)
        self.store(name, "$.value", change(one["value"]))
        return str(one["task_id"])

    def put(self, parent: Place, checkpoint_id: str, source: str, **values: Any) -> Place:
        one = self.stored(self.name(parent))
        body = child_of(one["checkpoint"], checkpoint_id, values)
        step = one["step"] + 1
        child = parent.at(checkpoint_id)
        for channel, value in values.items():
            blob = self.stored(self._blob(parent, channel))
            version = body["channel_versions"][channel]
            stored = {**blob, "checkpoint_id": checkpoint_id, "version": str(version)}
            self.store(self._blob_at(child, channel, version), "$", {**stored, "value": value})
        kept = {name: body["channel_values"][name] for name in values}
        document = {
            **one,
            "checkpoint_id": checkpoint_id,
            "parent_checkpoint_id": parent.checkpoint_id,
            "checkpoint": {**body, "channel_values": kept},
            "metadata": {**one["metadata"], "source": source, "step": step},
            **{"source": source, "step": step, "has_writes": "false"},
        }
        self.store(self.name(child), "$", document)
        return child

    def remember(self, call: Place) -> Place:
        memory = replace(call, checkpoint_ns=call.checkpoint_ns.partition(":")[0])
        own, new = (f":{one.thread_id}:{one.checkpoint_ns}:".encode() for one in (call, memory))
        for kind in ("checkpoint", "checkpoint_blob"):
            for name in self.client.scan_iter(f"{kind}:{call.thread_id}:*", 10_000):
                if own in name and (kind != "checkpoint" or name.decode() == self.name(call)):
                    one = {**self.stored(name), "checkpoint_ns": memory.checkpoint_ns}
                    self.store(name.replace(own, new, 1), "$", one)
        return memory

    def put_writes(self, place: Place, writes: list[tuple[str, Any]], task_id: str) -> None:
        start = self.name(place).replace("checkpoint:", "checkpoint_write:", 1)
        registry = self.name(place).replace("checkpoint:", "write_keys_zset:", 1)
        for number, (channel, value) in enumerate(writes):
            idx = WRITES_IDX_MAP.get(channel, number)
            name = f"{start}:{task_id}:{idx}"
            place_of = {**place.config["configurable"], "task_id": task_id, "idx": idx}
            stored = {"channel": channel, "type": "json", "value": value}
            order = {"timestamp": 9e12 + number, "global_idx": 9e12 + number}
            self.store(name, "$", {**place_of, **stored, **order})
            self.client.zadd(registry, {name: idx})
        if self.client.exists(self.name(place)):
            self.store(self.name(place), "$.has_writes", "true")


class ShallowJavaScriptRedisPlanter(JavaScriptRedisPlanter):
    """Documents of ShallowRedisSaver of LangGraph.js: one for each namespace."""

    harness: ShallowJavaScriptRedisHarness

    def name(self, place: Place) -> str:
        return f"checkpoint:{place.thread_id}:{place.checkpoint_ns}:shallow"

    def ids(self, thread_id: str, checkpoint_ns: str) -> list[str]:
        return [self.stored(self.name(Place(thread_id, checkpoint_ns, "")))["checkpoint_id"]]

    def value(self, place: Place, channel: str) -> Any:
        return self.body(place)["channel_values"][channel]

    def set_value(self, place: Place, channel: str, value: Any) -> None:
        super(JavaScriptRedisPlanter, self).set_value(place, channel, value)

    def remove_value(self, place: Place, channel: str) -> None:
        super(JavaScriptRedisPlanter, self).remove_value(place, channel)

    def _write(self, place: Place, channel: str) -> tuple[bytes, Any]:
        for name in self.client.scan_iter(f"checkpoint_write:{place.thread_id}:*", 10_000):
            one = self.stored(name)
            if one["channel"] == channel and one["checkpoint_id"] == place.checkpoint_id:
                return name, one
        raise LookupError(channel)


class JavaScriptDevPlanter(Planter[JavaScriptDevHarness]):
    """The file of the dev server."""

    is_python = False
    spoils_values: ClassVar[bool] = False
    dangerous: ClassVar[Any] = BY_CALL

    def _rows(self, place: Place) -> Any:
        with self.harness.edited() as stored:
            return stored["storage"][place.thread_id][place.checkpoint_ns]

    def ids(self, thread_id: str, checkpoint_ns: str) -> list[str]:
        return sorted(self._rows(Place(thread_id, checkpoint_ns, "")), reverse=True)

    def namespaces(self, thread_id: str) -> list[str]:
        with self.harness.edited() as stored:
            return list(stored["storage"][thread_id])

    def parent(self, place: Place) -> str | None:
        found: str | None = self._rows(place)[place.checkpoint_id][2]
        return found

    def remove(self, place: Place) -> None:
        with self.harness.edited() as stored:
            del stored["storage"][place.thread_id][place.checkpoint_ns][place.checkpoint_id]

    def _part(self, place: Place, at: int) -> Any:
        return _decoded(self._rows(place)[place.checkpoint_id][at])

    def _set(self, place: Place, at: int, data: bytes) -> None:
        with self.harness.edited() as stored:
            rows = stored["storage"][place.thread_id][place.checkpoint_ns]
            rows[place.checkpoint_id][at] = b64encode(data).decode()

    def body(self, place: Place) -> Any:
        return self._part(place, 0)

    def set_body(self, place: Place, body: Any) -> None:
        self._set(place, 0, json.dumps(body).encode())

    def spoil_body(self, place: Place) -> None:
        self._set(place, 0, SPOILT)

    def spoil_metadata(self, place: Place) -> None:
        self._set(place, 1, SPOILT)

    def caller(self, place: Place) -> str:
        found: str = self._part(place, 1)["parents"][""]
        return found

    def edit_write(self, place: Place, channel: str, change: Callable[[Typed], Typed]) -> str:
        key = writes_key(place.thread_id, place.checkpoint_ns, place.checkpoint_id)
        with self.harness.edited() as stored:
            row = next(row for row in stored["writes"][key].values() if row[1] == channel)
            _, data = change(("json", b64decode(row[2])))
            row[2] = b64encode(data).decode()
            return str(row[0])

    def set_write(self, place: Place, channel: str, change: Callable[[Any], Any]) -> str:
        return self.edit_write(place, channel, in_json(change))

    def put(self, parent: Place, checkpoint_id: str, source: str, **values: Any) -> Place:
        body = child_of(self.body(parent), checkpoint_id, values)
        metadata = self._part(parent, 1)
        metadata.update(source=source, step=metadata["step"] + 1)
        parts = [b64encode(json.dumps(one).encode()).decode() for one in (body, metadata)]
        with self.harness.edited() as stored:
            rows = stored["storage"][parent.thread_id][parent.checkpoint_ns]
            rows[checkpoint_id] = [*parts, parent.checkpoint_id]
        return parent.at(checkpoint_id)

    def remember(self, call: Place) -> Place:
        memory = replace(call, checkpoint_ns=call.checkpoint_ns.partition(":")[0])
        with self.harness.edited() as stored:
            spaces = stored["storage"][call.thread_id]
            body, metadata, _ = spaces[call.checkpoint_ns][call.checkpoint_id]
            spaces[memory.checkpoint_ns] = {call.checkpoint_id: [body, metadata, None]}
        return memory

    def put_writes(self, place: Place, writes: list[tuple[str, Any]], task_id: str) -> None:
        key = writes_key(place.thread_id, place.checkpoint_ns, place.checkpoint_id)
        with self.harness.edited() as stored:
            rows = stored["writes"].setdefault(key, {})
            for number, (channel, value) in enumerate(writes):
                data = b64encode(json.dumps(value).encode()).decode()
                idx = WRITES_IDX_MAP.get(channel, number)
                rows[f"{task_id},{idx}"] = [task_id, channel, data, ""]


def _decoded(data: str) -> Any:
    return json.loads(b64decode(data))
