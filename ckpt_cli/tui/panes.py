"""The three panes: threads, the tree of a thread, and the inspector of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.message import Message
from textual.widgets import Input, Tab, Tabs

from ckpt_backends.errors import UsageError
from ckpt_backends.memory.protocol import ItemKey
from ckpt_backends.model import Thread
from ckpt_cli.core.tree.rows import Key
from ckpt_cli.render.terminal.styled_text import StyledLine
from ckpt_cli.tui.listing import SORTS, Listing, parse_filter, thread_line
from ckpt_cli.tui.reads import TABS, Picture, TabContent
from ckpt_cli.tui.reads import Tab as TabName
from ckpt_cli.tui.row_list import Lines, RowList

_SLOW = 0.3
"""Seconds after which a read is shown as loading."""


class Search(Input):
    """The field at the bottom of a pane for its filter or search."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", "Clear", show=False)]

    class Left(Message):
        """Escape was pressed: clear the field."""

        def __init__(self, search: Search) -> None:
            super().__init__()
            self.search = search

        @property
        def control(self) -> Search:
            return self.search

    def action_leave(self) -> None:
        self.post_message(self.Left(self))


class FilterPane(Vertical):
    """A pane of lines with a filter."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Filter", key_display="/"),
    ]

    class Narrowed(Message):
        """The filter or the order was changed."""

    def __init__(self, rows: RowList, hint: str, *, id: str) -> None:  # noqa: A002
        super().__init__(id=id, classes="pane")
        self.rows = rows
        self.search = Search(placeholder=hint, id="filter")

    def narrow(self, text: str) -> None:
        """Apply a filter. Raises `UsageError` if it is invalid."""
        raise NotImplementedError

    def compose(self) -> ComposeResult:
        yield self.rows
        yield self.search

    def on_mount(self) -> None:
        self.search.display = False

    def action_search(self) -> None:
        self.search.display = True
        self.search.focus()

    def action_clear(self) -> None:
        self.search.value = ""
        self.search.display = False
        self.narrow("")
        self.rows.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        try:
            self.narrow(event.value)
        except UsageError:
            # A status may be only half typed; Enter shows the error.
            return

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        try:
            self.narrow(event.value)
        except UsageError as error:
            text = f"{error.message}; {error.hint}"
            self.app.notify(text, severity="warning", markup=False)
            return
        self.search.display = bool(event.value)
        self.rows.focus()

    def on_search_left(self, event: Search.Left) -> None:
        event.stop()
        self.action_clear()


class ThreadRows(RowList):
    """One line per thread."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("s", "sort", "Sort", show=False)]

    def __init__(self, now: Callable[[], datetime]) -> None:
        super().__init__(id="thread-rows")
        self.listing = Listing()
        self._now = now

    def count(self) -> int:
        return len(self.listing.shown)

    def line_at(self, index: int, width: int) -> StyledLine:
        thread = self.listing.shown[index]
        return thread_line(thread, self.listing.status(thread), self._now(), width)

    @property
    def thread(self) -> Thread | None:
        """The thread under the cursor; None if there is none."""
        shown = self.listing.shown
        return shown[self.cursor] if self.cursor < len(shown) else None

    def settle(self, thread_id: str | None) -> None:
        """Filter and sort again, with the cursor on the thread `thread_id`, wherever it is now."""
        self.listing.settle()
        at = self.listing.place_of(thread_id)
        self.resize(self.cursor if at is None else at)

    def action_sort(self) -> None:
        after = (SORTS.index(self.listing.sort) + 1) % len(SORTS)
        self.listing.sort = SORTS[after]
        self.settle(self.thread.thread_id if self.thread is not None else None)
        self.post_message(FilterPane.Narrowed())


class ThreadsPane(FilterPane):
    """All threads of the store, or those that match the filter."""

    rows: ThreadRows

    def __init__(self, now: Callable[[], datetime]) -> None:
        hint = "text, glob*, status:interrupted, user:anna"
        super().__init__(ThreadRows(now), hint, id="threads")

    def narrow(self, text: str) -> None:
        kept = self.rows.thread.thread_id if self.rows.thread is not None else None
        self.rows.listing.wanted = parse_filter(text)
        self.rows.settle(kept)
        self.post_message(self.Narrowed())


