"""What the screen remembers of its last use."""

from __future__ import annotations

import asyncio
from datetime import UTC
from pathlib import Path

import pytest

from ckpt_backends.testing.screen import Seat, sit
from ckpt_backends.url import parse_url
from ckpt_cli.reading.store import Opening
from ckpt_cli.tui.app import CkptApp
from ckpt_cli.tui.context import RememberedLook, ScreenContext, read_look, write_look

pytestmark = pytest.mark.slow


def test_theme_sort_tab_fold_and_zoom_come_back(sample: Path, tmp_path: Path) -> None:
    look = tmp_path / "state" / "look.json"

    async def change(seat: Seat) -> None:
        await seat.press("s", "o", "4", "z")
        seat.app.theme = "nord"

    async def again(seat: Seat) -> None:
        assert seat.app.theme == "nord"
        assert seat.main.look == RememberedLook("", "first", "messages", True, True)
        assert seat.sees("oldest first")

    sit(sample, change, look=look)
    assert look.stat().st_mode & 0o777 == 0o600
    assert look.parent.stat().st_mode & 0o777 == 0o700
    sit(sample, again, look=look)


def test_a_screen_that_may_write_remembers_the_same(sample: Path, tmp_path: Path) -> None:
    look = tmp_path / "look.json"

    async def change(seat: Seat) -> None:
        await seat.press("s", "4")
        seat.app.theme = "nord"

    async def again(seat: Seat) -> None:
        assert seat.app.theme == "nord"
        assert (seat.main.look.sort, seat.main.look.tab) == ("first", "messages")

    sit(sample, change, look=look, writes=True)
    sit(sample, again, look=look, writes=True)


def test_the_screen_of_a_memory_alone_remembers_the_theme(sample: Path, tmp_path: Path) -> None:
    look = tmp_path / "look.json"
    write_look(look, RememberedLook("nord", "first"))

    async def change(seat: Seat) -> None:
        assert seat.app.theme == "nord"
        seat.app.theme = "dracula"

    sit(sample, change, look=look, start="memory alone")
    assert read_look(look) == RememberedLook("dracula", "first")


def test_a_screen_that_ends_at_its_start_keeps_what_was_remembered(
    sample: Path, tmp_path: Path
) -> None:
    class Ending(CkptApp):
        def on_load(self) -> None:
            super().on_load()
            self.exit()

    look = tmp_path / "look.json"
    write_look(look, RememberedLook("", "first", "diff"))
    context = ScreenContext(Opening(parse_url(str(sample))), [], UTC, 0)
    asyncio.run(Ending(context, look=look).run_async(headless=True))
    assert (read_look(look).sort, read_look(look).tab) == ("first", "diff")


@pytest.mark.parametrize(
    "text",
    ["", "{", "[]", "[" * 4000, '{"tab": 3, "is_zoomed": "yes"}', '{"more": null}', " " * 5000],
)
def test_a_broken_file_is_ignored(tmp_path: Path, text: str) -> None:
    (tmp_path / "look.json").write_text(text)
    assert read_look(tmp_path / "look.json") == RememberedLook()


def test_a_file_that_cannot_be_used_is_ignored(sample: Path, tmp_path: Path) -> None:
    look = tmp_path / "look.json"
    write_look(look, RememberedLook("no-such", "no-such", "no-such"))

    async def seen(seat: Seat) -> None:
        assert seat.main.look == RememberedLook("", "last", "state")

    sit(sample, seen, look=look)
    assert read_look(tmp_path / "none" / "look.json") == RememberedLook()
    # A folder in the place of the file.
    write_look(tmp_path, RememberedLook())
