"""Lines are readable in every theme of Textual."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.color import BLACK, WHITE, Color
from textual.theme import BUILTIN_THEMES

from ckpt_backends.testing.screen import Seat, sit
from ckpt_cli.tui.contrast import LEAST, backgrounds, contrast, is_of_terminal, readable
from ckpt_cli.tui.panes.styles import STYLES

_THEMES = [name for name, theme in BUILTIN_THEMES.items() if not is_of_terminal(theme)]
_USED = {style.color.number for style in STYLES.values() if style.color is not None}


def test_contrast_is_that_of_wcag() -> None:
    assert contrast(BLACK, WHITE) == pytest.approx(21)
    assert contrast(Color(119, 119, 119), WHITE) == pytest.approx(4.48, abs=0.01)
    assert readable(Color(119, 119, 119), [WHITE]) != Color(119, 119, 119)
    assert readable(BLACK, [WHITE]) == BLACK


def test_each_colour_is_readable_on_lines_cursors_and_hits(sample: Path) -> None:
    async def look(seat: Seat) -> None:
        for name in _THEMES:
            seat.app.theme = name
            await seat.pilot.pause()
            below = backgrounds(seat.app.current_theme)
            styles = [
                seat.main.rows.get_component_styles(one) for one in ("rows--cursor", "rows--found")
            ]
            # What the style sheet says is what is computed with.
            assert {style.background.rgb for style in styles} <= {one.rgb for one in below}, name
            for number in _USED:
                assert number is not None
                color = Color(*seat.app.ansi_theme.ansi_colors[number])
                least = min(contrast(color, one) for one in below)
                assert least >= LEAST, (name, number, least)

    assert set(range(16)) >= _USED
    sit(sample, look)
