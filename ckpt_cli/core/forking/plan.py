"""The plan of a rollback, fork, undo or repair. It is made and shown before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ckpt_backends.changes.change import Change
from ckpt_backends.model import CheckpointKey
from ckpt_cli.core.diff.state_diff import ChannelChange
from ckpt_cli.core.tasks.resume import UserMetadata
from ckpt_cli.core.tasks.step_nodes import NodePath
from ckpt_cli.core.tasks.tasks import Step

CopyForm = Literal["child", "sibling", "empty", "clone", "removal"]
"""How a checkpoint is added: as a child of the checkpoint it copies, as its sibling, without state,
or in another thread under the same id. `removal`: it is removed.
"""


@dataclass(frozen=True, slots=True)
class ShownCheckpoint:
    """How a checkpoint is shown to the user."""

    ref: str
    """The shortest end of its id that is unique in the thread."""
    step: int | None


@dataclass(frozen=True, slots=True)
class TouchedCheckpoint:
    """A checkpoint that is added or removed."""

    key: CheckpointKey
    parent_checkpoint_id: str | None
    form: CopyForm
    forked_from: str | None
    """The checkpoint that it copies."""


@dataclass(frozen=True, slots=True)
class CheckpointPlan:
    """A change of one thread, and its consequences for the user.

    It can be applied once: afterwards the thread differs from what `change` expects.
    """

    action: Literal["rollback", "fork", "copy", "undo", "redo", "repair"]
    main: TouchedCheckpoint
    """The checkpoint in the root namespace."""
    before: CheckpointKey
    """The head before the change; for a copy to a new thread, the head of the source thread."""
    head: CheckpointKey | None
    """The head after the change; None if the whole thread is removed."""
    why: str
    """The reason for the form."""
    next: tuple[str, ...] | None
    """The nodes that a resume runs; None if the stored data does not tell."""
    change: Change
    saved: tuple[str, ...] = ()
    """The nodes whose results the new head keeps: a resume uses them without running the nodes."""
    again: tuple[str, ...] = ()
    """The nodes and error handlers that ran before and will run again: side effects repeat."""
    asked: tuple[NodePath, ...] = ()
    """The nodes that will ask their questions again, down to the one in a subgraph."""
    changes: Mapping[str, ChannelChange] = field(default_factory=dict)
    """Changes from the state of the old head to the state of the new head."""
    also: tuple[TouchedCheckpoint, ...] = ()
    """The checkpoints in other namespaces."""
    configurable: Mapping[str, str] | None = None
    """The config to resume with."""
    metadata: UserMetadata = field(default_factory=dict)
    """The metadata to resume with: what the new head has from the config of its run."""
    notes: tuple[str, ...] = ()
    """Limits and warnings."""
    is_undoable: bool = True
    """Whether `ckpt undo` can undo it."""
    names: Mapping[str, ShownCheckpoint] = field(default_factory=dict)
    """The checkpoints of the root namespace that the plan mentions, by id."""
    now: Step | None = None
    """The tasks of the old head: failures and open questions."""
    abandoned: int = 0
    """Number of checkpoints that only the abandoned branch contains."""
    later: tuple[str, ...] = ()
    """Nodes that ran on the abandoned branch after the step that is next."""
    waits: tuple[str | None, ...] | None = None
    """The questions that the new head waits for, by interrupt id; None if there are none.

    An id is None if the LangGraph release that wrote the thread accepts an answer without one.
    """
    is_javascript: bool = False
    """Whether LangGraph.js wrote the thread."""
    mends: tuple[str, ...] = ()
    """What a repair mends, one phrase each, without values of the store."""

    @property
    def is_over(self) -> bool:
        """Whether nothing is left to resume: only a new input makes the thread go on."""
        return self.next == () and not self.saved
