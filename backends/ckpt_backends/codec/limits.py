"""How much of one value is decoded."""

from __future__ import annotations

from dataclasses import dataclass


class PastLimit(Exception):
    """A value is past a limit; the message says which."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds on every decoding path; a value past one of them is cut."""

    value_bytes: int = 16 * 1024 * 1024
    """Stored bytes of one value: a channel's, a write's, a metadata's."""
    depth: int = 200
    """Containers and ext types inside each other. A level takes about 1 KiB of C stack."""
    nodes: int = 500_000
    """Values inside a value, its map keys included. As Python objects they take about 50 MB."""


DEFAULT_LIMITS = Limits()


def past_bytes(size: int, limits: Limits) -> str:
    """Whether a value of `size` bytes is past the limit, in words; `''` if not."""
    return f"longer than {limits.value_bytes} bytes" if size > limits.value_bytes else ""


def past_counts(nodes: int, depth: int, limits: Limits) -> str:
    """Which limit a value with these counts is past, in words; `''` for none."""
    if depth > limits.depth:
        return f"nested deeper than {limits.depth} levels"
    return f"more than {limits.nodes} nodes" if nodes > limits.nodes else ""
