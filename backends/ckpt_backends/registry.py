"""Finds the backend for a store URL and opens it. Importing this module imports no driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import cast

from ckpt_backends.app_sessions import SessionStore
from ckpt_backends.errors import CkptError, Unsupported, UsageError
from ckpt_backends.memory.protocol import MemoryStore
from ckpt_backends.protocol import Backend, Store
from ckpt_backends.url import StoreUrl, parse_url, without_values

BUNDLED = {
    "sqlite": "ckpt_backends.sqlite:SqliteBackend",
    "langgraph-dev": "ckpt_backends.langgraph_dev:DevBackend",
    "postgresql": "ckpt_backends.postgres:PostgresBackend",
    "postgres": "ckpt_backends.postgres:PostgresBackend",
    "mongodb": "ckpt_backends.mongodb:MongoBackend",
    "mongodb+srv": "ckpt_backends.mongodb:MongoBackend",
    "redis": "ckpt_backends.redis:RedisBackend",
    "rediss": "ckpt_backends.redis:RedisBackend",
    "mysql": "ckpt_backends.mysql:MySQLBackend",
    "mariadb": "ckpt_backends.mysql:MySQLBackend",
    "deerflow": "ckpt_backends.apps.deerflow:DeerFlowBackend",
}
"""By URL scheme, the backend that opens it. These take precedence over installed backends."""

ENTRY_POINTS = "ckpt.backends"
"""The entry point group for backends of other packages. The entry's name is the URL scheme."""


def load_backend(scheme: str) -> type[Backend]:
    """The backend for a URL scheme. Raises `UsageError` if there is none."""
    if scheme in BUNDLED:
        module, _, name = BUNDLED[scheme].partition(":")
        return cast("type[Backend]", getattr(import_module(module), name))
    # Scanning the installed packages takes 30 ms, so it is done for unknown schemes only.
    from importlib.metadata import entry_points

    for found in entry_points(group=ENTRY_POINTS, name=scheme):
        return cast("type[Backend]", found.load())
    raise UsageError(
        f"cannot open '{scheme}://': unknown kind of store",
        hint="use a SQLite file, a .langgraph_api folder, or"
        f" {', '.join(f'{s}://' for s in BUNDLED)}",
    )


@contextmanager
def hiding_values(url: StoreUrl) -> Iterator[None]:
    """Errors show no value that a profile took from the environment."""
    try:
        yield
    except CkptError as error:
        error.message = without_values(error.message, url)
        error.hint = error.hint and without_values(error.hint, url)
        raise


def open_store(url: str | StoreUrl) -> Store:
    """Open a store for reading; the result cannot change it.

    Raises `UsageError`, `StoreUnavailable` or `UnknownLayout`.
    """
    parsed = parse_url(url) if isinstance(url, str) else url
    with hiding_values(parsed):
        return load_backend(parsed.scheme).open(parsed)


def open_sessions(url: StoreUrl) -> SessionStore:
    """Open an application's sessions for reading. Raises what `open_store` raises."""
    with hiding_values(url):
        backend = load_backend(url.scheme)
        if not hasattr(backend, "open_sessions"):
            raise Unsupported(
                f"no sessions in '{url.scheme}://' stores:"
                " applications store sessions in Redis only",
                hint="use a redis:// store",
            )
        return cast("SessionStore", backend.open_sessions(url))


def open_memory(url: StoreUrl) -> MemoryStore:
    """Open long-term memory for reading. Raises what `open_store` raises, and `Unsupported`."""
    with hiding_values(url):
        backend = load_backend(url.scheme)
        if not hasattr(backend, "open_memory"):
            raise Unsupported(
                f"no long-term memory in '{url.scheme}://' stores",
                hint="use a LangGraph Store on SQLite, PostgreSQL, Redis or MongoDB",
            )
        return cast("MemoryStore", backend.open_memory(url))
