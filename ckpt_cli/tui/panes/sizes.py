"""The sizes of the panes: what their content needs, or what was chosen, within bounds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

PaneName = Literal["threads", "tree", "inspector"]

_STEP = 5
"""Percent by which a key changes a pane."""
_LEAST_THREADS, _MOST_THREADS = 26, 72
"""Columns of the threads, however wide the screen is."""
_THREADS_SHARE = 30
"""Percent of the columns that threads take at most by themselves."""
_BESIDE, _BESIDE_IF_LOW = 200, 150
"""With this number of columns, the checkpoint is beside its tree, else below it."""
_LOW = 36
"""With fewer lines, the smaller number is enough."""
_TREE_BESIDE, _MOST_TREE = 50, 120
"""The tree beside a checkpoint: percent of the columns, and columns at most."""
_LEAST_TREE_SHARE, _MOST_TREE_SHARE = 30, 45
"""The tree above a checkpoint: percent of the lines."""
_LEAST_COLUMNS, _LEAST_LINES = 20, 4
"""Of each pane, whatever was chosen."""


@dataclass(frozen=True, slots=True)
class ChosenShares:
    """Percent of the columns or lines that a person gave to panes; 0 if none was chosen."""

    threads: int = 0
    """Of all columns."""
    tree: int = 0
    """Of the lines that tree and checkpoint share, or of their columns if they are side by side."""


@dataclass(frozen=True, slots=True)
class PaneSizes:
    """Columns and lines of the panes; the checkpoint has the rest."""

    threads: int
    tree: int
    """Columns if the checkpoint is beside the tree, lines if it is below."""
    is_beside: bool
    rest: int
    """Columns or lines that tree and checkpoint share."""


def pane_sizes(
    width: int, height: int, *, threads: int, tree: int, chosen: ChosenShares
) -> PaneSizes:
    """Return the sizes for a body of `width` columns and `height` lines.

    `threads` is the number of columns that the longest row needs, `tree` the lines of the tree.
    """
    if chosen.threads:
        columns = _within(width * chosen.threads // 100, _LEAST_COLUMNS, width - 2 * _LEAST_COLUMNS)
    else:
        most = min(width * _THREADS_SHARE // 100, _MOST_THREADS)
        columns = _within(threads, _LEAST_THREADS, most)
    # A blank column is between the panes.
    rest = width - columns - 1
    is_beside = rest >= (_BESIDE_IF_LOW if height < _LOW else _BESIDE)
    if not is_beside:
        rest = height
    least = _LEAST_COLUMNS if is_beside else _LEAST_LINES
    if chosen.tree:
        lines = rest * chosen.tree // 100
    elif is_beside:
        lines = min(rest * _TREE_BESIDE // 100, _MOST_TREE)
    else:
        lines = _within(tree, rest * _LEAST_TREE_SHARE // 100, rest * _MOST_TREE_SHARE // 100)
    return PaneSizes(columns, _within(lines, least, rest - least), is_beside, rest)


def changed_shares(
    chosen: ChosenShares, sizes: PaneSizes, width: int, pane: PaneName, way: int
) -> ChosenShares:
    """Return the shares after a pane has become larger (`way` 1) or smaller (-1) by a step."""
    if pane == "threads":
        now = chosen.threads or round(100 * sizes.threads / max(width, 1))
        return replace(chosen, threads=_within(now + way * _STEP, _STEP, 100 - _STEP))
    now = chosen.tree or round(100 * sizes.tree / max(sizes.rest, 1))
    way = way if pane == "tree" else -way
    return replace(chosen, tree=_within(now + way * _STEP, _STEP, 100 - _STEP))


def dragged_shares(
    chosen: ChosenShares, sizes: PaneSizes, width: int, pane: PaneName, size: int
) -> ChosenShares:
    """Return the shares after the end of the threads or of the tree was dragged to a size."""
    if pane == "threads":
        return replace(chosen, threads=_share(size, width))
    return replace(chosen, tree=_share(size, sizes.rest))


def _share(part: int, whole: int) -> int:
    """Return the percent that make at least a part; never 0, which stands for no choice."""
    return _within(-(-100 * part // max(whole, 1)), 1, 99)


def _within(number: int, least: int, most: int) -> int:
    """Return the nearest number between two others; the first one wins if they cross."""
    return max(min(number, most), least)
