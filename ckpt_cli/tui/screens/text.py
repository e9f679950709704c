"""A box with lines to read: the help, and command lines to copy."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Footer

from ckpt_cli.render.lines import Line, line
from ckpt_cli.tui.keys import MOVING, Key
from ckpt_cli.tui.panes import Found, title


class TextScreen(ModalScreen[None]):
    """Lines in a box; `copied` tells whether the line under the cursor can be copied."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q,question_mark", "dismiss", "Close", key_display="Esc"),
        Binding("y", "copy", "Copy"),
    ]

    def __init__(self, heading: str, lines: Sequence[Line], *, copies: bool) -> None:
        super().__init__()
        self._heading, self._lines, self._copies = heading, lines, copies

    def compose(self) -> ComposeResult:
        self._rows = Found(id="text")
        with Vertical(classes="box") as box:
            title(box, self._heading)
            yield self._rows
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        self._rows.show_lines(self._lines)
        self._rows.focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        return action != "copy" or self._copies

    def action_copy(self) -> None:
        text = self._lines[self._rows.cursor].text
        self.app.copy_to_clipboard(text)
        self.notify("copied", markup=False)


def help_screen(keys: Sequence[Key]) -> TextScreen:
    """All keys, with what they do."""
    lines = [line((f"{name:<17}", "head"), text) for name, text in MOVING]
    lines.append(line(""))
    lines += [line((f"{key.shown:<17}", "head"), key.help) for key in keys]
    return TextScreen("Keys", lines, copies=False)
