"""Changes documents of MongoDB."""

from collections.abc import Callable
from typing import Any

from tests.kit.harness.mongodb import MongoHarness
from tests.kit.planting.base import SPOILT, Place, Planter, Typed


class MongoPlanter(Planter[MongoHarness]):
    """Documents of langgraph-checkpoint-mongodb."""

    @property
    def _checkpoints(self) -> Any:
        return self.harness.database["checkpoints"]

    @property
    def _writes(self) -> Any:
        return self.harness.database["checkpoint_writes"]

    def remove(self, place: Place) -> None:
        self._checkpoints.delete_one(self._key(place))

    def spoil_body(self, place: Place) -> None:
        self._set(place, {"checkpoint": SPOILT})

    def spoil_metadata(self, place: Place) -> None:
        self._set(place, {"metadata.source": ["msgpack", SPOILT]})

    def stored_body(self, place: Place) -> Typed:
        one = self._one(place)
        return one["type"], one["checkpoint"]

    def store_body(self, place: Place, typed: Typed) -> None:
        tag, data = typed
        self._set(place, {"type": tag, "checkpoint": data})

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
