"""The line that shows the last message, and the list of all messages."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import patch

import pytest
from textual.color import Color

from ckpt_backends.errors import CkptError
from ckpt_backends.testing.screen import Seat, sit
from ckpt_cli.tui.reading import say, screen_hint
from ckpt_cli.tui.styles import readable


def test_an_error_stays_until_a_key_and_the_last_message_is_shown_alone(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        footer = seat.lines[-1]
        await seat.press("y")
        note = seat.lines[-1]
        assert note.startswith(" copied: ")
        await seat.press("slash")
        await seat.type("status:oops")
        await seat.press("enter")
        assert seat.lines[-1].startswith(" ! no status 'oops'")
        # One line at most, until it is too long.
        assert sum(one.display for one in seat.app.screen.query("Toast")) == 1
        assert note.strip() not in seat.text
        colours = {
            segment.style.color.name
            for segment in seat.draw()[-1]
            if segment.style is not None and segment.style.color and segment.text.strip()
        }
        red = Color(*seat.app.ansi_theme.ansi_colors[1])
        assert colours == {
            readable(red, Color.parse(seat.app.theme_variables["panel"])).hex.lower()
        }
        await seat.press("escape")
        assert seat.lines[-1] == footer
        await seat.press("L")
        listed = [one for one in seat.lines if "oops" in one or "copied" in one]
        assert "! no status 'oops'" in listed[0]
        assert note.strip() in listed[-1]
        await seat.press("escape")
        assert seat.app.screen is seat.main

    sit(sample, look)


def test_a_note_goes_away_by_itself(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        with patch.object(seat.app, "NOTIFICATION_TIMEOUT", 0.2):
            say(seat.main, "a note")
            say(seat.main, "an error", is_error=True)
            say(seat.main, "another note")
        await seat.until(lambda: not seat.said)
        with patch.object(seat.app, "NOTIFICATION_TIMEOUT", 0.01):
            say(seat.main, "a note")
            say(seat.main, "an error", is_error=True)
        await seat.pilot.pause(0.1)
        assert seat.said == "an error"

    sit(sample, look)


def test_a_message_is_shown_over_each_screen(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        await seat.press("c", "y")
        assert seat.lines[-1].startswith(" copied")
        await seat.press("escape")
        assert seat.said == ""
        say(seat.main, "x\x1b[31m" + "word " * 60)
        await seat.rest()
        # A long one takes three lines, and the panes keep their places.
        assert seat.lines[-3].startswith(r" x\x1b[31mword word")
        assert seat.main.query_one("#body").region.bottom == 39

    sit(sample, look)


@pytest.mark.parametrize(
    ("hint", "shown"),
    [
        ("an agent may be running; check the thread, then run the command again", None),
        ("new ids must sort later; override with --force", "new ids must sort later"),
        ("leave out --redact, or use a condition", ""),
        ("--dry-run shows the plan without writing", ""),
        (
            "`ckpt diff --writes THREAD@REF` shows what its tasks wrote",
            "the tab Writes shows what its",
        ),
        ("`ckpt show THREAD@REF` says why", "the tab Raw"),
        ("`ckpt rollback trip REF` goes to any checkpoint", "B on a checkpoint goes back"),
        ("sound values: `ckpt rollback trip REF`", "sound values: press B"),
        ("`ckpt ops list` lists all operations", "press O to list all operations"),
        ("use step:3 or step:-1", "use step:3 or step:-1"),
    ],
)
def test_hints_name_keys_and_no_options(hint: str, shown: str | None) -> None:
    said = screen_hint(CkptError("no", hint=hint))
    assert "--" not in said
    assert "command" not in said
    if shown is not None:
        assert said.startswith(shown)
        assert bool(said) == bool(shown)
