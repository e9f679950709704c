"""Opens a store by the declaration of its backend. Importing this module imports no driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from os.path import exists
from typing import TYPE_CHECKING, Any, cast

from ckpt_backends.declaration import (
    DISTRIBUTION,
    Backend,
    backend_claiming,
    backend_of,
    known_backends,
    load,
    package_of,
)
from ckpt_backends.errors import (
    CkptError,
    MissingDependency,
    StoreUnavailable,
    Unsupported,
    UsageError,
)
from ckpt_backends.protocol import Store
from ckpt_backends.url import StoreUrl, parse_url, without_values

if TYPE_CHECKING:
    from ckpt_backends.app_sessions import SessionStore
    from ckpt_backends.memory import MemoryStore, ThreadsOfMemory


def load_backend(scheme: str) -> Backend:
    """The backend for a URL scheme. Raises `UsageError` if there is none."""
    found = backend_of(scheme)
    if found is None:
        raise _unknown(scheme)
    return found


def _unknown(scheme: str) -> UsageError:
    """The error for a scheme without a backend: why its plug-in cannot be loaded, if it has one."""
    from ckpt_backends.plugins import plugins

    meant = [one for one in plugins() if one.problem and one.name == scheme]
    if meant:
        return UsageError(
            f"cannot open '{scheme}://': {meant[0]}",
            hint=f"fix or remove it: pip uninstall {meant[0].package}",
        )
    names = sorted({f"{name}://" for one in known_backends() for name in one.schemes})
    usable = f"use a file, a folder, or {', '.join(names)}"
    return UsageError(
        f"cannot open '{scheme}://': unknown kind of store",
        hint="; ".join(filter(None, [usable, _broken_plugins()])),
    )


def _broken_plugins() -> str:
    """How many plug-ins cannot be loaded, for a hint; empty if all can."""
    from ckpt_backends.plugins import plugins

    number = sum(bool(one.problem) for one in plugins())
    some = f"{number} plug-in{'' if number == 1 else 's'}"
    return f"{some} cannot be loaded: run `ckpt stores --layouts`" if number else ""


def open_store(url: str | StoreUrl) -> Store:
    """Open a store for reading; the result cannot change it.

    Raises `UsageError`, `StoreUnavailable` or `UnknownLayout`.
    """
    parsed = parse_url(url) if isinstance(url, str) else url
    with opening(parsed) as backend:
        if not backend.checkpoints:
            raise Unsupported(f"no checkpoints in '{parsed.scheme}://' stores")
        return cast("Store", call_facet(backend, backend.checkpoints, parsed))


def open_sessions(url: StoreUrl) -> SessionStore:
    """Open an application's sessions for reading. Raises what `open_store` raises."""
    with opening(url) as backend:
        if not backend.sessions:
            from ckpt_backends.app_sessions import NO_SESSIONS

            names = [
                f"{one.schemes[0]}://" for one in known_backends() if one.sessions and one.schemes
            ]
            raise Unsupported(
                f"no sessions in '{url.scheme}://' stores: {NO_SESSIONS}",
                hint=f"use a {' or '.join(names)} store",
            )
        return cast("SessionStore", call_facet(backend, backend.sessions, url))


def open_memory(url: StoreUrl) -> MemoryStore:
    """Open long-term memory for reading. Raises what `open_store` raises, and `Unsupported`."""
    with opening(url) as backend:
        if not backend.memory:
            holding = [one for one in known_backends() if one.memory and not one.memory_edits]
            raise Unsupported(
                f"no long-term memory in '{url.scheme}://' stores",
                hint=f"use a LangGraph Store on {titles(holding)}",
            )
        return cast("MemoryStore", call_facet(backend, backend.memory, url))


def threads_of_memory(url: StoreUrl) -> ThreadsOfMemory:
    """The store of the threads that a memory came from."""
    with opening(url) as backend:
        if not backend.threads_of_memory:
            from ckpt_backends.memory import ThreadsOfMemory

            return ThreadsOfMemory(url, "the same store")
        return cast("ThreadsOfMemory", call_facet(backend, backend.threads_of_memory, url))


def titles(backends: Iterable[Backend]) -> str:
    """The names of some engines or applications, for a message."""
    *others, last = sorted({one.title for one in backends})
    return f"{', '.join(others)} or {last}" if others else last


@contextmanager
def opening(url: StoreUrl) -> Iterator[Backend]:
    """The backend of a URL. Errors show no value that a profile took from the environment."""
    try:
        yield load_backend(url.scheme)
    except CkptError as error:
        error.message = without_values(error.message, url)
        error.hint = error.hint and without_values(error.hint, url)
        if isinstance(error, StoreUnavailable) and _is_unclaimed(url):
            error.hint = "; ".join(filter(None, [error.hint, _broken_plugins()])) or None
        raise


def _is_unclaimed(url: StoreUrl) -> bool:
    """Whether a path exists that no backend claims, so that a plug-in may be missing."""
    is_path = url.raw == url.path != ""
    return is_path and exists(url.path) and backend_claiming(url.path) is None


def call_facet(backend: Backend, place: str, url: StoreUrl, *more: object) -> Any:
    """Call `module:function`. Raises `MissingDependency` if the driver is not installed."""
    if backend.driver:
        try:
            import_module(backend.driver)
        except ImportError as error:
            from ckpt_backends.installing import install_command

            raise MissingDependency(
                f"cannot open '{url}': {backend.title} needs the driver {backend.driver}",
                hint=f"install it: {install_command(driver_requirement(backend))}",
            ) from error
    try:
        function = load(place)
    except (ImportError, AttributeError) as error:
        package = package_of(backend)
        if package == DISTRIBUTION:
            raise
        from ckpt_backends.plugins import error_line

        raise StoreUnavailable(
            f"cannot open '{url}': backend '{backend.title}' of package {package} cannot be loaded:"
            f" {error_line(error)}"
        ) from error
    return function(url, *more)


def driver_requirement(backend: Backend) -> str:
    """The requirement that brings a backend's driver, such as `langgraph-ckpt[redis]`."""
    package = package_of(backend)
    if backend.extra:
        return f"{package}[{backend.extra}]"
    # A package requires the drivers of its backends, so installing it again adds a missing one.
    return backend.driver if package == DISTRIBUTION else package
