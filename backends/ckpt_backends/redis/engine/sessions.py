"""Reads the sessions that an application stores next to a plain saver, as JSON texts.

    PREFIX:USER:SESSION    {session_id, user_id, thread_id, created_at, updated_at, current_step,
                            conversation_history: [...], shared_memory: {...}, ...}

Source: `utils/context_manager.py`, quoted by a user of LangGraph: `json.dumps(asdict(state))` with
a time to live of some days. The prefix is not public, so a session is recognised by its text: an
object with `session_id` and `user_id`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta

from redis import exceptions

from ckpt_backends.app_sessions import AppSession, SessionStore, WritableSessions
from ckpt_backends.changes import Remaining, Remains
from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Value
from ckpt_backends.errors import Closing, StoreChanged
from ckpt_backends.model import Progress, TypedBytes, silent
from ckpt_backends.redis.engine.connection import (
    Command,
    RedisConnection,
    connect,
    explained_change,
)
from ckpt_backends.redis.engine.keyspace import STRING, raw, text, with_contents
from ckpt_backends.servers import understanding, understood
from ckpt_backends.url import StoreUrl

PATTERN = "*context*:*:*"
"""The default pattern of the keys to examine; the URL parameter `pattern` replaces it."""


class RedisSessions(Closing):
    """The sessions in a Redis database."""

    def __init__(self, connection: RedisConnection, url: StoreUrl) -> None:
        self._connection = connection
        self._pattern = raw(url.params.get("pattern", PATTERN))

    def sessions(self) -> Iterator[AppSession]:
        ask = self._connection.ask_all
        for names in self._connection.scan_once(self._pattern, STRING):
            left = dict(zip(names, ask(("PTTL", name) for name in names), strict=True))
            now = datetime.now(UTC)
            for name, _, value in with_contents(
                self._connection, names, lambda name: ("STRLEN", name), lambda name: ("GET", name)
            ):
                expires = None if left[name] < 0 else now + timedelta(milliseconds=left[name])
                if (found := session_of(name, value or b"", expires)) is not None:
                    yield found

    def close(self) -> None:
        self._connection.close()


def session_of(name: bytes, value: bytes, expires_at: datetime | None) -> AppSession | None:
    """The session from the text of a key; None if it is not a session."""
    found = decode(TypedBytes("json", value))
    if not isinstance(found, dict):
        return None
    fields = {key: item for key, item in found.items() if isinstance(key, str)}
    session, user = _text(fields, "session_id"), _text(fields, "user_id")
    if session is None or user is None:
        return None
    return AppSession(
        text(name),
        session,
        user,
        _text(fields, "thread_id") or None,
        _text(fields, "created_at"),
        _text(fields, "updated_at"),
        len(value),
        expires_at,
        fields,
    )


def _text(fields: dict[str, Value], name: str) -> str | None:
    found = fields.get(name)
    return str(found) if isinstance(found, str | int) and not isinstance(found, bool) else None


# Removes sessions that an application stores in Redis.
#
# The application keeps no index of its sessions in Redis, only a cache in its own memory
# (`_context_cache` of the quoted `utils/context_manager.py`).


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
        outcome = "earlier ones are removed" if self._connection.is_cluster else "none was removed"
        try:
            with explained_change(self._url, outcome):
                self._connection.change(list(sessions), lambda _: self._removing(sessions))
        except exceptions.WatchError:
            raise self._changed() from None

    def _removing(self, sessions: Mapping[bytes, AppSession]) -> Iterator[Command]:
        stored = self._connection.ask_all(("GET", name) for name in sessions)
        for (name, one), now in zip(sessions.items(), stored, strict=True):
            if not _is_same(one, session_of(name, now or b"", one.expires_at)):
                raise self._changed()
        yield ("UNLINK", *sessions)

    def _changed(self) -> StoreChanged:
        return StoreChanged(
            f"a session of '{self._url}' changed meanwhile",
            hint="the application may be using it; run the command again",
        )

    def begin_erasure(self) -> None:
        """Nothing to prepare."""

    def erase_remains(self, *, rewrite: bool = False, progress: Progress = silent) -> Remains:  # noqa: ARG002
        from ckpt_backends.redis.engine.write import erase_remains

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


def open_sessions(url: StoreUrl) -> SessionStore:
    """Open the sessions for reading. Raises `StoreUnavailable`."""
    with understood(url):
        return understanding(RedisSessions(connect(url), url), url)


def open_writable_sessions(url: StoreUrl) -> WritableSessions:
    """Open the sessions for removing some. Raises `StoreUnavailable`."""
    with understood(url):
        return understanding(WritableRedisSessions(connect(url), url), url)
