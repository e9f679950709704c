"""Colours: all text is readable in every theme, and only what waits is yellow; and the pictures."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.segment import Segment
from textual.color import BLACK, WHITE, Color
from textual.theme import BUILTIN_THEMES

from ckpt_backends.testing.screen import Seat, sitting
from ckpt_cli.tui.reading import say
from ckpt_cli.tui.styles import DARK_TINTS, LEAST, LIGHT_TINTS, STYLES, contrast, is_text, readable
from ckpt_cli.tui.tabs.checkpoint import SidesRows
from tests.packaging.pictures import FOLDER, PICTURES, Picture, take

pytestmark = pytest.mark.engines


_THEMES = [
    name
    for name, theme in BUILTIN_THEMES.items()
    if not theme.to_color_system().generate()["background"].startswith("ansi_")
]
"""All but those that use the colours of the terminal, which are not known."""


def test_contrast_is_that_of_wcag_and_tinted_text_has_it() -> None:
    assert contrast(BLACK, WHITE) == pytest.approx(21)
    assert contrast(Color(119, 119, 119), WHITE) == pytest.approx(4.48, abs=0.01)
    assert readable(Color(119, 119, 119), WHITE) != Color(119, 119, 119)
    assert readable(BLACK, WHITE) == BLACK
    for one in (*DARK_TINTS.values(), *LIGHT_TINTS.values()):
        assert one.color is not None
        assert one.bgcolor is not None
        on = Color.from_rich_color(one.bgcolor)
        assert contrast(Color.from_rich_color(one.color), on) >= LEAST


async def test_all_text_is_readable_in_every_theme(sample: Path) -> None:
    assert len(_THEMES) > 10
    async with sitting(sample, writes=True, size=(80, 24)) as seat:
        _the_header_has_the_colour(seat, "error")
        # A search marks lines, and the cursor is on a thread with red and green beside it.
        await seat.press("j", "l", "2")
        await seat.search("a")
        for name in _THEMES:
            seat.app.theme = name
            for rows in (seat.threads, seat.tree):
                rows.focus()
                await seat.pilot.pause()
                _red_and_green_can_be_told_apart_on_the_cursor(seat)
            seat.document.focus()
            await _all_text_is_readable(seat)
        for key in ("F", "question_mark", "colon"):
            await seat.press(key)
            for name in _THEMES[::9]:
                seat.app.theme = name
                await _all_text_is_readable(seat)
            await seat.press("escape")


async def _all_text_is_readable(seat: Seat) -> None:
    await seat.pilot.pause()
    for segment in _texts(seat):
        assert _contrast(segment) >= LEAST, (seat.app.screen, seat.app.theme, segment)


def _red_and_green_can_be_told_apart_on_the_cursor(seat: Seat) -> None:
    rows = seat.threads
    on_cursor = next(iter(rows.render_line(rows.cursor))).style
    assert on_cursor is not None
    assert on_cursor.bgcolor is not None
    below = Color.from_rich_color(on_cursor.bgcolor)
    assert below != rows.background_colors[1], seat.app.theme
    colors = seat.app.ansi_theme.ansi_colors
    red, green = (readable(Color(*colors[at]), below) for at in (1, 2))
    assert red.r - max(red.g, red.b) > 20, (seat.app.theme, red)
    assert green.g - max(green.r, green.b) > 20, (seat.app.theme, green)


async def test_without_colours_all_text_is_readable(
    sample: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    async with sitting(sample) as seat:
        for name in ("textual-dark", "textual-light"):
            seat.app.theme = name
            await _all_text_is_readable(seat)
            for segment in _texts(seat):
                assert segment.style is not None
                assert segment.style.color is not None
                assert len(set(segment.style.color.get_truecolor())) == 1
        assert seat.sees("✗ invoice-import", "? refund-4711", "▸ anna", "✓ nightly-report")


async def test_only_what_waits_is_yellow_and_tints_follow_the_theme_below_a_match(
    seat: Seat,
) -> None:
    _the_header_has_the_colour(seat, "panel")
    waits = STYLES["question"].color
    assert [name for name, style in STYLES.items() if style.color == waits] == ["question"]
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
    await seat.press("escape", "enter", "g", "d")
    for theme, tints in (("textual-light", LIGHT_TINTS), ("textual-dark", DARK_TINTS)):
        seat.app.theme = theme
        await seat.rest()
        seen = {one.style.bgcolor for strip in seat.draw() for one in strip if one.style}
        assert tints["removed"].bgcolor in seen
    await seat.search("KYO-HKK")
    rows = seat.app.screen.query_one(SidesRows)
    tint = DARK_TINTS["removed"].bgcolor
    found, other = (rows.render_line(at - rows.seen.start) for at in (rows.here, rows.here + 1))
    assert tint not in {one.style.bgcolor for one in found if one.style}
    assert tint in {one.style.bgcolor for one in other if one.style}


def _the_header_has_the_colour(seat: Seat, name: str) -> None:
    wanted = Color.parse(seat.app.get_css_variables()[name]).rich_color.name
    styles = [part.style for part in seat.draw()[0]]
    assert {one.bgcolor.name for one in styles if one and one.bgcolor} == {wanted}
    assert seat.lines[0].startswith(" ckpt WRITE") == (name == "error")


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


@pytest.mark.parametrize("picture", PICTURES, ids=lambda one: one.name)
def test_the_screen_looks_as_in_its_picture(picture: Picture) -> None:
    kept = (FOLDER / f"{picture.name}.svg").read_text(encoding="utf-8")
    # Not compared by pytest, which would look for the difference of long lines for minutes.
    is_same = take(picture) == kept
    assert is_same, "if this is meant: python -m tests.packaging.pictures"
