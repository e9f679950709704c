"""Watch how far a long answer has come."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol, TypeVar

_Item = TypeVar("_Item")


class Watcher(Protocol):
    """Yields the items it is given, and shows how many there were; `tqdm.tqdm` is one."""

    def __call__(self, items: Iterable[_Item], /) -> Iterable[_Item]:
        """Return the same items."""


def unwatched(items: Iterable[_Item], /) -> Iterable[_Item]:
    """Return the items without showing anything."""
    return items
