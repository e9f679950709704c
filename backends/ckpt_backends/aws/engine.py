"""What layouts in services of AWS share: a client, and the errors of boto3 in plain words.

Credentials come from boto3's own chain. No message shows what an answer of AWS says, since that may
quote data.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any
from urllib.parse import urlsplit

from botocore import exceptions
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
from botocore.loaders import create_loader
from botocore.session import Session

from ckpt_backends.errors import CkptError, StoreUnavailable, UsageError
from ckpt_backends.servers import is_local, unexpected, warn_unencrypted
from ckpt_backends.url import StoreUrl, split_url

AT_ONCE = 8
"""Number of requests that run at the same time."""
_CONNECT_SECONDS, _ANSWER_SECONDS, _ATTEMPTS = 5, 30, 4
_LATER = "run the command again later"
_LOGIN = "sign in again, such as with `aws sso login`, or name a profile: ?profile=NAME"
_CHAIN = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile: ?profile=NAME"
_REACH = "check ?region=NAME and ?endpoint=URL, and the network"
_CODES: Mapping[str, tuple[str, str]] = {
    "ExpiredTokenException": ("the credentials have expired", _LOGIN),
    "UnrecognizedClientException": ("AWS does not know these credentials", _LOGIN),
    "ThrottlingException": ("the service throttles requests", _LATER),
    "ServiceUnavailable": ("the service does not answer", _LATER),
}
"""By code, the reason to print and a hint."""
_SAME = {
    "ExpiredToken": "ExpiredTokenException",
    "RequestExpired": "ExpiredTokenException",
    "InvalidSignatureException": "UnrecognizedClientException",
    "InvalidClientTokenId": "UnrecognizedClientException",
    "InvalidAccessKeyId": "UnrecognizedClientException",
    "SignatureDoesNotMatch": "UnrecognizedClientException",
    "IncompleteSignatureException": "UnrecognizedClientException",
    "ProvisionedThroughputExceededException": "ThrottlingException",
    "RequestLimitExceeded": "ThrottlingException",
    "SlowDown": "ThrottlingException",
    "ThrottledException": "ThrottlingException",
    "Throttling": "ThrottlingException",
    "TooManyRequestsException": "ThrottlingException",
    "InternalServerError": "ServiceUnavailable",
    "InternalServerException": "ServiceUnavailable",
    "InternalFailure": "ServiceUnavailable",
    "ServiceException": "ServiceUnavailable",
    "503": "ServiceUnavailable",
}
"""Codes with the meaning of another one."""
_DENIED = frozenset({"AccessDeniedException", "AccessDenied", "403", "AllAccessDisabled"})
_ACTION = re.compile(r"perform: ([a-z0-9-]+:\w+)")
_CODE = re.compile(r"[\w.]{1,60}", re.ASCII)
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
        _REACH,
    ),
    (
        (exceptions.EndpointConnectionError, HTTPClientError),
        "the endpoint cannot be reached",
        _REACH,
    ),
)
"""Errors of the driver, each with the reason to print and a hint."""


class Errors:
    """The words for what services answer."""

    def __init__(
        self, codes: Mapping[str, tuple[str, str]], actions: Mapping[str, str], service: str
    ) -> None:
        """`codes` come before those of all services, each with the reason to print and a hint.

        `actions` names the IAM action of each operation whose action has another name or service;
        `service` is the IAM name of the others.
        """
        self._codes, self._actions, self._service = codes, actions, service

    @contextmanager
    def explained(self, url: StoreUrl, verb: str = "read") -> Iterator[None]:
        """Turn errors of the driver into `StoreUnavailable`, `UsageError` or `Unreadable`."""
        try:
            yield
        except CkptError:
            raise
        except ClientError as error:
            reason, hint = self._said(error)
            raise StoreUnavailable(f"cannot {verb} '{url}': {reason}", hint=hint) from None
        except exceptions.ProfileNotFound:
            raise UsageError(
                f"cannot {verb} '{url}': no such AWS profile",
                hint="`aws configure list-profiles` lists them",
            ) from None
        except (BotoCoreError, OSError) as error:
            found = ((said, hint) for kinds, said, hint in _KINDS if isinstance(error, kinds))
            reason, hint = next(found, (type(error).__name__, ""))
            raise StoreUnavailable(f"cannot {verb} '{url}': {reason}", hint=hint) from None
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            # The driver did not expect such an answer.
            raise unexpected(url) from error

    def _said(self, error: ClientError) -> tuple[str, str]:
        code = code_of(error)
        if code in _DENIED:
            hint = "docs/layouts.md lists the IAM actions that ckpt needs for this layout"
            return f"access denied, {self._action(error)} is not allowed", hint
        same = _SAME.get(code, code)
        for codes, one in ((self._codes, code), (self._codes, same), (_CODES, same)):
            if one in codes:
                return codes[one]
        shown = code if _CODE.fullmatch(code) else "an unknown error"
        return f"AWS answers {shown} to {error.operation_name}", ""

    def _action(self, error: ClientError) -> str:
        """The IAM action that is missing, such as `dynamodb:Query`."""
        found = _ACTION.search(str(error.response.get("Error", {}).get("Message", "")))
        if found is not None:
            return found[1]
        name = error.operation_name
        return self._actions.get(name, f"{self._service}:{name}")


def code_of(error: ClientError) -> str:
    """The code of an AWS error, such as `ResourceNotFoundException`."""
    code = error.response.get("Error", {}).get("Code")
    return code if isinstance(code, str) else ""


def check_url(url: StoreUrl, what: str, params: frozenset[str]) -> None:
    """Refuse credentials and unknown parameters. Raises `UsageError`. `what` names such a URL."""
    if split_url(url.raw).user is not None:
        raise UsageError(
            f"refused: {what} must not contain credentials",
            hint="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or use ?profile=NAME",
        )
    if unknown := sorted(url.params.keys() - params):
        raise UsageError(
            f"cannot read the URL '{url}': unknown parameter '{unknown[0]}'",
            hint=f"known: {', '.join(sorted(params))}",
        )


def session_of(url: StoreUrl) -> Session:
    """The session for the profile of a URL. Raises errors of boto3."""
    session = Session(profile=url.params.get("profile") or None)
    # Reading the descriptions of the services takes longer than anything else here.
    session.register_component("data_loader", _loader(session.get_config_variable("data_path")))
    return session


@cache
def _loader(data_path: str | None) -> Any:
    """The reader of the services' descriptions, which keeps what it has read."""
    return create_loader(data_path)


def client_of(url: StoreUrl, session: Session, service: str, endpoint: str = "endpoint") -> Any:
    """A client of a service. `endpoint` is the parameter of the URL with its address.

    Raises `UsageError` and errors of boto3.
    """
    config = Config(
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_ANSWER_SECONDS,
        max_pool_connections=AT_ONCE + 2,
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
        user_agent_extra="ckpt",
    )
    try:
        client = session.create_client(
            service,
            url.params.get("region") or None,
            endpoint_url=url.params.get(endpoint) or None,
            config=config,
        )
    except ValueError:
        raise UsageError(
            f"cannot open '{url}': {endpoint} or region has no valid form",
            hint=f"write ?{endpoint}=https://HOST and ?region=eu-central-1",
        ) from None
    place = urlsplit(client.meta.endpoint_url)
    if place.scheme == "http" and not is_local(place.hostname or ""):
        host = place.hostname or ""
        warn_unencrypted(host, "use an https:// endpoint", f"data from '{host}' comes")
    return client
