"""Runs the transaction of a change, and converts the driver's errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256

import psycopg
from psycopg import errors

from ckpt_backends.errors import StoreChanged, StoreUnavailable
from ckpt_backends.postgres.catalog import begin
from ckpt_backends.postgres.connect import PostgresConnection, unavailable
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


def lock_number(thread_id: str) -> int:
    """The number of a thread's advisory lock. Threads with the same number share a lock."""
    digest = sha256(b"ckpt\0" + thread_id.encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big", signed=True)


def _explained(url: StoreUrl, error: psycopg.Error) -> StoreChanged | StoreUnavailable:
    match error:
        case errors.UniqueViolation() | errors.SerializationFailure():
            return StoreChanged(
                f"'{url}' changed meanwhile, so nothing was written",
                hint="run the command again",
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
