"""The panes of the main screen: which are shown, and what a person chose of their sizes.

The style sheet has the bounds within which a pane is as large as its content needs.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.events import MouseDown, MouseMove
from textual.widget import Widget

from ckpt_cli.tui.panes.inspector import Inspector
from ckpt_cli.tui.panes.rows import RowList
from ckpt_cli.tui.panes.threads import ThreadsPane
from ckpt_cli.tui.panes.tree import TreePane
from ckpt_cli.tui.reading import say

_STEP = 5
"""Percent by which a key changes a pane."""
_BESIDE, _BESIDE_IF_LOW = 200, 150
"""With this number of columns for both, the checkpoint is beside its tree, else below it."""
_LOW = 36
"""With fewer lines, the smaller number is enough."""
_LEAST_COLUMNS, _LEAST_LINES = 20, 4
"""Of each pane, whatever was chosen."""
_NARROW = 60
"""On screens with fewer columns, one pane is shown at a time."""


class ChosenShares(NamedTuple):
    """Percent of the columns or lines that a person gave to panes; 0 if none was chosen."""

    threads: int = 0
    """Of all columns."""
    tree: int = 0
    """Of the lines that tree and checkpoint share, or of their columns if they are side by side."""


class MainPanes(Horizontal):
    """Threads on the left, the tree of one on the right, and a checkpoint below or beside it."""

    def __init__(self, threads: ThreadsPane, tree: TreePane, inspector: Inspector) -> None:
        super().__init__(id="body")
        self._threads, self._tree, self._inspector = threads, tree, inspector
        self.right = Vertical(tree, inspector, id="right")
        self.is_zoomed = False
        """Whether one pane is shown alone."""
        self.chosen = ChosenShares()
        self._dragged: Literal["threads", "tree"] | None = None
        """The pane of which the end is being dragged."""

    def compose(self) -> ComposeResult:
        yield self._threads
        yield self.right

    def go(self, rows: RowList) -> None:
        """Focus a pane, and show it if there is space for only one."""
        rows.focus()
        self.show_panes(rows)

    def go_on(self, way: int) -> None:
        """Focus the next or previous pane."""
        stops = [self._threads.rows, self._tree.rows, self._inspector.rows]
        here = next((at for at, one in enumerate(stops) if one is self.screen.focused), 0)
        self.go(stops[(here + way) % len(stops)])

    def show_panes(self, focused: Widget | None = None) -> None:
        """Show all panes, or only the focused one if zoomed or if there is no space for more."""
        alone = self.is_zoomed or self.screen.size.width < _NARROW
        chosen = self._pane_of(focused or self.screen.focused)
        for pane in (self._threads, self._tree, self._inspector):
            pane.display = not alone or pane is chosen
        self.right.display = not alone or chosen is not self._threads
        self.set_class(alone, "alone")
        self.fit()

    def zoom(self) -> None:
        """Show one pane alone, or all panes again."""
        self.is_zoomed = not self.is_zoomed
        self.show_panes()

    def _pane_of(self, focused: Widget | None) -> Widget:
        panes = (self._tree, self._inspector)
        return next((one for one in panes if focused in one.walk_children()), self._threads)

    # Sizes

    @property
    def _is_beside(self) -> bool:
        return self.has_class("beside")

    @property
    def _room(self) -> int:
        """The columns or lines that tree and checkpoint share."""
        size = self.right.size
        return max(size.width if self._is_beside else size.height, 1)

    def on_resize(self) -> None:
        self.fit()

    def fit(self) -> None:
        """Give each pane the size that its content needs, or that was chosen."""
        threads, tree, chosen = self._threads, self._tree, self.chosen
        alone, size, right = self.has_class("alone"), self.size, self.right.size
        enough = _BESIDE_IF_LOW if right.height < _LOW else _BESIDE
        self.set_class(not alone and right.width >= enough, "beside")
        threads.set_class(chosen.threads > 0, "chosen")
        tree.set_class(chosen.tree > 0, "chosen")
        # Until titles are known, the pane has the space for them.
        columns, part = threads.longest or size.width, tree.needed
        if chosen.threads > 0:
            columns = size.width * chosen.threads // 100
            columns = _within(columns, _LEAST_COLUMNS, size.width - 2 * _LEAST_COLUMNS)
        if chosen.tree > 0:
            least = _LEAST_COLUMNS if self._is_beside else _LEAST_LINES
            part = _within(self._room * chosen.tree // 100, least, self._room - least)
        threads.styles.width = None if alone else columns
        tree.styles.width = part if self._is_beside and chosen.tree > 0 else None
        tree.styles.height = None if alone or self._is_beside else part

    def resize(self, way: int) -> None:
        """Make the focused pane larger or smaller; with `way` 0 fit all panes to their content."""
        if self.has_class("alone"):
            said = "press z to show all panes" if self.is_zoomed else "there is space for one only"
            say(self, f"this pane is shown alone; {said}", is_error=True)
            return
        pane = self._pane_of(self.screen.focused)
        if way == 0:
            self.chosen = ChosenShares()
        elif pane is self._threads:
            now = self.chosen.threads or round(100 * pane.outer_size.width / self.size.width)
            self.choose(threads=now + way * _STEP)
        else:
            tree = self._tree.outer_size
            part = tree.width if self._is_beside else tree.height
            now = self.chosen.tree or round(100 * part / self._room)
            self.choose(tree=now + (way if pane is self._tree else -way) * _STEP)
        self.fit()

    def choose(self, **shares: int) -> None:
        """Take shares that a person chose."""
        within = {name: _within(share, 1, 99) for name, share in shares.items()}
        self.chosen = self.chosen._replace(**within)

    # The mouse

    def on_mouse_down(self, event: MouseDown) -> None:
        """Begin to drag the border under the mouse, if there is one."""
        if self.has_class("alone"):
            return
        at, inner = event.screen_offset, self._inspector.region
        if at.x == self.right.region.x:
            self._dragged = "threads"
        elif (at.x == inner.x - 1) if self._is_beside else (at.y == inner.y):
            self._dragged = "tree"
        if self._dragged is not None:
            self.capture_mouse()

    def on_mouse_move(self, event: MouseMove) -> None:
        at, tree = event.screen_offset, self._tree.region
        if self._dragged == "threads":
            self.choose(threads=_percent(at.x, self.size.width))
        elif self._dragged == "tree":
            size = at.x - tree.x if self._is_beside else at.y - tree.y
            self.choose(tree=_percent(size, self._room))
        if self._dragged is not None:
            self.fit()

    def on_mouse_up(self) -> None:
        if self._dragged is not None:
            self._dragged = None
            self.release_mouse()


def _percent(part: int, whole: int) -> int:
    """Return the percent that make at least a part."""
    return -(-100 * part // max(whole, 1))


def _within(number: int, least: int, most: int) -> int:
    """Return the nearest number between two others; the first one wins if they cross."""
    return max(min(number, most), least)
