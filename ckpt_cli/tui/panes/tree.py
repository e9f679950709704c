"""The pane with the tree of a thread."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from functools import partial
from typing import TYPE_CHECKING

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual import work
from textual.app import ComposeResult
from textual.events import Click
from textual.message import Message
from textual.reactive import var
from textual.strip import Strip
from textual.widget import Widget

from ckpt_backends.codec.values import Value
from ckpt_backends.errors import CkptError
from ckpt_backends.model import CheckpointKey, Thread
from ckpt_backends.protocol import Store
from ckpt_cli.core.lineage import Parentage
from ckpt_cli.core.tasks import node_path, path_text
from ckpt_cli.core.timeline import Scrubber, ScrubberCell, Sign, Stretch
from ckpt_cli.core.tree import CallRow, FoldRow, Key, SectionRow, StepDetails, StepRow
from ckpt_cli.core.tree import Row as TreeRow
from ckpt_cli.queries.thread_operations import ThreadOperations
from ckpt_cli.queries.tree import Tree, TreeReader, TreeShape
from ckpt_cli.reading.store import Opening
from ckpt_cli.reading.thread import ThreadReader
from ckpt_cli.render.text import Span, Style, StyledLine, Ui, line, safe_text
from ckpt_cli.render.tree import ScreenTree
from ckpt_cli.render.values import counted, summary
from ckpt_cli.tui.context import ScreenContext
from ckpt_cli.tui.panes.rows import RowList, SearchableLines, SearchPane
from ckpt_cli.tui.reading import SOON, Changed, Delays, LoadedObjects, ask, error_lines
from ckpt_cli.tui.styles import STYLES, title
from ckpt_cli.tui.tabs.content import KeptReader, name_in_tree

if TYPE_CHECKING:
    from ckpt_cli.tui.tabs.thread import CheckedThread

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
        self, store: Store, asked: TreeQuestion, ui: Ui, *, keep: Key | None, seen: Collection[Key]
    ) -> TreePicture:
        """Return the tree of a thread, or of one namespace of it; the same one if it is unchanged.

        Of the steps that a fold would hide, only those in `seen` are read. The checkpoint `keep` is
        not folded. Raises `NotFound`.
        """
        reader = self._kept.of(store, asked.thread_id)
        tree = self._reader(reader).read(asked.shape, keep, seen)
        # A line says the day if it is not today.
        looks = asked, ui.now.astimezone(ui.zone).date()
        before = self._drawn[1] if self._drawn is not None and self._drawn[0] == looks else None
        again = None if before is None else _drawn_again(before, tree)
        again = again or draw_tree(tree, ui, _parentage(reader, asked.shape.ns))
        self._drawn = looks, again
        return again

    def read_more(self, store: Store, ui: Ui, seen: Collection[Key]) -> TreePicture | None:
        """Return the last tree with the steps in `seen` read, without a look at what has changed.

        Returns None if no tree was read. Raises `NotFound`.
        """
        return self._changed(store, ui, lambda trees, before, _: trees.more(before.tree, seen))

    def keep_unfolded(self, store: Store, ui: Ui, keep: Key) -> TreePicture | None:
        """Return the last tree with folds that leave out another checkpoint.

        What else has changed is not read. Returns None if no tree was read. Raises `NotFound`.
        """
        return self._changed(
            store, ui, lambda trees, before, shape: trees.refold(before.tree, shape, keep)
        )

    def _changed(
        self, store: Store, ui: Ui, change: Callable[[TreeReader, TreePicture, TreeShape], Tree]
    ) -> TreePicture | None:
        if self._drawn is None:
            return None
        looks, before = self._drawn
        asked, _ = looks
        tree = change(self._reader(self._kept.of(store, asked.thread_id)), before, asked.shape)
        again = _drawn_again(before, tree)
        again = again or draw_tree(tree, ui._replace(width=asked.width), before.parentage)
        self._drawn = looks, again
        return again

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


def draw_tree(tree: Tree, ui: Ui, parentage: Mapping[str, Parentage] | None = None) -> TreePicture:
    """Return a tree as lines."""
    drawing = ScreenTree(tree, ui)
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


_SIGNS: Mapping[Sign, tuple[str, Style]] = {
    "error": ("✗", "error"),
    "question": ("?", "question"),
    "answered": ("✓", "plain"),
    "fork": ("┬", "plain"),
    "edit": ("◇", "plain"),
    "input": ("◆", "bold"),
    "tip": ("○", "plain"),
    "step": ("•", "dim"),
}
_STRETCHES: Mapping[Stretch, str] = {"run": "─", "long": "━", "human": "▒", "idle": "·"}
_HERE = "┃"
"""At the cursor, if nothing else is told there."""
_CURSOR = RichStyle(reverse=True, bold=True)


class ScrubberLine(Widget):
    """One line with all checkpoints of a thread; a click goes to the nearest one."""

    DEFAULT_CSS = """
    ScrubberLine { height: 1; }
    """

    class Chosen(Message):
        """A checkpoint was clicked."""

        def __init__(self, key: Key) -> None:
            super().__init__()
            self.key = key

    def __init__(self) -> None:
        super().__init__(id="scrubber")
        self._scrubber = Scrubber(())
        self._key: Key | None = None

    def show_place(self, scrubber: Scrubber, key: Key | None) -> None:
        """Show a thread, and where the cursor is in it."""
        if scrubber is not self._scrubber or key != self._key:
            self._scrubber, self._key = scrubber, key
            self.refresh()

    def render_line(self, y: int) -> Strip:
        width, base = self.size.width, self.rich_style
        cells = self._scrubber.cells(width) if not y else ()
        if not cells:
            return Strip.blank(width, base)
        here = self._scrubber.column(self._key, width)
        segments = []
        for column, cell in enumerate(cells):
            text, style = _span(cell, is_here=column == here)
            cursor = _CURSOR if column == here else RichStyle()
            segments.append(Segment(text, base + STYLES[style] + cursor))
        return Strip(segments, width)

    def on_click(self, event: Click) -> None:
        cells = self._scrubber.cells(self.size.width)
        if 0 <= event.x < len(cells):
            event.stop()
            self.post_message(self.Chosen(cells[event.x].key))


def _span(cell: ScrubberCell, *, is_here: bool) -> Span:
    if is_here and cell.sign in {None, "step"}:
        return _HERE, "plain"
    if cell.sign is not None:
        return _SIGNS[cell.sign]
    return _STRETCHES[cell.stretch], "plain" if cell.stretch == "long" else "dim"


_REST = 0.15
"""Seconds after the last step when the fold that hides it is opened."""
_AROUND = 2
"""Lines above the tree: the title and the scrubber."""
_GUTTER = 2
"""Columns before a row: one for the mark, one for findings."""


def way_here(thread_id: str | None, ns: str | None) -> str:
    """Return what a tree is of: `Tree`, or the calls that lead into a subgraph."""
    if not ns or thread_id is None:
        return "Tree"
    return f"{safe_text(path_text((thread_id, *node_path(ns, ()))))} (Esc leaves)"


class TreeRows(SearchableLines):
    """A drawn tree, with the cursor on its checkpoints."""

    def __init__(self) -> None:
        super().__init__(id="tree-rows")
        self.picture: TreePicture | None = None
        self.marked: Key | None = None
        """The checkpoint of this thread that is marked as the base of diffs."""
        self.found: frozenset[Key] = frozenset()
        """The checkpoints of this thread with findings."""
        self._held: Key | None = None
        """The checkpoint that the cursor stands for on a line of several; None for the line's own.
        """
        self._is_unfolding = False
        """Whether that checkpoint is to have a line of its own."""

    def is_stop(self, index: int) -> bool:
        return self.picture is not None and self.picture.keys[index] is not None

    def line_at(self, index: int, width: int) -> StyledLine:
        shown = super().line_at(index, width)
        if self.picture is None:
            return shown
        is_marked = self.marked is not None and (
            self.picture.keys[index] == self.marked or self.marked in self.picture.holds[index]
        )
        is_found = not self.found.isdisjoint(self.picture.holds[index])
        signs: tuple[Span, ...] = (
            ("▌" if is_marked else " ", "head"),
            ("!" if is_found else " ", "error"),
        )
        return StyledLine((*signs, *shown.spans))

    @property
    def room(self) -> int:
        """The columns for a row of the tree, beside its signs."""
        return max(self.width - _GUTTER, 0)

    def show_found(self, found: frozenset[Key]) -> None:
        """Mark the checkpoints with findings."""
        if found != self.found:
            self.found = found
            self.refresh()

    @property
    def key(self) -> Key | None:
        """The checkpoint under the cursor; None if there is none."""
        if self.picture is None or self.cursor >= len(self.picture.keys):
            return None
        return self._held or self.picture.keys[self.cursor]

    @property
    def unfolded(self) -> Key | None:
        """The checkpoint under the cursor; None if it stays folded, or if there is none."""
        picture = self.picture
        is_folded = picture is not None and self.cursor in picture.folds and not self._is_unfolding
        return None if is_folded else self.key

    def watch_cursor(self, before: int, after: int) -> None:
        self._held, self._is_unfolding = None, False
        super().watch_cursor(before, after)

    def show_more(self, picture: TreePicture) -> None:
        """Show the same tree after more of its steps were read."""
        self.picture, self.lines = picture, picture.lines
        self.refresh()

    def show_picture(self, picture: TreePicture, key: Key | None) -> None:
        """Show a tree with the cursor on a checkpoint, or else on the last line."""
        is_unfolding = self._is_unfolding and self._held == key
        self.picture = picture
        at = picture.line_of(key)
        self.show_lines(picture.lines, len(picture.lines) - 1 if at is None else at)
        # A fold grows at its end: the cursor keeps standing for the same checkpoint.
        self._held = key if at in picture.folds else None
        self._is_unfolding = is_unfolding and self._held is not None

    def stand_on(self, key: Key, line: int) -> None:
        """Move the cursor to the line of a checkpoint, which may stand for several."""
        self.cursor = line
        is_folded = self.picture is not None and line in self.picture.folds
        self._held, self._is_unfolding = (key, True) if is_folded else (None, False)
        self.refresh_line(line)
        self.call_next(self._say_moved)


class TreePane(SearchPane):
    """The tree of one thread, below a line with all of it.

    A read of the same tree that is running goes on, and only the rows that are seen are read.
    """

    rows: TreeRows
    marked: var[CheckpointKey | None] = var(None, init=False)
    """The checkpoint that is marked as the base of diffs."""
    checked: var[CheckedThread | None] = var(None, init=False)
    """What is known of the findings of the thread."""

    class Moved(Message):
        """Another checkpoint may be under the cursor."""

    class Drawn(Message):
        """The tree was read."""

        def __init__(self, *, is_new: bool) -> None:
            """`is_new` tells whether it, or the checkpoint under the cursor, has changed."""
            super().__init__()
            self.is_new = is_new

    class Emptied(Message):
        """There is no tree; the pane says why."""

    class Entered(Message):
        """A checkpoint was chosen."""

    def __init__(self, context: ScreenContext) -> None:
        super().__init__(TreeRows(), id="tree")
        self.context = context
        self.delays = Delays(self)
        self.scrubber = ScrubberLine()
        self.heading = "Tree"
        self.thread: Thread | None = None
        """The thread that is shown, as it was listed."""
        self.view = TreeView()
        self.outer: list[tuple[str | None, Key | None]] = []
        """The outer namespaces, each with the checkpoint that called the next one."""
        self.goal: Key | None = None
        """The checkpoint where the cursor goes when its tree is loaded."""
        self.took = 0.0
        """Seconds that the last tree took."""
        self._is_asked_again = False
        """Whether the tree is read again when the running read ends."""
        self._asked: TreeQuestion | None = None
        """The tree that is being read."""
        self._growing = GrowingTree(context.opening)
        self._loaded = LoadedObjects()

    def compose(self) -> ComposeResult:
        yield self.scrubber
        yield from super().compose()

    def on_mount(self) -> None:
        title(self, self.heading)
        self.watch(self.rows, "scroll_y", self._load_seen_rows, init=False)

    @property
    def needed(self) -> int:
        """The lines of the tree, and of what is around them."""
        return self.rows.count() + _AROUND + self.search.display

    # What is shown

    @property
    def place(self) -> CheckpointKey | None:
        """The checkpoint under the cursor; None if there is none."""
        key = self.rows.key
        if self.view.thread_id is None or self.view.tree is None or key is None:
            return None
        return CheckpointKey(self.view.thread_id, *key)

    @property
    def refs(self) -> Mapping[str, str]:
        """The short refs of the tree, by checkpoint id."""
        return {} if self.view.tree is None else self.view.tree.refs

    def parentage(self, ns: str) -> Parentage | None:
        """Return the parents of the checkpoints of a namespace; None if there is no tree."""
        picture = self.rows.picture
        return None if picture is None else picture.parentage.get(ns, Parentage({}))

    @property
    def is_loading(self) -> bool:
        """Whether a tree is being read, or will be soon."""
        return self._asked is not None or self.delays.is_waiting

    def name_of(self, place: CheckpointKey) -> str:
        """Return the name of a checkpoint of the tree: `step 7 · book · 6a3c`."""
        if self.view.tree is None:
            return safe_text(place.checkpoint_id)
        return name_in_tree(self.view.tree, (place.checkpoint_ns, place.checkpoint_id))

    def show_thread(self, thread: Thread | None, nothing: str = "") -> None:
        """Show the tree of a thread; of None, say `nothing`."""
        self.thread, view = thread, self.view
        if thread is None:
            self.view = TreeView(unfold=view.unfold, nest=view.nest, follows=view.follows)
            self._asked = None
            self.workers.cancel_group(self, "tree")
            self._empty([line((nothing, "dim"))] if nothing else [])
            return
        if view.thread_id != thread.thread_id:
            self.outer.clear()
            view.thread_id, view.ns, view.tree = thread.thread_id, None, None
        self.load()

    def go_to(self, thread: Thread, place: CheckpointKey) -> None:
        """Go to a checkpoint of a thread."""
        self.stop_following()
        self.thread, view, ns = thread, self.view, place.checkpoint_ns or None
        # Show the tree of the call, unless it is already shown.
        inside = ns is not None and view.ns != ns and not view.nest
        if view.thread_id != place.thread_id:
            self.outer.clear()
            view.ns = None
        if inside:
            self.outer.append((None, None))
            view.ns = ns
        elif ns is None and view.ns is not None:
            self.outer.clear()
            view.ns = None
        view.thread_id, view.tree = place.thread_id, None
        self.goal = place.checkpoint_ns, place.checkpoint_id
        self.load()

    def step_to(self, key: Key) -> None:
        """Show a checkpoint of this tree; a fold that hides it is opened there."""
        picture = self.rows.picture
        at = None if picture is None else picture.line_of(key)
        if picture is None or at is None:
            return
        self.stop_following()
        if at in picture.inner and picture.keys[at] != key:
            self._enter(key[0], key)
            return
        self.rows.stand_on(key, at)
        if at in picture.folds:
            # The tree would slow down the steps that follow at once.
            self.delays.after("fold", _REST, self._open_fold)

    def leave(self) -> bool:
        """Leave a subgraph; returns False if none is shown alone."""
        if not self.outer:
            return False
        self.view.ns, self.goal = self.outer.pop()
        self.view.tree = None
        self.load()
        return True

    def _enter(self, ns: str, goal: Key | None) -> None:
        self.outer.append((self.view.ns, self.rows.key))
        self.view.ns, self.view.tree, self.goal = ns, None, goal
        self.load()

    def follow(self) -> None:
        """Keep the cursor on the head, or no longer."""
        self.view.follows = not self.view.follows
        self.post_message(Changed())
        self.load()

    def stop_following(self) -> None:
        """Let the cursor stay where it goes now, also when the thread grows."""
        if self.view.follows:
            self.view.follows = False
            self.post_message(Changed())

    def unfold(self) -> None:
        """Unfold long runs of steps, or fold them again."""
        self.view.unfold = not self.view.unfold
        self.load()

    def nest(self) -> None:
        """Show subgraphs inside the tree, or hide them again."""
        self.view.nest = not self.view.nest
        self.load()

    # Reading

    def load(self) -> None:
        """Read and draw the tree; a running read of the same tree goes on, and is repeated."""
        if self.thread is None:
            return
        view = self.view
        # A pane that was never shown has no width yet; the checkpoint may be shown before it.
        width = self.rows.room or self.screen.size.width
        shape = TreeShape(view.ns, view.nest, view.unfold)
        asked = TreeQuestion(self.thread.thread_id, shape, width)
        if view.tree is None:
            title(self, "Tree: loading")
        self._is_asked_again = asked == self._asked
        if width and not self._is_asked_again:
            self._asked = asked
            self._load(asked)

    @work(exclusive=True, group="tree")
    async def _load(self, asked: TreeQuestion) -> None:
        began = time.monotonic()
        # The requested checkpoint, or the one under the cursor, is not folded.
        keep = self.goal or (self.rows.unfolded if self.view.tree is not None else None)
        question = partial(
            self._growing.read,
            asked=asked,
            ui=self.context.ui(self.rows.room),
            keep=keep,
            seen=self._seen_keys,
        )
        picture = await ask(self, self.context.tree, question, self._fail)
        self._asked, self.took = None, time.monotonic() - began
        if picture is not None:
            self._loaded.loaded(picture.tree.plan.checkpoints + len(picture.lines))
            self._draw(picture)
        if self._is_asked_again:
            self.load()

    @work(exclusive=True, group="tree")
    async def _load_more(self, question: Callable[[Store], TreePicture | None]) -> None:
        """Read more of the tree that is shown."""
        picture = await ask(self, self.context.tree, question, self._fail)
        if picture is not None:
            self._draw(picture)

    @property
    def _shown(self) -> TreePicture | None:
        """The picture of the tree, if no other one is being read."""
        picture = self.rows.picture
        is_shown = picture is not None and picture.tree is self.view.tree
        return picture if is_shown and self._asked is None else None

    @property
    def _seen_keys(self) -> frozenset[Key]:
        """The checkpoints on the screen and near it."""
        picture = self.rows.picture
        is_shown = picture is not None and picture.tree is self.view.tree
        return picture.keys_near(self.rows.seen) if picture and is_shown else frozenset()

    def _load_seen_rows(self) -> None:
        """Read the rows on the screen that were not read yet."""
        tree = self.view.tree
        if tree is not None and not tree.unread.isdisjoint(self._seen_keys):
            self.delays.after("rows", SOON, self._load_rows)

    def _load_rows(self) -> None:
        # If the tree is being read, its rows are read when that ends.
        if self._shown is not None:
            more = self._growing.read_more
            self._load_more(partial(more, ui=self.context.ui(self.rows.room), seen=self._seen_keys))

    def _open_fold(self) -> None:
        """Show the checkpoint under the cursor outside of its fold."""
        key, picture = self.rows.unfolded, self._shown
        if picture is None:
            # The tree is being read: it is read again then.
            self.load()
        elif key is not None and self.rows.cursor in picture.folds:
            opened = self._growing.keep_unfolded
            self._load_more(partial(opened, ui=self.context.ui(self.rows.room), keep=key))

    # Drawing

    def _draw(self, picture: TreePicture) -> None:
        """Show a tree that was read."""
        tree = self.view.tree = picture.tree
        facts = counted(tree.plan.checkpoints, "checkpoint")
        if tree.plan.branches > 1:
            facts += f", {counted(tree.plan.branches, 'branch')}"
        if tree.plan.calls:
            facts += f", {counted(tree.plan.calls, 'call')}"
        if not self.view.ns:
            # The status is that of the thread: a call in it may be done.
            facts += f", {tree.status}"
        self.heading = f"{way_here(self.view.thread_id, self.view.ns)}: {facts}"
        key = self.goal or self.rows.key
        if not self._is_asked_again:
            self.goal = None
        if self.view.follows and not self.outer:
            key = picture.head or key
        self.watch_marked()
        self.watch_checked()
        shown = self.rows.picture
        is_more = shown is not None and shown.keys is picture.keys
        is_same = is_more or self.rows.lines == picture.lines
        if is_same and self.rows.key == key:
            self.rows.show_more(picture)
            # What could not be read before may be readable now.
            self.post_message(self.Drawn(is_new=False))
        else:
            self.rows.show_picture(picture, key)
            self.post_message(self.Drawn(is_new=True))
        self._load_seen_rows()

    def _fail(self, error: CkptError) -> None:
        self.view.tree = None
        self._empty(error_lines(error, self.rows.width))

    def _empty(self, said: Sequence[StyledLine]) -> None:
        """Show lines with the reason in place of the tree."""
        title(self, "Tree")
        self.rows.picture = None
        self.rows.show_lines(said)
        self.post_message(self.Emptied())

    def watch_marked(self) -> None:
        """Mark the base of diffs, if it is in this thread."""
        base = self.marked
        is_here = base is not None and base.thread_id == self.view.thread_id
        key = (base.checkpoint_ns, base.checkpoint_id) if base is not None and is_here else None
        if key != self.rows.marked:
            self.rows.marked = key
            self.rows.refresh()

    def watch_checked(self) -> None:
        """Mark the checkpoints with findings, and say how many findings there are."""
        found = self.checked
        if self.view.tree is None or (found and found.thread.thread_id != self.view.thread_id):
            found = None
        self.rows.show_found(frozenset() if found is None else found.keys)
        if self.view.tree is not None:
            number = 0 if found is None else len(found.report.findings)
            title(self, self.heading + (f", {counted(number, 'finding')}" if number else ""))

    # Events

    def on_row_list_moved(self, event: RowList.Moved) -> None:
        """Follow the cursor."""
        event.stop()
        picture = self.rows.picture
        scrubber = Scrubber(()) if picture is None else picture.tree.scrubber
        self.scrubber.show_place(scrubber, self.rows.key)
        self.post_message(self.Moved())

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        """Enter a subgraph call, unfold steps, or say that the checkpoint was chosen."""
        event.stop()
        picture, at = self.rows.picture, self.rows.cursor
        if picture is None:
            return
        if at in picture.inner and not self.view.nest:
            self._enter(picture.inner[at], None)
        elif at in picture.folds:
            self.unfold()
        else:
            self.post_message(self.Entered())

    def on_row_list_reshaped(self, event: RowList.Reshaped) -> None:
        event.stop()
        self.delays.after("draw", SOON, self.load)

    def on_scrubber_line_chosen(self, event: ScrubberLine.Chosen) -> None:
        """Go to the checkpoint that was clicked."""
        event.stop()
        picture = self.rows.picture
        at = None if picture is None else picture.line_of(event.key)
        self.rows.focus()
        self.stop_following()
        if picture is None or at is None or at in picture.folds:
            self.goal = event.key
            self.load()
        else:
            self.rows.cursor = at
