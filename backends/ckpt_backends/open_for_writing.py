"""Opens stores for writing. In the command line, only `ckpt_cli.apply` may import this module."""

from __future__ import annotations

from typing import cast

from ckpt_backends.app_sessions import WritableSessions
from ckpt_backends.declaration import known_backends
from ckpt_backends.errors import UnknownLayout, Unsupported
from ckpt_backends.memory import EditableMemoryStore, WritableMemoryStore
from ckpt_backends.protocol import WritableStore
from ckpt_backends.registry import call_facet, open_store, opening, titles
from ckpt_backends.transfer.form import Language
from ckpt_backends.url import StoreUrl


def open_writable(url: StoreUrl) -> WritableStore:
    """Open a store for changing it. Raises what `open_store` raises, and `Unsupported`."""
    with opening(url) as backend:
        if not backend.changes:
            raise Unsupported(f"'{url.scheme}://' stores are read-only")
        return cast("WritableStore", call_facet(backend, backend.changes, url))


def open_writable_memory(url: StoreUrl) -> WritableMemoryStore:
    """Open long-term memory for changing it. Raises the errors of `open_memory`."""
    with opening(url) as backend:
        if not backend.memory_changes:
            raise Unsupported(f"long-term memory in '{url.scheme}://' stores is read-only")
        return cast("WritableMemoryStore", call_facet(backend, backend.memory_changes, url))


def open_editable_memory(url: StoreUrl) -> EditableMemoryStore:
    """Open long-term memory for changing its items. Raises the errors of `open_memory`."""
    with opening(url) as backend:
        if not backend.memory_edits:
            holding = [one for one in known_backends() if one.memory_edits]
            raise Unsupported(
                f"cannot edit items in '{url.scheme}://' stores",
                hint=f"only the memory of {titles(holding)} can be edited",
            )
        return cast("EditableMemoryStore", call_facet(backend, backend.memory_edits, url))


def open_writable_sessions(url: StoreUrl) -> WritableSessions:
    """Open an application's sessions for removing some. Raises the errors of `open_sessions`."""
    with opening(url) as backend:
        if not backend.session_changes:
            raise Unsupported(f"no sessions can be removed from '{url.scheme}://' stores")
        return cast("WritableSessions", call_facet(backend, backend.session_changes, url))


def create_store(url: StoreUrl, language: Language) -> StoreUrl:
    """Make an empty store for threads of a language, unless one is there.

    Returns the URL that opens it: with the layout, if nothing in an empty store shows it. Raises
    `Unsupported`, and `Refused` if anything else is in its place.
    """
    check_creatable(url)
    with opening(url) as backend:
        if not backend.create or language not in backend.creates:
            makers = [one for one in known_backends() if language in one.creates]
            raise Unsupported(
                f"cannot make a store in '{url}'",
                hint=f"--create works for {titles(makers)}; here, run setup() of the saver once",
            )
        call_facet(backend, backend.create, url, language)
    try:
        open_store(url).close()
    except UnknownLayout:
        return url.with_params({"layout": backend.creates[language]})
    return url


def check_creatable(url: StoreUrl) -> None:
    """Raise `Unsupported` if a URL names tables: those that are made have the names of a saver."""
    if "tables" in url.params:
        raise Unsupported(
            f"cannot make tables with other names in '{url}'",
            hint="--create makes those of LangGraph's saver: leave out `tables`",
        )


def create_memory(url: StoreUrl) -> None:
    """Make empty long-term memory, unless it is there.

    Raises `Unsupported`, and `Refused` if anything else is in its place.
    """
    with opening(url) as backend:
        if not backend.memory_create:
            makers = [one for one in known_backends() if one.memory_create]
            raise Unsupported(
                f"cannot make long-term memory in '{url}'",
                hint=f"--create works for {titles(makers)}",
            )
        call_facet(backend, backend.memory_create, url)
