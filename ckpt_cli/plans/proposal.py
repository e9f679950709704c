"""What is to be done with a thread, and what became of it: every change of a store is one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from ckpt_backends.archive import Bundle
from ckpt_backends.changes import Change
from ckpt_backends.errors import CkptError, NotFound, StoreChanged
from ckpt_backends.model import CheckpointKey
from ckpt_cli.core.forking import CheckpointPlan, DamagedValue
from ckpt_cli.core.resume import UserMetadata
from ckpt_cli.operations.log import AppliedChange, OperationStep

MOVED = "an agent changed it meanwhile"


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
class Proposal:
    """What is to be done with one thread, or with items of long-term memory.

    Once it is carried out, or is not, it tells what became of it.
    """

    thread_id: str | None
    """The thread that was chosen; a fork to a new thread changes another one. None for items."""
    step: OperationStep | None = None
    """What is carried out; None for nothing. What takes a new change back is computed then."""
    state: Literal["planned", "done", "ready", "unneeded", "skipped"] = "planned"
    """`ready`: it needs no change, only to be resumed; `unneeded`: it needs nothing at all."""
    plan: CheckpointPlan | None = None
    """None if no checkpoint is added."""
    heads: Mapping[str, str] = field(default_factory=dict)
    """The heads of the chosen thread from which it was planned, by namespace."""
    mends: tuple[str, ...] = ()
    """What a repair mends, one phrase each, without values of the store."""
    remark: str = ""
    """Why it needs no change, or what cannot be mended."""
    resume: ResumePoint | None = None
    """Where to resume a thread that is ready."""
    error: CkptError | None = None
    """Why it was skipped."""
    takes_back: OperationStep | None = None
    """The recorded step that is undone, or redone."""
    bundle: Bundle | None = None
    """The archive that is restored."""
    values: tuple[DamagedValue, ...] = ()
    """The values that it removes or stores, if it changes nothing else."""

    @classmethod
    def of(
        cls, plan: CheckpointPlan, *, step: OperationStep | None = None, remark: str = ""
    ) -> Proposal:
        """Return the change of a plan; `step` is what is recorded, if that is known."""
        step = step or new_step(plan.change)
        heads = plan.change.heads
        return cls(plan.before.thread_id, step, "planned", plan, heads, plan.mends, remark)

    @property
    def change(self) -> Change | None:
        """The change that is applied, if it is one."""
        done = None if self.step is None else self.step.done
        return done.change if isinstance(done, AppliedChange) else None

    @property
    def reason(self) -> str:
        """Why it was skipped or needs no change, or what could not be mended."""
        if self.error is None:
            return self.remark
        return MOVED if isinstance(self.error, StoreChanged) else self.error.message

    @property
    def is_moved(self) -> bool:
        """Whether it was skipped because an agent changed the thread."""
        return isinstance(self.error, StoreChanged | NotFound)

    @property
    def seen(self) -> object:
        """What must still be so when it is carried out; None if it is not."""
        is_left = self.state in {"skipped", "unneeded"}
        return self.resume or (None if is_left else dict(self.heads))

    @property
    def number(self) -> int:
        """The number of threads, or of items of long-term memory, that it changes."""
        step = self.takes_back or self.step
        return 1 if step is None else step.number

    def skipped(self, error: CkptError) -> Proposal:
        """Return it as one that is not carried out."""
        return Proposal(self.thread_id, state="skipped", error=error, takes_back=self.takes_back)

    def without_values(self) -> Proposal:
        """Return it without what it changes: of many threads, that may be large."""
        plan = self.plan
        if plan is not None:
            plan = replace(plan, change=Change(plan.change.thread_id, {}), changes={}, now=None)
        return replace(self, step=None, plan=plan)


def new_step(change: Change) -> OperationStep:
    """Return the step of a change; what takes it back is computed when it is carried out."""
    return OperationStep(change.thread_id, AppliedChange(change), None)
