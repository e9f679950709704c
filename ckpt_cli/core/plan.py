"""What a command is about to do to a thread: made before anything is written, then carried out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ckpt_backends.change import Change
from ckpt_backends.model import CheckpointKey
from ckpt_cli.core.changes import ChannelChange

Form = Literal["child", "sibling", "empty", "clone", "removal"]
"""How a checkpoint is added: under the one that it copies, beside it, without state, or in another
thread under the same id. Or that it goes."""


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
    """A change of one thread, with all that is worth knowing before it is made.

    It can be carried out once: then the thread is no longer as `change` expects it.
    """

    action: Literal["rollback", "fork", "undo"]
    main: Touched
    """In the root namespace."""
    before: CheckpointKey
    """The head now; of a clone, that of the thread that it comes from."""
    head: CheckpointKey | None
    """The head afterwards; None where the whole thread goes."""
    why: str
    """Why the form is what it is."""
    next: tuple[str, ...] | None
    """The nodes that a resume runs; None where what is stored does not tell."""
    again: tuple[str, ...]
    """The nodes among them that had finished, so that what they did outside happens twice."""
    asked: tuple[str, ...]
    """The nodes whose questions are asked once more."""
    changes: Mapping[str, ChannelChange]
    """From the state of the head now to that of the head afterwards."""
    also: tuple[Touched, ...]
    """In other namespaces."""
    configurable: Mapping[str, str] | None
    """What to resume with."""
    change: Change
    notes: tuple[str, ...] = field(default=())
    """What cannot be had, or should be known."""
    is_undoable: bool = True
    """Whether `ckpt undo` can take it back."""
