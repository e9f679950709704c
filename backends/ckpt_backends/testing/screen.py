"""Sitting at the screen: keys pressed and text read, as a person does."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from math import inf
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from textual.errors import NoWidget
from textual.events import Key, Paste
from textual.geometry import Region
from textual.keys import key_to_character
from textual.pilot import Pilot
from textual.screen import Screen
from textual.strip import Strip
from textual.widget import Widget
from textual.widgets import Input

from ckpt_backends.model import CheckpointKey
from ckpt_backends.url import parse_url
from ckpt_cli.reading.store import Opening
from ckpt_cli.tui.app import CkptApp, Start
from ckpt_cli.tui.context import MemoryNamed, ScreenContext
from ckpt_cli.tui.reading import Delays
from ckpt_cli.tui.screens.dialogs import PlanScreen
from ckpt_cli.tui.screens.main import MainScreen

if TYPE_CHECKING:
    from ckpt_cli.tui.panes.document import DocumentRows
    from ckpt_cli.tui.panes.threads import ThreadLines
    from ckpt_cli.tui.panes.tree import TreePicture, TreeRows
    from ckpt_cli.tui.writing import Writing

NOW = datetime(2026, 4, 8, 12, 0, tzinfo=UTC)
"""When the tests look at the sample store."""
_QUIET = 3
"""Looks in a row without any question to a store after which the screen has come to rest."""
_PATIENCE = 30.0
_LOOK = 0.004
"""Seconds between two looks. Textual's pilot waits ten times as long after each key."""


class Seat:
    """One person before one screen."""

    def __init__(self, app: CkptApp, pilot: Pilot[None]) -> None:
        self.app = app
        self.pilot = pilot

    @property
    def main(self) -> MainScreen:
        """The main screen, also while another one is over it."""
        return self._mains[-1]

    @property
    def _mains(self) -> list[MainScreen]:
        """The main screen, and over it that of an earlier time."""
        return [one for one in self.app.screen_stack if isinstance(one, MainScreen)]

    @property
    def place(self) -> CheckpointKey:
        """The checkpoint that is selected."""
        assert self.main.place is not None
        return self.main.place

    @property
    def picture(self) -> TreePicture:
        """The tree as it is drawn."""
        assert self.tree.picture is not None
        return self.tree.picture

    @property
    def threads(self) -> ThreadLines:
        """The rows of the pane of threads."""
        return self.main.threads_pane.rows

    @property
    def tree(self) -> TreeRows:
        """The rows of the tree."""
        return self.main.tree_pane.rows

    @property
    def document(self) -> DocumentRows:
        """The rows of the tab that is shown."""
        return self.main.inspector.rows

    @property
    def ids(self) -> list[str]:
        """The threads that the filter lets through."""
        return [one.thread_id for one in self.main.threads_pane.listing.shown]

    @property
    def read(self) -> str:
        """The whole text of the tab that is shown, of which the screen may show a part."""
        return "\n".join(one.text for one in self.document.lines)

    @property
    def lines(self) -> list[str]:
        """What the screen shows, line by line, without colours."""
        return ["".join(segment.text for segment in strip).rstrip() for strip in self.draw()]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    @property
    def said(self) -> str:
        """What the message line says, which the screen may break into lines."""
        return "" if self.app.message is None else self.app.message.text

    @property
    def _is_pressing(self) -> bool:
        """Whether a key is not handled yet."""
        return self.app.return_code is None and self.app._key_timer is not None

    async def press(self, *keys: str) -> None:
        """Press keys one after the other, and wait for what they bring."""
        for key in keys:
            if isinstance(self.app.screen, PlanScreen):
                # A person has read the plan by now.
                self.app.screen.since = -inf
            await self.press_at_once(key)
            await self.rest()
        self.draw()

    async def see(self, keys: str, *words: str) -> None:
        """Press keys, which spaces divide, and see all of these words then."""
        await self.press(*keys.split())
        shown = self.text
        assert [one for one in words if one not in shown] == [], shown

    async def hear(self, keys: str, words: str) -> None:
        """Press keys, and wait until the message line has these words."""
        await self.press(*keys.split())
        await self.until(lambda: words in self.said)

    async def press_at_once(self, *keys: str) -> None:
        """Press keys, and wait only until each was handled."""
        for key in keys:
            arrived: list[bool] = []
            self.app.post_message(Key(key, key_to_character(key)))
            self.app.call_later(arrived.append, True)
            # A key may end the screen.
            while self.app.return_code is None and (not arrived or self._is_pressing):
                await asyncio.sleep(_LOOK)

    async def type(self, text: str) -> None:
        """Type a text, and wait for what it brings. A field gets all but the last key at once."""
        if text and isinstance(self.app.focused, Input):
            self.app.post_message(Paste(text[:-1]))
            await self.pilot.pause(_LOOK)
            text = text[-1]
        await self.press_at_once(*(_key(one) for one in text))
        await self.rest()
        self.draw()

    async def fill(self, key: str, text: str) -> None:
        """Press a key that leads to a field, fill the field, and press Enter."""
        await self.press(key)
        if isinstance(self.app.focused, Input):
            self.app.focused.value = ""
        await self.type(text)
        await self.press("enter")

    async def search(self, text: str) -> None:
        """Search the pane with the focus, or filter its threads."""
        await self.fill("slash", text)

    def draw(self) -> list[Strip]:
        """Draw what can be seen of all screens. What cannot be drawn raises here."""
        width, height = self.app.size
        lines = [Strip.blank(width)] * height
        screens = self.app.screen_stack
        lowest = max(at for at, one in enumerate(screens) if at == 0 or _hides_others(one))
        for screen in screens[lowest:]:
            for widget, region, clip in _placed(screen):
                _paint(lines, widget, region, region.intersection(clip))
        return lines

    async def rest(self) -> None:
        """Wait until nothing is asked of the store any more."""
        quiet, ends = 0, monotonic() + _PATIENCE
        while monotonic() < ends:
            # Painted only then: what comes in between is not looked at.
            if self._is_busy:
                quiet = 0
                await asyncio.sleep(_LOOK)
                continue
            # Until the messages of all widgets are processed.
            await self.pilot.pause(_LOOK)
            quiet += 1
            if quiet >= _QUIET and not self._is_busy:
                return
        raise AssertionError("the screen does not come to rest")

    @property
    def _is_busy(self) -> bool:
        """Whether a key is being handled, or a pane reads or will read soon."""
        # A change waits for a person while another screen is over the main one.
        may_wait = {} if isinstance(self.app.screen, MainScreen) else {"change"}
        contexts = (self.app.context, *(one.context for one in self._mains))
        return (
            self._is_pressing
            or any(one.group not in may_wait for one in self.app.workers if not one.is_finished)
            or any(one.waiting for each in contexts for one in each.workers)
            or any(map(_will_read, self.app.screen_stack))
        )

    async def until(self, holds: Callable[[], Any]) -> None:
        """Wait until something is so."""
        for _ in range(int(_PATIENCE / 0.05)):
            if holds():
                return
            await asyncio.sleep(0.05)
            await self.pilot.pause()
        raise AssertionError(f"never so:\n{self.text}")

    def sees(self, *words: str) -> bool:
        """Whether all of these are on the screen."""
        return all(word in self.text for word in words)


