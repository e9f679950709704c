"""What a command does to each of many threads, before and after it is carried out."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from ckpt_backends.changes.change import Change
from ckpt_backends.model import CheckpointKey
from ckpt_cli.core.forking.plan import CheckpointPlan
from ckpt_cli.core.tasks.resume import UserMetadata


def _nothing() -> None:
    """Record nothing: the checkpoint that is added says it all."""


@dataclass(frozen=True, slots=True)
class ThreadChange:
    """The change of one thread, before it is carried out."""

    thread_id: str
    """The thread that was chosen; a fork to a new thread changes another one."""
    change: Change
    heads: Mapping[str, str]
    """The heads of this thread from which the change was planned, by namespace."""
    mends: tuple[str, ...] = ()
    """What a repair mends, one phrase each, without values of the store."""
    plan: CheckpointPlan | None = None
    """None if no checkpoint is added."""
    left: str = ""
    """What it cannot mend, and why."""
    record: Callable[[], None] = _nothing
    """Records, before it is carried out, what an undo needs to know."""


@dataclass(frozen=True, slots=True)
class ResumePoint:
    """A head from which a thread can be resumed as it is."""

    head: CheckpointKey
    step: int | None
    next: tuple[str, ...] | None
    configurable: Mapping[str, str]
    waits: tuple[str | None, ...] | None = None
    """The questions that it waits for, as in `CheckpointPlan`."""
    metadata: UserMetadata = field(default_factory=dict)
    """As in `CheckpointPlan`."""
    saved: tuple[str, ...] = ()
    """The nodes whose results a resume uses without running them."""
    is_javascript: bool = False
    """Whether LangGraph.js wrote the thread."""

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to resume: only a new input makes the thread go on."""
        return self.next == () and not self.saved


@dataclass(frozen=True, slots=True)
class ChangeOutcome:
    """What happened to one thread. It holds no value of the store."""

    thread_id: str
    """The thread that was chosen."""
    state: Literal["planned", "done", "ready", "skipped"]
    """`ready`: it needs no change, only to be resumed."""
    mends: tuple[str, ...] = ()
    reason: str = ""
    """Why it was skipped or needs no change, or what could not be mended."""
    is_moved: bool = False
    """Whether it was skipped because an agent changed it."""
    plan: CheckpointPlan | None = None
    """Without its change and without values."""
    resume: ResumePoint | None = None
    """Where to resume a thread that is ready."""
