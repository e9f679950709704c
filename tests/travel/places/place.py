"""What a store must provide so that each trial can use its own thread."""

from __future__ import annotations

from typing import Any, Protocol

Rows = dict[str, list[tuple[Any, ...]]]
POINTERS = "checkpoint_latest"
"""Keys in Redis that point to the heads, and change with them."""


class Place(Protocol):
    """A store that an official saver fills and `ckpt` changes."""

    @property
    def url(self) -> str:
        """The URL for `ckpt -s`."""
        ...

    def saver(self) -> Any:
        """Return the official saver, ready to use."""
        ...

    def rows(self, thread_id: str) -> Rows:
        """Return all rows of a thread, without its id, by table."""
        ...

    def copy(self, thread_id: str, new_id: str, until: str = "~") -> None:
        """Copy a thread's rows, up to a checkpoint in the order of ids."""
        ...

    def has_memory(self, thread_id: str) -> bool:
        """Return whether a subgraph keeps its state between calls."""
        ...

    def forget(self, thread_id: str) -> None:
        """Remove a thread's rows."""
        ...
