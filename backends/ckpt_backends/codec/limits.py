"""Limits on how much of one value is decoded."""

from __future__ import annotations

from dataclasses import dataclass


class PastLimit(Exception):
    """A value exceeds a limit; the message says which one."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of every decoder. A value that exceeds one of them is cut."""

    value_bytes: int = 16 * 1024 * 1024
    """Stored bytes of one value: of a channel, a write or metadata."""
    depth: int = 200
    """Levels of nested containers and ext types. A level takes about 1 KiB of C stack."""
    nodes: int = 500_000
    """Number of values inside a value, including map keys; about 50 MB as Python objects."""


DEFAULT_LIMITS = Limits()


def past_bytes(size: int, limits: Limits) -> str:
    """The limit that a value of `size` bytes exceeds, in words, or `''`."""
    return f"longer than {limits.value_bytes} bytes" if size > limits.value_bytes else ""


def past_counts(nodes: int, depth: int, limits: Limits) -> str:
    """The limit that a value with these counts exceeds, in words, or `''`."""
    if depth > limits.depth:
        return f"nested deeper than {limits.depth} levels"
    return f"more than {limits.nodes} nodes" if nodes > limits.nodes else ""
