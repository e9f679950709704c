"""Reads containers of Azure Cosmos DB."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from datetime import datetime
from typing import Any

from ckpt_backends.base import ThreadSum
from ckpt_backends.cosmosdb.connect import CosmosItems, explained
from ckpt_backends.cosmosdb.declaration import BACKEND
from ckpt_backends.cosmosdb.records import COLUMNS, KINDS, fields_of, item_of, place_of, row_at
from ckpt_backends.errors import UnknownLayout
from ckpt_backends.model import CheckpointKey, Expiry, StoreInfo, Thread, TypedBytes, in_chunks
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
        """Connect. Raises `UsageError`, `StoreUnavailable` or `UnknownLayout`."""
        super().__init__(CosmosItems(url))
        self._url = url
        if not any(map(self.objects.has_item, KINDS)) and self.objects.has_item(""):
            raise UnknownLayout(
                f"no checkpoints of CosmosDBSaver in '{url}'",
                hint="check the names of the database and of the container",
            )

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
        found: dict[str, ThreadSum] = {}
        for name, _ in self.objects.listed("STARTSWITH(c.id, 'checkpoint$')"):
            if name.path not in self.hidden:
                found.setdefault(name.key.thread_id, ThreadSum()).add(name.key)
        threads: list[Any] = [one.thread(thread_id) for thread_id, one in found.items()]
        yield from sorted(threads, key=lambda one: one.last, reverse=True)[:limit]

    def read(self, names: Iterable[Name]) -> Iterator[tuple[Name, Any]]:
        for some in in_chunks(names, _TOGETHER):
            with explained(self._url):
                found = self.objects.items(one.path for one in some)
            yield from ((one, found[one.path]) for one in some if one.path in found)

    def order_of_write(self, name: Name) -> Any:
        """As the saver sorts them: by their numbers, and then in the order of arrival."""
        return name.key, name.task and name.task[1]

    @property
    def keys_expire(self) -> bool:
        return self.objects.lifetime is not None

    def expiries(
        self, thread_id: str, checkpoint_ns: str, checkpoint_ids: Collection[str]
    ) -> Iterator[Expiry]:
        times: dict[CheckpointKey, datetime] = {}
        of_writes: dict[CheckpointKey, datetime] = {}
        if self.keys_expire:
            for name, at in self.objects.expiries(thread_id, checkpoint_ns):
                found = times if name.task is None else of_writes
                found[name.key] = min(at, found.get(name.key, at))
        for own in checkpoint_ids:
            key = CheckpointKey(thread_id, checkpoint_ns, own)
            if key in times or key in of_writes:
                yield Expiry(key, times.get(key), of_writes.get(key))

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
