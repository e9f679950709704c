"""Connects to a DynamoDB table, and to the S3 bucket for its large payloads; reads only.

Credentials come from boto3's own chain. Reads of one thread are strongly consistent; scans are
eventually consistent, which costs half.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

from botocore.exceptions import ClientError

from ckpt_backends.codec.limits import MOST_BYTES
from ckpt_backends.dynamodb.clients import AT_ONCE, client_of, session_of
from ckpt_backends.dynamodb.driver_errors import code_of, explained
from ckpt_backends.errors import StoreUnavailable, UnknownLayout
from ckpt_backends.url import StoreUrl

_KEYS = {"PK": "HASH", "SK": "RANGE"}
_TTL = "#ttl"
_KEYS_PER_REQUEST = 100
"""DynamoDB's limit for BatchGetItem."""
_SAMPLED = 25
"""Items among which a time to live is looked for."""
_ROUNDS = 100
"""Number of times that keys are asked for again which DynamoDB left out."""

Attributes = dict[str, Any]
"""An item as boto3 returns it: by name, a map of one DynamoDB type to a value."""
Key = tuple[str, str]
"""The values of PK and SK."""
_Given = TypeVar("_Given")
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class ScanPage:
    """One page of a scan."""

    items: Sequence[Attributes]
    scanned: int
    """Number of items that were read, of which `items` are those that match."""
    units: float
    """Read units that DynamoDB counts for it."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object of S3; `data` is None if it is too long to read."""

    data: bytes | None
    size: int


