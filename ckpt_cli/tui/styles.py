"""Styles and colours of the screen, readable on each background and in any theme."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from rich.segment import Segment
from rich.style import Style as RichStyle
from rich.text import Text
from textual.color import BLACK, WHITE, Color
from textual.containers import Vertical
from textual.content import Content
from textual.filter import LineFilter
from textual.strip import Strip

from ckpt_cli.render.text import Style, StyledLine

STYLES: dict[Style, RichStyle] = {
    "plain": RichStyle(),
    "dim": RichStyle(dim=True),
    "bold": RichStyle(bold=True),
    "add": RichStyle(color="green"),
    "remove": RichStyle(color="red"),
    "added": RichStyle(color="green"),
    "added-part": RichStyle(color="green", bold=True),
    "removed": RichStyle(color="red"),
    "removed-part": RichStyle(color="red", bold=True),
    "change": RichStyle(color="blue"),
    "warn": RichStyle(color="magenta"),
    "error": RichStyle(color="red", bold=True),
    "head": RichStyle(color="cyan", bold=True),
    "question": RichStyle(color="yellow", bold=True),
    "id": RichStyle(dim=True),
    "node": RichStyle(color="cyan"),
    "time": RichStyle(dim=True),
}
"""Only what waits for a person is yellow."""

DARK_TINTS: dict[Style, RichStyle] = {
    "added": RichStyle(color="#c4e8cb", bgcolor="#12301c"),
    "added-part": RichStyle(color="#ffffff", bgcolor="#1d6b37", bold=True),
    "removed": RichStyle(color="#f2cccc", bgcolor="#3a1619"),
    "removed-part": RichStyle(color="#ffffff", bgcolor="#8f2c33", bold=True),
}
LIGHT_TINTS: dict[Style, RichStyle] = {
    "added": RichStyle(color="#0f4a20", bgcolor="#dff5e3"),
    "added-part": RichStyle(color="#05290f", bgcolor="#9fe0ae", bold=True),
    "removed": RichStyle(color="#6b1118", bgcolor="#fbe3e3"),
    "removed-part": RichStyle(color="#430408", bgcolor="#f3abab", bold=True),
}
"""Lines of a diff. Each style has both colours, so that it can be read in every theme."""
_DARK = 128
"""A background is dark if its red, green and blue are below this on average."""


def as_text(line: StyledLine) -> Text:
    """Return a line as a renderable; markup is not parsed."""
    return Text.assemble(*((text, STYLES[style]) for text, style in line.spans), no_wrap=True)


def as_strip(line: StyledLine, base: RichStyle, *, is_tinted: bool = True) -> Strip:
    """Return a line for a widget that draws its own lines."""
    styles: Mapping[Style, RichStyle] = STYLES
    if is_tinted and any(style in DARK_TINTS for _, style in line.spans):
        styles = STYLES | (DARK_TINTS if _is_dark(base) else LIGHT_TINTS)
    return Strip([Segment(text, base + styles[style]) for text, style in line.spans])


def _is_dark(base: RichStyle) -> bool:
    """Return whether text of this style is on a dark background."""
    if base.bgcolor is None:
        return True
    return sum(base.bgcolor.get_truecolor()) < 3 * _DARK


def title(pane: Vertical, text: str) -> None:
    """Set the title of a pane; markup is not parsed."""
    pane.border_title = Content(text)


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
