"""A stand-in for the event API of Bedrock AgentCore Memory.

It answers what `bedrock-agentcore` documents of CreateEvent, GetEvent, ListEvents, DeleteEvent,
ListActors and ListSessions: ids of the documented patterns, at most 100 payload items and 10 MB an
event, pages with tokens, events with the newest time first, client tokens, and a memory that is not
there. moto 5.2.5 lists neither actors nor sessions, and has one page. It checks no signature.
"""

from __future__ import annotations

import json
import re
import secrets
import threading
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any
from urllib.parse import unquote

from tests.kit.json_server import JsonHandler, serving

MEMORY = "tests-0123456789"
_ACTOR = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9-_/]*(?::[a-zA-Z0-9-_/]+)*[a-zA-Z0-9-_/]*")
_SESSION = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9-_]*")
_LONGEST_ACTOR, _LONGEST_SESSION, _MOST_ITEMS, _MOST_BYTES = 255, 100, 100, 10_000_000


class Failure(Exception):
    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status, self.code = status, code


class Memory:
    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.events: dict[tuple[str, str, str], dict[str, dict[str, Any]]] = {}
        """By memory, actor and session, the events by their ids."""
        self.failures: list[tuple[str, Failure]] = []
        """Errors for the next requests of an operation."""
        self._tokens: dict[str, dict[str, Any]] = {}
        self._numbers = count()

    def answer(self, method: str, path: str, given: dict[str, Any]) -> tuple[int, Any]:
        match [method, *map(unquote, path.strip("/").split("/"))]:
            case ["POST", "memories", memory, "events"]:
                return 201, {"event": self._create(memory, given)}
            case ["POST", "memories", memory, "actors"]:
                self._fail("ListActors")
                actors = sorted({one[1] for one in self.events if one[0] == memory})
                return 200, _page("actorSummaries", [{"actorId": one} for one in actors], given)
            case ["POST", "memories", memory, "actor", actor, "sessions"]:
                self._fail("ListSessions")
                found = [one[2] for one in self.events if one[:2] == (memory, actor)]
                sessions = [{"sessionId": one, "actorId": actor, "createdAt": 0} for one in found]
                return 200, _page("sessionSummaries", sessions, given)
            case ["POST", "memories", memory, "actor", actor, "sessions", session]:
                self._fail("ListEvents")
                return 200, self._list((memory, actor, session), given)
            case [_, "memories", memory, "actor", actor, "sessions", session, "events", own]:
                self._fail("GetEvent" if method == "GET" else "DeleteEvent")
                events = self.events.get((memory, actor, session), {})
                if own not in events:
                    raise Failure(404, "ResourceNotFoundException")
                if method == "GET":
                    return 200, {"event": _shown(events[own], payload=True)}
                del events[own]
                return 200, {"eventId": own}
        raise Failure(404, "UnknownOperationException")

    def _fail(self, operation: str) -> None:
        for number, (name, failure) in enumerate(self.failures):
            if name == operation:
                del self.failures[number]
                raise failure

    def _create(self, memory: str, given: dict[str, Any]) -> dict[str, Any]:
        self._fail("CreateEvent")
        actor, payload = given.get("actorId", ""), given.get("payload", [])
        session = given.get("sessionId") or str(uuid.uuid4())
        if (
            not _ACTOR.fullmatch(actor)
            or len(actor) > _LONGEST_ACTOR
            or not _SESSION.fullmatch(session)
            or len(session) > _LONGEST_SESSION
            or len(payload) > _MOST_ITEMS
            or len(json.dumps(payload)) > _MOST_BYTES
        ):
            raise Failure(400, "ValidationException")
        token = given.get("clientToken")
        if token in self._tokens:
            return _shown(self._tokens[token], payload=True)
        at = float(given["eventTimestamp"])
        event = {
            **{"memoryId": memory, "actorId": actor, "sessionId": session},
            **{"eventId": f"{int(at * 1000):019d}#{secrets.token_hex(4)}", "eventTimestamp": at},
            **{"payload": payload, "branch": {"name": "main"}},
            **{"metadata": given.get("metadata", {}), "number": next(self._numbers)},
        }
        self.events.setdefault((memory, actor, session), {})[event["eventId"]] = event
        if token is not None:
            self._tokens[token] = event
        return _shown(event, payload=True)

    def _list(self, place: tuple[str, str, str], given: dict[str, Any]) -> Any:
        found = sorted(
            self.events.get(place, {}).values(),
            key=lambda one: (one["eventTimestamp"], one["number"]),
            reverse=True,
        )
        for one in given.get("filter", {}).get("eventMetadata", []):
            key, wanted = one["left"]["metadataKey"], one["right"]["metadataValue"]
            found = [event for event in found if event["metadata"].get(key) == wanted]
        shown = [_shown(one, payload=given.get("includePayloads", False)) for one in found]
        return _page("events", shown, given)


def _shown(event: dict[str, Any], *, payload: bool) -> dict[str, Any]:
    left_out = {"number"} if payload else {"number", "payload"}
    return {name: one for name, one in event.items() if name not in left_out}


def _page(name: str, found: list[Any], given: dict[str, Any]) -> dict[str, Any]:
    start, most = int(given.get("nextToken") or 0), given.get("maxResults") or 20
    end = start + most
    return {name: found[start:end]} | ({"nextToken": str(end)} if end < len(found) else {})


@contextmanager
def served() -> Iterator[tuple[str, Memory]]:
    """Run a service on a free port. Yields its address, and what it holds."""
    memory = Memory()

    class Handler(JsonHandler):
        def do_POST(self) -> None:
            text = self.body()
            try:
                with memory.lock:
                    if f"/memories/{MEMORY}/" not in f"{self.path}/":
                        raise Failure(404, "ResourceNotFoundException")
                    answer = memory.answer(self.command, self.path, json.loads(text or b"{}"))
                    status, body = answer[0], json.dumps(answer[1])
                self.answer(status, body)
            except Failure as failure:
                told = json.dumps({"message": f"secret of {self.path}"})
                self.answer(failure.status, told, {"x-amzn-errortype": failure.code})

        do_GET = do_DELETE = do_POST

    with serving(Handler) as address:
        yield address, memory
