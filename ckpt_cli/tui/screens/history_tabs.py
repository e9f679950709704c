"""The tabs about what happened in the whole thread: its times and its errors."""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from ckpt_backends.model import CheckpointKey, Thread
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.tui.context import ScreenContext
from ckpt_cli.tui.reading import SHARE
from ckpt_cli.tui.screens.panes import PanesScreen
from ckpt_cli.tui.tabs.content import Tab, ThreadTab

if TYPE_CHECKING:
    from ckpt_cli.core.tree.rows import Key
    from ckpt_cli.tui.tabs.history import KeptTimeline, TimedBranch


class HistoryTabsScreen(PanesScreen):
    """Threads, a tree and a checkpoint, and the history of the whole thread."""

    def __init__(self, context: ScreenContext) -> None:
        super().__init__(context)
        self._errors_of: tuple[Thread, int] | None = None
        """The thread of which the errors are shown, and the width in which they were drawn."""
        self._timelines: KeptTimeline | None = None
        self._timed: TimedBranch | None = None
        self._timed_of: tuple[Thread, int] | None = None
        """The thread of which the timeline is shown, and the width in which it was drawn."""
        self._timed_at: CheckpointKey | None = None
        """The checkpoint whose step is marked in it."""
        self._timed_until = 0.0
        """When the timeline of a thread that grows is read again."""

    @property
    def listed(self) -> Thread | None:
        """The thread that is shown; None while another one is being read."""
        thread = self.rows.thread
        is_shown = thread is not None and thread.thread_id == self.view.thread_id
        return thread if is_shown else None

    # Timeline

    async def load_timeline(self, place: CheckpointKey) -> None:
        """Show the timeline at the step of a checkpoint; it is read if it does not have that step.

        That of a thread that grows is read again, but not all the time.
        """
        # Not needed until the tab is opened.
        from ckpt_cli.tui.tabs.history import KeptTimeline

        thread, width = self.listed, max(self.inspector.document.width, 1)
        whole = _whole(place.thread_id, "timeline")
        if thread is None:
            return
        key = place.checkpoint_ns, place.checkpoint_id
        if self.read == whole and self._is_timed(key, thread, width):
            self._show_step_time(place)
            return
        kept = self._timelines = self._timelines or KeptTimeline()
        began = time.monotonic()
        question = partial(kept.read, place=place, clock=self.clock, width=width)
        with self.inspector.while_loading("Timeline: loading"):
            found = await self.ask(self.context.searching, question, self.no_document)
        if found is None:
            self.read = None
            return
        if self.read != whole:
            self._timed_at = None
        self._timed, self._timed_of = found, (thread, width)
        self._timed_until = time.monotonic() + (time.monotonic() - began) * SHARE
        self.inspector.document.show_document(found.content, keep=self.read == whole)
        self.read, self.shown = whole, None
        self._show_step_time(place)

    def _is_timed(self, key: Key, thread: Thread, width: int) -> bool:
        """Return whether the timeline that is shown has a step, and need not be read again."""
        if self._timed is None or self._timed_of is None or key not in self._timed.lines:
            return False
        of, drawn_width = self._timed_of
        is_new = of == thread or time.monotonic() < self._timed_until
        return drawn_width == width and of.thread_id == thread.thread_id and is_new

    def timed_tip(self, place: CheckpointKey) -> CheckpointKey:
        """Return the checkpoint with which the timeline that is shown ends."""
        whole = _whole(place.thread_id, "timeline")
        if self._timed is None or self.read != whole:
            return place
        return CheckpointKey(place.thread_id, *self._timed.tip)

    def _show_step_time(self, place: CheckpointKey) -> None:
        """Mark the line of a step in the timeline, and go there if another one was marked."""
        self.inspector.set_heading(self.name_of(place))
        if self._timed is not None:
            at = self._timed.lines.get((place.checkpoint_ns, place.checkpoint_id))
            self.inspector.document.sign_line(at, goes=place != self._timed_at)
            self._timed_at = place

    # Errors

    async def load_errors(self, thread_id: str) -> None:
        """Read all failed tasks of the thread that is shown, unless it is unchanged."""
        from ckpt_cli.tui.tabs.history import read_thread_errors

        thread, width = self.listed, max(self.inspector.document.width, 1)
        whole = _whole(thread_id, "errors")
        if thread is None or (self.read == whole and self._errors_of == (thread, width)):
            return
        question = partial(read_thread_errors, thread=thread, clock=self.clock, width=width)
        with self.inspector.while_loading("Errors: loading"):
            document = await self.ask(self.context.detail, question, self.no_document)
            self.inspector.set_heading(f"Errors of {safe_text(thread_id)}")
        if document is None:
            self.read = None
            return
        self.inspector.document.show_document(document, keep=self.read == whole)
        self.read, self.shown = whole, None
        self._errors_of = thread, width


def _whole(thread_id: str, tab: ThreadTab) -> tuple[CheckpointKey, Tab]:
    """Return what is shown of a thread, in place of one of its checkpoints."""
    return CheckpointKey(thread_id, "", ""), tab
