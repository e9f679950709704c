"""What a store reports about its engine."""

from __future__ import annotations

from pathlib import Path

from ckpt_backends.model import Fault
from ckpt_backends.registry import open_store


def faults(url: str | Path) -> list[Fault]:
    """Return the faults of the store as a whole."""
    with open_store(str(url)) as store:
        return list(store.faults())


def only(url: str | Path) -> Fault:
    """Return its only fault."""
    (found,) = faults(url)
    return found
