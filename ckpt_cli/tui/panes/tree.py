"""The pane with the tree of a thread."""

from __future__ import annotations

from textual.app import ComposeResult

from ckpt_cli.core.tasks.step_nodes import node_path, path_text
from ckpt_cli.core.timeline.scrubber import Scrubber
from ckpt_cli.core.tree.rows import Key
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.styled_text import Span, StyledLine
from ckpt_cli.tui.content.tree import TreePicture
from ckpt_cli.tui.panes.scrubber import ScrubberLine
from ckpt_cli.tui.panes.search import SearchableLines, SearchPane

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

    def is_stop(self, index: int) -> bool:
        return self.picture is not None and self.picture.keys[index] is not None

    def line_at(self, index: int, width: int) -> StyledLine:
        shown = super().line_at(index, width)
        if self.picture is None:
            return shown
        is_marked = self.marked is not None and self.picture.keys[index] == self.marked
        is_found = not self.found.isdisjoint(self.picture.holds[index])
        signs: tuple[Span, ...] = (
            ("▌" if is_marked else " ", "question"),
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
        return self.picture.keys[self.cursor]

    @property
    def unfolded(self) -> Key | None:
        """The checkpoint under the cursor; None if it is folded, or if there is none."""
        picture = self.picture
        return None if picture is None or self.cursor in picture.folds else self.key

    def show_more(self, picture: TreePicture) -> None:
        """Show the same tree after more of its steps were read."""
        self.picture, self.lines = picture, picture.lines
        self.refresh()

    def show_picture(self, picture: TreePicture, key: Key | None) -> None:
        """Show a tree with the cursor on a checkpoint, or else on the last line."""
        self.picture = picture
        at = picture.line_of(key)
        self.show_lines(picture.lines, len(picture.lines) - 1 if at is None else at)


class TreePane(SearchPane):
    """A tree, below a line with all of its thread."""

    def __init__(self, rows: TreeRows) -> None:
        super().__init__(rows, id="tree")
        self._tree_rows = rows
        self.scrubber = ScrubberLine()

    def compose(self) -> ComposeResult:
        yield self.scrubber
        yield from super().compose()

    def on_row_list_moved(self) -> None:
        """Follow the cursor; the screen handles this event, too."""
        picture = self._tree_rows.picture
        scrubber = Scrubber(()) if picture is None else picture.tree.scrubber
        self.scrubber.show_place(scrubber, self._tree_rows.key)
