"""Opens DeerFlow's memory: facts about its users, in files of its folder."""

from __future__ import annotations

from contextlib import suppress
from typing import ClassVar

from ckpt_backends import shell
from ckpt_backends.errors import UnknownLayout, Unsupported
from ckpt_backends.memory.protocol import EditableMemoryStore, MemoryStore, WritableMemoryStore
from ckpt_backends.protocol import Store, WritableStore
from ckpt_backends.url import StoreUrl


class DeerFlowBackend:
    """Opens the memory files of DeerFlow."""

    schemes: ClassVar[tuple[str, ...]] = ("deerflow",)

    @classmethod
    def open_memory(cls, url: StoreUrl) -> MemoryStore:
        """Open memory files for reading. Raises `StoreUnavailable`, `UnknownLayout`."""
        from ckpt_backends.apps.deerflow.read import DeerFlowMemory

        return DeerFlowMemory(url)

    @classmethod
    def open_writable_memory(cls, url: StoreUrl) -> WritableMemoryStore:
        """Open memory files for writing. Raises the errors of `open_memory`."""
        return cls.open_editable_memory(url)

    @classmethod
    def open_editable_memory(cls, url: StoreUrl) -> EditableMemoryStore:
        """Open memory files for writing and for setting fields of items."""
        from ckpt_backends.apps.deerflow.write import WritableDeerFlowMemory

        return WritableDeerFlowMemory(url)

    @classmethod
    def open(cls, url: StoreUrl) -> Store:
        """Raises `StoreUnavailable`, or `Unsupported` with a hint at the checkpoint store."""
        raise _no_threads(url)

    @classmethod
    def open_writable(cls, url: StoreUrl) -> WritableStore:
        """Raises `Unsupported`, like `open`."""
        raise _no_threads(url)


def _no_threads(url: StoreUrl) -> Unsupported:
    from ckpt_backends.apps.deerflow.checkpointer import checkpointer_of
    from ckpt_backends.apps.deerflow.places import base_of, places

    # Let `places` raise its error if the file or folder does not exist.
    with suppress(UnknownLayout):
        places(url)
    found = checkpointer_of(base_of(url))
    hint = (
        f"name the store of its threads with -s; it was not found: {found.why}"
        if found.url is None
        else f"its threads are in another store: use -s {shell.name(str(found.url))}"
    )
    return Unsupported(f"'{url}' holds DeerFlow's memory, not threads", hint=hint)
