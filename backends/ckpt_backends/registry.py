"""Opens a store by the declaration of its backend. Importing this module imports no driver."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any, cast

from ckpt_backends.app_sessions import SessionStore
from ckpt_backends.declaration import Backend
from ckpt_backends.discovery import backend_of, bundled, load
from ckpt_backends.errors import CkptError, MissingDependency, Unsupported, UsageError
from ckpt_backends.memory.protocol import MemoryStore, ThreadsOfMemory
from ckpt_backends.protocol import Store
from ckpt_backends.url import StoreUrl, parse_url, without_values


def load_backend(scheme: str) -> Backend:
    """The backend for a URL scheme. Raises `UsageError` if there is none."""
    found = backend_of(scheme)
    if found is None:
        known = sorted(name for one in bundled() for name in one.schemes)
        raise UsageError(
            f"cannot open '{scheme}://': unknown kind of store",
            hint=f"use a file, a folder, or {', '.join(f'{name}://' for name in known)}",
        )
    return found


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
            holding = [one for one in bundled() if one.sessions]
            raise Unsupported(
                f"no sessions in '{url.scheme}://' stores:"
                f" applications store sessions in {titles(holding)} only",
                hint=f"use a {holding[0].schemes[0]}:// store",
            )
        return cast("SessionStore", call_facet(backend, backend.sessions, url))


def open_memory(url: StoreUrl) -> MemoryStore:
    """Open long-term memory for reading. Raises what `open_store` raises, and `Unsupported`."""
    with opening(url) as backend:
        if not backend.memory:
            holding = [one for one in bundled() if one.memory and not one.memory_edits]
            raise Unsupported(
                f"no long-term memory in '{url.scheme}://' stores",
                hint=f"use a LangGraph Store on {titles(holding)}",
            )
        return cast("MemoryStore", call_facet(backend, backend.memory, url))


def threads_of_memory(url: StoreUrl) -> ThreadsOfMemory:
    """The store of the threads that a memory came from."""
    with opening(url) as backend:
        if not backend.threads_of_memory:
            return ThreadsOfMemory(url, "the same store")
        return cast("ThreadsOfMemory", call_facet(backend, backend.threads_of_memory, url))


def titles(backends: Iterable[Backend]) -> str:
    """The names of some engines or applications, for a message."""
    *others, last = sorted(one.title for one in backends)
    return f"{', '.join(others)} or {last}" if others else last


@contextmanager
def opening(url: StoreUrl) -> Iterator[Backend]:
    """The backend of a URL. Errors show no value that a profile took from the environment."""
    try:
        yield load_backend(url.scheme)
    except CkptError as error:
        error.message = without_values(error.message, url)
        error.hint = error.hint and without_values(error.hint, url)
        raise


def call_facet(backend: Backend, place: str, url: StoreUrl) -> Any:
    """Call `module:function`. Raises `MissingDependency` if the driver is not installed."""
    if backend.driver:
        try:
            import_module(backend.driver)
        except ImportError as error:
            package = f"'langgraph-ckpt[{backend.extra}]'" if backend.extra else backend.driver
            raise MissingDependency(
                f"cannot open '{url}': {backend.title} needs the driver {backend.driver}",
                hint=f"install it: pip install {package}",
            ) from error
    return load(place)(url)
