"""One purge at a time: a key that says so, and goes by itself if whoever made it is killed."""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from redis import exceptions

from ckpt_backends.errors import Refused
from ckpt_backends.redis.connect import Connection
from ckpt_backends.url import StoreUrl

LOCK = b"ckpt:purge-lock"
_HELD = 3000
"""Milliseconds that it stays when nobody keeps it; also how long a killed run is in the way."""
_KEPT = 0.5
"""Seconds after which it is kept for longer."""
_PATIENCE = 6.0
"""Seconds that another run waits for it."""


class PurgeLock:
    """The lock, had by this run."""

    def __init__(self, driver: Any, url: StoreUrl) -> None:
        self._driver = driver
        self._url = url
        self._token = secrets.token_hex(8).encode()
        self._again = 0.0
        """When it has to be kept again, by `time.monotonic`."""

    def keep(self) -> None:
        """Keep it for some more seconds; take it again if it had gone. Raises `Refused`.

        It saves two runs from doing the same work. What they remove is safe without it.
        """
        if time.monotonic() < self._again:
            return
        if self._driver.get(LOCK) == self._token:
            self._driver.pexpire(LOCK, _HELD)
            self._again = time.monotonic() + _KEPT
        else:
            self.take()

    def take(self) -> None:
        """Wait for it. Raises `Refused` where another run keeps it."""
        until = time.monotonic() + _PATIENCE
        while not self._driver.set(LOCK, self._token, nx=True, px=_HELD):
            if time.monotonic() > until:
                raise Refused(
                    f"another purge of '{self._url}' is running",
                    hint="run the command again when it has finished; its lock is the key"
                    f" '{LOCK.decode()}', which expires some seconds later",
                )
            time.sleep(random.uniform(0.01, 0.05))  # noqa: S311
        self._again = time.monotonic() + _KEPT

    def release(self) -> None:
        """Give it back, if it is still had."""
        with self._driver.pipeline(transaction=True) as pipe:
            pipe.watch(LOCK)
            if pipe.get(LOCK) == self._token:
                pipe.multi()
                pipe.unlink(LOCK)
                pipe.execute()


@contextmanager
def purge_lock(connection: Connection, url: StoreUrl) -> Iterator[PurgeLock]:
    """Have the lock for a while. Raises `Refused` and errors of the driver."""
    lock = PurgeLock(connection.client_of(LOCK), url)
    lock.take()
    try:
        yield lock
    finally:
        # It goes by itself where it cannot be given back.
        with suppress(exceptions.RedisError, OSError):
            lock.release()
