"""The findings of a thread, as ckpt doctor has them: the tab, and the marks in the tree."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial

from ckpt_backends.errors import CkptError
from ckpt_backends.model import Thread
from ckpt_backends.protocol import Store
from ckpt_cli.core.doctor.findings import Finding
from ckpt_cli.core.tree import Key
from ckpt_cli.plans.fixes import choose_fixes
from ckpt_cli.queries.doctor.examine import check_thread
from ckpt_cli.queries.doctor.rows import Terms, ThreadReport
from ckpt_cli.reading.store_worker import StoreWorker
from ckpt_cli.reading.thread import ThreadReader
from ckpt_cli.render.doctor import finding_lines, summary_text
from ckpt_cli.render.text import StyledLine, line, safe_text, wrap
from ckpt_cli.tui.command_line import check_command
from ckpt_cli.tui.context import CheckRules, ScreenContext
from ckpt_cli.tui.tabs.content import InspectorTab, Subject, TabContent, TabQuestion

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
        self._drawn: tuple[CheckedThread, bool, int] | None = None
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
        is_checking = thread.thread_id in self._checking
        self._drawn = found, is_checking, asked.width
        return findings_content(
            found, self._context.store_words, asked.width, is_checking=is_checking
        )

    def is_current(self, asked: TabQuestion) -> bool:
        thread = asked.subject.thread
        found, is_checking = self.found(thread), thread.thread_id in self._checking
        return found is not None and self._drawn == (found, is_checking, asked.width)

    def forget(self) -> None:
        self._found.clear()

    def command(self, store: Sequence[str], subject: Subject) -> str | None:
        found = self.found(subject.thread)
        deep = found is not None and found.is_deep
        return check_command(store, subject.thread.thread_id, deep=deep)
