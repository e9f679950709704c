"""The last line of a screen, with its most used keys."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.binding import Binding
from textual.screen import Screen
from textual.widgets import Footer
from textual.widgets._footer import FooterKey


class KeyLine(Footer):
    """Textual's footer, built again only when other keys are shown.

    Textual builds it for each focus, and keeps all keys that it ever built: each is bound to the
    footer by `data_bind`, which has no end (8.2).
    """

    def __init__(self) -> None:
        super().__init__(show_command_palette=False)
        self._keys: tuple[Binding, ...] = ()

    def compose(self) -> ComposeResult:
        for one in self._keys:
            shown = self.app.get_key_display(one)
            key = FooterKey(one.key, shown, one.description, one.action)
            key.set_reactive(FooterKey.compact, self.compact)
            yield key

    def bindings_changed(self, screen: Screen[object]) -> None:
        """Show the keys that work now."""
        if not self.is_attached or screen is not self.screen or not screen.app.app_focus:
            return
        # Several keys may do the same: the first one is shown.
        shown: dict[str, Binding] = {}
        for one in screen.active_bindings.values():
            if one.binding.show:
                shown.setdefault(one.binding.action, one.binding)
        found = tuple(shown.values())
        if found != self._keys:
            self._keys = found
            self.call_after_refresh(self.recompose)
