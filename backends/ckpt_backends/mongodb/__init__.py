"""Opens the MongoDB layouts of LangGraph's savers and of KaFlow."""

from __future__ import annotations

from typing import ClassVar

from ckpt_backends.errors import MissingDependency
from ckpt_backends.memory.protocol import MemoryStore, WritableMemoryStore
from ckpt_backends.protocol import Store, WritableStore
from ckpt_backends.servers.answer_errors import understanding, understood
from ckpt_backends.url import StoreUrl


class MongoBackend:
    """Opens MongoDB databases that `langgraph-checkpoint-mongodb` or KaFlow wrote."""

    schemes: ClassVar[tuple[str, ...]] = ("mongodb", "mongodb+srv")

    @classmethod
    def open(cls, url: StoreUrl) -> Store:
        """Open for reading.

        Raises `StoreUnavailable`, `UnknownLayout`, `SeveralLayouts` or `MissingDependency`.
        """
        _need_driver(url)
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

    @classmethod
    def open_writable(cls, url: StoreUrl) -> WritableStore:
        """Open for changing. Raises the errors of `open`, and `Unsupported`."""
        _need_driver(url)
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

    @classmethod
    def open_memory(cls, url: StoreUrl) -> MemoryStore:
        """Open long-term memory for reading. Raises the errors of `open`."""
        _need_driver(url)
        from ckpt_backends.mongodb.engine.connect import connect
        from ckpt_backends.mongodb.memory_store import MongoMemory

        with understood(url):
            return understanding(MongoMemory(connect(url), url), url)

    @classmethod
    def open_writable_memory(cls, url: StoreUrl) -> WritableMemoryStore:
        """Open it for changing. Raises the errors of `open`."""
        _need_driver(url)
        from ckpt_backends.mongodb.engine.connect import connect
        from ckpt_backends.mongodb.memory_store import WritableMongoMemory

        with understood(url):
            return understanding(WritableMongoMemory(connect(url), url), url)


def _need_driver(url: StoreUrl) -> None:
    try:
        import pymongo  # noqa: F401
    except ImportError as error:
        raise MissingDependency(
            f"cannot open '{url}': MongoDB needs the driver pymongo",
            hint="install it: pip install 'langgraph-ckpt[mongodb]'",
        ) from error
