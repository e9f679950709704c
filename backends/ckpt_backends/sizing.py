"""Tells whether a store can compute the size of a thread quickly."""

from __future__ import annotations

from typing import ClassVar, Protocol

from ckpt_backends.protocol import Store
from ckpt_backends.wrapper import WrappedStore


class MeasuringStore(Protocol):
    """A store whose engine cannot add up sizes, so `size` makes a request for each value."""

    measures_each_value: ClassVar[bool]


def is_summed_up(store: Store) -> bool:
    """Whether the engine adds up the size of a thread in one query."""
    while isinstance(store, WrappedStore):
        store = store.inner
    return not getattr(store, "measures_each_value", False)
