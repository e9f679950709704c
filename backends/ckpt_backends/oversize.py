"""Values that are too long to read into memory."""

from __future__ import annotations

from ckpt_backends.model import TypedBytes

MOST_BYTES = 256 << 20
"""A longer value is not read. Savers store bodies of up to some 80 MB in practice."""


def unread(tag: str, size: int) -> TypedBytes:
    """The stand-in for a value of `size` bytes that was not read."""
    return TypedBytes(tag, b"", problem=f"longer than {MOST_BYTES >> 20} MiB, not read", whole=size)
