"""Values that are too long to read into memory."""

from __future__ import annotations

from ckpt_backends.model import TypedBytes

MOST_BYTES = 256 << 20
"""Values with more bytes are not read. In practice, savers store bodies of up to about 80 MB."""


def unread(tag: str, size: int) -> TypedBytes:
    """A placeholder for a value of `size` bytes that was not read."""
    return TypedBytes(tag, b"", problem=f"longer than {MOST_BYTES >> 20} MiB, not read", whole=size)
