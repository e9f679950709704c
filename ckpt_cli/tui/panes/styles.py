"""Styled lines and titles as Textual draws them."""

from __future__ import annotations

from collections.abc import Mapping

from rich.segment import Segment
from rich.style import Style as RichStyle
from rich.text import Text
from textual.containers import Vertical
from textual.content import Content
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
