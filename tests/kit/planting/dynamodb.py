"""Changes items of DynamoDB."""

from collections.abc import Callable
from functools import cache
from typing import Any

from tests.kit.harness.dynamodb import DynamoDbHarness, _moved
from tests.kit.planting.base import SERDE, SPOILT, Place, Planter, Typed


class DynamoDbPlanter(Planter[DynamoDbHarness]):
    """Items of `DynamoDBSaver`: what a row is, and its payload apart."""

    def copy(self, thread_id: str, new_id: str) -> None:
        # The harness reads the whole table for each copy, which takes long as it grows.
        for item in self._originals(thread_id):
            self._put(_moved(item, thread_id, new_id))

    @cache  # noqa: B019 - a planter lives as long as its store
    def _originals(self, thread_id: str) -> list[dict[str, Any]]:
        return list(self.harness._of(thread_id))

    def _query(self, partition: str) -> list[dict[str, Any]]:
        pages = self.harness.client.get_paginator("query").paginate(
            TableName=self.harness.table,
            KeyConditionExpression="PK = :pk",
            ExpressionAttributeValues={":pk": {"S": partition}},
        )
        return [one for page in pages for one in page["Items"]]

    def _entries(self, thread_id: str) -> list[tuple[str, str]]:
        """Return namespace and id of all checkpoints."""
        found = [one["SK"]["S"] for one in self._query(f"CHECKPOINT_{thread_id}")]
        return [(ns, own) for ns, _, own in (one.rpartition("#") for one in found)]

    def ids(self, thread_id: str, checkpoint_ns: str) -> list[str]:
        found = self._entries(thread_id)
        return sorted((own for ns, own in found if ns == checkpoint_ns), reverse=True)

    def namespaces(self, thread_id: str) -> list[str]:
        return list({ns for ns, _ in self._entries(thread_id)})

    def _key(self, place: Place) -> dict[str, Any]:
        sort = f"{place.checkpoint_ns}#{place.checkpoint_id}"
        return {"PK": {"S": f"CHECKPOINT_{place.thread_id}"}, "SK": {"S": sort}}

    def _item(self, key: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = self.harness.client.get_item(TableName=self.harness.table, Key=key)[
            "Item"
        ]
        return found

    def _put(self, item: dict[str, Any]) -> None:
        self.harness.client.put_item(TableName=self.harness.table, Item=item)

    def parent(self, place: Place) -> str | None:
        found: str | None = self._item(self._key(place)).get("parent_checkpoint_id", {}).get("S")
        return found

    def remove(self, place: Place) -> None:
        self.harness.client.delete_item(TableName=self.harness.table, Key=self._key(place))

    def _chunk(self, item: dict[str, Any]) -> dict[str, Any]:
        return self._item({"PK": item["ref_key"], "SK": {"S": "CHUNK"}})

    def _whole(self, place: Place) -> Any:
        item = self._item(self._key(place))
        return SERDE.loads_typed((item["type"]["S"], self._chunk(item)["payload"]["B"]))

    def _set_whole(self, place: Place, whole: Any) -> None:
        tag, data = SERDE.dumps_typed(whole)
        assert tag == "msgpack"
        self._set_payload(self._item(self._key(place)), data)

    def _set_payload(self, item: dict[str, Any], data: bytes) -> None:
        self._put({**self._chunk(item), "payload": {"B": data}})

    def body(self, place: Place) -> Any:
        return self._whole(place)["checkpoint"]

    def set_body(self, place: Place, body: Any) -> None:
        self._set_whole(place, {**self._whole(place), "checkpoint": body})

    def spoil_body(self, place: Place) -> None:
        self._set_payload(self._item(self._key(place)), SPOILT)

    def spoil_metadata(self, place: Place) -> None:
        self._set_whole(place, {**self._whole(place), "metadata": self.garbage})

    def edit_write(self, place: Place, channel: str, change: Callable[[Typed], Typed]) -> str:
        partition = f"WRITES_{place.thread_id}#{place.checkpoint_ns}#{place.checkpoint_id}"
        item = next(one for one in self._query(partition) if one["channel"]["S"] == channel)
        tag, data = change((item["type"]["S"], self._chunk(item)["payload"]["B"]))
        assert tag == item["type"]["S"]
        self._set_payload(item, data)
        return str(item["task_id"]["S"])
