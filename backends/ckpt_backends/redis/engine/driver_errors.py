"""Turns the errors of the driver, and of the server behind it, into errors for the user."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from redis import exceptions

from ckpt_backends.errors import CkptError, StoreUnavailable
from ckpt_backends.servers.answer_errors import misunderstood, unexpected
from ckpt_backends.url import StoreUrl, masked


@contextmanager
def explained(url: StoreUrl) -> Iterator[None]:
    """Turn the driver's errors into `StoreUnavailable`, without secrets and without stored data."""
    try:
        yield
    except CkptError:
        raise
    except (exceptions.RedisError, exceptions.RedisClusterException, OSError) as error:
        raise unavailable(url, error) from None
    except Exception as error:
        # The driver did not expect such an answer.
        raise misunderstood(url, error) from error


_SHOWN = 200
_REASONS: Sequence[tuple[type[Exception], str, str, str]] = (
    (
        exceptions.AuthenticationError,
        "WRONGPASS|invalid (username-)?password|invalid username",
        "wrong user or password",
        "a password can also come from REDISCLI_AUTH",
    ),
    (
        exceptions.RedisError,
        "NOAUTH|Authentication required",
        "the server asks for a password",
        "set REDISCLI_AUTH, or put it in the URL: redis://:PASSWORD@HOST:PORT/0",
    ),
    (
        exceptions.AuthenticationError,
        "without any password|no password is set",
        "the server has no password, but one is given",
        "remove the password",
    ),
    (exceptions.AuthenticationError, "", "the server rejects this user", ""),
    (
        exceptions.TimeoutError,
        "",
        "the server does not answer",
        "add ?socket_timeout=SECONDS to wait",
    ),
    (
        exceptions.ConnectionError,
        "refused",
        "connection refused",
        "check that the server is running and that host and port are right",
    ),
    (
        exceptions.ConnectionError,
        "Name or service not known|getaddrinfo|name resolution|nodename",
        "unknown host",
        "check the host name",
    ),
    (exceptions.ConnectionError, "unreachable|No route", "the host is unreachable", ""),
    (
        exceptions.ConnectionError,
        "certificate verify failed|CERTIFICATE_VERIFY_FAILED|Hostname mismatch",
        "the server's certificate is not trusted",
        "name the authority: ?ssl_ca_certs=FILE",
    ),
    (
        exceptions.ConnectionError,
        "SSL|TLS",
        "TLS failed",
        "use rediss:// for a port with TLS, redis:// for one without",
    ),
    (exceptions.ConnectionError, "invalid DB index|out of range", "no such database", ""),
    (
        exceptions.BusyLoadingError,
        "",
        "the server is still loading its data",
        "run the command again in a moment",
    ),
    (
        exceptions.ConnectionError,
        "",
        "the connection was lost",
        "for a server with TLS, use rediss://",
    ),
    (
        exceptions.NoPermissionError,
        "",
        "permission denied",
        "reading needs `+@read +scan +ping +info` and the keys' patterns; see docs/layouts.md",
    ),
    (exceptions.ResponseError, "DB index is out of range", "no such database", ""),
    (
        exceptions.ResponseError,
        "SELECT is not allowed in cluster mode",
        "a cluster has only database 0",
        "remove the database number from the URL",
    ),
    (
        exceptions.RedisError,
        "MOVED|ASK|CLUSTERDOWN|slot not covered|not covered by the cluster",
        "the cluster is moving slots, or part of it is down",
        "run the command again when `redis-cli CLUSTER INFO` says cluster_state:ok",
    ),
    (
        exceptions.RedisClusterException,
        "",
        "the servers of the cluster are unreachable",
        "each server must be reachable at the address that it announces",
    ),
)
"""A class of the driver's errors, a pattern for the message, the reason to print, and a hint."""


def unavailable(url: StoreUrl, error: Exception) -> StoreUnavailable:
    """The error to print. A server's message may quote a key, so only its first line is used."""
    for kind, mark, reason, hint in _REASONS:
        if isinstance(error, kind) and re.search(mark, str(error), re.IGNORECASE):
            return StoreUnavailable(f"cannot read '{url}': {reason}", hint=hint or None)
    if isinstance(error, exceptions.InvalidResponse):
        return unexpected(url, f"the server does not speak Redis's protocol: {error}")
    said = masked(str(error).strip().partition("\n")[0], url) or type(error).__name__
    said = said if len(said) <= _SHOWN else f"{said[:_SHOWN]}..."
    return StoreUnavailable(f"cannot read '{url}': {said}")


@contextmanager
def explained_change(url: StoreUrl, outcome: str) -> Iterator[None]:
    """Turn the driver's errors into `StoreUnavailable`, with `outcome` in the message."""
    try:
        yield
    except exceptions.WatchError:
        raise
    except (exceptions.RedisError, exceptions.RedisClusterException, OSError) as error:
        raise _refused(url, error, outcome) from None


def _refused(url: StoreUrl, error: Exception, outcome: str) -> StoreUnavailable:
    said = str(error)
    reason, hint = None, None
    if isinstance(error, exceptions.ReadOnlyError) or "READONLY" in said:
        reason, hint = "the server is a read-only replica", "use the URL of its primary"
    elif isinstance(error, exceptions.NoPermissionError):
        reason = "permission denied"
        hint = "a change needs +@write, +@transaction, and the module's commands for documents"
    elif isinstance(error, exceptions.OutOfMemoryError) or "OOM" in said:
        reason = "the server is out of memory"
    elif "EXECABORT" in said or isinstance(error, exceptions.ExecAbortError):
        reason = "the server refused the transaction"
    if reason is not None:
        return StoreUnavailable(f"cannot write to '{url}': {reason}; {outcome}", hint=hint)
    found = unavailable(url, error)
    found.message = f"{found.message}; it is unknown whether anything was written"
    return found
