"""What a repair does to one of many threads."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from ckpt_backends.changes.change import Change
from ckpt_cli.core.forking.plan import CheckpointPlan


def _nothing() -> None:
    """Record nothing: the checkpoint that is added says it all."""


@dataclass(frozen=True, slots=True)
class ThreadRepair:
    """The repair of one thread, before it is carried out."""

    thread_id: str
    change: Change
    mends: tuple[str, ...]
    """What it mends, one phrase each, without values of the store."""
    plan: CheckpointPlan | None = None
    """None if no checkpoint is added."""
    left: str = ""
    """What it cannot mend, and why."""
    record: Callable[[], None] = _nothing
    """Records, before it is carried out, what an undo needs to know."""


@dataclass(frozen=True, slots=True)
class RepairOutcome:
    """What happened to one thread. It holds no value of the store."""

    thread_id: str
    state: Literal["planned", "repaired", "skipped"]
    mends: tuple[str, ...] = ()
    reason: str = ""
    """Why it was skipped, or what could not be mended."""
    is_moved: bool = False
    """Whether it was skipped because an agent changed it."""
    plan: CheckpointPlan | None = None
    """Without its change and without values."""
