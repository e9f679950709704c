"""Runs the transaction of a change, and converts the driver's errors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import psycopg
from psycopg import errors

from ckpt_backends.errors import StoreChanged, StoreUnavailable, Unsupported
from ckpt_backends.postgres.catalog import begin
from ckpt_backends.postgres.connect import PostgresConnection, unavailable
from ckpt_backends.sql.database import Values
from ckpt_backends.url import StoreUrl


@contextmanager
def transaction(connection: PostgresConnection, url: StoreUrl) -> Iterator[PostgresConnection]:
    """One transaction. Raises `StoreChanged` or `StoreUnavailable`; nothing is written then."""
    try:
        begin(connection)
        yield connection
        connection.commit()
    except BaseException as error:
        connection.restart_quietly()
        if isinstance(error, psycopg.Error):
            raise _explained(url, error) from None
        raise


_LOCK = "SELECT pg_advisory_xact_lock(%(number)s::bigint)"
_HOLDS_LOCK = """
    SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND granted
    AND locktype = 'advisory' AND (classid::bigint << 32) | objid::bigint = %(number)s::bigint
"""
_HOLDS_TABLES = """
    SELECT count(DISTINCT relation) FROM pg_locks WHERE pid = pg_backend_pid() AND granted
    AND locktype = 'relation' AND mode = 'ShareRowExclusiveLock'
"""


def lock_thread(connection: PostgresConnection, url: StoreUrl, thread_id: str) -> None:
    """Lock a thread until the end of the transaction. Raises `psycopg.Error` or `Unsupported`."""
    values = {"number": lock_number(thread_id)}
    with _needed(url, "advisory locks"):
        connection.change(_LOCK, values)
    _check_held(connection, url, "advisory locks", _HOLDS_LOCK, values)


def lock_tables(
    connection: PostgresConnection, url: StoreUrl, tables: Sequence[str], *, check: bool
) -> None:
    """Keep others from writing to tables until the end of the transaction.

    With `check`, ask the server whether it did lock: it either always does, or never. Raises
    `psycopg.Error` or `Unsupported`.
    """
    with _needed(url, "table locks"):
        connection.change(f"LOCK TABLE {', '.join(tables)} IN SHARE ROW EXCLUSIVE MODE")
    if check:
        _check_held(connection, url, "table locks", _HOLDS_TABLES, {}, len(tables))


@contextmanager
def _needed(url: StoreUrl, locks: str) -> Iterator[None]:
    try:
        yield
    except (errors.UndefinedFunction, errors.FeatureNotSupported, errors.SyntaxError):
        raise _without(url, locks) from None


def _check_held(
    connection: PostgresConnection,
    url: StoreUrl,
    locks: str,
    query: str,
    values: Values,
    number: int = 1,
) -> None:
    """Check that the server did lock. Some accept these statements and do nothing."""
    found = connection.attempt(query, values)
    if not found or found[0][0] < number:
        raise _without(url, locks)


def _without(url: StoreUrl, locks: str) -> Unsupported:
    return Unsupported(
        f"cannot write to '{url}': the server has no {locks} that work as PostgreSQL's do",
        hint='ckpt reads this store; see "Servers that speak these protocols" in docs/stores.md',
    )


def lock_number(thread_id: str) -> int:
    """The number of a thread's advisory lock. Threads with the same number share a lock."""
    from hashlib import sha256  # late: it loads OpenSSL, which readers do not need

    digest = sha256(b"ckpt\0" + thread_id.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def _explained(url: StoreUrl, error: psycopg.Error) -> StoreChanged | StoreUnavailable:
    match error:
        case errors.UniqueViolation() | errors.SerializationFailure():
            return StoreChanged(
                f"'{url}' changed meanwhile, so nothing was written", hint="run the command again"
            )
        case errors.LockNotAvailable():
            return StoreUnavailable(
                f"cannot write to '{url}': another session holds a lock",
                hint="another command may be changing this thread; run the command again",
            )
        case errors.InsufficientPrivilege():
            return StoreUnavailable(
                f"cannot write to '{url}': {error.diag.message_primary}",
                hint="a change needs SELECT, INSERT and, for what removes rows, DELETE on its"
                " tables",
            )
        case errors.ReadOnlySqlTransaction():
            return StoreUnavailable(
                f"cannot write to '{url}': the server is read-only",
                hint="add ?target_session_attrs=read-write to the URL",
            )
    found = unavailable(url, error)
    found.message = f"{found.message}; nothing was written"
    return found
