"""Writes items and objects: the only place that calls what changes a table or a bucket.

Up to 100 items of at most 3 MiB together are written in one transaction.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from operator import attrgetter
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from ckpt_backends.dynamodb.connect import (
    Attributes,
    DynamoConnection,
    Key,
    client_of,
    code_of,
    explained,
    key_attributes,
    session_of,
)
from ckpt_backends.dynamodb.records import CHECKPOINT_PREFIX, CHUNK_PREFIX, WRITES_PREFIX
from ckpt_backends.errors import CkptError, Refused, StoreUnavailable
from ckpt_backends.model import in_batches
from ckpt_backends.transfer.form import Language
from ckpt_backends.url import StoreUrl

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
    return in_batches(actions, attrgetter("size"), _MOST_BYTES, _MOST_ACTIONS)


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
        for some in in_batches(actions, attrgetter("size"), _BATCH_BYTES, _PER_BATCH):
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


# Leases: only one purge of a table, and one change of a thread, at a time.
#
# A lease is an item with an end, which the next one may replace after that. It only prevents two
# runs of `ckpt` from doing the same work; savers do not know it.


PARTITION = "CKPT_LOCK"
_HELD = 20_000
"""Milliseconds. A killed run blocks others for at most this time."""
_KEPT = 5.0
"""Seconds between two extensions."""
_PATIENCE = 6.0
"""Seconds to wait for another run."""
_DAY = 86_400


class DynamoLease:
    """A lease that this run holds."""

    def __init__(self, connection: DynamoConnection, name: str, refusal: CkptError) -> None:
        self._writer = DynamoWriter(connection)
        self._key = (PARTITION, name)
        self._refusal = refusal
        self._token = secrets.token_hex(8)
        self._again = 0.0
        """When it must be extended, as `time.monotonic`."""

    def take(self) -> None:
        """Acquire it. Raises its refusal if another run holds it for `_PATIENCE` seconds."""
        until = time.monotonic() + _PATIENCE
        while not self._taken():
            if time.monotonic() > until:
                raise self._refusal
            time.sleep(random.uniform(0.05, 0.2))  # noqa: S311
        self._again = time.monotonic() + _KEPT

    def keep(self) -> None:
        """Extend it if it is time."""
        if time.monotonic() >= self._again:
            self.take()

    def _taken(self) -> bool:
        now = int(time.time() * 1000)
        item: Attributes = {
            **key_attributes(self._key),
            "lease_holder": {"S": self._token},
            "held_until": {"N": str(now + _HELD)},
            # DynamoDB removes what a killed run left, if the table has times to live.
            "ttl": {"N": str(now // 1000 + _DAY)},
        }
        condition = "attribute_not_exists(PK) OR held_until < :now OR lease_holder = :own"
        values = {":now": {"N": str(now)}, ":own": {"S": self._token}}
        try:
            self._writer.put_item(item, condition, values)
        except ClientError as error:
            if code_of(error) != "ConditionalCheckFailedException":
                raise
            return False
        return True

    def release(self) -> None:
        """Give it up if this run still holds it."""
        self._writer.delete_item(self._key, "lease_holder = :own", {":own": {"S": self._token}})


@contextmanager
def purge_lease(connection: DynamoConnection) -> Iterator[DynamoLease]:
    """Hold the lease for removing. Raises `Refused` and errors of boto3."""
    refusal = Refused(
        f"another purge of '{connection.url}' is running",
        hint="wait until it ends; the lock of a killed run"
        f" (item {PARTITION}) expires after {_HELD // 1000} s",
    )
    with _held(DynamoLease(connection, "purge", refusal)) as lease:
        yield lease


@contextmanager
def change_lease(connection: DynamoConnection, thread_id: str) -> Iterator[DynamoLease]:
    """Hold the lease for changing a thread. Raises `StoreUnavailable` and errors of boto3."""
    from hashlib import sha256

    refusal = StoreUnavailable(
        f"thread '{thread_id}' is being changed by another command, so nothing was written",
        hint="run the command again when it has finished",
    )
    name = sha256(thread_id.encode(errors="surrogatepass")).hexdigest()
    with _held(DynamoLease(connection, f"thread#{name}", refusal)) as lease:
        yield lease


@contextmanager
def _held(lease: DynamoLease) -> Iterator[DynamoLease]:
    lease.take()
    try:
        yield lease
    finally:
        # If releasing fails, the lease ends by itself.
        with suppress(ClientError, BotoCoreError, OSError):
            lease.release()


# Makes tables as the CloudFormation template of `langgraph-checkpoint-aws` does.
#
# The saver itself makes none. Of the template's settings, point-in-time recovery and tags are left
# out: they belong to a deployment, and recovery costs money.


_KEYS = {"PK": "HASH", "SK": "RANGE"}
_OWN = (CHECKPOINT_PREFIX, WRITES_PREFIX, CHUNK_PREFIX, PARTITION)
"""How the partitions of the saver and of `ckpt` begin."""
_SAMPLED = 25
_WAIT = {"Delay": 2, "MaxAttempts": 90}


def create_table(url: StoreUrl, language: Language) -> None:  # noqa: ARG001 - Python only
    """Make a table for the saver, unless there is one.

    The bucket for long payloads must exist, if the URL names one. Raises `UsageError`,
    `StoreUnavailable`, and `Refused` if the table has other items.
    """
    session = session_of(url)
    with explained(url, "create"):
        client = client_of(url, session, "dynamodb")
        try:
            if not _is_there(client, url):
                _create(client, url.path)
        finally:
            client.close()


def _is_there(client: Any, url: StoreUrl) -> bool:
    """Whether the table exists. Raises `Refused` if it is not one of the saver."""
    try:
        about = client.describe_table(TableName=url.path)["Table"]
    except ClientError as error:
        if code_of(error) == "ResourceNotFoundException":
            return False
        raise
    keys = {one["AttributeName"]: one["KeyType"] for one in about["KeySchema"]}
    found = client.scan(TableName=url.path, Limit=_SAMPLED)["Items"] if keys == _KEYS else []
    if keys != _KEYS or not all(one["PK"].get("S", "").startswith(_OWN) for one in found):
        raise Refused(
            f"cannot make a store in '{url}': the table holds other items",
            hint="name a table that does not exist",
        )
    return True


def _create(client: Any, table: str) -> None:
    client.create_table(
        TableName=table,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in _KEYS],
        KeySchema=[{"AttributeName": name, "KeyType": kind} for name, kind in _KEYS.items()],
    )
    client.get_waiter("table_exists").wait(TableName=table, WaiterConfig=_WAIT)
    client.update_time_to_live(
        TableName=table, TimeToLiveSpecification={"Enabled": True, "AttributeName": "ttl"}
    )
