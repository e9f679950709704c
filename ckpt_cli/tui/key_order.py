"""Keys are handled one after the other, however fast they come."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from textual.app import App
from textual.dom import DOMNode
from textual.events import Event, Key
from textual.timer import Timer

_PATIENCE = 0.5
"""Seconds after which the next key is handled although a widget with the last one has gone."""
_MOUNTING = 0.005
"""Seconds between looks whether a new screen is ready."""


class OrderedKeysApp(App[None]):
    """An application that handles a key after all that the key before it does.

    Textual passes a key to what has the focus at that time, also if an earlier key is about to move
    the focus: of `/trip`, typed at once, `trip` would run as commands.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self._keys_ahead: deque[Key] = deque()
        self._key_timer: Timer | None = None
        """Runs while a key is handled."""

    async def on_event(self, event: Event) -> None:
        """Handle an event; a key waits until the one before it was handled."""
        if not isinstance(event, Key) or event.is_forwarded:
            await super().on_event(event)
        elif self._key_timer is not None:
            self._keys_ahead.append(event)
        else:
            await self._handle_key(event)

    async def _handle_key(self, event: Key) -> None:
        # A key goes to the focused widget, and from there to one parent after the other.
        way = iter((self.focused or self.screen).ancestors_with_self)
        timer = self._key_timer = self.set_timer(_PATIENCE, self._end_key)
        await super().on_event(event)
        self._follow(way, timer)

    def _follow(self, way: Iterator[DOMNode], timer: Timer) -> None:
        """Follow a key through the queues of all widgets, and end it behind the last one."""
        if timer is not self._key_timer:
            return
        if (stop := next(way, None)) is not None:
            if not stop.call_later(self._follow, way, timer):
                self._follow(way, timer)
        elif self.screen.is_mounted:
            # After a call that moves the focus.
            self.call_later(self._end_key)
        else:
            self.set_timer(_MOUNTING, lambda: self._follow(way, timer))

    async def _end_key(self) -> None:
        if self._key_timer is not None:
            self._key_timer.stop()
            self._key_timer = None
        if self._keys_ahead:
            await self._handle_key(self._keys_ahead.popleft())
