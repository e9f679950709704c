"""A credential in a store: where it is and of which kind, never what it is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ckpt_cli.core.values.paths import Path

SecretPlace = Literal["value", "write", "metadata", "memory"]


@dataclass(frozen=True, slots=True)
class SecretFinding:
    """A credential at one place of a thread, or of an item of long-term memory."""

    place: SecretPlace
    kind: str
    path: Path
    """Where it is in the value; it begins with the channel, if there is one."""
    thread_id: str | None = None
    checkpoint_ns: str | None = None
    checkpoint_id: str | None = None
    """The newest checkpoint that holds it here; None for memory."""
    ref: str | None = None
    """Short form of the checkpoint id."""
    channel: str | None = None
    task_id: str | None = None
    idx: int | None = None
    """Of a write, its number within the task."""
    checkpoints: int | None = None
    """Number of checkpoints that hold it here."""
    namespace: tuple[str, ...] | None = None
    key: str | None = None
    """Of memory, the key of the item."""
    is_masked: bool = False
    """Whether a part of the address is hidden, so that nothing can be found by it."""
