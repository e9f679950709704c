"""The official MongoDB saver, with its reading faults corrected, and databases that it fills."""

import json
from copy import copy
from typing import Any

import pymongo
from langgraph.checkpoint.mongodb import MongoDBSaver

from tests.kit.agents.steps import talk


class InOrder:
    """A collection that returns writes in the order in which LangGraph applies them."""

    def __init__(self, collection: Any) -> None:
        self._collection = collection

    def find(self, *words: Any) -> Any:
        return self._collection.find(*words).sort({"task_path": 1, "task_id": 1, "idx": 1})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._collection, name)


def in_order(saver: Any) -> Any:
    """Return the saver with writes by task paths; the official one lets the server order them."""
    found = copy(saver)
    found.writes_collection = InOrder(saver.writes_collection)
    return found


class Place:
    def __init__(self, url: str) -> None:
        self.url = url
        self.name = url.rpartition("/")[2].partition("?")[0]
        self.client: Any = pymongo.MongoClient(url)
        self.database: Any = self.client[self.name]

    def saver(self, *names: str, **options: Any) -> Any:
        made: Any = MongoDBSaver
        return made(self.client, self.name, *names, **options)

    def fill(self, *threads: str, saver: Any = None) -> None:
        talk(saver or self.saver(), *threads)

    def age(self, match: Any) -> None:
        """Rewrite metadata as releases 0.1 to 0.2.1 stored it: leaves are JSON texts."""
        saver = self.saver()

        def old(value: Any) -> Any:
            if isinstance(value, dict):
                return {name: old(one) for name, one in value.items()}
            return json.dumps(saver.serde.loads_typed(value)).encode()

        for one in self.database["checkpoints"].find(match):
            change = {"$set": {"metadata": old(one["metadata"])}}
            self.database["checkpoints"].update_one({"_id": one["_id"]}, change)
