"""The rows of a drawn tree, and what is known about the checkpoints in it."""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from collections.abc import Mapping
from datetime import datetime
from typing import Literal, NamedTuple

from ckpt_cli.core.step_changes import ShortChange

Key = tuple[str, str]
"""Namespace and id of a checkpoint."""
Trouble = Literal["parent gone", "loop"]
"""Why a row without a drawn parent is not the first checkpoint of the thread."""


class Skeleton(NamedTuple):
    """The facts about a checkpoint that decide its place. Empty defaults mean *not read*."""

    checkpoint_ns: str
    checkpoint_id: str
    parent_checkpoint_id: str | None
    step: int | None = None
    source: str | None = None
    """None is drawn as `loop`; `undecided` lists the checkpoints for which that may be wrong."""
    ran: tuple[str, ...] | None = None
    """Nodes that ran to make it; they are counted if it is folded."""
    tasks: tuple[str, ...] = ()
    """Known ids of the tasks of its next step; calls `node:task` are drawn below it."""
    marked: bool = False
    """It has a question, an answer, an error or something else that must not be folded."""
    forked_from: str | None = None
    place: int = 0
    """Its position in its namespace, if ids do not tell the order."""
    parents: Mapping[str, str] = {}
    """`metadata.parents`: the calling checkpoint in each outer namespace."""

    @property
    def key(self) -> Key:
        return self.checkpoint_ns, self.checkpoint_id

    @property
    def order(self) -> tuple[int, str]:
        """Sort key: oldest first."""
        return self.place, self.checkpoint_id


class StepDetails(NamedTuple):
    """The details of one checkpoint, read only for those in `Plan.shown`."""

    at: datetime | None = None
    step: int | None = None
    source: str | None = None
    ran: tuple[str, ...] = ()
    """Nodes that ran to make it, one entry per task."""
    writes: int = 0
    """Number of writes stored on it."""
    next: tuple[str, ...] | None = None
    """None if not known."""
    resumes: tuple[str, ...] | None = None
    """What a resume runs first; None if it is not the root's head, or if that is not known."""
    questions: tuple[str, ...] = ()
    """Open questions, one line each."""
    answered: int = 0
    errors: tuple[str, ...] = ()
    forked_from: str | None = None
    change: str = ""
    """The operation of `ckpt` that added it, with its reason."""
    problem: str | None = None
    changes: tuple[ShortChange, ...] = ()
    """What its step changed in the state, as far as known."""
    tokens: int = 0
    """Tokens that the messages of its step tell."""


class StepRow(NamedTuple):
    """One checkpoint."""

    ns: str
    id: str
    step: int | None
    lanes: str
    """`|` or blank for each column to the left of the row's own; only the innermost are kept."""
    depth: int
    """Number of lanes, including those that are not kept."""
    branch: bool = False
    """It starts a side branch at the fork in its last lane."""
    first: bool = False
    """It has no drawn parent."""
    last: bool = False
    """It is a tip: nothing follows in its column."""
    head: bool = False
    trouble: Trouble | None = None
    parent: str | None = None
    """The checkpoint that it is drawn below, or its missing parent."""

    @property
    def key(self) -> Key:
        return self.ns, self.id


class FoldRow(NamedTuple):
    """A run of plain steps of one branch, oldest first."""

    ns: str
    ids: tuple[str, ...]
    parent: str
    lanes: str
    depth: int
    ran: tuple[tuple[str, int], ...]
    """Nodes with the number of their runs, as far as known."""
    all_known: bool


class CallRow(NamedTuple):
    """A subgraph call, or several similar ones, below the step that made it."""

    caller: Key
    namespaces: tuple[str, ...]
    keys: tuple[Key, ...]
    """All their checkpoints, including those of calls that they made themselves."""
    heads: tuple[Key, ...]
    """The newest checkpoint of each call."""
    first: str
    last: str
    """Smallest and greatest id in `keys`."""
    branches: int
    nested: bool
    """The tree of the call follows, two columns further to the right."""
    lanes: str
    depth: int


class SectionRow(NamedTuple):
    """Start of the tree of another namespace."""

    ns: str
    checkpoints: int
    call: bool
    """True for a subgraph call with a step that is not stored; False for a stateful namespace."""


Row = StepRow | FoldRow | CallRow | SectionRow


class TreeLayout(NamedTuple):
    """Everything that is drawn, in order."""

    rows: tuple[Row, ...]
    shown: tuple[Key, ...]
    """The checkpoints that need details."""
    checkpoints: int
    branches: int
    """Number of tips in the first tree."""
    calls: int
    folded: int
    """Number of folded steps."""
    ns: str = ""
    """The namespace of the first tree: the root, or the only namespace of the thread."""
