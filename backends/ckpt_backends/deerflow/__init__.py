"""DeerFlow's memory: what it keeps of its users across threads, in files of its own folder."""

from __future__ import annotations

from contextlib import suppress
from typing import ClassVar

from ckpt_backends.errors import UnknownLayout, Unsupported
from ckpt_backends.memory import EditableMemoryStore, MemoryStore, WritableMemoryStore
from ckpt_backends.protocol import Store, WritableStore
from ckpt_backends.url import StoreUrl


class DeerFlowBackend:
    """Opens the memory files that DeerFlow writes."""

    schemes: ClassVar[tuple[str, ...]] = ("deerflow",)

    @classmethod
    def open_memory(cls, url: StoreUrl) -> MemoryStore:
        """Open memory files for reading. Raises `StoreUnavailable`, `UnknownLayout`."""
        from ckpt_backends.deerflow.read import DeerFlowMemory

        return DeerFlowMemory(url)

    @classmethod
    def open_writable_memory(cls, url: StoreUrl) -> WritableMemoryStore:
        """Open memory files for changing them. Raises what `open_memory` raises."""
        return cls.open_editable_memory(url)

    @classmethod
    def open_editable_memory(cls, url: StoreUrl) -> EditableMemoryStore:
        """The same, also for setting fields."""
        from ckpt_backends.deerflow.write import WritableDeerFlowMemory

        return WritableDeerFlowMemory(url)

    @classmethod
    def open(cls, url: StoreUrl) -> Store:
        """Raises `StoreUnavailable`, or `Unsupported` with a hint at where the checkpoints are."""
        raise _no_threads(url)

    @classmethod
    def open_writable(cls, url: StoreUrl) -> WritableStore:
        """Raises `Unsupported`, as `open` does."""
        raise _no_threads(url)


def _no_threads(url: StoreUrl) -> Unsupported:
    from ckpt_backends.deerflow.checkpointer import checkpointer_of
    from ckpt_backends.deerflow.places import base_of, places

    # What is not there at all is told as such.
    with suppress(UnknownLayout):
        places(url)
    found = checkpointer_of(base_of(url))
    hint = found.why if found.url is None else f"its threads are in another store: -s '{found.url}'"
    return Unsupported(f"'{url}' holds the memory of DeerFlow, and no threads", hint=hint)
