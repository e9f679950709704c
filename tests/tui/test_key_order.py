"""Keys that come faster than the screen handles them."""

from __future__ import annotations

from pathlib import Path

from textual.events import Key
from textual.widgets import Input

from ckpt_backends.testing.screen import Seat, sit
from ckpt_cli.tui.screens.lists import SearchScreen


def typed_at_once(seat: Seat, *keys: str) -> None:
    """Press keys without waiting, as a paste into a slow terminal does."""
    for key in keys:
        seat.app.post_message(Key(key, key if len(key) == 1 else None))


def test_what_is_typed_at_once_into_a_filter_runs_no_command(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        # Of these letters, e lists errors, and D deletes a thread.
        typed_at_once(seat, "slash", *"DeFXw")
        await seat.until(lambda: seat.main.threads_pane.search.value == "DeFXw")
        await seat.rest()
        assert seat.app.screen is seat.main

    sit(sample, look, writes=True)


def test_what_is_typed_at_once_reaches_the_field_of_a_new_screen(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        typed_at_once(seat, "S", *"hotel")
        await seat.rest()
        screen = seat.app.screen
        assert isinstance(screen, SearchScreen)
        assert screen.query_one(Input).value == "hotel"

    sit(sample, look)
