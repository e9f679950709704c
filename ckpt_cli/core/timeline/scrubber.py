"""Map the checkpoints of a thread to one line.

Half of the width is shared out by time, the other half evenly: a wait of a night is seen as long,
and does not push all other steps into one place. Without times, all of it is shared out evenly.
"""

# Without `annotations` of `__future__`: a `NamedTuple` would compile each of these texts.
from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from statistics import median
from typing import Literal, NamedTuple, get_args

from ckpt_backends.checkpoint_ids import time_of
from ckpt_cli.core.timeline.steps import Kind
from ckpt_cli.core.tree.rows import Key

Sign = Literal["error", "question", "fork", "edit", "answered", "input", "tip", "step"]
"""What happened at a checkpoint; if several things did, the first of these."""
_SIGNS: Sequence[Sign] = get_args(Sign)
_RANKS: Mapping[Sign, int] = {sign: rank for rank, sign in enumerate(_SIGNS)}
Stretch = Literal["run", "long", "human", "idle"]
"""What the time between two checkpoints was spent on; `long` is a run that took long."""
_END = 1 - 1e-9
"""The place of the last checkpoint."""
_LONG = 0.1
"""Part of all time that was spent on runs which makes one of them a long one."""
_OFTEN = 3
"""How many times as long as most others it must be, too."""


class TimedPoint(NamedTuple):
    """One checkpoint on the line."""

    key: Key
    at: datetime | None
    kind: Kind
    """What the time before it was spent on."""
    sign: Sign


class ScrubberCell(NamedTuple):
    """One column of the line."""

    sign: Sign | None
    """None if no checkpoint is in it."""
    stretch: Stretch
    key: Key
    """The checkpoint that a click goes to: the one with the sign, or else the nearest one."""


class Scrubber:
    """The checkpoints of a thread on a line, in the order given."""

    def __init__(self, points: Sequence[TimedPoint]) -> None:
        self._points = points
        self._places = _places([one.at for one in points])
        self._ranks = [_RANKS[one.sign] for one in points]
        self._long = _long(points)
        self._number = {one.key: number for number, one in enumerate(points)}
        self._drawn: tuple[int, Sequence[ScrubberCell]] = 0, ()

    def cells(self, width: int) -> Sequence[ScrubberCell]:
        """Return the line in `width` columns; empty without points or columns."""
        if self._drawn[0] != width:
            self._drawn = width, self._cells(width) if self._points and width > 0 else ()
        return self._drawn[1]

    def column(self, key: Key | None, width: int) -> int | None:
        """Return the column of a checkpoint; None if there is none.

        One that is not on the line, as in a subgraph, has the column of the last one before it.
        """
        if key is None or width < 1 or not self._points:
            return None
        number = self._number.get(key)
        if number is None:
            at = time_of(key[1])
            if at is None or self._points[0].at is None:
                return None
            known = [one.at for one in self._points]
            number = max(bisect_right(known, at, key=lambda one: one or at) - 1, 0)
        return int(self._places[number] * width)

    def _cells(self, width: int) -> Sequence[ScrubberCell]:
        points, places = self._points, self._places
        columns = [int(place * width) for place in places]
        shown: dict[int, int] = {}
        best = [len(_RANKS)] * width
        for number, (column, rank) in enumerate(zip(columns, self._ranks, strict=True)):
            if rank < best[column]:
                best[column], shown[column] = rank, number
        cells = []
        for column in range(width):
            there = shown.get(column)
            sign = None if there is None else points[there].sign
            near = _nearest(places, (column + 0.5) / width) if there is None else there
            following = min(bisect_left(columns, column), len(points) - 1)
            stretch: Stretch = "long" if following in self._long else points[following].kind
            cells.append(ScrubberCell(sign, stretch, points[near].key))
        return cells


def point_sign(
    *, source: str | None, is_failed: bool, is_asked: bool, is_tip: bool, is_forked: bool
) -> Sign:
    """Return what happened at a checkpoint."""
    if is_failed:
        return "error"
    if is_asked and is_tip:
        return "question"
    if is_forked:
        return "fork"
    if source in {"update", "fork"}:
        return "edit"
    if is_asked:
        return "answered"
    if source == "input":
        return "input"
    return "tip" if is_tip else "step"


def _places(times: Sequence[datetime | None]) -> Sequence[float]:
    """Return the place of each time, from 0.0 to less than 1.0."""
    last = max(len(times) - 1, 1)
    even = [number / last * _END for number in range(len(times))]
    seconds: list[float] = []
    for at in times:
        if at is None:
            return even
        now = at.timestamp()
        # The clock may have been set back.
        seconds.append(max(now, seconds[-1]) if seconds else now)
    whole = seconds[-1] - seconds[0] if seconds else 0.0
    if not whole:
        return even
    first, share = seconds[0], _END / whole
    return [(one + (now - first) * share) / 2 for one, now in zip(even, seconds, strict=True)]


def _long(points: Sequence[TimedPoint]) -> frozenset[int]:
    """Return the numbers of the points before which a run took long."""
    took: dict[int, float] = {}
    for number, (before, point) in enumerate(pairwise(points), 1):
        if point.kind == "run" and before.at is not None and point.at is not None:
            took[number] = max((point.at - before.at).total_seconds(), 0.0)
    if not took:
        return frozenset()
    least = max(sum(took.values()) * _LONG, median(took.values()) * _OFTEN)
    return frozenset(number for number, one in took.items() if one > least)


def _nearest(places: Sequence[float], wanted: float) -> int:
    """Return the number of the place that is nearest to another one."""
    after = min(bisect_left(places, wanted), len(places) - 1)
    before = max(after - 1, 0)
    return before if wanted - places[before] <= places[after] - wanted else after
