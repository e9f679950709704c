"""What a store must offer so that each trial can have a thread of its own."""

from __future__ import annotations

from typing import Any, Protocol

Rows = dict[str, list[tuple[Any, ...]]]
POINTERS = "checkpoint_latest"
"""What names the heads in Redis, and changes with them."""


class Place(Protocol):
    """A store that an official saver fills and `ckpt` changes."""

    @property
    def url(self) -> str:
        """What `ckpt -s` opens it with."""
        ...

    def saver(self) -> Any:
        """The official saver, ready to use."""
        ...

    def rows(self, thread_id: str) -> Rows:
        """All rows of a thread, without its id, by table."""
        ...

    def copy(self, thread_id: str, new_id: str, until: str = "~") -> None:
        """Copy a thread's rows, up to a checkpoint in the order of the ids."""
        ...

    def has_memory(self, thread_id: str) -> bool:
        """Whether a subgraph keeps its state between calls."""
        ...

    def forget(self, thread_id: str) -> None:
        """Remove a thread's rows."""
        ...
