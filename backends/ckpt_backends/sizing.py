"""What it costs to ask how much a thread takes."""

from __future__ import annotations

from typing import ClassVar, Protocol

from ckpt_backends.protocol import Store
from ckpt_backends.wrapped import WrappedStore


class MeasuringStore(Protocol):
    """A store whose engine sums nothing up, so that `size` asks for each stored value."""

    measures_each_value: ClassVar[bool]


def is_summed_up(store: Store) -> bool:
    """Whether the engine tells a thread's size at once."""
    while isinstance(store, WrappedStore):
        store = store.inner
    return not getattr(store, "measures_each_value", False)
