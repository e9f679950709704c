"""The pane of one checkpoint, in tabs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from textual.app import ComposeResult
from textual.message import Message
from textual.widgets import Tab, Tabs

from ckpt_backends.memory.protocol import ItemKey
from ckpt_backends.model import CheckpointKey
from ckpt_cli.core.doctor.finding import Finding
from ckpt_cli.tui.content.tab_labels import tab_labels
from ckpt_cli.tui.content.tabs import TABS, TabContent
from ckpt_cli.tui.content.tabs import Tab as TabName
from ckpt_cli.tui.panes.search import SearchableLines, SearchPane
from ckpt_cli.tui.panes.styles import title

_SLOW = 0.3
"""Seconds after which a read is shown as loading."""


class DocumentRows(SearchableLines):
    """The lines of a tab."""

    def __init__(self) -> None:
        super().__init__(id="document")
        self.document = TabContent(())
        self._missed: tuple[int, str, int] | None = None
        """Where the cursor was put because a value is not there: its line, and the path and the
        line in the value to which it goes back in a checkpoint that has it."""

    @property
    def path(self) -> str | None:
        """The path of the value under the cursor; None if there is none."""
        above = max((at for at in self.document.marks if at <= self.cursor), default=None)
        return None if above is None else self.document.marks[above]

    @property
    def wanted_path(self) -> str | None:
        """The same, also if this checkpoint does not have the value that was under the cursor."""
        is_missed = self._missed is not None and self._missed[0] == self.cursor
        return self._missed[1] if self._missed is not None and is_missed else self.path

    @property
    def item(self) -> ItemKey | None:
        """The memory item under the cursor; None if there is none."""
        above = max((at for at in self.document.items if at <= self.cursor), default=None)
        return None if above is None else self.document.items[above]

    @property
    def finding(self) -> Finding | None:
        """The finding under the cursor; None if there is none."""
        above = max((at for at in self.document.findings if at <= self.cursor), default=None)
        return None if above is None else self.document.findings[above]

    def show_document(self, document: TabContent, *, keep: bool) -> None:
        """Show a document from its start; with `keep` at the same line as before."""
        self.document = document
        self._missed = None
        below = round(self.scroll_y)
        self.show_lines(document.lines, self.cursor if keep else 0)
        self.scroll_to(y=below if keep else 0, animate=False)

    def show_step(
        self,
        document: TabContent,
        before: tuple[CheckpointKey, TabName] | None,
        now: tuple[CheckpointKey, TabName],
        *,
        is_last: bool,
    ) -> None:
        """Show a tab of a checkpoint after what was shown before; at its end with `is_last`."""
        place, tab = now
        if before == now:
            self.show_document(document, keep=True)
        elif is_last:
            self.show_document(document, keep=False)
            self.action_edge(1)
        elif before is not None and (before[0].thread_id, before[1]) == (place.thread_id, tab):
            self._show_next(document)
        else:
            self.show_document(document, keep=False)

    def _show_next(self, document: TabContent) -> None:
        """Show the same tab of another checkpoint, with the cursor on the same line of its value.

        Without that value, the cursor is on the nearest one above, until it is moved.
        """
        at = self.cursor if self.cursor in self.seen else round(self.scroll_y)
        below = at - round(self.scroll_y)
        before = [(line, path) for line, path in self.document.marks.items() if line <= at]
        lines = {path: line for line, path in document.marks.items()}
        if self._missed is not None and self._missed[0] == at:
            _, wanted, inside = self._missed
        elif before:
            wanted, inside = before[-1][1], at - before[-1][0]
        else:
            wanted, inside = "", at
        if wanted in lines:
            after = min((one for one in lines.values() if one > lines[wanted]), default=None)
            last = len(document.lines) if after is None else after
            goal = min(lines[wanted] + inside, last - 1)
        else:
            near = [lines[path] for _, path in before if path in lines]
            goal = near[-1] if near else min(at, min(lines.values(), default=0))
        self.document = document
        self.show_lines(document.lines, goal)
        self.scroll_to(y=max(goal - below, 0), animate=False)
        self._missed = (self.cursor, wanted, inside) if wanted and wanted not in lines else None


class Inspector(SearchPane):
    """A checkpoint, in tabs."""

    class Turned(Message):
        """Another tab was chosen."""

    def __init__(self) -> None:
        self.document = DocumentRows()
        super().__init__(self.document, id="inspector")
        self.tabs = Tabs(*(Tab("", id=name) for name in TABS))
        # Tabs are chosen by number; the focus goes to their content.
        self.tabs.can_focus = False
        self._heading = ""

    def compose(self) -> ComposeResult:
        yield self.tabs
        yield from super().compose()

    def set_heading(self, heading: str) -> None:
        """Set the title for what is shown from now on."""
        self._heading = heading
        title(self, heading)

    @contextmanager
    def while_loading(self, text: str) -> Iterator[None]:
        """Show that something is loading, if it takes long, until it ends.

        If a read ends without an answer, the title of the content that is still shown comes back.
        """
        is_over = False

        def tell() -> None:
            # A stopped timer may still call once.
            if not is_over:
                title(self, text)

        slow = self.set_timer(_SLOW, tell)
        try:
            yield
        finally:
            is_over = True
            slow.stop()
            title(self, self._heading)

    @property
    def tab(self) -> TabName:
        """The tab that is shown."""
        active = self.tabs.active
        return next((one for one in TABS if one == active), TABS[0])

    def turn(self, tab: TabName) -> None:
        """Show another tab."""
        self.tabs.active = tab

    def on_resize(self) -> None:
        self._name_tabs()

    def _name_tabs(self) -> None:
        for one, label in zip(TABS, tab_labels(self.size.width, self.tab), strict=True):
            self.tabs.query_one(f"#{one}", Tab).label = label

    def on_tabs_tab_activated(self, event: Tabs.TabActivated) -> None:
        event.stop()
        self._name_tabs()
        self.post_message(self.Turned())
