"""Panes of lines that can be searched."""

from __future__ import annotations

from typing import ClassVar

from textual.actions import SkipAction
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input

from ckpt_cli.tui.panes.row_list import Lines, RowList


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
        if not self.wanted:
            # The screen may have another meaning for the key.
            raise SkipAction
        if not count:
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


class FieldPane(Vertical):
    """A pane of lines with a field below them that is hidden until it is needed."""

    def __init__(self, rows: RowList, search: Search, *, id: str) -> None:  # noqa: A002
        super().__init__(id=id, classes="pane")
        self.rows = rows
        self.search = search

    def compose(self) -> ComposeResult:
        yield self.rows
        yield self.search

    def on_mount(self) -> None:
        self.search.display = False

    def action_search(self) -> None:
        self.search.display = True
        self.search.focus()


class SearchPane(FieldPane):
    """A pane of lines with a search."""

    rows: SearchableLines

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Search", key_display="/"),
    ]

    def __init__(self, rows: SearchableLines, *, id: str) -> None:  # noqa: A002
        search = Search(placeholder="text; then n next, N previous", id=f"{id}-search")
        super().__init__(rows, search, id=id)

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
