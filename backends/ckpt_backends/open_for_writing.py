"""Opens stores for writing. In the command line, only `ckpt_cli.apply` may import this module."""

from __future__ import annotations

from typing import cast

from ckpt_backends.errors import Unsupported
from ckpt_backends.memory.protocol import EditableMemoryStore, WritableMemoryStore
from ckpt_backends.protocol import WritableStore
from ckpt_backends.registry import hiding_values, load_backend
from ckpt_backends.url import StoreUrl


def open_writable_memory(url: StoreUrl) -> WritableMemoryStore:
    """Open long-term memory for changing it. Raises what `open_memory` raises."""
    with hiding_values(url):
        backend = load_backend(url.scheme)
        if not hasattr(backend, "open_writable_memory"):
            raise Unsupported(f"long-term memory in '{url.scheme}://' stores is read-only")
        return cast("WritableMemoryStore", backend.open_writable_memory(url))


def open_editable_memory(url: StoreUrl) -> EditableMemoryStore:
    """Open long-term memory for changing its items. Raises what `open_memory` raises."""
    with hiding_values(url):
        backend = load_backend(url.scheme)
        if not hasattr(backend, "open_editable_memory"):
            raise Unsupported(
                f"cannot edit items in '{url.scheme}://' stores",
                hint="only DeerFlow's memory.json can be edited",
            )
        return cast("EditableMemoryStore", backend.open_editable_memory(url))


def open_writable(url: StoreUrl) -> WritableStore:
    """Open a store for changing it. Raises what `open_store` raises, and `Unsupported`."""
    with hiding_values(url):
        backend = load_backend(url.scheme)
        if not hasattr(backend, "open_writable"):
            raise Unsupported(f"'{url.scheme}://' stores are read-only")
        return backend.open_writable(url)
