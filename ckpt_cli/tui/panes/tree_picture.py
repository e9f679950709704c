"""The tree of a thread, as lines."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date

from ckpt_backends.codec.values import Value
from ckpt_backends.protocol import Store
from ckpt_cli.core.lineage import Parentage
from ckpt_cli.core.tree import CallRow, FoldRow, Key, SectionRow, StepDetails, StepRow
from ckpt_cli.core.tree import Row as TreeRow
from ckpt_cli.queries.thread_operations import ThreadOperations
from ckpt_cli.queries.tree import Tree, TreeReader, TreeShape
from ckpt_cli.reading.store import Opening
from ckpt_cli.reading.thread import ThreadReader
from ckpt_cli.render.text import StyledLine, Ui
from ckpt_cli.render.tree import ScreenTree
from ckpt_cli.render.values import summary
from ckpt_cli.tui.tabs.content import Clock, KeptReader

_QUESTION_WIDTH = 200


@dataclass(frozen=True, slots=True)
class TreePicture:
    """The tree of a thread or of one namespace, as lines."""

    tree: Tree
    drawing: ScreenTree
    rows: Sequence[TreeRow | None]
    """The row of each line; None for remarks, dates and gaps."""
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
    parentage: Mapping[str, Parentage]
    """By namespace: also of checkpoints that are not shown."""

    def line_of(self, key: Key | None) -> int | None:
        """Return the line of a checkpoint, or else the one that it is folded into; None if neither
        is shown.
        """
        if key is None:
            return None
        exact = next((at for at, one in enumerate(self.keys) if one == key), None)
        if exact is not None:
            return exact
        return next((at for at, held in enumerate(self.holds) if key in held), None)

    def keys_near(self, lines: range) -> frozenset[Key]:
        """Return the checkpoints of some lines, and of as many before and after them."""
        start = max(lines.start - len(lines), 0)
        return frozenset(filter(None, self.keys[start : lines.stop + len(lines)]))


@dataclass(slots=True)
class TreeView:
    """Which tree is shown, and how."""

    thread_id: str | None = None
    ns: str | None = None
    """Show only this namespace; None for the whole thread."""
    unfold: bool = False
    nest: bool = False
    tree: Tree | None = None
    follows: bool = False
    """Whether the cursor stays on the head."""


@dataclass(frozen=True, slots=True)
class TreeQuestion:
    """Which tree is read, and how it is drawn."""

    thread_id: str
    shape: TreeShape
    width: int


class GrowingTree:
    """Reads the tree of a thread again and again, and only what has changed. Used by one worker."""

    def __init__(self, opening: Opening) -> None:
        self._opening = opening
        self._kept = KeptReader()
        self._trees: TreeReader | None = None
        self._drawn: tuple[tuple[TreeQuestion, date], TreePicture] | None = None

    def read(
        self,
        store: Store,
        asked: TreeQuestion,
        clock: Clock,
        *,
        keep: Key | None,
        seen: Collection[Key],
    ) -> TreePicture:
        """Return the tree of a thread, or of one namespace of it; the same one if it is unchanged.

        Of the steps that a fold would hide, only those in `seen` are read. The checkpoint `keep` is
        not folded. Raises `NotFound`.
        """
        reader = self._kept.of(store, asked.thread_id)
        tree = self._reader(reader).read(asked.shape, keep, seen)
        # A line says the day if it is not today.
        looks = asked, clock.now.astimezone(clock.zone).date()
        before = self._drawn[1] if self._drawn is not None and self._drawn[0] == looks else None
        again = None if before is None else _drawn_again(before, tree)
        if again is None:
            again = draw_tree(tree, clock, asked.width, _parentage(reader, asked.shape.ns))
        self._drawn = looks, again
        return self._drawn[1]

    def read_more(self, store: Store, clock: Clock, seen: Collection[Key]) -> TreePicture | None:
        """Return the last tree with the steps in `seen` read, without a look at what has changed.

        Returns None if no tree was read. Raises `NotFound`.
        """
        if self._drawn is None:
            return None
        (asked, day), before = self._drawn
        reader = self._kept.of(store, asked.thread_id)
        tree = self._reader(reader).more(before.tree, seen)
        again = _drawn_again(before, tree)
        again = again or draw_tree(tree, clock, asked.width, before.parentage)
        self._drawn = (asked, day), again
        return again

    def keep_unfolded(self, store: Store, clock: Clock, keep: Key) -> TreePicture | None:
        """Return the last tree with folds that leave out another checkpoint.

        What else has changed is not read. Returns None if no tree with folds was read. Raises
        `NotFound`.
        """
        if self._drawn is None or self._drawn[0][0].shape.unfold:
            return None
        (asked, day), before = self._drawn
        reader = self._reader(self._kept.of(store, asked.thread_id))
        tree = reader.refold(before.tree, asked.shape, keep)
        self._drawn = (asked, day), draw_tree(tree, clock, asked.width, before.parentage)
        return self._drawn[1]

    def _reader(self, reader: ThreadReader) -> TreeReader:
        """Return what reads the tree of a thread; it keeps what it read while this is the same."""
        operations = ThreadOperations(self._opening, reader.thread_id)
        if self._trees is None or self._trees.reader.thread_id != reader.thread_id:
            self._trees = TreeReader(reader, operations, _say)
        self._trees.reader, self._trees.operations = reader, operations
        return self._trees


def _parentage(reader: ThreadReader, ns: str | None) -> Mapping[str, Parentage]:
    """Return the parents of the checkpoints of a thread, or of one namespace; reads no body."""
    namespaces = reader.namespaces if ns is None else [reader.namespace(ns)]
    return {ns: reader.parentage(ns) for ns in namespaces}


def _say(value: Value) -> str:
    return summary(value, _QUESTION_WIDTH)


def _drawn_again(before: TreePicture, tree: Tree) -> TreePicture | None:
    """Return a picture after more steps of the same tree were read.

    Returns None if all lines must be drawn again.
    """
    if before.tree is tree:
        return before
    if before.tree.plan is not tree.plan:
        return None
    read, known = tree.details, before.tree.details
    changed = {key for key, one in read.items() if one is not known.get(key)}
    lines = list(before.lines)
    before.drawing.show(tree)
    for at, row in enumerate(before.rows):
        if isinstance(row, StepRow) and row.key in changed:
            drawn = before.drawing.line(row) if _is_one_line(known.get(row.key)) else None
            if drawn is None:
                return None
            lines[at] = drawn
    return replace(before, tree=tree, lines=lines)


def _is_one_line(details: StepDetails | None) -> bool:
    """Return whether a step was drawn without remarks below it."""
    return details is None or not (
        details.questions or details.errors or details.problem or details.change
    )


def draw_tree(
    tree: Tree, clock: Clock, width: int, parentage: Mapping[str, Parentage] | None = None
) -> TreePicture:
    """Return a tree as lines."""
    drawing = ScreenTree(tree, Ui(clock.now, clock.zone, width))
    drawn = list(drawing.rows())
    return TreePicture(
        tree,
        drawing,
        [row for row, _ in drawn],
        [text for _, text in drawn],
        [_key(row) for row, _ in drawn],
        [frozenset(_held(row)) for row, _ in drawn],
        {at: row.namespaces[0] for at, (row, _) in enumerate(drawn) if isinstance(row, CallRow)},
        frozenset(at for at, (row, _) in enumerate(drawn) if isinstance(row, FoldRow)),
        next((row.key for row, _ in drawn if isinstance(row, StepRow) and row.head), None),
        parentage or {},
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
