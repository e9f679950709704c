"""Connects to a DynamoDB table, and to the S3 bucket for its large payloads; reads only.

Credentials come from boto3's own chain. Reads of one thread are strongly consistent; scans are
eventually consistent, which costs half.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from botocore.exceptions import ClientError
from botocore.session import Session

from ckpt_backends.aws.dynamodb.declaration import BACKEND
from ckpt_backends.aws.engine import AT_ONCE, Errors, check_url, client_of, code_of, session_of
from ckpt_backends.codec.values import MOST_BYTES
from ckpt_backends.errors import StoreChanged, UnknownLayout, UsageError
from ckpt_backends.model import in_chunks
from ckpt_backends.url import StoreUrl

_ERRORS = Errors(
    {
        "ResourceNotFoundException": (
            "no such table in this region",
            "check the table's name and ?region=NAME; `aws dynamodb list-tables` lists the tables",
        ),
        "NoSuchBucket": ("no such bucket", "check ?bucket=NAME"),
        "ThrottlingException": (
            "the table throttles requests",
            "run the command again later, or raise the table's read and write capacity",
        ),
        "SlowDown": ("S3 throttles requests", "run the command again later"),
        "ItemCollectionSizeLimitExceededException": ("a partition is full", "remove old threads"),
    },
    {
        "GetObject": "s3:GetObject",
        "HeadObject": "s3:GetObject",
        "PutObject": "s3:PutObject",
        "CopyObject": "s3:PutObject",
        "DeleteObjects": "s3:DeleteObject",
        "TransactWriteItems": "dynamodb:PutItem",
    },
    "dynamodb",
)
explained = _ERRORS.explained


@contextmanager
def explained_change(url: StoreUrl) -> Iterator[None]:
    """Turn errors of writing into `StoreChanged` or `StoreUnavailable`."""
    with explained(url, "write to"):
        try:
            yield
        except ClientError as error:
            if not is_conflict(error):
                raise
            raise StoreChanged(
                f"'{url}' changed meanwhile, so nothing was written",
                hint="an agent or another command may be changing it; run the command again",
            ) from None


def is_conflict(error: ClientError) -> bool:
    """Whether a condition did not hold, or another transaction got in the way."""
    if code_of(error) != "TransactionCanceledException":
        return code_of(error) in _CONFLICTS
    reasons = error.response.get("CancellationReasons") or ()
    codes = {one.get("Code") for one in reasons if isinstance(one, Mapping)}
    return not codes or not codes.isdisjoint({"ConditionalCheckFailed", "TransactionConflict"})


_CONFLICTS = frozenset(
    {
        "ConditionalCheckFailedException",
        "TransactionConflictException",
        "TransactionInProgressException",
        "PreconditionFailed",
    }
)


_PARAMS = frozenset({"layout", *BACKEND.params})
_TABLE = re.compile(r"[\w.-]{3,255}", re.ASCII)


def checked_session(url: StoreUrl) -> Session:
    """Check a URL, and make its session. Raises `UsageError` and `UnknownLayout`."""
    check_url(url, "a DynamoDB URL", _PARAMS)
    if not _TABLE.fullmatch(url.path):
        raise UsageError(
            f"cannot open '{url}': not the name of a table",
            hint="write dynamodb://TABLE?region=eu-central-1",
        )
    if url.params.get("layout", "dynamodb") != "dynamodb":
        raise UnknownLayout(
            f"'{url}' has the layout 'dynamodb'", hint="remove ?layout= from the URL"
        )
    with explained(url, "open"):
        return session_of(url)


KEYS = {"PK": "HASH", "SK": "RANGE"}
"""The attributes of the key of a table, with their roles."""
_KEYS_PER_REQUEST = 100
"""DynamoDB's limit for BatchGetItem."""
_SAMPLED = 25
"""Items among which a time to live is looked for."""
_ROUNDS, _PAUSE = 12, 0.05
"""Number of times that a request is sent for what DynamoDB left out, and the first pause."""

Attributes = dict[str, Any]
"""An item as boto3 returns it: by name, a map of one DynamoDB type to a value."""
Key = tuple[str, str]
"""The values of PK and SK."""
_Given = TypeVar("_Given")
_Found = TypeVar("_Found")


class StoredObject(NamedTuple):
    """An object of S3; `data` is None if it is too long to read."""

    data: bytes | None
    size: int


