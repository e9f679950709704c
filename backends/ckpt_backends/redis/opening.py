"""Opens Redis servers with checkpoints in one of the known layouts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ckpt_backends.app_sessions import SessionStore, WritableSessions
from ckpt_backends.protocol import Store, WritableStore
from ckpt_backends.servers import opening, understanding, understood
from ckpt_backends.url import StoreUrl

if TYPE_CHECKING:
    # Memory has many classes, and a store of checkpoints needs none of them.
    from ckpt_backends.memory import MemoryStore, WritableMemoryStore


def open_store(url: StoreUrl) -> Store:
    """Open for reading. Raises `StoreUnavailable` or `UnknownLayout`."""
    from ckpt_backends.redis.engine.connect import connect
    from ckpt_backends.redis.engine.detect import open_layout

    with opening(connect(url), url) as connection:
        return understanding(open_layout(connection, url).open(url), url)


def open_writable(url: StoreUrl) -> WritableStore:
    """Open for changing. Raises the errors of `open`, and `Unsupported`."""
    from ckpt_backends.redis.engine.connect import connect
    from ckpt_backends.redis.engine.detect import open_layout
    from ckpt_backends.redis.engine.write import WritableRedisStore

    with opening(connect(url), url) as connection:
        layout = open_layout(connection, url)
        layout.check_writable(url)
        return understanding(WritableRedisStore(layout, url), url)


def open_sessions(url: StoreUrl) -> SessionStore:
    """Open the sessions for reading. Raises `StoreUnavailable`."""
    from ckpt_backends.redis.engine.connect import connect
    from ckpt_backends.redis.engine.sessions import RedisSessions

    with understood(url):
        return understanding(RedisSessions(connect(url), url), url)


def open_writable_sessions(url: StoreUrl) -> WritableSessions:
    """Open the sessions for removing some. Raises `StoreUnavailable`."""
    from ckpt_backends.redis.engine.connect import connect
    from ckpt_backends.redis.engine.sessions import WritableRedisSessions

    with understood(url):
        return understanding(WritableRedisSessions(connect(url), url), url)


def open_memory(url: StoreUrl) -> MemoryStore:
    """Open long-term memory for reading. Raises the errors of `open`."""
    from ckpt_backends.redis.engine.connect import connect
    from ckpt_backends.redis.official.memory import RedisMemory

    with understood(url):
        return understanding(RedisMemory(connect(url), url), url)


def open_writable_memory(url: StoreUrl) -> WritableMemoryStore:
    """Open it for changing. Raises the errors of `open`."""
    from ckpt_backends.redis.engine.connect import connect
    from ckpt_backends.redis.official.memory import WritableRedisMemory

    with understood(url):
        return understanding(WritableRedisMemory(connect(url), url), url)
