"""A plan, and the question whether to apply it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import monotonic
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from ckpt_cli.render.text import StyledLine, line
from ckpt_cli.tui.panes.footer import KeyLine
from ckpt_cli.tui.panes.row_list import Lines
from ckpt_cli.tui.panes.styles import as_text, title

_UNREAD = 0.3
"""Seconds in which `y` is ignored, because it was meant for the previous screen."""


class PlanScreen(ModalScreen[bool]):
    """Shows the same text as the command prints; only `y` applies the plan."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "agree", "Yes"),
        Binding("n,escape,q,h", "dismiss(False)", "No", key_display="n Esc"),
    ]

    def __init__(self, question: str, lines: Callable[[int], Sequence[StyledLine]]) -> None:
        super().__init__()
        self._question, self._lines = question, lines
        self.since = monotonic()

    def compose(self) -> ComposeResult:
        self._rows = Lines(id="plan")
        self._foot = Static(id="question")
        with Vertical(classes="box") as box:
            title(box, "Plan")
            yield self._rows
            yield self._foot
        yield KeyLine()

    def on_mount(self) -> None:
        self.since = monotonic()
        self._rows.focus()

    def on_resize(self) -> None:
        lines = self._lines(self._rows.width)
        self._rows.show_lines(lines)
        more = "  scroll down for the rest" if len(lines) > self._rows.size.height else ""
        self._foot.update(as_text(line((self._question, "question"), (more, "dim"))))

    def action_agree(self) -> None:
        if monotonic() - self.since >= _UNREAD:
            self.dismiss(True)
