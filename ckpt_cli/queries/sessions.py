"""Read the sessions of an application, with the status of their threads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ckpt_backends import shell
from ckpt_backends.app_sessions import AppSession, SessionStore
from ckpt_backends.codec.values import Value
from ckpt_backends.errors import Ambiguous, NotFound, UnknownLayout
from ckpt_backends.model import Status, Thread
from ckpt_backends.protocol import Store
from ckpt_cli.core.redact import redact
from ckpt_cli.threads.thread import ThreadReader
from ckpt_cli.threads.trigger_inference import TriggerInference

FACTS = frozenset({"session_id", "user_id", "thread_id", "created_at", "updated_at"})
"""Fields that every session has, if they are stored."""


@dataclass(frozen=True, slots=True)
class Joined:
    """A session and its thread."""

    session: AppSession
    thread: Thread | None
    """None if the store has no such thread, or contains no checkpoints."""
    status: Status | None


def list_sessions(
    sessions: SessionStore, threads: Store | None, *, thread: str | None, user: str | None
) -> list[Joined]:
    """Return the sessions of a thread or user, the last changed first."""
    found = [
        one._replace(fields={})
        for one in sessions.sessions()
        if thread in (None, one.thread_id) and user in (None, one.user_id)
    ]
    found.sort(key=lambda one: (one.updated_at or "", one.key), reverse=True)
    inference = None if threads is None else TriggerInference(threads)
    return [_joined(one, threads, inference) for one in found]


def find_session(
    sessions: SessionStore, threads: Store | None, name: str, *, redacted: bool
) -> Joined:
    """Return a session by its id, by USER:SESSION, or by its key. Raises `NotFound` or
    `Ambiguous`.
    """
    fits: Sequence[AppSession] = [
        one
        for one in sessions.sessions()
        if name in (one.session_id, f"{one.user_id}:{one.session_id}", one.key)
    ]
    if not fits:
        raise NotFound(f"no session '{name}'", hint="`ckpt memory sessions` lists them")
    if len(fits) > 1:
        keys = ", ".join(shell.word(one.key) for one in sorted(fits, key=lambda one: one.key))
        raise Ambiguous(f"'{name}' matches {len(fits)} sessions", hint=f"use a key: {keys}")
    (one,) = fits
    if redacted:
        one = one._replace(fields=_redacted(one.fields))
    return _joined(one, threads, None if threads is None else TriggerInference(threads))


def _redacted(fields: Mapping[str, Value]) -> dict[str, Value]:
    return {name: value if name in FACTS else redact(value) for name, value in fields.items()}


def _joined(
    session: AppSession, threads: Store | None, inference: TriggerInference | None
) -> Joined:
    if threads is None or session.thread_id is None:
        return Joined(session, None, None)
    thread = threads.thread(session.thread_id)
    if thread is None:
        return Joined(session, None, None)
    if thread.head is None:
        return Joined(session, thread, Status.EMPTY)
    head = next(ThreadReader(threads, thread, inference).moments("", [thread.head]), None)
    return Joined(session, thread, Status.UNKNOWN if head is None else head.status)


def threads_beside(opened: Callable[[], Store]) -> Store | None:
    """Return the checkpoints in the same store; None if it has none."""
    try:
        return opened()
    except UnknownLayout:
        return None
