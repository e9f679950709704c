"""The tabs about the whole thread; its findings and long-term memory are read here."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from textual import work

from ckpt_backends.errors import CkptError
from ckpt_backends.model import CheckpointKey, Thread
from ckpt_cli.render.terminal.safe_text import safe_text
from ckpt_cli.render.values.one_line import counted
from ckpt_cli.tui import command_line
from ckpt_cli.tui.context import ScreenContext
from ckpt_cli.tui.panes.tree_picture import TreePicture
from ckpt_cli.tui.reading import SHARE, error_lines
from ckpt_cli.tui.screens.history_tabs import HistoryTabsScreen
from ckpt_cli.tui.styles import title
from ckpt_cli.tui.tabs.content import Tab, TabContent, ThreadTab, base_of

if TYPE_CHECKING:
    from ckpt_cli.tui.tabs.findings import CheckedThread

_MOST_CHECKED = 200
"""Number of threads of which the findings are kept."""
_RESTED = 0.5
"""Seconds that a tree must be shown before its thread is checked."""


class ThreadTabsScreen(HistoryTabsScreen):
    """Threads, a tree and a checkpoint, and what is known about the whole thread."""

    def __init__(self, context: ScreenContext) -> None:
        super().__init__(context)
        self.is_memory_fresh = False
        """Whether the memory of the thread was read recently."""
        self._checked: dict[str, CheckedThread] = {}
        """What was found in each thread that was checked."""
        self._checking: set[str] = set()
        """The threads of which every value is being checked."""
        self._check_took = 0.0
        self._quick_check = asyncio.Lock()
        """So that a thread is not checked twice at the same time."""

    async def load_thread_tab(self, tab: ThreadTab, place: CheckpointKey) -> None:
        thread_id = place.thread_id
        match tab:
            case "timeline":
                await self.load_timeline(place)
            case "memory":
                await self._load_memory(thread_id)
            case "findings":
                await self._load_findings(thread_id)
            case "errors":
                await self.load_errors(thread_id)

    def action_difference(self, way: int) -> None:
        """Go to the next or previous change in the tab State or Diff."""
        if self.inspector.tab not in ("state", "diff"):
            self.say("nothing to go to: / searches a pane, and State and Diff have changes")
            return
        said = self.inspector.document.next_change(way)
        title(self.inspector, f"{self.inspector.heading}: {said}")

    def tab_command(self, place: CheckpointKey) -> str | None:
        """Return the command that prints the tab that is shown; None if no command does."""
        store, tab = self.context.store_words, self.inspector.tab
        match tab:
            case "memory":
                memory = self.context.memory_named.name
                return command_line.thread_memory_command(store, memory, place.thread_id)
            case "findings":
                deep = self.checked is not None and self.checked.is_deep
                return command_line.check_command(store, place.thread_id, deep=deep)
            case "errors":
                return command_line.errors_command(store, place.thread_id)
            case "timeline":
                return command_line.timeline_command(store, self.timed_tip(place))
        return command_line.tab_command(store, tab, place, base_of(self.base, place))

    # Findings

    @property
    def checked(self) -> CheckedThread | None:
        """What was found in the thread that is shown; None if it was not checked as it is now."""
        thread = self.listed
        found = None if thread is None else self._checked.get(thread.thread_id)
        return found if found is not None and found.thread == thread else None

    def draw(self, picture: TreePicture) -> None:
        super().draw(picture)
        self._mark()
        # A store that lists by scans may charge for each read.
        if self.checked is None and not self._scans:
            pause = max(_RESTED, self._check_took * SHARE)
            self.schedule("findings", pause, self.load_findings)

    def _mark(self) -> None:
        """Mark the checkpoints with findings in the tree, and say how many findings there are."""
        if self.view.thread_id is None or self.view.tree is None:
            return
        found = self._checked.get(self.view.thread_id)
        self.tree_rows.show_found(frozenset() if found is None else found.keys)
        number = 0 if found is None else len(found.report.findings)
        more = f", {counted(number, 'finding')}" if number else ""
        title(self.tree_pane, f"{self.tree_heading}{more}")

    @work(exclusive=True, group="findings")
    async def load_findings(self) -> None:
        """Check the thread that is shown, quickly."""
        if await self._check_quickly(self.show_error):
            self._show_findings()

    async def _check_quickly(self, otherwise: Callable[[CkptError], None]) -> bool:
        """Check the thread that is shown, if it was not checked yet; return whether it was."""
        async with self._quick_check:
            thread = self.listed
            if thread is None or self.checked is not None:
                return False
            await self._check(thread, otherwise, deep=False)
        return True

    async def _check(
        self, thread: Thread, otherwise: Callable[[CkptError], None], *, deep: bool
    ) -> None:
        # Not needed until the screen is shown.
        from ckpt_cli.tui.tabs.findings import read_findings

        began = time.monotonic()
        question = partial(
            read_findings,
            thread=thread,
            rules=self.context.rules,
            now=self.context.now(),
            deep=deep,
        )
        # A quick check is as short as reading a few heads.
        worker = self.context.checking if deep else self.context.heads
        found = await self.ask(worker, question, otherwise)
        if found is None:
            return
        if not deep:
            self._check_took = time.monotonic() - began
        self._checked[thread.thread_id] = found
        if len(self._checked) > _MOST_CHECKED:
            del self._checked[next(iter(self._checked))]
        self._mark()

    async def _load_findings(self, thread_id: str) -> None:
        from ckpt_cli.tui.tabs.findings import findings_content

        thread = self.listed
        if thread is None:
            return
        with self.inspector.while_loading("Findings: loading"):
            is_known = thread_id in self._checked
            await self._check_quickly(self.show_error if is_known else self.no_document)
            self.inspector.set_heading(f"Findings in {safe_text(thread_id)}")
        found = self._checked.get(thread_id)
        if found is None:
            self.read = None
            return
        document = findings_content(
            found,
            self.context.store_words,
            max(self.inspector.document.width, 1),
            is_checking=thread_id in self._checking,
        )
        whole: tuple[CheckpointKey, Tab] = (CheckpointKey(thread_id, "", ""), "findings")
        is_same = self.read == whole
        if not (is_same and self.inspector.document.document == document):
            self.inspector.document.show_document(document, keep=is_same)
        self.read, self.shown = whole, None

    @work(group="deep")
    async def check_deep(self) -> None:
        """Check every value of the thread that is shown."""
        thread = self.listed
        if thread is None or thread.thread_id in self._checking:
            return
        self._checking.add(thread.thread_id)
        self._show_findings()
        try:
            await self._check(thread, self.show_error, deep=True)
        finally:
            self._checking.discard(thread.thread_id)
        self._show_findings()

    def _show_findings(self) -> None:
        if self.inspector.tab == "findings":
            self.load_document()

    def forget_findings(self) -> None:
        """Check the threads again when they are shown."""
        self._checked.clear()

    # Memory

    async def _load_memory(self, thread_id: str) -> None:
        """Read the memory items that came from a thread."""
        from ckpt_cli.tui.tabs.memory import read_thread_memory

        whole: tuple[CheckpointKey, Tab] = (CheckpointKey(thread_id, "", ""), "memory")
        if self.read == whole and self.is_memory_fresh:
            return
        began = time.monotonic()
        question = partial(
            read_thread_memory,
            thread_id=thread_id,
            clock=self.clock,
            width=max(self.inspector.document.width, 1),
            redacted=self.context.opening.redact,
        )
        with self.inspector.while_loading("Memory: loading"):
            try:
                document = await self.context.memory.ask(question)
            except CkptError as error:
                document = TabContent(error_lines(error, self.inspector.document.width))
            self.inspector.set_heading(f"Memory from {safe_text(thread_id)}")
        self.inspector.document.show_document(document, keep=self.read == whole)
        self.read, self.shown, self.is_memory_fresh = whole, None, True
        if self.context.pause:
            pause = max(self.context.pause, (time.monotonic() - began) * SHARE)
            self.schedule("memory", pause, self.load_memory_again)

    def load_memory_again(self) -> None:
        """Read the memory again, because it may have changed."""
        self.is_memory_fresh = False
        if self.inspector.tab == "memory":
            self.load_document()