def _hides_others(screen: Screen[Any]) -> bool:
    return screen.styles.background.a == 1


def _placed(screen: Screen[Any]) -> list[tuple[Widget, Region, Region]]:
    """The widgets of a screen with their regions and what of these can be seen, from below."""
    found = []
    for widget in screen.walk_children(Widget, with_self=_hides_others(screen)):
        vertical, horizontal = widget.scrollbars_enabled
        bars = [widget.vertical_scrollbar] if vertical else []
        bars += [widget.horizontal_scrollbar] if horizontal else []
        for one in (widget, *bars):
            with suppress(NoWidget):
                found.append((screen.find_widget(one), one))
    found.sort(key=lambda placed: placed[0].order)
    return [(widget, place.region, place.clip) for place, widget in found]


def _paint(lines: list[Strip], widget: Widget, region: Region, seen: Region) -> None:
    """Put what can be seen of a widget over what is there."""
    seen = seen.intersection(Region(0, 0, lines[0].cell_length, len(lines)))
    if not seen:
        return
    drawn = widget.render_lines(seen.translate((-region.x, -region.y)))
    for y, strip in zip(seen.line_range, drawn, strict=True):
        below = lines[y]
        parts = [below.crop(0, seen.x), strip, below.crop(seen.right, below.cell_length)]
        lines[y] = Strip.join(part for part in parts if part.cell_length)


def _will_read(screen: Screen[Any]) -> bool:
    """Whether a pane of a screen, or the screen itself, will read something soon."""
    widgets = screen.walk_children(with_self=True)
    delays = (getattr(one, "delays", None) for one in widgets)
    return any(one.is_waiting for one in delays if isinstance(one, Delays))


def _writing() -> type[Writing]:
    """What can change a store is loaded only where it is needed, as for `--write`."""
    from ckpt_cli.tui.writing import Writing

    return Writing


def _key(character: str) -> str:
    names = {":": "colon", "/": "slash", "*": "asterisk", "-": "minus", "@": "at", " ": "space"}
    return names.get(character, character)


def sit(store: str | Path, scenario: Callable[[Seat], Awaitable[None]], **options: Any) -> None:
    """Open the screen on a store as `sitting` does, and do what a scenario says."""

    async def run() -> None:
        async with sitting(store, **options) as seat:
            await scenario(seat)

    asyncio.run(run())


@asynccontextmanager
async def sitting(
    store: str | Path,
    *,
    writes: bool = False,
    size: tuple[int, int] = (120, 40),
    pause: float = 0,
    now: datetime | None = None,
    opening: Opening | None = None,
    memory: MemoryNamed | None = None,
    start: Start = "threads",
    look: Path | None = None,
    goal: CheckpointKey | None = None,
) -> AsyncIterator[Seat]:
    """Sit before a screen that is open on a store."""
    clock = (lambda: datetime.now(UTC)) if now is None else (lambda: now)
    opened = opening or Opening(parse_url(str(store)))
    context = ScreenContext(opened, ["-s", str(store)], UTC, pause, clock, memory)
    app = CkptApp(context, start, look, goal, _writing() if writes else None)
    # What is said stays until it was looked for, however busy the machine is.
    with patch.object(app, "NOTIFICATION_TIMEOUT", 2 * _PATIENCE):
        async with app.run_test(size=size, notifications=True) as pilot:
            seat = Seat(app, pilot)
            await seat.rest()
            seat.draw()
            yield seat
            await seat.rest()
            seat.draw()
