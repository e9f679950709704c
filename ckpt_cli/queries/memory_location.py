"""Find the memory that belongs to a store of threads, by path names alone."""

from __future__ import annotations

from dataclasses import dataclass

from ckpt_backends.discovery import backend_of, bundled, known_backends
from ckpt_backends.url import StoreUrl


@dataclass(frozen=True, slots=True)
class MemoryPlace:
    """A memory that may belong to the threads of a store."""

    url: StoreUrl
    named: bool
    """Whether the user named it; otherwise it was found in the same folder."""


def memory_place(threads: StoreUrl, chosen: StoreUrl | None) -> MemoryPlace | None:
    """Return the chosen memory, or the one of an application that keeps it near the threads.

    Returns None if there is none. Opens no file.
    """
    if chosen is not None:
        return MemoryPlace(chosen, named=True)
    own = backend_of(threads.scheme)
    if own is None or not own.is_local:
        return None
    is_bundled = any(one is own for one in bundled())
    for backend in bundled() if is_bundled else known_backends():
        found = None if backend.memory_near is None else backend.memory_near(threads.path)
        if found is not None:
            return MemoryPlace(StoreUrl(backend.schemes[0], found, raw=found), named=False)
    return None
