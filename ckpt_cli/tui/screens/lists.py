"""Lists over the main screen: questions, errors, operations and matches of a search."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.widgets import Input

from ckpt_backends.errors import CkptError
from ckpt_backends.model import CheckpointKey, Thread, ThreadBounds
from ckpt_backends.protocol import Store
from ckpt_cli.core.search import compile_pattern, gave_up, stopped_text
from ckpt_cli.queries import incidents
from ckpt_cli.queries.grep import GrepQuery, grep_thread
from ckpt_cli.queries.operations import ListedOperation
from ckpt_cli.queries.thread_operations import ThreadOperations
from ckpt_cli.render.incidents import FAILURE, FAILURE_COLUMNS, WAITING, WAITING_COLUMNS
from ckpt_cli.render.operations import OPERATION, operation_columns
from ckpt_cli.render.search import HIT_COLUMNS, table_record
from ckpt_cli.render.table import Column, Record, table_lines
from ckpt_cli.render.text import Ui, line, safe_text
from ckpt_cli.tui.context import ScreenContext
from ckpt_cli.tui.keys import OPERATIONS_GROUPS, PLACES_GROUPS, SEARCH_GROUPS, bindings
from ckpt_cli.tui.panes.rows import RowList, SearchableLines, SearchPane
from ckpt_cli.tui.panes.threads import read_threads
from ckpt_cli.tui.reading import error_lines, error_text
from ckpt_cli.tui.screens.dialogs import HelpedScreen, KeyLine
from ckpt_cli.tui.styles import title

_Item = TypeVar("_Item")
_Result = TypeVar("_Result")

_NARROWEST = 72
"""Cells in which any row fits on one line; a narrower pane cuts its end."""


class TableRows(SearchableLines):
    """A header and one line per row."""

    def is_stop(self, index: int) -> bool:
        return index > 0


class PlaceRows(TableRows):
    """Rows that each stand for a checkpoint."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter", "choose", "Go to checkpoint")]


class ListScreen(HelpedScreen[_Result], Generic[_Item, _Result]):
    """A table below a title; each row stands for something that was found."""

    def __init__(
        self, context: ScreenContext, heading: str, rows: TableRows, columns: Iterable[Column]
    ) -> None:
        super().__init__()
        self.context, self.rows, self._heading = context, rows, heading
        self._columns = [one._replace(cut=True) for one in columns]
        self._pane: Vertical = SearchPane(rows, id=f"{rows.id}-pane")
        self.found: list[tuple[_Item, Record]] = []

    def compose(self) -> ComposeResult:
        yield self._pane
        yield KeyLine()

    def on_mount(self) -> None:
        self.begin()

    def begin(self) -> None:
        """Begin to read."""
        self.head("loading")
        self.rows.focus()

    @property
    def chosen(self) -> _Item | None:
        """What the row under the cursor stands for; None if there is none."""
        at = self.rows.cursor - 1
        return self.found[at][0] if 0 <= at < len(self.found) else None

    def head(self, text: str = "") -> None:
        """Set the title."""
        title(self._pane, f"{self._heading}: {text}" if text else self._heading)

    def add(self, found: Sequence[tuple[_Item, Record]]) -> None:
        """Show more rows."""
        self.found += found
        if found:
            self._draw()

    def _draw(self) -> None:
        width = max(self.rows.width, _NARROWEST)
        ui = Ui(self.context.now(), self.context.zone, width)
        records = (record for _, record in self.found)
        self.rows.show_lines([*table_lines(records, self._columns, ui)], self.rows.cursor)

    def say_none(self, said: str) -> None:
        """Say that nothing was found."""
        self.rows.show_lines([line((said, "dim"))])

    def refuse(self, said: str) -> None:
        """Show an error."""
        self.notify(safe_text(said), severity="error", markup=False)

    def on_row_list_reshaped(self, event: RowList.Reshaped) -> None:
        event.stop()
        if self.found:
            self._draw()


