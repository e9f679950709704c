"""Connects to a DynamoDB table, and to the S3 bucket for its large payloads; reads only.

Credentials come from boto3's own chain. Reads of one thread are strongly consistent; scans are
eventually consistent, which costs half.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, TypeVar
from urllib.parse import urlsplit

from botocore import exceptions
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
from botocore.loaders import create_loader
from botocore.session import Session

from ckpt_backends.codec.values import MOST_BYTES
from ckpt_backends.errors import (
    CkptError,
    StoreChanged,
    StoreUnavailable,
    UnknownLayout,
    UsageError,
)
from ckpt_backends.servers import is_local, unexpected, warn_unencrypted
from ckpt_backends.url import StoreUrl, split_url

# Turns the errors of boto3 into those of ckpt, without secrets and without data.


_LOGIN = "sign in again, such as with `aws sso login`, or name a profile: ?profile=NAME"
_CODES: Mapping[str, tuple[str, str]] = {
    "ResourceNotFoundException": (
        "no such table in this region",
        "check the table's name and ?region=NAME; `aws dynamodb list-tables` lists the tables",
    ),
    "NoSuchBucket": ("no such bucket", "check ?bucket=NAME"),
    "ExpiredTokenException": ("the credentials have expired", _LOGIN),
    "UnrecognizedClientException": ("AWS does not know these credentials", _LOGIN),
    "ProvisionedThroughputExceededException": (
        "the table throttles requests",
        "run the command again later, or raise the table's read and write capacity",
    ),
    "SlowDown": ("S3 throttles requests", "run the command again later"),
    "ServiceUnavailable": ("the service does not answer", "run the command again later"),
    "ItemCollectionSizeLimitExceededException": ("a partition is full", "remove old threads"),
}
_SAME = {
    "ExpiredToken": "ExpiredTokenException",
    "RequestExpired": "ExpiredTokenException",
    "InvalidSignatureException": "UnrecognizedClientException",
    "InvalidClientTokenId": "UnrecognizedClientException",
    "InvalidAccessKeyId": "UnrecognizedClientException",
    "SignatureDoesNotMatch": "UnrecognizedClientException",
    "IncompleteSignatureException": "UnrecognizedClientException",
    "ThrottlingException": "ProvisionedThroughputExceededException",
    "RequestLimitExceeded": "ProvisionedThroughputExceededException",
    "Throttling": "ProvisionedThroughputExceededException",
    "InternalServerError": "ServiceUnavailable",
    "InternalFailure": "ServiceUnavailable",
    "503": "ServiceUnavailable",
}
"""Codes with the meaning of another one."""
_DENIED = frozenset({"AccessDeniedException", "AccessDenied", "403", "AllAccessDisabled"})
_ACTION = re.compile(r"perform: ([a-z0-9]+:\w+)")
_S3 = frozenset({"GetObject", "HeadObject", "PutObject", "DeleteObjects", "CopyObject"})
_CODE = re.compile(r"[\w.]{1,60}", re.ASCII)
_CHAIN = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile: ?profile=NAME"
_KINDS: tuple[tuple[tuple[type[Exception], ...], str, str], ...] = (
    (
        (exceptions.NoCredentialsError, exceptions.PartialCredentialsError),
        "no AWS credentials found",
        _CHAIN,
    ),
    ((exceptions.NoRegionError,), "no AWS region given", "add ?region=NAME, or set AWS_REGION"),
    (
        (exceptions.CredentialRetrievalError, exceptions.SSOError),
        "the credentials cannot be read",
        _LOGIN,
    ),
    (
        (exceptions.SSLError,),
        "TLS failed",
        "check the endpoint; AWS_CA_BUNDLE names the certificates of authorities",
    ),
    (
        (exceptions.ConnectTimeoutError, exceptions.ReadTimeoutError),
        "the endpoint does not answer",
        "check ?region=NAME and ?endpoint=URL, and the network",
    ),
    (
        (exceptions.EndpointConnectionError, HTTPClientError),
        "the endpoint cannot be reached",
        "check ?region=NAME and ?endpoint=URL, and the network",
    ),
)
"""Errors of the driver, each with the reason to print and a hint."""


def code_of(error: ClientError) -> str:
    """The code of an AWS error, such as `ResourceNotFoundException`."""
    code = error.response.get("Error", {}).get("Code")
    return code if isinstance(code, str) else ""


@contextmanager
def explained(url: StoreUrl, verb: str = "read") -> Iterator[None]:
    """Turn errors of the driver into `StoreUnavailable`, `UsageError` or `Unreadable`."""
    try:
        yield
    except CkptError:
        raise
    except (BotoCoreError, ClientError, OSError) as error:
        raise unavailable(url, error, verb) from None
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        # The driver did not expect such an answer.
        raise unexpected(url) from error


@contextmanager
def explained_change(url: StoreUrl) -> Iterator[None]:
    """Turn errors of writing into `StoreChanged` or `StoreUnavailable`."""
    try:
        yield
    except ClientError as error:
        if is_conflict(error):
            raise StoreChanged(
                f"'{url}' changed meanwhile, so nothing was written",
                hint="an agent or another command may be changing it; run the command again",
            ) from None
        raise unavailable(url, error, "write to") from None
    except (BotoCoreError, OSError) as error:
        raise unavailable(url, error, "write to") from None


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


def unavailable(url: StoreUrl, error: Exception, verb: str) -> StoreUnavailable | UsageError:
    """The error to print, without the driver's text, which may quote data."""
    start = f"cannot {verb} '{url}'"
    if isinstance(error, ClientError):
        code = code_of(error)
        if code in _DENIED:
            action = _action(error)
            return StoreUnavailable(
                f"{start}: access denied, {action} is not allowed",
                hint="docs/layouts.md lists the IAM actions that ckpt needs for this layout",
            )
        reason, hint = _CODES.get(_SAME.get(code, code), ("", ""))
        if reason:
            return StoreUnavailable(f"{start}: {reason}", hint=hint)
        shown = code if _CODE.fullmatch(code) else "an unknown error"
        return StoreUnavailable(f"{start}: AWS answers {shown} to {error.operation_name}")
    if isinstance(error, exceptions.ProfileNotFound):
        return UsageError(
            f"{start}: no such AWS profile", hint="`aws configure list-profiles` lists them"
        )
    for kinds, reason, hint in _KINDS:
        if isinstance(error, kinds):
            return StoreUnavailable(f"{start}: {reason}", hint=hint)
    return StoreUnavailable(f"{start}: {type(error).__name__}")


