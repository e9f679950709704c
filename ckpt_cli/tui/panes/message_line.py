"""The line at the bottom that shows the last message."""

from __future__ import annotations

from textual.widgets import Static

from ckpt_cli.render.text import line
from ckpt_cli.tui.messages import ScreenMessage
from ckpt_cli.tui.panes.styles import as_text


class MessageLine(Static):
    """The last message in place of the footer; hidden if there is none."""

    DEFAULT_CSS = """
    MessageLine { layer: message; dock: bottom; height: auto; max-height: 3; width: 100%;
        padding: 0 1; background: $panel; color: $foreground; display: none; }
    MessageLine.said { display: block; }
    """

    def show(self, message: ScreenMessage | None) -> None:
        """Show a message; None hides the line."""
        self.set_class(message is not None, "said")
        if message is not None:
            text = as_text(line((message.shown, "error" if message.is_error else "plain")))
            text.no_wrap = False
            self.update(text)
