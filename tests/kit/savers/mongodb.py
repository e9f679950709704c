"""The official MongoDB saver, with its reading faults corrected."""

from __future__ import annotations

from copy import copy
from typing import Any


class InOrder:
    """A collection that returns writes in the order in which LangGraph applies them."""

    def __init__(self, collection: Any) -> None:
        self._collection = collection

    def find(self, *words: Any) -> Any:
        return self._collection.find(*words).sort({"task_path": 1, "task_id": 1, "idx": 1})

    def __getattr__(self, name: str) -> Any:
        return getattr(self._collection, name)


def in_order(saver: Any) -> Any:
    """Return the saver with writes in the right order.

    The official saver uses the order of the server, so that writes of parallel tasks reach a
    DeltaChannel in the order of the task ids.
    """
    found = copy(saver)
    found.writes_collection = InOrder(saver.writes_collection)
    return found
