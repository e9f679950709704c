"""LangGraph's SQLite layout: one file, the tables `checkpoints` and `writes`."""

from __future__ import annotations

from typing import ClassVar

from ckpt_backends.memory import MemoryStore, WritableMemoryStore
from ckpt_backends.protocol import Store, WritableStore
from ckpt_backends.url import StoreUrl


class SqliteBackend:
    """Opens SQLite files written by LangGraph's savers."""

    schemes: ClassVar[tuple[str, ...]] = ("sqlite",)

    @classmethod
    def open(cls, url: StoreUrl) -> Store:
        """Open a file for reading. Raises `StoreUnavailable` or `UnknownLayout`."""
        from ckpt_backends.sqlite.open import open_read_only
        from ckpt_backends.sqlite.read import SqliteStore

        return SqliteStore(open_read_only(url), url)

    @classmethod
    def open_writable(cls, url: StoreUrl) -> WritableStore:
        """Open a file for changing. Raises `StoreUnavailable` or `UnknownLayout`."""
        from ckpt_backends.sqlite.open import open_for_writing
        from ckpt_backends.sqlite.write import WritableSqliteStore

        return WritableSqliteStore(open_for_writing(url), url)

    @classmethod
    def open_memory(cls, url: StoreUrl) -> MemoryStore:
        """Open a file's long-term memory. Raises `StoreUnavailable` or `UnknownLayout`."""
        from ckpt_backends.sqlite.memory import SqliteMemory
        from ckpt_backends.sqlite.open import open_read_only

        return SqliteMemory(open_read_only(url), url)

    @classmethod
    def open_writable_memory(cls, url: StoreUrl) -> WritableMemoryStore:
        """Open it for changing. Raises what `open_memory` raises, and `Unsupported`."""
        from ckpt_backends.sqlite.memory import WritableSqliteMemory
        from ckpt_backends.sqlite.open import open_for_writing

        return WritableSqliteMemory(open_for_writing(url), url)
