"""Objects that come again and again, such as the messages of a growing list, decoded once.

Only for a reader that changes no value that it was given, since equal objects are then the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from .values import Tagged

_MOST_BYTES = 32 << 20
"""So many bytes of objects are kept in mind; then it is begun anew."""


class Memo:
    """Objects by their ext code and bytes."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, bytes], Tagged] = {}
        self._bytes = 0

    def get(self, code: int, data: bytes) -> Tagged | None:
        """The object that was made of these bytes before."""
        return self._known.get((code, data))

    def put(self, code: int, data: bytes, node: Tagged) -> None:
        """Keep an object in mind."""
        self._bytes += len(data)
        if self._bytes > _MOST_BYTES:
            self._known.clear()
            self._bytes = len(data)
        self._known[code, data] = node


CURRENT: ContextVar[Memo | None] = ContextVar("memo", default=None)
"""What `remembering` set."""


@contextmanager
def remembering() -> Iterator[None]:
    """As long as it lasts, equal objects are decoded once."""
    token = CURRENT.set(Memo())
    try:
        yield
    finally:
        CURRENT.reset(token)
