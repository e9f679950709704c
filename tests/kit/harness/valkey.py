"""Valkey servers, with the savers of langgraph-checkpoint-aws."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, ClassVar

from langgraph_checkpoint_aws.checkpoint.valkey import AgentCoreValkeySaver, ValkeySaver
from valkey import Valkey

from ckpt_backends.testing.harness import POINTERS, ROW_KINDS, Harness, Refusal, StoredRows
from tests.kit.harness.agentcore import TellingSerializer, with_actor
from tests.kit.harness.listing import listed
from tests.kit.harness.redis import KeysHarness


class SeeingValkeySaver(ValkeySaver):  # type: ignore[misc]
    """The official saver with complete reading; it writes as the original.

    The released `list` returns nothing without a thread, and only the root of a thread without a
    namespace. It ignores `before` if the list does not contain that id, as in the namespaces of
    subgraphs, so that LangGraph's own time travel resumes a subgraph from its newest state.
    """

    def list(self, config: Any, **chosen: Any) -> Iterator[Any]:
        return listed(self._all((config or {}).get("configurable", {})), **chosen)

    def _all(self, asked: Any) -> Iterator[Any]:
        for name in sorted(self.client.scan_iter("thread:{*", 5000)):
            thread_id, _, ns = name.decode().removeprefix("thread:{").rpartition("}:")
            place = {"thread_id": thread_id, "checkpoint_ns": ns}
            if {**place, **asked} == {**asked, **place}:
                yield from super().list({"configurable": {**asked, **place}})


class ValkeyHarness(KeysHarness):
    """ValkeySaver on a separate server, without modules."""

    scheme: ClassVar[str] = "valkey"
    name: ClassVar[str] = "valkey"
    server: ClassVar[str | None] = "redis"
    values_as_text: ClassVar[bool] = True
    writes_by_arrival: ClassVar[bool] = True
    writes_in_one_row: ClassVar[bool] = True
    has_task_paths: ClassVar[bool] = False
    failing_scenarios: ClassVar[frozenset[str]] = frozenset({"zoo-bytes"})
    """The saver cannot store a bytearray."""
    scenario_errors: ClassVar[Refusal] = TypeError

    @contextmanager
    def saver(self) -> Iterator[Any]:
        with Valkey.from_url(self.url) as client:
            yield SeeingValkeySaver(client)

    def rows(self, thread_id: str) -> StoredRows:
        found: StoredRows = {"checkpoint": [], "writes": [], POINTERS: []}
        for ns in self._namespaces(thread_id):
            for own in self._ids(thread_id, ns):
                stored = json.loads(self.client.get(f"checkpoint:{{{thread_id}}}:{ns}:{own}"))
                metadata = stored.pop("metadata")
                del stored["thread_id"]
                # The metadata is the sixth part, as in the tables of the other places.
                found["checkpoint"].append((ns, own, json.dumps(stored), "", "", metadata))
                written = self.client.get(f"writes:{{{thread_id}}}:{ns}:{own}")
                found["writes"] += [(ns, own, written)] if written else []
            # As in a copy of a branch, the list may have fewer ids.
            found[POINTERS].append((ns, "", "", "", "", *self._ids(thread_id, ns)))
        return {kind: sorted(rows) for kind, rows in found.items()}

    def _namespaces(self, thread_id: str) -> list[str]:
        names = self.names("thread", f"{{{thread_id}}}")
        return sorted(one.decode().rpartition("}:")[2] for one in names)

    def _ids(self, thread_id: str, ns: str) -> list[str]:
        return [one.decode() for one in self.client.lrange(f"thread:{{{thread_id}}}:{ns}", 0, -1)]

    def forget(self, thread_id: str) -> None:
        for kind in ("checkpoint", "writes", "thread"):
            for name in self.names(kind, f"{{{thread_id}}}"):
                self.client.delete(name)


ACTOR = "ann:1"
"""The actor of all threads of the suite. Nothing is escaped in keys."""


class SeeingAgentCoreValkeySaver(AgentCoreValkeySaver):  # type: ignore[misc]
    """The official saver with one actor and complete reading; it writes as the original.

    Its actor comes with each config; the graphs of the suite name none. The released `list` returns
    nothing without a thread, only the root of a thread without a namespace, and all checkpoints
    where the config names one.
    """

    @property
    def event_serializer(self) -> Any:
        """As it would be made for the serializer that the saver has now."""
        return TellingSerializer(self.serde)

    @event_serializer.setter
    def event_serializer(self, value: object) -> None:
        """It follows the serializer."""

    def get_tuple(self, config: Any) -> Any:
        return super().get_tuple(with_actor(config, ACTOR))

    def put(self, config: Any, *parts: Any) -> Any:
        return super().put(with_actor(config, ACTOR), *parts)

    def put_writes(self, config: Any, *parts: Any) -> None:
        super().put_writes(with_actor(config, ACTOR), *parts)

    def delete_thread(self, thread_id: str, actor_id: str = ACTOR) -> None:
        super().delete_thread(thread_id, actor_id)

    def list(self, config: Any, **chosen: Any) -> Iterator[Any]:
        return listed(self._all((config or {}).get("configurable", {})), **chosen)

    def _all(self, asked: Any) -> Iterator[Any]:
        for thread_id, ns in spaces_of(self.client):
            place = {"thread_id": thread_id, "checkpoint_ns": ns}
            if {**place, **asked} == {**asked, **place}:
                own = asked.get("checkpoint_id")
                found = super().list({"configurable": {**asked, **place, "actor_id": ACTOR}})
                yield from (one for one in found if own in (None, one.checkpoint["id"]))


def spaces_of(client: Any) -> list[tuple[str, str]]:
    """The threads with their namespaces, as one checkpoint of each tells."""
    names = client.scan_iter("agentcore:checkpoint:*", 5000)
    one_of = {name.rpartition(b":")[0]: name for name in names}
    found = [json.loads(text) for text in client.mget([*one_of.values()]) if text]
    return sorted({(one["thread_id"], one["checkpoint_ns"]) for one in found})


class AgentCoreValkeyHarness(ValkeyHarness):
    """AgentCoreValkeySaver on a separate server."""

    name: ClassVar[str] = "valkey-agentcore"
    has_task_paths: ClassVar[bool] = True
    writes_in_one_row: ClassVar[bool] = True
    row_kinds: ClassVar[Mapping[str, str]] = {**ROW_KINDS, "channel": "index"}
    failing_scenarios: ClassVar[frozenset[str]] = frozenset()
    skipped_scenarios: ClassVar[frozenset[str]] = frozenset({"interrupt-twice-answered"})
    """It adds the second question of a task to the first, so that LangGraph refuses an answer."""
    rows = Harness.rows

    @contextmanager
    def saver(self) -> Iterator[Any]:
        with Valkey.from_url(self.url) as client:
            yield SeeingAgentCoreValkeySaver(client)

    def forget(self, thread_id: str) -> None:
        for own, ns in spaces_of(self.client):
            if own == thread_id:
                session = sha256(f"{own}_{ns}".encode()).hexdigest() if ns else own
                start = f"{session}:{ACTOR}:".encode()
                for name in list(self.client.scan_iter("agentcore:*", 5000)):
                    if name.split(b":", 2)[2].startswith(start):
                        self.client.delete(name)
