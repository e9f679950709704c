"""Opens MongoDB databases that `langgraph-checkpoint-mongodb` or KaFlow wrote."""

from __future__ import annotations

from ckpt_backends.memory.protocol import MemoryStore, WritableMemoryStore
from ckpt_backends.protocol import Store, WritableStore
from ckpt_backends.servers.answer_errors import understanding, understood
from ckpt_backends.url import StoreUrl


def open_store(url: StoreUrl) -> Store:
    """Open for reading.

    Raises `StoreUnavailable`, `UnknownLayout` or `SeveralLayouts`.
    """
    from ckpt_backends.apps.kaflow.read import KaflowStore
    from ckpt_backends.mongodb.engine.catalog import find_layout
    from ckpt_backends.mongodb.engine.connect import connect
    from ckpt_backends.mongodb.layout import KAFLOW
    from ckpt_backends.mongodb.read import MongoStore

    connection = connect(url)
    try:
        with understood(url):
            layout = find_layout(connection, url)
        store = KaflowStore if layout.name == KAFLOW else MongoStore
        return understanding(store(connection, url, layout), url)
    except BaseException:
        connection.close()
        raise


def open_writable(url: StoreUrl) -> WritableStore:
    """Open for changing. Raises the errors of `open`, and `Unsupported`."""
    from ckpt_backends.mongodb.engine.catalog import find_layout
    from ckpt_backends.mongodb.engine.connect import connect
    from ckpt_backends.mongodb.write import WritableMongoStore

    connection = connect(url)
    try:
        with understood(url):
            layout = find_layout(connection, url)
        return understanding(WritableMongoStore(connection, url, layout), url)
    except BaseException:
        connection.close()
        raise


def open_memory(url: StoreUrl) -> MemoryStore:
    """Open long-term memory for reading. Raises the errors of `open`."""
    from ckpt_backends.mongodb.engine.connect import connect
    from ckpt_backends.mongodb.memory_store import MongoMemory

    with understood(url):
        return understanding(MongoMemory(connect(url), url), url)


def open_writable_memory(url: StoreUrl) -> WritableMemoryStore:
    """Open it for changing. Raises the errors of `open`."""
    from ckpt_backends.mongodb.engine.connect import connect
    from ckpt_backends.mongodb.memory_store import WritableMongoMemory

    with understood(url):
        return understanding(WritableMongoMemory(connect(url), url), url)
