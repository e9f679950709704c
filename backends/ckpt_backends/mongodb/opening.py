"""Opens MongoDB databases: checkpoints of any saver that recognises its own, and memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar, cast

from ckpt_backends.discovery import load
from ckpt_backends.memory import MemoryStore, WritableMemoryStore
from ckpt_backends.protocol import Store, WritableStore
from ckpt_backends.servers import opening, understanding
from ckpt_backends.url import StoreUrl

if TYPE_CHECKING:
    from ckpt_backends.mongodb.engine.connect import MongoConnection

_Opened = TypeVar("_Opened")


def open_store(url: StoreUrl) -> Store:
    """Open for reading. Raises `StoreUnavailable`, `UnknownLayout` or `SeveralLayouts`."""
    return cast("Store", _opened(url, lambda connection: _found(connection, url, "store")))


def open_writable(url: StoreUrl) -> WritableStore:
    """Open for changing. Raises the errors of `open_store`, and `Unsupported`."""
    return cast(
        "WritableStore", _opened(url, lambda connection: _found(connection, url, "writable"))
    )


def _found(connection: MongoConnection, url: StoreUrl, facet: str) -> object:
    from ckpt_backends.mongodb.engine.catalog import find_layout

    layout = find_layout(connection, url)
    return load(getattr(layout.saver, facet))(connection, url, layout)


def open_memory(url: StoreUrl) -> MemoryStore:
    """Open long-term memory for reading. Raises the errors of `open_store`."""
    from ckpt_backends.mongodb.memory import MongoMemory

    return _opened(url, lambda connection: MongoMemory(connection, url))


def open_writable_memory(url: StoreUrl) -> WritableMemoryStore:
    """Open it for changing. Raises the errors of `open_store`."""
    from ckpt_backends.mongodb.memory import WritableMongoMemory

    return _opened(url, lambda connection: WritableMongoMemory(connection, url))


def _opened(url: StoreUrl, make: Callable[[MongoConnection], _Opened]) -> _Opened:
    """What `make` returns for a new connection, which is closed if it fails."""
    from ckpt_backends.mongodb.engine.connect import connect

    with opening(connect(url), url) as connection:
        return understanding(make(connection), url)
