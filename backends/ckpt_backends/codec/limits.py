"""Limits on how much of one value is read and decoded."""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from typing import NamedTuple

from ckpt_backends.model import TypedBytes

MOST_BYTES = 256 << 20
"""Values with more bytes are not read. In practice, savers store bodies of up to about 80 MB."""


class PastLimit(Exception):
    """A value exceeds a limit; the message says which one."""


class Limits(NamedTuple):
    """The limits of every decoder. A value that exceeds one of them is cut."""

    value_bytes: int = 16 * 1024 * 1024
    """Stored bytes of one value: of a channel, a write or metadata."""
    depth: int = 200
    """Levels of nested containers and ext types. A level takes about 1 KiB of C stack."""
    nodes: int = 500_000
    """Number of values inside a value, including map keys; about 50 MB as Python objects."""


DEFAULT_LIMITS = Limits()
WHOLE_LIMITS = Limits(value_bytes=MOST_BYTES, nodes=10_000_000)
"""The limits of a search that has to read all of a value, and shows none of it: at most about 1 GB
as Python objects."""


class Span(NamedTuple):
    """The measure of one value: its end offset, number of nodes and depth."""

    end: int
    nodes: int
    depth: int


class Budget:
    """Counts how many nodes may still be created for a group of values."""

    def __init__(self, limits: Limits, nodes: int) -> None:
        self._limits = limits
        self._left = nodes

    def limits(self) -> Limits:
        """The limits for the next value."""
        return self._limits._replace(nodes=min(self._limits.nodes, self._left))

    def spend(self, span: Span, size: int) -> str:
        """Count a value of `size` bytes. Returns the limit that it exceeds, in words, or `''`."""
        allowed = min(self._limits.nodes, self._left)
        self._left -= min(span.nodes, allowed)
        if span.nodes > allowed:
            return f"more than {allowed} nodes"
        return past_bytes(size, self._limits) or past_counts(span.nodes, span.depth, self._limits)


def body_budgets(limits: Limits) -> tuple[Budget, Budget]:
    """The budgets of a checkpoint body: of its entries, and of its channel values."""
    return Budget(limits, limits.nodes), Budget(limits, 4 * limits.nodes)


def past_bytes(size: int, limits: Limits) -> str:
    """The limit that a value of `size` bytes exceeds, in words, or `''`."""
    return f"longer than {limits.value_bytes} bytes" if size > limits.value_bytes else ""


def past_counts(nodes: int, depth: int, limits: Limits) -> str:
    """The limit that a value with these counts exceeds, in words, or `''`."""
    if depth > limits.depth:
        return f"nested deeper than {limits.depth} levels"
    return f"more than {limits.nodes} nodes" if nodes > limits.nodes else ""


def unread(tag: str, size: int) -> TypedBytes:
    """A placeholder for a value of `size` bytes that was not read."""
    return TypedBytes(tag, b"", problem=f"longer than {MOST_BYTES >> 20} MiB, not read", whole=size)


def typed(tag: str, size: int, data: bytes | None) -> TypedBytes:
    """A value as stored, or a placeholder if it is longer than `MOST_BYTES`."""
    return unread(tag, size) if size > MOST_BYTES else TypedBytes(tag, data or b"")
