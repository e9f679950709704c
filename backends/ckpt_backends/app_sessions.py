"""Sessions that an application stores in the same database as its checkpoints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import Protocol, Self

from ckpt_backends.codec.values import Value

NO_SESSIONS = "applications store no sessions in them"
"""Why a store has no sessions."""


@dataclass(frozen=True, slots=True)
class AppSession:
    """One session of an application with a user."""

    key: str
    """The key in the database."""
    session_id: str
    user_id: str
    thread_id: str | None
    """The session's thread; None if the session names none."""
    created_at: str | None
    """As the application wrote it; may be local time without a zone."""
    updated_at: str | None
    size: int
    """Stored bytes."""
    expires_at: datetime | None
    """None if it never expires."""
    fields: Mapping[str, Value] = field(default_factory=dict)
    """All stored fields by name."""


class SessionStore(Protocol):
    """A store of sessions, opened for reading."""

    def sessions(self) -> Iterator[AppSession]:
        """All sessions, unsorted. Keys that do not look like a session are left out."""
        ...

    def close(self) -> None:
        """Release the connection; closing twice is allowed."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
