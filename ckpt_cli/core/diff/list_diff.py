"""Pair the items of two lists; each item is given as a number."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

Pairs: TypeAlias = list[tuple[int, int]]
"""Positions (before, after), ordered by the position before."""

MAX_CELLS = 400_000
"""Largest table that is filled for one pair of lists (takes about a tenth of a second)."""


@dataclass(slots=True)
class Cells:
    """Remaining size of all tables of one comparison together: a value can contain many lists."""

    left: int = 5 * MAX_CELLS


def common_subsequence(before: Sequence[int], after: Sequence[int], cells: Cells) -> Pairs:
    """Return the positions of a longest common subsequence; of long lists only common ends."""
    start = 0
    while start < min(len(before), len(after)) and before[start] == after[start]:
        start += 1
    end = 0
    while end < min(len(before), len(after)) - start and before[-1 - end] == after[-1 - end]:
        end += 1
    rows, columns = len(before) - start - end, len(after) - start - end
    middle: Pairs = []
    if 0 < rows * columns <= min(MAX_CELLS, cells.left):
        cells.left -= rows * columns
        inner = _longest(before[start : start + rows], after[start : start + columns])
        middle = [(start + i, start + j) for i, j in inner]
    head = [(k, k) for k in range(start)]
    tail = [(start + rows + k, start + columns + k) for k in range(end)]
    return head + middle + tail


def by_identity(before: Sequence[str | None], after: Sequence[str | None]) -> Pairs:
    """Return the positions of items with an id that occurs once on each side, in any order."""
    once = _once(before) & _once(after)
    places = {ident: j for j, ident in enumerate(after) if ident in once}
    return [(i, places[ident]) for i, ident in enumerate(before) if ident in places]


def in_order(pairs: Pairs) -> Pairs:
    """Return the largest set of pairs that keep their order; the other pairs have moved."""
    tails: list[int] = []
    ends: list[int] = []
    previous: list[int] = []
    for index, (_, j) in enumerate(pairs):
        length = bisect_left(tails, j)
        previous.append(ends[length - 1] if length else -1)
        tails[length : length + 1] = [j]
        ends[length : length + 1] = [index]
    chosen: Pairs = []
    index = ends[-1] if ends else -1
    while index >= 0:
        chosen.append(pairs[index])
        index = previous[index]
    return chosen[::-1]


def pair_gaps(pairs: Pairs, rows: int, columns: int) -> Pairs:
    """Return the pairs, plus pairs of items at the same position in the gaps between them."""
    filled: Pairs = []
    i = j = 0
    for next_i, next_j in [*pairs, (rows, columns)]:
        filled += zip(range(i, next_i), range(j, next_j), strict=False)
        filled.append((next_i, next_j))
        i, j = next_i + 1, next_j + 1
    return filled[:-1]


def _longest(before: Sequence[int], after: Sequence[int]) -> Pairs:
    lengths = [[0] * (len(after) + 1)]
    for item in reversed(before):
        below = lengths[-1]
        row = [0] * (len(after) + 1)
        for j in range(len(after) - 1, -1, -1):
            row[j] = below[j + 1] + 1 if item == after[j] else max(below[j], row[j + 1])
        lengths.append(row)
    lengths.reverse()
    pairs: Pairs = []
    i = j = 0
    while i < len(before) and j < len(after):
        if before[i] == after[j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif lengths[i + 1][j] >= lengths[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs


def _once(idents: Sequence[str | None]) -> set[str]:
    return {ident for ident, n in Counter(idents).items() if n == 1 and ident is not None}
