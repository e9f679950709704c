"""Use the screen: `main filter STORE TEXT`, or `main step STORE TAB`

Prints the seconds and CPU seconds from a key until the screen shows what was asked for.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
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


@asynccontextmanager
async def _running(store: str) -> AsyncIterator[tuple[Any, Any]]:
    """Yield the application and its driver, with threads and a state on the screen."""
    app: Any = CkptApp(ScreenContext(Opening(parse_url(store)), ["-s", store], UTC, 0))
    async with app.run_test(size=(120, 40)) as pilot:
        await _until(lambda: app.screen.inspector.shown is not None)
        yield app, pilot


async def _filtered(store: str, text: str) -> tuple[float, float]:
    async with _running(store) as (app, pilot):
        pane, workers = app.screen.threads_pane, app.screen.context.workers
        every = len(pane.listing.shown)
        seconds, cpu = monotonic(), process_time()
        await pilot.press("slash", *text)
        await _until(lambda: not any(worker.waiting for worker in workers))
        await pilot.pause()
        took = monotonic() - seconds, process_time() - cpu
        assert 0 < len(pane.listing.shown) < every
        return took


async def _stepped(store: str, tab: str) -> tuple[float, float]:
    """Return the medians until the content of the next checkpoint is painted."""
    found: list[tuple[float, float]] = []
    async with _running(store) as (app, pilot):
        screen = app.screen

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
    name, store, word = sys.argv[1:]
    print(*asyncio.run({"filter": _filtered, "step": _stepped}[name](store, word)))
