"""Opens Redis layouts: the JSON documents of LangGraph's savers, and those of plain savers."""

from __future__ import annotations

from typing import ClassVar

from ckpt_backends.app_sessions import SessionStore
from ckpt_backends.errors import MissingDependency
from ckpt_backends.memory.protocol import MemoryStore, WritableMemoryStore
from ckpt_backends.protocol import Store, WritableStore
from ckpt_backends.servers.answer_errors import understanding, understood
from ckpt_backends.url import StoreUrl


class RedisBackend:
    """Opens Redis servers with checkpoints in one of the known layouts."""

    schemes: ClassVar[tuple[str, ...]] = ("redis", "rediss")

    @classmethod
    def open(cls, url: StoreUrl) -> Store:
        """Open for reading. Raises `StoreUnavailable`, `UnknownLayout` or `MissingDependency`."""
        _need_driver(url)
        from ckpt_backends.redis.engine.connect import connect
        from ckpt_backends.redis.engine.detect import open_layout

        connection = connect(url)
        try:
            with understood(url):
                return understanding(open_layout(connection, url).open(url), url)
        except BaseException:
            connection.close()
            raise

    @classmethod
    def open_writable(cls, url: StoreUrl) -> WritableStore:
        """Open for changing. Raises the errors of `open`, and `Unsupported`."""
        _need_driver(url)
        from ckpt_backends.redis.engine.connect import connect
        from ckpt_backends.redis.engine.detect import open_layout
        from ckpt_backends.redis.engine.write import WritableRedisStore

        connection = connect(url)
        try:
            with understood(url):
                layout = open_layout(connection, url)
            layout.check_writable(url)
            return understanding(WritableRedisStore(layout, url), url)
        except BaseException:
            connection.close()
            raise

    @classmethod
    def open_sessions(cls, url: StoreUrl) -> SessionStore:
        """Open the sessions for reading. Raises `StoreUnavailable` or `MissingDependency`."""
        _need_driver(url)
        from ckpt_backends.redis.engine.connect import connect
        from ckpt_backends.redis.engine.sessions import RedisSessions

        with understood(url):
            return understanding(RedisSessions(connect(url), url), url)

    @classmethod
    def open_memory(cls, url: StoreUrl) -> MemoryStore:
        """Open long-term memory for reading. Raises the errors of `open`."""
        _need_driver(url)
        from ckpt_backends.redis.engine.connect import connect
        from ckpt_backends.redis.official.memory_store import RedisMemory

        with understood(url):
            return understanding(RedisMemory(connect(url), url), url)

    @classmethod
    def open_writable_memory(cls, url: StoreUrl) -> WritableMemoryStore:
        """Open it for changing. Raises the errors of `open`."""
        _need_driver(url)
        from ckpt_backends.redis.engine.connect import connect
        from ckpt_backends.redis.official.memory_store import WritableRedisMemory

        with understood(url):
            return understanding(WritableRedisMemory(connect(url), url), url)


def _need_driver(url: StoreUrl) -> None:
    try:
        import redis  # noqa: F401
    except ImportError as error:
        raise MissingDependency(
            f"cannot open '{url}': Redis needs the driver redis",
            hint="install it: pip install 'langgraph-ckpt[redis]'",
        ) from error
