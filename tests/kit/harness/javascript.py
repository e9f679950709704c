"""Stores of LangGraph.js, restored from fixtures because Python cannot run its savers."""

import gzip
import json
import re
import shutil
import subprocess
from base64 import b64decode
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pymongo
import pytest
import redis

from ckpt_backends.langgraph_dev.declaration import JAVASCRIPT
from ckpt_backends.testing.harness import Harness, TestServer
from tests.kit.command import FIXTURES
from tests.kit.harness.mongodb import MongoHarness
from tests.kit.harness.redis import RedisHarness
from tests.kit.stores import restore_javascript_documents, restore_javascript_keys

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


class JavaScriptLibrary:
    """LangGraph.js on the store of a harness: the same calls, carried out by a process of node."""

    def __init__(self, harness: Harness, folder: Path) -> None:
        for script in (FIXTURES / "make/js/documents.mjs", Path(__file__).parent / "graph.mjs"):
            shutil.copy(script, folder)
        self._process = subprocess.Popen(
            ["node", "graph.mjs", str(harness.recording), harness.url],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __getattr__(self, name: str) -> Any:
        """Return the function of `graph.mjs` of that name."""

        def call(*words: str) -> Any:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(json.dumps([name, *words]) + "\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())

        return call

    def close(self) -> None:
        self._process.communicate()


class JavaScriptHarness(Harness):
    recording: ClassVar[str | None]
    skipped_scenarios: ClassVar[frozenset[str]] = _LACKING

    unverifiable: ClassVar[frozenset[str]] = frozenset({"share the rows", "fork was given"})

    def library(self, request: pytest.FixtureRequest) -> Any:
        return JavaScriptLibrary(self, request.getfixturevalue("langgraph_js"))

    def recorded_truth(self) -> dict[str, Any]:
        text = gzip.decompress((FOLDER / f"{self.recording}.truth.json.gz").read_bytes())
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
    name: ClassVar[str] = "redis-js"
    recording: ClassVar[str | None] = "redis"
    skipped_scenarios: ClassVar[frozenset[str]] = _LACKING | {"reducers", "zoo-text"}
    """In addition: a Set is read as an object, and RedisJSON rejects half of a surrogate pair."""
    writes_by_arrival: ClassVar[bool] = True
    failing_scenarios: ClassVar[frozenset[str]] = frozenset()
    omits_defaults: ClassVar[bool] = False
    known_mismatches: ClassVar[frozenset[tuple[str, int, str]]] = frozenset(
        {("delta-fork-rarely", 2, "items")}
    )
    """The snapshot in a fork has the version that the older branch gave to the same channel."""

    def accepts_thread_id(self, thread_id: str) -> bool:
        return not re.search(r"[*?\[\]\\]", thread_id)

    def recorded_truth(self) -> dict[str, Any]:
        found: dict[str, Any] = _floating(super().recorded_truth())
        return found

    def restore_recording(self, only: frozenset[str] | None = None) -> None:
        restore_javascript_keys(FOLDER / f"{self.recording}.jsonl.gz", self.url, only)

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
    name: ClassVar[str] = "redis-js-shallow"
    recording: ClassVar[str | None] = "redis-shallow"
    has_history: ClassVar[bool] = False
    skipped_scenarios: ClassVar[frozenset[str]] = (
        JavaScriptRedisHarness.skipped_scenarios
        | frozenset(
            {"fork-invoke", "fork-update", "fork-update-open", "fork-copy", "fork-chat"}
            | {"fork-subgraph", "delta-fork-often", "delta-fork-rarely", "fork-asking"}
        )
    )
    """There is no history to go back to."""


class JavaScriptMongoHarness(JavaScriptHarness, MongoHarness):
    name: ClassVar[str] = "mongodb-js"
    recording: ClassVar[str | None] = "mongodb"
    failing_scenarios: ClassVar[frozenset[str]] = frozenset()

    def restore_recording(self, only: frozenset[str] | None = None) -> None:
        restore_javascript_documents(FOLDER / f"{self.recording}.bson.gz", self.url, only)

    def add(self, thread_id: str) -> None:
        with pymongo.MongoClient[Any](self.url) as client:
            checkpoints = client.get_default_database().checkpoints
            found = checkpoints.find_one({"thread_id": "linear"}, {"_id": 0})
            assert found is not None
            checkpoints.insert_one({**found, "thread_id": thread_id})

    def forget(self, thread_id: str) -> None:
        with pymongo.MongoClient[Any](self.url) as client:
            client.get_default_database().checkpoints.delete_many({"thread_id": thread_id})


class JavaScriptDevHarness(JavaScriptHarness):
    """The saver of LangGraph.js's dev server, which keeps all threads in one file."""

    name: ClassVar[str] = "langgraph-dev-js"
    recording: ClassVar[str | None] = "dev"
    read_only: ClassVar[bool] = True
    skipped_scenarios: ClassVar[frozenset[str]] = _LACKING | {"zoo-bytes"}
    """In addition: the saver does not store that a write was bytes, and cannot load its thread."""

    def create(self, folder: Path, server: TestServer | None) -> str:
        (folder / ".langgraph_api").mkdir()
        return str(folder / ".langgraph_api")

    def saver(self) -> AbstractContextManager[Any]:
        raise TypeError("its saver runs in node")

    @property
    def _file(self) -> Path:
        return Path(self.url) / JAVASCRIPT

    def fingerprint(self) -> object:
        return self._file.read_bytes()

    def recorded_truth(self) -> dict[str, Any]:
        """The saver stores the `thread_id` of a run's metadata, which the truth leaves out."""
        stored = recorded_file()["json"]["storage"]
        threads = super().recorded_truth()
        for name in self.skipped_scenarios & threads.keys():
            del threads[name]
        for name, truth in threads.items():
            for ns, moments in truth["history"].items():
                for one in moments:
                    metadata = json.loads(b64decode(stored[name][ns][one["checkpoint_id"]][1]))
                    one["metadata"] |= {k: v for k, v in metadata.items() if k == "thread_id"}
        return threads

    def restore_recording(self, only: frozenset[str] | None = None) -> None:
        whole = recorded_file()
        kept = whole["json"]["storage"].keys() - self.skipped_scenarios
        kept = kept if only is None else kept & only
        for name, key in (("storage", str), ("writes", lambda place: json.loads(place)[0])):
            entries = whole["json"][name].items()
            whole["json"][name] = {one: value for one, value in entries if key(one) in kept}
        self._file.write_text(json.dumps(whole))

    @contextmanager
    def edited(self) -> Iterator[Any]:
        """Yield what the file stores, `storage` and `writes`, and write it again."""
        whole = json.loads(self._file.read_text())
        yield whole["json"]
        self._file.write_text(json.dumps(whole))

    def add(self, thread_id: str) -> None:
        with self.edited() as stored:
            stored["storage"][thread_id] = stored["storage"]["linear"]

    def forget(self, thread_id: str) -> None:
        with self.edited() as stored:
            del stored["storage"][thread_id]
            for key in [one for one in stored["writes"] if json.loads(one)[0] == thread_id]:
                del stored["writes"][key]


def recorded_file() -> Any:
    return json.loads(gzip.decompress((FOLDER / "dev.json.gz").read_bytes()))
