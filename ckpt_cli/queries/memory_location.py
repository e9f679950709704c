"""Find the memory that belongs to a store of threads, by path names alone."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ckpt_backends.url import MEMORY, StoreUrl


@dataclass(frozen=True, slots=True)
class MemoryPlace:
    """A memory that may belong to the threads of a store."""

    url: StoreUrl
    named: bool
    """Whether the user named it; otherwise it was found in the same folder."""


def memory_place(threads: StoreUrl, chosen: StoreUrl | None) -> MemoryPlace | None:
    """Return the chosen memory, or the memory of the DeerFlow folder that contains the threads.

    Returns None if there is none. Opens no file.
    """
    if chosen is not None:
        return MemoryPlace(chosen, named=True)
    folder = MEMORY[1]
    if threads.scheme != "sqlite" or folder not in os.path.abspath(threads.path):
        return None
    above, found, _ = os.path.abspath(threads.path).rpartition(f"{os.sep}{folder}{os.sep}")
    if not found:
        return None
    base = f"{above}{os.sep}{folder}"
    return MemoryPlace(StoreUrl("deerflow", base, raw=base), named=False)
