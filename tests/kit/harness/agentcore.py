"""Bedrock AgentCore Memory, with AgentCoreMemorySaver of langgraph-checkpoint-aws."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import pytest
from botocore.exceptions import ClientError

from ckpt_backends.testing.harness import ROW_KINDS, Harness, Refusal, TestServer
from tests.kit.agentcore_memory import MEMORY, Memory, served
from tests.kit.savers.agentcore import PlainProcessor, SeeingMemorySaver

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
