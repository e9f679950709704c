"""The pane that lists threads."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from functools import partial
from importlib import import_module
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widget import Widget

from ckpt_backends.model import Thread
from ckpt_cli.core.filters.terms import FilterTerms
from ckpt_cli.render.terminal.styled_text import StyledLine
from ckpt_cli.tui.panes.rows import FilterPane, RowList
from ckpt_cli.tui.panes.thread_list import (
    SORTS,
    ThreadListing,
    heading_line,
    parse_thread_filter,
    thread_line,
)
from ckpt_cli.tui.styles import as_text


class ThreadLines(RowList):
    """One line per thread."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("s", "sort", "Sort", show=False)]

    def __init__(self, now: Callable[[], datetime]) -> None:
        super().__init__(id="thread-rows")
        self.listing = ThreadListing()
        self._now = now

    def count(self) -> int:
        return len(self.listing.shown)

    def line_at(self, index: int, width: int) -> StyledLine:
        thread = self.listing.shown[index]
        return thread_line(thread, self.listing.head_of(thread), self._now(), width)

    @property
    def thread(self) -> Thread | None:
        """The thread under the cursor; None if there is none."""
        shown = self.listing.shown
        return shown[self.cursor] if self.cursor < len(shown) else None

    def rebuild(self, thread_id: str | None) -> None:
        """Filter and sort again, with the cursor on the thread `thread_id`, wherever it is now."""
        self.listing.rebuild()
        at = self.listing.place_of(thread_id)
        self.resize(self.cursor if at is None else at)

    def action_sort(self) -> None:
        after = (SORTS.index(self.listing.sort) + 1) % len(SORTS)
        self.listing.sort = SORTS[after]
        self.rebuild(self.thread.thread_id if self.thread is not None else None)
        self.post_message(FilterPane.Narrowed())


class ThreadColumns(Widget):
    """The names of the columns, above the threads."""

    DEFAULT_CSS = "ThreadColumns { height: 1; }"

    def __init__(self, rows: ThreadLines) -> None:
        super().__init__()
        self._rows = rows

    def render(self) -> Text:
        return as_text(heading_line(self._rows.width))


class ThreadsPane(FilterPane):
    """All threads of the store, or those that match the filter."""

    rows: ThreadLines

    def __init__(self, now: Callable[[], datetime], terms: Callable[[], FilterTerms]) -> None:
        hint = "id or title, glob*, status:error, idle > 2h"
        super().__init__(ThreadLines(now), hint, id="threads")
        self._terms = terms

    def compose(self) -> ComposeResult:
        yield ThreadColumns(self.rows)
        yield from super().compose()

    def action_search(self) -> None:
        super().action_search()
        # Takes 0.1 s, so that the first letter of a filter would have to wait.
        parser = partial(import_module, "ckpt_cli.core.filters.parse")
        self.run_worker(parser, group="parser", exclusive=True, thread=True)

    def narrow(self, text: str) -> None:
        kept = self.rows.thread.thread_id if self.rows.thread is not None else None
        self.rows.listing.set_filter(parse_thread_filter(text, self._terms()))
        self.rows.rebuild(kept)
        self.post_message(self.Narrowed())
