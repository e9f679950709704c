"""What `ckpt repair values` restores, and what it cannot."""

from __future__ import annotations

from dataclasses import dataclass

from ckpt_backends.changes import Change
from ckpt_backends.codec.values import Value
from ckpt_backends.model import BlobKey
from ckpt_cli.core.forking import CheckpointPlan


@dataclass(frozen=True, slots=True)
class DamagedValue:
    """The value of a channel at one version, and the first checkpoint that refers to it."""

    checkpoint_ns: str
    checkpoint_id: str
    step: int | None
    channel: str
    version: str

    @property
    def key(self) -> BlobKey:
        """Where the value is stored, if values are stored apart."""
        return BlobKey(self.checkpoint_ns, self.channel, self.version)


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A value that the repair restores."""

    place: DamagedValue
    reducers: tuple[str, ...]
    """All reducers that explain the channel; they produce the same value."""
    evidence: int
    value: Value
    bytes: int
    replaces: bool
    """Whether an unreadable value is stored there now."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """A value that is missing or unreadable and cannot be restored."""

    place: DamagedValue
    reason: str


@dataclass(frozen=True, slots=True)
class Repair:
    """The whole plan."""

    thread_id: str
    rebuilt: tuple[Rebuilt, ...]
    refused: tuple[Refusal, ...]
    change: Change
    plan: CheckpointPlan | None = None
    """The copy of the head that gets the values; None in layouts that store values apart."""
