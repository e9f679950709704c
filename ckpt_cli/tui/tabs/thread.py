"""The findings of a thread, as ckpt doctor has them: the tab, and the marks in the tree."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from ckpt_backends.errors import CkptError
from ckpt_backends.model import CheckpointKey, Thread
from ckpt_backends.protocol import Store
from ckpt_cli.core.doctor.findings import Finding
from ckpt_cli.core.support_matrix import limit
from ckpt_cli.core.tasks import HANDLED, RETRIED, error_start
from ckpt_cli.core.timeline import ThreadSteps, Timeline
from ckpt_cli.core.tree import Key
from ckpt_cli.plans.fixes import choose_fixes
from ckpt_cli.queries.doctor.examine import check_thread
from ckpt_cli.queries.doctor.rows import Terms, ThreadReport
from ckpt_cli.queries.incidents import Failure, failures_of_threads
from ckpt_cli.queries.timeline import read_steps, timeline_of
from ckpt_cli.reading.store_worker import StoreWorker
from ckpt_cli.reading.thread import ThreadReader
from ckpt_cli.render.doctor import finding_lines, summary_text
from ckpt_cli.render.incidents import BLOCKS, LEFT, failure_state
from ckpt_cli.render.table import step_number, when
from ckpt_cli.render.text import Style, StyledLine, Ui, line, safe_text, wrap
from ckpt_cli.render.timeline import timeline_rows
from ckpt_cli.render.values import counted
from ckpt_cli.tui.command_line import check_command, errors_command, timeline_command
from ckpt_cli.tui.context import CheckRules, ScreenContext
from ckpt_cli.tui.panes.document import TabContent
from ckpt_cli.tui.reading import SHARE
from ckpt_cli.tui.tabs.content import InspectorTab, KeptReader, Subject, TabQuestion

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

    def read(self, store: Store, place: CheckpointKey, ui: Ui) -> TimedBranch:
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
            if drawn_width == ui.width and key in branch.lines:
                return branch
        tip = _tip(reader, steps, key)
        found = timeline_of(reader, steps, *tip, last=_MOST_STEPS)
        branch = _drawn(found, tip, ui)
        self._drawn = ui.width, branch
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


def _drawn(found: Timeline, tip: Key, ui: Ui) -> TimedBranch:
    """Return a timeline as lines. A step without a line has that of the next one."""
    drawn: list[StyledLine] = []
    places: dict[int, Key | None] = {}
    rows = timeline_rows(found, ui._replace(width=ui.width - len(_GUTTER)))
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


def read_thread_errors(store: Store, thread: Thread, ui: Ui) -> TabContent:
    """Return the failed tasks of a thread, newest first, as `ckpt errors THREAD --history` does."""
    found = list(failures_of_threads(store, [thread], history=True))
    if not found:
        lacking = limit("errors", store.capabilities)
        said = "no task of this thread failed" if lacking is None else f"no errors: {lacking.why}"
        return TabContent([line((one, "dim")) for one in wrap(said, ui.width)])
    lines = [line((_summary(found), "bold"))]
    places: dict[int, Key] = {}
    for one in found[:_MOST]:
        lines.append(line(""))
        places[len(lines)] = one.key.checkpoint_ns, one.key.checkpoint_id
        lines += _failure_lines(one, ui)
    if len(found) > _MOST:
        lines.append(line((f"… {len(found) - _MOST:,} more; `ckpt errors` prints all", "dim")))
    return TabContent(lines, places=places)


def _summary(found: Sequence[Failure]) -> str:
    states = Counter(map(failure_state, found))
    became = ", ".join(f"{number:,} {_WORDS[state]}" for state, number in states.most_common())
    return f"{counted(len(found), 'failed task')}: {became}"


def _failure_lines(one: Failure, ui: Ui) -> Iterator[StyledLine]:
    """Yield what became of a task, its step, node and time, and below it the error."""
    state = failure_state(one)
    style: Style = "error" if state == BLOCKS else "dim"
    at = "" if one.at is None else when(one.at, ui.now, ui.zone)
    yield line(
        (f"{state:8}", style),
        f"step {step_number(one.step)}  ",
        (safe_text(one.node), "node"),
        (f"  {at}", "time"),
    )
    parts = [*wrap(safe_text(error_start(one.error)), ui.width - len(_INDENT))]
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
        question = partial(self._kept.read, place=place, ui=asked.ui)
        branch = await self._worker.ask(question)
        if not asked.is_again:
            self._at = None
        self._shown = thread, asked.ui.width, branch
        self._until = time.monotonic() + (time.monotonic() - began) * SHARE
        return branch.content

    def is_current(self, asked: TabQuestion) -> bool:
        if self._shown is None:
            return False
        thread, width, branch = self._shown
        now, place = asked.subject.thread, asked.subject.place
        is_new = thread == now or time.monotonic() < self._until
        has_step = (place.checkpoint_ns, place.checkpoint_id) in branch.lines
        return has_step and is_new and (thread.thread_id, width) == (now.thread_id, asked.ui.width)

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

    async def read(self, asked: TabQuestion) -> TabContent:
        question = partial(read_thread_errors, thread=asked.subject.thread, ui=asked.ui)
        return await self._worker.ask(question)

    def command(self, store: Sequence[str], subject: Subject) -> str | None:
        return errors_command(store, subject.thread.thread_id)


_MOST_CHECKED = 200
"""Number of threads of which the findings are kept."""
_GRACE = timedelta(minutes=1)
"""The default of `ckpt doctor --grace`."""


@dataclass(frozen=True, slots=True)
class CheckedThread:
    """What was found in a thread."""

    thread: Thread
    """The thread as it was listed before the check."""
    report: ThreadReport
    is_deep: bool
    """Whether every value was checked."""

    @property
    def keys(self) -> frozenset[Key]:
        """The checkpoints with findings."""
        return frozenset(
            (one.checkpoint_ns or "", one.checkpoint_id)
            for one in self.report.findings
            if one.checkpoint_id is not None
        )


def read_findings(
    store: Store, thread: Thread, rules: CheckRules, now: datetime, *, deep: bool
) -> CheckedThread:
    """Check a thread. A thread that cannot be checked has a report with the reason."""
    terms = Terms(now, now - _GRACE, deep, rules.reducers, rules.ignored)
    try:
        report = check_thread(ThreadReader(store, thread), terms, choose_fixes)
    except CkptError as error:
        report = ThreadReport(thread.thread_id, unchecked=error.message)
    return CheckedThread(thread, report, deep)


def findings_content(
    found: CheckedThread, store_words: Sequence[str], width: int, *, is_checking: bool
) -> TabContent:
    """Return the findings as lines; `is_checking` tells that every value is being checked."""
    report = found.report
    severities = Counter(one.severity for one in report.findings)
    lines: list[StyledLine] = []
    for text in wrap(summary_text(severities, report.checked, 0), width):
        lines.append(line((text, "bold")))
    if report.unchecked:
        for text in wrap(safe_text(f"not checked completely: {report.unchecked}"), width):
            lines.append(line((text, "error")))
    if is_checking:
        lines.append(line(("checking every value ...", "dim")))
    elif not found.is_deep:
        lines.append(line(("v checks every value and replays every step", "dim")))
    findings: dict[int, Finding] = {}
    for one in report.findings:
        lines.append(line(""))
        findings[len(lines)] = one
        lines += finding_lines(one, store_words, width)
    return TabContent(lines, findings=findings)


class FindingsTab(InspectorTab):
    """What is wrong in the thread. Threads are also checked while the tab is not shown."""

    loading, titled = "Findings: loading", "Findings in"

    def __init__(
        self, context: ScreenContext, told: Callable[[], None], refused: Callable[[CkptError], None]
    ) -> None:
        """`told` is called after each check, `refused` if one fails and an older one is shown."""
        self._context, self._told, self._refused = context, told, refused
        self._found: dict[str, CheckedThread] = {}
        """What was found in each thread that was checked."""
        self._checking: set[str] = set()
        """The threads of which every value is being checked."""
        self._one = asyncio.Lock()
        """So that a thread is not checked twice at the same time."""
        self.took = 0.0
        """Seconds that the last quick check took."""

    def known(self, thread_id: str) -> CheckedThread | None:
        """Return what was found in a thread, perhaps before it changed."""
        return self._found.get(thread_id)

    def found(self, thread: Thread) -> CheckedThread | None:
        """Return what was found in a thread; None if it was not checked as it is now."""
        found = self._found.get(thread.thread_id)
        return found if found is not None and found.thread == thread else None

    async def check_quickly(self, thread: Thread) -> bool:
        """Check a thread, if it was not checked yet; return whether it was. Raises `CkptError`."""
        async with self._one:
            if self.found(thread) is not None:
                return False
            began = time.monotonic()
            # It is as short as reading a few heads.
            await self._check(self._context.heads, thread, deep=False)
            self.took = time.monotonic() - began
        self._told()
        return True

    def may_check(self, thread: Thread) -> bool:
        """Return whether no check of every value of a thread is running."""
        return thread.thread_id not in self._checking

    async def check_deeply(self, thread: Thread) -> None:
        """Check every value of a thread. Raises `CkptError`."""
        self._checking.add(thread.thread_id)
        self._told()
        try:
            await self._check(self._context.checking, thread, deep=True)
        finally:
            self._checking.discard(thread.thread_id)
            self._told()

    async def _check(self, worker: StoreWorker[Store], thread: Thread, *, deep: bool) -> None:
        rules, now = self._context.rules, self._context.now()
        question = partial(read_findings, thread=thread, rules=rules, now=now, deep=deep)
        self._found[thread.thread_id] = await worker.ask(question)
        if len(self._found) > _MOST_CHECKED:
            del self._found[next(iter(self._found))]

    async def read(self, asked: TabQuestion) -> TabContent:
        thread = asked.subject.thread
        try:
            await self.check_quickly(thread)
        except CkptError as error:
            if thread.thread_id not in self._found:
                raise
            self._refused(error)
        found = self._found[thread.thread_id]
        words, is_checking = self._context.store_words, thread.thread_id in self._checking
        return findings_content(found, words, asked.ui.width, is_checking=is_checking)

    def source(self, asked: TabQuestion) -> object:
        thread = asked.subject.thread
        return self.found(thread), thread.thread_id in self._checking, asked.ui.width

    def is_current(self, asked: TabQuestion) -> bool:
        return self.found(asked.subject.thread) is not None and super().is_current(asked)

    def forget(self) -> None:
        super().forget()
        self._found.clear()

    def command(self, store: Sequence[str], subject: Subject) -> str | None:
        found = self.found(subject.thread)
        deep = found is not None and found.is_deep
        return check_command(store, subject.thread.thread_id, deep=deep)