class SearchableLines(Lines):
    """Lines that can be searched."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("n", "next(1)", "Next", show=False),
        Binding("N", "next(-1)", "Previous", show=False),
    ]

    def __init__(self, *, id: str) -> None:  # noqa: A002
        super().__init__(id=id)
        self.wanted = ""
        self.here = -1
        """Line of the last match."""

    def look_for(self, text: str) -> None:
        """Mark the lines that contain a text, and go to the first one from the cursor."""
        self.wanted = text.casefold()
        self.here = self.cursor - 1
        self.refresh()
        if self.wanted:
            self.action_next(1)

    def is_found(self, index: int) -> bool:
        return bool(self.wanted) and self.wanted in self.lines[index].text.casefold()

    def action_next(self, way: int) -> None:
        count = len(self.lines)
        if not self.wanted or not count:
            return
        ways = (range(1, count + 1), range(-1, -count - 1, -1))[way < 0]
        hits = ((self.here + by) % count for by in ways)
        at = next((one for one in hits if self.is_found(one)), None)
        if at is None:
            self.app.notify(f"no match for '{self.wanted}'", severity="warning", markup=False)
            return
        self.here = at
        if self.is_stop(at):
            self.cursor = at
        else:
            self.scroll_to(y=max(at - self.size.height // 2, 0), animate=False)


class Choices(SearchableLines):
    """Lines that each stand for a checkpoint."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "choose", "Go to checkpoint")]


class SearchPane(Vertical):
    """A pane of lines with a search."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Search", key_display="/"),
    ]

    def __init__(self, rows: SearchableLines, *, id: str) -> None:  # noqa: A002
        super().__init__(id=id, classes="pane")
        self.rows = rows
        self.search = Search(placeholder="text; then n next, N previous", id=f"{id}-search")

    def compose(self) -> ComposeResult:
        yield self.rows
        yield self.search

    def on_mount(self) -> None:
        self.search.display = False

    def action_search(self) -> None:
        self.search.display = True
        self.search.focus()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self.search.display = False
        self.rows.focus()
        self.rows.look_for(event.value)

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()

    def on_search_left(self, event: Search.Left) -> None:
        event.stop()
        self.search.value = ""
        self.search.display = False
        self.rows.look_for("")
        self.rows.focus()


class TreeRows(SearchableLines):
    """A drawn tree, with the cursor on its checkpoints."""

    def __init__(self) -> None:
        super().__init__(id="tree-rows")
        self.picture: Picture | None = None
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

    def show_picture(self, picture: Picture, key: Key | None) -> None:
        """Show a tree with the cursor on a checkpoint, or else on the last line."""
        self.picture = picture
        at = picture.line_of(key) if key is not None else None
        self.show_lines(picture.lines, len(picture.lines) - 1 if at is None else at)


class DocumentRows(SearchableLines):
    """The lines of a tab."""

    def __init__(self) -> None:
        super().__init__(id="document")
        self.document = TabContent(())

    @property
    def path(self) -> str | None:
        """The path of the value under the cursor; None if there is none."""
        above = max((at for at in self.document.marks if at <= self.cursor), default=None)
        return None if above is None else self.document.marks[above]

    @property
    def item(self) -> ItemKey | None:
        """The memory item under the cursor; None if there is none."""
        above = max((at for at in self.document.items if at <= self.cursor), default=None)
        return None if above is None else self.document.items[above]

    def show_document(self, document: TabContent, *, keep: bool) -> None:
        """Show a document from its start; with `keep` at the same line as before."""
        self.document = document
        below = round(self.scroll_y)
        self.show_lines(document.lines, self.cursor if keep else 0)
        self.scroll_to(y=below if keep else 0, animate=False)


class Inspector(SearchPane):
    """A checkpoint, in tabs."""

    class Turned(Message):
        """Another tab was chosen."""

    def __init__(self) -> None:
        self.document = DocumentRows()
        super().__init__(self.document, id="inspector")
        labels = (f"{number} {name.capitalize()}" for number, name in enumerate(TABS, 1))
        self.tabs = Tabs(*(Tab(label, id=name) for label, name in zip(labels, TABS, strict=True)))
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

    def on_tabs_tab_activated(self, event: Tabs.TabActivated) -> None:
        event.stop()
        self.post_message(self.Turned())


def title(pane: Vertical, text: str) -> None:
    """Set the title of a pane; markup is not parsed."""
    pane.border_title = Content(text)
