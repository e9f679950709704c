"""Print two texts side by side, with equal lines at the same height."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from difflib import SequenceMatcher
from itertools import groupby, zip_longest
from typing import Literal

from ckpt_cli.render.terminal.cell_width import cell_len, fit, pad
from ckpt_cli.render.terminal.changed_words import Parts, changed_words
from ckpt_cli.render.terminal.styled_text import Span, Style, StyledLine, line

MOST = 3000
"""Longer texts than this number of lines are not aligned, but printed line by line."""
_BETWEEN = " │ "


_AROUND = 3
"""Number of equal lines that are shown around different ones."""

Pair = tuple[str | None, str | None, bool]
"""(left line, right line, whether they are equal); a line is None for a gap."""

Side = Literal["removed", "added"]

_SIGNS: dict[Side, str] = {"removed": "- ", "added": "+ "}
_PARTS: dict[Side, Style] = {"removed": "removed-part", "added": "added-part"}


def columns(left: Span, right: Span, width: int) -> StyledLine:
    """Return one line in two columns."""
    room = _room(width)
    first = pad(fit(left[0], room), room), left[1]
    return line(first, (_BETWEEN, "dim"), (fit(right[0], room), right[1]))


def side_by_side(before: Sequence[str], after: Sequence[str], width: int) -> Iterator[StyledLine]:
    """Yield two texts in two columns; different words are marked, long equal parts left out.

    If one text is empty, the other one has all columns.
    """
    if not (before and after):
        yield from (_alone(text, "removed", width) for text in before)
        yield from (_alone(text, "added", width) for text in after)
        return
    for is_same, group in groupby(aligned(before, after), key=lambda pair: pair[2]):
        pairs = list(group)
        if not is_same:
            yield from _different(pairs, _room(width))
            continue
        if len(pairs) > 2 * _AROUND + 1:
            yield from (_equal(pair, width) for pair in pairs[:_AROUND])
            skipped = f"… {len(pairs) - 2 * _AROUND} equal lines"
            yield line((fit(skipped, width), "dim"))
            pairs = pairs[-_AROUND:]
        yield from (_equal(pair, width) for pair in pairs)


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


def _room(width: int) -> int:
    """Return the width of one column."""
    return max((width - len(_BETWEEN)) // 2, 1)


def _alone(text: str, side: Side, width: int) -> StyledLine:
    return line((pad(fit(_SIGNS[side] + text, width), width), side))


def _equal(pair: Pair, width: int) -> StyledLine:
    left, right, _ = pair
    return columns((f"  {left}", "plain"), (f"  {right}", "plain"), width)


def _different(pairs: Sequence[Pair], room: int) -> Iterator[StyledLine]:
    left = [one for one, _, _ in pairs if one is not None]
    right = [one for _, one, _ in pairs if one is not None]
    parts = changed_words(left, right)
    if parts is None:
        parts = [[(one, False)] for one in left], [[(one, False)] for one in right]
    for old, new in zip_longest(*parts):
        yield line(*_cell(old, "removed", room), (_BETWEEN, "dim"), *_cell(new, "added", room))


def _cell(parts: Parts | None, side: Side, room: int) -> Iterator[Span]:
    """Yield a line in its column; blanks for a gap."""
    if parts is None:
        yield " " * room, "plain"
        return
    sign, text = _SIGNS[side], "".join(part for part, _ in parts)
    used = cell_len(sign) + cell_len(text)
    if used > room:
        yield pad(fit(sign + text, room), room), side
        return
    yield sign, side
    for part, is_changed in parts:
        yield part, _PARTS[side] if is_changed else side
    yield " " * (room - used), side
