"""Long-term memory in LangGraph's MongoDBStore, opened for reading and for changing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence

from pymongo.client_session import ClientSession

from ckpt_backends.base import OnConnection
from ckpt_backends.changes.progress import Progress, silent
from ckpt_backends.changes.remains import Remains
from ckpt_backends.changes.rows import Restored, Row
from ckpt_backends.chunks import in_chunks
from ckpt_backends.errors import PartlyDone, StoreChanged
from ckpt_backends.memory.protocol import (
    Item,
    ItemKey,
    MemoryInfo,
    MemoryStore,
    Namespace,
    NamespaceSize,
    WritableMemoryStore,
    begins,
    check_unchanged,
)
from ckpt_backends.mongodb.engine.connect import MongoConnection
from ckpt_backends.mongodb.engine.driver_errors import explained_change
from ckpt_backends.mongodb.engine.fields import storable
from ckpt_backends.mongodb.engine.layout import MEMORY
from ckpt_backends.mongodb.engine.pipelines import Stage, length
from ckpt_backends.mongodb.engine.restoring import restore_rows
from ckpt_backends.mongodb.items import IS_ITEM, LABELS, ItemDocuments, StoredItem, item_key
from ckpt_backends.mongodb.moved_items import document_of, fitted_item
from ckpt_backends.url import StoreUrl

_VALUES_AT_ONCE = 20


class MongoMemory(OnConnection[MongoConnection], MemoryStore):
    """A MongoDBStore's collection, opened for reading."""

    def __init__(self, connection: MongoConnection, url: StoreUrl) -> None:
        super().__init__(connection, url)
        self._documents = ItemDocuments(connection, url)

    def describe(self) -> MemoryInfo:
        return MemoryInfo(
            layout="mongodb-store",
            url=str(self._url),
            engine=f"MongoDB {self._connection.version}",
            tables=(self._documents.name,),
            is_store=True,
            removes_expired=True,
        )

    def namespaces(self, prefix: Namespace = ()) -> Iterator[NamespaceSize]:
        if not all(map(storable, prefix)):
            return
        stages: list[Stage] = [
            {"$match": {**IS_ITEM, **_under(prefix)}},
            {"$project": {"namespace": 1, "labels": LABELS, "size": length("$value")}},
            {
                "$group": {
                    "_id": {"labels": "$labels", "namespace": "$namespace"},
                    "items": {"$sum": 1},
                    "bytes": {"$sum": "$size"},
                }
            },
            {"$sort": {"_id.labels": 1}},
        ]
        for row in self._connection.aggregate(self._documents.name, stages):
            namespace = tuple(map(str, row["_id"]["namespace"]))
            yield NamespaceSize(namespace, int(row["items"]), int(row["bytes"]))

    def items(
        self,
        *,
        prefix: Namespace = (),
        key: str | None = None,
        keys: Collection[ItemKey] | None = None,
        values: bool = False,
    ) -> Iterator[Item]:
        if not all(map(storable, (*prefix, key or ""))):
            return
        if keys is None:
            named = {} if key is None else {"key": key}
            found = self._documents.listed({**_under(prefix), **named})
        else:
            found = self._documents.named(
                {one for one in keys if begins(one.namespace, prefix) and key in {None, one.key}}
            )
        if not values:
            yield from (one.item for one in found)
            return
        for some in in_chunks(found, _VALUES_AT_ONCE):
            yield from self._documents.with_values(some)

    def rows(self, key: ItemKey) -> Iterator[Row]:
        yield from self._documents.rows(self._documents.named([key]))

    def key_of(self, row: Row) -> ItemKey:
        return item_key(row)

    def fitted(self, item: Item) -> Item:
        return fitted_item(item, self._documents.separator(), self._documents.lifetime)

    def refresh(self) -> None:
        self._connection.restart()


class WritableMongoMemory(OnConnection[MongoConnection], WritableMemoryStore):
    """A MongoDBStore's collection, opened for changing."""

    def __init__(self, connection: MongoConnection, url: StoreUrl) -> None:
        super().__init__(connection, url)
        self._documents = ItemDocuments(connection, url)

    def remove(self, items: Sequence[Item]) -> int:
        """Remove items, all or none, as `WritableMemoryStore.remove` says.

        A standalone server has no transactions, so there the items are removed one by one. Raises
        `PartlyDone` there if an item changes after other items were removed.
        """
        self._connection.restart()
        found = {
            (one.item.key, one.item.updated_at): one
            for one in self._documents.named([item.key for item in items])
        }
        for one in items:
            place = found.get((one.key, one.updated_at))
            check_unchanged(one, None if place is None else place.item)
        places = [found[one.key, one.updated_at] for one in items]
        with explained_change(self._url):
            if not self._connection.has_transactions:
                return self._remove(places, None)
            with self._connection.transaction() as session:
                return self._remove(places, session)

    def _remove(self, places: Sequence[StoredItem], session: ClientSession | None) -> int:
        collection = self._connection.raw(self._documents.name)
        for done, one in enumerate(places):
            # The comparison is exact: times are stored and read in milliseconds.
            match = {"_id": one.identity, "updated_at": one.item.updated_at}
            if collection.delete_one(match, session=session).deleted_count:
                continue
            if done and session is None:
                raise PartlyDone(f"{done} items are removed, another changed meanwhile")
            raise StoreChanged(
                f"an item of '{self._url}' changed meanwhile, so nothing was removed",
                hint="an agent may be using the store; run the command again",
            )
        return len(places)

    def receive(self, items: Sequence[Item]) -> None:
        separator = self._documents.separator()
        documents = [document_of(one, separator) for one in items]
        collection = self._connection.raw(self._documents.name)
        with explained_change(self._url):
            if not self._connection.has_transactions:
                collection.insert_many(documents)
                return
            with self._connection.transaction() as session:
                collection.insert_many(documents, session=session)

    def restore(self, rows: Iterable[Row]) -> Restored:
        with explained_change(self._url):
            collections = {MEMORY: self._documents.name}
            keys = {MEMORY: ("namespace", "key")}
            return restore_rows(self._connection, collections, keys, rows)

    def erase_remains(self, *, rewrite: bool = False, progress: Progress = silent) -> Remains:
        from ckpt_backends.mongodb.engine.erasing import erase_remains

        names = [self._documents.name]
        return erase_remains(self._connection, self._url, names, rewrite=rewrite, progress=progress)


def _under(prefix: Namespace) -> Stage:
    return {f"namespace.{place}": label for place, label in enumerate(prefix)}
