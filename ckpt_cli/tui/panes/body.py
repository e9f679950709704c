"""The panes of the main screen: which are shown, and how large they are.

Each has the size that its content needs, or that was chosen, within bounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.events import MouseDown, MouseMove
from textual.widget import Widget

from ckpt_cli.tui.panes.inspector import Inspector
from ckpt_cli.tui.panes.rows import RowList
from ckpt_cli.tui.panes.threads import ThreadsPane
from ckpt_cli.tui.panes.tree import TreePane
from ckpt_cli.tui.reading import say

PaneName = Literal["threads", "tree", "inspector"]

_STEP = 5
"""Percent by which a key changes a pane."""
_LEAST_THREADS, _MOST_THREADS = 26, 72
"""Columns of the threads, however wide the screen is."""
_THREADS_SHARE = 30
"""Percent of the columns that threads take at most by themselves."""
_BESIDE, _BESIDE_IF_LOW = 200, 150
"""With this number of columns, the checkpoint is beside its tree, else below it."""
_LOW = 36
"""With fewer lines, the smaller number is enough."""
_TREE_BESIDE, _MOST_TREE = 50, 120
"""The tree beside a checkpoint: percent of the columns, and columns at most."""
_LEAST_TREE_SHARE, _MOST_TREE_SHARE = 30, 45
"""The tree above a checkpoint: percent of the lines."""
_LEAST_COLUMNS, _LEAST_LINES = 20, 4
"""Of each pane, whatever was chosen."""
_NARROW = 60
"""On screens with fewer columns, one pane is shown at a time."""
_FRAME = 2
"""Lines above and below the panes: the header and the footer."""


class MainPanes(Horizontal):
    """Threads on the left, the tree of one on the right, and a checkpoint below or beside it."""

    def __init__(self, threads: ThreadsPane, tree: TreePane, inspector: Inspector) -> None:
        super().__init__(id="body")
        self._threads, self._tree, self._inspector = threads, tree, inspector
        self.right = Vertical(tree, inspector, id="right")
        self.is_zoomed = False
        """Whether one pane is shown alone."""
        self.chosen = ChosenShares()
        self._sizes: PaneSizes | None = None
        """The sizes; None if there is one pane only."""
        self._dragged: PaneName | None = None
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
        focused = focused or self.screen.focused
        panes = (self._threads, self._tree, self._inspector)
        chosen = next((one for one in panes if focused in one.walk_children()), self._threads)
        for pane in panes:
            pane.display = not alone or pane is chosen
        self.right.display = not alone or chosen is not self._threads
        self.set_class(alone, "alone")
        self.fit()

    def zoom(self) -> None:
        """Show one pane alone, or all panes again."""
        self.is_zoomed = not self.is_zoomed
        self.show_panes()

    def fit(self) -> None:
        """Give each pane its size."""
        threads, tree = self._threads.styles, self._tree.styles
        if self.has_class("alone"):
            self._sizes = None
            for rules in (threads, tree):
                rules.clear_rule("width")
                rules.clear_rule("height")
            self.remove_class("beside")
            return
        width, height = self.screen.size.width, max(self.screen.size.height - _FRAME, 1)
        around = max(self._tree.outer_size.height - self._tree.rows.size.height, 1)
        sizes = pane_sizes(
            width,
            height,
            # Until titles are known, the pane has the space for them.
            threads=self._threads.needed_width or width,
            tree=self._tree.rows.count() + around,
            chosen=self.chosen,
        )
        if sizes == self._sizes:
            return
        self._sizes = sizes
        self.set_class(sizes.is_beside, "beside")
        threads.width = sizes.threads
        if sizes.is_beside:
            tree.width = sizes.tree
            tree.clear_rule("height")
        else:
            tree.height = sizes.tree
            tree.clear_rule("width")

    def resize(self, way: int) -> None:
        """Make the focused pane larger or smaller; with `way` 0 fit all panes to their content."""
        if self._sizes is None:
            said = "press z to show all panes" if self.is_zoomed else "there is space for one only"
            say(self, f"this pane is shown alone; {said}", is_error=True)
            return
        if way == 0:
            self.chosen = ChosenShares()
        else:
            width, pane = self.screen.size.width, self._focused_pane
            self.chosen = changed_shares(self.chosen, self._sizes, width, pane, way)
        self.fit()

    @property
    def _focused_pane(self) -> PaneName:
        focused = self.screen.focused
        if focused in self._tree.walk_children():
            return "tree"
        return "inspector" if focused in self._inspector.walk_children() else "threads"

    def on_mouse_down(self, event: MouseDown) -> None:
        """Begin to drag the border under the mouse, if there is one."""
        if self._sizes is None:
            return
        at, inner = event.screen_offset, self._inspector.region
        if at.x == self.right.region.x:
            self._dragged = "threads"
        elif (at.x == inner.x - 1) if self._sizes.is_beside else (at.y == inner.y):
            self._dragged = "tree"
        if self._dragged is not None:
            self.capture_mouse()

    def on_mouse_move(self, event: MouseMove) -> None:
        if self._dragged is None or self._sizes is None:
            return
        at, tree = event.screen_offset, self._tree.region
        size = at.x - tree.x if self._sizes.is_beside else at.y - tree.y
        if self._dragged == "threads":
            size = at.x
        width = self.screen.size.width
        self.chosen = dragged_shares(self.chosen, self._sizes, width, self._dragged, size)
        self.fit()

    def on_mouse_up(self) -> None:
        if self._dragged is not None:
            self._dragged = None
            self.release_mouse()


@dataclass(frozen=True, slots=True)
class ChosenShares:
    """Percent of the columns or lines that a person gave to panes; 0 if none was chosen."""

    threads: int = 0
    """Of all columns."""
    tree: int = 0
    """Of the lines that tree and checkpoint share, or of their columns if they are side by side."""


@dataclass(frozen=True, slots=True)
class PaneSizes:
    """Columns and lines of the panes; the checkpoint has the rest."""

    threads: int
    tree: int
    """Columns if the checkpoint is beside the tree, lines if it is below."""
    is_beside: bool
    rest: int
    """Columns or lines that tree and checkpoint share."""


def pane_sizes(
    width: int, height: int, *, threads: int, tree: int, chosen: ChosenShares
) -> PaneSizes:
    """Return the sizes for a body of `width` columns and `height` lines.

    `threads` is the number of columns that the longest row needs, `tree` the lines of the tree.
    """
    if chosen.threads:
        columns = _within(width * chosen.threads // 100, _LEAST_COLUMNS, width - 2 * _LEAST_COLUMNS)
    else:
        most = min(width * _THREADS_SHARE // 100, _MOST_THREADS)
        columns = _within(threads, _LEAST_THREADS, most)
    # A blank column is between the panes.
    rest = width - columns - 1
    is_beside = rest >= (_BESIDE_IF_LOW if height < _LOW else _BESIDE)
    if not is_beside:
        rest = height
    least = _LEAST_COLUMNS if is_beside else _LEAST_LINES
    if chosen.tree:
        lines = rest * chosen.tree // 100
    elif is_beside:
        lines = min(rest * _TREE_BESIDE // 100, _MOST_TREE)
    else:
        lines = _within(tree, rest * _LEAST_TREE_SHARE // 100, rest * _MOST_TREE_SHARE // 100)
    return PaneSizes(columns, _within(lines, least, rest - least), is_beside, rest)


def changed_shares(
    chosen: ChosenShares, sizes: PaneSizes, width: int, pane: PaneName, way: int
) -> ChosenShares:
    """Return the shares after a pane has become larger (`way` 1) or smaller (-1) by a step."""
    if pane == "threads":
        now = chosen.threads or round(100 * sizes.threads / max(width, 1))
        return replace(chosen, threads=_within(now + way * _STEP, _STEP, 100 - _STEP))
    now = chosen.tree or round(100 * sizes.tree / max(sizes.rest, 1))
    way = way if pane == "tree" else -way
    return replace(chosen, tree=_within(now + way * _STEP, _STEP, 100 - _STEP))


def dragged_shares(
    chosen: ChosenShares, sizes: PaneSizes, width: int, pane: PaneName, size: int
) -> ChosenShares:
    """Return the shares after the end of the threads or of the tree was dragged to a size."""
    if pane == "threads":
        return replace(chosen, threads=_share(size, width))
    return replace(chosen, tree=_share(size, sizes.rest))


def _share(part: int, whole: int) -> int:
    """Return the percent that make at least a part; never 0, which stands for no choice."""
    return _within(-(-100 * part // max(whole, 1)), 1, 99)


def _within(number: int, least: int, most: int) -> int:
    """Return the nearest number between two others; the first one wins if they cross."""
    return max(min(number, most), least)