def _action(error: ClientError) -> str:
    """The IAM action that is missing, such as `dynamodb:Query`."""
    found = _ACTION.search(str(error.response.get("Error", {}).get("Message", "")))
    if found is not None:
        return found[1]
    name = error.operation_name
    service = "s3" if name in _S3 else "dynamodb"
    return f"{service}:{_ACTIONS.get(name, name)}"


_ACTIONS = {
    "HeadObject": "GetObject",
    "CopyObject": "PutObject",
    "DeleteObjects": "DeleteObject",
    "TransactWriteItems": "PutItem",
}
"""By operation, the action that allows it, if that has another name."""


# Makes the clients of boto3 for the URL of a table. Credentials come from boto3's own chain.


PARAMS = frozenset(
    {"layout", "region", "endpoint", "bucket", "s3_endpoint", "key_prefix", "profile"}
)
AT_ONCE = 8
"""Number of requests that run at the same time."""
_TABLE = re.compile(r"[\w.-]{3,255}", re.ASCII)
_CONNECT_SECONDS, _ANSWER_SECONDS, _ATTEMPTS = 5, 30, 4
_ENDPOINTS = {"dynamodb": "endpoint", "s3": "s3_endpoint"}
"""By service, the parameter of the URL with its address."""


def session_of(url: StoreUrl) -> Session:
    """Check a URL, and make its session. Raises `UsageError` and `UnknownLayout`."""
    parts = split_url(url.raw)
    if parts.user is not None:
        raise UsageError(
            "refused: a DynamoDB URL must not contain credentials",
            hint="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or use ?profile=NAME",
        )
    if not _TABLE.fullmatch(url.path):
        raise UsageError(
            f"cannot open '{url}': not the name of a table",
            hint="write dynamodb://TABLE?region=eu-central-1",
        )
    if unknown := sorted(url.params.keys() - PARAMS):
        raise UsageError(
            f"cannot read the URL '{url}': unknown parameter '{unknown[0]}'",
            hint=f"known: {', '.join(sorted(PARAMS))}",
        )
    if url.params.get("layout", "dynamodb") != "dynamodb":
        raise UnknownLayout(
            f"'{url}' has the layout 'dynamodb'", hint="remove ?layout= from the URL"
        )
    with explained(url, "open"):
        session = Session(profile=url.params.get("profile") or None)
        # Reading the descriptions of the services takes longer than anything else here.
        session.register_component("data_loader", _loader(session.get_config_variable("data_path")))
    return session


@cache
def _loader(data_path: str | None) -> Any:
    """The reader of the services' descriptions, which keeps what it has read."""
    return create_loader(data_path)


def client_of(url: StoreUrl, session: Session, service: str) -> Any:
    """A client of `dynamodb` or `s3`. Raises `UsageError` and errors of boto3."""
    config = Config(
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_ANSWER_SECONDS,
        max_pool_connections=AT_ONCE + 2,
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
        user_agent_extra="ckpt",
    )
    name = _ENDPOINTS[service]
    try:
        client = session.create_client(
            service,
            url.params.get("region") or None,
            endpoint_url=url.params.get(name) or None,
            config=config,
        )
    except ValueError:
        raise UsageError(
            f"cannot open '{url}': {name} or region has no valid form",
            hint=f"write ?{name}=https://HOST and ?region=eu-central-1",
        ) from None
    place = urlsplit(client.meta.endpoint_url)
    if place.scheme == "http" and not is_local(place.hostname or ""):
        host = place.hostname or ""
        warn_unencrypted(host, "use an https:// endpoint", f"data from '{host}' comes")
    return client


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
