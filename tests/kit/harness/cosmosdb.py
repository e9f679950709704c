"""Containers of Azure Cosmos DB with the items of `CosmosDBSaver`."""

from __future__ import annotations

import uuid
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from ckpt_backends.testing.counting import Count
from ckpt_backends.testing.harness import Harness, Refusal, StoredRows, TestServer
from tests.kit.servers import Server

KEY = "Y2twdC10ZXN0cw=="
"""The server takes any key."""
_REFUSED = frozenset("$/\\#?\t\r\n")


class CosmosHarness(Harness):
    """`CosmosDBSaverSync` of langchain-azure-cosmosdb on a container of its own."""

    name: ClassVar[str] = "cosmosdb"
    server: ClassVar[str | None] = "cosmosdb"
    has_task_paths: ClassVar[bool] = False
    writes_by_arrival: ClassVar[bool] = True
    failing_scenarios: ClassVar[frozenset[str]] = frozenset(
        # The driver refuses a thread id with such characters.
        {"two\nlines", "*?[", "__\x1b[31mred\t<b>[bold]"}
    )
    scenario_errors: ClassVar[Refusal] = Exception

    def create(self, folder: Path, server: TestServer | None) -> str:
        assert isinstance(server, Server)
        self.endpoint = server.url
        self.database = f"ckpt-test-{uuid.uuid4().hex[:12]}"
        self.stack.callback(lambda: self.seeing.client.delete_database(self.database))
        host = server.url.partition("://")[2]
        return f"cosmosdb://{host}/{self.database}/checkpoints?tls=false"

    @cached_property
    def seeing(self) -> Any:
        """The saver, whose constructor asks the server several times."""
        from tests.kit.savers.cosmosdb import SeeingSaver

        return SeeingSaver(
            self.database,
            "checkpoints",
            endpoint=self.endpoint,
            key=KEY,
            # The server names a region with https, which it does not speak.
            cosmos_client_kwargs={"enable_endpoint_discovery": False},
        )

    @contextmanager
    def saver(self) -> Iterator[Any]:
        yield self.seeing

    def accepts_thread_id(self, thread_id: str) -> bool:
        return _REFUSED.isdisjoint(thread_id)

    def items(self, thread_id: str | None = None) -> list[dict[str, Any]]:
        """All items, or those of a thread, without what the server adds."""
        found = [
            {name: one for name, one in item.items() if not name.startswith("_")}
            for item in self.seeing.container.read_all_items()
            if thread_id is None or item["id"].split("$")[1] == thread_id
        ]
        return sorted(found, key=lambda item: (item["partition_key"], item["id"]))

    def forget(self, thread_id: str) -> None:
        for item in self.items(thread_id):
            self.seeing.container.delete_item(item["id"], item["partition_key"])

    def fingerprint(self) -> object:
        return self.items()

    def rows(self, thread_id: str) -> StoredRows:
        found: StoredRows = {"checkpoints": [], "writes": []}
        for item in self.items(thread_id):
            kind, _, ns, own, *task = item["id"].split("$")
            if kind == "checkpoint":
                parent, metadata = item["parent_checkpoint_id"], repr(item["metadata"])
                row = (ns, own, parent, item["type"], item["checkpoint"], metadata)
                found["checkpoints"].append(row)
            else:
                row = (ns, own, *task, item["channel"], item["type"], item["value"])
                found["writes"].append(row)
        return {table: sorted(rows, key=repr) for table, rows in found.items()}

    def copy(self, thread_id: str, new_id: str, until: str = "~") -> None:
        for item in self.items(thread_id):
            if item["id"].split("$")[3] <= until:
                for name in ("id", "partition_key"):
                    kind, _, *rest = item[name].split("$")
                    item[name] = "$".join((kind, new_id, *rest))
                self.seeing.container.upsert_item({**item, "thread_id": new_id})

    def has_stateful_subgraph(self, thread_id: str) -> bool:
        found = self.seeing.namespaces({"configurable": {"thread_id": thread_id}})
        return any(ns and ":" not in ns for ns in found)

    def count(self) -> Count:
        found = Count()
        for item in self.items():
            if item["id"].startswith("checkpoint$"):
                size = len(b64decode(item["checkpoint"])) + len(b64decode(item["metadata"][1]))
                found.add("checkpoints", "checkpoints", size)
            else:
                found.add("writes", "writes", len(b64decode(item["value"])))
        return found
