"""Turns the errors of boto3 into those of ckpt, without secrets and without data."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from botocore import exceptions
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

from ckpt_backends.errors import CkptError, StoreChanged, StoreUnavailable, UsageError
from ckpt_backends.servers.answer_errors import unexpected
from ckpt_backends.url import StoreUrl

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
