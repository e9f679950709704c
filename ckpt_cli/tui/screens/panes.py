"""The panes of the main screen: which are shown, and how large they are."""

from __future__ import annotations

from textual.events import MouseDown, MouseMove

from ckpt_cli.tui.context import ScreenContext
from ckpt_cli.tui.panes.rows import RowList
from ckpt_cli.tui.panes.sizes import (
    ChosenShares,
    PaneName,
    PaneSizes,
    changed_shares,
    dragged_shares,
    pane_sizes,
)
from ckpt_cli.tui.panes.thread_list import needed_width
from ckpt_cli.tui.panes.tree_picture import TreePicture
from ckpt_cli.tui.screens.live import LiveScreen

_NARROW = 60
"""On screens with fewer columns, one pane is shown at a time."""
_FRAME = 2
"""Lines above and below the panes: the header and the footer."""


class PanesScreen(LiveScreen):
    """Three panes, each as large as its content needs or as was chosen; one alone after zooming."""

    is_zoomed = False
    chosen = ChosenShares()

    def __init__(self, context: ScreenContext) -> None:
        super().__init__(context)
        self._longest = 0
        """Columns of the longest row of threads so far; 0 until the rows on the screen are read."""
        self._sizes: PaneSizes | None = None
        self._dragged: PaneName | None = None
        """The pane of which the end is being dragged."""

    def go(self, rows: RowList) -> None:
        """Focus a pane, and show it if there is space for only one."""
        rows.focus()
        self.show_panes(rows)

    def show_panes(self, rows: RowList | None = None) -> None:
        """Show all panes, or only one if zoomed or if there is no space for more."""
        alone = self.is_zoomed or self.size.width < _NARROW
        focused = rows or self.focused
        panes = (self.threads_pane, self.tree_pane, self.inspector)
        chosen = next((one for one in panes if focused in one.walk_children()), self.threads_pane)
        for pane in panes:
            pane.display = not alone or pane is chosen
        self.right.display = not alone or chosen is not self.threads_pane
        self.set_class(alone, "alone")
        self.fit_panes()

    def fit_panes(self) -> None:
        """Give each pane its size."""
        threads, tree = self.threads_pane.styles, self.tree_pane.styles
        if self.has_class("alone"):
            self._sizes = None
            for rules in (threads, tree):
                rules.clear_rule("width")
                rules.clear_rule("height")
            self.remove_class("beside")
            return
        width, height = self.size.width, max(self.size.height - _FRAME, 1)
        listing, seen = self.rows.listing, self.rows.seen
        # Until titles are known, the pane has the space for them.
        if self._longest or (
            (shown := listing.shown[seen.start : seen.stop]) and all(map(listing.head_of, shown))
        ):
            self._longest = max(self._longest, needed_width(listing))
        around = max(self.tree_pane.outer_size.height - self.tree_rows.size.height, 1)
        sizes = pane_sizes(
            width,
            height,
            threads=self._longest or width,
            tree=self.tree_rows.count() + around,
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

    def draw(self, picture: TreePicture) -> None:
        super().draw(picture)
        # Then it is known what is around the lines of the tree.
        self.call_after_refresh(self.fit_panes)

    def show_status(self) -> None:
        super().show_status()
        self.fit_panes()

    def action_zoom(self) -> None:
        """Show one pane alone, or all panes again."""
        self.is_zoomed = not self.is_zoomed
        self.show_panes()

    def action_pane(self, way: int) -> None:
        stops = [self.rows, self.tree_rows, self.inspector.document]
        here = next((at for at, one in enumerate(stops) if one is self.focused), 0)
        self.go(stops[(here + way) % len(stops)])

    def action_size(self, way: int) -> None:
        """Make the focused pane larger or smaller; with `way` 0 fit all panes to their content."""
        if self._sizes is None:
            said = "press z to show all panes" if self.is_zoomed else "there is space for one only"
            self.say(f"this pane is shown alone; {said}", is_error=True)
            return
        if way == 0:
            self.chosen = ChosenShares()
        else:
            self.chosen = changed_shares(
                self.chosen, self._sizes, self.size.width, self._focused_pane, way
            )
        self.fit_panes()

    def on_mouse_down(self, event: MouseDown) -> None:
        """Begin to drag the border under the mouse, if there is one."""
        if self._sizes is None:
            return
        at, inner = event.screen_offset, self.inspector.region
        if at.x == self.right.region.x:
            self._dragged = "threads"
        elif (at.x == inner.x - 1) if self._sizes.is_beside else (at.y == inner.y):
            self._dragged = "tree"
        if self._dragged is not None:
            self.capture_mouse()

    def on_mouse_move(self, event: MouseMove) -> None:
        if self._dragged is None or self._sizes is None:
            return
        at, tree = event.screen_offset, self.tree_pane.region
        size = at.x - tree.x if self._sizes.is_beside else at.y - tree.y
        self.chosen = dragged_shares(
            self.chosen,
            self._sizes,
            self.size.width,
            self._dragged,
            at.x if self._dragged == "threads" else size,
        )
        self.fit_panes()

    def on_mouse_up(self) -> None:
        if self._dragged is not None:
            self._dragged = None
            self.release_mouse()

    @property
    def _focused_pane(self) -> PaneName:
        if self.focused in self.tree_pane.walk_children():
            return "tree"
        return "inspector" if self.focused in self.inspector.walk_children() else "threads"
