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
from functools import cache, cached_property
from typing import Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from botocore import exceptions
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
from botocore.loaders import create_loader
from botocore.session import Session

from ckpt_backends.codec.values import MOST_BYTES
from ckpt_backends.dynamodb.declaration import BACKEND
from ckpt_backends.errors import (
    CkptError,
    StoreChanged,
    StoreUnavailable,
    UnknownLayout,
    UsageError,
)
from ckpt_backends.model import in_chunks
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


_PARAMS = {"layout", *BACKEND.params}
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
    if unknown := sorted(url.params.keys() - _PARAMS):
        raise UsageError(
            f"cannot read the URL '{url}': unknown parameter '{unknown[0]}'",
            hint=f"known: {', '.join(sorted(_PARAMS))}",
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
        self._session = session_of(url)
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
            return client_of(self.url, self._session, "s3")

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
