"""The tree of a thread, as lines."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from ckpt_backends.protocol import Store
from ckpt_cli.core.tree.rows import CallRow, FoldRow, Key, SectionRow, StepRow
from ckpt_cli.core.tree.rows import Row as TreeRow
from ckpt_cli.queries.thread_operations import ThreadOperations
from ckpt_cli.queries.tree import Tree, read_tree
from ckpt_cli.render.terminal.styled_text import StyledLine
from ckpt_cli.render.tree.lines import drawn_rows
from ckpt_cli.render.values.one_line import summary
from ckpt_cli.threads.opening import Opening
from ckpt_cli.threads.thread import ThreadReader
from ckpt_cli.tui.content.checkpoint import Clock

_QUESTION_WIDTH = 200


@dataclass(frozen=True, slots=True)
class TreePicture:
    """The tree of a thread or of one namespace, as lines."""

    tree: Tree
    lines: Sequence[StyledLine]
    keys: Sequence[Key | None]
    """The checkpoint of each line; None if the cursor does not stop there."""
    holds: Sequence[frozenset[Key]]
    """The checkpoints that each line stands for: several on a line of folded steps or of a call."""
    inner: Mapping[int, str]
    """The namespace of each line that is a subgraph call."""
    folds: frozenset[int]
    """Lines of folded steps."""
    head: Key | None
    """The head of the first tree; None if it is not shown."""

    def line_of(self, key: Key | None) -> int | None:
        """Return the line of a checkpoint, or the line that it is folded into, if there is one."""
        if key is None:
            return None
        own = next((at for at, one in enumerate(self.keys) if one == key), None)
        if own is not None:
            return own
        return next((at for at, some in enumerate(self.holds) if key in some), None)


def read_thread_tree(
    store: Store,
    opening: Opening,
    thread_id: str,
    ns: str | None,
    *,
    unfold: bool,
    nest: bool,
    keep: Key | None,
) -> Tree:
    """Return the tree of a thread, or of one namespace of it. Raises `NotFound`."""
    return read_tree(
        ThreadReader(store, thread_id),
        ns,
        lambda value: summary(value, _QUESTION_WIDTH),
        ThreadOperations(opening, thread_id),
        nest=nest,
        unfold=unfold,
        keep=keep,
    )


def draw_tree(tree: Tree, clock: Clock, width: int) -> TreePicture:
    """Return a tree as lines."""
    drawn = list(
        drawn_rows(tree.plan, tree.details, tree.refs, zone=clock.zone, now=clock.now, width=width)
    )
    return TreePicture(
        tree,
        [text for _, text in drawn],
        [_key(row) for row, _ in drawn],
        [frozenset(_held(row)) for row, _ in drawn],
        {at: row.namespaces[0] for at, (row, _) in enumerate(drawn) if isinstance(row, CallRow)},
        frozenset(at for at, (row, _) in enumerate(drawn) if isinstance(row, FoldRow)),
        next((row.key for row, _ in drawn if isinstance(row, StepRow) and row.head), None),
    )


def _key(row: TreeRow | None) -> Key | None:
    match row:
        case StepRow():
            return row.key
        case FoldRow():
            return row.ns, row.ids[-1]
        case CallRow():
            return row.heads[0]
        case SectionRow() | None:
            return None


def _held(row: TreeRow | None) -> Iterable[Key]:
    match row:
        case StepRow():
            return (row.key,)
        case FoldRow():
            return ((row.ns, one) for one in row.ids)
        case CallRow():
            # If the tree of the call follows, its own lines stand for its checkpoints.
            return () if row.nested else row.keys
        case SectionRow() | None:
            return ()
