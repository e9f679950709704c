"""Text that stays readable: on each background of the screen, in any theme."""

from __future__ import annotations

import re
from functools import lru_cache

from rich.segment import Segment
from rich.style import Style as RichStyle
from textual.color import BLACK, WHITE, Color
from textual.filter import LineFilter

LEAST = 4.5
"""The contrast that WCAG 2 asks of text, level AA."""
_STEPS = 20
_TEXT = re.compile(r"[^\s\u2500-\u259f]")
"""What is read: not blanks, lines and blocks."""


def is_text(text: str) -> bool:
    """Return whether there is something to read, other than lines and blocks."""
    return _TEXT.search(text) is not None


def contrast(one: Color, other: Color) -> float:
    """Return the contrast of two colours by WCAG 2: from 1, the same, to 21, black on white."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@lru_cache(1024)
def readable(color: Color, background: Color) -> Color:
    """Return the nearest shade of a colour that is readable on a background."""
    goal = max((WHITE, BLACK), key=lambda shade: contrast(shade, background))
    shades = (color.blend(goal, step / _STEPS) for step in range(_STEPS + 1))
    return next((shade for shade in shades if contrast(shade, background) >= LEAST), goal)


class ReadableText(LineFilter):
    """Draws all text of the screen in readable shades of its colours.

    Colours of the terminal are not known, so themes that use them are left as they are.
    """

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        return [
            Segment(one.text, _readable_style(one.style, background), one.control)
            if one.style is not None and is_text(one.text)
            else one
            for one in segments
        ]


@lru_cache(4096)
def _readable_style(style: RichStyle, background: Color) -> RichStyle:
    if style.color is None or style.color.triplet is None:
        return style
    below = style.bgcolor
    if below is not None and below.triplet is not None:
        background = Color.from_rich_color(below)
    color = Color.from_rich_color(style.color)
    shade = readable(color, background)
    return style if shade == color else style + RichStyle(color=shade.rich_color)


def _luminance(color: Color) -> float:
    def linear(part: int) -> float:
        share = part / 255
        return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4

    red, green, blue = map(linear, color.rgb)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
