"""Reads the sessions that an application stores next to a plain saver, as JSON texts.

    PREFIX:USER:SESSION    {session_id, user_id, thread_id, created_at, updated_at, current_step,
                            conversation_history: [...], shared_memory: {...}, ...}

Source: `utils/context_manager.py`, quoted by a user of LangGraph: `json.dumps(asdict(state))` with
a time to live of some days. The prefix is not public, so a session is recognised by its text: an
object with `session_id` and `user_id`.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from ckpt_backends.app_sessions import AppSession
from ckpt_backends.closing import Closing
from ckpt_backends.codec import decode
from ckpt_backends.codec.values import Value
from ckpt_backends.model import TypedBytes
from ckpt_backends.redis.engine.connection import RedisConnection
from ckpt_backends.redis.engine.keyspace import STRING, raw, text
from ckpt_backends.url import StoreUrl

PATTERN = "*context*:*:*"
"""The default pattern of the keys to examine; the URL parameter `pattern` replaces it."""
_MOST_BYTES = 64 << 20
_AT_ONCE = 20


class RedisSessions(Closing):
    """The sessions in a Redis database."""

    def __init__(self, connection: RedisConnection, url: StoreUrl) -> None:
        self._connection = connection
        self._pattern = raw(url.params.get("pattern", PATTERN))

    def sessions(self) -> Iterator[AppSession]:
        for names in self._connection.scan_once(self._pattern, STRING):
            for start in range(0, len(names), _AT_ONCE):
                yield from self._load(names[start : start + _AT_ONCE])

    def _load(self, names: list[bytes]) -> Iterator[AppSession]:
        sizes = list(self._connection.ask_all(("STRLEN", name) for name in names))
        small = [
            name
            for name, size in zip(names, sizes, strict=True)
            if size is not None and 0 < size <= _MOST_BYTES
        ]
        values = self._connection.ask_all(("GET", name) for name in small)
        left = self._connection.ask_all(("PTTL", name) for name in small)
        now = datetime.now(UTC)
        for name, value, milliseconds in zip(small, list(values), left, strict=True):
            expires = None if milliseconds < 0 else now + timedelta(milliseconds=milliseconds)
            found = session_of(name, value or b"", expires)
            if found is not None:
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
