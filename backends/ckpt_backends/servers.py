"""What servers have in common: failed connections, and answers of an unexpected form."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from functools import cache, wraps
from inspect import getattr_static, unwrap
from struct import error as StructError
from types import FunctionType, NoneType, SimpleNamespace, UnionType
from typing import Any, TypeVar, Union, get_args, get_origin, get_type_hints

from ckpt_backends.errors import InsecureConnection, StoreUnavailable, Unreadable
from ckpt_backends.url import StoreUrl, masked

_Store = TypeVar("_Store")
_Connection = TypeVar("_Connection", bound=Any)
_Test = Callable[[Any], bool]
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


Reason = tuple[str, str, str]
"""A pattern for the message of a driver, the reason to print, and a hint, or `''`."""
NETWORK: Sequence[Reason] = (
    (
        "refused",
        "connection refused",
        "check that the server is running and that host and port are right",
    ),
    (
        "translate host name|resolve host|service not known|name resolution|nodename|getaddrinfo"
        "|no address|DNS",
        "unknown host",
        "check the host name",
    ),
    ("unreachable|no route", "the host is unreachable", ""),
)
"""Why a connection to any server may fail. Such errors have no code, so only the message tells."""


def known_failure(
    what: str, said: str, reasons: Iterable[Reason] = NETWORK
) -> StoreUnavailable | None:
    """The error for the first of these reasons that a message fits. `what` begins a sentence."""
    for mark, reason, hint in reasons:
        if re.search(mark, said, re.IGNORECASE):
            return StoreUnavailable(f"{what}: {reason}", hint=hint or None)
    return None


def first_line(error: Exception, url: StoreUrl, said: str | None = None) -> str:
    """The first line of a driver's message, which is `said` if given, without passwords."""
    text = str(error) if said is None else said
    return masked(text.strip().partition("\n")[0], url) or type(error).__name__


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
            setattr(store, name, _guarded(getattr(store, name), lambda *_: url))
    return store


def _guarded(
    method: Callable[..., Any],
    url_of: Callable[..., StoreUrl],
    test_of: Callable[[Callable[..., Any]], _Test] | None = None,
) -> Callable[..., Any]:
    """A method inside `understood`; its result, or each item of an iterator, passes a test."""

    @wraps(method)
    def call(*args: Any, **named: Any) -> Any:
        url = url_of(*args)
        with understood(url):
            found = method(*args, **named)
            test = test_of and test_of(method)
            if isinstance(found, Iterator):
                return _each(found, url, test)
            if test and not test(found):
                raise unexpected(url)
        return found

    return call


def _each(found: Iterator[Any], url: StoreUrl, test: _Test | None) -> Iterator[Any]:
    with understood(url):
        if test is None:
            yield from found
            return
        for one in found:
            if not test(one):
                raise unexpected(url)
            yield one


# Checks what a server answers. A hostile one may send a number for a name, or too few columns.
#
# `checked` is for classes that read from a server. What their methods return then has the types
# of the model, and errors about the shape of an answer are `Unreadable`.


_Class = TypeVar("_Class", bound=type)


def checked(*names: str) -> Callable[[_Class], _Class]:
    """Check the results of these methods. The object must have its URL in `_url`."""

    def decorate(kind: _Class) -> _Class:
        for name in names:
            setattr(kind, name, _guarded(getattr(kind, name), lambda self, *_: self._url, _result))
        return kind

    return decorate


STORE = (
    "describe",
    "notes",
    "threads",
    "threads_within",
    "thread",
    "size",
    "sizes",
    "checkpoint_sizes",
    "usage",
    "namespaces",
    "checkpoints",
    "checkpoints_at",
    "writes",
    "writes_at",
    "blobs",
    "rows",
    "threads_with_rows",
    "threads_that_may_hold",
)
"""The methods of `Store` that read."""
CHANGES = ("apply", "remove")
MEMORY = ("describe", "namespaces", "items", "rows")


@cache
def _result(method: Callable[..., Any]) -> _Test:
    """The test for a result, or for each item of a generator."""
    function = unwrap(method)
    names = {**_late_names(), **function.__globals__}
    # Types of parameters may be imported for type checkers only.
    returned = SimpleNamespace(__annotations__={"return": function.__annotations__["return"]})
    hint = get_type_hints(returned, names)["return"]
    return _test(get_args(hint)[0] if get_origin(hint) is Iterator else hint)


