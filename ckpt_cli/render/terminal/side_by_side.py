"""Print two texts side by side, with equal lines at the same height."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby, zip_longest

from ckpt_cli.render.terminal.cell_width import fit, pad
from ckpt_cli.render.terminal.styled_text import Style, StyledLine, line

MOST = 3000
"""Longer texts than this number of lines are not aligned, but printed line by line."""
_BETWEEN = " │ "


_AROUND = 3
"""Number of equal lines that are shown around different ones."""

Pair = tuple[str | None, str | None, bool]
"""(left line, right line, whether they are equal); a line is None for a gap."""


def side_by_side(before: Sequence[str], after: Sequence[str], width: int) -> Iterator[StyledLine]:
    """Yield two texts in two columns; different lines are marked, long equal parts left out."""
    room = max((width - len(_BETWEEN)) // 2, 1)
    for is_same, group in groupby(aligned(before, after), key=lambda pair: pair[2]):
        pairs = list(group)
        if is_same and len(pairs) > 2 * _AROUND + 1:
            yield from (_line(pair, room) for pair in pairs[:_AROUND])
            skipped = f"… {len(pairs) - 2 * _AROUND} equal lines"
            yield line((fit(skipped, width), "dim"))
            pairs = pairs[-_AROUND:]
        yield from (_line(pair, room) for pair in pairs)


def aligned(before: Sequence[str], after: Sequence[str]) -> Iterator[Pair]:
    """Yield the lines of two texts in pairs."""
    if len(before) > MOST or len(after) > MOST:
        for left, right in zip_longest(before, after):
            yield left, right, left == right
        return
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for tag, start, end, other_start, other_end in matcher.get_opcodes():
        for left, right in zip_longest(before[start:end], after[other_start:other_end]):
            yield left, right, tag == "equal"


def _line(pair: Pair, room: int) -> StyledLine:
    left, right, is_same = pair
    styles: tuple[Style, Style] = ("plain", "plain") if is_same else ("remove", "add")
    signs = ("  ", "  ") if is_same else ("- " if left is not None else "", "+ ")
    return line(
        (pad(fit(signs[0] + (left or ""), room), room), styles[0]),
        (_BETWEEN, "dim"),
        (fit(signs[1] + right, room) if right is not None else "", styles[1]),
    )
