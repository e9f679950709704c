"""Two texts beside each other, with what they have in common at the same height."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby, zip_longest

from ckpt_cli.render.cells import fit, pad
from ckpt_cli.render.lines import Line, Style, line

MOST = 3000
"""Lines a side that are aligned; longer texts stand beside each other as they come."""
_BETWEEN = " │ "


_AROUND = 3
"""Lines that are the same on both sides and are shown around those that are not."""

Pair = tuple[str | None, str | None, bool]
"""A line of each side, None where it has none at that height, and whether they are the same."""


def side_by_side(before: Sequence[str], after: Sequence[str], width: int) -> Iterator[Line]:
    """Two texts in two columns; what only one of them has is marked, long likeness left out."""
    room = max((width - len(_BETWEEN)) // 2, 1)
    for is_same, group in groupby(aligned(before, after), key=lambda pair: pair[2]):
        pairs = list(group)
        if is_same and len(pairs) > 2 * _AROUND + 1:
            yield from (_line(pair, room) for pair in pairs[:_AROUND])
            likeness = f"… {len(pairs) - 2 * _AROUND} lines that are the same"
            yield line((fit(likeness, width), "dim"))
            pairs = pairs[-_AROUND:]
        yield from (_line(pair, room) for pair in pairs)


def aligned(before: Sequence[str], after: Sequence[str]) -> Iterator[Pair]:
    """The lines of two texts in pairs."""
    if len(before) > MOST or len(after) > MOST:
        for left, right in zip_longest(before, after):
            yield left, right, left == right
        return
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for tag, start, end, other_start, other_end in matcher.get_opcodes():
        for left, right in zip_longest(before[start:end], after[other_start:other_end]):
            yield left, right, tag == "equal"


def _line(pair: Pair, room: int) -> Line:
    left, right, is_same = pair
    styles: tuple[Style, Style] = ("plain", "plain") if is_same else ("remove", "add")
    signs = ("  ", "  ") if is_same else ("- " if left is not None else "", "+ ")
    return line(
        (pad(fit(signs[0] + (left or ""), room), room), styles[0]),
        (_BETWEEN, "dim"),
        (fit(signs[1] + right, room) if right is not None else "", styles[1]),
    )
