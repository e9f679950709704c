"""Changes items of Azure Cosmos DB."""

from base64 import b64decode, b64encode
from collections.abc import Callable
from typing import Any

from tests.kit.harness.cosmosdb import CosmosHarness
from tests.kit.planting.base import SPOILT, Place, Planter, Typed


class CosmosPlanter(Planter[CosmosHarness]):
    """Items of a container."""

    def ids(self, thread_id: str, checkpoint_ns: str) -> list[str]:
        start = f"checkpoint${thread_id}${checkpoint_ns}$"
        found = [one["id"] for one in self.harness.items(thread_id)]
        return sorted((one[len(start) :] for one in found if one.startswith(start)), reverse=True)

    def namespaces(self, thread_id: str) -> list[str]:
        found: list[str] = self.harness.seeing.namespaces(
            {"configurable": {"thread_id": thread_id}}
        )
        return found

    def _item(self, place: Place) -> dict[str, Any]:
        partition = f"checkpoint${place.thread_id}${place.checkpoint_ns}$"
        found: dict[str, Any] = self.harness.seeing.container.read_item(
            f"{partition}{place.checkpoint_id}", partition
        )
        return found

    def _set(self, item: dict[str, Any], **fields: Any) -> None:
        self.harness.seeing.container.upsert_item({**item, **fields})

    def parent(self, place: Place) -> str | None:
        return self._item(place)["parent_checkpoint_id"] or None

    def remove(self, place: Place) -> None:
        item = self._item(place)
        self.harness.seeing.container.delete_item(item["id"], item["partition_key"])

    def stored_body(self, place: Place) -> Typed:
        item = self._item(place)
        return item["type"], b64decode(item["checkpoint"])

    def store_body(self, place: Place, typed: Typed) -> None:
        tag, data = typed
        self._set(self._item(place), type=tag, checkpoint=b64encode(data).decode())

    def spoil_metadata(self, place: Place) -> None:
        self._set(self._item(place), metadata=["msgpack", b64encode(SPOILT).decode()])

    def edit_write(self, place: Place, channel: str, change: Callable[[Typed], Typed]) -> str:
        start = f"writes${place.thread_id}${place.checkpoint_ns}${place.checkpoint_id}$"
        for item in self.harness.items(place.thread_id):
            if item["id"].startswith(start) and item["channel"] == channel:
                tag, data = change((item["type"], b64decode(item["value"])))
                self._set(item, type=tag, value=b64encode(data).decode())
                return str(item["id"].split("$")[4])
        raise LookupError(channel)
