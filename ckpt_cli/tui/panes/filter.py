"""A pane of lines with a filter."""

from __future__ import annotations

from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widgets import Input

from ckpt_backends.errors import ParseError, UsageError
from ckpt_cli.tui.messages import error_text
from ckpt_cli.tui.panes.row_list import RowList
from ckpt_cli.tui.panes.search import FieldPane, Search


class FilterPane(FieldPane):
    """A pane of lines with a filter."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Filter", key_display="/"),
    ]

    class Narrowed(Message):
        """The filter or the order was changed."""

    def __init__(self, rows: RowList, hint: str, *, id: str) -> None:  # noqa: A002
        super().__init__(rows, Search(placeholder=hint, id="filter"), id=id)

    def narrow(self, text: str) -> None:
        """Apply a filter. Raises `UsageError` if it is invalid."""
        raise NotImplementedError

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
            if isinstance(error, ParseError) and error.text == event.value:
                self.search.cursor_position = error.position
            self.app.notify(error_text(error), severity="error", markup=False)
            return
        self.search.display = bool(event.value)
        self.rows.focus()

    def on_search_left(self, event: Search.Left) -> None:
        event.stop()
        self.action_clear()
