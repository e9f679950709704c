"""Reads containers of Azure Cosmos DB."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ckpt_backends.base import thread_of
from ckpt_backends.cosmosdb.connect import CosmosItems, explained
from ckpt_backends.cosmosdb.declaration import BACKEND
from ckpt_backends.cosmosdb.records import COLUMNS, fields_of, item_of, name_of, place_of, row_at
from ckpt_backends.model import Checkpoint, CheckpointKey, StoreInfo, Thread, TypedBytes, in_chunks
from ckpt_backends.objects import Name
from ckpt_backends.objects.store import ObjectStore
from ckpt_backends.protocol import Store
from ckpt_backends.rows import Row
from ckpt_backends.servers import STORE, checked
from ckpt_backends.url import StoreUrl

_TOGETHER = 100
"""Items that one query reads."""


@checked(*STORE)
class CosmosStore(ObjectStore):
    """A container, opened for reading."""

    columns = COLUMNS
    document_limit = 2 << 20
    objects: CosmosItems

    def __init__(self, url: StoreUrl) -> None:
        super().__init__(CosmosItems(url))
        self._url = url

    def describe(self) -> StoreInfo:
        return StoreInfo(
            layout="cosmosdb",
            url=str(self._url),
            engine="Azure Cosmos DB",
            saver="langchain-azure-cosmosdb, CosmosDBSaver",
            capabilities=BACKEND.layouts["cosmosdb"],
            tables=tuple(COLUMNS),
            size=None,
        )

    def opened(self, data: Mapping[str, Any]) -> tuple[Mapping[str, Any], TypedBytes | None]:
        return fields_of(data), None

    def row(self, name: Name, data: Mapping[str, Any]) -> Row:
        return row_at(name, data)

    def threads(self, *, limit: int | None = None) -> Iterator[Thread]:
        found: dict[str, list[Checkpoint]] = {}
        for one in self.objects.select(
            "SELECT VALUE c.id FROM c WHERE STARTSWITH(c.id, 'checkpoint$')"
        ):
            if one not in self.hidden and (name := name_of(str(one))) is not None:
                found.setdefault(name.key.thread_id, []).append(Checkpoint(name.key, None))
        threads: list[Any] = []
        for thread_id, checkpoints in found.items():
            checkpoints.sort(key=lambda one: one.key.checkpoint_id, reverse=True)
            threads.append(thread_of(thread_id, checkpoints))
        threads.sort(key=lambda one: one.last, reverse=True)
        yield from threads[:limit]

    def read(self, names: Iterable[Name]) -> Iterator[tuple[Name, Any]]:
        for some in in_chunks(names, _TOGETHER):
            with explained(self._url):
                found = self.objects.items(one.path for one in some)
            yield from ((one, found[one.path]) for one in some if one.path in found)

    def own_rows(self, thread_id: str, rows: Iterable[Row]) -> Iterator[Row]:
        for row in super().own_rows(thread_id, rows):
            item_of(row)
            yield row

    def sources(self, key: CheckpointKey) -> list[str]:
        return [
            f"SELECT * FROM c WHERE c.partition_key = '{place_of(path)[0]}'"
            for path in (f"checkpoint${'$'.join(key)}", f"writes${'$'.join(key)}$task$0")
        ]


def open_store(url: StoreUrl) -> Store:
    """Open for reading. Raises `UsageError`, `StoreUnavailable` or `UnknownLayout`."""
    return CosmosStore(url)
