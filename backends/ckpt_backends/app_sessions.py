"""Sessions that an application stores in the same database as its checkpoints."""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from ckpt_backends.changes import Remains
from ckpt_backends.codec.values import Value
from ckpt_backends.errors import Closing
from ckpt_backends.model import Progress, silent

NO_SESSIONS = "applications store no sessions in them"
"""Why a store has no sessions."""


class AppSession(NamedTuple):
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
    fields: Mapping[str, Value] = {}
    """All stored fields by name."""


class SessionStore(Closing, Protocol):
    """A store of sessions, opened for reading."""

    @abstractmethod
    def sessions(self) -> Iterator[AppSession]:
        """All sessions, unsorted. Keys that do not look like a session are left out."""
        ...


class WritableSessions(Closing, Protocol):
    """A store of sessions, opened for removing some."""

    @abstractmethod
    def remove(self, sessions: Sequence[AppSession]) -> int:
        """Remove sessions, all or none where the engine has transactions. Returns their number.

        Raises `StoreChanged` if one was removed or changed since it was read, and
        `StoreUnavailable`. Nothing is removed then.
        """
        ...

    @abstractmethod
    def begin_erasure(self) -> None:
        """Prepare to overwrite old bytes; see `WritableStore.begin_erasure`."""
        ...

    @abstractmethod
    def erase_remains(self, *, rewrite: bool = False, progress: Progress = silent) -> Remains:
        """Erase what was removed before; see `WritableStore.erase_remains`."""
        ...
