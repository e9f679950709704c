"""Styled lines as HTML, for notebooks."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape

from ckpt_cli.render.terminal.styled_text import Span, Style, StyledLine

STYLES: dict[Style, str] = {
    "dim": "opacity:.6",
    "bold": "font-weight:bold",
    "add": "color:#2e8b57",
    "remove": "color:#d3493b",
    "added": "color:#2e8b57",
    "added-part": "color:#2e8b57;font-weight:bold",
    "removed": "color:#d3493b",
    "removed-part": "color:#d3493b;font-weight:bold",
    "change": "color:#9a7009",
    "warn": "color:#9a7009",
    "error": "color:#d3493b;font-weight:bold",
    "head": "font-weight:bold",
    "question": "color:#9464b9",
    "id": "color:#3a7bbf",
    "node": "color:#298484",
    "time": "opacity:.6",
}
"""The style of each meaning; plain text has none. Colours are legible on white and on black."""


def html_of(lines: Iterable[StyledLine]) -> str:
    """Return lines as one block of HTML, with all text escaped: no tag comes from a store."""
    body = "\n".join("".join(map(_span, one.spans)) for one in lines)
    return f'<pre style="font-family:monospace;line-height:1.25;white-space:pre">{body}</pre>'


def _span(span: Span) -> str:
    text, style = span
    css = STYLES.get(style)
    return escape(text) if css is None else f'<span style="{css}">{escape(text)}</span>'
