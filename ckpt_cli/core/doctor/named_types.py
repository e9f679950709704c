"""Names of classes and functions in stored values."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from ckpt_backends.codec.limits import WHOLE_LIMITS, PastLimit, past_bytes

_LONGEST = 200


class NamedIn(StrEnum):
    """How a value names a class or function."""

    MSGPACK = "msgpack"
    """An ext type that calls it."""
    METHOD = "msgpack-method"
    """An ext type that calls a method of it."""
    ARRAY = "msgpack-array"
    """An array of numpy; it has an ext type of its own."""
    JSON = "json"
    """An envelope with the key `lc`."""
    PICKLE = "pickle"


class TypeName(NamedTuple):
    """A class or function that a value names."""

    module: str
    """Empty, as is the name, if the value computes them while it is decoded. Savers never write
    such a value."""
    name: str
    form: NamedIn
    method: str = ""
    """The method that is called instead of the class; usually `''`."""
    called: bool = True
    """Whether it is called or given to a call. A pickle may also only mention it."""

    @property
    def is_computed(self) -> bool:
        """Whether the name is the result of another call, so it is not known before."""
        return not self.module

    @property
    def text(self) -> str:
        """The whole name, such as `app.models.Order`; a very long one is cut."""
        if self.is_computed:
            return "a computed name"
        text = ".".join(filter(None, (self.module, self.name, self.method)))
        return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


Names = frozenset[TypeName]
NONE: Names = frozenset()
_MOST_BYTES = 16 << 20
"""Maximum number of bytes whose names are remembered."""


class KnownNames:
    """The names in byte strings that were read before, such as messages of a growing list."""

    def __init__(self) -> None:
        self._known: dict[tuple[int | str, bytes], Names] = {}
        self._bytes = 0

    def get(self, kind: int | str, data: bytes) -> Names | None:
        """Return the names in `data`, or None; `kind` is its ext code or its type tag."""
        return self._known.get((kind, data))

    def put(self, kind: int | str, data: bytes, names: Names) -> None:
        """Remember the names in `data`."""
        self._bytes += len(data)
        if self._bytes > _MOST_BYTES:
            self._known.clear()
            self._bytes = len(data)
        self._known[kind, data] = names


KNOWN = KnownNames()
"""What this process remembers."""


def check_length(data: bytes) -> None:
    """Raise `PastLimit` for a value that is too long to be taken apart."""
    if reason := past_bytes(len(data), WHOLE_LIMITS):
        raise PastLimit(reason)
