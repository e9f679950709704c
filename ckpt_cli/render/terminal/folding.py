"""Lines that are wider than the terminal, folded so that no id in them is broken."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ckpt_cli.render.terminal.cell_width import cell_len, wrap
from ckpt_cli.render.terminal.styled_text import Span, StyledLine

_HANG = 2
"""Columns by which the rest of a folded line is indented further than its beginning."""


def folded(lines: Iterable[StyledLine], width: int) -> Iterator[StyledLine]:
    """The lines, in pieces where one is wider than `width`, unless it is printed whole."""
    for one in lines:
        text = one.text
        if one.whole or len(text) * 2 <= width or cell_len(text) <= width:
            yield one
        else:
            yield from _pieces(one, text, width)


def _pieces(one: StyledLine, text: str, width: int) -> Iterator[StyledLine]:
    indent = " " * min(len(text) - len(text.lstrip(" ")) + _HANG, width // 2)
    start = 0
    for number, piece in enumerate(_parts(text, width, len(indent))):
        at = text.index(piece, start)
        start = at + len(piece)
        spans = tuple(_cut(one.spans, at, at + len(piece.rstrip(" "))))
        yield StyledLine(spans if number == 0 else ((indent, "plain"), *spans))


def _parts(text: str, width: int, indent: int) -> Iterator[str]:
    first = next(wrap(text, width))
    yield first
    if rest := text[len(first) :].lstrip(" "):
        yield from wrap(rest, width - indent)


def _cut(spans: Iterable[Span], start: int, end: int) -> Iterator[Span]:
    """The part of some spans from one character to another."""
    at = 0
    for text, style in spans:
        if part := text[max(start - at, 0) : max(end - at, 0)]:
            yield part, style
        at += len(text)
