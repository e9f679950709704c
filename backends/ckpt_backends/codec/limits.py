"""How much of one value is decoded."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on every decoding path; a value past one of them is cut."""

    value_bytes: int = 16 * 1024 * 1024
    """Stored bytes of one value: a channel's, a write's, a metadata's."""
    depth: int = 200
    """Containers and ext types inside each other. A level takes about 1 KiB of C stack."""
    nodes: int = 1_000_000
    """Values inside a value, its map keys included."""


DEFAULT_LIMITS = Limits()
