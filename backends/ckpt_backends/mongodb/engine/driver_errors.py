"""Turns the driver's errors into those of ckpt, without secrets and without data."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from bson.errors import BSONError
from pymongo.errors import (
    ConfigurationError,
    ConnectionFailure,
    DuplicateKeyError,
    InvalidName,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
)

from ckpt_backends.errors import CkptError, StoreChanged, StoreUnavailable, UsageError
from ckpt_backends.servers.answer_errors import misunderstood
from ckpt_backends.url import StoreUrl, masked

_CONFLICT = 112
_UNAUTHORIZED = 13


@contextmanager
def explained(url: StoreUrl) -> Iterator[None]:
    """Turn errors of reading into `StoreUnavailable`, `UsageError` or `Unreadable`."""
    try:
        yield
    except InvalidName as error:
        raise UsageError(f"cannot read the URL '{url}': {driver_words(error, url)}") from None
    except CkptError:
        raise
    except (PyMongoError, BSONError, OSError) as error:
        raise unavailable(url, error) from None
    except Exception as error:
        # The driver did not expect such an answer.
        raise misunderstood(url, error) from error


_CODES: Mapping[int, tuple[str, str]] = {
    18: (
        "wrong user or password",
        "if the user is defined in another database, add ?authSource=admin",
    ),
    13: ("permission denied", "reading needs the role `read` on the database"),
    50: ("the query exceeded the server's time limit", "read fewer threads at a time"),
    251: (
        "the server aborted the transaction",
        "it may have exceeded transactionLifetimeLimitSeconds; add ?snapshot=no to read without a"
        " transaction, while nothing writes to the store",
    ),
    26: ("a collection was dropped while it was read", "run the command again"),
    43: ("the server closed the cursor", "run the command again, or add ?snapshot=no"),
}
"""By error code of the server, the reason to print and a hint."""
_CODES = {**_CODES, 8000: _CODES[18], 239: _CODES[251], 246: _CODES[251]}
_REFUSALS: Sequence[tuple[str, str, str]] = (
    (
        "refused",
        "connection refused",
        "check that the server is running and that host and port are right",
    ),
    (
        "Name or service not known|nodename|name resolution|No address|DNS|does not exist",
        "unknown host",
        "check the host name",
    ),
    (
        "CERTIFICATE_VERIFY|certificate",
        "the server's certificate is not trusted",
        "add ?tlsCAFile=FILE with the certificate of its authority",
    ),
    ("SSL|TLS", "TLS failed", "add ?tls=true or ?tls=false, as the server expects"),
    (
        "timed out|timeout|No servers found|No primary|No replica set",
        "the server does not answer",
        "add ?serverSelectionTimeoutMS=MILLISECONDS to wait longer",
    ),
    (
        "connection closed|reset",
        "the connection was lost",
        "run the command again; nothing was changed",
    ),
)
"""A pattern for the driver's message about a connection, the reason to print, and a hint."""


_SHOWN = 100


def unavailable(url: StoreUrl, error: Exception) -> StoreUnavailable:
    """The error to print, without secrets and without data."""
    if isinstance(error, OperationFailure) and (known := _CODES.get(error.code or 0)):
        reason, hint = known
        return StoreUnavailable(f"cannot read '{url}': {reason}", hint=hint)
    verb = "open" if isinstance(error, ServerSelectionTimeoutError) else "read"
    if isinstance(error, ConnectionFailure | ConfigurationError):
        for mark, reason, hint in _REFUSALS:
            if re.search(mark, str(error), re.IGNORECASE):
                return StoreUnavailable(f"cannot {verb} '{url}': {reason}", hint=hint)
    if isinstance(error, OperationFailure):
        # The text of a server's error may quote stored data, so print only its name.
        name = str((error.details or {}).get("codeName") or f"code {error.code}")
        return StoreUnavailable(f"cannot read '{url}': the server says {name[:_SHOWN]}")
    return StoreUnavailable(f"cannot {verb} '{url}': {type(error).__name__}")


def driver_words(error: Exception, url: StoreUrl) -> str:
    """The first line of the driver's message about a URL."""
    return masked(str(error).strip().partition("\n")[0], url) or type(error).__name__


@contextmanager
def explained_change(url: StoreUrl) -> Iterator[None]:
    """Turn errors of writing into `StoreChanged` or `StoreUnavailable`.

    The messages say whether anything was written.
    """
    try:
        yield
    except PyMongoError as error:
        raise _refused(url, error) from None


def _refused(url: StoreUrl, error: PyMongoError) -> StoreChanged | StoreUnavailable:
    code = error.code if isinstance(error, OperationFailure) else None
    if isinstance(error, DuplicateKeyError) or code == _CONFLICT:
        return StoreChanged(
            f"'{url}' changed meanwhile, so nothing was written",
            hint="another command may be changing it; run the command again",
        )
    if code == _UNAUTHORIZED:
        return StoreUnavailable(
            f"cannot write to '{url}': permission denied",
            hint="a change needs the role `readWrite` on the database",
        )
    found = unavailable(url, error)
    if error.has_error_label("UnknownTransactionCommitResult"):
        found.message = f"{found.message}; it is unknown whether anything was written"
        found.hint = "check the thread, then run the command again"
    else:
        found.message = f"{found.message}; nothing was written"
    return found
