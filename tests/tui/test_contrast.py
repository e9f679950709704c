"""All text is readable in every theme of Textual, and one colour means that something waits."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.segment import Segment
from textual.color import BLACK, WHITE, Color
from textual.theme import BUILTIN_THEMES

from ckpt_backends.testing.screen import Seat, sit
from ckpt_cli.tui.reading import say
from ckpt_cli.tui.styles import LEAST, STYLES, contrast, is_text, readable

pytestmark = pytest.mark.slow

_THEMES = [
    name
    for name, theme in BUILTIN_THEMES.items()
    if not theme.to_color_system().generate()["background"].startswith("ansi_")
]
"""All but those that use the colours of the terminal, which are not known."""


def test_contrast_is_that_of_wcag() -> None:
    assert contrast(BLACK, WHITE) == pytest.approx(21)
    assert contrast(Color(119, 119, 119), WHITE) == pytest.approx(4.48, abs=0.01)
    assert readable(Color(119, 119, 119), WHITE) != Color(119, 119, 119)
    assert readable(BLACK, WHITE) == BLACK


def test_all_text_is_readable_in_every_theme(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        # A search marks lines, and the cursor is on a thread with red and green beside it.
        await seat.press("j", "l", "2", "slash")
        await seat.type("a")
        await seat.press("enter")
        for key in ("", "F", "question_mark", "colon"):
            if key:
                await seat.press(key)
            for name in _THEMES[:: 9 if key else 1]:
                seat.app.theme = name
                await seat.pilot.pause()
                for segment in _texts(seat):
                    assert _contrast(segment) >= LEAST, (key, name, segment)
            if key:
                await seat.press("escape")

    assert len(_THEMES) > 10
    sit(sample, look, writes=True, size=(80, 24))


def test_red_and_green_can_be_told_apart_on_the_cursor(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        for name in _THEMES:
            seat.app.theme = name
            await seat.pilot.pause()
            rows = seat.main.threads_pane.rows
            for has_focus in (True, False):
                (rows if has_focus else seat.main.tree_pane.rows).focus()
                await seat.pilot.pause()
                on_cursor = next(iter(rows.render_line(rows.cursor))).style
                assert on_cursor is not None
                assert on_cursor.bgcolor is not None
                below = Color.from_rich_color(on_cursor.bgcolor)
                assert below != rows.background_colors[1], name
                colors = seat.app.ansi_theme.ansi_colors
                red, green = (readable(Color(*colors[at]), below) for at in (1, 2))
                assert red.r - max(red.g, red.b) > 20, (name, has_focus, red)
                assert green.g - max(green.r, green.b) > 20, (name, has_focus, green)

    sit(sample, look, size=(80, 24))


def test_without_colours_all_text_is_readable(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")

    async def look(seat: Seat) -> None:
        for name in ("textual-dark", "textual-light"):
            seat.app.theme = name
            await seat.pilot.pause()
            for segment in _texts(seat):
                assert segment.style is not None
                assert segment.style.color is not None
                assert len(set(segment.style.color.get_truecolor())) == 1
                assert _contrast(segment) >= LEAST, (name, segment)
        assert seat.sees("✗ invoice-import", "? refund-4711", "▸ anna", "✓ nightly-report")

    sit(sample, look)


def test_only_what_waits_is_yellow(sample: Path) -> None:
    waits = STYLES["question"].color
    assert [name for name, style in STYLES.items() if style.color == waits] == ["question"]

    async def look(seat: Seat) -> None:
        await seat.press("m", "slash")
        say(seat.main, "an error", is_error=True)
        await seat.rest()
        yellow = seat.app.ansi_theme.ansi_colors[3]
        said = {
            one.text.strip()
            for one in _texts(seat)
            if one.style and one.style.color and one.style.color.triplet == yellow
        }
        assert said == {"?", "refund-4711"}

    sit(sample, look)


def test_a_screen_that_may_write_has_a_red_header(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        assert seat.lines[0].startswith(" ckpt WRITE")
        red = Color.parse(seat.app.theme_variables["error"])
        assert {
            one.style.bgcolor.triplet for one in seat.draw()[0] if one.style and one.style.bgcolor
        } == {red.rgb}

    sit(sample, look, writes=True)


def _texts(seat: Seat) -> Iterator[Segment]:
    for strip in seat.draw():
        for segment in strip:
            if is_text(segment.text):
                yield segment


def _contrast(segment: Segment) -> float:
    style = segment.style
    assert style is not None
    assert style.color is not None
    assert style.bgcolor is not None
    return contrast(Color.from_rich_color(style.color), Color.from_rich_color(style.bgcolor))
