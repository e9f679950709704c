"""Use the screen: `main step STORE TAB`

Prints the seconds and CPU seconds from a key until the screen shows the next checkpoint.
"""

import asyncio
import sys
from collections.abc import Callable
from datetime import UTC
from time import monotonic, process_time
from typing import Any

from textual.events import Key

from ckpt_backends.url import parse_url
from ckpt_cli.reading.store import Opening
from ckpt_cli.tui.app import CkptApp
from ckpt_cli.tui.context import ScreenContext

_STEPS = 40
_PATIENCE = 120.0


async def _until(holds: Callable[[], Any]) -> None:
    end = monotonic() + _PATIENCE
    while not holds():
        assert monotonic() < end, "never shown"
        await asyncio.sleep(0.001)


async def _stepped(store: str, tab: str) -> tuple[float, float]:
    """Return the medians until the content of the next checkpoint is painted."""
    found: list[tuple[float, float]] = []
    app: Any = CkptApp(ScreenContext(Opening(parse_url(store)), ["-s", store], UTC, 0))
    async with app.run_test(size=(120, 40)) as pilot:
        screen = app.screen
        await _until(lambda: screen.inspector.shown is not None)

        async def shown(before: object) -> None:
            at = screen.inspector
            await _until(lambda: at.shown != before and at.shown == (screen.place, tab))

        await pilot.press("enter", "o")
        await asyncio.sleep(2)
        screen.inspector.turn(tab)
        await shown(None)
        for _ in range(_STEPS):
            painted, before = asyncio.Event(), screen.inspector.shown
            seconds, cpu = monotonic(), process_time()
            # As the driver of a terminal does it; `pilot.press` sleeps 40 ms for each key.
            app._driver.send_message(Key("k", "k"))
            await shown(before)
            screen.call_after_refresh(painted.set)
            await painted.wait()
            found.append((monotonic() - seconds, process_time() - cpu))
            await asyncio.sleep(0.1)
    return sorted(found)[_STEPS // 2]


def main() -> None:
    """Print the seconds and the CPU seconds."""
    _, store, tab = sys.argv[1:]
    print(*asyncio.run(_stepped(store, tab)))
