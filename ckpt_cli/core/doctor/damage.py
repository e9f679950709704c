"""Tell damaged values from those that cannot be read for another reason."""

from __future__ import annotations

from ckpt_backends.codec.values import Opaque, Value
from ckpt_backends.encryption import DAMAGED
from ckpt_cli.core.channels import NOT_STORED

_ENCRYPTED = "encrypted"
"""All reasons why a value stays encrypted begin with this word."""
_NO_FAULT = (
    "unknown type",  # An application may have a serializer of its own.
    NOT_STORED,  # The layout does not store it.
    _ENCRYPTED,
)
NOT_READ = "not read"
"""End of the reason why a value was left in the store: it is too long."""


def is_damaged(value: Value) -> bool:
    """Return whether a decoded value shows that its stored bytes are damaged."""
    if not isinstance(value, Opaque):
        return False
    if value.reason.startswith(DAMAGED):
        return True
    return not value.reason.startswith(_NO_FAULT) and not value.reason.endswith(NOT_READ)


def is_encrypted(value: Value) -> bool:
    """Return whether a value stays encrypted, because its key is not known."""
    if not isinstance(value, Opaque) or is_damaged(value):
        return False
    return value.reason.startswith(_ENCRYPTED)
