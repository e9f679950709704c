"""The plan of a rollback, fork or undo: made and shown before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ckpt_backends.change import Change
from ckpt_backends.model import CheckpointKey
from ckpt_cli.core.changes import ChannelChange
from ckpt_cli.core.step_nodes import NodePath
from ckpt_cli.core.tasks import Step

Form = Literal["child", "sibling", "empty", "clone", "removal"]
"""How a checkpoint is added: as a child of the one that it copies, as its sibling, without state,
or in another thread under the same id. `removal`: it is removed."""


@dataclass(frozen=True, slots=True)
class Named:
    """How a checkpoint is shown to a person."""

    ref: str
    """The shortest end of its id that names it alone."""
    step: int | None


@dataclass(frozen=True, slots=True)
class Touched:
    """A checkpoint that is added or removed."""

    key: CheckpointKey
    parent_checkpoint_id: str | None
    form: Form
    forked_from: str | None
    """The checkpoint that it is a copy of."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A change of one thread, and what it means for the person who asks for it.

    It can be carried out once: afterwards the thread differs from what `change` expects.
    """

    action: Literal["rollback", "fork", "undo"]
    main: Touched
    """In the root namespace."""
    before: CheckpointKey
    """The head before the change; of a clone, the head of the source thread."""
    head: CheckpointKey | None
    """The head afterwards; None where the whole thread is removed."""
    why: str
    """The reason for the form."""
    next: tuple[str, ...] | None
    """The nodes that a resume runs; None where what is stored does not tell."""
    again: tuple[str, ...]
    """The nodes among them that had finished: their side effects repeat."""
    asked: tuple[NodePath, ...]
    """The nodes that will ask their questions again; of a subgraph, the one that does."""
    changes: Mapping[str, ChannelChange]
    """From the state of the head before to the state of the head afterwards."""
    also: tuple[Touched, ...]
    """In other namespaces."""
    configurable: Mapping[str, str] | None
    """What to resume with."""
    change: Change
    notes: tuple[str, ...] = field(default=())
    """Limits and warnings."""
    is_undoable: bool = True
    """Whether `ckpt undo` can undo it."""
    names: Mapping[str, Named] = field(default_factory=dict)
    """By id, each checkpoint of the root namespace that the plan mentions."""
    now: Step | None = None
    """The tasks of the head before the change: what is wrong, what waits."""
    abandoned: int = 0
    """The number of checkpoints that only the abandoned branch has."""
    later: tuple[str, ...] = ()
    """The nodes that ran on the abandoned branch after the step that is next."""
    waits: tuple[str | None, ...] | None = None
    """The questions that the head afterwards waits for, by interrupt id; None if there are none.

    An id is None where the release that wrote the thread takes an answer without one.
    """
    is_javascript: bool = False
    """Whether LangGraph.js wrote the thread."""
