"""The application and its first screen."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any, ClassVar, Literal

from textual.app import App, SystemCommand
from textual.binding import Binding, BindingType
from textual.command import CommandPalette
from textual.dom import DOMNode
from textual.events import Event, Key
from textual.filter import LineFilter
from textual.notifications import SeverityLevel
from textual.screen import Screen
from textual.timer import Timer
from textual.widgets import Input

from ckpt_backends.model import CheckpointKey
from ckpt_backends.platform import ENDING
from ckpt_cli.render.text import safe_text
from ckpt_cli.tui.context import RememberedLook, ScreenContext, read_look, write_look
from ckpt_cli.tui.reading import MOST, ScreenMessage, share_often
from ckpt_cli.tui.screens.dialogs import MessagesScreen
from ckpt_cli.tui.screens.main import Changes, MainScreen
from ckpt_cli.tui.styles import ReadableText

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


Start = Literal["threads", "memory", "memory alone"]
"""The first screen. `memory alone` if the store of the memory's threads is not known."""


_READABLE = ReadableText()
_UNTIL_A_KEY = 1e6
"""Seconds that an error is shown, if nobody presses a key."""
_TWICE = 2.0
"""Seconds in which a second Ctrl-C leaves."""


class CkptApp(OrderedKeysApp):
    """`ckpt tui`."""

    # Before the field or the box that has the focus, so that it leads out from everywhere.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("ctrl+c", "interrupt", "Quit", show=False, priority=True)
    ]
    CSS_PATH = Path(__file__).parent / "theme.tcss"
    TITLE = "ckpt"
    ENABLE_COMMAND_PALETTE: ClassVar[bool] = True

    def __init__(
        self,
        context: ScreenContext,
        start: Start = "threads",
        look: Path | None = None,
        goal: CheckpointKey | None = None,
        changes: Callable[[MainScreen], Changes] | None = None,
    ) -> None:
        """`look` is the file that remembers how the screen looked; None to remember nothing.

        `goal` is the checkpoint that is shown first; `changes` makes what `--write` adds.
        """
        super().__init__()
        # No animation: the terminal may be slow, and motion distracts.
        self.animation_level = "none"
        share_often()
        self.context = context
        self._start = start
        self._goal, self._changes = goal, changes
        self._look = look
        self._recalled: RememberedLook | None = None
        """What was remembered; None until it is read."""
        self._main: MainScreen | None = None
        self.ended_by: int | None = None
        """The signal that closed the screen."""
        self._interrupted = -inf
        """The time of the last Ctrl-C."""
        self.messages: deque[ScreenMessage] = deque(maxlen=MOST)
        """What was said in this session, the newest last."""

    def on_load(self) -> None:
        """Let signals close the screen as `q` does, which restores the terminal.

        An exception from a signal handler could interrupt Textual at any place, also while it
        restores the terminal. Called before the terminal is changed.
        """
        loop = asyncio.get_running_loop()
        for number in ENDING:
            if signal.getsignal(number) is not signal.SIG_IGN:
                loop.add_signal_handler(number, self._end, number)

    def _end(self, number: int) -> None:
        self.ended_by = number
        self.exit()

    def get_default_screen(self) -> Screen[Any]:
        if self._start == "memory alone":
            from ckpt_cli.tui.screens.memory import MemoryScreen

            return MemoryScreen(self.context, alone=True)
        self._main = MainScreen(self.context, self._goal, self._changes)
        return self._main

    def on_mount(self) -> None:
        self._recall()
        if self._start == "memory" and isinstance(self.screen, MainScreen):
            self.screen.action_memory()

    async def on_main_screen_looked_back(self, event: MainScreen.LookedBack) -> None:
        """Show the store as it was, over the screen that shows it as it is, or leave the past."""
        screen, moment = event.screen, event.moment
        is_past = screen.context.opening.as_of is not None
        if moment is not None:
            past = MainScreen(screen.context.at(moment), event.place)
            past.remembered = screen.look
            await (self.switch_screen(past) if is_past else self.push_screen(past))
        elif is_past:
            await self.pop_screen()
            if event.place is not None and isinstance(self.screen, MainScreen):
                self.screen.jump(event.place)

    def action_command_palette(self) -> None:
        """Open the palette, which runs a key by its name or goes to a checkpoint."""
        if not isinstance(self.screen, CommandPalette):
            hint = "Name of a key, THREAD or THREAD@REF"
            self.push_screen(CommandPalette(placeholder=hint, id="--command-palette"))

    def action_messages(self) -> None:
        """List what was said in this session."""
        self.push_screen(MessagesScreen(list(self.messages), self.context.zone))

    def action_interrupt(self) -> None:
        """Copy the text that is selected; otherwise leave at the second Ctrl-C."""
        field = self.focused
        selected = field.selected_text if isinstance(field, Input) else None
        selected = selected or self.screen.get_selected_text()
        now = time.monotonic()
        if selected:
            self.copy_to_clipboard(selected)
        elif now - self._interrupted < _TWICE:
            self.exit()
        else:
            self._interrupted = now
            self.notify("press Ctrl-C again to quit", timeout=_TWICE, markup=False)

    async def on_event(self, event: Event) -> None:
        """Hide the message at the next key, before the key is carried out."""
        if isinstance(event, Key) and not event.is_forwarded:
            self.clear_notifications()
        await super().on_event(event)

    def notify(
        self,
        message: str,
        *,
        title: str = "",  # noqa: ARG002
        severity: SeverityLevel = "information",
        timeout: float | None = None,
        markup: bool = False,  # noqa: ARG002
    ) -> None:
        """Show a message in place of the one before; markup is not parsed.

        An error stays until the next key, another message at most `timeout` seconds.
        """
        said = ScreenMessage(self.context.now(), safe_text(message), severity == "error")
        self.messages.append(said)
        self.clear_notifications()
        seconds = self.NOTIFICATION_TIMEOUT if timeout is None else timeout
        seconds = _UNTIL_A_KEY if said.is_error else seconds
        super().notify(said.shown, severity=severity, timeout=seconds, markup=False)

    @property
    def message(self) -> ScreenMessage | None:
        """The message that is shown."""
        return self.messages[-1] if self.screen.query("Toast") else None

    def get_system_commands(self, screen: Screen[Any]) -> Iterable[SystemCommand]:
        """Offer the themes where no key does; Textual's other commands stay out of the palette."""
        if not isinstance(screen, MainScreen):
            yield SystemCommand("Theme", "Choose the colours", self.action_change_theme)

    def on_unmount(self) -> None:
        self._remember()
        self.context.close()

    def get_line_filters(self) -> Sequence[LineFilter]:
        return [*super().get_line_filters(), _READABLE]

    def _recall(self) -> None:
        """Look as the screen did when it was left."""
        if self._look is None:
            return
        self._recalled = look = read_look(self._look)
        if look.theme in self.available_themes:
            self.theme = look.theme
        if self._main is not None:
            self._main.remembered = look

    def _remember(self) -> None:
        look = self._recalled
        # A signal may end the screen before anything is read or shown.
        if self._look is None or look is None:
            return
        if self._main is not None and self._main.is_mounted:
            look = self._main.look
        write_look(self._look, replace(look, theme=self.theme))
