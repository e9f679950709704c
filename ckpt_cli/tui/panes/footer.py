"""The last line of a screen: its most used keys, and above them what it says."""

from __future__ import annotations

from collections.abc import Collection
from typing import ClassVar

from rich.style import Style
from rich.text import Text
from textual.binding import Binding
from textual.events import MouseDown
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from ckpt_cli.render.text import line
from ckpt_cli.tui.messages import ScreenMessage
from ckpt_cli.tui.styles import as_text


class KeyLine(Widget, can_focus=False):
    """The keys that work now. A click on one presses it.

    Textual's footer is built again for each focus, and keeps each key that it ever built (8.2).
    """

    ALLOW_SELECT = False
    COMPONENT_CLASSES: ClassVar[set[str]] = {"key-line--key", "key-line--description"}
    DEFAULT_CSS = """
    KeyLine {
        dock: bottom;
        height: 1;
        text-wrap: nowrap;
        color: $footer-foreground;
        background: $footer-background;
        .key-line--key {
            color: $footer-key-foreground;
            background: $footer-key-background;
            text-style: bold;
        }
        .key-line--description {
            color: $footer-description-foreground;
            background: $footer-description-background;
        }
    }
    """

    def __init__(self, hides: Collection[str] = ()) -> None:
        """`hides` are actions whose keys are not shown."""
        super().__init__()
        self._hides = hides
        self.shown: tuple[Binding, ...] = ()

    def render(self) -> Text:
        key_style = self.get_component_rich_style("key-line--key")
        description_style = self.get_component_rich_style("key-line--description")
        line = Text(no_wrap=True)
        for one in self.shown:
            pressed = Style(meta={"key": one.key})
            line.append(f" {self.app.get_key_display(one)} ", key_style + pressed)
            line.append(f"{one.description} ", description_style + pressed)
        return line

    def on_mount(self) -> None:
        self.screen.bindings_updated_signal.subscribe(self, self.bindings_changed)

    def on_mouse_down(self, event: MouseDown) -> None:
        if key := event.style.meta.get("key"):
            self.app.simulate_key(key)

    def bindings_changed(self, screen: Screen[object]) -> None:
        """Show the keys that work now."""
        if not self.is_attached or screen is not self.screen or not screen.app.app_focus:
            return
        # Several keys may do the same: the first one is shown.
        found: dict[str, Binding] = {}
        for one in screen.active_bindings.values():
            if one.binding.show and one.binding.action not in self._hides:
                found.setdefault(one.binding.action, one.binding)
        if self.shown != (shown := tuple(found.values())):
            self.shown = shown
            self.refresh()


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
