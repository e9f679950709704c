"""The parts of a thread in the form of one layout, between its rows and those of another layout.

The parts of a thread come in any number of values, writes and checkpoints. Values come before the
checkpoints that name them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from ckpt_backends.changes.rows import Row
from ckpt_backends.model import CheckpointKey, TypedBytes


@dataclass(slots=True)
class CheckpointPart:
    """A checkpoint, without writes."""

    key: CheckpointKey
    parent: str | None
    body: TypedBytes
    """As stored, with the values that the layout stores in bodies."""
    metadata: TypedBytes
    expires_at: int | None = None
    """Milliseconds since 1970; None if it does not expire."""


@dataclass(slots=True)
class WritePart:
    """One write of a task."""

    key: CheckpointKey
    task_id: str
    task_path: str
    idx: int
    channel: str
    value: TypedBytes
    expires_at: int | None = None
    order: str = field(default="", compare=False, repr=False)
    """The task path in the source, for a layout that stores only the order that it gives."""


@dataclass(slots=True)
class ValuePart:
    """A channel's value at one version, which is stored outside of bodies."""

    thread_id: str
    checkpoint_ns: str
    channel: str
    version: str
    value: TypedBytes
    expires_at: int | None = None


Part: TypeAlias = CheckpointPart | WritePart | ValuePart
PartsOfRows: TypeAlias = Callable[[str, Iterable[Row]], Iterator[Part]]
"""Maps the name of a layout and the rows of one thread to the parts that they hold."""


@dataclass(frozen=True, slots=True)
class Arrival:
    """A thread, or what is missing of it, to be added to a store."""

    thread_id: str
    parts: Iterable[Part]
    """In the form of the store. Read once, and only while the store adds them."""
    heads: Mapping[str, str] = field(default_factory=dict)
    """By namespace, the id of the newest checkpoint that the store has; empty for a new thread."""


@dataclass(frozen=True, slots=True)
class PartRewrite:
    """A stored part with the values that it is to have. Everything else of it stays as it is."""

    stored: Part
    new: Part


def part_key(part: Part) -> tuple[str, ...]:
    """What identifies a part within its thread."""
    if isinstance(part, ValuePart):
        return "value", part.checkpoint_ns, part.channel, part.version
    place = part.key.checkpoint_ns, part.key.checkpoint_id
    if isinstance(part, WritePart):
        return ("write", *place, part.task_id, str(part.idx))
    return ("checkpoint", *place)


def part_size(part: Part) -> int:
    """The bytes of a part's values."""
    if isinstance(part, CheckpointPart):
        return len(part.body.data) + len(part.metadata.data)
    return len(part.value.data)
