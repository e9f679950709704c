"""The pane of one checkpoint, in tabs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from textual.app import ComposeResult
from textual.message import Message
from textual.widgets import Tab, Tabs

from ckpt_cli.tui.panes.document import ValueRows
from ckpt_cli.tui.panes.rows import SearchPane
from ckpt_cli.tui.styles import title
from ckpt_cli.tui.tabs.content import TABS
from ckpt_cli.tui.tabs.content import Tab as TabName
from ckpt_cli.tui.tabs.labels import tab_labels

_SLOW = 0.3
"""Seconds after which a read is shown as loading."""


class Inspector(SearchPane):
    """A checkpoint, in tabs."""

    class Turned(Message):
        """Another tab was chosen."""

    def __init__(self) -> None:
        self.document = ValueRows()
        super().__init__(self.document, id="inspector")
        self.tabs = Tabs(*(Tab("", id=name) for name in TABS))
        # Tabs are chosen by number; the focus goes to their content.
        self.tabs.can_focus = False
        self._first: TabName = TABS[0]
        """The tab that is shown when the tabs are mounted."""
        self.heading = ""
        """The title for what is shown."""

    def compose(self) -> ComposeResult:
        yield self.tabs
        yield from super().compose()

    def set_heading(self, heading: str) -> None:
        """Set the title for what is shown from now on."""
        self.heading = heading
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
            title(self, self.heading)

    @property
    def tab(self) -> TabName:
        """The tab that is shown."""
        active = self.tabs.active
        return next((one for one in TABS if one == active), self._first)

    def turn(self, tab: TabName) -> None:
        """Show another tab, as soon as the tabs are mounted."""
        self._first = tab
        if self.tabs.tab_count:
            self.tabs.active = tab

    def on_mount(self) -> None:
        self.turn(self._first)

    def on_resize(self) -> None:
        self._name_tabs()

    def _name_tabs(self) -> None:
        labels = dict(zip(TABS, tab_labels(self.size.width, self.tab), strict=True))
        # A screen that is closed at its start has no tabs.
        for one, label in labels.items():
            for tab in self.tabs.query(f"#{one}").results(Tab):
                tab.label = label

    def on_tabs_tab_activated(self, event: Tabs.TabActivated) -> None:
        event.stop()
        self._name_tabs()
        self.post_message(self.Turned())
