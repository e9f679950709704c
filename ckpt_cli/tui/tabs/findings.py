"""The findings of a thread, as ckpt doctor has them: the tab, and the marks in the tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ckpt_backends.errors import CkptError
from ckpt_backends.model import Thread
from ckpt_backends.protocol import Store
from ckpt_cli.core.doctor.finding import Finding
from ckpt_cli.core.tree.rows import Key
from ckpt_cli.plans.fixes import choose_fixes
from ckpt_cli.queries.doctor.examine import check_thread
from ckpt_cli.queries.doctor.terms import Terms, ThreadReport
from ckpt_cli.render.doctor import finding_lines, summary_text
from ckpt_cli.render.terminal.cell_width import wrap
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.styled_text import StyledLine, line
from ckpt_cli.threads.thread import ThreadReader
from ckpt_cli.tui.context import CheckRules
from ckpt_cli.tui.tabs.content import TabContent

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
