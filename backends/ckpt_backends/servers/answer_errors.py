"""Answers of a store that have another form than those of a real one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from inspect import getattr_static
from struct import error as StructError
from types import FunctionType
from typing import Any, TypeVar

from ckpt_backends.errors import Unreadable
from ckpt_backends.url import StoreUrl

_Store = TypeVar("_Store")
_Connection = TypeVar("_Connection", bound=Any)
_AMISS = (
    *(ArithmeticError, AssertionError, AttributeError, LookupError),
    *(MemoryError, RecursionError, TypeError, ValueError, StructError),
)
"""What Python raises when code meets data of another form."""


def unexpected(
    url: StoreUrl, reason: str = "what it holds does not have the expected form"
) -> Unreadable:
    """The error for an answer that no real store gives."""
    return Unreadable(
        f"cannot read '{url}': {reason}",
        hint="check that this is the right store; --debug shows where it failed",
    )


@contextmanager
def understood(url: StoreUrl) -> Iterator[None]:
    """Raise `Unreadable` if an answer has another form than expected, or is too large."""
    try:
        yield
    except _AMISS as error:
        raise misunderstood(url, error) from error


def misunderstood(url: StoreUrl, error: Exception) -> Unreadable:
    """The error for what Python raised when it met an answer of another form, or a large one."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError):
            return Unreadable(
                f"cannot read '{url}': an answer needs more memory than this process may use",
                hint="read fewer threads, or raise CKPT_MEMORY_LIMIT",
            )
        # A driver may fail again while it cleans up.
        cause = cause.__context__
    return unexpected(url)


@contextmanager
def opening(connection: _Connection, url: StoreUrl) -> Iterator[_Connection]:
    """`understood`, with a new connection that is closed after any error."""
    try:
        with understood(url):
            yield connection
    except BaseException:
        connection.close()
        raise


def understanding(store: _Store, url: StoreUrl) -> _Store:
    """The store, with each of its methods inside `understood`, and so all that they return."""
    for name in dir(type(store)):
        if not name.startswith("_") and isinstance(getattr_static(type(store), name), FunctionType):
            setattr(store, name, _guarded(getattr(store, name), url))
    return store


def _guarded(method: Callable[..., Any], url: StoreUrl) -> Callable[..., Any]:
    @wraps(method)
    def call(*args: Any, **named: Any) -> Any:
        with understood(url):
            found = method(*args, **named)
        return _each(found, url) if isinstance(found, Iterator) else found

    return call


def _each(found: Iterator[Any], url: StoreUrl) -> Iterator[Any]:
    with understood(url):
        yield from found