class DynamoConnection:
    """A table, and its bucket. The methods raise `StoreUnavailable`."""

    def __init__(self, url: StoreUrl, table: str, session: Any) -> None:
        self.url = url
        self.table = table
        self._session = session
        params = url.params
        self.bucket: str | None = params.get("bucket") or None
        prefix = params.get("key_prefix", "").strip("/")
        self._prefix = f"{prefix}/" if prefix else ""
        with explained(url, "open"):
            self.client = client_of(url, session, "dynamodb")
            self.about: Mapping[str, Any] = self.client.describe_table(TableName=table)["Table"]
        self._check_keys()

    def _check_keys(self) -> None:
        found = {one.get("AttributeName"): one.get("KeyType") for one in self.about["KeySchema"]}
        types = {
            one.get("AttributeName"): one.get("AttributeType")
            for one in self.about["AttributeDefinitions"]
        }
        if found != _KEYS or any(types.get(name) != "S" for name in _KEYS):
            raise UnknownLayout(
                f"'{self.url}' is not a table of DynamoDBSaver",
                hint="its keys must be PK (partition) and SK (sort), both strings",
            )

    @cached_property
    def s3(self) -> Any:
        """The client of S3, which is made when the first payload needs it."""
        with explained(self.url, "open"):
            return client_of(self.url, self._session, "s3")

    def object_key(self, ref_key: str) -> str:
        """The key in the bucket of a payload whose item names `ref_key`."""
        return self._prefix + ref_key

    def query(self, partition: str, **options: Any) -> Iterator[Attributes]:
        """The items of a partition in the order of their sort keys."""
        asked = {
            "TableName": self.table,
            "ConsistentRead": True,
            "KeyConditionExpression": "PK = :pk",
            "ExpressionAttributeValues": {":pk": {"S": partition}},
            **options,
        }
        while True:
            with explained(self.url):
                answer = self.client.query(**asked)
                items, last = answer["Items"], answer.get("LastEvaluatedKey")
            yield from items
            if not last:
                return
            asked["ExclusiveStartKey"] = last

    def scan(self, prefixes: Sequence[str]) -> Iterator[ScanPage]:
        """The keys (PK, SK) of the items in partitions that begin with one of the prefixes."""
        names = [f":p{number}" for number in range(len(prefixes))]
        asked = {
            "TableName": self.table,
            "ProjectionExpression": "PK, SK",
            "FilterExpression": " OR ".join(f"begins_with(PK, {name})" for name in names),
            "ExpressionAttributeValues": {
                name: {"S": one} for name, one in zip(names, prefixes, strict=True)
            },
            "ReturnConsumedCapacity": "TOTAL",
        }
        while True:
            with explained(self.url):
                answer = self.client.scan(**asked)
                units = float(answer.get("ConsumedCapacity", {}).get("CapacityUnits", 0))
                page = ScanPage(answer["Items"], int(answer.get("ScannedCount", 0)), units)
                last = answer.get("LastEvaluatedKey")
            yield page
            if not last:
                return
            asked["ExclusiveStartKey"] = last

    def expiring_attribute(self) -> str:
        """The attribute by which DynamoDB removes items; `''` if it removes none."""
        with explained(self.url):
            answer = self.client.describe_time_to_live(TableName=self.table)
        found = answer["TimeToLiveDescription"]
        is_on = found.get("TimeToLiveStatus") in {"ENABLING", "ENABLED"}
        return str(found.get("AttributeName", "")) if is_on else ""

    def has_times_to_live(self) -> bool:
        """Whether one of a few items has a time to live."""
        with explained(self.url):
            answer = self.client.scan(
                TableName=self.table,
                Limit=_SAMPLED,
                ProjectionExpression=_TTL,
                ExpressionAttributeNames={_TTL: "ttl"},
            )
        return any(answer["Items"])

    def get(self, keys: Iterable[Key], projection: str | None = None) -> dict[Key, Attributes]:
        """The items with these keys, by key; missing ones are left out.

        `projection` names the attributes to read besides the keys; None for all.
        """
        # DynamoDB refuses a key that is asked for twice.
        wanted = list(dict.fromkeys(keys))
        parts = [
            wanted[start : start + _KEYS_PER_REQUEST]
            for start in range(0, len(wanted), _KEYS_PER_REQUEST)
        ]
        found: dict[Key, Attributes] = {}
        for some in self.together(lambda part: self._get(part, projection), parts):
            found.update(some)
        return found

    def _get(self, keys: Sequence[Key], projection: str | None) -> dict[Key, Attributes]:
        asked: Any = {"Keys": [key_attributes(one) for one in keys], "ConsistentRead": True}
        if projection is not None:
            asked["ProjectionExpression"] = ", ".join(filter(None, ("PK", "SK", projection)))
            if _TTL in projection:
                # `ttl` is a reserved word.
                asked["ExpressionAttributeNames"] = {_TTL: "ttl"}
        found: dict[Key, Attributes] = {}
        for _ in range(_ROUNDS):
            with explained(self.url):
                answer = self.client.batch_get_item(RequestItems={self.table: asked})
                for item in answer["Responses"].get(self.table, ()):
                    found[item["PK"]["S"], item["SK"]["S"]] = item
                rest = answer.get("UnprocessedKeys", {}).get(self.table)
            if not rest:
                return found
            asked = rest
        raise StoreUnavailable(
            f"cannot read '{self.url}': the table throttles requests",
            hint="run the command again later, or raise the table's read capacity",
        )

    def object(self, ref_key: str) -> StoredObject | None:
        """An object of the bucket; None if there is none."""
        with explained(self.url):
            try:
                place = {"Bucket": self.bucket, "Key": self.object_key(ref_key)}
                answer = self.s3.get_object(**place)
            except ClientError as error:
                if code_of(error) in {"NoSuchKey", "404"}:
                    return None
                raise
            size, body = int(answer["ContentLength"]), answer["Body"]
            try:
                data = None if size > MOST_BYTES else body.read()
            finally:
                body.close()
        return StoredObject(data, size)

    def object_size(self, ref_key: str) -> int | None:
        """The length of an object of the bucket; None if there is none."""
        with explained(self.url):
            try:
                place = {"Bucket": self.bucket, "Key": self.object_key(ref_key)}
                return int(self.s3.head_object(**place)["ContentLength"])
            except ClientError as error:
                if code_of(error) in {"NoSuchKey", "404"}:
                    return None
                raise

    def together(
        self, ask: Callable[[_Given], _Found], given: Sequence[_Given]
    ) -> Iterator[_Found]:
        """The answers to several requests in their order, some of which run at the same time."""
        if len(given) < 2:
            yield from map(ask, given)
            return
        with ThreadPoolExecutor(AT_ONCE) as pool:
            yield from pool.map(ask, given)

    def close(self) -> None:
        """Close the connections."""
        self.client.close()
        if "s3" in self.__dict__:
            self.s3.close()


def key_attributes(key: Key) -> Attributes:
    """A key in the form of boto3."""
    return {"PK": {"S": key[0]}, "SK": {"S": key[1]}}


def connect(url: StoreUrl) -> DynamoConnection:
    """Connect to the table of the URL. Raises `StoreUnavailable`, `UnknownLayout`, `UsageError`."""
    return DynamoConnection(url, url.path, session_of(url))
