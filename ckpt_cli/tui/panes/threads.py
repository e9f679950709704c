"""The pane that lists threads."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from importlib import import_module
from typing import ClassVar

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.message import Message
from textual.widget import Widget

from ckpt_backends.errors import CkptError
from ckpt_backends.model import StoreInfo, Thread
from ckpt_cli.render.text import StyledLine
from ckpt_cli.tui.context import ScreenContext
from ckpt_cli.tui.panes.rows import FilterPane, RowList
from ckpt_cli.tui.panes.thread_list import (
    SORT_NAMES,
    SORTS,
    ThreadFilter,
    ThreadListing,
    ask_parts,
    heading_line,
    needed_width,
    parse_thread_filter,
    read_head_facts,
    read_matches,
    read_possible,
    read_threads,
    thread_line,
    unasked,
    unread,
    unread_near,
)
from ckpt_cli.tui.reading import SHARE, SOON, Changed, Delays, LoadedObjects
from ckpt_cli.tui.styles import as_text, title

_HEADS_NEAR, _HEADS = 50, 500
"""Number of heads read with one query: near the screen, and elsewhere. Small, since other
queries may be waiting.
"""


class ThreadLines(RowList):
    """One line per thread."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("s", "sort", "Sort", show=False)]

    def __init__(self, now: Callable[[], datetime]) -> None:
        super().__init__(id="thread-rows")
        self.listing = ThreadListing()
        self._now = now

    def count(self) -> int:
        return len(self.listing.shown)

    def line_at(self, index: int, width: int) -> StyledLine:
        thread = self.listing.shown[index]
        return thread_line(thread, self.listing.head_of(thread), self._now(), width)

    @property
    def thread(self) -> Thread | None:
        """The thread under the cursor; None if there is none."""
        shown = self.listing.shown
        return shown[self.cursor] if self.cursor < len(shown) else None

    def rebuild(self) -> None:
        """Filter and sort again; the cursor stays on its thread, wherever that is now."""
        kept = self.thread
        self.listing.rebuild()
        at = None if kept is None else self.listing.place_of(kept.thread_id)
        self.resize(self.cursor if at is None else at)

    def action_sort(self) -> None:
        after = (SORTS.index(self.listing.sort) + 1) % len(SORTS)
        self.listing.sort = SORTS[after]
        self.rebuild()
        self.post_message(FilterPane.Narrowed())


class ThreadColumns(Widget):
    """The names of the columns, above the threads."""

    DEFAULT_CSS = "ThreadColumns { height: 1; }"

    def __init__(self, rows: ThreadLines) -> None:
        super().__init__()
        self._rows = rows

    def render(self) -> Text:
        return as_text(heading_line(self._rows.width))


