"""The official MongoDB saver with what it reads wrongly put right."""

from __future__ import annotations

from copy import copy
from typing import Any


class InOrder:
    """A collection of writes that gives them in the order in which LangGraph applies them."""

    def __init__(self, collection: Any) -> None:
        self._collection = collection

    def find(self, *words: Any) -> Any:
        return self._collection.find(*words).sort({"task_path": 1, "task_id": 1, "idx": 1})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._collection, name)


def in_order(saver: Any) -> Any:
    """The saver takes writes as the server gives them, so that those of tasks that ran side by
    side reach a DeltaChannel in the order of the tasks' ids."""
    found = copy(saver)
    found.writes_collection = InOrder(saver.writes_collection)
    return found
