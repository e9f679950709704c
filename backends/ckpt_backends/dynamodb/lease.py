"""Leases: only one purge of a table, and one change of a thread, at a time.

A lease is an item with an end, which the next one may replace after that. It only prevents two runs
of `ckpt` from doing the same work; savers do not know it.
"""

from __future__ import annotations

import random
import secrets
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from botocore.exceptions import BotoCoreError, ClientError

from ckpt_backends.dynamodb.connect import Attributes, DynamoConnection, key_attributes
from ckpt_backends.dynamodb.driver_errors import code_of
from ckpt_backends.dynamodb.writer import DynamoWriter
from ckpt_backends.errors import CkptError, Refused, StoreUnavailable

PARTITION = "CKPT_LOCK"
_HELD = 20_000
"""Milliseconds. A killed run blocks others for at most this time."""
_KEPT = 5.0
"""Seconds between two extensions."""
_PATIENCE = 6.0
"""Seconds to wait for another run."""
_DAY = 86_400


class DynamoLease:
    """A lease that this run holds."""

    def __init__(self, connection: DynamoConnection, name: str, refusal: CkptError) -> None:
        self._writer = DynamoWriter(connection)
        self._key = (PARTITION, name)
        self._refusal = refusal
        self._token = secrets.token_hex(8)
        self._again = 0.0
        """When it must be extended, as `time.monotonic`."""

    def take(self) -> None:
        """Acquire it. Raises its refusal if another run holds it for `_PATIENCE` seconds."""
        until = time.monotonic() + _PATIENCE
        while not self._taken():
            if time.monotonic() > until:
                raise self._refusal
            time.sleep(random.uniform(0.05, 0.2))  # noqa: S311
        self._again = time.monotonic() + _KEPT

    def keep(self) -> None:
        """Extend it if it is time."""
        if time.monotonic() >= self._again:
            self.take()

    def _taken(self) -> bool:
        now = int(time.time() * 1000)
        item: Attributes = {
            **key_attributes(self._key),
            "lease_holder": {"S": self._token},
            "held_until": {"N": str(now + _HELD)},
            # DynamoDB removes what a killed run left, if the table has times to live.
            "ttl": {"N": str(now // 1000 + _DAY)},
        }
        condition = "attribute_not_exists(PK) OR held_until < :now OR lease_holder = :own"
        values = {":now": {"N": str(now)}, ":own": {"S": self._token}}
        try:
            self._writer.put_item(item, condition, values)
        except ClientError as error:
            if code_of(error) != "ConditionalCheckFailedException":
                raise
            return False
        return True

    def release(self) -> None:
        """Give it up if this run still holds it."""
        self._writer.delete_item(self._key, "lease_holder = :own", {":own": {"S": self._token}})


@contextmanager
def purge_lease(connection: DynamoConnection) -> Iterator[DynamoLease]:
    """Hold the lease for removing. Raises `Refused` and errors of boto3."""
    refusal = Refused(
        f"another purge of '{connection.url}' is running",
        hint="wait until it ends; the lock of a killed run"
        f" (item {PARTITION}) expires after {_HELD // 1000} s",
    )
    with _held(DynamoLease(connection, "purge", refusal)) as lease:
        yield lease


@contextmanager
def change_lease(connection: DynamoConnection, thread_id: str) -> Iterator[DynamoLease]:
    """Hold the lease for changing a thread. Raises `StoreUnavailable` and errors of boto3."""
    from hashlib import sha256

    refusal = StoreUnavailable(
        f"thread '{thread_id}' is being changed by another command, so nothing was written",
        hint="run the command again when it has finished",
    )
    name = sha256(thread_id.encode(errors="surrogatepass")).hexdigest()
    with _held(DynamoLease(connection, f"thread#{name}", refusal)) as lease:
        yield lease


@contextmanager
def _held(lease: DynamoLease) -> Iterator[DynamoLease]:
    lease.take()
    try:
        yield lease
    finally:
        # If releasing fails, the lease ends by itself.
        with suppress(ClientError, BotoCoreError, OSError):
            lease.release()