class CheckpointList(ListScreen[CheckpointKey, CheckpointKey | None]):
    """A list from which Enter goes to a checkpoint."""

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        event.stop()
        if self.chosen is not None:
            self.dismiss(self.chosen)


@dataclass(frozen=True, slots=True)
class PlaceList:
    """One kind of places at which threads wait, of all threads of a store."""

    name: str
    none: str
    """What to say if there are none."""
    channels: frozenset[str]
    """A thread with such a place has a write on one of these channels at its head."""
    read: Callable[[Store, Sequence[Thread]], Iterator[incidents.Failure | incidents.Waiting]]
    """Reads those of a few hundred threads, in their order."""
    record: Callable[[Any], Mapping[str, Any]]
    columns: Sequence[Column]

    def threads(self, store: Store) -> list[Thread]:
        """Return the threads that may have such places, newest first."""
        return list(store.threads_within(ThreadBounds(head_channels=self.channels)))

    def rows(self, store: Store, threads: Sequence[Thread]) -> list[tuple[CheckpointKey, Record]]:
        """Return the checkpoints and records of a few hundred threads."""
        return [(one.key, self.record(one)) for one in self.read(store, threads)]


QUESTIONS = PlaceList(
    *(
        "Questions",
        "no unanswered questions",
        incidents.QUESTION_CHANNELS,
        incidents.open_questions,
    ),
    *(WAITING.record, [one for one in WAITING_COLUMNS if one.key != "interrupt_id"]),
)
ERRORS = PlaceList(
    *("Errors", "no thread waits after an error", incidents.HEAD_CHANNELS),
    *(incidents.failures_of_threads, FAILURE.record, FAILURE_COLUMNS),
)
_AT_ONCE = 200
"""Number of threads read with one query."""


class PlacesScreen(CheckpointList):
    """One line per place; Enter goes to its checkpoint."""

    GROUPS = PLACES_GROUPS
    BINDINGS: ClassVar[list[BindingType]] = bindings(PLACES_GROUPS)

    def __init__(self, context: ScreenContext, kind: PlaceList) -> None:
        super().__init__(context, kind.name, PlaceRows(id="places"), kind.columns)
        self._kind = kind

    def begin(self) -> None:
        super().begin()
        self._load()

    @work(exclusive=True)
    async def _load(self) -> None:
        ask = self.context.searching.ask
        try:
            threads = await ask(self._kind.threads)
            for start in range(0, len(threads), _AT_ONCE):
                some = threads[start : start + _AT_ONCE]
                self.add(await ask(partial(self._kind.rows, threads=some)))
                read = f"{start + len(some):,} of {len(threads):,} threads read"
                self.head(f"{len(self.found):,} ({read})")
            self.head(f"{len(self.found):,}")
        except CkptError as error:
            self.refuse(error_text(error))
            if not self.found:
                self.head()
                self.rows.show_lines(error_lines(error, self.rows.width))
            return
        if not self.found:
            self.say_none(self._kind.none)


_ABOUT_OPERATIONS = frozenset(
    {"op", "at", "action", "number", "undone_by", "undoes", "reason", "user", "why_not", "ended"}
)
"""What is told of an operation on the thread that the list is about."""


