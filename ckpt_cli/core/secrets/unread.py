"""Say why a value could not be searched completely."""

from __future__ import annotations

from ckpt_backends.codec.values import Opaque, Value
from ckpt_cli.core.channels import NOT_STORED
from ckpt_cli.core.doctor.readability import Readability, readability

CANNOT_DECODE = "cannot be decoded; only their bytes were searched"
_WORDS = {
    Readability.CLOSED: "encrypted",
    Readability.REFUSED: "encrypted with another key",
    Readability.UNREAD: "too large, or stored elsewhere",
}
"""None of these may quote a value, as the reason of an unreadable value does."""


def why_unread(value: Value) -> str:
    """Return why a value that is not whole could not be read; `''` if it is not stored."""
    if isinstance(value, Opaque) and value.reason.startswith(NOT_STORED):
        return ""
    return _WORDS.get(readability(value), CANNOT_DECODE)
