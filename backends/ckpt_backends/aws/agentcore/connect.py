"""The events of a memory of Bedrock AgentCore. Credentials come from boto3's own chain."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from botocore.exceptions import ClientError

from ckpt_backends.aws.agentcore.declaration import BACKEND
from ckpt_backends.aws.engine import Errors, check_url, client_of, code_of, session_of
from ckpt_backends.errors import Closing, UsageError
from ckpt_backends.url import StoreUrl

_MEMORY = re.compile(r"[a-zA-Z][\w-]{0,99}-[a-zA-Z0-9]{10}", re.ASCII)
_PARAMS = frozenset({"layout", *BACKEND.params})
_PAGE = 100
_ERRORS = Errors(
    {
        "ResourceNotFoundException": (
            "no such memory in this region",
            "check the id and ?region=NAME; "
            "`aws bedrock-agentcore-control list-memories` lists them",
        ),
        "ServiceQuotaExceededException": ("a quota is used up", "run the command again later"),
    },
    {},
    "bedrock-agentcore",
)
explained = _ERRORS.explained


class Event(NamedTuple):
    """An event of a session."""

    session: str
    event_id: str
    at: datetime
    metadata: Mapping[str, Any]
    blobs: Sequence[str]
    """The texts in its payload; other payloads are left out."""


class MemoryEvents(Closing):
    """The actors, sessions and events of a memory. Raises `StoreUnavailable`."""

    def __init__(self, url: StoreUrl) -> None:
        """Connect. Raises `UsageError` for a URL of another form, too."""
        self.url, self.memory = url, url.path
        check_url(url, "the URL of a memory", _PARAMS)
        if not _MEMORY.fullmatch(self.memory):
            raise UsageError(
                f"cannot open '{url}': not the id of a memory",
                hint="write agentcore://NAME-0123456789?region=eu-central-1",
            )
        self.actor = url.params.get("actor") or None
        with explained(url, "open"):
            self._client = client_of(url, session_of(url), "bedrock-agentcore")

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
                if code_of(error) != "ResourceNotFoundException":
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
