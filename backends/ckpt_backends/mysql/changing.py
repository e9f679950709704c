"""Runs the transaction of a change, locks threads, and converts the driver's errors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256

import pymysql

from ckpt_backends.errors import StoreChanged, StoreUnavailable, Unsupported
from ckpt_backends.mysql.connect import (
    DEADLOCK,
    DENIED,
    DUPLICATE,
    LOCKED,
    READ_ONLY_CODES,
    MySQLConnection,
    code_of,
    unavailable,
)
from ckpt_backends.url import StoreUrl

_LOCK_SECONDS = 5
_LOCK = "SELECT GET_LOCK(%(name)s, %(seconds)s)"
_HOLDS = "SELECT IS_USED_LOCK(%(name)s) = CONNECTION_ID()"
_UNLOCK = "SELECT RELEASE_LOCK(%(name)s)"


@contextmanager
def lock(connection: MySQLConnection, url: StoreUrl, thread_id: str) -> Iterator[None]:
    """Hold the named lock of a thread. The server also releases it if the connection ends.

    Raises `StoreUnavailable` if it cannot be acquired in `_LOCK_SECONDS`, and `Unsupported` if the
    server has no such locks. Some accept these statements and do nothing.
    """
    name = lock_name(thread_id)
    asked = connection.attempt(_LOCK, {"name": name, "seconds": _LOCK_SECONDS})
    got = None if asked is None else asked[0][0]
    if asked is None or (got == 1 and connection.attempt(_HOLDS, {"name": name}) != [(1,)]):
        raise unsupported(url, "the server has no named locks that work as MySQL's do")
    # Start a new snapshot, to see what was committed while waiting for the lock.
    connection.restart()
    if got != 1:
        raise _locked(url)
    try:
        yield
    finally:
        with suppress(StoreUnavailable):
            connection.rows(_UNLOCK, {"name": name})
            connection.restart()


@contextmanager
def transaction(connection: MySQLConnection, url: StoreUrl) -> Iterator[MySQLConnection]:
    try:
        yield connection
        connection.commit()
    except BaseException as error:
        connection.restart_quietly()
        if isinstance(error, pymysql.Error | OSError):
            raise _explained(url, error) from None
        raise


def unsupported(url: StoreUrl, reason: str) -> Unsupported:
    """The error for a server that lacks what a change needs."""
    return Unsupported(
        f"cannot write to '{url}': {reason}",
        hint='ckpt reads this store; see "Servers that speak these protocols" in docs/stores.md',
    )


def _locked(url: StoreUrl) -> StoreUnavailable:
    return StoreUnavailable(
        f"cannot write to '{url}': another session holds a lock",
        hint="another command may be changing this thread; run the command again",
    )


def _explained(url: StoreUrl, error: Exception) -> StoreChanged | StoreUnavailable:
    code = code_of(error)
    if code in {DUPLICATE, DEADLOCK}:
        return StoreChanged(
            f"'{url}' changed meanwhile, so nothing was written", hint="run the command again"
        )
    if code == LOCKED:
        return _locked(url)
    if code in DENIED:
        return StoreUnavailable(
            f"cannot write to '{url}': permission denied",
            hint="a change needs SELECT, INSERT and, for undo, DELETE on the three"
            " checkpoint tables",
        )
    if code in READ_ONLY_CODES:
        return StoreUnavailable(
            f"cannot write to '{url}': the server is read-only",
            hint="name the primary server in the URL",
        )
    found = unavailable(url, error)
    found.message = f"{found.message}; nothing was written"
    return found


def lock_name(thread_id: str) -> str:
    """The name of a thread's lock.

    Named locks are shared by all databases of the server, so equal thread ids in two databases
    share a lock. That is harmless: one waits for the other.
    """
    return f"ckpt:{sha256(thread_id.encode('utf-8', 'surrogatepass')).hexdigest()[:40]}"
