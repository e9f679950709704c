"""A lock that allows only one purge at a time: a key that expires if its owner is killed."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from redis import exceptions

from ckpt_backends.errors import Refused
from ckpt_backends.redis.engine.connection import RedisConnection
from ckpt_backends.url import StoreUrl

LOCK = b"ckpt:purge-lock"
_HELD = 3000
"""Time to live of the key in milliseconds. A killed run blocks others for at most this time."""
_KEPT = 0.5
"""Seconds between two extensions of the time to live."""
_PATIENCE = 6.0
"""Seconds that another run waits for the lock."""


class PurgeLock:
    """The lock, held by this run."""

    def __init__(self, driver: Any, url: StoreUrl) -> None:
        self._driver = driver
        self._url = url
        import secrets  # late: readers do not need it

        self._token = secrets.token_hex(8).encode()
        self._again = 0.0
        """When the time to live must be extended again, as `time.monotonic`."""

    def keep(self) -> None:
        """Extend the time to live. If the lock was lost, take it again; raises `Refused`.

        The lock only prevents two runs from doing the same work. Removing is safe without it.
        """
        if time.monotonic() < self._again:
            return
        if self._driver.get(LOCK) == self._token:
            self._driver.pexpire(LOCK, _HELD)
            self._again = time.monotonic() + _KEPT
        else:
            self.take()

    def take(self) -> None:
        """Acquire the lock. Raises `Refused` if another run holds it for `_PATIENCE` seconds."""
        until = time.monotonic() + _PATIENCE
        while not self._driver.set(LOCK, self._token, nx=True, px=_HELD):
            if time.monotonic() > until:
                raise Refused(
                    f"another purge of '{self._url}' is running",
                    hint="run the command again when it has finished; its lock is the key"
                    f" '{LOCK.decode()}', which expires a few seconds later",
                )
            time.sleep(random.uniform(0.01, 0.05))  # noqa: S311
        self._again = time.monotonic() + _KEPT

    def release(self) -> None:
        """Release the lock if this run still holds it."""
        with self._driver.pipeline(transaction=True) as pipe:
            pipe.watch(LOCK)
            if pipe.get(LOCK) == self._token:
                pipe.multi()
                pipe.unlink(LOCK)
                pipe.execute()


@contextmanager
def purge_lock(connection: RedisConnection, url: StoreUrl) -> Iterator[PurgeLock]:
    """Hold the lock inside the `with` block. Raises `Refused` and the driver's errors."""
    lock = PurgeLock(connection.client_of(LOCK), url)
    lock.take()
    try:
        yield lock
    finally:
        # If releasing fails, the lock expires.
        with suppress(exceptions.RedisError, OSError):
            lock.release()
