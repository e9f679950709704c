"""psycopg's connection, which does not give the password away, and does not wait for ever.

A server chooses how a user authenticates. So a hostile server, or somebody between it and this
machine, could ask for the password in clear text.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from time import monotonic
from typing import Any

import psycopg
from psycopg import pq
from psycopg.adapt import Loader
from psycopg.conninfo import make_conninfo

from ckpt_backends.postgres.parameters import use_dumpers
from ckpt_backends.servers.insecure_connection import is_local, warn_unencrypted

_REQUIRE_AUTH = 160000
"""The version of libpq that can refuse to send the password in clear text."""
_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
_ADVICE = "add ?sslmode=verify-full to the URL"


class TooSlow(psycopg.OperationalError):
    """An answer did not arrive in time."""


class GuardedPsycopg(psycopg.Connection):
    """A connection that gives up an answer after some time, which libpq has no setting for."""

    seconds: float | None = None
    """How long to wait for an answer, from its first byte to its last; None: for ever."""

    def wait(self, gen: Any, *given: Any, **named: Any) -> Any:
        return super().wait(self._limited(gen), *given, **named)

    def _limited(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        since = monotonic()
        try:
            state = next(gen)
            while True:
                ready = yield state
                if self.seconds is not None and monotonic() - since > self.seconds:
                    # psycopg would read the rest of the answer first.
                    self.pgconn.finish()
                    raise TooSlow("the server does not answer")
                state = gen.send(ready)
        except StopIteration as end:
            return end.value


class _TimeInUtc(Loader):
    """Loads a time in UTC; psycopg loads it in the time zone of the session."""

    format = pq.Format.BINARY

    def load(self, data: Any) -> datetime:
        return _EPOCH + timedelta(microseconds=int.from_bytes(data, "big", signed=True))


def open_driver(settings: Mapping[str, Any]) -> GuardedPsycopg:
    """Connect. Raises `psycopg.Error`.

    The password is sent in clear text only to a server with a verified certificate and host name,
    or to this machine, unless `require_auth` says otherwise.
    """
    known = _resolved(settings)
    asked = dict(settings)
    if not known.get("require_auth") and not _may_ask(known) and pq.version() >= _REQUIRE_AUTH:
        asked["require_auth"] = "!password"
    with parsed():
        # Pass separate settings: an error of libpq about a URL would show the whole URL.
        driver = GuardedPsycopg.connect(**asked, prepare_threshold=None)
    is_encrypted = driver.pgconn.ssl_in_use or known.get("gssencmode") == "require"
    if driver.pgconn.used_password and not is_encrypted and not is_local(driver.info.host):
        warn_unencrypted(driver.info.host, _ADVICE)
    driver.adapters.register_loader("timestamptz", _TimeInUtc)
    use_dumpers(driver)
    return driver


def _resolved(settings: Mapping[str, Any]) -> dict[str, str]:
    """The settings with those of service files and environment variables, as libpq sees them."""
    # libpq refuses this value before it looks for the host.
    given = make_conninfo("", **{**settings, "target_session_attrs": "none"})
    found = pq.PGconn.connect_start(given.encode())
    try:
        return {
            one.keyword.decode(): (one.val or b"").decode("utf-8", "replace") for one in found.info
        }
    finally:
        found.finish()


def _may_ask(known: Mapping[str, str]) -> bool:
    """Whether a server may ask for the password in clear text."""
    hosts = known.get("hostaddr") or known.get("host") or ""
    return known.get("sslmode") == "verify-full" or all(map(is_local, hosts.split(",")))


@contextmanager
def parsed() -> Iterator[None]:
    """Turn what psycopg raises for a malformed answer into `psycopg.Error`."""
    try:
        yield
    except (psycopg.Error, UnicodeEncodeError, MemoryError):
        raise
    except Exception as error:
        raise psycopg.DataError("the server's answer is malformed") from error
