"""Step through a long thread on the screen, and time it: steps.py STORE -> JSON of seconds"""

from __future__ import annotations

import asyncio
import json
import resource
import sys
from datetime import UTC
from statistics import median
from time import monotonic
from typing import Any

from textual.events import Key

from ckpt_backends.url import parse_url
from ckpt_cli.reading.store import Opening
from ckpt_cli.tui.app import CkptApp
from ckpt_cli.tui.context import ScreenContext

_STEPS = 40
_TICK = 0.001
_PATIENCE = 60.0
_TABS = ("state", "diff", "writes", "messages")


async def stepped(store: str) -> dict[str, list[float]]:
    """Return the seconds from each key until the content of its checkpoint is painted, by tab.

    The driver of a terminal sends keys in the same way. `pilot.press` sleeps 40 ms for each.
    """
    context = ScreenContext(Opening(parse_url(store)), ["-s", store], UTC, 0)
    app: Any = CkptApp(context)
    found: dict[str, list[float]] = {}
    async with app.run_test(size=(120, 40)) as pilot:
        screen: Any = app.screen

        async def shown(tab: str, before: object) -> None:
            end = monotonic() + _PATIENCE
            while screen.inspector.shown == before or screen.inspector.shown != (screen.place, tab):
                assert monotonic() < end, f"never shown: {tab}"
                await asyncio.sleep(_TICK)

        await shown("state", None)
        await pilot.press("enter", "o")
        await asyncio.sleep(2)
        for tab in _TABS:
            screen.inspector.turn(tab)
            await shown(tab, None)
            found[tab] = []
            for _ in range(_STEPS):
                painted, before, began = asyncio.Event(), screen.inspector.shown, monotonic()
                app._driver.send_message(Key("k", "k"))
                await shown(tab, before)
                screen.call_after_refresh(painted.set)
                await painted.wait()
                found[tab].append(monotonic() - began)
                await asyncio.sleep(0.1)
    return found


if __name__ == "__main__":
    found = asyncio.run(stepped(sys.argv[1]))
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({**{tab: median(seconds) for tab, seconds in found.items()}, "mib": mib}))
