"""What a new graph does to the thread: the tab that `ckpt tui --compat` adds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

from ckpt_backends.model import Thread
from ckpt_backends.protocol import Store
from ckpt_cli.core.compat import CompatVerdict
from ckpt_cli.queries.compat import JudgedThread, judged_threads
from ckpt_cli.reading.graphs import graphs_of
from ckpt_cli.render.compat import STYLES
from ckpt_cli.render.text import StyledLine, Ui, line, safe_text, wrap
from ckpt_cli.tui.command_line import compat_command
from ckpt_cli.tui.context import ScreenContext
from ckpt_cli.tui.panes.document import TabContent
from ckpt_cli.tui.tabs.content import InspectorTab, Subject, TabQuestion

_INDENT = "  "


def read_verdict(store: Store, thread: Thread, ui: Ui) -> TabContent:
    """Return what the new graph does to a thread. Raises `UsageError` for a file that is none."""
    new, old = graphs_of(store)
    for found in judged_threads(store, [thread], new, old):
        return TabContent(list(_lines(found, ui)))
    return TabContent([line(("the thread has no checkpoint to resume", "dim"))])


def _lines(found: JudgedThread, ui: Ui) -> Iterator[StyledLine]:
    verdict = found.verdict
    by = "" if found.graph is None else f"  by {safe_text(found.graph)}"
    when = "" if found.in_flight else "  done: only its state counts"
    yield line((verdict, STYLES.get(verdict, "bold")), by, (when, "dim"))
    if not found.findings and verdict is CompatVerdict.OK:
        yield line(("it goes on as in the old graph", "dim"))
    for one in found.findings:
        yield line("")
        style = STYLES.get(one.verdict, "plain")
        yield line((f"{one.verdict}  ", style), (safe_text(one.where), "node"), f"  {one.code}")
        for text in (one.reason, f"remedy: {one.remedy}"):
            for part in wrap(safe_text(text), ui.width - len(_INDENT)):
                yield line(f"{_INDENT}{part}")


class CompatTab(InspectorTab):
    """What differs when the thread is resumed in the graph that is to be deployed."""

    loading, titled = "Compat: loading", "In the new graph,"

    def __init__(self, context: ScreenContext) -> None:
        self._worker = context.detail
        self._graphs = context.opening.graphs

    async def read(self, asked: TabQuestion) -> TabContent:
        question = partial(read_verdict, thread=asked.subject.thread, ui=asked.ui)
        return await self._worker.ask(question)

    def command(self, store: Sequence[str], subject: Subject) -> str | None:
        if self._graphs is None:
            return None
        return compat_command(store, self._graphs, subject.thread.thread_id)
