"""Removes sessions that an application stores in Redis.

The application keeps no index of its sessions in Redis, only a cache in its own memory
(`_context_cache` of the quoted `utils/context_manager.py`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from redis import exceptions

from ckpt_backends.app_sessions import AppSession, WritableSessions
from ckpt_backends.changes.progress import Progress, silent
from ckpt_backends.changes.remains import Remaining, Remains
from ckpt_backends.errors import StoreChanged
from ckpt_backends.redis.engine.connection import RedisConnection
from ckpt_backends.redis.engine.driver_errors import explained_change
from ckpt_backends.redis.engine.keyspace import raw
from ckpt_backends.redis.engine.sessions import session_of
from ckpt_backends.url import StoreUrl

_CACHE = Remaining(
    "memory of a running application",
    "an application that has read a session may write it again; check after it has ended",
)


class WritableRedisSessions(WritableSessions):
    """The sessions in a Redis database, opened for removing some."""

    def __init__(self, connection: RedisConnection, url: StoreUrl) -> None:
        self._connection = connection
        self._url = url

    def remove(self, sessions: Sequence[AppSession]) -> int:
        """Remove sessions. On a cluster, they are removed one by one."""
        named = {raw(one.key): one for one in sessions}
        parts = [{name: one} for name, one in named.items()]
        for some in parts if self._connection.is_cluster else [named]:
            if some:
                self._remove(some)
        return len(named)

    def _remove(self, sessions: Mapping[bytes, AppSession]) -> None:
        names = list(sessions)
        outcome = "earlier ones are removed" if self._connection.is_cluster else "none was removed"
        try:
            with explained_change(self._url, outcome), self._connection.transaction(names) as pipe:
                pipe.watch(*names)
                for name, one in sessions.items():
                    if not _is_same(one, session_of(name, pipe.get(name) or b"", one.expires_at)):
                        raise self._changed()
                pipe.multi()
                pipe.execute_command("UNLINK", *names)
                pipe.execute()
        except exceptions.WatchError:
            raise self._changed() from None

    def _changed(self) -> StoreChanged:
        return StoreChanged(
            f"a session of '{self._url}' changed meanwhile",
            hint="the application may be using it; run the command again",
        )

    def begin_erasure(self) -> None:
        """Nothing to prepare."""

    def erase_remains(self, *, rewrite: bool = False, progress: Progress = silent) -> Remains:  # noqa: ARG002
        from ckpt_backends.redis.engine.erasing import erase_remains

        found = erase_remains(self._connection, self._url, progress)
        return found._replace(places=(_CACHE, *found.places))

    def close(self) -> None:
        self._connection.close()


def _is_same(read: AppSession, now: AppSession | None) -> bool:
    """Whether a session is as it was read, with or without its fields."""
    if now is None:
        return False
    fields = read.fields or now.fields
    return read._replace(fields={}) == now._replace(fields={}) and repr(fields) == repr(now.fields)
