"""Writes items and objects: the only place that calls what changes a table or a bucket.

Up to 100 items of at most 3 MiB together are written in one transaction.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from ckpt_backends.dynamodb.connect import Attributes, DynamoConnection, Key, key_attributes
from ckpt_backends.errors import StoreUnavailable

_MOST_ACTIONS, _MOST_BYTES = 100, 3 << 20
"""DynamoDB's limits for a transaction are 100 and 4 MB. Its count of bytes is not quite ours."""
_PER_BATCH, _BATCH_BYTES = 25, 12 << 20
_OBJECTS_PER_REQUEST = 1000
_ROUNDS, _PAUSE = 12, 0.05
IS_NEW, IS_THERE = "attribute_not_exists(PK)", "attribute_exists(PK)"


@dataclass(frozen=True, slots=True)
class DynamoAction:
    """One action of a transaction."""

    kind: str
    """`Put`, `Delete` or `ConditionCheck`."""
    attributes: Attributes
    """The item to put, or the key of the item."""
    condition: str = ""
    values: Attributes = field(default_factory=dict)
    """The values that the condition names."""

    @property
    def key(self) -> Key:
        """The key of the item."""
        return self.attributes["PK"]["S"], self.attributes["SK"]["S"]

    @property
    def size(self) -> int:
        """About the number of bytes that DynamoDB counts."""
        return sum(len(name) + _size(one) for name, one in self.attributes.items())


def put(item: Attributes, condition: str = "", values: Attributes | None = None) -> DynamoAction:
    """The action that stores an item."""
    return DynamoAction("Put", item, condition, values or {})


def delete(key: Key, condition: str = "") -> DynamoAction:
    """The action that removes an item."""
    return DynamoAction("Delete", key_attributes(key), condition)


def check(key: Key) -> DynamoAction:
    """The condition that an item exists."""
    return DynamoAction("ConditionCheck", key_attributes(key), IS_THERE)


def fits_together(actions: Sequence[DynamoAction]) -> bool:
    """Whether one transaction can hold these actions."""
    return len(actions) <= _MOST_ACTIONS and sum(one.size for one in actions) <= _MOST_BYTES


def in_transactions(actions: Iterable[DynamoAction]) -> Iterator[list[DynamoAction]]:
    """The actions in as few transactions as their order allows."""
    return _packed(actions, _MOST_ACTIONS, _MOST_BYTES)


def _packed(
    actions: Iterable[DynamoAction], most: int, most_bytes: int
) -> Iterator[list[DynamoAction]]:
    some: list[DynamoAction] = []
    size = 0
    for one in actions:
        if some and (len(some) >= most or size + one.size > most_bytes):
            yield some
            some, size = [], 0
        some.append(one)
        size += one.size
    if some:
        yield some


class DynamoWriter:
    """Writes to a table and its bucket. The methods raise errors of boto3."""

    def __init__(self, connection: DynamoConnection) -> None:
        self._connection = connection
        self._client = connection.client

    def transact(self, actions: Sequence[DynamoAction]) -> None:
        """Carry out the actions, all of them or none. Their conditions must hold."""
        if actions:
            self._client.transact_write_items(TransactItems=[self._stated(one) for one in actions])

    def _stated(self, action: DynamoAction) -> dict[str, Any]:
        what = "Item" if action.kind == "Put" else "Key"
        stated = {"TableName": self._connection.table, what: action.attributes}
        if action.condition:
            stated["ConditionExpression"] = action.condition
        if action.values:
            stated["ExpressionAttributeValues"] = action.values
        return {action.kind: stated}

    def write(self, actions: Sequence[DynamoAction]) -> None:
        """Carry out the actions one by one, without conditions; the order is undefined."""
        for some in _packed(actions, _PER_BATCH, _BATCH_BYTES):
            self._write([_requested(one) for one in some])

    def _write(self, requests: list[dict[str, Any]]) -> None:
        table = self._connection.table
        for number in range(_ROUNDS):
            answer = self._client.batch_write_item(RequestItems={table: requests})
            requests = answer.get("UnprocessedItems", {}).get(table, [])
            if not requests:
                return
            time.sleep(_PAUSE * 2**number)
        raise StoreUnavailable(
            f"cannot write to '{self._connection.url}': the table throttles requests",
            hint="run the command again later, or raise the table's write capacity",
        )

    def put_item(self, item: Attributes, condition: str, values: Attributes) -> None:
        """Store one item if a condition holds."""
        self._client.put_item(
            TableName=self._connection.table,
            Item=item,
            ConditionExpression=condition,
            **({"ExpressionAttributeValues": values} if values else {}),
        )

    def delete_item(self, key: Key, condition: str, values: Attributes) -> None:
        """Remove one item if a condition holds."""
        self._client.delete_item(
            TableName=self._connection.table,
            Key=key_attributes(key),
            ConditionExpression=condition,
            ExpressionAttributeValues=values,
        )

    def put_object(self, ref_key: str, data: bytes) -> None:
        """Store an object in the bucket."""
        place = {"Bucket": self._connection.bucket, "Key": self._connection.object_key(ref_key)}
        self._connection.s3.put_object(**place, Body=data)

    def remove_objects(self, ref_keys: Sequence[str]) -> list[str]:
        """Remove objects whose items are gone. Returns those that could not be removed."""
        for start in range(0, len(ref_keys), _OBJECTS_PER_REQUEST):
            try:
                self.delete_objects(ref_keys[start : start + _OBJECTS_PER_REQUEST])
            except (ClientError, BotoCoreError, OSError, StoreUnavailable):
                return list(ref_keys[start:])
        return []

    def delete_objects(self, ref_keys: Sequence[str]) -> None:
        """Remove objects from the bucket. Raises `StoreUnavailable` if one could not be removed."""
        for start in range(0, len(ref_keys), _OBJECTS_PER_REQUEST):
            some = ref_keys[start : start + _OBJECTS_PER_REQUEST]
            keys = [{"Key": self._connection.object_key(one)} for one in some]
            answer = self._connection.s3.delete_objects(
                Bucket=self._connection.bucket, Delete={"Objects": keys, "Quiet": True}
            )
            if failed := answer.get("Errors"):
                raise StoreUnavailable(
                    f"cannot remove {len(failed)} objects of bucket '{self._connection.bucket}'",
                    hint="grant s3:DeleteObject, then run the command again",
                )


def _requested(action: DynamoAction) -> dict[str, Any]:
    if action.kind == "Put":
        return {"PutRequest": {"Item": action.attributes}}
    return {"DeleteRequest": {"Key": action.attributes}}


def _size(attribute: Any) -> int:
    """About the number of bytes of an attribute or of a part of it."""
    match attribute:
        case str():
            return len(attribute.encode(errors="surrogatepass"))
        case bytes():
            return len(attribute)
        case dict():
            return sum(len(str(name)) + _size(one) for name, one in attribute.items())
        case list() | tuple() | set():
            return sum(map(_size, attribute)) + len(attribute)
    return 1
