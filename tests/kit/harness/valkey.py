"""Valkey servers, with ValkeySaver of langgraph-checkpoint-aws."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import redis
from langgraph.checkpoint.base import get_checkpoint_id
from langgraph_checkpoint_aws.checkpoint.valkey import ValkeySaver
from valkey import Valkey

from ckpt_backends.testing.counting import Count
from ckpt_backends.testing.harness import POINTERS, Harness, Refusal, StoredRows, TestServer
from tests.kit.savers.redis import dump


class SeeingValkeySaver(ValkeySaver):  # type: ignore[misc]
    """The official saver with complete reading; it writes as the original.

    The released `list` returns nothing without a thread, and only the root of a thread without a
    namespace. It ignores `before` if the list does not contain that id, as in the namespaces of
    subgraphs, so that LangGraph's own time travel resumes a subgraph from its newest state.
    """

    def list(
        self, config: Any, *, before: Any = None, limit: int | None = None, **options: Any
    ) -> Iterator[Any]:
        end = get_checkpoint_id(before) if before else None
        found = self._all(config, options)
        yield from islice((one for one in found if not end or one.checkpoint["id"] < end), limit)

    def _all(self, config: Any, options: Any) -> Iterator[Any]:
        asked = (config or {}).get("configurable", {})
        for name in sorted(self.client.scan_iter("thread:{*", 5000)):
            thread_id, _, ns = name.decode().removeprefix("thread:{").rpartition("}:")
            place = {"thread_id": thread_id, "checkpoint_ns": ns}
            if {**place, **asked} == {**asked, **place}:
                yield from super().list({"configurable": {**asked, **place}}, **options)


class ValkeyHarness(Harness):
    """ValkeySaver on a separate server, without modules."""

    name: ClassVar[str] = "valkey"
    server: ClassVar[str | None] = "redis"
    values_as_text: ClassVar[bool] = True
    writes_by_arrival: ClassVar[bool] = True
    writes_in_one_row: ClassVar[bool] = True
    has_task_paths: ClassVar[bool] = False
    failing_scenarios: ClassVar[frozenset[str]] = frozenset({"zoo-bytes"})
    """The saver cannot store a bytearray."""
    scenario_errors: ClassVar[Refusal] = TypeError

    def create(self, folder: Path, server: TestServer | None) -> str:
        assert server is not None
        return server.url.replace("redis://", "valkey://")

    @cached_property
    def client(self) -> Any:
        """A client of its own, open until the harness is closed."""
        address = self.url.replace("valkey://", "redis://")
        return self.stack.enter_context(redis.Redis.from_url(address, protocol=2))

    @contextmanager
    def saver(self) -> Iterator[Any]:
        with Valkey.from_url(self.url) as client:
            yield SeeingValkeySaver(client)

    def fingerprint(self) -> object:
        return dump(self.url.replace("valkey://", "redis://"))

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
        start = f"thread:{{{thread_id}}}:".encode()
        names = self.client.scan_iter("thread:{*", 5000)
        return sorted(one.removeprefix(start).decode() for one in names if one.startswith(start))

    def _ids(self, thread_id: str, ns: str) -> list[str]:
        return [one.decode() for one in self.client.lrange(f"thread:{{{thread_id}}}:{ns}", 0, -1)]

    def copy(self, thread_id: str, new_id: str, until: str = "~") -> None:
        for ns in self._namespaces(thread_id):
            for own in reversed(self._ids(thread_id, ns)):
                if own > until:
                    continue
                name = f"checkpoint:{{{thread_id}}}:{ns}:{own}"
                stored = {**json.loads(self.client.get(name)), "thread_id": new_id}
                text = json.dumps(stored, separators=(",", ":"))
                self.client.set(f"checkpoint:{{{new_id}}}:{ns}:{own}", text)
                new = f"writes:{{{new_id}}}:{ns}:{own}"
                self.client.copy(f"writes:{{{thread_id}}}:{ns}:{own}", new)
                self.client.lpush(f"thread:{{{new_id}}}:{ns}", own)

    def has_stateful_subgraph(self, thread_id: str) -> bool:
        return any(ns and ":" not in ns for ns in self._namespaces(thread_id))

    def forget(self, thread_id: str) -> None:
        for kind in ("checkpoint", "writes", "thread"):
            start = f"{kind}:{{{thread_id}}}:".encode()
            for name in list(self.client.scan_iter(f"{kind}:{{*", 5000)):
                if name.startswith(start):
                    self.client.delete(name)

    def count(self) -> Count:
        found = Count()
        for name in self.client.scan_iter(count=1000):
            match name.partition(b":")[0]:
                case b"checkpoint":
                    found.add("checkpoint", "checkpoints", self.client.strlen(name))
                case b"writes":
                    writes = json.loads(self.client.get(name))
                    found.rows["writes"] += 1
                    found.held["writes"] += len(writes)
                    found.held["bytes"] += sum(len(one["value"]) for one in writes)
                case b"thread":
                    found.rows["thread"] += 1
        return found
