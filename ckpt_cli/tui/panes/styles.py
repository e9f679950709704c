"""Styled lines and titles as Textual draws them."""

from __future__ import annotations

from rich.segment import Segment
from rich.style import Style as RichStyle
from rich.text import Text
from textual.containers import Vertical
from textual.content import Content
from textual.strip import Strip

from ckpt_cli.render.terminal.styled_text import Style, StyledLine

STYLES: dict[Style, RichStyle] = {
    "plain": RichStyle(),
    "dim": RichStyle(dim=True),
    "bold": RichStyle(bold=True),
    "add": RichStyle(color="green"),
    "remove": RichStyle(color="red"),
    "change": RichStyle(color="yellow"),
    "warn": RichStyle(color="yellow"),
    "error": RichStyle(color="red", bold=True),
    "head": RichStyle(color="cyan", bold=True),
    "question": RichStyle(color="yellow", bold=True),
    "id": RichStyle(color="yellow"),
    "node": RichStyle(color="cyan"),
    "time": RichStyle(dim=True),
}


def as_text(line: StyledLine) -> Text:
    """Return a line as a renderable; markup is not parsed."""
    return Text.assemble(*((text, STYLES[style]) for text, style in line.spans), no_wrap=True)


def as_strip(line: StyledLine, base: RichStyle) -> Strip:
    """Return a line for a widget that draws its own lines."""
    return Strip([Segment(text, base + STYLES[style]) for text, style in line.spans])


def title(pane: Vertical, text: str) -> None:
    """Set the title of a pane; markup is not parsed."""
    pane.border_title = Content(text)