class DynamoConnection:
    """The table of a URL, and its bucket.

    The methods raise `StoreUnavailable`, and the first one `UnknownLayout` and `UsageError`, too.
    """

    def __init__(self, url: StoreUrl) -> None:
        self.url = url
        self.table = url.path
        self._session = checked_session(url)
        self.bucket: str | None = url.params.get("bucket") or None
        prefix = url.params.get("key_prefix", "").strip("/")
        self._prefix = f"{prefix}/" if prefix else ""
        with explained(url, "open"):
            self.client = client_of(url, self._session, "dynamodb")
            self.about: Mapping[str, Any] = self.client.describe_table(TableName=self.table)[
                "Table"
            ]
        self._check_keys()

    def _check_keys(self) -> None:
        found = {one.get("AttributeName"): one.get("KeyType") for one in self.about["KeySchema"]}
        types = {
            one.get("AttributeName"): one.get("AttributeType")
            for one in self.about["AttributeDefinitions"]
        }
        if found != KEYS or any(types.get(name) != "S" for name in KEYS):
            raise UnknownLayout(
                f"'{self.url}' is not a table of DynamoDBSaver",
                hint="its keys must be PK (partition) and SK (sort), both strings",
            )

    @cached_property
    def s3(self) -> Any:
        """The client of S3, which is made when the first payload needs it."""
        with explained(self.url, "open"):
            return client_of(self.url, self._session, "s3", "s3_endpoint")

    def object_key(self, ref_key: str) -> str:
        """The key in the bucket of a payload whose item names `ref_key`."""
        return self._prefix + ref_key

    def query(self, partition: str) -> Iterator[Attributes]:
        """The items of a partition in the order of their sort keys."""
        for page in self._pages(
            "query",
            ConsistentRead=True,
            KeyConditionExpression="PK = :pk",
            ExpressionAttributeValues={":pk": {"S": partition}},
        ):
            yield from page["Items"]

    def scan(self, prefixes: Sequence[str]) -> Iterator[Mapping[str, Any]]:
        """Answers with the keys (PK, SK) of the items in partitions with one of the prefixes."""
        values = {f":p{number}": {"S": one} for number, one in enumerate(prefixes)}
        return self._pages(
            "scan",
            ProjectionExpression="PK, SK",
            FilterExpression=" OR ".join(f"begins_with(PK, {name})" for name in values),
            ExpressionAttributeValues=values,
            ReturnConsumedCapacity="TOTAL",
        )

    def _pages(self, operation: str, **asked: Any) -> Iterator[Mapping[str, Any]]:
        with explained(self.url):
            yield from self.client.get_paginator(operation).paginate(TableName=self.table, **asked)

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
            answer = self.client.scan(TableName=self.table, Limit=_SAMPLED, **_projection("ttl"))
        return any(answer["Items"])

    def get(self, keys: Iterable[Key], names: Sequence[str] | None = None) -> dict[Key, Attributes]:
        """The items with these keys, by key; missing ones are left out.

        `names` are the attributes to read besides the keys; None for all.
        """
        # DynamoDB refuses a key that is asked for twice.
        parts = list(in_chunks(dict.fromkeys(keys), _KEYS_PER_REQUEST))
        some = {} if names is None else _projection("PK", "SK", *names)
        found: dict[Key, Attributes] = {}
        for items in self.together(lambda part: self._get(part, some), parts):
            found |= {(one["PK"]["S"], one["SK"]["S"]): one for one in items}
        return found

    def _get(self, keys: Sequence[Key], some: Mapping[str, Any]) -> list[Attributes]:
        asked = {"Keys": list(map(key_attributes, keys)), "ConsistentRead": True, **some}
        with explained(self.url):
            answers = self.answers(self.client.batch_get_item, asked, "UnprocessedKeys")
            return [one for answer in answers for one in answer["Responses"].get(self.table, ())]

    def answers(
        self, send: Callable[..., Mapping[str, Any]], asked: Any, left: str
    ) -> Iterator[Mapping[str, Any]]:
        """The answers to a request of several items, which is sent again for those left out.

        Their field `left` says which these are. Raises errors of boto3.
        """
        for number in range(_ROUNDS):
            answer = send(RequestItems={self.table: asked})
            yield answer
            asked = answer.get(left, {}).get(self.table)
            if not asked:
                return
            time.sleep(_PAUSE * 2**number)
        throttled: Any = {"Error": {"Code": "ProvisionedThroughputExceededException"}}
        raise ClientError(throttled, left)

    def object(self, ref_key: str) -> StoredObject | None:
        """An object of the bucket; None if there is none."""
        with explained(self.url):
            answer = self._of_object("get_object", ref_key)
            if answer is None:
                return None
            size = int(answer["ContentLength"])
            with closing(answer["Body"]) as body:
                return StoredObject(None if size > MOST_BYTES else body.read(), size)

    def object_size(self, ref_key: str) -> int | None:
        """The length of an object of the bucket; None if there is none."""
        with explained(self.url):
            answer = self._of_object("head_object", ref_key)
            return None if answer is None else int(answer["ContentLength"])

    def _of_object(self, operation: str, ref_key: str) -> Mapping[str, Any] | None:
        """The answer about an object; None if there is none."""
        place = {"Bucket": self.bucket, "Key": self.object_key(ref_key)}
        try:
            found: Mapping[str, Any] = getattr(self.s3, operation)(**place)
        except ClientError as error:
            if code_of(error) in {"NoSuchKey", "404"}:
                return None
            raise
        return found

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


def _projection(*names: str) -> dict[str, Any]:
    """What limits an answer to these attributes. `ttl` is a reserved word."""
    marks = {f"#{one}": one for one in names}
    return {"ProjectionExpression": ", ".join(marks), "ExpressionAttributeNames": marks}


def key_attributes(key: Key) -> Attributes:
    """A key in the form of boto3."""
    return {"PK": {"S": key[0]}, "SK": {"S": key[1]}}
