"""Two checkpoints side by side, channel by channel."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import partial
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Static

from ckpt_backends.errors import CkptError
from ckpt_backends.model import CheckpointKey
from ckpt_backends.protocol import Store
from ckpt_cli.reading.store_worker import StoreWorker
from ckpt_cli.render.text import safe_text
from ckpt_cli.tui.keys import DIFF_GROUPS, bindings, keys_of
from ckpt_cli.tui.panes.footer import KeyLine
from ckpt_cli.tui.panes.rows import SearchableLines, SearchPane
from ckpt_cli.tui.reading import error_lines
from ckpt_cli.tui.screens.text import HelpedScreen
from ckpt_cli.tui.styles import as_text, title
from ckpt_cli.tui.tabs.diff import Sides, read_sides

_ABOVE = 3
"""Number of lines that are shown above a change."""


class SidesRows(SearchableLines):
    """The lines of a diff, and the change that was jumped to."""

    def __init__(self) -> None:
        super().__init__(id="sides")
        self._changes: Sequence[int] = ()
        self._at: int | None = None

    def is_stop(self, index: int) -> bool:  # noqa: ARG002
        """Return False: without a cursor, keys scroll, and all tints are seen."""
        return False

    def show_sides(self, sides: Sides) -> None:
        """Show another diff, or the same one in another width."""
        self._changes, self._at = sides.changes, None
        self.show_lines(sides.lines)

    def jump(self, way: int) -> str:
        """Go to the next or previous change from what is on the screen; return which one it is."""
        changes, seen = self._changes, self.seen
        if not changes:
            return "no differences"
        at = self._at
        if at is None or changes[at] not in seen:
            at = bisect_left(changes, seen.start) - (way > 0)
        self._at = at = min(max(at + way, 0), len(changes) - 1)
        self.scroll_to(y=max(changes[at] - _ABOVE, 0), animate=False)
        return f"change {at + 1} of {len(changes)}"


class SidesPane(SearchPane):
    """A diff below the names of its two columns."""

    rows: SidesRows

    def __init__(self) -> None:
        super().__init__(SidesRows(), id="sides-pane")
        self.names = Static(id="sides-names")

    def compose(self) -> ComposeResult:
        yield self.names
        yield from super().compose()


class DiffScreen(HelpedScreen[None]):
    """The diff of two checkpoints, or of one checkpoint and its parent."""

    GROUPS = DIFF_GROUPS
    BINDINGS: ClassVar[list[BindingType]] = bindings(keys_of(DIFF_GROUPS))

    def __init__(
        self,
        worker: StoreWorker[Store],
        base: CheckpointKey | None,
        place: CheckpointKey,
        refs: Mapping[str, str],
    ) -> None:
        super().__init__()
        self._worker, self._base, self._place, self._refs = worker, base, place, refs

    def compose(self) -> ComposeResult:
        self._pane = SidesPane()
        yield self._pane
        yield KeyLine()

    def on_mount(self) -> None:
        title(self._pane, "Diff: loading")
        self._pane.rows.focus()

    def on_resize(self) -> None:
        self._load()

    @work(exclusive=True)
    async def _load(self) -> None:
        rows = self._pane.rows
        question = partial(
            read_sides, base=self._base, place=self._place, refs=self._refs, width=rows.width
        )
        try:
            found = await self._worker.ask(question)
        except CkptError as error:
            title(self._pane, "Diff")
            rows.show_lines(error_lines(error, rows.width))
            return
        title(self._pane, f"Diff of {safe_text(self._place.thread_id)}")
        self._pane.names.update(as_text(found.names))
        rows.show_sides(found)

    def action_jump(self, way: int) -> None:
        said = self._pane.rows.jump(way)
        title(self._pane, f"Diff of {safe_text(self._place.thread_id)}: {said}")
