"""Reading the list of threads, and the heads that are seen or that a filter asks for."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial

from textual import work

from ckpt_backends.errors import CkptError
from ckpt_backends.model import StoreInfo, Thread
from ckpt_cli.tui.context import ScreenContext
from ckpt_cli.tui.panes.thread_list import (
    ThreadFilter,
    ask_parts,
    read_head_facts,
    read_matches,
    read_possible,
    read_threads,
    unasked,
    unread,
    unread_near,
)
from ckpt_cli.tui.panes.threads import ThreadLines
from ckpt_cli.tui.reading import SHARE, LoadedObjects, StoreScreen

_HEADS_NEAR, _HEADS = 50, 500
"""Number of heads read with one query: near the screen, and elsewhere. Small, since other
queries may be waiting.
"""


class ThreadReadingScreen(StoreScreen[None]):
    """A screen that lists threads, and reads of them what is seen and what a filter asks."""

    rows: ThreadLines

    def __init__(self, context: ScreenContext) -> None:
        super().__init__()
        self.context = context
        self._info: StoreInfo | None = None
        self._problem = ""
        self._loaded_threads = LoadedObjects()
        self._scans = False
        """Whether listing threads needs a scan, which is repeated on request only."""
        self.tree_took = 0.0
        """Seconds that the last tree took."""
        self._reading_heads = False
        self._read_for: ThreadFilter | None = None
        """The filter for which heads are read."""
        self._was_asked = False
        """Whether heads were asked for while they were being read."""

    @work(exclusive=True, group="threads")
    async def load_threads(self) -> None:
        """List all threads now, and again after a pause."""
        began = time.monotonic()
        try:
            info = self._info
            if info is None:
                info, self._scans = await self.context.threads.ask(
                    lambda store: (store.describe(), store.lists_by_scan)
                )
            before = self.rows.listing.threads
            threads = await self.context.threads.ask(partial(read_threads, before=before))
            self._info, self.rows.listing.reads_titles = info, not self._scans
        except CkptError as error:
            self._problem = f"retrying: {error.message}"
            self.show_status()
            self._again(self.context.pause)
            return
        self._problem = ""
        self._take(threads)
        took = time.monotonic() - began
        if not self._scans:
            self._again(max(self.context.pause, (took + self.tree_took) * SHARE))

    def _again(self, pause: float) -> None:
        if self.context.pause:
            self.schedule("threads", pause, self.load_threads)

    def _take(self, threads: list[Thread]) -> None:
        listing = self.rows.listing
        before = self.rows.thread
        if list(listing.threads) != threads:
            self._loaded_threads.loaded(len(threads))
            listing.take_threads(threads)
            self.rows.rebuild(before.thread_id if before is not None else None)
        else:
            # The ages have changed.
            self.rows.refresh()
        self.read_heads()
        self.show_status()
        self.load_tree()

    def read_heads(self) -> None:
        """Read heads: those on the screen, then what a filter asks.

        A running read is restarted only for another filter.
        """
        wanted = self.rows.listing.wanted
        is_reading = any(one.group == "heads" and not one.is_finished for one in self.workers)
        if is_reading and self._read_for == wanted:
            self._was_asked = True
            return
        self._read_for = wanted
        self._read_heads()

    @work(exclusive=True, group="heads")
    async def _read_heads(self) -> None:
        self._reading_heads = True
        try:
            while True:
                self._was_asked = False
                await self._read_seen_and_asked()
                if not self._was_asked:
                    break
        except CkptError as error:
            self._problem = error.message
        self._reading_heads = False
        self.show_status()

    async def _read_seen_and_asked(self) -> None:
        """Read heads until none is missing. Raises what reading them raises."""
        listing = self.rows.listing
        # Both with the newest last, because they are taken from the end.
        parts: list[Sequence[Thread]] | None = None
        rest: list[Thread] | None = None
        while True:
            if some := unread_near(listing, self.rows.seen, _HEADS_NEAR):
                await self._read_facts(some)
            elif parts is None:
                parts = await self._unasked()
            elif parts:
                await self._match(parts.pop())
            elif rest is None:
                rest = unread(listing)[::-1]
            elif rest:
                await self._read_facts(rest[-_HEADS:])
                while rest and listing.head_of(rest[-1]) is not None:
                    rest.pop()
            else:
                return

    async def _read_facts(self, threads: Sequence[Thread]) -> None:
        """Read what is shown of some heads. Raises what reading them raises."""
        found = await self.context.heads.ask(partial(read_head_facts, threads=threads))
        self._show_again(self.rows.listing.take_heads(threads, found))

    async def _unasked(self) -> list[Sequence[Thread]]:
        """Return the threads of which must be asked whether they match, the newest last.

        The store may say of many that they cannot match. Raises what reading raises.
        """
        listing, now = self.rows.listing, self.context.now()
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
        listing, now = self.rows.listing, self.context.now()
        if (wanted := listing.wanted.condition) is None:
            return
        question = partial(read_matches, threads=some, wanted=wanted, now=now)
        found = await self.context.heads.ask(question)
        if listing.wanted.condition == wanted:
            self._show_again(listing.answer(some, found, now))

    def _show_again(self, changed: bool) -> None:
        """Show the threads with what is known; if others match now, filter and sort again."""
        if changed:
            kept = self.rows.thread
            self.rows.rebuild(kept.thread_id if kept is not None else None)
        else:
            self.rows.refresh()
        self.show_status()

    def show_status(self) -> None:
        """Show what the screen does now."""
        raise NotImplementedError

    def load_tree(self) -> object:
        """Read the tree of the thread under the cursor."""
        raise NotImplementedError
