"""The pane with the tree of a thread."""

from __future__ import annotations

from collections.abc import Mapping

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.app import ComposeResult
from textual.events import Click
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from ckpt_cli.core.tasks.step_nodes import node_path, path_text
from ckpt_cli.core.timeline.scrubber import Scrubber, ScrubberCell, Sign, Stretch
from ckpt_cli.core.tree.rows import Key
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.styled_text import Span, Style, StyledLine
from ckpt_cli.tui.panes.rows import SearchableLines, SearchPane
from ckpt_cli.tui.panes.tree_picture import TreePicture
from ckpt_cli.tui.styles import STYLES

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
