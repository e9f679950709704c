"""Lists that are short enough for one query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TypeVar

_AT_ONCE = 200
"""Items in one list. Old SQLite releases allow at most 999 parameters."""
T = TypeVar("T")


def in_chunks(items: Iterable[T], at_once: int = _AT_ONCE) -> Iterator[list[T]]:
    """Yield the items in lists that are short enough for one query."""
    left = iter(items)
    while chunk := list(islice(left, at_once)):
        yield chunk
