"""The unanswered questions of all threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Footer

from ckpt_backends.errors import CkptError
from ckpt_backends.model import CheckpointKey, Thread
from ckpt_backends.protocol import Store
from ckpt_cli.queries.interrupts import Waiting, of_threads
from ckpt_cli.render.terminal.cell_width import cell_len, fit, pad
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.terminal.styled_text import StyledLine, line
from ckpt_cli.render.terminal.units import age
from ckpt_cli.render.values.one_line import summary
from ckpt_cli.tui.content.thread_list import read_threads
from ckpt_cli.tui.panes.row_list import RowList
from ckpt_cli.tui.panes.search import Choices, SearchPane
from ckpt_cli.tui.panes.styles import title
from ckpt_cli.tui.store_worker import StoreWorker

_AT_ONCE = 200
"""Number of threads read with one query."""
_WIDEST_NAME = 30


class QuestionsScreen(Screen[CheckpointKey | None]):
    """One line per question; Enter goes to its checkpoint."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,q", "dismiss(None)", "Close", key_display="Esc"),
    ]

    def __init__(self, worker: StoreWorker[Store], now: Callable[[], datetime]) -> None:
        super().__init__()
        self._worker, self._now = worker, now
        self._found: list[Waiting] = []

    def compose(self) -> ComposeResult:
        self._rows = Choices(id="questions")
        self._pane = SearchPane(self._rows, id="questions-pane")
        yield self._pane
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        title(self._pane, "Questions: loading")
        self._rows.focus()
        self._load()

    @work(exclusive=True)
    async def _load(self) -> None:
        try:
            threads = await self._worker.ask(read_threads)
            for start in range(0, len(threads), _AT_ONCE):
                some = threads[start : start + _AT_ONCE]
                found = await self._worker.ask(partial(_questions, threads=some))
                self._found += found
                read = f"{start + len(some):,} of {len(threads):,} threads read"
                title(self._pane, f"Questions: {len(self._found):,} ({read})")
                if found:
                    self._show()
        except CkptError as error:
            self._pane.notify(safe_text(error.message), severity="error", markup=False)
        if not self._found:
            self._rows.show_lines([line(("no unanswered questions", "dim"))])

    def _show(self) -> None:
        now = self._now()
        width = self._rows.width
        longest = max(cell_len(safe_text(one.key.thread_id)) for one in self._found)
        lines = [_line(one, now, width, min(longest, _WIDEST_NAME)) for one in self._found]
        self._rows.show_lines(lines, self._rows.cursor)

    def on_resize(self) -> None:
        if self._found:
            self._show()

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        event.stop()
        if self._rows.cursor < len(self._found):
            self.dismiss(self._found[self._rows.cursor].key)


def _questions(store: Store, threads: Sequence[Thread]) -> list[Waiting]:
    return list(of_threads(store, threads))


def _line(one: Waiting, now: datetime, width: int, widest: int) -> StyledLine:
    old = age(one.since, now) if one.since is not None else "?"
    name = pad(fit(safe_text(one.key.thread_id), widest), widest)
    node = safe_text(one.question.node or "?")
    room = max(width - cell_len(name) - cell_len(node) - 10, 10)
    return line(
        (name, "head"),
        (f"{old:>5}  ", "time"),
        (node, "node"),
        "  ",
        (summary(one.question.value, room), "question"),
    )
