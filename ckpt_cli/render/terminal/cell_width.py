"""Measure text in terminal columns: East Asian wide characters take two, combining ones none."""

from __future__ import annotations

import re
from collections.abc import Iterator

MIN_WIDTH = 20
"""Text is never wrapped to fewer columns than this, however deep it is indented."""
_MARKS = "({[=,:|/@"
"""A word that is longer than a line is broken after one of these, so that ids stay whole."""

_SINGLE = r"[ -~\xa0-\u02ff\u2010-\u2027\u2030-\u205e\u2190-\u22ff\u2500-\u25fc]*"
"""Latin letters, dashes, arrows, lines and the signs of a tree: all take one column, so no table of
widths is loaded."""


def cell_len(text: str) -> int:
    """Return the number of terminal columns of a text."""
    if text.isascii() or re.fullmatch(_SINGLE, text):
        return len(text)
    return sum(map(_cells, text))


def fit(text: str, width: int) -> str:
    """Cut a text to `width` columns; a cut text ends with `…`."""
    if len(text) * 2 <= width or cell_len(text) <= width:
        return text
    end = _end(text, 0, width - 1)
    return text[:end] + "…"[:width]


def pad(text: str, width: int) -> str:
    """Pad a text with blanks to `width` columns."""
    return text + " " * (width - cell_len(text))


def wrap(text: str, width: int) -> Iterator[str]:
    """Break a line into pieces that fit: at blanks, or else after punctuation, or else anywhere."""
    width = max(width, MIN_WIDTH)
    start = 0
    while (end := _end(text, start, width)) < len(text):
        blank = text.rfind(" ", start, end + 1)
        if blank > start and text[start:blank].strip():
            yield text[start:blank]
            start = blank + 1
        else:
            end = max((text.rfind(mark, start, end) + 1 for mark in _MARKS), default=0) or end
            yield text[start:end]
            start = end
    yield text[start:]


def longest_part(text: str) -> int:
    """Return the columns of the longest part that `wrap` breaks only if it is wider than a line."""
    longest = start = 0
    for end, character in enumerate(text + " ", 1):
        if character == " " or character in _MARKS:
            longest, start = max(longest, cell_len(text[start:end])), end
    return longest


def _end(text: str, start: int, width: int) -> int:
    """Return the end of the longest piece from `start` that fits."""
    if text.isascii():
        return min(start + max(width, 0), len(text))
    used = 0
    for position in range(start, len(text)):
        used += _cells(text[position])
        if used > width:
            return position
    return len(text)


def _cells(char: str) -> int:
    if re.fullmatch(_SINGLE, char):
        return 1
    # Screens need the same widths, and Textual measures with this.
    from rich.cells import get_character_cell_size

    return get_character_cell_size(char)
