"""Caches decoded objects that occur many times, such as the messages of a growing list.

Equal objects then are the same Python object, so code that uses the cache must not change values.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ckpt_backends.codec.values import Tagged

_MOST_BYTES = 32 << 20
"""Maximum stored bytes of the cached objects. If it is exceeded, the cache is cleared."""


class Memo:
    """A cache of decoded objects by their ext code and bytes."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, bytes], Tagged] = {}
        self._bytes = 0

    def get(self, code: int, data: bytes) -> Tagged | None:
        """The object that was decoded from these bytes before, or None."""
        return self._known.get((code, data))

    def put(self, code: int, data: bytes, node: Tagged) -> None:
        """Cache an object."""
        self._bytes += len(data)
        if self._bytes > _MOST_BYTES:
            self._known.clear()
            self._bytes = len(data)
        self._known[code, data] = node


CURRENT: ContextVar[Memo | None] = ContextVar("memo", default=None)
"""The active cache, set by `remembering`."""


@contextmanager
def remembering() -> Iterator[None]:
    """Inside the `with` block, equal objects are decoded once."""
    token = CURRENT.set(Memo())
    try:
        yield
    finally:
        CURRENT.reset(token)
