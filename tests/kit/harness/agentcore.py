"""Bedrock AgentCore Memory, with AgentCoreMemorySaver of langgraph-checkpoint-aws.

What the tests add to the savers of AgentCore: an actor, and the reason of an error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from botocore.exceptions import ClientError
from langgraph_checkpoint_aws import AgentCoreMemorySaver
from langgraph_checkpoint_aws.checkpoint.agentcore.constants import EventDecodingError
from langgraph_checkpoint_aws.checkpoint.agentcore.helpers import (
    AgentCoreEventClient,
    EventProcessor,
    EventSerializer,
)
from langgraph_checkpoint_aws.checkpoint.agentcore.models import CheckpointerConfig, CheckpointEvent
from langgraph_checkpoint_aws.checkpoint.agentcore.snapshot import writes_session_id

from ckpt_backends.testing.harness import ROW_KINDS, Harness, Refusal, TestServer
from tests.kit.agentcore_memory import MEMORY, Memory, served
from tests.kit.harness.listing import listed


class TellingSerializer(EventSerializer):  # type: ignore[misc]
    """The official one, which says why a value cannot be read."""

    def deserialize_value(self, serialized: Any) -> Any:
        try:
            return super().deserialize_value(serialized)
        except EventDecodingError as error:
            raise error.__cause__ or error from None

    def deserialize_event(self, data: str) -> Any:
        # A saver that has another key would find no checkpoint at all, and log a warning.
        try:
            return super().deserialize_event(data)
        except EventDecodingError as error:
            if "MAC check failed" in str(error.__cause__):
                raise error.__cause__ or error from None
            raise


def with_actor(config: Any, actor: str) -> Any:
    return {**config, "configurable": {"actor_id": actor, **config["configurable"]}}


class PlainProcessor(EventProcessor):  # type: ignore[misc]
    """The official one, which adds no results of calls that nobody stored."""

    @staticmethod
    def build_checkpoint_tuple(event: Any, writes: Any, values: Any, config: Any) -> Any:
        found = EventProcessor.build_checkpoint_tuple(event, writes, values, config)
        version = str(found.checkpoint["channel_versions"].get("messages"))
        if ("messages", version) in values:
            found.checkpoint["channel_values"]["messages"] = values["messages", version]
        return found


class SeeingMemorySaver(AgentCoreMemorySaver):  # type: ignore[misc]
    """The official saver with one actor, whose `list` returns all namespaces."""

    def __init__(self, memory: str, actor: str, **options: Any) -> None:
        super().__init__(memory, **options)
        self._actor = actor
        self.serializer = TellingSerializer(self.serde)
        self.checkpoint_event_client.serializer = self.serializer

    def get_tuple(self, config: Any) -> Any:
        return super().get_tuple(with_actor(config, self._actor))

    def put_with_writes(self, config: Any, *parts: Any) -> Any:
        return super().put_with_writes(with_actor(config, self._actor), *parts)

    def put_writes(self, config: Any, *parts: Any) -> None:
        super().put_writes(with_actor(config, self._actor), *parts)

    def list(self, config: Any, **chosen: Any) -> Iterator[Any]:
        return listed(self._all(config or {}), **chosen)

    def _all(self, config: Any) -> Iterator[Any]:
        asked = with_actor({"configurable": {}, **config}, self._actor)["configurable"]
        threads = [asked["thread_id"]] if "thread_id" in asked else self.threads()
        for thread_id in threads:
            spaces = self.namespaces(thread_id)
            for ns in [asked["checkpoint_ns"]] if "checkpoint_ns" in asked else spaces:
                place = {**asked, "thread_id": thread_id, "checkpoint_ns": ns}
                yield from super().list({"configurable": place})

    def threads(self) -> Sequence[str]:
        return sorted({thread_id for thread_id, _ in self._places()})

    def namespaces(self, thread_id: str) -> Sequence[str]:
        return sorted({ns for own, ns in self._places() if own == thread_id})

    def forget(self, thread_id: str) -> None:
        """Remove the events of a thread; `delete_thread` leaves subgraphs."""
        for ns in self.namespaces(thread_id):
            for one in self.list({"configurable": {"thread_id": thread_id, "checkpoint_ns": ns}}):
                own = writes_session_id(thread_id, one.config["configurable"]["checkpoint_id"], ns)
                AgentCoreEventClient.delete_events(self.checkpoint_event_client, own, self._actor)
            session = CheckpointerConfig(
                thread_id=thread_id, actor_id=self._actor, checkpoint_ns=ns
            ).session_id
            AgentCoreEventClient.delete_events(self.checkpoint_event_client, session, self._actor)

    def _places(self) -> Iterator[tuple[str, str]]:
        client = self.checkpoint_event_client.client
        asked = {"memoryId": self.memory_id, "actorId": self._actor, "maxResults": 100}
        sessions: list[str] = []
        more: dict[str, str] = {}
        while True:
            answer = client.list_sessions(**asked, **more)
            sessions += [one["sessionId"] for one in answer["sessionSummaries"]]
            if not answer.get("nextToken"):
                break
            more = {"nextToken": answer["nextToken"]}
        for session in sessions:
            if session.startswith("lgw-"):
                continue
            for event in self.checkpoint_event_client.get_events(session, self._actor):
                if isinstance(event, CheckpointEvent):
                    yield event.thread_id, event.checkpoint_ns
                    break


ACTOR = "ann"
"""The actor of all threads of the suite."""


class AgentCoreHarness(Harness):
    """AgentCoreMemorySaver on a stand-in for the event API, in its usual form."""

    name: ClassVar[str] = "agentcore"
    writes_by_arrival: ClassVar[bool] = True
    row_kinds: ClassVar[Mapping[str, str]] = {**ROW_KINDS, "channel_data": "value"}
    failing_scenarios: ClassVar[frozenset[str]] = frozenset(
        # The service refuses a session id with such characters.
        {"alice@example.com", 'o\'brien "x"', "two\nlines", "100%", "*?[", "linear@head"}
        | {" padded ", "__\x1b[31mred\t<b>[bold]", "rtl \u202eevil\u202c"}
    )
    scenario_errors: ClassVar[Refusal] = ClientError
    skipped_scenarios: ClassVar[frozenset[str]] = frozenset({"interrupt-twice-answered"})
    """It adds the second question of a task to the first, so that LangGraph refuses an answer."""
    checkpoint_format: ClassVar[str] = "legacy"

    def create(self, folder: Path, server: TestServer | None) -> str:
        self._endpoint, self.memory = self.stack.enter_context(served())
        patch = self.stack.enter_context(pytest.MonkeyPatch.context())
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            patch.setenv(name, "testing")
        return f"agentcore://{MEMORY}?region=eu-central-1&endpoint={self._endpoint}"

    @contextmanager
    def saver(self) -> Iterator[Any]:
        made = SeeingMemorySaver(
            MEMORY,
            ACTOR,
            checkpoint_format=self.checkpoint_format,
            endpoint_url=self._endpoint,
            region_name="eu-central-1",
        )
        yield made
        made.checkpoint_event_client.client.close()

    def accepts_thread_id(self, thread_id: str) -> bool:
        return re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9-_]{0,99}", thread_id) is not None

    def fingerprint(self) -> object:
        return json.dumps(sorted((place, [*events.items()]) for place, events in self.stored()))

    def stored(self) -> list[tuple[tuple[str, str, str], dict[str, Any]]]:
        """The events of sessions that have some."""
        memory: Memory = self.memory
        return [(place, events) for place, events in memory.events.items() if events]

    def corrected_saver(self, saver: Any) -> Any:
        saver.processor = PlainProcessor()
        return saver

    def copy(self, thread_id: str, new_id: str, until: str = "~") -> None:
        # What the saver reads, and nothing that it adds.
        saver = self.kept_saver
        before, saver.processor = saver.processor, PlainProcessor()
        try:
            super().copy(thread_id, new_id, until)
        finally:
            saver.processor = before

    def forget(self, thread_id: str) -> None:
        self.kept_saver.forget(thread_id)


class AgentCoreSnapshotHarness(AgentCoreHarness):
    """The same with whole checkpoints, `checkpoint_format="snapshot"`."""

    name: ClassVar[str] = "agentcore on snapshots"
    only_scenarios: ClassVar[frozenset[str] | None] = frozenset(
        {"linear", "interrupt-nested", "fork-update", "subgraph-stateful", "chat", "subgraph"}
        | {"error", "breakpoint-before", "chat-edited", "fork-chat"}
    )
    checkpoint_format: ClassVar[str] = "snapshot"
