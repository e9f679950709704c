"""Tell damaged values from those that cannot be read for another reason."""

from __future__ import annotations

from ckpt_backends.codec.values import Opaque, Value
from ckpt_backends.encryption import CLOSED, DAMAGED

_NO_FAULT = (
    "unknown type",  # An application may have a serializer of its own.
    "not stored: ",  # The layout does not store it.
    *(one for one in CLOSED if one != DAMAGED),
)
_NOT_READ = "not read"
"""End of the reason why a value was left in the store: it is too long."""


def is_damaged(value: Value) -> bool:
    """Return whether a decoded value shows that its stored bytes are damaged."""
    return (
        isinstance(value, Opaque)
        and not value.reason.startswith(_NO_FAULT)
        and not value.reason.endswith(_NOT_READ)
    )


def is_encrypted(value: Value) -> bool:
    """Return whether a value stays encrypted, because its key is not known."""
    return isinstance(value, Opaque) and value.reason.startswith(CLOSED) and not is_damaged(value)
