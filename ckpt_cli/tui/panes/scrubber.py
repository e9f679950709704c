"""The line above a tree that shows all of its thread."""

from __future__ import annotations

from collections.abc import Mapping

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.events import Click
from textual.message import Message
from textual.strip import Strip
from textual.widget import Widget

from ckpt_cli.core.timeline import Scrubber, ScrubberCell, Sign, Stretch
from ckpt_cli.core.tree import Key
from ckpt_cli.render.text import Span, Style
from ckpt_cli.tui.panes.styles import STYLES

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
