"""A plan, and the question whether to carry it out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Footer

from ckpt_cli.render.lines import Line, line
from ckpt_cli.tui.panes import Found, title


class PlanScreen(ModalScreen[bool]):
    """The same text as the command prints; only `y` carries it out."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "Carry it out"),
        Binding("n,escape,q", "dismiss(False)", "Leave it", key_display="n Esc"),
    ]

    def __init__(self, question: str, lines: Callable[[int], Sequence[Line]]) -> None:
        super().__init__()
        self._question, self._lines = question, lines

    def compose(self) -> ComposeResult:
        self._rows = Found(id="plan")
        with Vertical(classes="box") as box:
            title(box, "Plan")
            yield self._rows
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self._rows.focus()

    def on_resize(self) -> None:
        lines = [*self._lines(self._rows.width), line(""), line((self._question, "question"))]
        self._rows.show_lines(lines)
