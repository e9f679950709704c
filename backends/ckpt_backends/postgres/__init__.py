"""LangGraph's PostgreSQL layouts: `checkpoints`, `checkpoint_blobs` and `checkpoint_writes`."""

from __future__ import annotations

from typing import ClassVar

from ckpt_backends.errors import MissingDependency
from ckpt_backends.memory import MemoryStore, WritableMemoryStore
from ckpt_backends.protocol import Store, WritableStore
from ckpt_backends.url import StoreUrl


class PostgresBackend:
    """Opens PostgreSQL databases that LangGraph's savers, Python or JavaScript, wrote."""

    schemes: ClassVar[tuple[str, ...]] = ("postgresql", "postgres")

    @classmethod
    def open(cls, url: StoreUrl) -> Store:
        """Open for reading. Raises `StoreUnavailable`, `UnknownLayout` or `MissingDependency`."""
        _need_driver(url)
        from ckpt_backends.postgres.connect import connect
        from ckpt_backends.postgres.read import PostgresStore

        return PostgresStore(connect(url), url)

    @classmethod
    def open_writable(cls, url: StoreUrl) -> WritableStore:
        """Open for changing. Raises what `open` raises, and `Unsupported`."""
        _need_driver(url)
        from ckpt_backends.postgres.connect import connect
        from ckpt_backends.postgres.write import WritablePostgresStore

        return WritablePostgresStore(connect(url, writable=True), url)

    @classmethod
    def open_memory(cls, url: StoreUrl) -> MemoryStore:
        """Open long-term memory. Raises what `open` raises."""
        _need_driver(url)
        from ckpt_backends.postgres.connect import connect
        from ckpt_backends.postgres.memory import PostgresMemory

        return PostgresMemory(connect(url), url)

    @classmethod
    def open_writable_memory(cls, url: StoreUrl) -> WritableMemoryStore:
        """Open it for changing. Raises what `open` raises, and `Unsupported`."""
        _need_driver(url)
        from ckpt_backends.postgres.connect import connect
        from ckpt_backends.postgres.memory import WritablePostgresMemory

        return WritablePostgresMemory(connect(url, writable=True), url)


def _need_driver(url: StoreUrl) -> None:
    try:
        import psycopg  # noqa: F401
    except ImportError as error:
        raise MissingDependency(
            f"cannot open '{url}': PostgreSQL needs the driver psycopg",
            hint="install it: pip install 'langgraph-ckpt[postgres]'",
        ) from error
