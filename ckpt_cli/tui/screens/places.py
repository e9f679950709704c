"""The unanswered questions, or the failed tasks, of all threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType

from ckpt_backends.chunks import in_chunks
from ckpt_backends.errors import CkptError
from ckpt_backends.model import CheckpointKey, Thread
from ckpt_backends.protocol import Store
from ckpt_cli.reading.store_worker import StoreWorker
from ckpt_cli.render.text import line
from ckpt_cli.tui.content.places import PlaceList, WaitingPlace, place_lines
from ckpt_cli.tui.keys import bindings, keys_of
from ckpt_cli.tui.list_keys import PLACES_GROUPS
from ckpt_cli.tui.messages import error_text
from ckpt_cli.tui.panes.footer import KeyLine
from ckpt_cli.tui.panes.row_list import RowList
from ckpt_cli.tui.panes.search import Choices, SearchPane
from ckpt_cli.tui.panes.styles import title
from ckpt_cli.tui.screens.base import error_lines
from ckpt_cli.tui.screens.helped import HelpedScreen

"""Number of threads read with one query."""


class PlacesScreen(HelpedScreen[CheckpointKey | None]):
    """One line per place; Enter goes to its checkpoint."""

    GROUPS = PLACES_GROUPS
    BINDINGS: ClassVar[list[BindingType]] = bindings(keys_of(PLACES_GROUPS))

    def __init__(
        self, kind: PlaceList, worker: StoreWorker[Store], now: Callable[[], datetime]
    ) -> None:
        super().__init__()
        self._kind, self._worker, self._now = kind, worker, now
        self._found: list[WaitingPlace] = []

    def compose(self) -> ComposeResult:
        self._rows = Choices(id="places")
        self._pane = SearchPane(self._rows, id="places-pane")
        yield self._pane
        yield KeyLine()

    def on_mount(self) -> None:
        title(self._pane, f"{self._kind.name}: loading")
        self._rows.focus()
        self._load()

    @work(exclusive=True)
    async def _load(self) -> None:
        name = self._kind.name
        try:
            threads = await self._worker.ask(self._kind.threads)
            done = 0
            for some in in_chunks(threads):
                found = await self._worker.ask(partial(self._read, some))
                self._found += found
                done += len(some)
                read = f"{done:,} of {len(threads):,} threads read"
                title(self._pane, f"{name}: {len(self._found):,} ({read})")
                if found:
                    self._show()
            title(self._pane, f"{name}: {len(self._found):,}")
        except CkptError as error:
            self._pane.notify(error_text(error), severity="error", markup=False)
            if not self._found:
                title(self._pane, name)
                self._rows.show_lines(error_lines(error, self._rows.width))
            return
        if not self._found:
            self._rows.show_lines([line((self._kind.none, "dim"))])

    def _read(self, threads: Sequence[Thread], store: Store) -> list[WaitingPlace]:
        return self._kind.read(store, threads)

    def _show(self) -> None:
        lines = place_lines(self._found, self._kind.style, self._now(), self._rows.width)
        self._rows.show_lines(lines, self._rows.cursor)

    def on_resize(self) -> None:
        if self._found:
            self._show()

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        event.stop()
        if self._rows.cursor < len(self._found):
            self.dismiss(self._found[self._rows.cursor].key)
