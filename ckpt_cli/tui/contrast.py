"""Colours that stay readable: on the background, on the cursor and on search hits, in any theme."""

from __future__ import annotations

from collections.abc import Sequence

from rich.terminal_theme import TerminalTheme
from textual.color import BLACK, WHITE, Color
from textual.theme import Theme

LEAST = 4.5
"""The contrast that WCAG 2 asks of text, level AA."""
BACKGROUNDS = ("background", "surface", "surface-lighten-2", "primary-muted", "warning-muted")
"""The theme's colours that lines stand on: no cursor, the two cursors, and search hits."""
_STEPS = 20


def contrast(one: Color, other: Color) -> float:
    """Return the contrast of two colours by WCAG 2: from 1, the same, to 21, black on white."""
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def readable(color: Color, backgrounds: Sequence[Color]) -> Color:
    """Return the nearest shade of a colour that is readable on all backgrounds.

    If there is none, returns the one with the most contrast.
    """

    def least(shade: Color) -> float:
        return min(contrast(shade, one) for one in backgrounds)

    goal = max((WHITE, BLACK), key=least)
    shades = [color.blend(goal, step / _STEPS) for step in range(_STEPS + 1)]
    return next((shade for shade in shades if least(shade) >= LEAST), max(shades, key=least))


def is_of_terminal(theme: Theme) -> bool:
    """Return whether a theme uses the colours of the terminal, which are not known."""
    return theme.to_color_system().generate()["background"].startswith("ansi_")


def backgrounds(theme: Theme) -> list[Color]:
    """Return the colours that lines stand on."""
    colors = theme.to_color_system().generate()
    return [Color.parse(colors[name]) for name in BACKGROUNDS]


def readable_palette(theme: Theme, palette: TerminalTheme) -> TerminalTheme:
    """Return a palette of 16 colours in shades that are readable in a theme."""
    below = backgrounds(theme)
    shades = [readable(Color(*palette.ansi_colors[at]), below).rgb for at in range(16)]
    return TerminalTheme(palette.background_color, palette.foreground_color, shades[:8], shades[8:])


def _luminance(color: Color) -> float:
    def linear(part: int) -> float:
        share = part / 255
        return share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4

    red, green, blue = map(linear, color.rgb)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
