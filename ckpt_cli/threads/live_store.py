"""Keep a store open for long: open it again after its connection was lost."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Generic, Protocol, TypeVar

from ckpt_backends.errors import StoreUnavailable, UnknownLayout, Unreadable, Unsupported


class _Kept(Protocol):
    """A store of threads or of long-term memory."""

    def refresh(self) -> None: ...

    def close(self) -> None: ...


Kept = TypeVar("Kept", bound=_Kept)


class LiveStore(Generic[Kept]):
    """A store that is opened when it is needed, and again after `drop`."""

    def __init__(self, open_store: Callable[[], Kept], given: Kept | None = None) -> None:
        """`given` is used first, if there is one; it stays open."""
        self._open_store = open_store
        self._given = self._store = given

    @property
    def store(self) -> Kept:
        """The store. Raises what opening it raises."""
        if self._store is None:
            self._store = self._open_store()
        return self._store

    def drop(self) -> None:
        """Close the store if it was opened here; the next use opens it again."""
        if self._store is not None and self._store is not self._given:
            with suppress(Exception):
                self._store.close()
        self._store = None


def is_passing(error: StoreUnavailable) -> bool:
    """Return whether it may help to open the store again."""
    return not isinstance(error, Unsupported | UnknownLayout | Unreadable)
