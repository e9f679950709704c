"""The chat sessions of an application, with the status of their threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ckpt_backends.protocol import Store
from ckpt_cli.api.answer import Answer
from ckpt_cli.api.surroundings import Surroundings

if TYPE_CHECKING:
    from ckpt_cli.queries.sessions import Joined


def sessions_beside(
    around: Surroundings,
    opened: Callable[[], Store],
    *,
    thread: str | None = None,
    user: str | None = None,
) -> list[Answer[Joined]]:
    """Return the sessions in the store that is named, as `ckpt memory sessions` prints them.

    `opened` returns its checkpoints; there may be none. Raises `Unsupported` if applications store
    no sessions in such a store.
    """
    from ckpt_backends.registry import open_sessions
    from ckpt_cli.queries.sessions import list_sessions, threads_beside
    from ckpt_cli.render.sessions import session_record

    with open_sessions(around.names.store_url) as sessions:
        threads = threads_beside(opened)
        found = list_sessions(sessions, threads, thread=thread, user=user)
    return [Answer(one, session_record) for one in found]


def session_beside(around: Surroundings, opened: Callable[[], Store], name: str) -> Answer[Joined]:
    """Return one session with all its fields, as `ckpt memory sessions SESSION` prints it.

    Raises `NotFound`, `Ambiguous` or `Unsupported`.
    """
    from ckpt_backends.registry import open_sessions
    from ckpt_cli.queries.sessions import find_session, threads_beside
    from ckpt_cli.render.sessions import session_record

    with open_sessions(around.names.store_url) as sessions:
        threads = threads_beside(opened)
        found = find_session(sessions, threads, name, redacted=around.opening.redact)
    return Answer(found, session_record)
