"""What `StoreHandle` answers about what lies beside the threads: memory and sessions."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from ckpt_backends.protocol import Store
from ckpt_cli.api.answer import Answer
from ckpt_cli.api.surroundings import Surroundings

if TYPE_CHECKING:
    from ckpt_cli.api.memory import MemoryHandle
    from ckpt_cli.queries.sessions import Joined


class NeighbourAnswers:
    """The part of `StoreHandle` about long-term memory and sessions."""

    _store: Store
    _around: Surroundings

    @cached_property
    def memory(self) -> MemoryHandle:
        """The long-term memory in the same place. Raises `UnknownLayout` or `Unsupported`."""
        from ckpt_cli.api.memory import opened_memory

        return opened_memory(self._around)

    def sessions(
        self, *, thread: str | None = None, user: str | None = None
    ) -> list[Answer[Joined]]:
        """Return the sessions of an application, as `ckpt memory sessions` prints them.

        `thread` and `user` choose those of a thread or user. Raises `Unsupported` if applications
        store no sessions in such a store.
        """
        from ckpt_cli.api.sessions import sessions_beside

        return sessions_beside(self._around, lambda: self._store, thread=thread, user=user)

    def session(self, name: str) -> Answer[Joined]:
        """Return a session, as `ckpt memory sessions SESSION` prints it; by id, `USER:ID` or key.

        Raises `NotFound`, `Ambiguous` or `Unsupported`.
        """
        from ckpt_cli.api.sessions import session_beside

        return session_beside(self._around, lambda: self._store, name)
