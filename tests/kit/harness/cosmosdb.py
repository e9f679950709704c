"""Containers of Azure Cosmos DB with the items of `CosmosDBSaver`."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar

from ckpt_backends.testing.harness import Harness, Refusal, TestServer
from tests.kit.servers import COSMOSDB_KEY, Server

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
            key=COSMOSDB_KEY,
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
