"""Search the values of one thread, or of all threads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widgets import Input
from textual.worker import get_current_worker

from ckpt_backends.errors import CkptError
from ckpt_backends.model import CheckpointKey
from ckpt_backends.protocol import Store
from ckpt_cli.core.search import compile_pattern, gave_up, stopped_text
from ckpt_cli.queries.grep import GrepHit, GrepQuery, grep_thread
from ckpt_cli.reading.store_worker import StoreWorker
from ckpt_cli.render.search import hit_columns, table_record
from ckpt_cli.render.table import table_lines
from ckpt_cli.render.text import StyledLine
from ckpt_cli.tui.content.thread_list import read_threads
from ckpt_cli.tui.keys import bindings, keys_of
from ckpt_cli.tui.list_keys import SEARCH_GROUPS
from ckpt_cli.tui.messages import error_text
from ckpt_cli.tui.panes.footer import KeyLine
from ckpt_cli.tui.panes.row_list import RowList
from ckpt_cli.tui.panes.search import Choices
from ckpt_cli.tui.panes.styles import title
from ckpt_cli.tui.screens.helped import HelpedScreen

_NARROWEST = 72
"""Cells in which any match fits on one line; a narrower pane cuts its end."""
_MOST = 2000
"""The search stops after this number of matches."""
_SHOW_AGAIN = 20
"""The title shows the progress again after this number of threads."""


class Matches(Choices):
    """A header and one line per match."""

    def is_stop(self, index: int) -> bool:
        return index > 0


class SearchScreen(HelpedScreen[CheckpointKey | None]):
    """A field for a pattern, and the matches; Enter goes to a match."""

    GROUPS = SEARCH_GROUPS
    BINDINGS: ClassVar[list[BindingType]] = bindings(keys_of(SEARCH_GROUPS))

    def __init__(self, worker: StoreWorker[Store], thread_id: str | None) -> None:
        super().__init__()
        self._worker = worker
        self._thread = thread_id
        self._only_this = thread_id is not None
        self._found: list[GrepHit] = []

    def compose(self) -> ComposeResult:
        self._input = Input(
            placeholder="regular expression; lower case matches any case",
            id="pattern",
            compact=True,
        )
        yield self._input
        self._rows = Matches(id="hits")
        with Vertical(id="hits-pane", classes="pane") as self._pane:
            yield self._rows
        yield KeyLine()

    def on_mount(self) -> None:
        self._head("")
        self._input.focus()

    def action_type(self) -> None:
        self._input.focus()

    def action_scope(self) -> None:
        self._only_this = not self._only_this and self._thread is not None
        self._head("")
        if self._input.value:
            self._search(self._input.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.value:
            self._rows.focus()
            self._search(event.value)

    def on_row_list_reshaped(self, event: RowList.Reshaped) -> None:
        event.stop()
        self._show()

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        event.stop()
        if 0 < self._rows.cursor <= len(self._found):
            self.dismiss(self._found[self._rows.cursor - 1].key)

    @work(exclusive=True)
    async def _search(self, pattern: str) -> None:
        self._found = []
        self._rows.show_lines(())
        wanted = GrepQuery(pattern, ignore_case=pattern.islower())
        try:
            compile_pattern(pattern, fixed=False, ignore_case=wanted.ignore_case)
            ids = [self._thread] if self._only_this and self._thread is not None else None
            if ids is None:
                ids = [one.thread_id for one in await self._worker.ask(read_threads)]
            stopped = 0
            for number, thread_id in enumerate(ids, 1):
                if get_current_worker().is_cancelled:
                    return
                found = await self._worker.ask(
                    partial(grep_thread, thread_id=thread_id, wanted=wanted)
                )
                self._found += found.hits
                if found.hits:
                    self._show()
                if number % _SHOW_AGAIN == 0:
                    self._head(f"{number:,} of {len(ids):,} threads searched")
                stopped += found.stopped
                if len(self._found) >= _MOST or gave_up(stopped):
                    break
        except CkptError as error:
            self.notify(error_text(error), severity="error", markup=False)
            return
        rest = " (press t to search all threads)" if self._only_this and not self._found else ""
        first = "first " if len(self._found) >= _MOST else ""
        noun = "match" if len(self._found) == 1 else "matches"
        self._head(f"{first}{len(self._found):,} {noun}{rest}")
        if stopped:
            said = "search stopped: " if gave_up(stopped) else ""
            self.notify(said + stopped_text(stopped), severity="warning", markup=False)

    def _head(self, text: str) -> None:
        where = "this thread" if self._only_this else "all threads"
        title(self._pane, f"Search in {where}" + (f": {text}" if text else ""))

    def _show(self) -> None:
        self._rows.show_lines(_table(self._found, self._rows.width), self._rows.cursor)


def _table(hits: Sequence[GrepHit], width: int) -> list[StyledLine]:
    """The table of `ckpt grep`: a header, and one line per match."""
    columns = [one._replace(cut=True) for one in hit_columns()]
    return list(table_lines(map(table_record, hits), columns, max(width, _NARROWEST)))