class ThreadsPane(FilterPane):
    """All threads of the store, or those that match the filter; it follows the store."""

    rows: ThreadLines

    class Selected(Message):
        """The thread under the cursor is to be shown, or was listed again."""

    class Entered(Message):
        """A thread was chosen."""

    def __init__(self, context: ScreenContext) -> None:
        hint = "id or title, glob*, status:error, idle > 2h"
        super().__init__(ThreadLines(context.now), hint, self._take_filter, id="threads")
        self.context = context
        self.delays = Delays(self)
        self.info: StoreInfo | None = None
        """What the store says of itself; None until it was opened."""
        self.scans = False
        """Whether listing threads needs a scan, which is repeated on request only."""
        self.problem = ""
        """Why the store cannot be read now."""
        self.is_reading_heads = False
        self.tree_took = 0.0
        """Seconds that the last tree took; the list is read less often while trees take long."""
        self._loaded = LoadedObjects()
        self._selected: str | None = None
        """The thread that was last said to be selected."""
        self._read_for: ThreadFilter | None = None
        """The filter for which heads are read."""
        self._was_asked = False
        """Whether heads were asked for while they were being read."""
        self._longest = 0
        """Columns of the longest row so far; 0 until the rows on the screen are read."""

    def compose(self) -> ComposeResult:
        yield ThreadColumns(self.rows)
        yield from super().compose()

    @property
    def listing(self) -> ThreadListing:
        """What is listed, and what is known of it."""
        return self.rows.listing

    @property
    def number(self) -> str:
        """How many threads are shown, and how many there are."""
        total, shown = len(self.listing.threads), len(self.listing.shown)
        return f"{shown:,} of {total:,}" if shown != total else f"{total:,}"

    @property
    def needed_width(self) -> int | None:
        """Columns in which the first rows are not cut; None until their titles are known."""
        listing, seen = self.listing, self.rows.seen
        shown = listing.shown[seen.start : seen.stop]
        if self._longest or (shown and all(map(listing.head_of, shown))):
            self._longest = max(self._longest, needed_width(listing))
        return self._longest or None

    def show_title(self) -> None:
        """Set the title: the number of threads and their order."""
        sort = self.listing.sort
        title(self, f"Threads: {self.number}{'' if sort == 'last' else f', {SORT_NAMES[sort]}'}")

    def select(self, thread_id: str) -> Thread | None:
        """Go to a thread and return it; clears a filter that hides it. None if it is not listed."""
        at = self.listing.place_of(thread_id)
        if at is None and self.listing.wanted != ThreadFilter():
            self.action_clear()
            at = self.listing.place_of(thread_id)
        if at is None:
            return None
        self._selected = thread_id
        self.rows.cursor = at
        return self.listing.shown[at]

    # The list

    @work(exclusive=True, group="threads")
    async def load(self) -> None:
        """List all threads now, and again after a pause."""
        began = time.monotonic()
        ask = self.context.threads.ask
        try:
            info = self.info
            if info is None:
                info, self.scans = await ask(lambda store: (store.describe(), store.lists_by_scan))
            threads = await ask(partial(read_threads, before=self.listing.threads))
        except CkptError as error:
            self.lose(error)
            self._load_again(self.context.pause)
            return
        self.info, self.problem, self.listing.reads_titles = info, "", not self.scans
        self._take(threads)
        took = time.monotonic() - began
        if not self.scans:
            self._load_again(max(self.context.pause, (took + self.tree_took) * SHARE))

    def _load_again(self, pause: float) -> None:
        if self.context.pause:
            self.delays.after("threads", pause, self.load, refreshes=True)

    def lose(self, error: CkptError) -> None:
        """Say why the store cannot be read, until the threads are listed again."""
        self.problem = f"retrying: {error.message}"
        self.post_message(Changed())

    def _take(self, threads: list[Thread]) -> None:
        if list(self.listing.threads) != threads:
            self._loaded.loaded(len(threads))
            self.listing.take_threads(threads)
            self.rows.rebuild()
        else:
            # The ages have changed.
            self.rows.refresh()
        self.load_heads()
        self.post_message(Changed())
        self._select()

    def _select(self) -> None:
        thread = self.rows.thread
        self._selected = None if thread is None else thread.thread_id
        self.post_message(self.Selected())

    def on_row_list_moved(self, event: RowList.Moved) -> None:
        event.stop()
        thread = self.rows.thread
        if thread is None or thread.thread_id != self._selected:
            self.delays.after("select", SOON, self._select)
        self.load_heads_soon()

    def on_row_list_chosen(self, event: RowList.Chosen) -> None:
        event.stop()
        self.post_message(self.Entered())

    # Heads

    def load_heads_soon(self) -> None:
        """Read the heads that are seen when the cursor rests."""
        self.delays.after("heads", SOON, self.load_heads)

    def load_heads(self) -> None:
        """Read heads: those on the screen, then what a filter asks.

        A running read is restarted only for another filter.
        """
        wanted = self.listing.wanted
        if self.is_reading_heads and self._read_for == wanted:
            self._was_asked = True
            return
        self._read_for = wanted
        self._load_heads()

    @work(exclusive=True, group="heads")
    async def _load_heads(self) -> None:
        self.is_reading_heads = True
        try:
            while True:
                self._was_asked = False
                await self._load_seen_and_asked()
                if not self._was_asked:
                    break
        except CkptError as error:
            self.problem = error.message
        self.is_reading_heads = False
        self.post_message(Changed())

    async def _load_seen_and_asked(self) -> None:
        """Read heads until none is missing. Raises what reading them raises."""
        # Both with the newest last, because they are taken from the end.
        parts: list[Sequence[Thread]] | None = None
        rest: list[Thread] | None = None
        while True:
            if some := unread_near(self.listing, self.rows.seen, _HEADS_NEAR):
                await self._load_facts(some)
            elif parts is None:
                parts = await self._unasked()
            elif parts:
                await self._match(parts.pop())
            elif rest is None:
                rest = unread(self.listing)[::-1]
            elif rest:
                await self._load_facts(rest[-_HEADS:])
                while rest and self.listing.head_of(rest[-1]) is not None:
                    rest.pop()
            else:
                return

    async def _load_facts(self, threads: Sequence[Thread]) -> None:
        """Read what is shown of some heads. Raises what reading them raises."""
        found = await self.context.heads.ask(partial(read_head_facts, threads=threads))
        self._show_again(self.listing.take_heads(threads, found))

    async def _unasked(self) -> list[Sequence[Thread]]:
        """Return the threads of which must be asked whether they match, the newest last.

        The store may say of many that they cannot match. Raises what reading raises.
        """
        listing, now = self.listing, self.context.now()
        found, wanted = unasked(listing, now), listing.wanted.condition
        if wanted is None:
            return []
        if len(found) > _HEADS:
            question = partial(read_possible, wanted=wanted, now=now)
            possible = await self.context.heads.ask(question)
            if possible is not None:
                others = [one for one in found if one.thread_id not in possible]
                found = [one for one in found if one.thread_id in possible]
                self._show_again(listing.answer(others, [False] * len(others), now))
        return ask_parts(found, wanted)[::-1]

    async def _match(self, some: Sequence[Thread]) -> None:
        """Ask whether some threads match the filter. Raises what reading them raises."""
        listing, now = self.listing, self.context.now()
        if (wanted := listing.wanted.condition) is None:
            return
        question = partial(read_matches, threads=some, wanted=wanted, now=now)
        found = await self.context.heads.ask(question)
        if listing.wanted.condition == wanted:
            self._show_again(listing.answer(some, found, now))

    def _show_again(self, changed: bool) -> None:
        """Show the threads with what is known; if others match now, filter and sort again."""
        if changed:
            self.rows.rebuild()
        else:
            self.rows.refresh()
        self.post_message(Changed())

    # The filter

    def action_search(self) -> None:
        super().action_search()
        # Takes 0.1 s, so that the first letter of a filter would have to wait.
        parser = partial(import_module, "ckpt_cli.core.filters")
        self.run_worker(parser, group="parser", exclusive=True, thread=True)

    def _take_filter(self, text: str) -> None:
        self.listing.set_filter(parse_thread_filter(text, self.context.filter_terms()))
        self.rows.rebuild()

    def on_filter_pane_narrowed(self, event: FilterPane.Narrowed) -> None:
        event.stop()
        self.load_heads_soon()
        self.post_message(Changed())
