"""The pane with the tree of a thread."""

from __future__ import annotations

from ckpt_cli.core.tree import Key
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

    def is_stop(self, index: int) -> bool:
        return self.picture is not None and self.picture.keys[index] is not None

    def line_at(self, index: int, width: int) -> StyledLine:
        found = super().line_at(index, width)
        if self.marked is None or self.picture is None or self.picture.keys[index] != self.marked:
            return found
        return StyledLine((("▌", "question"), *found.spans))

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
