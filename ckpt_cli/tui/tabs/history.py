"""The tabs about what happened in a thread: its times and its errors."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from ckpt_backends.model import CheckpointKey, Thread
from ckpt_backends.protocol import Store
from ckpt_cli.core.support_matrix import limit
from ckpt_cli.core.tasks import HANDLED, RETRIED, error_start
from ckpt_cli.core.timeline import ThreadSteps, Timeline
from ckpt_cli.core.tree import Key
from ckpt_cli.queries.incidents import Failure, failures_of_threads
from ckpt_cli.queries.timeline import read_steps, timeline_of
from ckpt_cli.reading.store_worker import StoreWorker
from ckpt_cli.reading.thread import ThreadReader
from ckpt_cli.render.incidents import BLOCKS, LEFT, failure_state
from ckpt_cli.render.table import step_number, when
from ckpt_cli.render.text import Style, StyledLine, Ui, line, safe_text, wrap
from ckpt_cli.render.timeline import timeline_rows
from ckpt_cli.render.values import counted
from ckpt_cli.tui.command_line import errors_command, timeline_command
from ckpt_cli.tui.reading import SHARE
from ckpt_cli.tui.tabs.content import (
    Clock,
    InspectorTab,
    KeptReader,
    Subject,
    TabContent,
    TabQuestion,
)

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
    rows = timeline_rows(found, Ui(clock.now, clock.zone, room))
    for at, (key, text) in enumerate(rows):
        places[at] = key
        drawn.append(line(_GUTTER, *text.spans))
    lines = {key: at for at, key in places.items() if key is not None}
    after = max(lines.values(), default=0)
    for one in reversed(found.steps):
        after = lines.setdefault((one.checkpoint_ns, one.checkpoint_id), after)
    return TimedBranch(TabContent(drawn, places=places), lines, tip)


_MOST = 2_000
"""Maximum number of failures that are shown; `ckpt errors` prints more."""
_LINES = 3
"""Maximum number of lines of one error."""
_INDENT = "  "
_WORDS = {
    BLOCKS: "waiting for a retry",
    RETRIED: "retried",
    HANDLED: "handled",
    LEFT: "left behind",
}


def read_thread_errors(store: Store, thread: Thread, clock: Clock, width: int) -> TabContent:
    """Return the failed tasks of a thread, newest first, as `ckpt errors THREAD --history` does."""
    found = list(failures_of_threads(store, [thread], history=True))
    if not found:
        lacking = limit("errors", store.capabilities)
        said = "no task of this thread failed" if lacking is None else f"no errors: {lacking.why}"
        return TabContent([line((one, "dim")) for one in wrap(said, width)])
    lines = [line((_summary(found), "bold"))]
    places: dict[int, Key] = {}
    for one in found[:_MOST]:
        lines.append(line(""))
        places[len(lines)] = one.key.checkpoint_ns, one.key.checkpoint_id
        lines += _failure_lines(one, clock, width)
    if len(found) > _MOST:
        lines.append(line((f"… {len(found) - _MOST:,} more; `ckpt errors` prints all", "dim")))
    return TabContent(lines, places=places)


def _summary(found: Sequence[Failure]) -> str:
    states = Counter(map(failure_state, found))
    became = ", ".join(f"{number:,} {_WORDS[state]}" for state, number in states.most_common())
    return f"{counted(len(found), 'failed task')}: {became}"


def _failure_lines(one: Failure, clock: Clock, width: int) -> Iterator[StyledLine]:
    """Yield what became of a task, its step, node and time, and below it the error."""
    state = failure_state(one)
    style: Style = "error" if state == BLOCKS else "dim"
    at = "" if one.at is None else when(one.at, clock.now, clock.zone)
    yield line(
        (f"{state:8}", style),
        f"step {step_number(one.step)}  ",
        (safe_text(one.node), "node"),
        (f"  {at}", "time"),
    )
    parts = [*wrap(safe_text(error_start(one.error)), width - len(_INDENT))]
    for number, part in enumerate(parts[:_LINES], 1):
        more = "…" if number == _LINES < len(parts) else ""
        yield line((f"{_INDENT}{part}{more}", style))


class TimelineTab(InspectorTab):
    """How long the steps of a branch ran. It goes along with the cursor of the tree.

    That of a thread that grows is read again, but not all the time.
    """

    loading = "Timeline: loading"

    def __init__(self, worker: StoreWorker[Store]) -> None:
        self._worker = worker
        self._kept = KeptTimeline()
        self._shown: tuple[Thread, int, TimedBranch] | None = None
        """The thread and the width in which the branch was drawn."""
        self._at: CheckpointKey | None = None
        """The checkpoint whose step is marked."""
        self._until = 0.0
        """When the timeline of a thread that grows is read again."""

    async def read(self, asked: TabQuestion) -> TabContent:
        began = time.monotonic()
        thread, place = asked.subject.thread, asked.subject.place
        question = partial(self._kept.read, place=place, clock=asked.clock, width=asked.width)
        branch = await self._worker.ask(question)
        if not asked.is_again:
            self._at = None
        self._shown = thread, asked.width, branch
        self._until = time.monotonic() + (time.monotonic() - began) * SHARE
        return branch.content

    def is_current(self, asked: TabQuestion) -> bool:
        if self._shown is None:
            return False
        thread, width, branch = self._shown
        now, place = asked.subject.thread, asked.subject.place
        is_new = thread == now or time.monotonic() < self._until
        has_step = (place.checkpoint_ns, place.checkpoint_id) in branch.lines
        return has_step and is_new and (thread.thread_id, width) == (now.thread_id, asked.width)

    def signed(self, subject: Subject) -> tuple[int | None, bool] | None:
        if self._shown is None:
            return None
        place, before = subject.place, self._at
        self._at = place
        key = place.checkpoint_ns, place.checkpoint_id
        return self._shown[2].lines.get(key), place != before

    def command(self, store: Sequence[str], subject: Subject) -> str | None:
        place = subject.place
        if self._shown is not None and self._shown[0].thread_id == place.thread_id:
            place = CheckpointKey(place.thread_id, *self._shown[2].tip)
        return timeline_command(store, place)


class ErrorsTab(InspectorTab):
    """All tasks of the thread that ever failed."""

    loading, titled = "Errors: loading", "Errors of"

    def __init__(self, worker: StoreWorker[Store]) -> None:
        self._worker = worker
        self._shown: tuple[Thread, int] | None = None
        """The thread, and the width in which its errors were drawn."""

    async def read(self, asked: TabQuestion) -> TabContent:
        thread, width = asked.subject.thread, asked.width
        question = partial(read_thread_errors, thread=thread, clock=asked.clock, width=width)
        content = await self._worker.ask(question)
        self._shown = thread, width
        return content

    def is_current(self, asked: TabQuestion) -> bool:
        return self._shown == (asked.subject.thread, asked.width)

    def command(self, store: Sequence[str], subject: Subject) -> str | None:
        return errors_command(store, subject.thread.thread_id)
