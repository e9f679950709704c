"""Stores of LangGraph.js, restored from fixtures because Python cannot run its savers."""

from __future__ import annotations

import gzip
import json
import re
from typing import Any, ClassVar

import pymongo
import redis

from ckpt_backends.testing.harness import Harness
from tests.harness.mongodb import MongoHarness
from tests.harness.redis import RedisHarness
from tests.restore import restore_javascript_documents, restore_javascript_keys
from tests.support import FIXTURES

FOLDER = FIXTURES / "js-1.7.3"
_LACKING = frozenset(
    # LangGraph.js has no such graph or value.
    {"4711", "async-asking", "async-join", "async-linear", "cached", "delta-exit-rarely"}
    | {"delta-removed", "delta-reset", "delta-stopped", "durability-async", "error-handled"}
    | {"durability-exit-asking", "durability-exit-error", "root-list", "root-messages"}
    | {"subgraph-stateful", "subgraph-twice", "zoo-dataclass", "zoo-enum", "zoo-floats"}
    | {"zoo-ints", "zoo-namedtuple", "zoo-numpy", "zoo-path-regex", "zoo-pydantic", "zoo-sets"}
    | {"zoo-time", "zoo-times", "zoo-uuid-decimal"}
)


class JavaScriptHarness(Harness):
    """Common parts of the benches of LangGraph.js."""

    fixture: ClassVar[str | None]
    mangled: ClassVar[frozenset[str]] = _LACKING

    def told(self) -> dict[str, Any]:
        text = gzip.decompress((FOLDER / f"{self.fixture}.truth.json.gz").read_bytes())
        threads: dict[str, Any] = json.loads(text)["threads"]
        # LangGraph.js treats the answer to one of two questions as the task's output.
        threads["interrupt-second"]["waiting_own"] = ["ask"]
        return threads


def _floating(form: Any) -> Any:
    """Return a JSON form with integers beyond 64 bits as floats, as RedisJSON stores them."""
    if isinstance(form, list):
        return [_floating(one) for one in form]
    match form:
        case {"$int": str(digits)} if not -(1 << 63) <= int(digits) < 1 << 63:
            return float(digits)
        case dict():
            return {name: _floating(one) for name, one in form.items()}
    return form


class JavaScriptRedisHarness(JavaScriptHarness, RedisHarness):
    """RedisSaver of LangGraph.js."""

    name: ClassVar[str] = "redis-js"
    fixture: ClassVar[str | None] = "redis"
    mangled: ClassVar[frozenset[str]] = _LACKING | {"reducers", "zoo-text"}
    """In addition: a Set is read as an object, and RedisJSON rejects half of a surrogate pair."""
    by_arrival: ClassVar[bool] = True
    refused: ClassVar[frozenset[str]] = frozenset()
    sparse: ClassVar[bool] = False

    def takes(self, thread_id: str) -> bool:
        return not re.search(r"[*?\[\]\\]", thread_id)

    def told(self) -> dict[str, Any]:
        found: dict[str, Any] = _floating(super().told())
        return found

    def restore(self) -> None:
        restore_javascript_keys(FOLDER / f"{self.fixture}.jsonl.gz", self.url)

    def add(self, thread_id: str) -> None:
        with redis.Redis.from_url(self.url) as client:
            for name in client.scan_iter("checkpoint:linear:*"):
                new = name.replace(b"linear", thread_id.encode())
                client.copy(name, new)
                client.execute_command("JSON.SET", new, "$.thread_id", json.dumps(thread_id))

    def forget(self, thread_id: str) -> None:
        with redis.Redis.from_url(self.url) as client:
            client.delete(*client.scan_iter(f"checkpoint:{thread_id}:*"))


class ShallowJavaScriptRedisHarness(JavaScriptRedisHarness):
    """ShallowRedisSaver of LangGraph.js."""

    name: ClassVar[str] = "redis-js-shallow"
    fixture: ClassVar[str | None] = "redis-shallow"
    has_history: ClassVar[bool] = False
    mangled: ClassVar[frozenset[str]] = JavaScriptRedisHarness.mangled | frozenset(
        {"fork-invoke", "fork-update", "fork-update-open", "fork-copy", "fork-chat"}
        | {"fork-subgraph", "delta-fork-often", "delta-fork-rarely", "fork-asking"}
    )
    """There is no history to go back to."""


class JavaScriptMongoHarness(JavaScriptHarness, MongoHarness):
    """MongoDBSaver of LangGraph.js."""

    name: ClassVar[str] = "mongodb-js"
    fixture: ClassVar[str | None] = "mongodb"
    refused: ClassVar[frozenset[str]] = frozenset()

    def restore(self) -> None:
        restore_javascript_documents(FOLDER / f"{self.fixture}.bson.gz", self.url)

    def add(self, thread_id: str) -> None:
        with pymongo.MongoClient[Any](self.url) as client:
            checkpoints = client.get_default_database().checkpoints
            found = checkpoints.find_one({"thread_id": "linear"}, {"_id": 0})
            assert found is not None
            checkpoints.insert_one({**found, "thread_id": thread_id})

    def forget(self, thread_id: str) -> None:
        with pymongo.MongoClient[Any](self.url) as client:
            client.get_default_database().checkpoints.delete_many({"thread_id": thread_id})