class OperationsScreen(ListScreen[ListedOperation, str | None]):
    """One line per operation, newest first. Returns the id of the one that is to be undone."""

    GROUPS = OPERATIONS_GROUPS
    BINDINGS: ClassVar[list[BindingType]] = bindings(OPERATIONS_GROUPS)

    def __init__(self, context: ScreenContext, thread_id: str, refusal: str) -> None:
        """`refusal` says why nothing can be undone here; empty if it can."""
        name = f"Operations of ckpt on {safe_text(thread_id)}"
        about = [one for one in operation_columns() if one.key in _ABOUT_OPERATIONS]
        columns = [one._replace(table=True, drop=one.drop or (one.key == "ended")) for one in about]
        super().__init__(context, name, TableRows(id="operations"), columns)
        self._operations = ThreadOperations(context.opening, thread_id)
        self._refusal = refusal

    def begin(self) -> None:
        super().begin()
        self._load()

    @work(exclusive=True)
    async def _load(self) -> None:
        # The log is on a disk, and may be long.
        found = await asyncio.to_thread(lambda: self._operations.newest_first)
        self.head(f"{len(found):,}")
        self.add([(one, OPERATION.record(one)) for one in found])
        if not found:
            self.say_none("ckpt recorded no change of this thread")

    def action_undo(self) -> None:
        """Choose the operation under the cursor to be undone, or say why it cannot be."""
        if (one := self.chosen) is None:
            return
        if one.why_not:
            self.refuse(f"cannot undo {one.operation.action} {one.op}: {one.why_not}")
        elif self._refusal:
            self.refuse(self._refusal)
        else:
            self.dismiss(one.op)


_MOST = 2000
"""The search stops after this number of matches."""
_SHOW_AGAIN = 20
"""The title shows the progress again after this number of threads."""


class SearchScreen(CheckpointList):
    """A field for a pattern, and the matches; Enter goes to a match."""

    GROUPS = SEARCH_GROUPS
    BINDINGS: ClassVar[list[BindingType]] = bindings(SEARCH_GROUPS)

    def __init__(self, context: ScreenContext, thread_id: str | None) -> None:
        super().__init__(context, "Search", PlaceRows(id="hits"), HIT_COLUMNS)
        # The key for a search is that of the field.
        self._pane = Vertical(self.rows, id="hits-pane", classes="pane")
        self._thread = thread_id
        self._only_this = thread_id is not None

    def compose(self) -> ComposeResult:
        hint = "regular expression; lower case matches any case"
        self._input = Input(placeholder=hint, id="pattern", compact=True)
        yield self._input
        yield from super().compose()

    def begin(self) -> None:
        self.head()
        self._input.focus()

    def head(self, text: str = "") -> None:
        self._heading = f"Search in {'this thread' if self._only_this else 'all threads'}"
        super().head(text)

    def action_type(self) -> None:
        self._input.focus()

    def action_scope(self) -> None:
        self._only_this = not self._only_this and self._thread is not None
        self.head()
        if self._input.value:
            self._search(self._input.value)

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        if event.value:
            self.rows.focus()
            self._search(event.value)

    @work(exclusive=True)
    async def _search(self, pattern: str) -> None:
        self.found = []
        self.rows.show_lines(())
        try:
            stopped = await self._find(GrepQuery(pattern, ignore_case=pattern.islower()))
        except CkptError as error:
            self.refuse(error_text(error))
            return
        number = len(self.found)
        rest = " (press t to search all threads)" if self._only_this and not number else ""
        first = "first " if number >= _MOST else ""
        self.head(f"{first}{number:,} {'match' if number == 1 else 'matches'}{rest}")
        if stopped:
            said = "search stopped: " if gave_up(stopped) else ""
            self.notify(said + stopped_text(stopped), severity="warning", markup=False)

    async def _find(self, wanted: GrepQuery) -> int:
        """Show the matches of all threads in turn, or of this one.

        Returns the number of threads in which the search took too long. Raises `CkptError`.
        """
        compile_pattern(wanted.pattern, fixed=False, ignore_case=wanted.ignore_case)
        ask, stopped = self.context.searching.ask, 0
        if self._only_this and self._thread is not None:
            ids = [self._thread]
        else:
            ids = [one.thread_id for one in await ask(read_threads)]
        for number, thread_id in enumerate(ids, 1):
            found = await ask(partial(grep_thread, thread_id=thread_id, wanted=wanted))
            self.add([(hit.key, table_record(hit)) for hit in found.hits])
            if number % _SHOW_AGAIN == 0:
                self.head(f"{number:,} of {len(ids):,} threads searched")
            stopped += found.stopped
            if len(self.found) >= _MOST or gave_up(stopped):
                break
        return stopped
