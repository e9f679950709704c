"""Where the memory beside some threads is: asked by commands that mostly find none, so quick."""

from __future__ import annotations

import os
from dataclasses import dataclass

from ckpt_backends.url import MEMORY, StoreUrl


@dataclass(frozen=True, slots=True)
class MemoryPlace:
    """A memory that may be of the threads of a store."""

    url: StoreUrl
    named: bool
    """Whether somebody named it, rather than that it lies in the same folder."""


def memory_place(threads: StoreUrl, chosen: StoreUrl | None) -> MemoryPlace | None:
    """The memory that was chosen, else of the DeerFlow in whose folder a file of threads lies.

    None where there is none. Looks at names alone.
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
