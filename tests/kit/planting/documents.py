"""Changes documents of MongoDB."""

import os
import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from tests.kit.harness.kaflow import KaflowHarness
from tests.kit.harness.mongodb import MongoHarness
from tests.kit.planting.base import SPOILT, H, Place, Planter, Typed


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

    def ids(self, thread_id: str, checkpoint_ns: str) -> list[str]:
        where = {"thread_id": thread_id, "checkpoint_ns": checkpoint_ns}
        found = self._checkpoints.find(where).sort("checkpoint_id", -1)
        return [one["checkpoint_id"] for one in found]

    def namespaces(self, thread_id: str) -> list[str]:
        found: list[str] = self._checkpoints.distinct("checkpoint_ns", {"thread_id": thread_id})
        return found

    def parent(self, place: Place) -> str | None:
        found: str | None = self._one(place)["parent_checkpoint_id"]
        return found

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

    def ids(self, thread_id: str, checkpoint_ns: str) -> list[str]:
        found = self._checkpoints.find({"thread_id": thread_id}).sort("created_at", -1)
        return [one["checkpoint_id"] for one in found]

    def namespaces(self, thread_id: str) -> list[str]:
        return [""]

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
