"""Changes documents of MongoDB."""

import json
import os
import pickle
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from langgraph.checkpoint.base import WRITES_IDX_MAP

from tests.kit.harness.javascript import JavaScriptMongoHarness
from tests.kit.harness.kaflow import KaflowHarness
from tests.kit.harness.mongodb import MongoHarness
from tests.kit.planting.base import SPOILT, H, Place, Planter, Typed, time_of
from tests.kit.planting.redis import BY_CALL


class DocumentPlanter(Planter[H]):
    """What the collections of all savers have in common."""

    cell: ClassVar[str] = "checkpoint"
    """The field with the body."""

    @property
    def _checkpoints(self) -> Any:
        return self.harness.database["checkpoints"]  # type: ignore[attr-defined]

    @property
    def _writes(self) -> Any:
        return self.harness.database["checkpoint_writes"]  # type: ignore[attr-defined]

    def remove(self, place: Place) -> None:
        self._checkpoints.delete_one(self._key(place))

    def spoil_body(self, place: Place) -> None:
        self._set(place, {self.cell: SPOILT})

    def spoil_metadata(self, place: Place) -> None:
        self._set(place, {"metadata.source": ["msgpack", SPOILT]})

    def stored_body(self, place: Place) -> Typed:
        one = self._one(place)
        return one["type"], one[self.cell]

    def store_body(self, place: Place, typed: Typed) -> None:
        tag, data = typed
        self._set(place, {"type": tag, self.cell: data})

    def edit_write(self, place: Place, channel: str, change: Callable[[Typed], Typed]) -> str:
        one = self._write(place, channel)
        tag, data = change((one["type"], one["value"]))
        self._writes.update_one({"_id": one["_id"]}, {"$set": {"type": tag, "value": data}})
        return str(one["task_id"])

    def _key(self, place: Place) -> dict[str, str]:
        return dict(place.config["configurable"])

    def _one(self, place: Place) -> Any:
        return self._checkpoints.find_one(self._key(place))

    def _write(self, place: Place, channel: str) -> Any:
        return self._writes.find_one({**self._key(place), "channel": channel})

    def _set(self, place: Place, fields: dict[str, Any]) -> None:
        self._checkpoints.update_one(self._key(place), {"$set": fields})


class MongoPlanter(DocumentPlanter[MongoHarness]):
    """Documents of langgraph-checkpoint-mongodb."""


class _Calls:
    """An object whose pickle calls `os.system("true")`."""

    def __reduce__(self) -> Any:
        return os.system, ("true",)


class KaflowPlanter(DocumentPlanter[KaflowHarness]):
    """Documents of KaFlow, whose head is the one that was stored last."""

    cell: ClassVar[str] = "checkpoint_data"
    spoils_values: ClassVar[bool] = False
    spoils_metadata: ClassVar[bool] = False
    dangerous: ClassVar[Any] = _Calls()

    def put_behind(self, head: Place, checkpoint_id: str) -> Place:
        child = super().put_behind(head, checkpoint_id)
        before = self._one(head)["created_at"] - timedelta(milliseconds=1)
        self._set(child, {"created_at": before})
        return child

    def put_ahead(self, head: Place) -> Place:
        child = super().put_ahead(head)
        self._set(child, {"created_at": datetime.now(UTC) + timedelta(days=1)})
        return child

    def body(self, place: Place) -> Any:
        return pickle.loads(self._one(place)[self.cell])

    def set_body(self, place: Place, body: Any) -> None:
        self._set(place, {self.cell: pickle.dumps(body)})

    def _key(self, place: Place) -> dict[str, str]:
        return {"thread_id": place.thread_id, "checkpoint_id": place.checkpoint_id}


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
