"""What is to be put back into a thread: made before anything is written, then carried out."""

from __future__ import annotations

from dataclasses import dataclass

from ckpt_backends.change import Change
from ckpt_backends.codec.values import Value


@dataclass(frozen=True, slots=True)
class Place:
    """A channel's value at one version, and the first checkpoint that names it."""

    checkpoint_ns: str
    checkpoint_id: str
    step: int | None
    channel: str
    version: str


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A value that is put back."""

    place: Place
    reducers: tuple[str, ...]
    """All that explain the channel; they agree on the value."""
    evidence: int
    value: Value
    bytes: int
    replaces: bool
    """Whether something that cannot be read stands there now."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A value that is missing or unreadable, and is not put back."""

    place: Place
    reason: str


@dataclass(frozen=True, slots=True)
class Repair:
    """All of it."""

    thread_id: str
    rebuilt: tuple[Rebuilt, ...]
    refused: tuple[Refusal, ...]
    change: Change
