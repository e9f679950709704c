"""psycopg's connection, with limits on what a server may ask for and send.

A server chooses how a user authenticates and how long its answers are. So a hostile server, or
somebody between it and this machine, could ask for the password in clear text, or send rows for
ever.
"""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from time import monotonic
from typing import Any

import psycopg
from psycopg import pq
from psycopg.conninfo import make_conninfo

from ckpt_backends.postgres.cells import use_loaders
from ckpt_backends.postgres.parameters import use_dumpers
from ckpt_backends.servers.insecure_connection import is_local, warn_unencrypted

MOST_BYTES = 2 << 30
"""How much this process may grow while it reads one answer. libpq holds a value up to three times,
and PostgreSQL's longest one has 1 GiB."""
_REQUIRE_AUTH = 160000
"""The version of libpq that can refuse to send the password in clear text."""
_ADVICE = "add ?sslmode=verify-full to the URL"


class TooSlow(psycopg.OperationalError):
    """An answer did not arrive in time."""


class TooLong(psycopg.OperationalError):
    """An answer is longer than ckpt reads."""


class GuardedPsycopg(psycopg.Connection):
    """A connection to a server that is not trusted. All its errors are `psycopg.Error`."""

    seconds: float | None = None
    """How long to wait for an answer, from its first byte to its last; None: for ever."""

    def wait(self, gen: Any, *given: Any, **named: Any) -> Any:
        return super().wait(self._limited(gen), *given, **named)

    def _limited(self, gen: Generator[Any, Any, Any]) -> Generator[Any, Any, Any]:
        since, size = monotonic(), _peak()
        try:
            state = next(gen)
            while True:
                ready = yield state
                if self.seconds is not None and monotonic() - since > self.seconds:
                    raise self._ended(TooSlow("the server does not answer"))
                if _peak() - size > MOST_BYTES:
                    raise self._ended(TooLong("the answer is too long"))
                state = gen.send(ready)
        except StopIteration as end:
            return end.value

    def _ended(self, error: psycopg.Error) -> psycopg.Error:
        """End the connection at once. psycopg would read the rest of the answer first."""
        self.pgconn.finish()
        return error


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
    use_loaders(driver)
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
    except (psycopg.Error, UnicodeEncodeError):
        raise
    except Exception as error:
        raise psycopg.DataError("the server's answer is malformed") from error


def _peak() -> int:
    """The most bytes of memory that this process has used so far; 0 if unknown."""
    if sys.platform == "win32":
        return 0
    import resource

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