def _late_names() -> dict[str, Any]:
    """Types in the signatures of stores whose modules import them for type checkers only."""
    from ckpt_backends.model import Checkpoint
    from ckpt_backends.rows import Row

    return {one.__name__: one for one in (Row, Checkpoint)}


def _test(hint: Any) -> _Test:
    origin, parts = get_origin(hint), get_args(hint)
    if origin in {Union, UnionType}:
        tests = [_test(part) for part in parts if part is not NoneType]
        can_be_none = len(tests) < len(parts)
        some = tests[0] if len(tests) == 1 else lambda value: any(test(value) for test in tests)
        return lambda value: can_be_none if value is None else some(value)
    if origin is not None:
        inside = _inside(origin, parts)
        return lambda value: isinstance(value, origin) and inside(value)
    if isinstance(hint, type):
        if _is_record(hint):
            return _of_record(hint)
        return lambda value: isinstance(value, hint)
    return lambda _: True


def _inside(origin: type, parts: tuple[Any, ...]) -> _Test:
    """The test for what a collection contains."""
    tests = [_test(part) for part in parts if part is not ...]
    if issubclass(origin, Mapping):

        def of_mapping(value: Any) -> bool:
            return all(tests[0](name) and tests[1](one) for name, one in value.items())

        if all(map(_is_told_by_type, parts)):
            return _once(
                lambda value: (frozenset(map(type, value)), frozenset(map(type, value.values()))),
                of_mapping,
            )
        return of_mapping
    if origin is tuple and parts[-1] is not ...:
        return lambda value: len(value) == len(tests) and all(map(_call, tests, value))
    return lambda value: all(map(tests[0], value))


def _once(types_of: Callable[[Any], Hashable], test: _Test) -> _Test:
    """A test that is made once for values with the same types: it costs too much for each row."""
    right: set[Hashable] = set()

    def once(value: Any) -> bool:
        types = types_of(value)
        if types not in right:
            if not test(value):
                return False
            right.add(types)
        return True

    return once


def _call(test: _Test, value: object) -> bool:
    return test(value)


@cache
def _of_record(kind: Any) -> _Test:
    hints = get_type_hints(kind)
    names = [one.name for one in fields(kind)] if is_dataclass(kind) else kind._fields
    tests = [(at, _test(hints[one])) for at, one in enumerate(names)]
    inner = [(at, test) for at, test in tests if not _is_told_by_type(hints[names[at]])]
    cells_of: Callable[[Any], Sequence[Any]] = (
        tuple if issubclass(kind, tuple) else lambda value: [getattr(value, name) for name in names]
    )
    of_types = _once(
        lambda cells: tuple(map(type, cells)),
        lambda cells: all(test(cells[at]) for at, test in tests),
    )

    def test(value: Any) -> bool:
        if not isinstance(value, kind):
            return False
        cells = cells_of(value)
        return of_types(cells) and all(one(cells[at]) for at, one in inner)

    return test


def _is_told_by_type(hint: Any) -> bool:
    """Whether the type of a value is enough to test it."""
    if get_origin(hint) in {Union, UnionType}:
        return all(map(_is_told_by_type, get_args(hint)))
    return isinstance(hint, type) and get_origin(hint) is None and not _is_record(hint)


def _is_record(hint: type) -> bool:
    """Whether it is a dataclass or a named tuple."""
    return is_dataclass(hint) or (issubclass(hint, tuple) and hasattr(hint, "_fields"))


# What may be sent over a connection that others can read, or whose other end is not known.


def is_local(host: str) -> bool:
    """Whether a host is this machine: a socket's path, a loopback address or `localhost`."""
    import ipaddress  # late: stores without a server do not need it

    if not host or host.startswith(("/", "@")) or host.rstrip(".").lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def warn_unencrypted(host: str, advice: str, what: str = "") -> None:
    """Warn, once per host and run, that a password, or `what`, is on an unencrypted connection.

    `what` is the begin of a sentence, such as `data from 'HOST' comes`.
    """
    what = what or f"the password goes to '{host}'"
    _warn(host, f"{what} over an unencrypted connection; {advice}")


def warn_unverified(host: str, advice: str) -> None:
    """Warn, once per host and run, that a password goes to a server that was not checked."""
    problem = "but its certificate or host name was not checked"
    _warn(host, f"the password goes to '{host}', {problem}; {advice}")


def _warn(host: str, text: str) -> None:
    if host not in _WARNED:
        _WARNED.add(host)
        warnings.warn(InsecureConnection(text), stacklevel=3)


_WARNED: set[str] = set()
"""Hosts that were named in a warning."""
