"""Use the screen on a store and print how long everything took: screen.py [STORE] -> JSON of
seconds

Without a store, an empty Textual application, for comparison.
"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from time import monotonic, time
from typing import Any

_TICK = 0.005
_PRESSES = 100
_SIZE = (120, 40)


class Pulse:
    """Measures the longest time that the event loop was blocked, for one phase after another."""

    def __init__(self) -> None:
        self.longest = 0.0
        self._task = asyncio.get_running_loop().create_task(self._beat())

    async def _beat(self) -> None:
        while True:
            before = monotonic()
            await asyncio.sleep(_TICK)
            self.longest = max(self.longest, monotonic() - before - _TICK)

    def stop(self) -> None:
        self._task.cancel()


@asynccontextmanager
async def phase(found: dict[str, Any], pulse: Pulse, name: str) -> AsyncIterator[None]:
    """Record the seconds of a phase, and the longest block of the event loop in it."""
    pulse.longest, began = 0.0, monotonic()
    yield
    found[name] = {"seconds": monotonic() - began, "gap": pulse.longest}


async def until(holds: Callable[[], Any], pause: Callable[[], Awaitable[Any]]) -> None:
    while not holds():
        await asyncio.sleep(_TICK)
        await pause()


async def on_store(store: str, began: float) -> dict[str, Any]:
    """Open, scroll and filter."""
    from datetime import UTC

    from ckpt_backends.url import parse_url
    from ckpt_cli.reading.store import Opening
    from ckpt_cli.tui.app import CkptApp
    from ckpt_cli.tui.context import ScreenContext

    found: dict[str, Any] = {}
    context = ScreenContext(Opening(parse_url(store)), ["-s", store], UTC, 0)
    app = CkptApp(context)
    pulse = Pulse()
    async with app.run_test(size=_SIZE) as pilot:
        found["painted"] = time() - began
        screen: Any = app.screen

        def settled() -> bool:
            return not any(worker.waiting for worker in context.workers)

        async with phase(found, pulse, "listing"):
            await until(lambda: screen.threads_pane.listing.shown, pilot.pause)
        async with phase(found, pulse, "first thread"):
            await until(lambda: screen.inspector.rows.lines and settled(), pilot.pause)
        async with phase(found, pulse, f"{_PRESSES} pages down"):
            for _ in range(_PRESSES):
                await pilot.press("pagedown")
        async with phase(found, pulse, f"{_PRESSES} lines down"):
            for _ in range(_PRESSES):
                await pilot.press("down")
        async with phase(found, pulse, "to the end and back"):
            await pilot.press("G", "g")
            await asyncio.sleep(0.2)
            await until(settled, pilot.pause)
        async with phase(found, pulse, "filtering as 'a4f' is typed"):
            await pilot.press("slash", "a", "4", "f")
            await asyncio.sleep(0.2)
            await until(settled, pilot.pause)
        found["filtered"] = len(screen.threads_pane.listing.shown)
        async with phase(found, pulse, "sorting in four ways"):
            await pilot.press("escape", "s", "s", "s", "s")
        async with phase(found, pulse, "looking again"):
            await pilot.press("r")
            await asyncio.sleep(0.2)
            await until(settled, pilot.pause)
        found["threads"] = len(screen.threads_pane.listing.threads)
    pulse.stop()
    return found


async def on_nothing(began: float) -> dict[str, Any]:
    """Measure the minimum that an application needs."""
    from textual.app import App, ComposeResult
    from textual.widgets import Static

    class Empty(App[None]):
        def compose(self) -> ComposeResult:
            yield Static("nothing")

    found: dict[str, Any] = {}
    pulse = Pulse()
    async with Empty().run_test(size=_SIZE) as pilot:
        found["painted"] = time() - began
        async with phase(found, pulse, f"{_PRESSES} keys"):
            for _ in range(_PRESSES):
                await pilot.press("down")
    pulse.stop()
    return found


def main() -> None:
    began, store = time(), sys.argv[1] if len(sys.argv) > 1 else None
    found = asyncio.run(on_nothing(began) if store is None else on_store(store, began))
    assert store is None or 0 < found.pop("filtered") < found.pop("threads")
    told: dict[str, float] = {"first paint": found.pop("painted")}
    for name, phase_of in found.items():
        told[name] = phase_of["seconds"]
        told[f"{name}, longest gap"] = phase_of["gap"]
    told["mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps(told))


if __name__ == "__main__":
    main()
