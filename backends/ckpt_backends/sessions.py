"""Sessions that an application keeps beside its checkpoints, each with the thread it talks in."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from types import TracebackType
from typing import Protocol, Self

from ckpt_backends.codec.values import Value


@dataclass(frozen=True, slots=True)
class AppSession:
    """What an application remembers of one session with a user."""

    key: str
    """Where it is stored."""
    session_id: str
    user_id: str
    thread_id: str | None
    """The thread of LangGraph that it talks in; None where it names none."""
    created_at: str | None
    """As the application wrote it, which may be local time without a zone."""
    updated_at: str | None
    size: int
    """Length of what is stored in bytes."""
    expires_at: datetime | None
    """None where it stays."""
    fields: Mapping[str, Value] = field(default_factory=dict)
    """All that is stored, by name."""


class SessionStore(Protocol):
    """A store of sessions, opened for reading."""

    def sessions(self) -> Iterator[AppSession]:
        """All sessions, in no order. What does not look like one is left out."""
        ...

    def close(self) -> None:
        """Give the connection back; closing twice is allowed."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None: ...
