"""What lies over the main screen: questions, errors, operations and matches, one line each."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import ClassVar, Generic, TypeVar

from textual import work
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.widgets import Input
from textual.worker import get_current_worker

from ckpt_backends.errors import CkptError
from ckpt_backends.model import CheckpointKey, Thread
from ckpt_backends.protocol import Store
from ckpt_backends.thread_bounds import ThreadBounds
from ckpt_cli.core.search import compile_pattern, gave_up, stopped_text
from ckpt_cli.core.tasks import error_start
from ckpt_cli.queries import incidents
from ckpt_cli.queries.grep import GrepHit, GrepQuery, grep_thread
from ckpt_cli.queries.operations import ListedOperation
from ckpt_cli.queries.thread_operations import ThreadOperations
from ckpt_cli.reading.store import Opening
from ckpt_cli.reading.store_worker import StoreWorker
from ckpt_cli.render.search import hit_columns, table_record
from ckpt_cli.render.table import age, table_lines
from ckpt_cli.render.text import Style, StyledLine, cell_len, fit, line, pad, safe_text, visible_id
from ckpt_cli.render.values import summary
from ckpt_cli.tui.keys import OPERATIONS_GROUPS, PLACES_GROUPS, SEARCH_GROUPS, bindings, keys_of
from ckpt_cli.tui.messages import error_text
from ckpt_cli.tui.panes.footer import KeyLine
from ckpt_cli.tui.panes.rows import Choices, RowList, SearchableLines, SearchPane
from ckpt_cli.tui.panes.thread_list import read_threads
from ckpt_cli.tui.reading import error_lines
from ckpt_cli.tui.screens.text import HelpedScreen
from ckpt_cli.tui.styles import title

_Result = TypeVar("_Result")

_LONGEST = 500
"""Maximum number of columns of a question or an error."""
_WIDEST_NAME = 30


@dataclass(frozen=True, slots=True)
class WaitingPlace:
    """A checkpoint at which a thread waits."""

    key: CheckpointKey
    since: datetime | None
    node: str
    reason: str
    """The question or the error, without control characters."""


@dataclass(frozen=True, slots=True)
class PlaceList:
    """One kind of places, of all threads of a store."""

    name: str
    none: str
    """What to say if there are none."""
    channels: frozenset[str]
    """A thread with such a place has a write on one of these channels at its head."""
    read: Callable[[Store, Sequence[Thread]], list[WaitingPlace]]
    """Reads those of a few hundred threads, in their order."""
    style: Style

    def threads(self, store: Store) -> list[Thread]:
        """Return the threads that may have such places, newest first."""
        return list(store.threads_within(ThreadBounds(head_channels=self.channels)))


def _questions(store: Store, threads: Sequence[Thread]) -> list[WaitingPlace]:
    return [
        WaitingPlace(
            one.key,
            one.since,
            safe_text(one.question.node or "?"),
            summary(one.question.value, _LONGEST),
        )
        for one in incidents.open_questions(store, threads)
    ]


def _errors(store: Store, threads: Sequence[Thread]) -> list[WaitingPlace]:
    return [
        WaitingPlace(one.key, one.at, safe_text(one.node), safe_text(error_start(one.error)))
        for one in incidents.failures_of_threads(store, threads)
    ]


QUESTIONS = PlaceList(
    "Questions", "no unanswered questions", incidents.QUESTION_CHANNELS, _questions, "question"
)
ERRORS = PlaceList(
    "Errors", "no thread waits after an error", incidents.HEAD_CHANNELS, _errors, "error"
)


def place_lines(
    places: Sequence[WaitingPlace], style: Style, now: datetime, width: int
) -> list[StyledLine]:
    """Return one line per place: thread, age, node and reason."""
    longest = max((cell_len(safe_text(visible_id(one.key.thread_id))) for one in places), default=0)
    widest = min(longest, _WIDEST_NAME)
    return [_line(one, style, now, width, widest) for one in places]


def _line(one: WaitingPlace, style: Style, now: datetime, width: int, widest: int) -> StyledLine:
    old = age(one.since, now) if one.since is not None else "?"
    name = pad(fit(safe_text(visible_id(one.key.thread_id)), widest), widest)
    room = max(width - cell_len(name) - cell_len(one.node) - 10, 10)
    return line(
        (name, "head"),
        (f"{old:>5}  ", "time"),
        (one.node, "node"),
        "  ",
        (fit(one.reason, room), style),
    )


_AT_ONCE = 200
"""Number of threads read with one query."""


class ListScreen(HelpedScreen[_Result], Generic[_Result]):
    """Lines below a title."""

    def __init__(self, heading: str, rows: SearchableLines) -> None:
        super().__init__()
        self._heading, self._rows = heading, rows
        self._pane = SearchPane(rows, id=f"{rows.id}-pane")

    def compose(self) -> ComposeResult:
        yield self._pane
        yield KeyLine()

    def on_mount(self) -> None:
        self.head("loading")
        self._rows.focus()

    def head(self, text: str = "") -> None:
        """Set the title."""
        title(self._pane, f"{self._heading}: {text}" if text else self._heading)


class PlacesScreen(ListScreen[CheckpointKey | None]):
    """One line per place; Enter goes to its checkpoint."""

    GROUPS = PLACES_GROUPS
    BINDINGS: ClassVar[list[BindingType]] = bindings(keys_of(PLACES_GROUPS))

    def __init__(
        self, kind: PlaceList, worker: StoreWorker[Store], now: Callable[[], datetime]
    ) -> None:
        super().__init__(kind.name, Choices(id="places"))
        self._kind, self._worker, self._now = kind, worker, now
        self._found: list[WaitingPlace] = []

    def on_mount(self) -> None:
        self._load()

    @work(exclusive=True)
    async def _load(self) -> None:
        try:
            threads = await self._worker.ask(self._kind.threads)
            for start in range(0, len(threads), _AT_ONCE):
                some = threads[start : start + _AT_ONCE]
                found = await self._worker.ask(partial(self._read, some))
                self._found += found
                read = f"{start + len(some):,} of {len(threads):,} threads read"
                self.head(f"{len(self._found):,} ({read})")
                if found:
                    self._show()
            self.head(f"{len(self._found):,}")
        except CkptError as error:
            self._pane.notify(error_text(error), severity="error", markup=False)
            if not self._found:
                self.head()
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


class OperationsScreen(ListScreen[str | None]):
    """One line per operation, newest first. Returns the id of the one that is to be undone."""

    GROUPS = OPERATIONS_GROUPS
    BINDINGS: ClassVar[list[BindingType]] = bindings(keys_of(OPERATIONS_GROUPS))

    def __init__(self, opening: Opening, thread_id: str, now: datetime, refusal: str) -> None:
        """`refusal` says why nothing can be undone here; empty if it can."""
        name = f"Operations of ckpt on {safe_text(thread_id)}"
        super().__init__(name, SearchableLines(id="operations"))
        self._operations = ThreadOperations(opening, thread_id)
        self._now, self._refusal = now, refusal
        self._found: Sequence[ListedOperation] = ()

    def on_mount(self) -> None:
        self._load()

    @work(exclusive=True)
    async def _load(self) -> None:
        # The log is on a disk, and may be long.
        found = await asyncio.to_thread(lambda: self._operations.newest_first)
        self.head(f"{len(found):,}")
        self._found = found
        self._rows.show_lines(operation_lines(found, self._now))

    def action_undo(self) -> None:
        """Choose the operation under the cursor to be undone, or say why it cannot be."""
        if not self._found:
            return
        one = self._found[self._rows.cursor]
        if one.why_not:
            self._refuse(f"cannot undo {one.operation.action} {one.op}: {one.why_not}")
        elif self._refusal:
            self._refuse(self._refusal)
        else:
            self.dismiss(one.op)

    def _refuse(self, said: str) -> None:
        self.notify(safe_text(said), severity="error", markup=False)


def operation_lines(found: Sequence[ListedOperation], now: datetime) -> list[StyledLine]:
    """Return one line per operation: its age, action, id, user, reason, and what became of it."""
    if not found:
        return [line(("ckpt recorded no change of this thread", "dim"))]
    longest = max(len(one.operation.action) for one in found)
    return [_operation_line(one, now, longest) for one in found]


def _operation_line(one: ListedOperation, now: datetime, longest: int) -> StyledLine:
    operation = one.operation
    others = operation.number - 1
    said = [
        f"by {operation.user}" if operation.user else "",
        f"with {others:,} other threads" if others > 1 else "",
        f"undoes {operation.undoes}" if operation.undoes else "",
        _became(one),
        operation.reason or "",
        operation.ended,
    ]
    return line(
        (f"{age(operation.at, now):>5}  ", "time"),
        (f"{safe_text(operation.action):{longest}}  ", "head"),
        (operation.op, "id"),
        (f"  {safe_text('; '.join(filter(None, said)))}", "dim" if one.undone_by else "plain"),
    )


def _became(one: ListedOperation) -> str:
    if one.undone_by is not None:
        return f"undone by {one.undone_by}"
    return f"cannot be undone: {one.why_not}" if one.why_not else ""


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
