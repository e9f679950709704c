"""The pane with the tree of a thread."""

from __future__ import annotations

from ckpt_cli.core.tree.rows import Key
from ckpt_cli.render.terminal.styled_text import StyledLine
from ckpt_cli.tui.content.tree import TreePicture
from ckpt_cli.tui.panes.search import SearchableLines


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
        if self.marked is not None and self.picture.keys[index] == self.marked:
            shown = StyledLine((("▌", "question"), *shown.spans))
        if not self.found.isdisjoint(self.picture.holds[index]):
            shown = StyledLine((("!", "error"), *shown.spans))
        return shown

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

    def show_picture(self, picture: TreePicture, key: Key | None) -> None:
        """Show a tree with the cursor on a checkpoint, or else on the last line."""
        self.picture = picture
        at = picture.line_of(key) if key is not None else None
        self.show_lines(picture.lines, len(picture.lines) - 1 if at is None else at)
