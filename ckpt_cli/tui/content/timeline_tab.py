"""The times of the steps of one branch: the tab Timeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ckpt_backends.model import CheckpointKey
from ckpt_backends.protocol import Store
from ckpt_cli.core.timeline import ThreadSteps, Timeline
from ckpt_cli.core.tree import Key
from ckpt_cli.queries.timeline import read_steps, timeline_of
from ckpt_cli.reading.thread import ThreadReader
from ckpt_cli.render.text import StyledLine, line
from ckpt_cli.render.timeline import timeline_rows
from ckpt_cli.tui.content.checkpoint import Clock, KeptReader
from ckpt_cli.tui.content.tabs import TabContent

_MOST_STEPS = 20_000
"""Maximum number of steps of a timeline; `ckpt timeline` prints more."""
_GUTTER = "  "
"""Before each line, for the sign of the step under the cursor of the tree."""


@dataclass(frozen=True, slots=True)
class TimedBranch:
    """The timeline of one branch, as it is shown."""

    content: TabContent
    lines: Mapping[Key, int]
    """The line of each checkpoint."""
    tip: Key
    """The newest checkpoint of the branch."""


class KeptTimeline:
    """The times of one thread, read once while it is unchanged. Used by one worker."""

    def __init__(self) -> None:
        self._kept = KeptReader()
        self._read: tuple[ThreadReader, ThreadSteps] | None = None
        self._drawn: tuple[int, TimedBranch] | None = None

    def read(self, store: Store, place: CheckpointKey, clock: Clock, width: int) -> TimedBranch:
        """Return the timeline of the head's branch, or else of the one that a checkpoint is on.

        It goes on to the newest checkpoint, so that it is the same for each one of the branch.
        Raises `NotFound`, and what reading raises.
        """
        reader = self._kept.of(store, place.thread_id)
        if self._read is None or self._read[0] is not reader:
            self._read, self._drawn = (reader, read_steps(reader, whole=True)), None
        _, steps = self._read
        key = place.checkpoint_ns, place.checkpoint_id
        if self._drawn is not None:
            drawn_width, branch = self._drawn
            if drawn_width == width and key in branch.lines:
                return branch
        tip = _tip(reader, steps, key)
        found = timeline_of(reader, steps, *tip, last=_MOST_STEPS)
        branch = _drawn(found, tip, clock, width)
        self._drawn = width, branch
        return branch


def _tip(reader: ThreadReader, steps: ThreadSteps, key: Key) -> Key:
    """Return the head if its branch or a subgraph in it has a checkpoint; else the newest one that
    came from it.
    """
    head = reader.head("")
    if head is not None:
        found = timeline_of(reader, steps, "", head)
        if any((one.checkpoint_ns, one.checkpoint_id) == key for one in found.steps):
            return "", head
    return key[0], _newest_after(reader, key)


def _newest_after(reader: ThreadReader, key: Key) -> str:
    """Return the newest checkpoint that came from one, or that one itself."""
    ns, newest = key
    after = {newest}
    for one in reversed(reader.index(ns)):
        if one.parent_checkpoint_id in after:
            newest = one.key.checkpoint_id
            after.add(newest)
    return newest


def _drawn(found: Timeline, tip: Key, clock: Clock, width: int) -> TimedBranch:
    """Return a timeline as lines. A step without a line has that of the next one."""
    drawn: list[StyledLine] = []
    places: dict[int, Key | None] = {}
    room = width - len(_GUTTER)
    rows = timeline_rows(found, now=clock.now, zone=clock.zone, width=room, unicode=True)
    for at, (key, text) in enumerate(rows):
        places[at] = key
        drawn.append(line(_GUTTER, *text.spans))
    lines = {key: at for at, key in places.items() if key is not None}
    after = max(lines.values(), default=0)
    for one in reversed(found.steps):
        after = lines.setdefault((one.checkpoint_ns, one.checkpoint_id), after)
    return TimedBranch(TabContent(drawn, places=places), lines, tip)
