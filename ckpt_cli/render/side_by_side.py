"""Two texts beside each other, with what they have in common at the same height."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import zip_longest

from ckpt_cli.render.cells import fit, pad
from ckpt_cli.render.lines import Line, Style, line

MOST = 3000
"""Lines a side that are aligned; longer texts stand beside each other as they come."""
_BETWEEN = " │ "


def side_by_side(before: Sequence[str], after: Sequence[str], width: int) -> Iterator[Line]:
    """The lines of two texts in two columns; what only one of them has is marked."""
    room = max((width - len(_BETWEEN)) // 2, 1)
    for left, right, is_same in aligned(before, after):
        styles: tuple[Style, Style] = ("plain", "plain") if is_same else ("remove", "add")
        signs = ("  ", "  ") if is_same else (_sign(left, "- "), _sign(right, "+ "))
        yield line(
            (pad(fit(signs[0] + (left or ""), room), room), styles[0]),
            (_BETWEEN, "dim"),
            (fit(signs[1] + (right or ""), room), styles[1]),
        )


def aligned(
    before: Sequence[str], after: Sequence[str]
) -> Iterator[tuple[str | None, str | None, bool]]:
    """Pairs of lines, and whether they are the same; None where a side has none at that height."""
    if len(before) > MOST or len(after) > MOST:
        for left, right in zip_longest(before, after):
            yield left, right, left == right
        return
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    for tag, start, end, other_start, other_end in matcher.get_opcodes():
        for left, right in zip_longest(before[start:end], after[other_start:other_end]):
            yield left, right, tag == "equal"


def _sign(text: str | None, sign: str) -> str:
    return sign if text is not None else ""
