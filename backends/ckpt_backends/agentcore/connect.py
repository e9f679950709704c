"""The events of a memory of Bedrock AgentCore. Credentials come from boto3's own chain."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from botocore import exceptions
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError
from botocore.loaders import create_loader
from botocore.session import Session

from ckpt_backends.agentcore.declaration import BACKEND
from ckpt_backends.errors import CkptError, Closing, StoreUnavailable, UsageError
from ckpt_backends.servers import is_local, unexpected, warn_unencrypted
from ckpt_backends.url import StoreUrl, split_url

_MEMORY = re.compile(r"[a-zA-Z][\w-]{0,99}-[a-zA-Z0-9]{10}", re.ASCII)
_CONNECT_SECONDS, _ANSWER_SECONDS, _ATTEMPTS = 5, 30, 4
AT_ONCE = 8
"""Number of requests that run at the same time."""
_PAGE = 100
_LOGIN = "sign in again, such as with `aws sso login`, or name a profile: ?profile=NAME"
_CODES: Mapping[str, tuple[str, str]] = {
    "ResourceNotFoundException": (
        "no such memory in this region",
        "check the id and ?region=NAME; `aws bedrock-agentcore-control list-memories` lists them",
    ),
    "ThrottledException": ("the service throttles requests", "run the command again later"),
    "ServiceQuotaExceededException": ("a quota is used up", "run the command again later"),
    "ExpiredTokenException": ("the credentials have expired", _LOGIN),
    "UnrecognizedClientException": ("AWS does not know these credentials", _LOGIN),
    "ServiceException": ("the service does not answer", "run the command again later"),
}
_SAME = {
    "ExpiredToken": "ExpiredTokenException",
    "InvalidSignatureException": "UnrecognizedClientException",
    "InvalidClientTokenId": "UnrecognizedClientException",
    "SignatureDoesNotMatch": "UnrecognizedClientException",
    "ThrottlingException": "ThrottledException",
    "TooManyRequestsException": "ThrottledException",
    "InternalServerException": "ServiceException",
    "503": "ServiceException",
}
_REACH = "check ?region=NAME and ?endpoint=URL, and the network"
_KINDS: tuple[tuple[tuple[type[Exception], ...], str, str], ...] = (
    (
        (exceptions.NoCredentialsError, exceptions.PartialCredentialsError),
        "no AWS credentials found",
        "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or name a profile: ?profile=NAME",
    ),
    ((exceptions.NoRegionError,), "no AWS region given", "add ?region=NAME, or set AWS_REGION"),
    (
        (exceptions.CredentialRetrievalError, exceptions.SSOError),
        "the credentials cannot be read",
        _LOGIN,
    ),
    ((exceptions.SSLError,), "TLS failed", "check the endpoint; AWS_CA_BUNDLE names authorities"),
    (
        (exceptions.EndpointConnectionError, HTTPClientError),
        "the endpoint cannot be reached",
        _REACH,
    ),
)
_CODE = re.compile(r"[\w.]{1,60}", re.ASCII)


class Event(NamedTuple):
    """An event of a session."""

    session: str
    event_id: str
    at: datetime
    metadata: Mapping[str, Any]
    blobs: Sequence[str]
    """The texts in its payload; other payloads are left out."""


@contextmanager
def explained(url: StoreUrl, verb: str = "read") -> Iterator[None]:
    """Turn errors of the driver into `StoreUnavailable` and `UsageError`, without its texts."""
    start = f"cannot {verb} '{url}'"
    try:
        yield
    except CkptError:
        raise
    except ClientError as error:
        code = str(error.response.get("Error", {}).get("Code"))
        if "AccessDenied" in code:
            action = f"bedrock-agentcore:{error.operation_name}"
            raise StoreUnavailable(
                f"{start}: access denied, {action} is not allowed",
                hint="docs/layouts.md lists the IAM actions that ckpt needs for this layout",
            ) from None
        reason, hint = _CODES.get(_SAME.get(code, code), ("", ""))
        shown = code if _CODE.fullmatch(code) else "an unknown error"
        reason = reason or f"AWS answers {shown} to {error.operation_name}"
        raise StoreUnavailable(f"{start}: {reason}", hint=hint) from None
    except exceptions.ProfileNotFound:
        raise UsageError(
            f"{start}: no such AWS profile", hint="`aws configure list-profiles` lists them"
        ) from None
    except (BotoCoreError, OSError) as error:
        for kinds, reason, hint in _KINDS:
            if isinstance(error, kinds):
                raise StoreUnavailable(f"{start}: {reason}", hint=hint) from None
        raise StoreUnavailable(f"{start}: {type(error).__name__}") from None
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise unexpected(url) from error  # the driver did not expect such an answer


class MemoryEvents(Closing):
    """The actors, sessions and events of a memory. Raises `StoreUnavailable`."""

    def __init__(self, url: StoreUrl) -> None:
        """Connect. Raises `UsageError` for a URL of another form, too."""
        self.url, self.memory = url, url.path
        if split_url(url.raw).user is not None:
            raise UsageError(
                "refused: the URL of a memory must not contain credentials",
                hint="set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or use ?profile=NAME",
            )
        if not _MEMORY.fullmatch(self.memory):
            raise UsageError(
                f"cannot open '{url}': not the id of a memory",
                hint="write agentcore://NAME-0123456789?region=eu-central-1",
            )
        if unknown := sorted(url.params.keys() - {"layout", *BACKEND.params}):
            raise UsageError(f"cannot read the URL '{url}': unknown parameter '{unknown[0]}'")
        self.actor = url.params.get("actor") or None
        with explained(url, "open"):
            self._client = _client(url)

    def actors(self) -> list[str]:
        """The actors, or the one that the URL names."""
        if self.actor is not None:
            return [self.actor]
        found = self._pages("list_actors", "actorSummaries")
        return [str(one["actorId"]) for one in found]

    def sessions(self, actor: str) -> list[str]:
        """The sessions of an actor; some may have no events."""
        found = self._pages("list_sessions", "sessionSummaries", actorId=actor)
        return [str(one["sessionId"]) for one in found]

    def events(self, actor: str, session: str) -> Iterator[Event]:
        """The events of a session, as the service lists them: the newest first."""
        place = {"actorId": actor, "sessionId": session}
        for one in self._pages("list_events", "events", **place, includePayloads=True):
            with explained(self.url):
                blobs = [item.get("blob") for item in one.get("payload", ())]
                texts = [text for text in blobs if isinstance(text, str)]
                metadata = one.get("metadata", {})
                yield Event(session, one["eventId"], one["eventTimestamp"], metadata, texts)

    def create(
        self,
        actor: str,
        session: str,
        at: datetime,
        blobs: Iterable[str],
        metadata: Mapping[str, Any] | None = None,
    ) -> str:
        """Add an event. Returns its id."""
        given: dict[str, Any] = {"metadata": metadata} if metadata else {}
        with explained(self.url, "write to"):
            answer = self._client.create_event(
                memoryId=self.memory,
                actorId=actor,
                sessionId=session,
                eventTimestamp=at,
                payload=[{"blob": one} for one in blobs],
                **given,
            )
            return str(answer["event"]["eventId"])

    def delete(self, actor: str, session: str, event_id: str) -> None:
        """Remove an event that may be there."""
        with explained(self.url, "write to"):
            try:
                self._client.delete_event(
                    memoryId=self.memory, actorId=actor, sessionId=session, eventId=event_id
                )
            except ClientError as error:
                if error.response.get("Error", {}).get("Code") != "ResourceNotFoundException":
                    raise

    def _pages(self, operation: str, name: str, **given: Any) -> Iterator[Mapping[str, Any]]:
        token: str | None = None
        while True:
            with explained(self.url):
                more = {} if token is None else {"nextToken": token}
                answer = getattr(self._client, operation)(
                    memoryId=self.memory, maxResults=_PAGE, **given, **more
                )
                found, token = answer[name], answer.get("nextToken")
            yield from found
            if not token:
                return

    def close(self) -> None:
        self._client.close()


@cache
def _loader(data_path: str | None) -> Any:
    """The reader of the services' descriptions, which keeps what it has read."""
    return create_loader(data_path)


def _client(url: StoreUrl) -> Any:
    session = Session(profile=url.params.get("profile") or None)
    # Reading the descriptions of the services takes longer than anything else here.
    session.register_component("data_loader", _loader(session.get_config_variable("data_path")))
    config = Config(
        connect_timeout=_CONNECT_SECONDS,
        read_timeout=_ANSWER_SECONDS,
        max_pool_connections=AT_ONCE + 2,
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
        user_agent_extra="ckpt",
    )
    try:
        client = session.create_client(
            "bedrock-agentcore",
            url.params.get("region") or None,
            endpoint_url=url.params.get("endpoint") or None,
            config=config,
        )
    except ValueError:
        raise UsageError(
            f"cannot open '{url}': endpoint or region has no valid form",
            hint="write ?endpoint=https://HOST and ?region=eu-central-1",
        ) from None
    place = urlsplit(client.meta.endpoint_url)
    if place.scheme == "http" and not is_local(place.hostname or ""):
        host = place.hostname or ""
        warn_unencrypted(host, "use an https:// endpoint", f"data from '{host}' comes")
    return client
