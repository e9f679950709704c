"""MongoDB databases."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pymongo

from tests.mongodb import in_order
from tests.travel.places.place import Rows


class MongoPlace:
    """A database of the MongoDB saver."""

    TABLES = ("checkpoints", "checkpoint_writes")

    def __init__(self, url: str) -> None:
        from langgraph.checkpoint.mongodb import MongoDBSaver

        self.url = url
        name = url.rpartition("/")[2]
        self.client: Any = pymongo.MongoClient(url)
        self.database = self.client[name]
        self._saver: Any = in_order(MongoDBSaver(self.client, name))

    def saver(self) -> Any:
        return self._saver

    def rows(self, thread_id: str) -> Rows:
        return {
            table: sorted(
                tuple(
                    repr(row[name])
                    for name in sorted(row, key=lambda one: (one == "metadata", one))
                )
                for row in self.database[table].find({"thread_id": thread_id}, self._kept())
            )
            for table in self.TABLES
        }

    def copy(self, thread_id: str, new_id: str, until: str = "~") -> None:
        for table in self.TABLES:
            found = self.database[table].find(
                {"thread_id": thread_id, "checkpoint_id": {"$lte": until}}, self._kept()
            )
            copies = [{**row, "thread_id": new_id} for row in found]
            if copies:
                self.database[table].insert_many(copies)

    def has_memory(self, thread_id: str) -> bool:
        found = self.database["checkpoints"].distinct("checkpoint_ns", {"thread_id": thread_id})
        return any(ns and ":" not in ns for ns in found)

    def forget(self, thread_id: str) -> None:
        self._saver.delete_thread(thread_id)

    def close(self) -> None:
        self.client.close()

    @staticmethod
    def _kept() -> dict[str, int]:
        return {"_id": 0, "thread_id": 0}


@contextmanager
def mongodb_place(url: str) -> Iterator[MongoPlace]:
    place = MongoPlace(url)
    try:
        yield place
    finally:
        place.close()
